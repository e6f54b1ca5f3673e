/* why: the answers to "why was this event stopped?" and "is the window right?" */
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "codec/json.h"
#include "console/why/why.h"
#include "support/test.h"
#include "trace/traces.h"

static struct simfs *simfs;
static struct why_context context;
static struct buf out;

static int begin(void **state)
{
	(void)state;
	simfs = simfs_new(test_seed());
	context = (struct why_context){ .log = traces_open(simfs) };
	for (uint64_t i = 0; i < 8; i++) {
		struct made_trace made;
		made_trace_fill(&made, i);
		trace_log_add(context.log, &made.trace);
	}
	out = (struct buf){ .cap = 1u << 20 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	context.log = trace_log_free(context.log);
	simfs = simfs_free(simfs);
	buf_free(&out);
	return 0;
}

static uint16_t ask(const char *query)
{
	struct why_question question;
	struct error_text text = { "" };
	if (why_question_parse(span_str(query), &question, &text) < 0)
		fail_msg("%s: %s", query, text.text);
	buf_clear(&out);
	uint16_t status = why_answer(&context, &question, &out);
	struct json_doc doc;
	if (status == 200)
		assert_int_equal(json_scan(buf_span(&out), NULL, &doc), 0);
	buf_append_char(&out, 0);
	assert_false(out.failed);
	return status;
}

/* The answer in `out` as the command prints it. */
static void to_text(int (*write)(struct span json, struct buf *text))
{
	struct buf text = { 0 };
	assert_int_equal(write(span_of(out.ptr, out.len - 1), &text), 0);
	buf_append_char(&text, 0);
	buf_clear(&out);
	buf_append_span(&out, buf_span(&text));
	assert_false(out.failed);
	buf_free(&text);
}

static void ask_text(const char *query)
{
	assert_int_equal(ask(query), 200);
	to_text(why_write_text);
}

static void assert_has(const char *text)
{
	if (!strstr(out.ptr, text))
		fail_msg("\"%s\" is not in: %s", text, out.ptr);
}

static void assert_lacks(const char *text)
{
	if (strstr(out.ptr, text))
		fail_msg("\"%s\" is in: %s", text, out.ptr);
}

static void test_the_id_of_a_duplicate_leads_to_its_original_and_all_repeats(void **state)
{
	(void)state;
	assert_int_equal(ask("id=id-6-%E2%82%AC"), 200);
	assert_has("{\"question\":{\"id\":\"id-6-€\"},\"found\":1,\"originals\":[{\"ticket\":\"");
	assert_has("\"traced\":true,\"source\":\"genesys\",\"id\":\"id-4-€\",\"type\":"
	           "\"order.paid\",\"keys\":[\"order-4, paid\"],\"peer\":\"192.0.2.1\"");
	assert_has("\"repeats_found\":3,\"repeats\":[{\"time\":\"2026-01-01T00:00:00.070Z\","
	           "\"verdict\":\"duplicate\"");
	assert_has("\"claim\":\"business\",\"parts\":\"orderId, state\"");
	assert_has("\"gap_ms\":20,\"gap\":\"20ms\",\"content\":\"same\"");
	assert_has("claim 'business' (orderId, state) was taken 20ms before; the content is the "
	           "same");
	assert_has("\"traces\":{\"records\":8,\"oldest\":\"2026-01-01T00:00:00.000Z\"");
	assert_lacks("id-3-");
}

static void test_ticket_key_part_and_anything_lead_there_too(void **state)
{
	(void)state;
	static const char *const queries[] = {
		"key=order-4",        "key=order-4,+paid",     "key=order-4,paid",
		"any=order-4",        "any=id-7-%E2%82%AC",    "id=id-4-%E2%82%AC",
		"key=order-4%1fpaid", "any=order-4%2C%20paid",
	};
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		assert_int_equal(ask(queries[i]), 200);
		assert_has("\"found\":1");
		assert_has("\"repeats_found\":3");
		assert_has("\"id\":\"id-4-€\"");
	}
	char query[64] = "ticket=";
	char *ticket = strstr(out.ptr, "\"ticket\":\"") + 10;
	memcpy(query + 7, ticket, TICKET_TEXT_LEN);
	assert_int_equal(ask(query), 200);
	assert_has("\"repeats_found\":3");
}

static void test_what_was_asked_for_is_listed_beyond_the_limit(void **state)
{
	(void)state;
	assert_int_equal(ask("id=id-5-%E2%82%AC&limit=1"), 200);
	assert_has("\"repeats_found\":3");
	assert_has("id-7-€");
	assert_has("id-5-€");
	assert_lacks("id-6-€");
}

static void test_a_key_of_many_events_has_many_originals(void **state)
{
	(void)state;
	assert_int_equal(ask("key=paid"), 200);
	assert_has("\"found\":2");
	assert_int_equal(ask("key=paid&source=orders"), 200);
	assert_has("\"found\":1");
	assert_lacks("id-4-€");
}

static void test_an_unknown_id_is_an_answer_too(void **state)
{
	(void)state;
	assert_int_equal(ask("id=%3Cnobody%3E"), 200);
	assert_has("\"found\":0,\"originals\":[]");
	ask_text("any=nobody");
	assert_string_equal(out.ptr, "no trace of \"nobody\" among 8; the oldest is of "
	                             "2026-01-01T00:00:00.000Z\n");
}

static void test_the_text_reads_as_a_story(void **state)
{
	(void)state;
	ask_text("id=id-1-%E2%82%AC&limit=2");
	assert_string_equal(
		out.ptr,
		"ticket 0xd48pg0000, first seen 2026-01-01T00:00:00.000Z\n"
		"  source   orders\n"
		"  id       id-0-€\n"
		"  type     order.paid\n"
		"  key      order-0, paid\n"
		"  from     192.0.2.1\n"
		"  the same came again 3 times:\n"
		"  2026-01-01T00:00:00.030Z  id-3-€\n"
		"      duplicate of 0xd48pg0000: claim 'business' (orderId, state) was taken 30ms "
		"before; the content is the same\n"
		"  2026-01-01T00:00:00.020Z  id-2-€\n"
		"      duplicate of 0xd48pg0000: claim 'business' (orderId, state) was taken 20ms "
		"before; the content is the same\n"
		"  2026-01-01T00:00:00.010Z  id-1-€\n"
		"      duplicate of 0xd48pg0000: claim 'business' (orderId, state) was taken 10ms "
		"before; the content is the same\n");
	assert_lacks("state    ");
}

/* ---- what is kept aside ---- */

static uint64_t held_tickets[3];

/* Two conflicts with the first event are kept aside, and one of these came again. */
static void add_held(void)
{
	struct made_trace made;
	for (uint64_t i = 0; i < 2; i++) {
		made_trace_fill(&made, 1);
		made.trace.verdict = VERDICT_CONFLICT;
		made.trace.flags = TRACE_ASIDE;
		made.trace.id = i == 0 ? SPAN("aside-0") : SPAN("aside-1");
		made.trace.source = i == 0 ? SPAN("orders") : SPAN("others");
		made.trace.time_ms = TRACES_NOW_MS + 1000 * (i + 1);
		made.trace.ticket = ticket_next(0, made.trace.time_ms);
		held_tickets[1 - i] = made.trace.ticket;
		trace_log_add(context.log, &made.trace);
	}
	made_trace_fill(&made, 2);
	made.trace.id = SPAN("aside-copy");
	made.trace.original = held_tickets[0];
	trace_log_add(context.log, &made.trace);
	context.held = (struct why_held){
		.known = true, .all = true, .count = 2, .tickets = held_tickets
	};
}

static void test_a_held_event_is_told_with_how_to_release_or_drop_it(void **state)
{
	(void)state;
	add_held();
	ask_text("id=aside-1");
	assert_has("with other content; kept aside as 0xd48qf8000\n"
	           "      held: stile release 0xd48qf8000 delivers it, stile release --drop "
	           "0xd48qf8000 forgets it\n");
	assert_int_equal(ask("id=aside-1"), 200);
	assert_has("\"verdict\":\"conflict\",\"ticket\":\"0xd48qf8000\",\"state\":\"held\"");
	context.held.count = 0;
	ask_text("id=aside-1");
	assert_has("      released or dropped\n");
	assert_int_equal(ask("id=aside-1"), 200);
	assert_has("\"state\":\"released or dropped\"");
	/* Read from a folder, nobody knows. */
	context.held = (struct why_held){ .known = false };
	ask_text("id=aside-1");
	assert_has("; kept aside as 0xd48qf8000\n");
	assert_lacks("held:");
	assert_lacks("dropped");
}

static void test_the_copy_of_a_held_event_leads_to_its_own_story(void **state)
{
	(void)state;
	add_held();
	ask_text("id=aside-copy");
	assert_has("ticket 0xd48qf8000, first seen 2026-01-01T00:00:02.000Z\n"
	           "  state    held: stile release 0xd48qf8000 delivers it");
	assert_has("  id       aside-1\n");
	assert_has("  note     conflict with 0xd48pg0000: claim");
	assert_has("the same came again 1 time:\n");
	assert_lacks("trace is gone");
}

static void test_held_events_are_listed_newest_first_and_in_pages(void **state)
{
	(void)state;
	add_held();
	assert_int_equal(ask("held=1"), 200);
	assert_has("{\"question\":{\"held\":true},\"originals\":[{\"ticket\":\"0xd48qf8000\"");
	assert_has("\"id\":\"aside-1\"");
	assert_has("\"id\":\"aside-0\"");
	assert_has("],\"found\":2}\n");
	assert_int_equal(ask("held=1&limit=1"), 200);
	assert_lacks("aside-0");
	assert_has("],\"found\":1,\"next\":\"0xd48qf8000\"}\n");
	ask_text("held=1&source=orders");
	assert_has("aside-0");
	assert_lacks("aside-1");
	assert_lacks("more:");
	context.held.all = false;
	ask_text("held=1");
	assert_has("\nmore: stile why --held --before 0xd48pzm000\n");
	/* A ticket whose traces are gone is listed all the same. */
	context.held.all = true;
	held_tickets[2] = 1;
	context.held.count = 3;
	ask_text("held=1");
	assert_has("ticket 00000000001, first seen 2024-01-01");
	assert_has("its own trace is gone");
	context.held.count = 0;
	ask_text("held=1");
	assert_string_equal(out.ptr, "nothing is kept aside\n");
	context.held.known = false;
	assert_int_equal(ask("held=1"), 503);
}

static void test_a_return_is_in_both_stories(void **state)
{
	(void)state;
	struct made_trace made;
	made_trace_fill(&made, 0);
	made.trace.time_ms += 7200000;
	made.trace.ticket = ticket_next(0, made.trace.time_ms);
	trace_log_add(context.log, &made.trace);
	assert_int_equal(ask("id=id-0-%E2%82%AC"), 200);
	assert_has("\"found\":2");
	assert_has("\"returned\":true");
	assert_has("new again: passed with ticket");
	ask_text("id=id-0-%E2%82%AC");
	assert_has("  note     new again: passed with ticket 0xd7pj40000, though 0xd48pg0000 was "
	           "the same 2h before: the window had ended\n");
}

static void test_texts_of_senders_cannot_reach_the_terminal(void **state)
{
	(void)state;
	struct made_trace made;
	made_trace_fill(&made, 20);
	made.trace.id = SPAN("\x1b[31mred\n\"\xff");
	trace_log_add(context.log, &made.trace);
	ask_text("id=%1b[31mred%0a%22%ff");
	assert_has("\\u001b[31mred\\n\"\xef\xbf\xbd");
	assert_lacks("\x1b");
	assert_int_equal(ask("id=%1b[31mred%0a%22%ff"), 200);
	assert_lacks("\x1b");
}

static void test_a_trace_without_its_original_still_answers(void **state)
{
	(void)state;
	struct made_trace made;
	made_trace_fill(&made, 41);
	trace_log_add(context.log, &made.trace);
	assert_int_equal(ask("id=id-41-%E2%82%AC"), 200);
	assert_has("\"traced\":false,\"repeats_found\":1");
	ask_text("id=id-41-%E2%82%AC");
	assert_has("its own trace is gone, or was never kept");
}

static void test_a_bad_question_is_refused_with_a_reason(void **state)
{
	(void)state;
	static const struct {
		const char *query;
		const char *text;
	} rows[] = {
		{ "id=", "empty" },
		{ "id=a&key=b", "one of" },
		{ "id=a&id=a", "2 times" },
		{ "id=a&source=b&source=b", "2 times" },
		{ "id=a&source=", "source is empty" },
		{ "held=2", "held is 1" },
		{ "id=a&before=00000000001", "goes with held" },
		{ "id=%4", "two digits" },
		{ "id=a&limit=0", "limit" },
		{ "id=a&held=1", "one of" },
		{ "held=1&before=x", "before" },
		{ "id=a&limit=501", "limit" },
		{ "id=a&limit=x", "limit" },
		{ "id=a&format=xml", "format: expected json" },
		{ "id=a&format=text", "stile why and stile advise print text" },
		{ "idd=a", "unknown parameter idd; there are id, ticket, key, any, held, source, "
		           "before, limit and format" },
		{ "id=a&=b", "unknown parameter ;" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct why_question question;
		struct error_text text = { "" };
		assert_true(why_question_parse(span_str(rows[i].query), &question, &text) < 0);
		if (!strstr(text.text, rows[i].text))
			fail_msg("%s: %s", rows[i].query, text.text);
	}
	char longest[WHY_TEXT_MAX + 8] = "id=";
	memset(longest + 3, 'a', WHY_TEXT_MAX + 1);
	struct why_question question;
	assert_true(why_question_parse(span_of(longest, WHY_TEXT_MAX + 3), &question, NULL) == 0);
	assert_true(why_question_parse(span_of(longest, WHY_TEXT_MAX + 4), &question, NULL) < 0);
	assert_int_equal(ask(""), 400);
	assert_int_equal(ask("&&limit=3"), 400);
	context.log = trace_log_free(context.log);
	assert_int_equal(ask("id=a"), 503);
}

static void test_no_memory_is_an_answer_and_not_a_crash(void **state)
{
	(void)state;
	struct why_question question;
	assert_int_equal(why_question_parse(SPAN("id=id-6-%E2%82%AC"), &question, NULL), 0);
	for (unsigned long n = 1; n < 40; n++) {
		struct buf answer = { .cap = 1u << 20 };
		mem_fail_at(n, true);
		uint16_t status = why_answer(&context, &question, &answer);
		mem_fail_at(0, false);
		if (status != 200 && status != 503)
			fail_msg("allocation %lu: status %u", n, status);
		buf_free(&answer);
	}
}

static uint16_t advise(const char *query)
{
	struct why_question question;
	assert_int_equal(why_question_parse(span_str(query), &question, NULL), 0);
	buf_clear(&out);
	trace_log_tick(context.log);
	uint16_t status = why_advise(&context, &question, &out);
	struct json_doc doc;
	if (status == 200)
		assert_int_equal(json_scan(buf_span(&out), NULL, &doc), 0);
	buf_append_char(&out, 0);
	return status;
}

static const struct advice_question sources[] = {
	{ { "orders", 6 }, 25, 0 },
	{ { "quiet", 5 }, 3600000, 86400000 },
};

static void test_advice_covers_configured_and_other_sources(void **state)
{
	(void)state;
	context.sources = sources;
	context.source_count = 2;
	assert_int_equal(advise(""), 200);
	to_text(advise_write_text);
	assert_string_equal(
		out.ptr,
		"orders: window 25ms is too short: duplicates arrive up to 30ms later (only 3 "
		"seen); 1m is advised\n"
		"    3 duplicates, half of them within 20ms, 99 of 100 within 30ms\n"
		"quiet: window 1h is shorter than the retries: the sender retries for 1d; 1d is "
		"advised\n"
		"genesys: window unknown: duplicates arrive up to 30ms later (only 3 seen); 1m is "
		"advised\n"
		"    3 duplicates, half of them within 20ms, 99 of 100 within 30ms\n");
	assert_int_equal(advise("source=orders"), 200);
	assert_has("{\"sources\":[{\"source\":\"orders\",\"state\":\"too short\",\"trust\":"
	           "\"low\",\"window\":\"25ms\",\"window_ms\":25,\"advised\":\"1m\"");
	assert_lacks("genesys");
	assert_int_equal(advise("id=a"), 400);
}

static void test_one_duplicate_is_told_as_one_and_busy_is_none(void **state)
{
	(void)state;
	struct made_trace made;
	for (int i = 0; i < 3; i++) {
		made_trace_fill(&made, 1);
		made.trace.source = SPAN("single");
		made.trace.verdict = i == 0 ? VERDICT_DUPLICATE : VERDICT_BUSY;
		trace_log_add(context.log, &made.trace);
	}
	assert_int_equal(advise("source=single&format=json"), 200);
	to_text(advise_write_text);
	assert_string_equal(out.ptr, "single: window unknown: duplicates arrive up to 10ms later "
	                             "(only 1 seen); 1m is advised\n"
	                             "    1 duplicate\n");
}

static void test_metrics_say_which_window_is_too_short(void **state)
{
	(void)state;
	context.sources = sources;
	context.source_count = 2;
	trace_log_tick(context.log);
	why_metrics(&context, &out);
	buf_append_char(&out, 0);
	assert_has("stile_window_too_short{source=\"orders\"} 1\n");
	assert_has("stile_window_too_short{source=\"quiet\"} 0\n");
	assert_has("stile_duplicate_gap_max_seconds{source=\"genesys\"} 0.030\n");
	assert_has("stile_window_advised_seconds{source=\"orders\"} 60.000\n");
	assert_has("stile_returned_after_window{source=\"orders\"} 0\n");
	assert_has("stile_traces 8\n");
	assert_has("stile_traces_lost_total 0\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_id_of_a_duplicate_leads_to_its_original_and_all_repeats),
		TEST(test_ticket_key_part_and_anything_lead_there_too),
		TEST(test_what_was_asked_for_is_listed_beyond_the_limit),
		TEST(test_a_key_of_many_events_has_many_originals),
		TEST(test_an_unknown_id_is_an_answer_too),
		TEST(test_the_text_reads_as_a_story),
		TEST(test_a_held_event_is_told_with_how_to_release_or_drop_it),
		TEST(test_the_copy_of_a_held_event_leads_to_its_own_story),
		TEST(test_held_events_are_listed_newest_first_and_in_pages),
		TEST(test_a_return_is_in_both_stories),
		TEST(test_texts_of_senders_cannot_reach_the_terminal),
		TEST(test_a_trace_without_its_original_still_answers),
		TEST(test_a_bad_question_is_refused_with_a_reason),
		TEST(test_no_memory_is_an_answer_and_not_a_crash),
		TEST(test_advice_covers_configured_and_other_sources),
		TEST(test_one_duplicate_is_told_as_one_and_busy_is_none),
		TEST(test_metrics_say_which_window_is_too_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
