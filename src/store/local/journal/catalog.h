/*
 * catalog: which files a folder has, and what each number's successor says of
 * it. For recovery and for tools; writes nothing.
 *
 * Format:    format.h
 * Threads:   one owner.
 * Ownership: catalog_free() takes the lists; a zeroed catalog is empty.
 * Failure:   -errno, ERR_DAMAGED, ERR_VERSION with file and offset in the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/segment.h"

struct catalog_numbers {
	uint64_t *items; /* ascending */
	size_t count;
	size_t room;
};

struct catalog {
	struct catalog_numbers segments; /* without the unused, after catalog_range() */
	struct catalog_numbers claims;   /* likewise without the unsure */
	struct catalog_numbers unused;   /* prepared, never begun */
	/* Claims files of a number without a successor: its end was not fixed when
	 * they were made, so it may hold more than they do. */
	struct catalog_numbers unsure;
	uint64_t oldest;
	uint64_t scan_from;
	uint64_t last; /* the last segment; 0: none */
};

int catalog_list(struct catalog *catalog, const struct folder *folder) must_check;
void catalog_free(struct catalog *catalog);
bool catalog_has_segment(const struct catalog *catalog, uint64_t number);
bool catalog_has_claims(const struct catalog *catalog, uint64_t number);

/* Finds the last segment and what must be read (F5); sets aside what is unused
 * and unsure. */
int catalog_range(struct catalog *catalog, const struct folder *folder,
                  const struct superblock_slot *slot, struct error_text *text) must_check;

/* Is there what must be there for this number (F6)? */
int catalog_check(const struct catalog *catalog, uint64_t number,
                  struct error_text *text) must_check;

/* What the number after this one says of it. */
struct catalog_successor {
	uint64_t end; /* 0: there is none, it is the last */
	uint64_t sequence;
	uint64_t expiry_ms;
	uint64_t sealed_ms; /* 0: not known */
};
int catalog_successor(const struct catalog *catalog, const struct folder *folder, uint64_t number,
                      struct catalog_successor *ret_successor, struct error_text *text) must_check;
/* The same of a number that has one, whose segment is there or has left. */
int catalog_successor_read(const struct folder *folder, uint64_t number, bool has_segment,
                           struct catalog_successor *ret_successor,
                           struct error_text *text) must_check;
