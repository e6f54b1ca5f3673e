/* json_marks: see json_marks.h. */
#include "codec/json_marks.h"

#include <string.h>

#if defined(__x86_64__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>
#define JSON_SSE2 1
#else
#define JSON_SSE2 0
#endif

#include "codec/json_plan.h"

#define BLOCK JSON_MARKS_BLOCK

/* Writes the places of the set bits, always eight at a time: the processor predicts the
 * number of eights well and the number of bits badly. Entries after the last one are
 * overwritten by the next call and never read. */
static inline uint16_t *put_places(uint16_t *out, size_t base, uint64_t bits)
{
	uint16_t *end = out + __builtin_popcountll(bits);
	do {
		for (int i = 0; i < 8; i++) {
			out[i] = (uint16_t)(base +
			                    (size_t)__builtin_ctzll(bits | UINT64_C(1) << 63));
			bits &= bits - 1;
		}
		out += 8;
	} while (out < end);
	return end;
}

#if JSON_SSE2

/* A bit for each special byte of 16. A signed compare finds the controls and what is
 * not ASCII at once: bytes below 0x20 are less than it, and so are those from 0x80
 * on, which are negative. */
static inline uint64_t find_sixteen(const char *p)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i odd = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
	__m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
	__m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(odd, _mm_or_si128(quote, slash)));
}

static inline uint64_t find_block(const char *p)
{
	return find_sixteen(p) | find_sixteen(p + 16) << 16 | find_sixteen(p + 32) << 32 |
	       find_sixteen(p + 48) << 48;
}

#else

/* The high bit of each byte that is 0, exactly. */
static inline uint64_t zero_bytes(uint64_t word)
{
	const uint64_t lows = UINT64_C(0x7F7F7F7F7F7F7F7F);
	return ~(((word & lows) + lows) | word | lows);
}

static inline uint64_t find_eight(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word = json_load64(p);
	uint64_t found = zero_bytes(word ^ ones * '"') | zero_bytes(word ^ ones * '\\') |
	                 zero_bytes(word & ones * 0xE0) | (word & ones * 0x80);
	/* From eight high bits to eight bits side by side. */
	return (found >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static inline uint64_t find_block(const char *p)
{
	uint64_t bits = 0;
	for (unsigned i = 0; i < BLOCK; i += 8)
		bits |= find_eight(p + i) << i;
	return bits;
}

#endif

void json_marks_fill(struct json_marks *marks, const char *p, const char *end)
{
	size_t len = (size_t)(end - p);
	bool last = len < JSON_MARKS_CHUNK;
	size_t whole = last ? len / BLOCK * BLOCK : JSON_MARKS_CHUNK;
	uint16_t *out = marks->places;
	for (size_t i = 0; i < whole; i += BLOCK)
		out = put_places(out, i, find_block(p + i));
	if (last && whole < len) {
		/* Less than a block is left: it ends one that is read in its place. */
		char bytes[BLOCK] = { 0 };
		const char *tail = len >= BLOCK ? end - BLOCK : bytes;
		size_t left = len - whole;
		if (len < BLOCK)
			memcpy(bytes + BLOCK - len, p, len);
		out = put_places(out, whole, find_block(tail) >> (BLOCK - left));
	}
	if (last)
		*out++ = (uint16_t)len;
	marks->base = p;
	marks->until = last ? end : p + JSON_MARKS_CHUNK;
	marks->count = (uint32_t)(out - marks->places);
	marks->next = 0;
	uint32_t safe = marks->count;
	while (safe > 0 && len - marks->places[safe - 1] < JSON_MARKS_BEHIND)
		safe--;
	marks->safe = safe < JSON_MARKS_AHEAD ? 0 : safe - JSON_MARKS_AHEAD + 1;
}
