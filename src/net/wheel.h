/*
 * wheel: deadlines of many connections for the price of one timer.
 *
 * An entry is in a slot that is not later than its deadline. Moving a deadline into
 * the future writes one field; the entry changes its slot when that slot is run. So
 * a connection that is never late costs next to nothing.
 *
 * Room: net. Threads: one owner. Memory: entries are the caller's.
 * Precision: one tick late at most, never early.
 */
#pragma once

#include <stdint.h>

#define WHEEL_SLOTS 512
#define WHEEL_NEVER UINT64_MAX

struct wheel_entry {
	uint64_t deadline_ms;
	uint64_t tick;                    /* of its slot; only meaningful when linked */
	struct wheel_entry *next, **prev; /* prev NULL: not linked */
};

struct wheel {
	uint64_t tick_ms;
	uint64_t tick; /* the last one that was run */
	struct wheel_entry *slots[WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, uint64_t tick_ms, uint64_t now_ms);
void wheel_set(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline_ms);
void wheel_remove(struct wheel_entry *entry);

/* Calls expired() for each entry whose deadline has passed; it is not linked then. */
void wheel_run(struct wheel *wheel, uint64_t now_ms, void (*expired)(struct wheel_entry *entry));
