/* json_write: commas, names and escapes. */
#include "codec/json_write.h"

#include "base/error.h"
#include "codec/json.h"
#include "support/test.h"

static void members_and_elements_are_parted_by_commas(void **state)
{
	(void)state;
	struct buf out = { 0 };
	json_object_begin(&out, NULL);
	json_add_text(&out, "text", SPAN("a\"\n"));
	json_add_string(&out, "none", NULL);
	json_add_text_if(&out, "left_out", SPAN_EMPTY);
	json_add_u64(&out, "most", UINT64_MAX);
	json_array_begin(&out, "list");
	json_array_begin(&out, NULL);
	json_array_end(&out);
	json_object_begin(&out, NULL);
	json_object_end(&out);
	json_add_bool(&out, NULL, true);
	json_add_bool(&out, NULL, false);
	json_array_end(&out);
	json_add_time(&out, "time", 1767225600000);
	json_add_raw(&out, NULL, SPAN("\"a\":1,\"b\":2"));
	json_add_raw(&out, NULL, SPAN_EMPTY);
	json_add_raw(&out, "raw", SPAN("[1]"));
	json_object_end(&out);
	struct span expected = SPAN(
		"{\"text\":\"a\\\"\\n\",\"none\":null,\"most\":18446744073709551615,"
		"\"list\":[[],{},true,false],"
		"\"time\":\"2026-01-01T00:00:00.000Z\",\"a\":1,\"b\":2,"
		"\"raw\":[1]}");
	struct json_doc doc;
	assert_true(span_eq(buf_span(&out), expected));
	assert_int_equal(json_scan(buf_span(&out), NULL, &doc), 0);
	buf_free(&out);
}

/* A text that ends like the begin of an object is closed by its quote. */
static void a_value_that_looks_like_a_begin_is_followed_by_a_comma(void **state)
{
	(void)state;
	struct buf out = { 0 };
	json_array_begin(&out, NULL);
	json_add_text(&out, NULL, SPAN("{"));
	json_add_text(&out, NULL, SPAN("["));
	json_add_text(&out, NULL, SPAN("\n"));
	json_array_end(&out);
	assert_true(span_eq(buf_span(&out), SPAN("[\"{\",\"[\",\"\\n\"]")));
	buf_free(&out);
}

static void lines_of_json_have_no_commas_between_them(void **state)
{
	(void)state;
	struct buf out = { 0 };
	for (uint64_t i = 0; i < 2; i++) {
		json_object_begin(&out, NULL);
		json_add_u64(&out, "n", i);
		json_object_end(&out);
		buf_append_char(&out, '\n');
	}
	assert_true(span_eq(buf_span(&out), SPAN("{\"n\":0}\n{\"n\":1}\n")));
	buf_free(&out);
}

static void a_text_that_does_not_fit_leaves_the_failure(void **state)
{
	(void)state;
	char memory[16];
	struct buf out = buf_on(memory, sizeof(memory));
	json_object_begin(&out, NULL);
	json_add_text(&out, "name", SPAN("longer than that"));
	json_object_end(&out);
	assert_int_equal(out.failed, ERR_TOO_LARGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_and_elements_are_parted_by_commas),
		cmocka_unit_test(a_value_that_looks_like_a_begin_is_followed_by_a_comma),
		cmocka_unit_test(lines_of_json_have_no_commas_between_them),
		cmocka_unit_test(a_text_that_does_not_fit_leaves_the_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
