/* gap: the gaps between originals and duplicates, also beyond the window. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gate/gap.h"
#include "gate/ticket.h"
#include "support/test.h"

#define NOW_MS UINT64_C(1767225600000) /* 2026-01-01 */
#define HOUR_MS UINT64_C(3600000)

static struct gap *gap_new(void)
{
	struct gap *gap = mem_zalloc(1, sizeof(*gap));
	assert_non_null(gap);
	return gap;
}

static uint64_t ticket_at(uint64_t ms)
{
	return ticket_next(0, ms);
}

static bool pass(struct gap *gap, uint64_t word, uint64_t ms, uint64_t *ret_before)
{
	struct gap_passage passage = { word, 3600, ticket_at(ms) };
	return gap_passed(gap, passage, ret_before);
}

static void test_a_return_after_the_window_is_seen_with_its_gap(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t before = 0;
	assert_false(pass(gap, 77, NOW_MS, &before));
	assert_true(pass(gap, 77, NOW_MS + 23 * HOUR_MS, &before));
	assert_int_equal(before, ticket_at(NOW_MS));
	assert_int_equal(gap_highest_ms(gap), 23 * HOUR_MS);
	assert_int_equal(histogram_count(&gap->returns), 1);
	/* The claim is the second one's now. */
	assert_true(pass(gap, 77, NOW_MS + 25 * HOUR_MS, &before));
	assert_int_equal(before, ticket_at(NOW_MS + 23 * HOUR_MS));
	mem_free(gap);
}

static void test_what_passes_again_within_the_window_is_no_return(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t before = 5;
	assert_false(pass(gap, 77, NOW_MS, &before));
	assert_false(pass(gap, 77, NOW_MS + HOUR_MS - 1, &before));
	assert_false(pass(gap, 77, NOW_MS - HOUR_MS * 9, &before));
	assert_int_equal(before, 5);
	/* … and the first one still holds the claim. */
	assert_true(pass(gap, 77, NOW_MS + HOUR_MS, &before));
	assert_int_equal(before, ticket_at(NOW_MS));
	mem_free(gap);
}

static void test_duplicates_are_counted_as_often_as_they_stand_for(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	gap_duplicate(gap, 3000, NOW_MS, 1);
	gap_duplicate(gap, 5000, NOW_MS + 10, 8);
	gap_duplicate(gap, UINT64_MAX, NOW_MS + 20, 1);
	assert_int_equal(histogram_count(&gap->duplicates), 10);
	assert_int_equal(gap_highest_ms(gap), HISTOGRAM_VALUE_MAX);
	assert_int_equal(gap->first_ms, NOW_MS);
	assert_int_equal(gap->last_ms, NOW_MS + 20);
	mem_free(gap);
}

/* Ten thousand ids a second, and one in a hundred comes back after two windows. */
static void test_returns_are_found_at_any_rate(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t seed = test_seed();
	uint64_t random = seed;
	uint64_t words = test_scale(400000);
	uint64_t returned = 0;
	for (uint64_t i = 0; i < words; i++) {
		uint64_t before = 0;
		assert_false(pass(gap, test_random(&random), NOW_MS + i / 10, &before));
	}
	assert_true(gap->count <= GAP_ENTRIES_MAX);
	uint64_t again = seed;
	for (uint64_t i = 0; i < words; i++) {
		uint64_t before = 0;
		uint64_t word = test_random(&again);
		if (i % 100 == 0)
			returned += pass(gap, word, NOW_MS + i / 10 + 2 * HOUR_MS, &before);
	}
	uint64_t about = gap->returns_about;
	if (returned < 2 || about < words / 1000 || about > words / 10)
		fail_msg("%s: %llu returns seen, about %llu told, of %llu", test_note_seed(seed),
		         (unsigned long long)returned, (unsigned long long)about,
		         (unsigned long long)(words / 100));
	mem_free(gap);
}

/* Everything that is in the sample is found, whatever was taken out before. */
static void test_the_sample_keeps_what_it_says(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t seed = test_seed();
	uint64_t random = seed;
	uint64_t words = 20000;
	for (uint64_t i = 0; i < words; i++) {
		uint64_t before = 0;
		/* few homes: long runs, also around the end of the table */
		uint64_t word = test_random(&random) | UINT64_C(0x7c0) << 40;
		pass(gap, word, NOW_MS + i, &before);
	}
	uint32_t sample = gap->sample;
	uint32_t found = 0;
	assert_true(sample > 0);
	random = seed;
	for (uint64_t i = 0; i < words; i++) {
		uint64_t before = 0;
		uint64_t word = test_random(&random) | UINT64_C(0x7c0) << 40;
		if (word & ((UINT64_C(1) << sample) - 1))
			continue;
		if (!pass(gap, word, NOW_MS + i + HOUR_MS, &before))
			fail_msg("%s: word %llu is forgotten", test_note_seed(seed),
			         (unsigned long long)i);
		assert_int_equal(before, ticket_at(NOW_MS + i));
		found++;
	}
	assert_int_equal(found, gap->count);
	mem_free(gap);
}

static void test_old_ids_leave_before_the_sample_shrinks(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t random = test_seed();
	uint64_t before = 0;
	for (uint64_t i = 0; i < GAP_ENTRIES_MAX; i++)
		pass(gap, test_random(&random), NOW_MS, &before);
	assert_int_equal(gap->count, GAP_ENTRIES_MAX);
	for (uint64_t i = 0; i < 100; i++)
		pass(gap, test_random(&random), NOW_MS + 9 * 24 * HOUR_MS, &before);
	assert_int_equal(gap->sample, 0);
	assert_int_equal(gap->count, 100);
	mem_free(gap);
}

static void test_equal_low_bits_do_not_fill_the_table_for_ever(void **state)
{
	(void)state;
	struct gap *gap = gap_new();
	uint64_t before = 0;
	for (uint64_t i = 1; i < 3 * GAP_SLOTS; i++)
		pass(gap, i << 45, NOW_MS, &before);
	assert_true(gap->count <= GAP_ENTRIES_MAX);
	mem_free(gap);
}

static struct gap *gap_with_a_past(void)
{
	struct gap *gap = gap_new();
	uint64_t random = test_seed();
	uint64_t before = 0;
	for (uint64_t i = 0; i < 3000; i++) {
		gap_duplicate(gap, test_random(&random) >> (i % 64), NOW_MS + i, 1 + i % 3);
		pass(gap, test_random(&random), NOW_MS + i, &before);
	}
	pass(gap, 0, NOW_MS, &before);
	pass(gap, 0, NOW_MS + 2 * HOUR_MS, &before);
	return gap;
}

static void test_gaps_are_the_same_after_writing_and_reading(void **state)
{
	(void)state;
	struct gap *gap = gap_with_a_past();
	struct gap *copy = gap_with_a_past();
	struct buf bytes = { 0 };
	struct buf again = { 0 };
	uint64_t before = 0;
	gap_write(gap, &bytes);
	assert_int_equal(gap_read(copy, buf_span(&bytes)), 0);
	assert_int_equal(copy->count, gap->count);
	assert_int_equal(copy->sample, gap->sample);
	assert_memory_equal(&copy->duplicates, &gap->duplicates, sizeof(gap->duplicates));
	assert_memory_equal(&copy->returns, &gap->returns, sizeof(gap->returns));
	gap_write(copy, &again);
	assert_int_equal(again.len, bytes.len);
	assert_true(pass(copy, 0, NOW_MS + 4 * HOUR_MS, &before));
	assert_int_equal(before, ticket_at(NOW_MS + 2 * HOUR_MS));
	buf_free(&bytes);
	buf_free(&again);
	mem_free(gap);
	mem_free(copy);
}

static void test_bytes_that_are_no_gap_are_refused(void **state)
{
	(void)state;
	struct gap *gap = gap_with_a_past();
	struct gap *copy = gap_new();
	struct buf bytes = { 0 };
	gap_write(gap, &bytes);
	for (size_t len = 0; len < bytes.len; len += 1 + len / 16)
		assert_int_equal(gap_read(copy, span_of(bytes.ptr, len)), ERR_INVALID);
	assert_int_equal(copy->count, 0);
	assert_int_equal(histogram_count(&copy->duplicates), 0);
	buf_append_char(&bytes, 0);
	assert_int_equal(gap_read(copy, buf_span(&bytes)), ERR_INVALID);
	bytes.ptr[0] = 2;
	assert_int_equal(gap_read(copy, buf_span(&bytes)), ERR_VERSION);
	buf_free(&bytes);
	mem_free(gap);
	mem_free(copy);
}

static void test_durations_are_told_as_people_say_them(void **state)
{
	(void)state;
	static const struct {
		uint64_t ms;
		const char *text;
	} rows[] = {
		{ 0, "0ms" },
		{ 450, "450ms" },
		{ 3210, "3s" },
		{ 119999, "119s" },
		{ 125000, "2m 5s" },
		{ 45 * 60000, "45m" },
		{ 2 * HOUR_MS, "2h" },
		{ 26 * HOUR_MS + 60000, "26h" },
		{ 99 * HOUR_MS, "4d 3h" },
		{ 400 * 24 * HOUR_MS, "400d" },
		{ UINT64_MAX, "213503982334d" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[GAP_DURATION_MAX];
		gap_duration_text(rows[i].ms, text);
		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_return_after_the_window_is_seen_with_its_gap),
		cmocka_unit_test(test_what_passes_again_within_the_window_is_no_return),
		cmocka_unit_test(test_duplicates_are_counted_as_often_as_they_stand_for),
		cmocka_unit_test(test_returns_are_found_at_any_rate),
		cmocka_unit_test(test_the_sample_keeps_what_it_says),
		cmocka_unit_test(test_old_ids_leave_before_the_sample_shrinks),
		cmocka_unit_test(test_equal_low_bits_do_not_fill_the_table_for_ever),
		cmocka_unit_test(test_gaps_are_the_same_after_writing_and_reading),
		cmocka_unit_test(test_bytes_that_are_no_gap_are_refused),
		cmocka_unit_test(test_durations_are_told_as_people_say_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
