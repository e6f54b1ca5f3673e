/* Where events begin and end, whatever pieces the bytes come in. */
#include "cli/filter/split.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/test.h"

/* Events and troubles as one text: "1:{…}|2:too long|…". The bytes come in pieces
 * of at most `chunk`. */
static void split(struct span text, size_t chunk, size_t event_max, struct buf *out)
{
	struct filter_split it = { .event_max = event_max };
	struct filter_piece piece;
	size_t begin = 0;
	size_t end = 0;
	buf_clear(out);
	for (;;) {
		struct span input = span_of(text.ptr + begin, end - begin);
		enum filter_step step = filter_split_next(&it, &input, end == text.len, &piece);
		begin = end - input.len;
		if (step == FILTER_END)
			return;
		if (step == FILTER_MORE) {
			assert_true(end < text.len);
			end = text.len - end < chunk ? text.len : end + chunk;
			continue;
		}
		buf_printf(out, "%llu:", (unsigned long long)piece.line);
		if (step == FILTER_EVENT)
			buf_append_span(out, piece.event);
		if (step == FILTER_TOO_LONG)
			buf_append_span(out, SPAN("too long"));
		if (step == FILTER_BROKEN)
			buf_printf(out, "expected %s", piece.expected);
		buf_append_char(out, '|');
		if (step == FILTER_BROKEN)
			return;
	}
}

static void assert_split(const char *text, const char *expected)
{
	struct buf found = { 0 };
	size_t len = strlen(text);
	for (size_t chunk = 1; chunk <= len + 1; chunk++) {
		split(span_of(text, len), chunk, 64, &found);
		buf_append_char(&found, '\0');
		if (strcmp(found.ptr, expected) != 0)
			fail_msg("in pieces of %zu: %s\nexpected %s\nof %s", chunk, found.ptr,
			         expected, text);
	}
	buf_free(&found);
}

static void lines_are_events_and_blank_ones_do_not_count(void **state)
{
	(void)state;
	assert_split("{\"a\":1}\n{\"b\":2}\n", "1:{\"a\":1}|2:{\"b\":2}|");
	assert_split("\n \r\n {\"a\":1} \r\n\n{\"b\":2}", "3:{\"a\":1}|5:{\"b\":2}|");
	assert_split("a=1&b=2\nnot JSON\n", "1:a=1&b=2|2:not JSON|");
	assert_split("", "");
	assert_split("\n\n", "");
}

static void a_byte_order_mark_is_not_part_of_the_first_event(void **state)
{
	(void)state;
	assert_split("\xEF\xBB\xBF{\"a\":1}\n", "1:{\"a\":1}|");
	assert_split("\xEF\xBB\xBF[{}]", "1:{}|");
}

static void a_broken_line_spoils_only_itself(void **state)
{
	(void)state;
	assert_split("{\"a\":\n{\"b\":2}\n{\"c\":\"\n{}\n",
	             "1:{\"a\":|2:{\"b\":2}|3:{\"c\":\"|4:{}|");
	assert_split("{}\n[1,2\n{}\n", "1:{}|2:[1,2|3:{}|");
}

static void elements_of_arrays_are_events(void **state)
{
	(void)state;
	assert_split("[{\"a\":[1,{}]},\n {\"b\":\"]},\\\"{\"} ,3, \"x,]\" ]",
	             "1:{\"a\":[1,{}]}|2:{\"b\":\"]},\\\"{\"}|2:3|2:\"x,]\"|");
	assert_split(" [ ] ", "");
	assert_split("[{}]\n[{},\n{}]", "1:{}|2:{}|3:{}|");
	assert_split("[12,\ntrue]", "1:12|2:true|");
}

static void objects_over_several_lines_are_events(void **state)
{
	(void)state;
	assert_split("{\n \"a\": 1\n}\n{\n \"b\": 2\n}\n", "1:{\n \"a\": 1\n}|4:{\n \"b\": 2\n}|");
	assert_split("{\r\n}{}", "1:{\r\n}|2:{}|");
}

static void what_cannot_be_told_apart_ends_the_split(void **state)
{
	(void)state;
	assert_split("[{},,{}]", "1:{}|1:expected an event|");
	assert_split("[{}\n{}]", "1:{}|2:expected a comma or ]|");
	assert_split("[{}", "1:{}|1:expected the end of the array|");
	assert_split("[{},\n{\"a\"", "1:{}|2:expected the end of the event|");
	assert_split("[{}] x", "1:{}|1:expected an object or an array|");
	assert_split("[}", "1:expected an event or ]|");
}

static void an_event_that_is_too_long_is_skipped_and_told_once(void **state)
{
	char text[512];
	(void)state;
	snprintf(text, sizeof(text), "{}\n{\"a\":\"%0100d\"}\n{\"b\":1}\n", 7);
	assert_split(text, "1:{}|2:too long|3:{\"b\":1}|");
	snprintf(text, sizeof(text), "[{},\n{\"a\":\n\"%0100d\"}\n,{\"b\":1}]", 7);
	assert_split(text, "1:{}|2:too long|4:{\"b\":1}|");
	snprintf(text, sizeof(text), "{}\n%0100d", 7);
	assert_split(text, "1:{}|2:too long|");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_events_and_blank_ones_do_not_count),
		cmocka_unit_test(a_byte_order_mark_is_not_part_of_the_first_event),
		cmocka_unit_test(a_broken_line_spoils_only_itself),
		cmocka_unit_test(elements_of_arrays_are_events),
		cmocka_unit_test(objects_over_several_lines_are_events),
		cmocka_unit_test(what_cannot_be_told_apart_ends_the_split),
		cmocka_unit_test(an_event_that_is_too_long_is_skipped_and_told_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
