/*
 * segment_uses: how many open tickets each segment of the journal holds.
 *
 * A segment may leave when it holds none. There are few, and mostly the newest is
 * asked for: a sorted array.
 *
 * Invariant (segment_uses_check()): segments ascend, and no count is zero.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: a member of its owner, all zero at first; segment_uses_clear() frees
 *            what it holds.
 * Failure:   segment_uses_reserve() can fail with -ENOMEM, and then changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct segment_use {
	uint32_t segment;
	uint32_t count;
};

struct segment_uses {
	struct segment_use *uses; /* ascending */
	uint32_t count;
	uint32_t room;
};

void segment_uses_clear(struct segment_uses *uses);

/* So that one more segment can be named. */
int segment_uses_reserve(struct segment_uses *uses) must_check;

void segment_uses_add(struct segment_uses *uses, uint32_t segment);
void segment_uses_subtract(struct segment_uses *uses, uint32_t segment);

/* The lowest in use; false if none is. */
bool segment_uses_oldest(const struct segment_uses *uses, uint32_t *ret_segment) must_check;
uint64_t segment_uses_of(const struct segment_uses *uses, uint32_t segment);

uint64_t segment_uses_bytes(const struct segment_uses *uses); /* on the heap */
uint64_t segment_uses_check(const struct segment_uses *uses); /* for tests; the sum */
