/* resp_reply: replies over any cut, and requests. */
#include "support/test.h"

#include "base/error.h"
#include "codec/resp.h"

static const char all_kinds[] =
	"*11\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n*-1\r\n_\r\n#t\r\n"
	",1.5\r\n%1\r\n+k\r\n~1\r\n:1\r\n";

static void test_reply_is_found_whole_at_every_cut(void **state)
{
	(void)state;
	struct span bytes = span_str(all_kinds);

	for (size_t cut = 0; cut < bytes.len; cut++) {
		struct resp_reply_scan scan = { 0 };
		size_t len = 0;
		assert_int_equal(resp_reply_scan(&scan, span_of(bytes.ptr, cut), &len), -EAGAIN);
		assert_int_equal(resp_reply_scan(&scan, bytes, &len), 0);
		assert_int_equal(len, bytes.len);
	}
}

static void test_values_come_in_the_order_in_which_they_stand(void **state)
{
	(void)state;
	static const struct resp_reply expected[] = {
		{ RESP_REPLY_ARRAY, { NULL, 0 }, 11 },    { RESP_REPLY_TEXT, { "OK", 2 }, 0 },
		{ RESP_REPLY_ERROR, { "ERR no", 6 }, 0 }, { RESP_REPLY_NUMBER, { NULL, 0 }, -7 },
		{ RESP_REPLY_TEXT, { "a\r\n", 3 }, 0 },   { RESP_REPLY_NULL, { NULL, 0 }, 0 },
		{ RESP_REPLY_ARRAY, { NULL, 0 }, 0 },     { RESP_REPLY_NULL, { NULL, 0 }, 0 },
		{ RESP_REPLY_NULL, { NULL, 0 }, 0 },      { RESP_REPLY_NUMBER, { NULL, 0 }, 1 },
		{ RESP_REPLY_TEXT, { "1.5", 3 }, 0 },     { RESP_REPLY_ARRAY, { NULL, 0 }, 2 },
		{ RESP_REPLY_TEXT, { "k", 1 }, 0 },       { RESP_REPLY_ARRAY, { NULL, 0 }, 1 },
		{ RESP_REPLY_NUMBER, { NULL, 0 }, 1 },
	};
	struct span bytes = span_str(all_kinds);
	struct resp_reply value;
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		assert_true(resp_reply_next(bytes, &at, &value));
		assert_int_equal(value.kind, expected[i].kind);
		if (value.kind == RESP_REPLY_TEXT || value.kind == RESP_REPLY_ERROR)
			assert_true(span_eq(value.text, expected[i].text));
		else if (value.kind != RESP_REPLY_NULL)
			assert_int_equal(value.number, expected[i].number);
	}
	assert_false(resp_reply_next(bytes, &at, &value));
	at = 0;
	resp_reply_skip(bytes, &at);
	assert_int_equal(at, bytes.len);
}

static void test_what_is_no_reply_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		int error;
	} cases[] = {
		{ "hello\r\n", ERR_INVALID },
		{ "+OK\n", ERR_INVALID },
		{ ":1x\r\n", ERR_INVALID },
		{ "$3\r\nabcd\r\n", ERR_INVALID },
		{ "$-2\r\n", ERR_INVALID },
		{ "*99999999999\r\n", ERR_TOO_LARGE },
		{ "$9999999999\r\n", ERR_TOO_LARGE },
		{ ":99999999999999999999\r\n", ERR_INVALID },
		{ "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", ERR_TOO_LARGE },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct resp_reply_scan scan = { 0 };
		size_t len;
		assert_int_equal(resp_reply_scan(&scan, span_str(cases[i].bytes), &len),
		                 cases[i].error);
	}
}

static void test_an_attribute_belongs_to_the_value_behind_it(void **state)
{
	(void)state;
	struct span bytes = SPAN("|1\r\n+ttl\r\n:3\r\n+value\r\n+next\r\n");
	struct resp_reply_scan scan = { 0 };
	size_t len = 0;

	assert_int_equal(resp_reply_scan(&scan, bytes, &len), 0);
	assert_int_equal(len, bytes.len - strlen("+next\r\n"));
}

static void test_an_error_is_known_by_its_whole_first_word(void **state)
{
	(void)state;
	struct resp_reply moved = { .kind = RESP_REPLY_ERROR, .text = SPAN("MOVED 1 a:2") };
	struct resp_reply text = { .kind = RESP_REPLY_TEXT, .text = SPAN("MOVED") };

	assert_true(resp_reply_says(&moved, SPAN("MOVED")));
	assert_false(resp_reply_says(&moved, SPAN("MOVE")));
	assert_false(resp_reply_says(&text, SPAN("MOVED")));
}

static void test_requests_are_arrays_of_bulk_strings(void **state)
{
	(void)state;
	struct span parts[] = { SPAN("a"), SPAN_EMPTY, SPAN("bc") };
	struct buf out = { 0 };

	resp_request_begin(&out, 3);
	resp_request_add(&out, SPAN("SET"));
	resp_request_add_parts(&out, parts, ARRAY_LEN(parts));
	resp_request_add_u64(&out, 120);
	assert_true(span_eq(buf_span(&out), SPAN("*3\r\n$3\r\nSET\r\n$3\r\nabc\r\n$3\r\n120\r\n")));
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reply_is_found_whole_at_every_cut),
		cmocka_unit_test(test_values_come_in_the_order_in_which_they_stand),
		cmocka_unit_test(test_what_is_no_reply_is_refused),
		cmocka_unit_test(test_an_attribute_belongs_to_the_value_behind_it),
		cmocka_unit_test(test_an_error_is_known_by_its_whole_first_word),
		cmocka_unit_test(test_requests_are_arrays_of_bulk_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
