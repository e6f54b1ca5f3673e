/* buf: growth, caps, failure that sticks, and JSON escaping. */
#include "support/test.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

static void assert_text(const struct buf *buf, const char *text)
{
	assert_false(buf->failed);
	assert_int_equal(buf->len, strlen(text));
	assert_memory_equal(buf->ptr, text, buf->len);
}

static void appends_arrive_in_order_over_many_growths(void **state)
{
	(void)state;
	struct buf buf = { 0 };
	for (unsigned i = 0; i < 100000; i++)
		buf_append_char(&buf, (char)('a' + i % 26));
	assert_false(buf.failed);
	assert_int_equal(buf.len, 100000);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(buf.ptr[i], 'a' + (int)(i % 26));
	buf_free(&buf);
	assert_null(buf.ptr);
}

static void empty_append_of_null_is_nothing(void **state)
{
	(void)state;
	struct buf buf = { 0 };
	buf_append(&buf, NULL, 0);
	buf_append_span(&buf, SPAN_EMPTY);
	assert_false(buf.failed);
	assert_int_equal(buf.len, 0);
	assert_null(buf.ptr);
}

static void cap_is_exact_and_failure_sticks(void **state)
{
	(void)state;
	struct buf buf = { .cap = 10 };
	buf_append(&buf, "0123456789", 10);
	assert_text(&buf, "0123456789");
	buf_append_char(&buf, 'x');
	assert_true(buf.failed);
	assert_int_equal(buf.len, 10);
	buf.len = 0;
	buf_append_char(&buf, 'x'); /* would fit, but a hole would be before it */
	assert_int_equal(buf.len, 0);
	buf_clear(&buf);
	buf_append_char(&buf, 'x');
	assert_text(&buf, "x");
	assert_int_equal(buf_reserve(&buf, 10), ERR_TOO_LARGE);
	assert_int_equal(buf_reserve(&buf, SIZE_MAX), ERR_TOO_LARGE);
	assert_false(buf.failed);
	buf_free(&buf);
	assert_int_equal(buf.cap, 10);
}

static void failed_allocation_changes_nothing(void **state)
{
	(void)state;
	struct buf buf = { 0 };
	buf_append(&buf, "abc", 3);
	size_t room = buf.room;
	mem_fail_at(1, false);
	buf_append(&buf, (char[1000]){ 0 }, 1000);
	mem_fail_at(0, false);
	assert_true(buf.failed);
	assert_int_equal(buf.len, 3);
	assert_int_equal(buf.room, room);
	assert_memory_equal(buf.ptr, "abc", 3);
	buf_free(&buf);
}

static void buf_on_callers_memory_never_allocates(void **state)
{
	(void)state;
	char memory[8];
	struct buf buf = buf_on(memory, sizeof(memory));
	mem_fail_at(1, true);
	buf_append(&buf, "12345678", 8);
	assert_false(buf.failed);
	buf_append_char(&buf, '9');
	assert_true(buf.failed);
	assert_int_equal(mem_fail_count(), 0);
	mem_fail_at(0, false);
}

static void numbers_and_formats(void **state)
{
	(void)state;
	struct buf buf = { 0 };
	buf_append_u64(&buf, 0);
	buf_append_char(&buf, ' ');
	buf_append_u64(&buf, UINT64_MAX);
	buf_printf(&buf, " %s=%d", "n", -5);
	assert_text(&buf, "0 18446744073709551615 n=-5");
	buf_clear(&buf);
	buf_printf(&buf, "%2000d|", 7); /* more than its stack buffer */
	assert_int_equal(buf.len, 2001);
	assert_int_equal(buf.ptr[1999], '7');
	assert_int_equal(buf.ptr[2000], '|');
	buf_free(&buf);
}

static void printf_respects_the_cap(void **state)
{
	(void)state;
	struct buf buf = { .cap = 600 };
	buf_printf(&buf, "%700d", 1);
	assert_true(buf.failed);
	assert_int_equal(buf.len, 0);
	buf_free(&buf);
}

static void json_escapes_what_could_break_a_line_or_a_terminal(void **state)
{
	(void)state;
	static const struct {
		struct span in;
		const char *out;
	} rows[] = {
		{ { "", 0 }, "\"\"" },
		{ { "plain", 5 }, "\"plain\"" },
		{ { "a\"b\\c", 5 }, "\"a\\\"b\\\\c\"" },
		{ { "\n\r\t\0\x1b\x7f", 6 }, "\"\\n\\r\\t\\u0000\\u001b\\u007f\"" },
		{ { "\xc2\x9b", 2 }, "\"\\u009b\"" }, /* C1 CSI */
		{ { "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", 8 }, "\"\\u061c\\u200e\\u200f\"" },
		{ { "\xe2\x80\xaa\xe2\x80\xae", 6 }, "\"\\u202a\\u202e\"" }, /* turn a line */
		{ { "\xe2\x81\xa6\xe2\x81\xa9", 6 }, "\"\\u2066\\u2069\"" },
		{ { "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa", 12 }, /* beside them */
		  "\"\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\"" },
		{ { "gr\xc3\xbc\xc3\x9f", 6 }, "\"gr\xc3\xbc\xc3\x9f\"" },
		{ { "\xf0\x9f\x90\x91", 4 }, "\"\xf0\x9f\x90\x91\"" },
		{ { "\xff", 1 }, "\"\xef\xbf\xbd\"" },
		{ { "\xc0\xaf", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* overlong */
		{ { "\xed\xa0\x80", 3 }, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ { "\xe2\x82", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* cut */
		{ { "\xf4\x90\x80\x80", 4 },
		  "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf buf = { 0 };
		buf_append_json(&buf, rows[i].in);
		assert_text(&buf, rows[i].out);
		buf_free(&buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends_arrive_in_order_over_many_growths),
		cmocka_unit_test(empty_append_of_null_is_nothing),
		cmocka_unit_test(cap_is_exact_and_failure_sticks),
		cmocka_unit_test(failed_allocation_changes_nothing),
		cmocka_unit_test(buf_on_callers_memory_never_allocates),
		cmocka_unit_test(numbers_and_formats),
		cmocka_unit_test(printf_respects_the_cap),
		cmocka_unit_test(json_escapes_what_could_break_a_line_or_a_terminal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
