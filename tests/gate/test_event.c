/* event: the values of texts that were written in different ways. */
#include "support/test.h"

#include <string.h>

#include "base/error.h"
#include "gate/event.h"

static void assert_text_value(enum event_coding coding, const char *raw, const char *value)
{
	char bytes[64];
	struct span found;
	struct event_text text = { span_str(raw), coding };
	int error = event_text_value(text, bytes, sizeof(bytes), &found);
	if (error < 0 || !span_eq(found, span_str(value)))
		fail_msg("%s is not %s (%d)", raw, value, error);
}

static void assert_text_refused(enum event_coding coding, const char *raw, int error)
{
	char bytes[8];
	struct span found;
	struct event_text text = { span_str(raw), coding };
	if (event_text_value(text, bytes, sizeof(bytes), &found) != error)
		fail_msg("%s was not refused with %s", raw, error_name(error));
}

static void each_coding_gives_its_value(void **state)
{
	(void)state;
	assert_text_value(EVENT_TEXT_PLAIN, "a%20\\n\"b", "a%20\\n\"b");
	assert_text_value(EVENT_TEXT_JSON, "a\\u0020b\\n", "a b\n");
	assert_text_value(EVENT_TEXT_HEADER, "Euro%20%E2%82%AC", "Euro \xe2\x82\xac");
	assert_text_value(EVENT_TEXT_HEADER, "\"a \\\"b\\\\ %41\"", "a \"b\\ A");
	assert_text_value(EVENT_TEXT_HEADER, "\"\\%41\"", "A");
	assert_text_value(EVENT_TEXT_HEADER, "a\"b", "a\"b");
	assert_text_value(EVENT_TEXT_HEADER, "\xc3\xa9", "\xc3\xa9");
	assert_text_value(EVENT_TEXT_HEADER, "\"\"", "");
}

static void broken_headers_are_refused(void **state)
{
	static const char *const texts[] = { "%",         "%4", "%zz", "%FF",      "\xff",
		                             "%ED%A0%80", "\"", "\"a", "\"a\"b\"", "\"a\\\"" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_text_refused(EVENT_TEXT_HEADER, texts[i], ERR_INVALID);
}

static void values_beyond_the_room_are_refused(void **state)
{
	(void)state;
	assert_text_refused(EVENT_TEXT_PLAIN, "123456789", ERR_TOO_LARGE);
	assert_text_refused(EVENT_TEXT_JSON, "12345678\\n", ERR_TOO_LARGE);
	assert_text_refused(EVENT_TEXT_HEADER, "12345678%41", ERR_TOO_LARGE);
	assert_text_refused(EVENT_TEXT_HEADER, "\"123456789\"", ERR_TOO_LARGE);
}

static void a_quoted_header_longer_than_any_value_is_refused(void **state)
{
	static char raw[10000];
	char bytes[1024];
	struct span value;
	(void)state;
	memset(raw, 'x', sizeof(raw));
	raw[0] = '"';
	raw[sizeof(raw) - 1] = '"';
	struct event_text text = { span_of(raw, sizeof(raw)), EVENT_TEXT_HEADER };
	assert_int_equal(event_text_value(text, bytes, sizeof(bytes), &value), ERR_TOO_LARGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_coding_gives_its_value),
		cmocka_unit_test(broken_headers_are_refused),
		cmocka_unit_test(values_beyond_the_room_are_refused),
		cmocka_unit_test(a_quoted_header_longer_than_any_value_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
