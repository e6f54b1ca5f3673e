/* trace: why the gate said so, in words. */
#include <string.h>

#include "gate/ticket.h"
#include "gate/trace.h"
#include "support/test.h"

#define NOW_MS UINT64_C(1767225600000)

static uint64_t ticket_one(void)
{
	return ticket_next(0, NOW_MS);
}

static void assert_says(const struct trace *trace, const char *expected)
{
	struct buf text = { 0 };
	trace_reason(trace, &text);
	buf_append_char(&text, 0);
	assert_false(text.failed);
	assert_string_equal(text.ptr, expected);
	buf_free(&text);
}

static struct trace suppressed(enum verdict verdict)
{
	return (struct trace){
		.time_ms = NOW_MS + 3000,
		.verdict = verdict,
		.original = ticket_one(),
		.gap_ms = 3000,
		.rule = SPAN("business"),
		.parts = SPAN("topicName, sessionId"),
	};
}

static void test_a_duplicate_says_what_it_is_a_duplicate_of(void **state)
{
	(void)state;
	struct trace trace = suppressed(VERDICT_DUPLICATE);
	assert_says(&trace, "duplicate of 0xd48pg0000: claim 'business' (topicName, sessionId) "
	                    "was taken 3s before");
	trace.flags = TRACE_CONTENT | TRACE_ORIGINAL_CONTENT;
	trace.content = trace.original_content = 5;
	assert_says(&trace, "duplicate of 0xd48pg0000: claim 'business' (topicName, sessionId) "
	                    "was taken 3s before; the content is the same");
	assert_string_equal(trace_content_name(&trace), "same");
	trace.content = 6;
	assert_says(&trace, "duplicate of 0xd48pg0000: claim 'business' (topicName, sessionId) "
	                    "was taken 3s before; the content is another");
	assert_string_equal(trace_content_name(&trace), "other");
	trace.flags = TRACE_CONTENT | TRACE_REPLAY;
	trace.rule = trace.parts = SPAN_EMPTY;
	trace.matched = 1;
	assert_says(&trace, "duplicate of 0xd48pg0000: claim 2 was taken 3s before; a replay that "
	                    "its sender asked for");
	assert_string_equal(trace_content_name(&trace), "unknown");
}

static void test_every_verdict_has_its_words(void **state)
{
	(void)state;
	struct trace trace = suppressed(VERDICT_CONFLICT);
	trace.parts = SPAN_EMPTY;
	assert_says(&trace, "conflict with 0xd48pg0000: claim 'business' was taken 3s before, "
	                    "with other content");
	trace.verdict = VERDICT_BUSY;
	assert_says(&trace, "busy with 0xd48pg0000: claim 'business' was taken 3s before, and its "
	                    "outcome is not known yet");
	trace.verdict = VERDICT_STALE;
	assert_says(&trace, "stale: claim 'business' knows a newer state, ticket 0xd48pg0000, "
	                    "since 3s");
	trace = (struct trace){ .verdict = VERDICT_NEW, .ticket = ticket_one() };
	assert_says(&trace, "new: passed with ticket 0xd48pg0000");
	trace = (struct trace){ 0 };
	assert_says(&trace, "not decided");
}

static void test_a_return_and_a_trial_say_that_they_passed(void **state)
{
	(void)state;
	struct trace trace = {
		.verdict = VERDICT_NEW,
		.flags = TRACE_RETURNED,
		.ticket = ticket_next(0, NOW_MS + 93600000),
		.original = ticket_one(),
		.gap_ms = 93600000,
	};
	assert_says(&trace, "new again: passed with ticket 0xegwxm0000, though 0xd48pg0000 was "
	                    "the same 26h before: the window had ended");
	trace = suppressed(VERDICT_DUPLICATE);
	trace.flags = TRACE_SHADOW;
	trace.ticket = ticket_next(0, NOW_MS + 3000);
	trace.parts = SPAN_EMPTY;
	assert_says(&trace, "passed with ticket 0xd48qyw000, since the claim is on trial "
	                    "(shadow); else: duplicate of 0xd48pg0000: claim 'business' was "
	                    "taken 3s before");
}

static void test_long_texts_are_cut_between_characters(void **state)
{
	(void)state;
	char id[200];
	memset(id, 'a', sizeof(id));
	struct trace trace = { .id = span_of(id, TRACE_ID_MAX), .source = SPAN("s") };
	trace_trim(&trace);
	assert_int_equal(trace.id.len, TRACE_ID_MAX);
	assert_int_equal(trace.flags, 0);
	memcpy(id + TRACE_ID_MAX - 2, "€", 3); /* one byte too many */
	trace.id = span_of(id, sizeof(id));
	trace_trim(&trace);
	assert_int_equal(trace.id.len, TRACE_ID_MAX - 2);
	assert_int_equal(trace.flags, TRACE_CUT);
	memset(id, 0x80, sizeof(id)); /* no characters at all */
	trace.id = span_of(id, sizeof(id));
	trace_trim(&trace);
	assert_int_equal(trace.id.len, TRACE_ID_MAX);
}

static void test_a_long_list_of_parts_ends_with_a_whole_one_and_says_that_it_is_cut(void **state)
{
	(void)state;
	char room[TRACE_PARTS_MAX], parts[400];
	struct span fits = span_of(parts, TRACE_PARTS_MAX);
	memset(parts, 'a', sizeof(parts));
	memcpy(parts + 100, ", ", 2);
	memcpy(parts + 250, ", ", 2);
	assert_ptr_equal(trace_parts(fits, room).ptr, parts);
	struct span cut = trace_parts(span_of(parts, sizeof(parts)), room);
	assert_int_equal(cut.len, 252 + 3);
	assert_memory_equal(cut.ptr, parts, 252);
	assert_memory_equal(cut.ptr + 252, "…", 3);
	parts[250] = parts[251] = 'a'; /* the second part is too long now */
	cut = trace_parts(span_of(parts, sizeof(parts)), room);
	assert_int_equal(cut.len, 102 + 3);
	assert_memory_equal(cut.ptr + 98, "aa, …", 7);
	parts[101] = 'a'; /* one part that is too long by itself: between characters */
	memcpy(parts + TRACE_PARTS_MAX - 4, "ż", 2);
	cut = trace_parts(span_of(parts, sizeof(parts)), room);
	assert_int_equal(cut.len, TRACE_PARTS_MAX - 4 + 3);
	assert_memory_equal(cut.ptr + cut.len - 4, "a…", 4);
}

static void test_what_became_of_a_conflict_is_told(void **state)
{
	(void)state;
	struct trace trace = suppressed(VERDICT_CONFLICT);
	trace.ticket = ticket_next(0, NOW_MS + 3000);
	trace.parts = SPAN_EMPTY;
	assert_says(&trace, "conflict with 0xd48pg0000: claim 'business' was taken 3s before, with "
	                    "other content; passed as 0xd48qyw000");
	assert_true(trace_passed(&trace));
	trace.flags = TRACE_ASIDE;
	assert_says(&trace, "conflict with 0xd48pg0000: claim 'business' was taken 3s before, with "
	                    "other content; kept aside as 0xd48qyw000");
	assert_false(trace_passed(&trace));
}

static void test_keys_are_shown_with_their_parts_apart(void **state)
{
	(void)state;
	struct buf text = { 0 };
	trace_key_text(SPAN("a\x1f"
	                    "b c\x1f"),
	               &text);
	assert_int_equal(text.len, 8);
	assert_memory_equal(text.ptr, "a, b c, ", 8);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_duplicate_says_what_it_is_a_duplicate_of),
		cmocka_unit_test(test_every_verdict_has_its_words),
		cmocka_unit_test(test_a_return_and_a_trial_say_that_they_passed),
		cmocka_unit_test(test_long_texts_are_cut_between_characters),
		cmocka_unit_test(
			test_a_long_list_of_parts_ends_with_a_whole_one_and_says_that_it_is_cut),
		cmocka_unit_test(test_what_became_of_a_conflict_is_told),
		cmocka_unit_test(test_keys_are_shown_with_their_parts_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
