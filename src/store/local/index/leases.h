/*
 * leases: which tickets are leased up to a time, and which of them is the first whose
 * time is over. A heap by end, and a map from the ticket to its place in it.
 *
 * What is here may be out of date: a ticket whose lease has ended in another way may stay
 * until its time is over. So the caller looks at the ticket itself.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: a plain struct, all zero at first; leases_free() takes its memory.
 * Failure:   leases_reserve() -ENOMEM, which changes nothing; after it leases_set() of that
 *            ticket cannot fail.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/map.h"

struct lease {
	uint64_t ticket;
	uint64_t end_ms; /* CLOCK_BOOTTIME */
};

struct leases {
	struct lease *heap;
	uint32_t count;
	uint32_t room;
	struct map places; /* in the heap, by ticket */
};

void leases_free(struct leases *leases);

int leases_reserve(struct leases *leases, uint64_t ticket) must_check;
/* Its end is this one from now on. end_ms 0: it has none, and is not here any more. */
void leases_set(struct leases *leases, uint64_t ticket, uint64_t end_ms);
/* 0: it has none. */
uint64_t leases_end(const struct leases *leases, uint64_t ticket);
/* The first of those that are over at that time; it stays. */
bool leases_over(const struct leases *leases, uint64_t boot_ms, uint64_t *ret_ticket) must_check;

void leases_check(const struct leases *leases); /* every invariant; for tests */
