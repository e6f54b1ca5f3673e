/* hash_lanes: see hash_lanes.h. */
#include "base/hash_lanes.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define LANES_WIDE 1
#else
#define LANES_WIDE 0
#endif

bool hash_lanes_gain(void)
{
#if LANES_WIDE
	return __builtin_cpu_supports("avx512f");
#else
	return false;
#endif
}

static void put_state(struct hash_lanes *lanes, uint32_t lane, const struct hash_state *state)
{
	lanes->states.v0[lane] = state->v0;
	lanes->states.v1[lane] = state->v1;
	lanes->states.v2[lane] = state->v2;
	lanes->states.v3[lane] = state->v3;
}

bool hash_lanes_add(struct hash_lanes *lanes, const struct hash_rest *rest)
{
	uint32_t lane = lanes->count;
	CHECK(lane < HASH_LANES);
	CHECK(rest->done % 8 == 0 && rest->done <= rest->len);
	size_t whole = rest->len / 8 - rest->done / 8;
	if (whole >= HASH_LANES_WORDS)
		return false;
	lanes->count++;
	if (!hash_lanes_gain()) {
		hash_finish(rest, lanes->done[lane]);
		return true;
	}
	const unsigned char *p = rest->ptr + rest->done;
	for (size_t i = 0; i < whole; i++)
		lanes->message[i][lane] = hash_load64(p + 8 * i);
	lanes->message[whole][lane] = hash_last_word(rest->ptr, rest->len);
	lanes->words[lane] = whole + 1;
	if (lanes->longest < whole + 1)
		lanes->longest = (uint32_t)whole + 1;
	if (lane == 0 || lanes->shortest > whole + 1)
		lanes->shortest = (uint32_t)whole + 1;
	put_state(lanes, lane, &rest->state);
	return true;
}

#if LANES_WIDE

/* Without ASan: its frames for use after return align 64-byte locals to 32 (GCC bug 110027). */
#define AVX512 __attribute__((target("avx512f"), no_sanitize("address")))
#define wide_inline static inline __attribute__((always_inline))

struct wide {
	__m512i v0, v1, v2, v3;
};

AVX512 wide_inline __m512i add(__m512i a, __m512i b)
{
	return _mm512_add_epi64(a, b);
}

AVX512 wide_inline __m512i exclusive(__m512i a, __m512i b)
{
	return _mm512_xor_si512(a, b);
}

/* As sip_round() of hash.c. */
AVX512 wide_inline void round_of(struct wide *s)
{
	s->v0 = add(s->v0, s->v1);
	s->v2 = add(s->v2, s->v3);
	s->v1 = exclusive(_mm512_rol_epi64(s->v1, 13), s->v0);
	s->v3 = exclusive(_mm512_rol_epi64(s->v3, 16), s->v2);
	s->v0 = add(_mm512_rol_epi64(s->v0, 32), s->v3);
	s->v2 = add(s->v2, s->v1);
	s->v3 = exclusive(_mm512_rol_epi64(s->v3, 21), s->v0);
	s->v1 = exclusive(_mm512_rol_epi64(s->v1, 17), s->v2);
	s->v2 = _mm512_rol_epi64(s->v2, 32);
}

AVX512 wide_inline void feed(struct wide *s, __m512i word)
{
	s->v3 = exclusive(s->v3, word);
	round_of(s);
	round_of(s);
	s->v0 = exclusive(s->v0, word);
}

/* Lanes that have ended stay as they are. */
AVX512 wide_inline void feed_some(struct wide *s, __m512i word, __mmask8 these)
{
	struct wide next = *s;
	feed(&next, word);
	s->v0 = _mm512_mask_mov_epi64(s->v0, these, next.v0);
	s->v1 = _mm512_mask_mov_epi64(s->v1, these, next.v1);
	s->v2 = _mm512_mask_mov_epi64(s->v2, these, next.v2);
	s->v3 = _mm512_mask_mov_epi64(s->v3, these, next.v3);
}

AVX512 wide_inline __m512i fold(struct wide *s)
{
	for (int i = 0; i < 4; i++)
		round_of(s);
	return exclusive(exclusive(s->v0, s->v1), exclusive(s->v2, s->v3));
}

AVX512 wide_inline struct wide begin_row(const struct hash_lanes *lanes)
{
	return (struct wide){
		_mm512_loadu_si512(lanes->states.v0),
		_mm512_loadu_si512(lanes->states.v1),
		_mm512_loadu_si512(lanes->states.v2),
		_mm512_loadu_si512(lanes->states.v3),
	};
}

AVX512 wide_inline void feed_row(struct wide *s, const struct hash_lanes *lanes, uint32_t i)
{
	__m512i word = _mm512_loadu_si512(lanes->message[i]);
	if (likely(i < lanes->shortest)) {
		feed(s, word);
		return;
	}
	__m512i words = _mm512_loadu_si512(lanes->words);
	feed_some(s, word, _mm512_cmpgt_epi64_mask(words, _mm512_set1_epi64(i)));
}

AVX512 wide_inline void end_row(struct wide *s, uint64_t ret_words[static HASH_LANES][2])
{
	uint64_t first[HASH_LANES], second[HASH_LANES];
	s->v2 = exclusive(s->v2, _mm512_set1_epi64(0xee));
	_mm512_storeu_si512(first, fold(s));
	s->v1 = exclusive(s->v1, _mm512_set1_epi64(0xdd));
	_mm512_storeu_si512(second, fold(s));
	for (uint32_t i = 0; i < HASH_LANES; i++) {
		ret_words[i][0] = first[i];
		ret_words[i][1] = second[i];
	}
}

AVX512 static void finish_wide(const struct hash_lanes *lanes,
                               uint64_t ret_words[static HASH_LANES][2])
{
	struct wide s = begin_row(lanes);
	for (uint32_t i = 0; i < lanes->longest; i++)
		feed_row(&s, lanes, i);
	end_row(&s, ret_words);
}

AVX512 static void finish_wide_pair(const struct hash_lanes *first, const struct hash_lanes *second,
                                    uint64_t ret_first[static HASH_LANES][2],
                                    uint64_t ret_second[static HASH_LANES][2])
{
	struct wide a = begin_row(first);
	struct wide b = begin_row(second);
	uint32_t i = 0;
	for (; i < first->longest && i < second->longest; i++) {
		feed_row(&a, first, i);
		feed_row(&b, second, i);
	}
	for (uint32_t j = i; j < first->longest; j++)
		feed_row(&a, first, j);
	for (uint32_t j = i; j < second->longest; j++)
		feed_row(&b, second, j);
	end_row(&a, ret_first);
	end_row(&b, ret_second);
}

#endif

static void clear(struct hash_lanes *lanes)
{
	lanes->count = 0;
	lanes->longest = 0;
}

void hash_lanes_finish(struct hash_lanes *lanes, uint64_t ret_words[static HASH_LANES][2])
{
#if LANES_WIDE
	if (hash_lanes_gain())
		finish_wide(lanes, ret_words);
	else
#endif
		memcpy(ret_words, lanes->done, sizeof(lanes->done));
	clear(lanes);
}

void hash_lanes_finish_pair(struct hash_lanes *first, struct hash_lanes *second,
                            uint64_t ret_first[static HASH_LANES][2],
                            uint64_t ret_second[static HASH_LANES][2])
{
#if LANES_WIDE
	if (hash_lanes_gain()) {
		finish_wide_pair(first, second, ret_first, ret_second);
		clear(first);
		clear(second);
		return;
	}
#endif
	hash_lanes_finish(first, ret_first);
	hash_lanes_finish(second, ret_second);
}
