/*
 * json_text: the strings of JSON texts, and texts without blanks. See json.h.
 *
 * Everything here is given what the scanner has accepted; on other bytes it
 * returns an error or nonsense, but stays inside of them.
 */
#include "codec/json.h"

#if defined(__x86_64__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>
#define JSON_SSE2 1
#else
#define JSON_SSE2 0
#endif

#include "base/error.h"
#include "codec/json_escape.h"

int json_decode(struct span text, char *bytes, size_t room, size_t *ret_len)
{
	const char *p = text.len ? text.ptr : "";
	const char *end = p + text.len;
	size_t len = 0;
	while (p < end) {
		char unit[4] = { *p };
		size_t n = 1;
		if (*p == '\\')
			n = json_decode_escape(&p, end, unit);
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

/* The first quote or backslash from p on, or the end. */
static const char *find_quote(const char *p, const char *end)
{
#if JSON_SSE2
	for (; end - p >= 16; p += 16) {
		__m128i block = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
		__m128i slash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
		unsigned mask = (unsigned)_mm_movemask_epi8(_mm_or_si128(quote, slash));
		if (mask)
			return p + __builtin_ctz(mask);
	}
#endif
	while (p < end && *p != '"' && *p != '\\')
		p++;
	return p;
}

/* The end of the string whose opening quote is at p: after its closing one. */
static const char *string_end(const char *p, const char *end)
{
	for (p = find_quote(p + 1, end); p < end && *p != '"'; p = find_quote(p, end))
		p += end - p < 2 ? 1 : 2; /* what a backslash escapes is no end */
	return p < end ? p + 1 : end;
}

size_t json_compact(struct span text, char *bytes)
{
	const char *p = text.len ? text.ptr : "";
	const char *end = p + text.len;
	char *to = bytes;
	while (p < end) {
		const char *begin = p;
		if (*p == '"')
			p = string_end(p, end);
		else
			while (p < end && *p != '"' && (unsigned char)*p > ' ')
				p++;
		memcpy(to, begin, (size_t)(p - begin));
		to += p - begin;
		while (p < end && (unsigned char)*p <= ' ')
			p++;
	}
	return (size_t)(to - bytes);
}

bool json_member_next(struct span *rest, struct span *ret_name, struct span *ret_value)
{
	const char *at = rest->ptr, *end = rest->ptr + rest->len;
	unsigned depth = 0;

	while (at < end && *at != '"') /* the brace, a comma */
		at++;
	if (at >= end)
		return false;
	const char *name = at + 1;
	at = string_end(at, end);
	*ret_name = span_of(name, (size_t)(at - 1 - name));
	while (at < end && (json_is_blank(*at) || *at == ':'))
		at++;
	const char *value = at;
	while (at < end && (depth > 0 || (*at != ',' && *at != '}'))) {
		if (*at == '"') {
			at = string_end(at, end);
			continue;
		}
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
	}
	*ret_value = json_trim(span_of(value, (size_t)(at - value)));
	*rest = span_of(at, (size_t)(end - at));
	return true;
}

const char *json_type_name(enum json_type type)
{
	static const char *const names[] = {
		[JSON_NONE] = "nothing",     [JSON_NULL] = "null",       [JSON_FALSE] = "false",
		[JSON_TRUE] = "true",        [JSON_NUMBER] = "a number", [JSON_STRING] = "a string",
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array"
	};
	CHECK((size_t)type < ARRAY_LEN(names));
	return names[type];
}
