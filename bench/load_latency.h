/*
 * load_latency: a log-linear histogram of nanoseconds, 1.6 % exact.
 *
 * 64 linear steps for each power of two. A value is recorded in a few
 * nanoseconds, so that measuring does not weigh on what is measured.
 */
#pragma once

#include <stdint.h>

#define LOAD_LATENCY_STEP_BITS 6
#define LOAD_LATENCY_STEPS (1u << LOAD_LATENCY_STEP_BITS)
#define LOAD_LATENCY_SLOTS \
	((40u - LOAD_LATENCY_STEP_BITS + 1) * LOAD_LATENCY_STEPS) /* to 2^40 ns */

struct load_latency {
	uint64_t count;
	uint64_t slots[LOAD_LATENCY_SLOTS];
};

static inline uint32_t load_latency_slot(uint64_t ns)
{
	if (ns < LOAD_LATENCY_STEPS)
		return (uint32_t)ns;
	uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - LOAD_LATENCY_STEP_BITS;
	uint32_t slot = (uint32_t)(ns >> shift) + shift * LOAD_LATENCY_STEPS;
	return slot < LOAD_LATENCY_SLOTS ? slot : LOAD_LATENCY_SLOTS - 1;
}

static inline void load_latency_add(struct load_latency *latency, uint64_t ns)
{
	latency->slots[load_latency_slot(ns)]++;
	latency->count++;
}

/* The upper edge of the slot that holds this quantile (0 … 1). */
static inline uint64_t load_latency_quantile(const struct load_latency *latency, double quantile)
{
	uint64_t want = (uint64_t)((double)latency->count * quantile);
	uint64_t seen = 0;
	for (uint32_t slot = 0; slot < LOAD_LATENCY_SLOTS; slot++) {
		seen += latency->slots[slot];
		if (seen > want || (seen == latency->count && seen > 0)) {
			if (slot < LOAD_LATENCY_STEPS)
				return slot;
			uint32_t shift = slot / LOAD_LATENCY_STEPS - 1;
			uint64_t step = slot - shift * LOAD_LATENCY_STEPS;
			return (step + 1) << shift;
		}
	}
	return 0;
}
