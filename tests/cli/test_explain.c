/* What stile explain says in words. */
#include "cli/commands.h"

#include <string.h>

#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"
#include "support/test.h"

static char text[1 << 16];

static const char *explain(const char *preset_name, const char *event)
{
	static const unsigned char key[DIGEST_KEY_LEN] = { 0 };
	const struct preset *preset = preset_find(span_str(preset_name));
	struct recipe_spec spec = { .source = SPAN("test"),
		                    .window_s = 86400,
		                    .cases = preset->cases,
		                    .case_count = preset->case_count };
	struct recipe_input input = { .body = span_str(event) };
	struct recipe_scratch scratch = { 0 };
	struct recipe_problem problem;
	struct recipe *recipe = NULL;
	struct buf json = { 0 };
	struct buf out = buf_on(text, sizeof(text) - 1);
	assert_int_equal(recipe_compile(&spec, key, &recipe, &problem), 0);
	recipe_explain(recipe, &scratch, &input, &json);
	assert_int_equal(explain_write_text(buf_span(&json), &out), 0);
	text[out.len] = '\0';
	buf_free(&json);
	recipe_scratch_free(&scratch);
	recipe_free(recipe);
	return text;
}

static void assert_says(const char *said, const char *part)
{
	if (!strstr(said, part))
		fail_msg("expected \"%s\" in:\n%s", part, said);
}

static void a_known_event_is_told_with_its_claims_and_their_parts(void **state)
{
	(void)state;
	const char *said = explain("genesys",
	                           "{\"id\":\"e1\",\"source\":\"aws.partner/genesys.com/x\","
	                           "\"detail-type\":\"v2.analytics.flow.{id}.metrics\","
	                           "\"detail\":{\"eventBody\":{\"recordId\":\"r\",\"metric\":5}}}");
	assert_says(said, "this is     genesys flow metrics\nsource      test\nid          id ");
	assert_says(said, "claim 1     transport: once within 1d\n            digest ");
	assert_says(said, "            source  string  aws.partner/genesys.com/x\n"
	                  "            id      string  e1\n");
	assert_says(said,
	            "claim 2     genesys.metrics: once within 1d\n            skipped: expected "
	            "the member detail.eventBody.metricDate, found nothing\n");
	assert_says(said, "            detail.eventBody.metric      number   5\n");
	assert_says(said, "            detail.eventBody.metricDate  nothing\n");
}

static void an_unknown_event_is_told_with_what_was_looked_for(void **state)
{
	(void)state;
	const char *said = explain("stripe", "{\"id\":\"e1\",\"object\":\"charge\"}");
	assert_says(said, "this is     nothing that the recipe knows\n");
	assert_says(said, "refused     not recognised as an event");
	assert_says(said, "looked for  stripe                   object is not event but charge\n");
}

static void each_event_of_a_batch_is_told(void **state)
{
	(void)state;
	const char *said = explain("auto", "[{\"id\":\"a\"},{\"id\":\"b\"}]");
	assert_says(said, "  a\n");
	assert_says(said, "\n\nthis is     plain\n");
	assert_says(said, "  b\n");
}

static void no_control_character_of_an_event_reaches_the_terminal(void **state)
{
	(void)state;
	const char *said = explain("auto", "{\"id\":\"a\\u001b[2J\\n\\\"q\\\"\"}");
	assert_says(said, "a\\u001b[2J\\n\"q\"");
	assert_null(strchr(said, 0x1b));
}

static void what_is_no_explanation_is_refused(void **state)
{
	struct buf out = { 0 };
	(void)state;
	assert_true(explain_write_text(SPAN("{"), &out) < 0);
	assert_true(explain_write_text(SPAN("{\"case\":\"x\",\"claims\":7}"), &out) < 0);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_event_is_told_with_its_claims_and_their_parts),
		cmocka_unit_test(an_unknown_event_is_told_with_what_was_looked_for),
		cmocka_unit_test(each_event_of_a_batch_is_told),
		cmocka_unit_test(no_control_character_of_an_event_reaches_the_terminal),
		cmocka_unit_test(what_is_no_explanation_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
