/* text: numbers, times, durations and sizes. */
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/text.h"

static void decimal_is_what_printf_writes(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t value = test_random(&seed) >> (i % 64);
		char expected[32], digits[TEXT_U64_MAX];
		int n = snprintf(expected, sizeof(expected), "%" PRIu64, value);
		assert_int_equal(text_u64(digits, value), n);
		assert_memory_equal(digits, expected, (size_t)n);
	}
	char digits[TEXT_U64_MAX];
	assert_int_equal(text_u64(digits, 0), 1);
	assert_int_equal(digits[0], '0');
	assert_int_equal(text_u64(digits, UINT64_MAX), 20);
}

static void assert_time(uint64_t ms, const char *expected)
{
	char text[TEXT_TIME_LEN + 1] = { 0 };
	text_time(text, ms);
	assert_string_equal(text, expected);
}

static void time_is_right_at_the_edges_of_the_calendar(void **state)
{
	(void)state;
	assert_time(0, "1970-01-01T00:00:00.000Z");
	assert_time(951782399999, "2000-02-28T23:59:59.999Z");
	assert_time(951782400000, "2000-02-29T00:00:00.000Z");
	assert_time(1709164800000, "2024-02-29T00:00:00.000Z");
	assert_time(4107542399000, "2100-02-28T23:59:59.000Z"); /* no leap year */
	assert_time(4107542400000, "2100-03-01T00:00:00.000Z");
	assert_time(253402300799999, "9999-12-31T23:59:59.999Z");
	assert_time(UINT64_MAX, "9999-12-31T23:59:59.999Z");
}

static void time_is_what_the_c_library_writes(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t ms = test_random_below(&seed, UINT64_C(253402300800000));
		time_t seconds = (time_t)(ms / 1000);
		struct tm tm;
		assert_non_null(gmtime_r(&seconds, &tm));
		char day[32], expected[64];
		assert_true(strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) > 0);
		snprintf(expected, sizeof(expected), "%s.%03dZ", day, (int)(ms % 1000));
		assert_time(ms, expected);
	}
}

static void whole_numbers_only(void **state)
{
	(void)state;
	uint64_t value = 7;
	assert_int_equal(text_parse_u64(SPAN("18446744073709551615"), &value), 0);
	assert_true(value == UINT64_MAX);
	value = 7;
	assert_int_equal(text_parse_u64(SPAN("18446744073709551616"), &value), ERR_TOO_LARGE);
	assert_int_equal(text_parse_u64(SPAN("99999999999999999999"), &value), ERR_TOO_LARGE);
	assert_int_equal(text_parse_u64(SPAN(""), &value), ERR_INVALID);
	assert_int_equal(text_parse_u64(SPAN("-1"), &value), ERR_INVALID);
	assert_int_equal(text_parse_u64(SPAN("+1"), &value), ERR_INVALID);
	assert_int_equal(text_parse_u64(SPAN(" 1"), &value), ERR_INVALID);
	assert_int_equal(text_parse_u64(SPAN("1 "), &value), ERR_INVALID);
	assert_int_equal(text_parse_u64(SPAN("0x1"), &value), ERR_INVALID);
	assert_int_equal(value, 7);
}

static void durations_need_a_number_and_a_unit(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "500ms", 500 },    { "10s", 10000 },     { "5m", 300000 }, { "24h", 86400000 },
		{ "4d", 345600000 }, { "2w", 1209600000 }, { "0s", 0 },      { "007s", 7000 },
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint64_t ms = 1;
		assert_int_equal(text_parse_duration(span_str(good[i].text), &ms, NULL), 0);
		assert_true(ms == good[i].ms);
	}
	static const char *const bad[] = { "",   "10",   "s",     "1.5h", "-1s", "1 s",
		                           "1S", "1sec", "1d12h", " 1s",  "1s ", "1\xc2\xb5s" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t ms = 42;
		struct error_text text;
		assert_int_equal(text_parse_duration(span_str(bad[i]), &ms, &text), ERR_INVALID);
		assert_int_equal(ms, 42);
		assert_non_null(strstr(text.text, "expected a whole number and a unit"));
	}
	uint64_t ms = 42;
	assert_int_equal(text_parse_duration(SPAN("18446744073709551615w"), &ms, NULL),
	                 ERR_TOO_LARGE);
	assert_int_equal(ms, 42);
}

static void sizes_know_both_families_of_units(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "512B", 512 },          { "64KiB", 65536 }, { "1MiB", 1048576 },
		{ "8GiB", 8589934592 },   { "1kB", 1000 },    { "1MB", 1000000 },
		{ "2TB", 2000000000000 },
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint64_t bytes = 1;
		assert_int_equal(text_parse_size(span_str(good[i].text), &bytes, NULL), 0);
		assert_true(bytes == good[i].bytes);
	}
	static const char *const bad[] = { "", "1", "MiB", "1mib", "1.5MiB", "1 MiB", "-1B" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t bytes = 42;
		struct error_text text;
		assert_int_equal(text_parse_size(span_str(bad[i]), &bytes, &text), ERR_INVALID);
		assert_int_equal(bytes, 42);
		assert_non_null(strstr(text.text, "is not a size"));
	}
	uint64_t bytes = 42;
	assert_int_equal(text_parse_size(SPAN("99999999TiB"), &bytes, NULL), ERR_TOO_LARGE);
}

static void written_durations_can_be_read_again(void **state)
{
	(void)state;
	static const char *const texts[] = { "4d", "90s", "1500ms", "36h", "14d", "0ms" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		uint64_t ms = 1;
		char text[TEXT_DURATION_MAX];
		assert_int_equal(text_parse_duration(span_str(texts[i]), &ms, NULL), 0);
		text_duration(text, ms);
		assert_string_equal(text, texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decimal_is_what_printf_writes),
		cmocka_unit_test(time_is_right_at_the_edges_of_the_calendar),
		cmocka_unit_test(time_is_what_the_c_library_writes),
		cmocka_unit_test(whole_numbers_only),
		cmocka_unit_test(durations_need_a_number_and_a_unit),
		cmocka_unit_test(sizes_know_both_families_of_units),
		cmocka_unit_test(written_durations_can_be_read_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
