/*
 * json_internal: what the scanner (json.c) and the memory of shapes (json_shape.c)
 * share. For these two alone.
 */
#pragma once

#include <endian.h>

#include "codec/json.h"

#define json_inline static inline __attribute__((always_inline))

/* An open container inside which wanted values may be. */
struct json_frame {
	const char *at; /* where it began */
	uint32_t node;
	uint32_t index; /* arrays: of the present element */
};

struct json_scanner {
	const char *start;
	const char *end;
	struct json_marks *marks;
	const char *escape_at; /* the last backslash met in a string, or start */
	const struct json_plan *plan;
	struct json_doc *doc;
	bool valued; /* see scan_members() */
	struct json_frame frames[JSON_STEPS_MAX + 1];
};

/* None is left in the chunk: the first mark of the rest that is at p or after it, or
 * the end. It is the one before marks->next. */
const char *json_find_mark(const struct json_scanner *s, const char *p);

/* From a byte that is not plain, whose mark was asked for, to the closing quote of its
 * string, whose mark is then the last that was asked for. NULL: the string is wrong. */
const char *json_finish_string(struct json_scanner *s, const char *p);

/* The end of the number or word at p, which is before the end of the text; NULL: it is
 * none. */
const char *json_scan_bare(const struct json_scanner *s, const char *p, enum json_type *ret_type);

static inline uint32_t json_load32(const char *p)
{
	uint32_t word;
	memcpy(&word, p, sizeof(word));
	return le32toh(word);
}

#define JSON_BYTES(a, b, c, d) \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* How many of the eight bytes at p are digits, up to the first that is none. */
json_inline size_t json_count_digits(const char *p)
{
	uint64_t word = json_load64(p);
	uint64_t others = ((word + UINT64_C(0x4646464646464646)) |
	                   (word - UINT64_C(0x3030303030303030))) &
	                  UINT64_C(0x8080808080808080);
	return others ? (size_t)__builtin_ctzll(others) / 8 : 8;
}

/* The end of the number at p, which begins with a digit, if it is short: at most 15
 * digits, then at most 7 after a point, and no exponent. */
json_inline const char *json_scan_digits(const char *p)
{
	size_t len = *p == '0' ? 1 : json_count_digits(p);
	if (len == 8)
		len += json_count_digits(p + 8);
	if (unlikely(len == 16))
		return NULL;
	if (p[len] == '.') {
		size_t more = json_count_digits(p + len + 1);
		if (unlikely(more == 0 || more == 8))
			return NULL;
		len += 1 + more;
	}
	return (p[len] | 0x20) == 'e' ? NULL : p + len;
}

/* A short number, a word or an empty array; where it ends, or NULL: it is something else.
 * JSON_MARKS_BEHIND bytes can be read. */
json_inline const char *json_scan_short(const char *p, enum json_type *ret_type)
{
	if (*p >= '0' && *p <= '9') {
		*ret_type = JSON_NUMBER;
		return json_scan_digits(p);
	}
	uint32_t word = json_load32(p);
	if (word == JSON_BYTES('t', 'r', 'u', 'e')) {
		*ret_type = JSON_TRUE;
		return p + 4;
	}
	if (word == JSON_BYTES('n', 'u', 'l', 'l')) {
		*ret_type = JSON_NULL;
		return p + 4;
	}
	if ((word & 0xFFFF) == JSON_BYTES('[', ']', 0, 0)) {
		*ret_type = JSON_ARRAY;
		return p + 2;
	}
	*ret_type = JSON_FALSE;
	return word == JSON_BYTES('f', 'a', 'l', 's') && p[4] == 'e' ? p + 5 : NULL;
}
