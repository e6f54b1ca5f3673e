/*
 * base64: RFC 4648 section 4, strictly, by libsodium. Each value has one text: padding
 * is required, unused bits must be 0, and blanks, line ends and other alphabets are
 * refused. So a known signature has no second spelling.
 *
 * Room: base (libsodium). Threads: pure. Ownership: the caller's bytes.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

/* Characters for `len` bytes. */
#define BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Needs room for BASE64_LEN(bytes.len) characters and one byte more, which is not part of
 * the text. Sets out->failed if there is none. */
void base64_append(struct buf *out, struct span bytes);

/* ERR_INVALID: not base64. ERR_TOO_LARGE: more than `room` bytes. */
int base64_decode(struct span text, unsigned char *bytes, size_t room, size_t *ret_len) must_check;
