/* hex: what is written is read back, and nothing else is read. */
#include "support/test.h"

#include "base/hex.h"

static void every_byte_is_written_and_read_back(void **state)
{
	(void)state;
	unsigned char bytes[256], back[256];
	char digits[512];
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	hex_encode(bytes, sizeof(bytes), digits);
	assert_memory_equal(digits, "000102030405060708090a0b0c0d0e0f10", 34);
	assert_memory_equal(digits + 508, "feff", 4);
	assert_true(hex_decode(span_of(digits, sizeof(digits)), back, sizeof(back)));
	assert_memory_equal(back, bytes, sizeof(bytes));
}

static void either_case_is_read(void **state)
{
	(void)state;
	unsigned char bytes[2];
	assert_true(hex_decode(SPAN("aBFf"), bytes, sizeof(bytes)));
	assert_memory_equal(bytes, "\xab\xff", 2);
}

static void what_is_not_pairs_of_digits_or_too_long_is_refused(void **state)
{
	(void)state;
	unsigned char bytes[2];
	assert_false(hex_decode(SPAN("abc"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("0g"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("g0"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("000000"), bytes, sizeof(bytes)));
	assert_true(hex_decode(SPAN(""), bytes, sizeof(bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_written_and_read_back),
		cmocka_unit_test(either_case_is_read),
		cmocka_unit_test(what_is_not_pairs_of_digits_or_too_long_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
