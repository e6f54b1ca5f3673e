/*
 * utf8: is this a well-formed sequence? Unicode's table 3-7: no overlong
 * forms, no surrogates, nothing beyond U+10FFFF. And may it be shown on a terminal?
 *
 * Room: base. Threads: pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

static inline bool utf8_is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* As much of a text of `len` bytes as fits in `room`, without a part of a character. */
static inline size_t utf8_cut(const char *ptr, size_t len, size_t room)
{
	if (len <= room)
		return len;
	while (room > 0 && utf8_is_tail((unsigned char)ptr[room]))
		room--;
	return room;
}

/* Length of the well-formed sequence at ptr (1 … 4), 0 when there is none.
 * len is at least 1. */
static inline size_t utf8_sequence(const char *ptr, size_t len)
{
	const unsigned char *p = (const unsigned char *)ptr;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	if (p[0] < 0xe0)
		return len >= 2 && utf8_is_tail(p[1]) ? 2 : 0;
	if (len < 3 || !utf8_is_tail(p[1]) || !utf8_is_tail(p[2]))
		return 0;
	if (p[0] < 0xf0) {
		bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
		bool surrogate = p[0] == 0xed && p[1] > 0x9f;
		return overlong || surrogate ? 0 : 3;
	}
	if (len < 4 || !utf8_is_tail(p[3]))
		return 0;
	bool overlong = p[0] == 0xf0 && p[1] < 0x90;
	bool beyond = p[0] == 0xf4 && p[1] > 0x8f;
	return overlong || beyond ? 0 : 4;
}

/* Of a well-formed sequence of two or three bytes. */
static inline unsigned utf8_code(const char *ptr, size_t n)
{
	const unsigned char *p = (const unsigned char *)ptr;
	return n == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
	              : (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
}

/* Does the well-formed sequence of n bytes control a terminal, or the order in which a line is
 * shown? The controls (C0, DEL, C1), the marks, embeddings, overrides and isolates
 * of the bidirectional algorithm, and the separators of lines. */
static inline bool utf8_steers(const char *ptr, size_t n)
{
	unsigned char c = (unsigned char)*ptr;
	if (n == 1)
		return c < ' ' || c == 0x7f;
	if (n > 3)
		return false;
	unsigned code = utf8_code(ptr, n);
	return code < 0xa0 || code == 0x61c || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}
