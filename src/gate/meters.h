/*
 * meters: what a door counts. One set per io thread.
 *
 * Room:    gate. Threads: one writer (the io thread), any reader; the counters
 *          are relaxed atomics without a locked instruction.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "gate/verdict.h"

struct histogram;

struct meters {
	atomic_uint_fast64_t verdicts[VERDICT_COUNT];
	atomic_uint_fast64_t refused;  /* no claim could be computed: 4xx */
	atomic_uint_fast64_t overload; /* the store had no room: 503 */
	struct histogram *answer_us;   /* from whole request to answer */
};

/* For the single writer only. */
static inline void meter_add(atomic_uint_fast64_t *meter, uint64_t n)
{
	uint64_t value = atomic_load_explicit(meter, memory_order_relaxed);
	atomic_store_explicit(meter, value + n, memory_order_relaxed);
}

static inline uint64_t meter_read(const atomic_uint_fast64_t *meter)
{
	return atomic_load_explicit(meter, memory_order_relaxed);
}
