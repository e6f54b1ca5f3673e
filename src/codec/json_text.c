/*
 * json_text: the strings of JSON texts, and texts without blanks. See json.h.
 *
 * Everything here is given what the scanner has accepted; on other bytes it
 * returns an error or nonsense, but stays inside of them.
 */
#include "codec/json.h"

#if defined(__x86_64__) && !defined(JSON_PORTABLE)
#include <immintrin.h>
#define JSON_WIDE 1
#else
#define JSON_WIDE 0
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
#if JSON_WIDE
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

static size_t compact_tokens(struct span text, char *bytes)
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

#if JSON_WIDE

#define AVX512 __attribute__((target("avx2,bmi,popcnt,pclmul,avx512f,avx512bw,avx512vbmi2")))

/* What one block leaves to the next. */
struct carry {
	uint64_t inside;  /* all ones: in a string; else 0 */
	uint64_t escaped; /* 1: the next byte is */
};

/* The bytes that a backslash escapes. Runs of backslashes escape each other; that
 * after a run is escaped if the run's length is odd. The carry of an addition finds
 * the ends of the runs that begin at an odd place, and there it is the other way
 * round than for those which begin at an even one. */
static inline uint64_t find_escaped(struct carry *carry, uint64_t slashes)
{
	const uint64_t even = UINT64_C(0x5555555555555555);
	uint64_t begins = slashes & ~carry->escaped;
	uint64_t follows = begins << 1 | carry->escaped;
	uint64_t odd_runs = begins & ~even & ~follows;
	uint64_t ends;
	carry->escaped = __builtin_add_overflow(odd_runs, begins, &ends);
	return (even ^ ends << 1) & follows;
}

/* The bytes that stay: those of strings, and all that are no blanks. */
AVX512 static inline uint64_t find_kept(struct carry *carry, __m512i block)
{
	uint64_t quotes = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8('"'));
	uint64_t slashes = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8('\\'));
	uint64_t tokens = _mm512_cmpgt_epu8_mask(block, _mm512_set1_epi8(' '));
	if (unlikely(slashes | carry->escaped))
		quotes &= ~find_escaped(carry, slashes);
	/* Multiplied by all ones, without carries, each bit is the parity of those up
	 * to it: from quotes to what is inside of them. */
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)quotes),
	                                       _mm_set1_epi8(-1), 0);
	uint64_t inside = (uint64_t)_mm_cvtsi128_si64(product) ^ carry->inside;
	carry->inside = 0 - (inside >> 63);
	return tokens | inside;
}

/* Writes whole blocks, which never reach beyond what was read. */
AVX512 static size_t compact_wide(struct span text, char *bytes)
{
	struct carry carry = { 0 };
	char *to = bytes;
	size_t i = 0;
	for (; i + 64 <= text.len; i += 64) {
		__m512i block = _mm512_loadu_si512(text.ptr + i);
		uint64_t kept = find_kept(&carry, block);
		_mm512_storeu_si512(to, _mm512_maskz_compress_epi8(kept, block));
		to += _mm_popcnt_u64(kept);
	}
	if (i < text.len) {
		uint64_t there = (UINT64_C(1) << (text.len - i)) - 1;
		__m512i block = _mm512_maskz_loadu_epi8(there, text.ptr + i);
		uint64_t kept = find_kept(&carry, block) & there;
		long long count = _mm_popcnt_u64(kept);
		_mm512_mask_storeu_epi8(to, (UINT64_C(1) << count) - 1,
		                        _mm512_maskz_compress_epi8(kept, block));
		to += count;
	}
	return (size_t)(to - bytes);
}

#endif

size_t json_compact(struct span text, char *bytes)
{
#if JSON_WIDE
	if (json_level() == JSON_LEVEL_AVX512)
		return compact_wide(text, bytes);
#endif
	return compact_tokens(text, bytes);
}

/* Behind the string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		at += *at == '\\';
	return at < end ? at + 1 : end;
}

bool json_member_next(struct span *rest, struct span *ret_name)
{
	const char *at = rest->ptr, *end = rest->ptr + rest->len;
	unsigned depth = 0;

	while (at < end && *at != '"') /* the brace, a comma */
		at++;
	if (at >= end)
		return false;
	const char *name = at + 1;
	at = skip_string(at, end);
	*ret_name = span_of(name, (size_t)(at - 1 - name));
	while (at < end && (depth > 0 || (*at != ',' && *at != '}'))) {
		if (*at == '"') {
			at = skip_string(at, end);
			continue;
		}
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
	}
	*rest = span_of(at, (size_t)(end - at));
	return true;
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
