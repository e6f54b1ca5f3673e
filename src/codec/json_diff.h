/*
 * json_diff: in which members do two JSON objects differ?
 *
 * Members are reported by their path, "detail.status"; if both sides are objects, the
 * differences inside are reported instead. Arrays are compared as a whole. Values
 * are compared by their canonical form (jcs.h), so the order of members, blanks and
 * spellings of a number do not count.
 *
 * Room:      codec. Threads: pure.
 * Ownership: everything is the caller's.
 * Failure:   ERR_INVALID: one of them is no JSON object. ERR_TOO_LARGE: too many members in a
 *            different order. -ENOMEM.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define JSON_DIFF_PATH_MAX 256 /* bytes; longer ones are cut */
#define JSON_DIFF_DEPTH_MAX 8  /* deeper objects are compared as a whole */

enum json_change {
	JSON_CHANGED,
	JSON_ADDED,  /* the second has it, the first has not */
	JSON_MISSING /* the other way round */
};

/* Calls `each` for every difference, at most `max` times; the path lives for the
 * call. Returns how many there are, also those beyond `max`. */
int json_diff(struct span first, struct span second, uint32_t max,
              void (*each)(void *user, struct span path, enum json_change change),
              void *user) must_check;
