/* advice: which window a source needs. */
#include <string.h>

#include "base/mem.h"
#include "gate/advice.h"
#include "gate/ticket.h"
#include "support/test.h"

#define NOW_MS UINT64_C(1767225600000)
#define HOUR_MS UINT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

static struct gap *gap;

static int begin(void **state)
{
	(void)state;
	gap = mem_zalloc(1, sizeof(*gap));
	return gap ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	gap = mem_free(gap);
	return 0;
}

static struct advice make(uint64_t window_ms, uint64_t retries_ms)
{
	struct advice_question question = { SPAN("orders"), window_ms, retries_ms };
	return advice_make(&question, gap);
}

static void assert_says(const struct advice *advice, const char *expected)
{
	struct buf text = { 0 };
	advice_text(advice, &text);
	buf_append_char(&text, 0);
	assert_false(text.failed);
	assert_string_equal(text.ptr, expected);
	buf_free(&text);
}

static void test_a_window_shorter_than_the_gaps_is_told(void **state)
{
	(void)state;
	gap_duplicate(gap, 23 * HOUR_MS, NOW_MS, 100);
	struct advice advice = make(HOUR_MS, 0);
	assert_int_equal(advice.state, ADVICE_TOO_SHORT);
	assert_int_equal(advice.advised_ms, 2 * DAY_MS);
	assert_says(&advice,
	            "window 1h is too short: duplicates arrive up to 23h later; 2d is advised");
}

static void test_near_is_beyond_four_fifths_of_the_window(void **state)
{
	(void)state;
	gap_duplicate(gap, 8 * HOUR_MS, NOW_MS, 5000);
	assert_int_equal(make(10 * HOUR_MS, 0).state, ADVICE_FITS);
	gap_duplicate(gap, 8 * HOUR_MS + 1, NOW_MS, 1);
	struct advice advice = make(10 * HOUR_MS, 0);
	assert_int_equal(advice.state, ADVICE_NEAR);
	assert_says(
		&advice,
		"window 10h is nearly too short: duplicates arrive up to 8h later; 1d is advised");
	assert_int_equal(make(8 * HOUR_MS, 0).state, ADVICE_TOO_SHORT);
}

static void test_few_duplicates_are_said_to_be_few(void **state)
{
	(void)state;
	gap_duplicate(gap, 2 * HOUR_MS, NOW_MS, 3);
	struct advice advice = make(HOUR_MS, 0);
	assert_int_equal(advice.trust, ADVICE_TRUST_LOW);
	assert_says(&advice, "window 1h is too short: duplicates arrive up to 2h later (only 3 "
	                     "seen); 6h is advised");
	gap_duplicate(gap, 1000, NOW_MS, 17);
	assert_int_equal(make(HOUR_MS, 0).trust, ADVICE_TRUST_FAIR);
	gap_duplicate(gap, 1000, NOW_MS, 980);
	assert_int_equal(make(HOUR_MS, 0).trust, ADVICE_TRUST_GOOD);
}

static void test_what_came_back_after_the_window_makes_it_too_short(void **state)
{
	(void)state;
	uint64_t before = 0;
	struct gap_passage first = { 1, 3600, ticket_next(0, NOW_MS) };
	struct gap_passage second = { 1, 3600, ticket_next(0, NOW_MS + 5 * HOUR_MS) };
	gap_passed(gap, first, &before);
	gap_passed(gap, second, &before);
	struct advice advice = make(HOUR_MS, 0);
	assert_int_equal(advice.duplicates, 0);
	assert_int_equal(advice.returns, 1);
	assert_int_equal(advice.state, ADVICE_TOO_SHORT);
	/* A window that was made longer since then fits. */
	assert_int_equal(make(DAY_MS, 0).state, ADVICE_FITS);
}

static void test_without_duplicates_the_senders_retries_count(void **state)
{
	(void)state;
	struct advice advice = make(4 * DAY_MS, advice_retries_ms(SPAN("genesys")));
	assert_int_equal(advice.state, ADVICE_NO_DATA);
	assert_says(&advice, "window 4d: no duplicate seen yet; the sender retries for 4d");
	advice = make(12 * HOUR_MS, advice_retries_ms(SPAN("eventbridge")));
	assert_int_equal(advice.state, ADVICE_BELOW_RETRIES);
	assert_says(&advice, "window 12h is shorter than the retries: the sender retries for 1d; "
	                     "1d is advised");
	assert_int_equal(advice_retries_ms(SPAN("orders")), 0);
	advice = make(HOUR_MS, 0);
	assert_int_equal(advice.advised_ms, 0);
	assert_says(&advice, "window 1h: no duplicate seen yet");
}

static void test_an_advice_never_falls_below_the_retries(void **state)
{
	(void)state;
	gap_duplicate(gap, 1000, NOW_MS, 5000);
	struct advice advice = make(4 * DAY_MS, 4 * DAY_MS);
	assert_int_equal(advice.state, ADVICE_FITS);
	assert_int_equal(advice.advised_ms, 4 * DAY_MS);
	assert_says(&advice, "window 4d fits: duplicates arrive up to 1s later");
}

static void test_a_source_without_a_known_window_gets_an_advice(void **state)
{
	(void)state;
	gap_duplicate(gap, 5 * HOUR_MS, NOW_MS, 100);
	struct advice advice = make(0, 0);
	assert_says(&advice, "window unknown: duplicates arrive up to 5h later; 12h is advised");
	struct advice_question question = { .source = SPAN("x") };
	assert_int_equal(advice_make(&question, NULL).state, ADVICE_NO_DATA);
}

static void test_windows_are_rounded_to_what_one_would_write(void **state)
{
	(void)state;
	assert_int_equal(advice_round_up_ms(0), 60000);
	assert_int_equal(advice_round_up_ms(HOUR_MS), HOUR_MS);
	assert_int_equal(advice_round_up_ms(HOUR_MS + 1), 2 * HOUR_MS);
	assert_int_equal(advice_round_up_ms(UINT64_MAX), 400 * DAY_MS);
}

static void test_a_warning_is_not_repeated_without_news(void **state)
{
	(void)state;
	struct advice_alarm alarm = { 0 };
	gap_duplicate(gap, 9 * HOUR_MS, NOW_MS, 1);
	struct advice near = make(10 * HOUR_MS, 0);
	assert_true(advice_alarm_due(&alarm, &near, NOW_MS));
	assert_false(advice_alarm_due(&alarm, &near, NOW_MS + HOUR_MS));
	assert_true(advice_alarm_due(&alarm, &near, NOW_MS + DAY_MS));
	gap_duplicate(gap, 11 * HOUR_MS, NOW_MS, 1);
	struct advice worse = make(10 * HOUR_MS, 0);
	assert_true(advice_alarm_due(&alarm, &worse, NOW_MS + DAY_MS + 1));
	assert_false(advice_alarm_due(&alarm, &worse, NOW_MS + DAY_MS + 2));
	gap_duplicate(gap, 14 * HOUR_MS, NOW_MS, 1);
	struct advice grown = make(10 * HOUR_MS, 0);
	assert_true(advice_alarm_due(&alarm, &grown, NOW_MS + DAY_MS + 3));
	/* A longer window ends it, and a later one begins anew. */
	struct advice fits = make(2 * DAY_MS, 0);
	assert_false(advice_alarm_due(&alarm, &fits, NOW_MS + DAY_MS + 4));
	assert_true(advice_alarm_due(&alarm, &grown, NOW_MS + DAY_MS + 5));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_window_shorter_than_the_gaps_is_told),
		TEST(test_near_is_beyond_four_fifths_of_the_window),
		TEST(test_few_duplicates_are_said_to_be_few),
		TEST(test_what_came_back_after_the_window_makes_it_too_short),
		TEST(test_without_duplicates_the_senders_retries_count),
		TEST(test_an_advice_never_falls_below_the_retries),
		TEST(test_a_source_without_a_known_window_gets_an_advice),
		TEST(test_windows_are_rounded_to_what_one_would_write),
		TEST(test_a_warning_is_not_repeated_without_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
