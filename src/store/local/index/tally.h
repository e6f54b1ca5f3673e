/*
 * tally: how often a ticket's event came again, and when last.
 *
 * Only tickets that have had a duplicate are here, so this stays far smaller
 * than the table. What changed since it was last written down waits in a queue:
 * tally_take_dirty().
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: tally_new() gives it, tally_free() takes it.
 * Failure:   -ENOMEM leaves the tally as it was. A count that could not be
 *            kept changes no verdict.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

struct tally;

struct tally_entry {
	uint64_t ticket;   /* first: it is the key of a map */
	uint32_t count;    /* duplicates so far; stays at UINT32_MAX */
	uint32_t last_s;   /* unix seconds of the latest */
	uint32_t expiry_s; /* unix seconds; forgotten after that */
	uint32_t dirty;    /* 1: in the queue of tally_take_dirty() */
};

int tally_new(struct tally **ret_tally) must_check;
struct tally *tally_free(struct tally *tally); /* accepts NULL, returns NULL */

/* One more duplicate. `expiry_ms` is that of the claim; the latest stays. */
int tally_add(struct tally *tally, uint64_t ticket, uint64_t now_ms, uint64_t expiry_ms,
              uint32_t *ret_count) must_check;

/* As read from the journal: count and times only ever rise; not dirty. */
int tally_restore(struct tally *tally, const struct tally_entry *entry) must_check;

/* The entry, or false: no duplicate has come. */
bool tally_get(const struct tally *tally, uint64_t ticket,
               struct tally_entry *ret_entry) must_check;
bool tally_remove(struct tally *tally, uint64_t ticket);

/*
 * Up to `max` entries that changed since they were last taken, oldest change
 * first; they are clean from then on. tally_mark_dirty() puts one back (its
 * record was not written, or its segment is about to go); false if unknown.
 */
size_t tally_take_dirty(struct tally *tally, struct tally_entry *ret_entries, size_t max);
bool tally_mark_dirty(struct tally *tally, uint64_t ticket);

/* Looks at about `budget` slots, removes the expired, gives memory back.
 * Returns how many were removed. */
uint64_t tally_sweep(struct tally *tally, uint64_t now_ms, uint64_t budget);

uint64_t tally_dirty(const struct tally *tally); /* how many wait */
uint64_t tally_bytes(const struct tally *tally);
void tally_check(const struct tally *tally); /* every invariant; for tests */
