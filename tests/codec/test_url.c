/* url: percent-decoding. */
#include "support/test.h"

#include <string.h>

#include "base/error.h"
#include "codec/url.h"

static void encoded_bytes_are_decoded_once(void **state)
{
	static const struct {
		const char *text;
		const char *value;
	} cases[] = {
		{ "", "" },         { "plain", "plain" },
		{ "a%20b", "a b" }, { "%41%6a%4A", "AjJ" },
		{ "%2541", "%41" }, { "%E2%82%AC", "\xe2\x82\xac" },
		{ "a+b", "a+b" },   { "%FF", "\xff" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char bytes[16];
		size_t len;
		assert_int_equal(url_percent_decode(span_str(cases[i].text), bytes, sizeof(bytes),
		                                    &len),
		                 0);
		assert_int_equal(len, strlen(cases[i].value));
		assert_memory_equal(bytes, cases[i].value, len);
	}
}

static void broken_encoding_is_refused(void **state)
{
	static const char *const texts[] = { "%", "%4", "a%", "%zz", "%4g", "%%41", "ab%4" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char bytes[16];
		size_t len;
		assert_int_equal(url_percent_decode(span_str(texts[i]), bytes, sizeof(bytes), &len),
		                 ERR_INVALID);
	}
}

static void a_value_longer_than_the_room_is_refused(void **state)
{
	char bytes[4];
	size_t len = 77;
	(void)state;
	assert_int_equal(url_percent_decode(SPAN("%61%62%63%64"), bytes, 4, &len), 0);
	assert_int_equal(len, 4);
	assert_int_equal(url_percent_decode(SPAN("abcde"), bytes, 4, &len), ERR_TOO_LARGE);
	assert_int_equal(len, 4);
}

static void a_plus_is_a_blank_in_forms_alone(void **state)
{
	char bytes[16];
	size_t len;
	(void)state;
	assert_int_equal(url_form_decode(SPAN("a+b%2Bc"), bytes, sizeof(bytes), &len), 0);
	assert_true(span_eq(span_of(bytes, len), SPAN("a b+c")));
	assert_int_equal(url_form_decode(SPAN("%2"), bytes, sizeof(bytes), &len), ERR_INVALID);
	assert_int_equal(url_form_decode(SPAN("abc"), bytes, 2, &len), ERR_TOO_LARGE);
}

static void parameters_are_found_by_their_decoded_name(void **state)
{
	struct span form = SPAN("a=1&b=%20x&c&a=2&&=e&d=&a%20b=3&%=4&aa=5");
	struct span value = SPAN_EMPTY;
	(void)state;
	assert_int_equal(url_param_find(form, SPAN("a"), &value), 2);
	assert_true(span_eq(value, SPAN("1")));
	assert_int_equal(url_param_find(form, SPAN("b"), &value), 1);
	assert_true(span_eq(value, SPAN("%20x")));
	assert_int_equal(url_param_find(form, SPAN("c"), &value), 1);
	assert_int_equal(value.len, 0);
	assert_int_equal(url_param_find(form, SPAN("d"), &value), 1);
	assert_int_equal(url_param_find(form, SPAN("a b"), &value), 1);
	assert_true(span_eq(value, SPAN("3")));
	assert_int_equal(url_param_find(form, SPAN("%"), &value), 0);
	assert_int_equal(url_param_find(form, SPAN("x"), &value), 0);
	assert_int_equal(url_param_find(SPAN_EMPTY, SPAN("x"), &value), 0);
}

static void parameters_come_one_after_the_other(void **state)
{
	static const struct {
		struct span name, value;
	} rows[] = {
		{ { "a", 1 }, { "1=2", 3 } }, { { "b", 1 }, { "", 0 } },
		{ { "", 0 }, { "e", 1 } },    { { "c", 1 }, { "", 0 } },
		{ { "%61", 3 }, { "%", 1 } },
	};
	struct span rest = SPAN("&a=1=2&b&&=e&c=&%61=%&"), name, value;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_true(url_param_next(&rest, &name, &value));
		assert_true(span_eq(name, rows[i].name) && span_eq(value, rows[i].value));
	}
	assert_false(url_param_next(&rest, &name, &value));
	assert_true(url_param_is(SPAN("%61+b"), SPAN("a b")));
	assert_false(url_param_is(SPAN("a"), SPAN("ab")) || url_param_is(SPAN("ab"), SPAN("a")));
}

static void every_byte_comes_back_from_its_encoding(void **state)
{
	char bytes[256], encoded[768], decoded[256];
	struct buf out = buf_on(encoded, sizeof(encoded));
	size_t len;
	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	url_percent_encode(span_of(bytes, sizeof(bytes)), &out);
	assert_false(out.failed);
	for (size_t i = 0; i < out.len; i++)
		assert_null(strchr("/?#&=+ :@;,\"'<>\\{}", encoded[i]));
	assert_int_equal(url_percent_decode(buf_span(&out), decoded, sizeof(decoded), &len), 0);
	assert_int_equal(len, sizeof(bytes));
	assert_memory_equal(bytes, decoded, sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_comes_back_from_its_encoding),
		cmocka_unit_test(encoded_bytes_are_decoded_once),
		cmocka_unit_test(broken_encoding_is_refused),
		cmocka_unit_test(a_value_longer_than_the_room_is_refused),
		cmocka_unit_test(a_plus_is_a_blank_in_forms_alone),
		cmocka_unit_test(parameters_are_found_by_their_decoded_name),
		cmocka_unit_test(parameters_come_one_after_the_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
