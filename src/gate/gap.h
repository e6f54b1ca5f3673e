/*
 * gap: how long after an original its duplicates arrive, per source.
 *
 * Two histograms. `duplicates` has the gaps of what the gate recognised. What
 * comes back after the window passes as new: `returns`
 * has those gaps, found by remembering claims for longer than the window does.
 *
 * That memory is a sample of fixed size. An id is in it or not by its own
 * digest: at a sample of s, those whose low s bits are zero. So the first and
 * the second coming of an id are sampled alike, and a table of 2,048 is enough
 * for any rate: when it is full, what is much older than the window leaves
 * first, then s grows by one and half of the rest leaves. A return that is
 * seen stands for 2^s of its kind (returns_about).
 *
 * Kept as bytes (gap_write(), gap_read()); all numbers little-endian:
 *
 *   bytes  what
 *   4      version: 1
 *   4      s, the sample
 *   8      returns_about
 *   8      first_ms
 *   8      last_ms
 *   then the two histograms, duplicates first, each:
 *   8 8    sum, max
 *   4      n
 *   n ×    4 bucket (ascending), 8 count (not 0)
 *   4      m, entries of the sample
 *   m ×    8 word, 8 ticket (not 0)
 *
 * Room:      gate: no I/O; time comes in tickets and parameters.
 * Threads:   one writer; the histograms and counters may be read meanwhile.
 * Ownership: plain memory of about 50 KiB, zeroed is empty.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/histogram.h"

#define GAP_SLOTS 2048u
#define GAP_ENTRIES_MAX (GAP_SLOTS / 4 * 3)
#define GAP_SAMPLE_MAX 40u
#define GAP_DURATION_MAX 32

struct gap_entry {
	uint64_t word;   /* of a claim's digest */
	uint64_t ticket; /* that took it; 0: the slot is free */
};

struct gap {
	struct histogram duplicates;        /* milliseconds */
	struct histogram returns;           /* milliseconds */
	atomic_uint_fast64_t returns_about; /* scaled up by the sample */
	atomic_uint_fast64_t first_ms;      /* unix: when the first gap was seen */
	atomic_uint_fast64_t last_ms;       /* … and the last */
	uint32_t sample;
	uint32_t count;
	struct gap_entry entries[GAP_SLOTS];
};

/* A duplicate came; `times` of its kind. */
void gap_duplicate(struct gap *gap, uint64_t gap_ms, uint64_t now_ms, uint64_t times);

/* An event passed that took this claim. True: an earlier ticket had it, and
 * its window ended before; writes which, and counts the gap. */
struct gap_passage {
	uint64_t word;
	uint32_t window_s;
	uint64_t ticket; /* not 0 */
};
bool gap_passed(struct gap *gap, struct gap_passage passage, uint64_t *ret_before);

/* The longest gap of all. */
uint64_t gap_highest_ms(const struct gap *gap);

void gap_write(const struct gap *gap, struct buf *out);

/* ERR_INVALID or ERR_VERSION; the gap is empty then. Not while others read the gap. */
int gap_read(struct gap *gap, struct span bytes) must_check;

/* For people, about three digits: "450ms", "3s", "26h", "4d 3h". NUL-terminated. */
void gap_duration_text(uint64_t ms, char ret_text[static GAP_DURATION_MAX]);
