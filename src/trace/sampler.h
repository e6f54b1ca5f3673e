/*
 * sampler: how many traces of one kind are kept.
 *
 * A bucket of tokens, filled at a rate. When it is empty the sample grows: one in
 * 2, then 4, 8 … is kept. A second in which less than half of the rate was used
 * lets it shrink again.
 *
 * Room: trace; a part of trace_log. Threads: under the log's lock, but for
 * `shift`, which anybody may read, and turns, which anybody may ask for.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TRACE_SAMPLE_MAX 30u
#define TRACE_SAMPLE_BACK_S 60u

struct trace_sampler {
	uint32_t rate, burst; /* a second; at most */
	uint64_t second;      /* that is being counted, unix */
	uint64_t tokens;
	uint64_t used;             /* in this second */
	atomic_uint_fast64_t turn; /* counts what asks for its turn */
	atomic_uint shift;         /* one in 1 << shift is kept */
};

static inline void trace_sampler_init(struct trace_sampler *sampler, uint32_t rate, uint32_t burst)
{
	sampler->rate = rate;
	sampler->burst = burst;
	sampler->tokens = burst;
}

static inline uint32_t trace_sampler_shift(const struct trace_sampler *sampler)
{
	return atomic_load_explicit(&sampler->shift, memory_order_relaxed);
}

/* May one more be kept? Whatever is not in the sample has been left out already. A clock that
 * goes back a little counts on in the second it was in; one that goes back further is another
 * one's, and begins anew. */
static inline bool trace_sampler_take(struct trace_sampler *sampler, uint64_t now_ms)
{
	uint64_t second = now_ms / 1000;
	uint32_t shift = trace_sampler_shift(sampler);
	if (second > sampler->second || sampler->second - second >= TRACE_SAMPLE_BACK_S) {
		uint64_t passed = second > sampler->second ? second - sampler->second : 0;
		sampler->tokens += passed > sampler->burst ? sampler->burst
		                                           : passed * sampler->rate;
		if (sampler->tokens > sampler->burst)
			sampler->tokens = sampler->burst;
		if (shift > 0 && sampler->used * 2 <= sampler->rate)
			shift--;
		sampler->used = 0;
		sampler->second = second;
	}
	bool kept = sampler->tokens > 0;
	if (kept) {
		sampler->tokens--;
		sampler->used++;
	} else {
		sampler->tokens = sampler->rate / 2;
		if (shift < TRACE_SAMPLE_MAX)
			shift++;
	}
	atomic_store_explicit(&sampler->shift, shift, memory_order_relaxed);
	return kept;
}

/* Every 2nd, 4th, …: for what has no digest to go by. */
static inline bool trace_sampler_turn(struct trace_sampler *sampler)
{
	uint64_t mask = (UINT64_C(1) << trace_sampler_shift(sampler)) - 1;
	return (atomic_fetch_add_explicit(&sampler->turn, 1, memory_order_relaxed) & mask) == 0;
}
