/* base64: RFC 4648, one text for one value. */
#include "support/test.h"

#include <string.h>

#include "base/base64.h"
#include "base/error.h"

/* RFC 4648 section 10. */
static const struct {
	const char *bytes, *text;
} known[] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xff\xfe\xfd", "//79" },
	{ "\xfb\xef\xbe", "++++" },
};

static void known_values_pass_both_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		char memory[16];
		struct buf text = buf_on(memory, sizeof(memory));
		unsigned char bytes[16];
		size_t len;
		struct span value = span_str(known[i].bytes);
		assert_int_equal(BASE64_LEN(value.len), strlen(known[i].text));
		base64_append(&text, value);
		assert_true(span_eq(buf_span(&text), span_str(known[i].text)));
		assert_int_equal(base64_decode(span_str(known[i].text), bytes, sizeof(bytes), &len),
		                 0);
		assert_int_equal(len, value.len);
		assert_memory_equal(bytes, value.ptr, len);
	}
}

static void a_second_text_for_a_value_is_refused(void **state)
{
	static const char *const texts[] = {
		"Zg",    "Zg=",  "Zg===",    "Zh==",     "Zm9=",     "Zm8",   "Z===",
		"====",  "=Zg=", "Zg=a",     "Zg==Zg==", " Zg==",    "Zg== ", "Z g=",
		"Zm9\n", "Zm-_", "Zm9v\r\n", "Zm9v=",    "Zm9v====",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		unsigned char bytes[16];
		size_t len = 77;
		if (base64_decode(span_str(texts[i]), bytes, sizeof(bytes), &len) != ERR_INVALID)
			fail_msg("\"%s\" was accepted", texts[i]);
		assert_int_equal(len, 77);
	}
}

static void room_is_respected(void **state)
{
	(void)state;
	unsigned char bytes[5] = { 0, 0, 0, 0, 77 };
	size_t len;
	assert_int_equal(base64_decode(SPAN("Zm9vYg=="), bytes, 4, &len), 0);
	assert_int_equal(bytes[4], 77);
	assert_int_equal(base64_decode(SPAN("Zm9vYg=="), bytes, 3, &len), ERR_TOO_LARGE);
	char memory[9];
	struct buf text = buf_on(memory, 8);
	base64_append(&text, SPAN("foob"));
	assert_int_equal(text.failed, ERR_TOO_LARGE);
	text = buf_on(memory, 9);
	base64_append(&text, SPAN("foob"));
	assert_true(span_eq(buf_span(&text), SPAN("Zm9vYg==")));
}

/* Every text of four characters that is accepted is what its value encodes to. */
static void what_is_accepted_is_canonical(void **state)
{
	static const char letters[] = "AQZaz059+/=-_ \n\xff";
	(void)state;
	size_t n = sizeof(letters) - 1, accepted = 0;
	for (size_t i = 0; i < n * n * n * n; i++) {
		char text[4] = { letters[i % n], letters[i / n % n], letters[i / n / n % n],
			         letters[i / n / n / n] };
		char memory[5];
		struct buf again = buf_on(memory, sizeof(memory));
		unsigned char bytes[3];
		size_t len;
		if (base64_decode(span_of(text, 4), bytes, sizeof(bytes), &len))
			continue;
		base64_append(&again, span_of(bytes, len));
		assert_true(span_eq(buf_span(&again), span_of(text, 4)));
		accepted++;
	}
	assert_true(accepted > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values_pass_both_ways),
		cmocka_unit_test(a_second_text_for_a_value_is_refused),
		cmocka_unit_test(room_is_respected),
		cmocka_unit_test(what_is_accepted_is_canonical),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
