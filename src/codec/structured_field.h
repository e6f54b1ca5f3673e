/*
 * structured_field: an Item of RFC 8941 that is a String or a Token, such as the
 * value of Idempotency-Key. Parameters after it are checked and dropped.
 *
 * Any other type, a list, and whatever the grammar does not allow are refused.
 * Blanks around the item are SP only, as the RFC has it: the field's own
 * optional whitespace is gone before.
 *
 * Room: codec. Threads: pure. Ownership: the caller's bytes.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

enum structured_type { STRUCTURED_STRING = 0, STRUCTURED_TOKEN };

struct structured_item {
	enum structured_type type;
	size_t len; /* of its value */
};

/* Writes the value, at most text.len bytes and without its escapes. ERR_INVALID,
 * or ERR_TOO_LARGE for a value of more than `room` bytes. */
int structured_item_parse(struct span text, char *bytes, size_t room,
                          struct structured_item *ret_item) must_check;
