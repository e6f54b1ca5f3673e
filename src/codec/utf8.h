/*
 * utf8: one character of UTF-8, judged as RFC 3629 says: shortest form only, no
 * surrogates, nothing beyond U+10FFFF.
 *
 * Room: codec. Threads: pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

static inline bool utf8_follows(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

/* Bytes of the character at `ptr`, of which `left` (at least 1) may be read; 0
 * when it is malformed or cut off. */
static inline size_t utf8_len(const char *ptr, size_t left)
{
	const unsigned char *u = (const unsigned char *)ptr;
	if (u[0] < 0x80)
		return 1;
	if (u[0] < 0xC2 || u[0] > 0xF4 || left < 2 || !utf8_follows(u[1]))
		return 0;
	if (u[0] < 0xE0)
		return 2;
	if (left < 3 || !utf8_follows(u[2]))
		return 0;
	if (u[0] < 0xF0) {
		bool overlong = u[0] == 0xE0 && u[1] < 0xA0;
		bool surrogate = u[0] == 0xED && u[1] > 0x9F;
		return overlong || surrogate ? 0 : 3;
	}
	if (left < 4 || !utf8_follows(u[3]))
		return 0;
	bool overlong = u[0] == 0xF0 && u[1] < 0x90;
	bool beyond = u[0] == 0xF4 && u[1] > 0x8F;
	return overlong || beyond ? 0 : 4;
}

/* Writes a scalar value (not a surrogate, at most 0x10FFFF) to four bytes of
 * room and returns how many it took. */
size_t utf8_put(uint32_t scalar, char ret_bytes[static 4]);

bool utf8_valid(struct span text);
