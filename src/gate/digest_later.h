/*
 * digest_later: digests that wait for company. Eight of them made together take less
 * than two by themselves (base/hash_lanes.h), so whoever has many events to read asks
 * for the digests of all of them afterwards.
 *
 * Inputs are copied; a digest is written to its place when eight others have come, or
 * by digest_later_flush(). Claims of one rule are of nearly the same length, and eight
 * take as long as the longest: so there are two rows, for the first and the second
 * claims of events, and a flush makes both of them at once.
 *
 * Room:      gate. Threads: one owner.
 * Ownership: plain memory, zeroed is empty; the places are the caller's and stay until
 *            the flush.
 */
#pragma once

#include <stdbool.h>

#include "base/hash_lanes.h"
#include "gate/digest.h"

#define DIGEST_LATER_ROWS 2

struct digest_later {
	/* Where the claims of the event that is read will stand, if not where they are
	 * made; may be changed between two events. One that cannot wait for others is
	 * still written where it was made. */
	struct claim *claims;
	struct digest_row {
		struct hash_lanes lanes;
		struct digest *places[HASH_LANES];
		uint32_t checks[HASH_LANES];
	} rows[DIGEST_LATER_ROWS];
};

/* Is it worth it on this machine? */
static inline bool digest_later_gains(void)
{
	return hash_lanes_gain();
}

/* The digest of `input`, whose scope is sealed, with a content check. */
struct digest_wanted {
	const struct digest_input *input;
	const struct digest_scope *scope;
	uint32_t check;
	uint32_t index; /* which claim of its event */
};

void digest_later_add(struct digest_later *later, const struct digest_wanted *wanted,
                      struct digest *ret_digest);
void digest_later_flush(struct digest_later *later);
void digest_later_drop(struct digest_later *later); /* those that wait are not wanted */
