/*
 * spool_record: an admission in the spool, with everything that the decision needs.
 *
 *   bytes  what
 *   1      format: 1
 *   1      bits: 1 no ticket
 *   1      enum store_conflict
 *   1      c, claims
 *   1      l, legs
 *   1      reserved, 0
 *   2      flags of the event
 *   4      m, length of the letter
 *   4      reserved, 0
 *   16     the mark: a digest that no other event has
 *   c × 32 claims: digest 16, window 4, kind 1, bits 1 (1 shadow, 2 equal drops),
 *          reserved 2, order 8
 *   l × 16 legs: sink 4, reserved 4, order 8
 *   m      the letter: the event's metadata (gate/metadata.h)
 *   rest   the payload
 *
 * Numbers are little-endian. Valid: format 1, c ≤ CLAIMS_MAX, l ≤ STORE_LEGS_MAX,
 * m ≤ STORE_METADATA_MAX, known kinds and conflicts, windows of 1 and more, and no byte
 * missing. The journal's checksums protect the rest.
 *
 * Room:      store/spool. Threads: values. Ownership: a record that was read borrows the bytes.
 * Failure:   ERR_VERSION, ERR_INVALID; -ENOMEM when writing.
 */
#pragma once

#include "store/store.h"

struct spool_record {
	struct digest mark;
	struct store_leg legs[STORE_LEGS_MAX];
	struct store_admit admit; /* what was written; its legs are those */
};

int spool_record_write(const struct store_admit *admit, const struct digest *mark,
                       struct buf *out) must_check;
int spool_record_read(struct span bytes, struct spool_record *ret_record) must_check;
