/*
 * url: percent-encoding (RFC 3986 section 2.1) and form parameters
 * (application/x-www-form-urlencoded: queries, forms).
 *
 * Room: codec. Threads: pure. Ownership: the caller's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

/* Every byte but letters, digits and -._~ becomes %XX, so that the text is one
 * piece of a path or a query, whatever it holds. */
void url_percent_encode(struct span text, struct buf *out);

/* Appends %XX. */
static inline void url_percent_byte(char byte, struct buf *out)
{
	static const char digits[] = "0123456789ABCDEF";
	unsigned char value = (unsigned char)byte;
	char text[3] = { '%', digits[value >> 4], digits[value & 15] };
	buf_append(out, text, sizeof(text));
}

/* Decodes every %XX of `text`; all other bytes stand for themselves. At most
 * text.len bytes are written. ERR_INVALID: a % without two hexadecimal digits.
 * ERR_TOO_LARGE: more than `room` bytes. */
int url_percent_decode(struct span text, char *bytes, size_t room, size_t *ret_len) must_check;

/* The same, and + is a blank. */
int url_form_decode(struct span text, char *bytes, size_t room, size_t *ret_len) must_check;

/* Takes the next parameter off `params`, with its raw name and value (empty when it has
 * no =), and steps over pieces that are empty. False: there is none any more. */
bool url_param_next(struct span *params, struct span *ret_name, struct span *ret_value);

/* Is that raw name this one, by its decoded value? */
bool url_param_is(struct span raw_name, struct span name);

/* How often the parameter is there; writes the raw value of the first (empty
 * when it has no =). Names are compared by their decoded value. */
uint32_t url_param_find(struct span params, struct span name, struct span *ret_value);

/* Checks the query of an API request: each parameter must be one of `names`, which are
 * separated by blanks, and may occur once. An unknown parameter is an error: a misspelt
 * dry_run would else do what was only to be counted. ERR_INVALID with a text for the
 * client. */
int query_check(struct span query, const char *names, struct error_text *ret_text) must_check;
