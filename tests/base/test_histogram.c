/* histogram: buckets, quantiles and Prometheus counts against plain sorting. */
#include "support/test.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/histogram.h"

static struct histogram histogram;

static int clear(void **state)
{
	(void)state;
	histogram_clear(&histogram);
	return 0;
}

static void buckets_tile_the_range_without_gap_or_overlap(void **state)
{
	(void)state;
	uint64_t next = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t low = histogram_bucket_low(i);
		uint64_t high = histogram_bucket_high(i);
		assert_true(low == next);
		assert_true(high >= low);
		assert_int_equal(histogram_bucket(low), i);
		assert_int_equal(histogram_bucket(high), i);
		assert_true((high - low) * HISTOGRAM_SUB <= low);
		next = high + 1;
	}
	assert_true(next == HISTOGRAM_VALUE_MAX + 1);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void empty_histogram_reads_as_zero(void **state)
{
	(void)state;
	const uint64_t bounds[] = { 1, 10 };
	uint64_t counts[2] = { 9, 9 };
	assert_true(histogram_count(&histogram) == 0);
	assert_true(histogram_quantile(&histogram, 990000) == 0);
	assert_true(histogram_cumulate(&histogram, bounds, 2, counts) == 0);
	assert_true(counts[0] == 0 && counts[1] == 0);
}

static void one_value_is_every_quantile(void **state)
{
	(void)state;
	histogram_record(&histogram, 123456);
	static const uint32_t quantiles[] = { 0, 1, 500000, 999999, 1000000 };
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++)
		assert_true(histogram_quantile(&histogram, quantiles[i]) == 123456);
	assert_true(histogram_sum(&histogram) == 123456);
	assert_true(histogram_max(&histogram) == 123456);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void quantiles_are_within_a_bucket_of_sorted_values(void **state)
{
	(void)state;
	enum { N = 10000 };
	static uint64_t values[N];
	uint64_t first_seed = test_seed();
	uint64_t seed = first_seed;
	for (size_t i = 0; i < N; i++) {
		values[i] = test_random(&seed) >> (24 + test_random_below(&seed, 40));
		histogram_record(&histogram, values[i]);
	}
	qsort(values, N, sizeof(values[0]), compare);
	for (uint32_t q = 100; q <= 1000000; q += 100) {
		size_t rank = (size_t)q * N / 1000000;
		uint64_t exact = values[rank == 0 ? 0 : rank - 1];
		uint64_t got = histogram_quantile(&histogram, q);
		if (got < exact || got > exact + exact / HISTOGRAM_SUB)
			fail_msg("quantile %u: %llu for %llu (%s)", q, (unsigned long long)got,
			         (unsigned long long)exact, test_note_seed(first_seed));
	}
}

static void cumulated_counts_are_exact_for_small_values(void **state)
{
	(void)state;
	for (uint64_t value = 0; value < 2 * HISTOGRAM_SUB; value++)
		histogram_record_n(&histogram, value, value + 1);
	uint64_t bounds[70], counts[70];
	for (size_t i = 0; i < 70; i++)
		bounds[i] = i;
	uint64_t all = histogram_cumulate(&histogram, bounds, 70, counts);
	assert_true(all == histogram_count(&histogram));
	uint64_t expected = 0;
	for (size_t i = 0; i < 70; i++) {
		expected += i < 2 * HISTOGRAM_SUB ? i + 1 : 0;
		assert_true(counts[i] == expected);
	}
}

static void cumulated_counts_never_fall(void **state)
{
	(void)state;
	static const uint64_t bounds[] = { 10, 100, 1000, 10000, 1000000 };
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < 5000; i++)
		histogram_record(&histogram, test_random(&seed) >> (40 + i % 24));
	uint64_t counts[ARRAY_LEN(bounds)];
	uint64_t all = histogram_cumulate(&histogram, bounds, ARRAY_LEN(bounds), counts);
	for (size_t i = 1; i < ARRAY_LEN(bounds); i++)
		assert_true(counts[i] >= counts[i - 1]);
	assert_true(counts[ARRAY_LEN(bounds) - 1] <= all);
	assert_true(all == 5000);
}

static void merge_adds_all(void **state)
{
	(void)state;
	static struct histogram other;
	histogram_record(&histogram, 10);
	histogram_record(&other, 2000);
	histogram_record(&other, HISTOGRAM_VALUE_MAX + 100);
	histogram_merge(&histogram, &other);
	assert_true(histogram_count(&histogram) == 3);
	assert_true(histogram_sum(&histogram) == 2010 + HISTOGRAM_VALUE_MAX + 100);
	assert_true(histogram_max(&histogram) == HISTOGRAM_VALUE_MAX + 100);
	assert_true(histogram_quantile(&histogram, 1000000) == HISTOGRAM_VALUE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(buckets_tile_the_range_without_gap_or_overlap, clear),
		cmocka_unit_test_setup(empty_histogram_reads_as_zero, clear),
		cmocka_unit_test_setup(one_value_is_every_quantile, clear),
		cmocka_unit_test_setup(quantiles_are_within_a_bucket_of_sorted_values, clear),
		cmocka_unit_test_setup(cumulated_counts_are_exact_for_small_values, clear),
		cmocka_unit_test_setup(cumulated_counts_never_fall, clear),
		cmocka_unit_test_setup(merge_adds_all, clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
