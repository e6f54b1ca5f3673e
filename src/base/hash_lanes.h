/*
 * hash_lanes: eight keyed digests side by side, in the time that two take one after
 * the other. The same hash as hash_keyed128().
 *
 * An input's words are laid into a lane when it is added, so that it may be gone when
 * the digests are made. Where the machine has no registers that are wide enough, an
 * input is hashed when it is added: right, but nothing is gained (hash_lanes_gain()).
 *
 * Room:      base. Threads: one owner.
 * Ownership: plain memory; zeroed is empty.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

#define HASH_LANES 8
#define HASH_LANES_WORDS 64 /* of one input at most */

struct hash_lanes {
	uint32_t count;
	uint32_t longest; /* words */
	uint32_t shortest;
	uint64_t words[HASH_LANES];
	struct {
		uint64_t v0[HASH_LANES], v1[HASH_LANES], v2[HASH_LANES], v3[HASH_LANES];
	} states;
	uint64_t message[HASH_LANES_WORDS][HASH_LANES];
	uint64_t done[HASH_LANES][2]; /* digests, where they are made at once */
};

bool hash_lanes_gain(void);

/* False: it is too long for a lane. There must be one left. */
bool hash_lanes_add(struct hash_lanes *lanes, const struct hash_rest *rest) must_check;

/* The digests of those that were added, in their order; then it is empty. */
void hash_lanes_finish(struct hash_lanes *lanes, uint64_t ret_words[static HASH_LANES][2]);

/* Those of two at once. The rounds of one are a chain, so that one by itself leaves the
 * processor half idle. */
void hash_lanes_finish_pair(struct hash_lanes *first, struct hash_lanes *second,
                            uint64_t ret_first[static HASH_LANES][2],
                            uint64_t ret_second[static HASH_LANES][2]);
