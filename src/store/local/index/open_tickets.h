/*
 * open_tickets: the tickets that are not settled, in the order of their numbers.
 *
 * A new ticket goes to the end; one that recovery meets late (its record was carried
 * forward) goes to its place in the order. They are kept in blocks,
 * so that memory follows what is open even when a few old tickets stay for ever.
 *
 * A ticket's life:
 *
 *   insert ──► due ──take──► leased ──┐
 *               ▲                     ▼
 *               ├───────────────── changing ──drop──► gone
 *               │                  │      ▲
 *               └──────────────────┼──────┤
 *                                  ▼      │
 *              insert ──► held, parked, dead
 *
 * `changing` is for the time until an outcome or a release is on disk: the ticket can be
 * neither taken nor settled again, and still holds its segment; `was` is the state that it
 * leaves. The owner makes such changes with open_tickets_update().
 *
 * Due tickets are found by sink. Each sink knows how many of its own are due and a
 * number below which none is; each block knows which sinks have one in it. So one
 * sink's tickets, however many, do not slow down the takes of another.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: open_tickets_new() gives it, open_tickets_free() takes it.
 * Failure:   only insert, reserve and relocate can fail with -ENOMEM, and then
 *            change nothing; after open_tickets_reserve(n) the next n inserts
 *            at the end, of one segment, cannot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct open_tickets;

enum open_ticket_state {
	OPEN_TICKET_GONE = 0, /* inside only */
	OPEN_TICKET_DUE,
	OPEN_TICKET_LEASED,
	OPEN_TICKET_CHANGING, /* its next state is decided, and not on disk yet */
	OPEN_TICKET_HELD,     /* not to be delivered before it is released */
	OPEN_TICKET_PARKED,   /* its outcome is unknown */
	OPEN_TICKET_DEAD,     /* a dead letter */
	OPEN_TICKET_STATES,
};

/* 56 bytes each; all but ticket, segment, state and sink is opaque here. */
struct open_ticket {
	uint64_t ticket;
	uint64_t order;        /* of its leg */
	uint64_t due_ms;       /* 0: at once; parked, dead: since when */
	uint32_t segment;      /* where its record is: segment, */
	uint32_t offset;       /* byte in it, */
	uint32_t length;       /* and length */
	uint32_t note_segment; /* where its last note is; 0: it has none */
	uint32_t note_offset;
	uint32_t sink;
	uint16_t attempt; /* the last number given; the current one's while leased */
	uint16_t status;  /* of its last note */
	uint8_t state;    /* enum open_ticket_state */
	uint8_t leg;      /* which of its event's; the event's ticket is so many below */
	uint8_t last;     /* enum store_mark: of its last note */
	uint8_t was;      /* changing: the state that it leaves */
};

static inline uint64_t open_ticket_event(const struct open_ticket *ticket)
{
	return ticket->ticket - ticket->leg;
}

/* max_open 0 is no limit. */
int open_tickets_new(uint64_t max_open, struct open_tickets **ret_tickets) must_check;
struct open_tickets *open_tickets_free(struct open_tickets *tickets); /* accepts NULL */

/* ERR_FULL: max_open tickets are open, or would be with `count` more. */
int open_tickets_reserve(struct open_tickets *tickets, uint32_t count) must_check;
/* The same, and the limit is not applied. */
int open_tickets_reserve_beyond(struct open_tickets *tickets, uint32_t count) must_check;

/*
 * Adds a ticket as due, or as held, parked or dead if its state says so; attempt and
 * the rest are taken. If the number is open already, it only moves: segment, offset and
 * length are taken, the rest stays. The limit is not applied here: recovery must
 * be able to bring back what was promised; reserve before admitting.
 */
int open_tickets_insert(struct open_tickets *tickets, const struct open_ticket *ticket) must_check;

/* The ticket's record has a new place, and so has its note; -ENOENT if it is not
 * open. */
int open_tickets_relocate(struct open_tickets *tickets,
                          const struct open_ticket *ticket) must_check;

bool open_tickets_find(const struct open_tickets *tickets, uint64_t ticket,
                       struct open_ticket *ret_ticket) must_check;

/* Everything but its place is as given from now on. The ticket is open. */
void open_tickets_update(struct open_tickets *tickets, const struct open_ticket *ticket);

/* The oldest due ticket of a sink, without taking it, or NULL. It is lent until the next
 * change of any ticket: a copy of what was just changed would wait for that. */
const struct open_ticket *open_tickets_peek(struct open_tickets *tickets, uint32_t sink) must_check;

/* Leases it: its attempt is one higher (stays at 65535). Lent as above, or NULL. */
const struct open_ticket *open_tickets_take(struct open_tickets *tickets, uint32_t sink) must_check;

/* Gone, whatever its state (settled on disk, or its admit was not written).
 * False if it was not open. */
bool open_tickets_drop(struct open_tickets *tickets, uint64_t ticket);

/* The lowest segment that holds an open ticket; false if none is open. */
bool open_tickets_oldest_segment(const struct open_tickets *tickets,
                                 uint32_t *ret_segment) must_check;
uint64_t open_tickets_in_segment(const struct open_tickets *tickets, uint32_t segment);

/* The next open ticket in order after `after` (0: the first). */
bool open_tickets_next(const struct open_tickets *tickets, uint64_t after,
                       struct open_ticket *ret_ticket) must_check;

/* The same, only of tickets whose segment is at most `segment`; skips blocks
 * that have none, so carrying a segment forward does not look at all tickets. */
bool open_tickets_next_before(struct open_tickets *tickets, uint64_t after, uint32_t segment,
                              struct open_ticket *ret_ticket) must_check;

/* The highest ticket below `before` (0: of all) that is held, or changes from that; passes over
 * blocks of which all are due. */
bool open_tickets_held_before(const struct open_tickets *tickets, uint64_t before,
                              struct open_ticket *ret_ticket) must_check;

uint64_t open_tickets_count(const struct open_tickets *tickets); /* all that are not gone */
uint64_t open_tickets_in(const struct open_tickets *tickets, enum open_ticket_state state);
uint64_t open_tickets_callers(const struct open_tickets *tickets); /* of STORE_SINK_CALLER */
uint64_t open_tickets_bytes(const struct open_tickets *tickets);
void open_tickets_check(const struct open_tickets *tickets); /* every invariant; for tests */
