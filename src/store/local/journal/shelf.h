/*
 * shelf: what is known of each number in the folder: its files, when it was
 * sealed, when its last claim expires. One item per number, no gaps (F6).
 *
 * Threads:   the owner's.
 * Ownership: a zeroed shelf is empty; shelf_free() takes the items. A pointer
 *            to an item is good until the next add or drop.
 * Failure:   shelf_add() -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

struct shelf_item {
	uint64_t epoch;         /* 0: not known, no ticket of it is open */
	uint64_t end;           /* valid end, once sealed */
	uint64_t sealed_ms;     /* steady */
	uint64_t max_expiry_ms; /* of its claims; 0: has none */
	uint64_t max_ticket;
	uint64_t claims_bytes;  /* of the claims file */
	uint32_t segment_bytes; /* of the segment file; 0: it is gone */
	uint32_t events;        /* that had a ticket */
	uint32_t wait_ms;       /* after a claims file that failed */
	uint64_t retry_boot_ms; /* not before */
	bool sealed;
	bool has_claims_file;
	bool dense; /* a claims file would not save enough */
	bool busy;  /* the keeper works on it */
	bool stays; /* an open event of it is damaged */
};

struct shelf {
	struct shelf_item *items;
	size_t count;
	size_t room;
	uint64_t first; /* number of items[0] */
};

/* Adds the next number (any number to an empty shelf). */
int shelf_add(struct shelf *shelf, uint64_t number, const struct shelf_item *item) must_check;
struct shelf_item *shelf_find(const struct shelf *shelf, uint64_t number); /* or NULL */
void shelf_drop_first(struct shelf *shelf);
void shelf_free(struct shelf *shelf);

static inline uint64_t shelf_end(const struct shelf *shelf)
{
	return shelf->first + shelf->count;
}
