/* json_marks: see json_marks.h. */
#include "codec/json_marks.h"

#include <string.h>

#if defined(__x86_64__) && !defined(JSON_PORTABLE)
#include <immintrin.h>
#define JSON_WIDE 1
#else
#define JSON_WIDE 0
#endif

#include "codec/json_plan.h"

#define BLOCK JSON_MARKS_BLOCK
/* Where json_marks_fill() has the tail in memory of its own, nothing may be taken for
 * granted about how that is aligned: a sanitizer may move it. */
#define not_inlined __attribute__((noinline))
#define wide_inline static inline __attribute__((always_inline))

enum json_level json_level_max = JSON_LEVEL_AVX512;

enum json_level json_level(void)
{
#if JSON_WIDE
	if (json_level_max >= JSON_LEVEL_AVX512 && __builtin_cpu_supports("avx512vbmi2") &&
	    __builtin_cpu_supports("avx512bw"))
		return JSON_LEVEL_AVX512;
	if (json_level_max >= JSON_LEVEL_AVX2 && __builtin_cpu_supports("avx2") &&
	    __builtin_cpu_supports("bmi"))
		return JSON_LEVEL_AVX2;
#endif
	return JSON_LEVEL_BASE;
}

/* Eight at a time, whether there are so many or not: how many they are is not
 * foreseen, but how many eights often is. Bits that are not there give what nobody
 * reads. */
wide_inline uint16_t *put_places(uint16_t *out, size_t base, uint64_t bits)
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

#if JSON_WIDE

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

static inline uint64_t find_base(const char *p)
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

static inline uint64_t find_base(const char *p)
{
	uint64_t bits = 0;
	for (unsigned i = 0; i < BLOCK; i += 8)
		bits |= find_eight(p + i) << i;
	return bits;
}

#endif

/* What is to be marked: whole blocks, then less than one. */
struct job {
	const char *p;
	size_t len;       /* of the blocks */
	size_t left;      /* bytes behind them … */
	const char *tail; /* … which are the last of these 64 */
	uint16_t *out;
};

not_inlined static uint16_t *mark_base(const struct job *job)
{
	uint16_t *out = job->out;
	for (size_t i = 0; i < job->len; i += BLOCK)
		out = put_places(out, i, find_base(job->p + i));
	if (job->left)
		out = put_places(out, job->len, find_base(job->tail) >> (BLOCK - job->left));
	return out;
}

#if JSON_WIDE

#define AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define AVX512 __attribute__((target("avx2,bmi,popcnt,avx512f,avx512bw,avx512vbmi2")))

AVX2 wide_inline uint64_t find_half(const char *p)
{
	__m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
	__m256i odd = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), bytes);
	__m256i quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
	__m256i slash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\'));
	__m256i special = _mm256_or_si256(odd, _mm256_or_si256(quote, slash));
	return (uint32_t)_mm256_movemask_epi8(special);
}

AVX2 wide_inline uint64_t find_avx2(const char *p)
{
	return find_half(p) | find_half(p + 32) << 32;
}

not_inlined AVX2 static uint16_t *mark_avx2(const struct job *job)
{
	uint16_t *out = job->out;
	for (size_t i = 0; i < job->len; i += BLOCK)
		out = put_places(out, i, find_avx2(job->p + i));
	if (job->left)
		out = put_places(out, job->len, find_avx2(job->tail) >> (BLOCK - job->left));
	return out;
}

AVX512 wide_inline uint64_t find_avx512(const char *p)
{
	__m512i bytes = _mm512_loadu_si512(p);
	return _mm512_cmplt_epi8_mask(bytes, _mm512_set1_epi8(0x20)) |
	       _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('"')) |
	       _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\\'));
}

AVX512 wide_inline void put_sixteen(uint16_t *out, size_t base, __m128i numbers)
{
	__m256i places = _mm256_add_epi16(_mm256_cvtepu8_epi16(numbers),
	                                  _mm256_set1_epi16((short)base));
	_mm256_storeu_si256((__m256i *)(void *)out, places);
}

/* The numbers of the bits come together by one instruction. */
AVX512 wide_inline uint16_t *put_avx512(uint16_t *out, size_t base, uint64_t bits)
{
	static const unsigned char sixty_four[64] = {
		0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
		32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
		48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
	};
	__m512i found = _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(sixty_four));
	long long count = _mm_popcnt_u64(bits);
	put_sixteen(out, base, _mm512_castsi512_si128(found));
	if (unlikely(count > 16)) {
		put_sixteen(out + 16, base, _mm512_extracti32x4_epi32(found, 1));
		put_sixteen(out + 32, base, _mm512_extracti32x4_epi32(found, 2));
		put_sixteen(out + 48, base, _mm512_extracti32x4_epi32(found, 3));
	}
	return out + count;
}

not_inlined AVX512 static uint16_t *mark_avx512(const struct job *job)
{
	uint16_t *out = job->out;
	for (size_t i = 0; i < job->len; i += BLOCK)
		out = put_avx512(out, i, find_avx512(job->p + i));
	if (job->left)
		out = put_avx512(out, job->len, find_avx512(job->tail) >> (BLOCK - job->left));
	return out;
}

#endif

static inline uint16_t *mark(const struct job *job)
{
#if JSON_WIDE
	enum json_level level = json_level();
	if (level == JSON_LEVEL_AVX512)
		return mark_avx512(job);
	if (level == JSON_LEVEL_AVX2)
		return mark_avx2(job);
#endif
	return mark_base(job);
}

void json_marks_fill(struct json_marks *marks, const char *p, const char *end)
{
	char bytes[BLOCK];
	size_t len = (size_t)(end - p);
	bool last = len < JSON_MARKS_CHUNK;
	struct job job = { .p = p, .len = JSON_MARKS_CHUNK, .out = marks->places };
	if (last) {
		job.len = len / BLOCK * BLOCK;
		job.left = len % BLOCK;
		job.tail = len >= BLOCK ? end - BLOCK : bytes;
		if (len < BLOCK)
			memcpy(bytes + BLOCK - len, p, len);
	}
	uint16_t *out = mark(&job);
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
