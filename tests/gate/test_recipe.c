/* recipe auto: what is recognised, which events are the same, what is refused. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"

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
	struct recipe_result result;
	struct error_text problem;
};

static struct recipe *recipe;
static struct recipe_scratch scratch;
static unsigned char key[DIGEST_KEY_LEN];

static struct recipe *compile_auto(const char *source)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	struct recipe_spec spec = {
		.source = span_str(source),
		.window_s = WINDOW_S,
		.cases = preset->cases,
		.case_count = preset->case_count,
	};
	struct recipe *compiled = NULL;
	struct recipe_problem problem;
	if (recipe_compile(&spec, key, &compiled, &problem) != 0)
		fail_msg("%s %d: %s", problem.field, problem.case_index, problem.text.text);
	return compiled;
}

static int set_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)(i * 7);
	recipe = compile_auto("events");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	recipe = recipe_free(recipe);
	recipe_scratch_free(&scratch);
	return 0;
}

/* Headers are "name: value" lines, the last NULL. */
static struct outcome_of_run run_with(const struct recipe *with, struct span body,
                                      const char *const *lines)
{
	struct http1_header headers[HEADERS_MAX];
	struct recipe_input input = { .body = body, .headers = headers };
	struct outcome_of_run run = { .problem = { "" } };
	for (; lines && lines[input.header_count]; input.header_count++) {
		const char *line = lines[input.header_count];
		const char *colon = strchr(line, ':');
		assert_true(input.header_count < HEADERS_MAX);
		headers[input.header_count].name = span_of(line, (size_t)(colon - line));
		headers[input.header_count].value = span_str(colon + 2);
	}
	run.error = recipe_run(with, &scratch, &input, &run.result, &run.problem);
	return run;
}

static struct outcome_of_run run_body(const char *body)
{
	return run_with(recipe, span_str(body), NULL);
}

static struct outcome_of_run run_headers(const char *const *lines)
{
	return run_with(recipe, SPAN("not json"), lines);
}

static void assert_event(const struct outcome_of_run *run, const char *kind, const char *type,
                         const char *id)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;
	if (run->error != 0)
		fail_msg("refused: %s", run->problem.text);
	assert_string_equal(run->result.event.name, kind);
	assert_true(span_eq(run->result.event.source, SPAN("events")));
	assert_int_equal(event_text_value(run->result.event.id, bytes, sizeof(bytes), &value), 0);
	assert_true(span_eq(value, span_str(id)));
	assert_int_equal(event_text_value(run->result.event.type, bytes, sizeof(bytes), &value), 0);
	assert_true(span_eq(value, span_str(type)));
	assert_true(run->result.claim_count >= 1);
	assert_int_equal(run->result.claims[0].window_s, WINDOW_S);
}

static bool same_claim(const struct outcome_of_run *a, const struct outcome_of_run *b)
{
	assert_int_equal(a->error, 0);
	assert_int_equal(b->error, 0);
	return digest_same_key(&a->result.claims[0].digest, &b->result.claims[0].digest);
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
}

static void the_shapes_are_recognised(void **state)
{
	(void)state;
	struct outcome_of_run run = run_body(genesys);
	assert_event(&run, "genesys conversation", "v2.detail.events.conversation.{id}.acd.start",
	             "0f6c1b1e-77aa-4c0b-9f38-1d2c3b4a5968");
	assert_true(run.result.event.json);
	run = run_body(
		"{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/s\",\"type\":\"t\",\"data\":{}}");
	assert_event(&run, "cloudevents", "t", "7");
	run = run_body("{\"id\":\"7\"}");
	assert_event(&run, "plain", "", "7");
	assert_int_equal(run.result.event.type.coding, EVENT_TEXT_NONE);
	run = run_body(" {\"type\":\"order\",\n\"id\":\"7\"}\n");
	assert_event(&run, "plain", "order", "7");
}

static void half_a_shape_is_a_plain_event(void **state)
{
	static const char *const bodies[] = {
		"{\"id\":\"7\",\"source\":\"s\"}",
		"{\"id\":\"7\",\"specversion\":\"1.0\"}",
		"{\"id\":\"7\",\"specversion\":null,\"source\":\"s\"}",
		"{\"id\":\"7\",\"specversion\":\"1.0\",\"source\":\"\"}",
		"{\"id\":\"7\",\"source\":\"s\",\"detail-type\":\"t\"}",
		"{\"id\":\"7\",\"source\":\"s\",\"detail-type\":\"t\",\"detail\":\"\"}",
		"{\"id\":\"7\",\"source\":null,\"detail-type\":\"t\",\"detail\":{}}",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct outcome_of_run run = run_body(bodies[i]);
		assert_event(&run, "plain", "", "7");
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
	(void)state;
	struct outcome_of_run run = run_body(genesys);
	struct recipe *other = compile_auto("orders");
	struct outcome_of_run elsewhere = run_with(other, span_str(genesys), NULL);
	assert_false(same_claim(&run, &elsewhere));
	assert_true(span_eq(elsewhere.result.event.source, SPAN("orders")));
	recipe_free(other);
	key[0] ^= 1;
	other = compile_auto("events");
	key[0] ^= 1;
	elsewhere = run_with(other, span_str(genesys), NULL);
	assert_false(same_claim(&run, &elsewhere));
	recipe_free(other);
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
	struct digest digest = digest_end(&input, key);
	assert_true(digest_same_key(&run.result.claims[0].digest, &digest));
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
	assert_event(&run, "cloudevents binary", "t", "a b");
	assert_false(run.result.event.json);
	run = run_with(recipe, SPAN("[1]"), lines);
	assert_event(&run, "cloudevents binary", "t", "a b");
	assert_true(run.result.event.json);
	run = run_with(recipe, SPAN_EMPTY, lines);
	assert_event(&run, "cloudevents binary", "t", "a b");
	assert_false(run.result.event.json);
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
		run_with(recipe, SPAN("{\"specversion\":\"1.0\",\"id\":\"b\",\"source\":\"/b\"}"),
	                 lines);
	assert_event(&run, "cloudevents", "", "b");
}

static void headers_without_specversion_mean_nothing(void **state)
{
	const char *lines[] = { "ce-id: h", "ce-id: i", "ce-source: /h", "ce-specversion: ", NULL };
	(void)state;
	struct outcome_of_run run = run_with(recipe, SPAN("{\"id\":\"b\"}"), lines);
	assert_event(&run, "plain", "", "b");
}

static void broken_binary_mode_is_refused_with_the_header_named(void **state)
{
	static const struct {
		const char *lines[5];
		const char *text;
	} cases[] = {
		{ { "ce-specversion: 1.0", "ce-source: /s" },
		  "expected the header ce-id, found nothing" },
		{ { "ce-specversion: 1.0", "ce-source: /s", "ce-id: " },
		  "expected the header ce-id, found nothing" },
		{ { "ce-specversion: 1.0", "ce-id: 1" },
		  "expected the header ce-source, found nothing" },
		{ { "ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "CE-ID: 1" },
		  "expected the header ce-id only once" },
		{ { "ce-specversion: 1.0", "ce-id: %4", "ce-source: /s" },
		  "expected percent-encoded UTF-8 in the header ce-id" },
		{ { "ce-specversion: 1.0", "ce-id: 1", "ce-source: %ff" },
		  "expected percent-encoded UTF-8 in the header ce-source" },
		{ { "ce-specversion: 1.0", "ce-id: \"\"", "ce-source: /s" },
		  "expected the header ce-id, found an empty string" },
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
		{ "{}",
		  "not recognised as an event; the recipe plain expected the member id, found nothing" },
		{ "{\"id\":null}",
		  "not recognised as an event; the recipe plain expected the member id, found null" },
		{ "{\"id\":\"\"}",
		  "not recognised as an event; the recipe plain expected the member id, found an empty string" },
		{ "{\"detail\":{\"id\":\"1\"}}",
		  "not recognised as an event; the recipe plain expected the member id, found nothing" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome_of_run run = run_body(cases[i].body);
		assert_refused(&run, ERR_INVALID, cases[i].text);
	}
}

/* Lengths are those of the value, however it is written. */
/* Whoever writes lines believes it. */
static void an_event_without_blanks_is_known_as_a_line(void **state)
{
	static const struct {
		const char *body;
		bool line;
	} cases[] = {
		{ "{\"id\":\"1\",\"a\":[1,{\"b\":null}]}", true },
		{ "{\"id\":\"a b\"}", true },
		{ "{\"id\":\"a\\nb\"}", true },
		{ "{\"id\":\"1\"}\n", false },
		{ "\n{\"id\":\"1\"}", false },
		{ "{\"id\":\"1\",\n\"a\":1}", false },
		{ "{\"id\":\"1\",\"a\":\n1}", false },
		{ "{\"id\":\"1\",\"a\":[1,\r2]}", false },
		{ "{\"id\":\"1\",\"a\":{\n}}", false },
		{ "{\"id\":\"1\",\"a\":[\n]}", false },
		{ "{\"id\":\"1\",\"a\":{\"b\":1\n}}", false },
		{ "{\n\"id\":\"1\"}", false },
		{ "{\"id\"\n:\"1\"}", false },
		{ "{\"id\":\"1\"\n}", false },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome_of_run run = run_body(cases[i].body);
		assert_int_equal(run.error, 0);
		assert_true(run.result.event.json);
		if (run.result.event.line != cases[i].line)
			fail_msg("%s", cases[i].body);
	}
}

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
		cmocka_unit_test(an_event_without_blanks_is_known_as_a_line),
		cmocka_unit_test(an_id_has_at_most_1024_bytes),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
