/*
 * pattern: a text with `*` for any run of characters, none included. Letters count
 * as they are; a star cannot be escaped.
 *
 * Room:      gate. Threads: values.
 * Ownership: pieces point into the text that was split.
 * Failure:   ERR_TOO_LARGE: too many stars.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define PATTERN_PIECES_MAX 16

struct pattern {
	bool stars; /* it has one */
	uint8_t piece_count;
	struct span pieces[PATTERN_PIECES_MAX]; /* between the stars; first and last may be empty */
};

int pattern_split(struct span text, struct pattern *ret_pattern) must_check;

/* For a pattern with stars. */
bool pattern_matches_pieces(const struct pattern *pattern, struct span text);

/* Does it match the whole text? */
static inline bool pattern_matches(const struct pattern *pattern, struct span text)
{
	return pattern->stars ? pattern_matches_pieces(pattern, text)
	                      : span_eq(text, pattern->pieces[0]);
}
