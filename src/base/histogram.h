/*
 * histogram: counts of recorded values, within 3 %.
 *
 * Log-linear and fixed: 32 buckets per power of two, exact below 64, up to
 * 2^40 - 1; greater values count as that. Recording is three additions and a
 * count of leading zeros.
 *
 * Room:      base. Threads: one writer, any readers (relaxed atomics without a
 *            locked instruction). A reader sees each counter whole, but not all
 *            of one moment.
 * Ownership: plain memory of about 9 KiB, zeroed is empty.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_SUB_BITS 5u
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_VALUE_BITS 40u
#define HISTOGRAM_VALUE_MAX ((UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1)
#define HISTOGRAM_BUCKETS ((HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB)

struct histogram {
	atomic_uint_fast64_t sum;
	atomic_uint_fast64_t max;
	atomic_uint_fast64_t buckets[HISTOGRAM_BUCKETS];
};

/* Which bucket a value is in. Below 2 * HISTOGRAM_SUB a bucket is one value. */
static inline size_t histogram_bucket(uint64_t value)
{
	if (value > HISTOGRAM_VALUE_MAX)
		value = HISTOGRAM_VALUE_MAX;
	unsigned exponent = 63u - (unsigned)__builtin_clzll(value | HISTOGRAM_SUB);
	unsigned shift = exponent - HISTOGRAM_SUB_BITS;
	return (size_t)shift * HISTOGRAM_SUB + (size_t)(value >> shift);
}

static inline void histogram_bump(atomic_uint_fast64_t *counter, uint64_t n)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
	atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

static inline void histogram_record_n(struct histogram *histogram, uint64_t value, uint64_t times)
{
	histogram_bump(&histogram->buckets[histogram_bucket(value)], times);
	histogram_bump(&histogram->sum, value * times);
	if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
		atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
}

static inline void histogram_record(struct histogram *histogram, uint64_t value)
{
	histogram_record_n(histogram, value, 1);
}

void histogram_clear(struct histogram *histogram);

/* Adds all of `from`, which may be written meanwhile, to `into`, which may not. */
void histogram_merge(struct histogram *into, const struct histogram *from);

uint64_t histogram_count(const struct histogram *histogram);
uint64_t histogram_sum(const struct histogram *histogram);
uint64_t histogram_max(const struct histogram *histogram);

/* The value that `per_million` of a million recorded ones do not exceed: the
 * upper end of its bucket, at most the maximum. 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, uint32_t per_million);

/* For Prometheus: ret_counts[i] is how many values are at most bounds[i]
 * (ascending), each value taken as the lower end of its bucket: so a value is
 * at most 3 % above the bound it is counted under. Returns the count of all,
 * for le="+Inf", from the same reading. */
uint64_t histogram_cumulate(const struct histogram *histogram, const uint64_t *bounds,
                            size_t bound_count, uint64_t *ret_counts);

/* The least and greatest value of a bucket. */
uint64_t histogram_bucket_low(size_t bucket);
uint64_t histogram_bucket_high(size_t bucket);
