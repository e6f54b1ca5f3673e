/* json_number: numbers are the same exactly when their values are. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "codec/json_number.h"

static struct span exact(const char *text, char bytes[static 256])
{
	struct span value = SPAN_EMPTY;
	if (json_number_exact(span_str(text), bytes, 256, &value) != 0)
		fail_msg("refused: %s", text);
	return value;
}

static void each_value_has_one_exact_form(void **state)
{
	static const char *const rows[][2] = {
		{ "1", "1" },
		{ "1.0", "1" },
		{ "10e-1", "1" },
		{ "0.1E1", "1" },
		{ "1e0", "1" },
		{ "0.00100e+3", "1" },
		{ "0", "0" },
		{ "-0", "0" },
		{ "0.000", "0" },
		{ "-0e99999999999999999999", "0" },
		{ "1.50", "15e-1" },
		{ "-1.5", "-15e-1" },
		{ "150e-2", "15e-1" },
		{ "100000", "100000" },
		{ "1e5", "100000" },
		{ "1e60", "1e60" },
		{ "10e59", "1e60" },
		{ "123456789012345678901234567890.5", "1234567890123456789012345678905e-1" },
		{ "9007199254740993", "9007199254740993" },
		{ "9007199254740993.0", "9007199254740993" },
		{ "12345678901234567890123456789012345678901",
		  "12345678901234567890123456789012345678901e0" },
		{ "1234567890123456789012345678901234567890",
		  "1234567890123456789012345678901234567890" },
		{ "1000000000000000000000000000000000000000000000000000000000000000000000000000000"
		  "0000000000000000000000000000000000000000000000000000000000000000000000000000000"
		  "00000000000000000000000000000000000000000000000000000000000000000000e-225",
		  "1" },
		{ "123456789012345678901234567890123456789e1",
		  "1234567890123456789012345678901234567890" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char bytes[256];
		struct span value = exact(rows[i][0], bytes);
		if (!span_eq(value, span_str(rows[i][1])))
			fail_msg("%s: %.*s", rows[i][0], (int)value.len, value.ptr);
	}
}

/* The same number in random spellings has one form; another number has another. */
static void spellings_do_not_count_and_digits_do(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(5000); round > 0; round--) {
		char plain[64];
		char spelled[128];
		char a[256];
		char b[256];
		uint64_t digits = test_random(&random) % 1000000007 + 1;
		int shift = (int)test_random_below(&random, 30) - 15;
		int zeros = (int)test_random_below(&random, 5);
		snprintf(plain, sizeof(plain), "%llue%d", (unsigned long long)digits, shift);
		snprintf(spelled, sizeof(spelled), "%llu%.*s.%.*sE%+d", (unsigned long long)digits,
		         zeros, "00000", 1 + zeros, "000000", shift - zeros);
		if (!span_eq(exact(plain, a), exact(spelled, b)))
			fail_msg("%s and %s (%s)", plain, spelled, test_note_seed(seed));
		snprintf(spelled, sizeof(spelled), "%llue%d", (unsigned long long)digits + 1,
		         shift);
		if (span_eq(exact(plain, a), exact(spelled, b)))
			fail_msg("%s is %s (%s)", plain, spelled, test_note_seed(seed));
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	char bytes[256];
	char text[600];
	struct span value;
	(void)state;
	assert_int_equal(json_number_exact(SPAN("1e1000000001"), bytes, sizeof(bytes), &value),
	                 ERR_TOO_LARGE);
	assert_int_equal(json_number_exact(SPAN("1e-99999999999999999999999"), bytes, sizeof(bytes),
	                                   &value),
	                 ERR_TOO_LARGE);
	memset(text, '7', sizeof(text));
	assert_int_equal(json_number_exact(span_of(text, sizeof(text)), bytes, sizeof(bytes),
	                                   &value),
	                 ERR_TOO_LARGE);
	assert_int_equal(json_number_exact(SPAN("1.5"), bytes, 8, &value), ERR_TOO_LARGE);
	size_t len;
	char es[JSON_NUMBER_ES_MAX];
	assert_int_equal(json_number_es(SPAN("1e400"), es, &len), ERR_TOO_LARGE);
	assert_int_equal(json_number_es(SPAN("-1e400"), es, &len), ERR_TOO_LARGE);
}

/* Rows were printed by another implementation of the shortest form: denormals,
 * powers of two, the ends of the ranges, random bits. */
static void doubles_are_printed_as_ecmascript_does(void **state)
{
	FILE *file = fopen("tests/data/jcs/numbers.txt", "r");
	char text[64];
	char expected[64];
	unsigned count = 0;
	(void)state;
	assert_non_null(file);
	while (fscanf(file, "%63s %63s", text, expected) == 2) {
		char bytes[JSON_NUMBER_ES_MAX];
		size_t len = 0;
		assert_int_equal(json_number_es(span_str(text), bytes, &len), 0);
		if (!span_eq(span_of(bytes, len), span_str(expected)))
			fail_msg("%s: %.*s, not %s", text, (int)len, bytes, expected);
		/* What it prints reads as the same double. */
		char again[JSON_NUMBER_ES_MAX];
		bytes[len] = '\0';
		size_t again_len = 0;
		assert_int_equal(json_number_es(span_of(bytes, len), again, &again_len), 0);
		assert_true(span_eq(span_of(bytes, len), span_of(again, again_len)));
		count++;
	}
	fclose(file);
	assert_true(count > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_has_one_exact_form),
		cmocka_unit_test(spellings_do_not_count_and_digits_do),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(doubles_are_printed_as_ecmascript_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
