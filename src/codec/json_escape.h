/*
 * json_escape: \uXXXX in the strings of JSON, for the scanner and the decoder.
 *
 * Room: codec. Threads: pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hex.h"

#define JSON_ESCAPE_MAX 6 /* bytes of the longest escape of one UTF-16 unit */

/* The UTF-16 unit of the \uXXXX at p, or -1. */
static inline int32_t json_escaped_unit(const char *p, const char *end)
{
	if (end - p < JSON_ESCAPE_MAX || p[0] != '\\' || p[1] != 'u')
		return -1;
	int32_t unit = 0;
	for (int i = 2; i < JSON_ESCAPE_MAX; i++) {
		int digit = hex_value(p[i]);
		if (digit < 0)
			return -1;
		unit = unit * 16 + digit;
	}
	return unit;
}

static inline bool json_is_high(int32_t unit)
{
	return unit >= 0xD800 && unit <= 0xDBFF;
}

static inline bool json_is_low(int32_t unit)
{
	return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* Writes a scalar value (no surrogate) and returns how many bytes it took. */
static inline size_t json_put_utf8(uint32_t scalar, char ret_bytes[static 4])
{
	if (scalar < 0x80) {
		ret_bytes[0] = (char)scalar;
		return 1;
	}
	size_t len = scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4;
	for (size_t i = len - 1; i > 0; i--) {
		ret_bytes[i] = (char)(0x80 | (scalar & 0x3F));
		scalar >>= 6;
	}
	static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
	ret_bytes[0] = (char)(lead[len] | scalar);
	return len;
}

/* Decodes the escape at *p into `bytes` and steps over it; 0 when malformed. */
static inline size_t json_decode_escape(const char **p, const char *end, char bytes[static 4])
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	if (end - *p < 2)
		return 0;
	const char *at = memchr(from, (*p)[1], sizeof(from) - 1);
	if (at) {
		bytes[0] = to[at - from];
		*p += 2;
		return 1;
	}
	int32_t unit = json_escaped_unit(*p, end);
	if (unit < 0 || json_is_low(unit))
		return 0;
	*p += JSON_ESCAPE_MAX;
	if (!json_is_high(unit))
		return json_put_utf8((uint32_t)unit, bytes);
	int32_t low = json_escaped_unit(*p, end);
	if (!json_is_low(low))
		return 0;
	*p += JSON_ESCAPE_MAX;
	return json_put_utf8((uint32_t)(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), bytes);
}
