/* histogram: see histogram.h. */
#include "base/histogram.h"

#include "base/check.h"

static uint64_t read_counter(const atomic_uint_fast64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t histogram_bucket_low(size_t bucket)
{
	CHECK(bucket < HISTOGRAM_BUCKETS);
	if (bucket < 2 * HISTOGRAM_SUB)
		return bucket;
	size_t shift = bucket / HISTOGRAM_SUB - 1;
	return (uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB) << shift;
}

uint64_t histogram_bucket_high(size_t bucket)
{
	CHECK(bucket < HISTOGRAM_BUCKETS);
	return bucket + 1 == HISTOGRAM_BUCKETS ? HISTOGRAM_VALUE_MAX
	                                       : histogram_bucket_low(bucket + 1) - 1;
}

void histogram_clear(struct histogram *histogram)
{
	atomic_store_explicit(&histogram->sum, 0, memory_order_relaxed);
	atomic_store_explicit(&histogram->max, 0, memory_order_relaxed);
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		atomic_store_explicit(&histogram->buckets[i], 0, memory_order_relaxed);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	histogram_bump(&into->sum, read_counter(&from->sum));
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = read_counter(&from->buckets[i]);
		if (n > 0)
			histogram_bump(&into->buckets[i], n);
	}
	uint64_t max = read_counter(&from->max);
	if (max > read_counter(&into->max))
		atomic_store_explicit(&into->max, max, memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += read_counter(&histogram->buckets[i]);
	return count;
}

uint64_t histogram_sum(const struct histogram *histogram)
{
	return read_counter(&histogram->sum);
}

uint64_t histogram_max(const struct histogram *histogram)
{
	return read_counter(&histogram->max);
}

uint64_t histogram_quantile(const struct histogram *histogram, uint32_t per_million)
{
	CHECK(per_million <= 1000000);
	uint64_t count = histogram_count(histogram);
	if (count == 0)
		return 0;
	/* The rank of the quantile, from 1; rounded up, so that the quantile of one
	 * value is that value. Computed in two parts, so that no product overflows. */
	const uint64_t million = 1000000;
	uint64_t rank = count / million * per_million +
	                (count % million * per_million + million - 1) / million;
	rank = rank == 0 ? 1 : rank;
	uint64_t max = histogram_max(histogram);
	uint64_t seen = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += read_counter(&histogram->buckets[i]);
		if (seen >= rank) {
			uint64_t high = histogram_bucket_high(i);
			return high < max ? high : max;
		}
	}
	return max;
}

uint64_t histogram_cumulate(const struct histogram *histogram, const uint64_t *bounds,
                            size_t bound_count, uint64_t *ret_counts)
{
	uint64_t count = 0;
	size_t bound = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t low = histogram_bucket_low(i);
		for (; bound < bound_count && bounds[bound] < low; bound++)
			ret_counts[bound] = count;
		count += read_counter(&histogram->buckets[i]);
	}
	for (; bound < bound_count; bound++)
		ret_counts[bound] = count;
	return count;
}
