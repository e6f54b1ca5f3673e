/*
 * schedule: the tickets that a lane has leased, and which of them is next.
 *
 * Tickets that are due stand in a queue in the order they came; those that wait
 * for a time are in a heap. When both have one, they take turns: neither a backlog
 * nor a crowd of failing tickets keeps the other from its turn.
 *
 * Tickets with the same non-zero order (an entity) go one after the other, by
 * ticket number. Only the first of them is in queue or heap, or under way; the
 * others hang behind it, and the first of those moves up when it leaves. A ticket
 * with a lower number that comes late (it was released) goes before all that are
 * not under way.
 *
 * Cost:      no work for tickets that only stand there. Adding and starting in
 *            constant time from the queue, logarithmic from the heap. The
 *            first schedule_find() among many makes an index; others are in constant
 *            time.
 * Memory:    48 bytes a ticket, 4 for one that waits for a time, about 20 for an
 *            entity: at most 80 a ticket, and about 24 for the index. Given back when
 *            it is empty.
 *
 * Room:      deliver. Threads: one owner; `now_ms` is a parameter.
 * Ownership: a place (uint32_t) is its ticket's from start to schedule_again() or
 *            schedule_remove(); the place of one that has not started may change
 *            with the next schedule_add().
 * Failure:   -ENOMEM of schedule_add(): nothing has changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/map.h"

#define SCHEDULE_NONE UINT32_MAX

enum schedule_state {
	SCHEDULE_FREE = 0,
	SCHEDULE_QUEUED,  /* due */
	SCHEDULE_WAITING, /* for its time */
	SCHEDULE_BLOCKED, /* behind another of its entity */
	SCHEDULE_STARTED,
	SCHEDULE_SKIPPED, /* the queue's: it has left, its place has not */
};

struct schedule_ticket {
	uint64_t ticket;
	uint64_t order;  /* 0: none */
	uint64_t due_ms; /* in the past: now */
	uint32_t attempt;
	uint32_t lease; /* the owner's */
	uint8_t leg;    /* ticket - leg is the event's */
	uint8_t marks;  /* the owner's */
	uint8_t state;  /* enum schedule_state; set here */
	uint8_t unused;
	/* private: */
	uint32_t next; /* behind it in its entity; or in the list of the free */
	uint32_t at;   /* heap: place in it; queue: who is next */
	uint32_t tail; /* of the first of an entity: the last of it */
};
_Static_assert(sizeof(struct schedule_ticket) == 48, "what the header promises");

struct schedule {
	struct schedule_ticket *tickets;
	uint32_t room, used, free;
	uint32_t count;   /* tickets in it */
	uint32_t started; /* of them */
	uint32_t queued;  /* of them */
	uint32_t queue_head, queue_tail;
	uint32_t *heap;
	uint32_t heap_count, heap_room;
	struct map entities; /* the place of an entity's first, by order */
	struct map numbers;  /* the places of all, by ticket, if `indexed` */
	bool indexed;        /* a ticket was looked up among many */
	bool heap_turn;
};

void schedule_init(struct schedule *schedule);
void schedule_free(struct schedule *schedule);

/* Takes a copy, of ticket, order, due_ms, attempt, lease, leg and marks. */
int schedule_add(struct schedule *schedule, const struct schedule_ticket *ticket, uint64_t now_ms,
                 uint32_t *ret_place) must_check;

/* Is there one that may start now? */
bool schedule_is_due(const struct schedule *schedule, uint64_t now_ms);

/* When the next one is due that waits for its time; UINT64_MAX: none does. */
uint64_t schedule_due_ms(const struct schedule *schedule);

/* The next to start, which is started by this; SCHEDULE_NONE. */
uint32_t schedule_start(struct schedule *schedule, uint64_t now_ms);

/* That one, if it is the next in the queue; false if not. */
bool schedule_start_this(struct schedule *schedule, uint32_t place);

/* A started one goes back and is due then. */
void schedule_again(struct schedule *schedule, uint32_t place, uint64_t due_ms, uint64_t now_ms);

/* One that waits is due now. False if it is not waiting. */
bool schedule_hurry(struct schedule *schedule, uint32_t place);

/* It has left, whatever it was doing. */
void schedule_remove(struct schedule *schedule, uint32_t place);

uint32_t schedule_find(struct schedule *schedule, uint64_t ticket); /* or SCHEDULE_NONE */

/* The first of its entity; of one that has none, itself. */
uint32_t schedule_first(const struct schedule *schedule, uint32_t place);

/* All tickets in it: start with SCHEDULE_NONE; ends with it. */
uint32_t schedule_each(const struct schedule *schedule, uint32_t place);

static inline struct schedule_ticket *schedule_at(struct schedule *schedule, uint32_t place)
{
	CHECK(place < schedule->used);
	return &schedule->tickets[place];
}
