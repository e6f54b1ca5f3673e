/* json: see json.h. */
#include "codec/json.h"

#include <assert.h>

#if defined(__SSE2__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>
#define JSON_SSE2 1
#else
#define JSON_SSE2 0
#endif

#include "base/error.h"
#include "base/hex.h"
#include "base/utf8.h"

#define hot_inline static inline __attribute__((always_inline))
#define cold_path __attribute__((cold, noinline))

#define ESCAPE_MAX 6 /* bytes of the longest escape of one UTF-16 unit */

static_assert(JSON_DEPTH_MAX == 64, "the stack of open containers is one 64-bit word");

struct scan {
	const char *start;
	const char *end;
	const char *blocks_end; /* a whole block may be read from every place before it */
	const char *escape_at;  /* the last backslash met in a string, or start */
	const struct json_wanted *wanted;
	struct json_doc *doc;
};

/*
 * Where the scan stands among containers. Apart from struct scan, since only
 * inlined code sees it: so it lives in registers.
 *
 * A scan that is not careful leaves out the checks for the end of the text. It
 * may: the text then ends with a bracket, and while a container is open, none
 * but close_container() steps over a bracket outside of a string; that and the
 * strings do check. So the byte at p can always be read.
 */
struct nest {
	const bool careful;
	uint64_t objects;    /* bit 0 is the innermost: 1 object, 0 array */
	uint32_t depth;      /* open containers */
	int slot;            /* wanted place of the value that comes next, or -1 */
	int open_slot;       /* wanted place of the open second-level container, or -1 */
	const char *open_at; /* and where it began */
};

/* Returns NULL, so that a scanner can say `return fail(…)`. */
cold_path static const char *fail(const struct scan *s, const char *at, const char *expected)
{
	s->doc->problem.offset = (size_t)(at - s->start);
	s->doc->problem.expected = expected;
	return NULL;
}

static inline bool is_digit(const char *p, const char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

#if JSON_SSE2

#define BLOCK 16

/* Has a bit for each byte that is a quote, a backslash, a control character or
 * not ASCII. A signed compare finds the last two at once: bytes below 0x20 are
 * less than it, and so are those from 0x80 on, which are negative. */
static inline uint32_t special_mask(const char *p)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i odd = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
	__m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
	__m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(odd, _mm_or_si128(quote, slash)));
}

/* Over blocks of plain bytes; true when p stands on a special one. */
hot_inline bool skip_blocks(const struct scan *s, const char **p)
{
	for (; likely(*p < s->blocks_end); *p += BLOCK) {
		uint32_t mask = special_mask(*p);
		if (mask) {
			*p += __builtin_ctz(mask);
			return true;
		}
	}
	return false;
}

#else

#define BLOCK 8

/* Not 0 when a byte is special (or, after a borrow from its neighbour, may be);
 * which one, the byte loop finds. The same in either byte order. */
static inline uint64_t special_mask(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	const uint64_t highs = UINT64_C(0x8080808080808080);
	uint64_t word;
	memcpy(&word, p, sizeof(word));
	uint64_t quote = word ^ (ones * '"');
	uint64_t slash = word ^ (ones * '\\');
	uint64_t low = (word - ones * 0x20) | (quote - ones) | (slash - ones);
	return (low | word) & highs;
}

hot_inline bool skip_blocks(const struct scan *s, const char **p)
{
	while (*p < s->blocks_end && special_mask(*p) == 0)
		*p += BLOCK;
	return false;
}

#endif

/* The first byte from p on that is a quote, a backslash, a control character or
 * not ASCII; or the end. */
hot_inline const char *skip_plain(const struct scan *s, const char *p)
{
	if (likely(skip_blocks(s, &p)))
		return p;
	while (p < s->end && (signed char)*p >= 0x20 && *p != '"' && *p != '\\')
		p++;
	return p;
}

__attribute__((noinline)) static const char *skip_blank_run(const char *p, const char *end)
{
	while (p < end && is_blank(*p))
		p++;
	return p;
}

hot_inline bool at_end(const struct scan *s, const struct nest *nest, const char *p)
{
	return nest->careful && p == s->end;
}

hot_inline const char *skip_blank(const struct scan *s, const struct nest *nest, const char *p)
{
	if (at_end(s, nest, p) || likely(*p > ' '))
		return p;
	return skip_blank_run(p, s->end);
}

/* The UTF-16 unit of the \uXXXX at p, or -1. */
static int32_t escaped_unit(const char *p, const char *end)
{
	if (end - p < ESCAPE_MAX || p[0] != '\\' || p[1] != 'u')
		return -1;
	int32_t unit = 0;
	for (int i = 2; i < ESCAPE_MAX; i++) {
		int digit = hex_value(p[i]);
		if (digit < 0)
			return -1;
		unit = unit * 16 + digit;
	}
	return unit;
}

static inline bool is_high_surrogate(int32_t unit)
{
	return unit >= 0xD800 && unit <= 0xDBFF;
}

static inline bool is_low_surrogate(int32_t unit)
{
	return unit >= 0xDC00 && unit <= 0xDFFF;
}

static const char *skip_unicode_escape(const struct scan *s, const char *p)
{
	int32_t unit = escaped_unit(p, s->end);
	if (unit < 0)
		return fail(s, p, "four hexadecimal digits after \\u");
	if (is_low_surrogate(unit))
		return fail(s, p, "a high surrogate before this low one");
	p += ESCAPE_MAX;
	if (!is_high_surrogate(unit))
		return p;
	if (!is_low_surrogate(escaped_unit(p, s->end)))
		return fail(s, p, "a low surrogate after the high one");
	return p + ESCAPE_MAX;
}

static const char *skip_escape(struct scan *s, const char *p)
{
	s->escape_at = p;
	if (s->end - p < 2)
		return fail(s, s->end, "the rest of an escape");
	switch (p[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't': return p + 2;
	case 'u': return skip_unicode_escape(s, p);
	default: return fail(s, p + 1, "one of \" \\ / b f n r t u after a backslash");
	}
}

/* From a byte that is not plain to the closing quote. Out of line: in most
 * strings the first such byte is that quote. */
__attribute__((noinline)) static const char *finish_string(struct scan *s, const char *p)
{
	for (;;) {
		if (p == s->end)
			return fail(s, p, "the closing quote of a string");
		unsigned char c = (unsigned char)*p;
		if (c == '"')
			return p;
		if (c == '\\') {
			p = skip_escape(s, p);
			if (!p)
				return NULL;
		} else if (c < 0x20) {
			return fail(s, p, "no bare control character in a string");
		} else {
			size_t len = utf8_sequence(p, (size_t)(s->end - p));
			if (len == 0)
				return fail(s, p, "valid UTF-8");
			p += len;
			if (p < s->end && (signed char)*p < 0)
				continue; /* text beyond ASCII comes in runs */
		}
		p = skip_plain(s, p);
	}
}

/* p is after the opening quote; returns the place of the closing one. */
hot_inline const char *scan_string(struct scan *s, const char *p)
{
	p = skip_plain(s, p);
	if (likely(p != s->end && *p == '"'))
		return p;
	return finish_string(s, p);
}

static inline const char *skip_digits(const char *p, const char *end)
{
	while (is_digit(p, end))
		p++;
	return p;
}

static const char *scan_exponent(const struct scan *s, const char *p)
{
	p++;
	if (p < s->end && (*p == '+' || *p == '-'))
		p++;
	if (!is_digit(p, s->end))
		return fail(s, p, "a digit in the exponent");
	return skip_digits(p, s->end);
}

static const char *scan_number(const struct scan *s, const char *p)
{
	const char *end = s->end;
	if (*p == '-')
		p++;
	if (!is_digit(p, end))
		return fail(s, p, "a digit after the minus sign");
	p = *p == '0' ? p + 1 : skip_digits(p, end);
	if (p < end && *p == '.') {
		p++;
		if (!is_digit(p, end))
			return fail(s, p, "a digit after the decimal point");
		p = skip_digits(p, end);
	}
	if (p < end && (*p == 'e' || *p == 'E'))
		p = scan_exponent(s, p);
	return p;
}

static const char *scan_literal(const struct scan *s, const char *p, enum json_type *ret_type)
{
	size_t left = (size_t)(s->end - p);
	if (left >= 4 && memcmp(p, "true", 4) == 0) {
		*ret_type = JSON_TRUE;
		return p + 4;
	}
	if (left >= 4 && memcmp(p, "null", 4) == 0) {
		*ret_type = JSON_NULL;
		return p + 4;
	}
	if (left >= 5 && memcmp(p, "false", 5) == 0) {
		*ret_type = JSON_FALSE;
		return p + 5;
	}
	return fail(s, p, "a value: object, array, string, number, true, false or null");
}

hot_inline void keep(const struct scan *s, int slot, enum json_type type, const char *begin,
                     const char *end)
{
	if (slot >= 0)
		s->doc->values[slot] = (struct json_value){
			.type = type,
			.escaped = type == JSON_STRING && s->escape_at >= begin,
			.text = { begin, (size_t)(end - begin) },
		};
}

hot_inline const char *scan_scalar(struct scan *s, struct nest *nest, const char *p)
{
	enum json_type type = JSON_STRING;
	bool quoted = *p == '"';
	const char *begin = p + quoted;
	if (quoted) {
		p = scan_string(s, begin);
	} else if (*p == '-' || is_digit(p, s->end)) {
		type = JSON_NUMBER;
		p = scan_number(s, p);
	} else {
		p = scan_literal(s, p, &type);
	}
	if (unlikely(!p))
		return NULL;
	keep(s, nest->slot, type, begin, p);
	nest->slot = -1;
	return p + quoted;
}

static inline int find_name(const struct json_wanted *wanted, struct span name)
{
	if (name.len > JSON_NAME_MAX)
		return -1;
	for (unsigned i = wanted->first[name.len]; i; i = wanted->next[i - 1])
		if (span_eq(wanted->names[i - 1], name))
			return (int)i - 1;
	return -1;
}

cold_path static int find_escaped_name(const struct json_wanted *wanted, struct span name)
{
	char bytes[JSON_NAME_MAX];
	size_t len;
	if (json_decode(name, bytes, sizeof(bytes), &len) != 0)
		return -1;
	return find_name(wanted, span_of(bytes, len));
}

/* The wanted place of a top-level name, or -1; -2 when it was there before. */
static int claim_slot(const struct scan *s, struct span name)
{
	int slot = unlikely(s->escape_at >= name.ptr) ? find_escaped_name(s->wanted, name)
	                                              : find_name(s->wanted, name);
	if (slot >= 0 && s->doc->values[slot].type != JSON_NONE)
		return -2;
	return slot;
}

/* A name and its colon; p is where the name should begin. */
hot_inline const char *scan_name(struct scan *s, struct nest *nest, const char *p)
{
	if (unlikely(at_end(s, nest, p) || *p != '"'))
		return fail(s, p, "a name in quotes");
	const char *begin = p + 1;
	p = scan_string(s, begin);
	if (unlikely(!p))
		return NULL;
	if (nest->depth == 1 && s->wanted) {
		nest->slot = claim_slot(s, span_of(begin, (size_t)(p - begin)));
		if (unlikely(nest->slot < -1))
			return fail(s, begin - 1, "this name only once");
	}
	p = skip_blank(s, nest, p + 1);
	if (unlikely(at_end(s, nest, p) || *p != ':'))
		return fail(s, p, "a colon after a name");
	return p + 1;
}

/* Enters the container at p. */
hot_inline const char *open_container(const struct scan *s, struct nest *nest, const char *p)
{
	if (unlikely(nest->depth == JSON_DEPTH_MAX))
		return fail(s, p, "at most 64 containers inside each other");
	if (nest->depth == 1) {
		nest->open_slot = nest->slot;
		nest->open_at = p;
		nest->slot = -1;
	}
	nest->objects = nest->objects << 1 | (*p == '{');
	nest->depth++;
	return skip_blank(s, nest, p + 1);
}

hot_inline bool in_object(const struct nest *nest)
{
	return nest->objects & 1;
}

hot_inline bool closes(const struct nest *nest, char c)
{
	return c == (in_object(nest) ? '}' : ']');
}

cold_path static const char *fail_close(const struct scan *s, const char *p, bool object)
{
	return fail(s, p, object ? "a comma or }" : "a comma or ]");
}

/* Leaves the container whose closing bracket is at p. */
hot_inline const char *close_container(const struct scan *s, struct nest *nest, const char *p)
{
	enum json_type type = in_object(nest) ? JSON_OBJECT : JSON_ARRAY;
	nest->objects >>= 1;
	nest->depth--;
	p++;
	if (nest->depth == 1)
		keep(s, nest->open_slot, type, nest->open_at, p);
	if (unlikely(p == s->end && nest->depth > 0))
		return fail_close(s, p, in_object(nest));
	return p;
}

/* After a value: over closing brackets, and over a comma with the name that
 * must follow it in an object. Depth 0 means that the text's value has ended. */
hot_inline const char *scan_after(struct scan *s, struct nest *nest, const char *p)
{
	while (p && nest->depth > 0) {
		p = skip_blank(s, nest, p);
		if (likely(!at_end(s, nest, p) && *p == ',')) {
			p = in_object(nest) ? skip_blank(s, nest, p + 1) : p + 1;
			return in_object(nest) ? scan_name(s, nest, p) : p;
		}
		if (unlikely(at_end(s, nest, p) || !closes(nest, *p)))
			return fail_close(s, p, in_object(nest));
		p = close_container(s, nest, p);
	}
	return p;
}

/* The whole value, from its first byte; returns where it ends. */
hot_inline const char *scan_value(struct scan *s, const char *p, bool careful)
{
	struct nest nest = { .careful = careful, .slot = -1, .open_slot = -1 };
	do {
		p = skip_blank(s, &nest, p);
		if (unlikely(at_end(s, &nest, p)))
			return fail(s, p, "a value");
		if (*p == '{' || *p == '[') {
			p = open_container(s, &nest, p);
			if (unlikely(!p))
				return NULL;
			bool empty = !at_end(s, &nest, p) && closes(&nest, *p);
			if (!empty) {
				p = in_object(&nest) ? scan_name(s, &nest, p) : p;
				continue;
			}
		} else {
			p = scan_scalar(s, &nest, p);
		}
		p = scan_after(s, &nest, p);
	} while (p && nest.depth > 0);
	return p;
}

/* For texts that are not a container or do not end as one, which are rare or
 * wrong. */
cold_path static const char *scan_careful(struct scan *s, const char *p)
{
	return scan_value(s, p, true);
}

static enum json_type type_at(const char *p)
{
	switch (*p) {
	case '{': return JSON_OBJECT;
	case '[': return JSON_ARRAY;
	case '"': return JSON_STRING;
	case 't': return JSON_TRUE;
	case 'f': return JSON_FALSE;
	case 'n': return JSON_NULL;
	default: return JSON_NUMBER;
	}
}

static inline bool is_container(char first, char last)
{
	return (first == '{' || first == '[') && (last == '}' || last == ']');
}

int json_scan(struct span text, const struct json_wanted *wanted, struct json_doc *doc)
{
	static const char nothing[1];
	const char *start = text.len ? text.ptr : nothing;
	const char *end = start + text.len;
	while (end > start && is_blank(end[-1]))
		end--;
	struct scan s = {
		.start = start,
		.end = end,
		.blocks_end = end - start >= BLOCK ? end - (BLOCK - 1) : start,
		.escape_at = start,
		.wanted = wanted,
		.doc = doc,
	};
	for (uint32_t i = 0; wanted && i < wanted->count; i++)
		doc->values[i].type = JSON_NONE;
	const char *begin = skip_blank_run(start, end);
	bool sure = end - begin >= 2 && is_container(*begin, end[-1]);
	const char *p = likely(sure) ? scan_value(&s, begin, false) : scan_careful(&s, begin);
	if (p && p != end)
		p = fail(&s, skip_blank_run(p, end), "nothing after the value");
	if (!p)
		return ERR_INVALID;
	doc->root = type_at(begin);
	return 0;
}

int json_wanted_init(struct json_wanted *ret_wanted, const struct span *names, size_t count)
{
	struct json_wanted wanted = { .count = (uint32_t)count };
	if (count > JSON_WANTED_MAX)
		return ERR_TOO_LARGE;
	for (size_t i = 0; i < count; i++) {
		if (names[i].len > JSON_NAME_MAX)
			return ERR_TOO_LARGE;
		if (find_name(&wanted, names[i]) >= 0)
			return ERR_INVALID;
		wanted.names[i] = names[i];
		wanted.next[i] = wanted.first[names[i].len];
		wanted.first[names[i].len] = (uint8_t)(i + 1);
	}
	*ret_wanted = wanted;
	return 0;
}

/* Writes a scalar value (no surrogate) and returns how many bytes it took. */
static size_t put_utf8(uint32_t scalar, char ret_bytes[static 4])
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
static size_t decode_escape(const char **p, const char *end, char bytes[static 4])
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
	int32_t unit = escaped_unit(*p, end);
	if (unit < 0 || is_low_surrogate(unit))
		return 0;
	*p += ESCAPE_MAX;
	if (!is_high_surrogate(unit))
		return put_utf8((uint32_t)unit, bytes);
	int32_t low = escaped_unit(*p, end);
	if (!is_low_surrogate(low))
		return 0;
	*p += ESCAPE_MAX;
	return put_utf8((uint32_t)(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), bytes);
}

int json_decode(struct span text, char *bytes, size_t room, size_t *ret_len)
{
	const char *p = text.len ? text.ptr : "";
	const char *end = p + text.len;
	size_t len = 0;
	while (p < end) {
		char unit[4] = { *p };
		size_t n = 1;
		if (*p == '\\')
			n = decode_escape(&p, end, unit);
		else
			p++;
		if (n == 0)
			return ERR_INVALID;
		if (n > room - len)
			return ERR_TOO_LARGE;
		memcpy(bytes + len, unit, n);
		len += n;
	}
	*ret_len = len;
	return 0;
}

const char *json_type_name(enum json_type type)
{
	switch (type) {
	case JSON_NULL: return "null";
	case JSON_FALSE: return "false";
	case JSON_TRUE: return "true";
	case JSON_NUMBER: return "a number";
	case JSON_STRING: return "a string";
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_NONE: break;
	}
	return "nothing";
}
