/*
 * base64: RFC 4648 section 4, strictly. One text for one value: padding is
 * there, bits that stand for nothing are 0, no blank, no line end, no other
 * alphabet. So nobody can write a known signature in a second way.
 *
 * Room: codec. Threads: pure. Ownership: the caller's bytes.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* Characters for `len` bytes. */
#define BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Writes BASE64_LEN(bytes.len) characters, no NUL. */
void base64_encode(struct span bytes, char *ret_text);

/* ERR_INVALID: not base64. ERR_TOO_LARGE: more than `room` bytes. */
int base64_decode(struct span text, unsigned char *bytes, size_t room, size_t *ret_len) must_check;
