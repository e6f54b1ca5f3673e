/*
 * url: percent-encoding (RFC 3986 section 2.1).
 *
 * Room: codec. Threads: pure. Ownership: the caller's bytes.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* Decodes every %XX of `text`; all other bytes stand for themselves. At most
 * text.len bytes are written. ERR_INVALID: a % without two hexadecimal digits.
 * ERR_TOO_LARGE: more than `room` bytes. */
int url_percent_decode(struct span text, char *bytes, size_t room, size_t *ret_len) must_check;
