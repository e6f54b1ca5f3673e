/*
 * hex: hexadecimal digits; either case is read, lower case is written.
 *
 * Room: base. Threads: pure.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* The value of a digit, or -1. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = span_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes all of `text` to text.len / 2 bytes; false when it is not pairs of
 * digits or has more than `room` bytes. */
static inline bool hex_decode(struct span text, unsigned char *bytes, size_t room)
{
	CHECK(text.ptr || text.len == 0);
	if (text.len % 2 != 0 || text.len / 2 > room)
		return false;
	for (size_t i = 0; i < text.len / 2; i++) {
		int high = hex_value(text.ptr[2 * i]);
		int low = hex_value(text.ptr[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		bytes[i] = (unsigned char)(high * 16 + low);
	}
	return true;
}

/* Two digits for each byte, lower case, without a NUL. */
static inline void hex_encode(const void *bytes, size_t len, char *ret_digits)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *at = bytes;
	for (size_t i = 0; i < len; i++) {
		ret_digits[2 * i] = digits[at[i] >> 4];
		ret_digits[2 * i + 1] = digits[at[i] & 15];
	}
}
