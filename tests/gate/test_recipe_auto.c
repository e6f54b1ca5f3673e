/* recipe auto: what is recognised, which events are the same, what is refused. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "gate/recipe_auto.h"
#include "support/vectors.h"

#define WINDOW_S 345600
#define HEADERS_MAX 8

/* Written for this test in the shape of a Genesys event from EventBridge. */
static const char genesys[] =
	"{\"version\":\"0\",\"id\":\"0f6c1b1e-77aa-4c0b-9f38-1d2c3b4a5968\","
	"\"detail-type\":\"v2.detail.events.conversation.{id}.acd.start\","
	"\"source\":\"aws.partner/genesys.com/cloud/5d1c0a52-0000-4000-8000-00c0ffee0001/bus\","
	"\"account\":\"210987654321\",\"time\":\"2026-03-04T05:06:07Z\",\"region\":\"eu-central-1\","
	"\"resources\":[],\"detail\":{\"topicName\":\"v2.detail.events.conversation.x.acd.start\","
	"\"version\":\"2\",\"eventBody\":{\"id\":\"not the envelope's\",\"eventTime\":1772600767123},"
	"\"metadata\":{\"CorrelationId\":\"c0\"},\"timestamp\":\"2026-03-04T05:06:07.123Z\"}}";

struct outcome_of_run {
	int error;
	struct event event;
	struct claim claims[CLAIMS_MAX];
	uint32_t count;
	struct error_text problem;
};

static struct recipe_auto recipe;

static struct recipe_auto_options options(const char *source)
{
	struct recipe_auto_options result = { .source = span_str(source), .window_s = WINDOW_S };
	for (unsigned i = 0; i < sizeof(result.key); i++)
		result.key[i] = (unsigned char)(i * 7);
	return result;
}

static int set_up(void **state)
{
	struct recipe_auto_options with = options("events");
	(void)state;
	return recipe_init_auto(&recipe, &with, NULL);
}

/* Headers are "name: value" lines, the last NULL. */
static struct outcome_of_run run_with(const struct recipe_auto *with, struct span body,
                                      const char *const *lines)
{
	struct http1_header headers[HEADERS_MAX];
	struct recipe_auto_input input = { .body = body, .headers = headers };
	struct outcome_of_run run = { .problem = { "" } };
	for (; lines && lines[input.header_count]; input.header_count++) {
		const char *line = lines[input.header_count];
		const char *colon = strchr(line, ':');
		assert_true(input.header_count < HEADERS_MAX);
		headers[input.header_count].name = span_of(line, (size_t)(colon - line));
		headers[input.header_count].value = span_str(colon + 2);
	}
	run.error = recipe_auto_run(with, &input, &run.event, run.claims, &run.count, &run.problem);
	return run;
}

static struct outcome_of_run run_body(const char *body)
{
	return run_with(&recipe, span_str(body), NULL);
}

static struct outcome_of_run run_headers(const char *const *lines)
{
	return run_with(&recipe, SPAN("not json"), lines);
}

static void assert_event(const struct outcome_of_run *run, enum event_kind kind, const char *type,
                         const char *id)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;
	if (run->error != 0)
		fail_msg("refused: %s", run->problem.text);
	assert_int_equal(run->event.kind, kind);
	assert_true(span_eq(run->event.source, SPAN("events")));
	assert_int_equal(event_text_value(run->event.id, bytes, sizeof(bytes), &value), 0);
	assert_true(span_eq(value, span_str(id)));
	assert_int_equal(event_text_value(run->event.type, bytes, sizeof(bytes), &value), 0);
	assert_true(span_eq(value, span_str(type)));
	assert_int_equal(run->count, 1);
	assert_int_equal(run->claims[0].window_s, WINDOW_S);
}

static bool same_claim(const struct outcome_of_run *a, const struct outcome_of_run *b)
{
	assert_int_equal(a->error, 0);
	assert_int_equal(b->error, 0);
	return memcmp(&a->claims[0].digest, &b->claims[0].digest, sizeof(struct digest)) == 0;
}

static void assert_same(const char *a, const char *b)
{
	struct outcome_of_run first = run_body(a);
	struct outcome_of_run second = run_body(b);
	if (!same_claim(&first, &second))
		fail_msg("not the same: %s and %s", a, b);
}

static void assert_different(const char *a, const char *b)
{
	struct outcome_of_run first = run_body(a);
	struct outcome_of_run second = run_body(b);
	if (same_claim(&first, &second))
		fail_msg("the same: %s and %s", a, b);
}

static void assert_refused(const struct outcome_of_run *run, int error, const char *text)
{
	assert_int_equal(run->error, error);
	assert_string_equal(run->problem.text, text);
	assert_int_equal(run->count, 0);
}

static void the_shapes_are_recognised(void **state)
{
	(void)state;
	struct outcome_of_run run = run_body(genesys);
	assert_event(&run, EVENT_EVENTBRIDGE, "v2.detail.events.conversation.{id}.acd.start",
	             "0f6c1b1e-77aa-4c0b-9f38-1d2c3b4a5968");
	assert_true(run.event.json);
	run = run_body(
		"{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/s\",\"type\":\"t\",\"data\":{}}");
	assert_event(&run, EVENT_CLOUDEVENTS, "t", "7");
	run = run_body("{\"id\":\"7\"}");
	assert_event(&run, EVENT_PLAIN, "", "7");
	assert_int_equal(run.event.type.coding, EVENT_TEXT_NONE);
	run = run_body(" {\"type\":\"order\",\n\"id\":\"7\"}\n");
	assert_event(&run, EVENT_PLAIN, "order", "7");
}

static void half_a_shape_is_a_plain_event(void **state)
{
	static const char *const bodies[] = {
		"{\"id\":\"7\",\"source\":\"s\"}",
		"{\"id\":\"7\",\"specversion\":\"1.0\"}",
		"{\"id\":\"7\",\"specversion\":1.0,\"source\":\"s\"}",
		"{\"id\":\"7\",\"specversion\":\"1.0\",\"source\":\"\"}",
		"{\"id\":\"7\",\"source\":\"s\",\"detail-type\":\"t\"}",
		"{\"id\":\"7\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":\"{}\"}",
		"{\"id\":\"7\",\"source\":[],\"detail-type\":\"t\",\"detail\":{}}",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct outcome_of_run run = run_body(bodies[i]);
		assert_event(&run, EVENT_PLAIN, "", "7");
		assert_same(bodies[i], "{\"id\":\"7\"}");
	}
}

static void strings_are_compared_by_value(void **state)
{
	(void)state;
	assert_same("{\"id\":\"A/1\"}", "{\"id\":\"\\u0041\\/1\"}");
	assert_same("{\"id\":\"\xf0\x9f\x98\x80\"}", "{\"id\":\"\\uD83D\\uDE00\"}");
	assert_same("{\"id\":\"x\"}", "{\"\\u0069d\":\"x\"}");
	assert_same("{\"id\":\"x\",\"n\":1}", "{ \"n\" : 2,\n \"id\" : \"x\" }");
	assert_different("{\"id\":\"x\"}", "{\"id\":\"X\"}");
	assert_different("{\"id\":\"x\"}", "{\"id\":\"x \"}");
	assert_different("{\"id\":\"x\"}", "{\"id\":\"x\\u0000\"}");
	assert_different("{\"id\":\"\\\\n\"}", "{\"id\":\"\\n\"}");
}

static void source_and_id_are_not_run_together(void **state)
{
	(void)state;
	assert_different("{\"specversion\":\"1.0\",\"source\":\"12\",\"id\":\"3\"}",
	                 "{\"specversion\":\"1.0\",\"source\":\"1\",\"id\":\"23\"}");
	assert_different("{\"specversion\":\"1.0\",\"source\":\"a\",\"id\":\"1\"}",
	                 "{\"specversion\":\"1.0\",\"source\":\"b\",\"id\":\"1\"}");
	assert_same("{\"specversion\":\"1.0\",\"source\":\"a\",\"id\":\"1\",\"type\":\"x\"}",
	            "{\"id\":\"1\",\"type\":\"y\",\"source\":\"a\",\"specversion\":\"1.1\"}");
	assert_different("{\"specversion\":\"1.0\",\"source\":\"a\",\"id\":\"1\"}",
	                 "{\"id\":\"1\"}");
}

static void another_source_name_or_key_gives_another_claim(void **state)
{
	struct recipe_auto other;
	struct recipe_auto_options with = options("orders");
	(void)state;
	struct outcome_of_run run = run_body(genesys);
	assert_int_equal(recipe_init_auto(&other, &with, NULL), 0);
	struct outcome_of_run elsewhere = run_with(&other, span_str(genesys), NULL);
	assert_false(same_claim(&run, &elsewhere));
	assert_true(span_eq(elsewhere.event.source, SPAN("orders")));
	with = options("events");
	with.key[0] ^= 1;
	assert_int_equal(recipe_init_auto(&other, &with, NULL), 0);
	elsewhere = run_with(&other, span_str(genesys), NULL);
	assert_false(same_claim(&run, &elsewhere));
}

/* A change of these words lets every remembered event through again. */
static void a_claim_stays_the_same_over_releases(void **state)
{
	(void)state;
	struct outcome_of_run run = run_body("{\"id\":\"42\"}");
	struct digest_input input = { .len = 0 };
	static const char bytes[] = "\1\6events\11transports\2\0\0\0"
				    "42";
	memcpy(input.bytes, bytes, sizeof(bytes) - 1);
	input.len = sizeof(bytes) - 1;
	struct digest digest = digest_end(&input, recipe.key);
	assert_memory_equal(&run.claims[0].digest, &digest, sizeof(digest));
}

static void binary_mode_is_read_from_headers(void **state)
{
	const char *lines[] = { "Host: x",
		                "CE-SpecVersion: 1.0",
		                "ce-id: a%20b",
		                "ce-source: /s",
		                "ce-type: t",
		                "Content-Type: text/plain",
		                NULL };
	(void)state;
	struct outcome_of_run run = run_headers(lines);
	assert_event(&run, EVENT_CLOUDEVENTS_BINARY, "t", "a b");
	assert_false(run.event.json);
	run = run_with(&recipe, SPAN("[1]"), lines);
	assert_event(&run, EVENT_CLOUDEVENTS_BINARY, "t", "a b");
	assert_true(run.event.json);
	run = run_with(&recipe, SPAN_EMPTY, lines);
	assert_event(&run, EVENT_CLOUDEVENTS_BINARY, "t", "a b");
	assert_false(run.event.json);
}

static void both_modes_of_cloudevents_give_the_same_claim(void **state)
{
	const char *lines[] = { "ce-id: %22\xe2\x82\xac", "ce-source: \"/a\\\\b\"",
		                "ce-specversion: 1.0", NULL };
	(void)state;
	struct outcome_of_run binary = run_headers(lines);
	struct outcome_of_run structured = run_body(
		"{\"specversion\":\"1.0\",\"id\":\"\\\"\\u20ac\",\"source\":\"/a\\\\b\"}");
	assert_true(same_claim(&binary, &structured));
}

static void a_structured_content_type_wins_over_headers(void **state)
{
	const char *lines[] = { "ce-id: h",
		                "ce-source: /h",
		                "ce-specversion: 1.0",
		                "ce-id: h",
		                "content-type: Application/CloudEvents+json; charset=utf-8",
		                NULL };
	(void)state;
	struct outcome_of_run run =
		run_with(&recipe, SPAN("{\"specversion\":\"1.0\",\"id\":\"b\",\"source\":\"/b\"}"),
	                 lines);
	assert_event(&run, EVENT_CLOUDEVENTS, "", "b");
}

static void headers_without_specversion_mean_nothing(void **state)
{
	const char *lines[] = { "ce-id: h", "ce-id: i", "ce-source: /h", "ce-specversion: ", NULL };
	(void)state;
	struct outcome_of_run run = run_with(&recipe, SPAN("{\"id\":\"b\"}"), lines);
	assert_event(&run, EVENT_PLAIN, "", "b");
}

static void broken_binary_mode_is_refused_with_the_header_named(void **state)
{
	static const struct {
		const char *lines[5];
		const char *text;
	} cases[] = {
		{ { "ce-specversion: 1.0", "ce-source: /s" },
		  "expected a header ce-id that is not empty, since there is ce-specversion" },
		{ { "ce-specversion: 1.0", "ce-source: /s", "ce-id: " },
		  "expected a header ce-id that is not empty, since there is ce-specversion" },
		{ { "ce-specversion: 1.0", "ce-id: 1" },
		  "expected a header ce-source that is not empty, since there is ce-specversion" },
		{ { "ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "CE-ID: 1" },
		  "expected the header ce-id only once" },
		{ { "ce-specversion: 1.0", "ce-id: %4", "ce-source: /s" },
		  "expected percent-encoded UTF-8 in the header ce-id" },
		{ { "ce-specversion: 1.0", "ce-id: 1", "ce-source: %ff" },
		  "expected percent-encoded UTF-8 in the header ce-source" },
		{ { "ce-specversion: 1.0", "ce-id: \"\"", "ce-source: /s" },
		  "expected percent-encoded UTF-8 in the header ce-id" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome_of_run run = run_headers(cases[i].lines);
		assert_refused(&run, ERR_INVALID, cases[i].text);
	}
}

static void bodies_without_an_id_are_refused_with_what_was_expected(void **state)
{
	static const struct {
		const char *body;
		const char *text;
	} cases[] = {
		{ "", "expected a JSON object; at byte 0 of the body: expected a value" },
		{ "{\"id\":\"1\"",
		  "expected a JSON object; at byte 9 of the body: expected a comma or }" },
		{ "{\"id\":\"1\",\"id\":\"1\"}",
		  "expected a JSON object; at byte 10 of the body: expected this name only once" },
		{ "{\"id\":\"\\uD800\"}",
		  "expected a JSON object; at byte 13 of the body: expected a low "
		  "surrogate after the high one" },
		{ "[]", "expected a JSON object, found an array" },
		{ "\"id\"", "expected a JSON object, found a string" },
		{ "null", "expected a JSON object, found null" },
		{ "{}", "expected a string \"id\" in the JSON object, found nothing" },
		{ "{\"id\":7}", "expected a string \"id\" in the JSON object, found a number" },
		{ "{\"id\":null}", "expected a string \"id\" in the JSON object, found null" },
		{ "{\"id\":\"\"}",
		  "expected a string \"id\" in the JSON object, found an empty one" },
		{ "{\"id\":{\"id\":\"1\"}}",
		  "expected a string \"id\" in the JSON object, found an object" },
		{ "{\"detail\":{\"id\":\"1\"}}",
		  "expected a string \"id\" in the JSON object, found nothing" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome_of_run run = run_body(cases[i].body);
		assert_refused(&run, ERR_INVALID, cases[i].text);
	}
}

/* Lengths are those of the value, however it is written. */
static void an_id_has_at_most_1024_bytes(void **state)
{
	static const char *const spellings[] = { "x", "\\u0078" };
	static char body[6 * DIGEST_PART_MAX + 64];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++)
		for (size_t len = DIGEST_PART_MAX; len <= DIGEST_PART_MAX + 1; len++) {
			size_t at = (size_t)snprintf(body, sizeof(body), "{\"id\":\"");
			for (size_t n = 0; n < len; n++)
				at += (size_t)snprintf(body + at, sizeof(body) - at, "%s",
				                       spellings[i]);
			snprintf(body + at, sizeof(body) - at, "\"}");
			struct outcome_of_run run = run_body(body);
			if (len > DIGEST_PART_MAX)
				assert_refused(&run, ERR_TOO_LARGE,
				               "expected at most 1024 bytes in the member id");
			else
				assert_int_equal(run.error, 0);
		}
}

static void bad_options_are_refused(void **state)
{
	static char name[DIGEST_SOURCE_MAX + 1];
	struct recipe_auto other;
	struct error_text text;
	struct recipe_auto_options with = options("events");
	(void)state;
	with.window_s = 0;
	assert_int_equal(recipe_init_auto(&other, &with, &text), ERR_CONFIG);
	assert_string_equal(text.text, "a window must be at least one second");
	with = options("");
	assert_int_equal(recipe_init_auto(&other, &with, &text), ERR_CONFIG);
	assert_string_equal(text.text, "a source's name must have 1 to 64 bytes");
	memset(name, 'n', sizeof(name));
	with.source = span_of(name, DIGEST_SOURCE_MAX);
	assert_int_equal(recipe_init_auto(&other, &with, &text), 0);
	with.source = span_of(name, sizeof(name));
	assert_int_equal(recipe_init_auto(&other, &with, &text), ERR_CONFIG);
}

/* Published samples: envelopes are recognised, everything else is refused. */
static void judge_sample(const char *name, struct span bytes)
{
	assert_non_null(bytes.ptr);
	struct outcome_of_run run = run_with(&recipe, bytes, NULL);
	bool envelope = memmem(bytes.ptr, bytes.len, "\"detail-type\"", 13) &&
	                !memmem(bytes.ptr, bytes.len, "\"Records\"", 9) &&
	                !memmem(bytes.ptr, bytes.len, "\"Messages\"", 10);
	if ((run.error == 0) != envelope || (envelope && run.event.kind != EVENT_EVENTBRIDGE))
		fail_msg("%s: %s", name, run.error ? run.problem.text : "accepted");
}

static void published_samples_are_recognised(void **state)
{
	(void)state;
	unsigned count = vectors_each("genesys", judge_sample) + vectors_each("aws", judge_sample);
	if (count == 0) {
		print_message("skipped: no genesys or aws among the vectors\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shapes_are_recognised),
		cmocka_unit_test(half_a_shape_is_a_plain_event),
		cmocka_unit_test(strings_are_compared_by_value),
		cmocka_unit_test(source_and_id_are_not_run_together),
		cmocka_unit_test(another_source_name_or_key_gives_another_claim),
		cmocka_unit_test(a_claim_stays_the_same_over_releases),
		cmocka_unit_test(binary_mode_is_read_from_headers),
		cmocka_unit_test(both_modes_of_cloudevents_give_the_same_claim),
		cmocka_unit_test(a_structured_content_type_wins_over_headers),
		cmocka_unit_test(headers_without_specversion_mean_nothing),
		cmocka_unit_test(broken_binary_mode_is_refused_with_the_header_named),
		cmocka_unit_test(bodies_without_an_id_are_refused_with_what_was_expected),
		cmocka_unit_test(an_id_has_at_most_1024_bytes),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(published_samples_are_recognised),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
