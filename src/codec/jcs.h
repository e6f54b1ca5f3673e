/*
 * jcs: the canonical form of a JSON text, RFC 8785. Texts that mean the same have
 * the same bytes: members sorted by the UTF-16 of their names, no blanks, strings
 * with the fewest escapes, numbers as ECMAScript prints them.
 *
 * A digest of the canonical form must never make two different events the same.
 * RFC 8785 reads numbers as doubles, so that 9007199254740993 becomes
 * 9007199254740992; with `exact`, a number whose value a double does not keep is
 * written in its exact form (json_number.h) instead.
 *
 * Room:      codec. Threads: pure. Two bufs of the caller's are all its memory.
 * Ownership: the text must have been accepted by json_scan().
 * Failure:   ERR_INVALID: a name twice in one object, or (without `exact`) a number
 *            that no double can hold; problem says where. ERR_TOO_LARGE, -ENOMEM:
 *            a buf is full. `out` is then cut to what it was.
 */
#pragma once

#include "base/buf.h"
#include "codec/json.h"

struct jcs_options {
	bool exact;
	/* Its wanted paths are left out; a step [*] stands for all elements. NULL: none. */
	const struct json_plan *except;
};

/* Appends the canonical form of `text` to `out`; `sorting` is memory of its own. */
int jcs_write(struct span text, const struct jcs_options *options, struct buf *out,
              struct buf *sorting, struct json_problem *ret_problem) must_check;
