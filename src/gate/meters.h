/*
 * meters: what doors count: of each source, and of each io thread.
 *
 * Room:      gate.
 * Threads:   a meter has one writer (an io thread) and any reader; they are relaxed
 *            atomics without a locked instruction. Sources are added to the counts
 *            by one thread, while others may read.
 * Ownership: counts live as long as the process; a source's meters never move.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/log.h"
#include "base/span.h"
#include "gate/verdict.h"

struct histogram;

/* What one io thread counts of one source. */
struct source_meters {
	atomic_uint_fast64_t verdicts[VERDICT_COUNT];
	atomic_uint_fast64_t would[VERDICT_COUNT]; /* said in shadow: the event passed */
	atomic_uint_fast64_t refused;              /* no claim could be computed: 4xx */
	atomic_uint_fast64_t unauthorized;         /* 401, 403 */
	atomic_uint_fast64_t overload;             /* the store had no room: 503 */
	atomic_uint_fast64_t unrouted;             /* new, and no route was for it */
	struct log_site refusals;                  /* limits the lines about unauthorized ones */
};

struct source_count {
	_Atomic(struct source_count *) next;
	struct span name;
	struct source_meters meters[]; /* one for each io thread */
};

struct source_counts {
	uint32_t thread_count;
	_Atomic(struct source_count *) first;
};

/* The meters of a source, made at its first asking; NULL: no memory. */
struct source_meters *source_meters_of(struct source_counts *counts, struct span name);
void source_counts_free(struct source_counts *counts);

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
