/* recipe_explain: what it writes is JSON, and tells what the recipe did. */
#include "gate/recipe_bench.h"

static struct buf out;

static const char *explain(const struct recipe *recipe, const char *body)
{
	static struct json_doc doc;
	struct recipe_input input = { .body = span_str(body) };
	buf_clear(&out);
	recipe_explain(recipe, &bench_scratch, &input, &out);
	assert_false(out.failed);
	if (json_scan(buf_span(&out), NULL, &doc) != 0)
		fail_msg("at %zu: %s: %.*s", doc.problem.offset, doc.problem.expected, (int)out.len,
		         out.ptr);
	buf_append_char(&out, '\0');
	return out.ptr;
}

static void assert_told(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

static void parts_types_and_digests_are_told(void **state)
{
	struct recipe *recipe = bench_preset("auto");
	(void)state;
	const char *text = explain(recipe, "{\"id\":\"a\\u0062\",\"type\":7}");
	struct claim claim = bench_first(recipe, "{\"id\":\"ab\"}");
	char digest[64];
	snprintf(digest, sizeof(digest), "\"digest\":\"%016llx%08llx\"",
	         (unsigned long long)claim.digest.word[0],
	         (unsigned long long)(claim.digest.word[1] >> 32));
	assert_told(text, "\"case\":\"plain\"");
	assert_told(text, "{\"part\":\"id\",\"type\":\"a string\",\"value\":\"ab\"}");
	assert_told(text, "\"type\":[{\"part\":\"type\",\"type\":\"a number\",\"value\":\"7\"}]");
	assert_told(text, "\"fate\":\"taken\"");
	assert_told(text, digest);
	recipe_free(recipe);
}

static void what_is_missing_is_told(void **state)
{
	struct recipe *recipe = bench_preset("genesys");
	(void)state;
	const char *text = explain(recipe, "{\"id\":\"1\",\"source\":\"aws.partner/genesys.com/x\","
	                                   "\"detail-type\":\"v2.users.{id}.presence\","
	                                   "\"detail\":{\"topicName\":\"t\"}}");
	assert_told(text, "\"case\":\"genesys presence\"");
	assert_told(text, "\"fate\":\"skipped\",\"why\":\"expected the member "
	                  "detail.eventBody.modifiedDate, found nothing\"");
	text = explain(recipe, "{\"id\":\"1\",\"source\":\"other\"}");
	assert_told(text, "\"refused\":\"not recognised as an event");
	assert_told(text, "{\"part\":\"source\",\"is\":\"aws.partner/genesys.com*\","
	                  "\"type\":\"a string\",\"value\":\"other\",\"holds\":false}");
	text = explain(recipe, "{");
	assert_told(text, "\"refused\":\"expected a JSON object; at byte 1 of the body");
	recipe_free(recipe);
}

static void events_in_strings_and_batches_are_told(void **state)
{
	struct recipe *recipe = bench_preset("auto");
	(void)state;
	const char *text = explain(recipe, "{\"Type\":\"n\",\"TopicArn\":\"t\",\"MessageId\":\"m\","
	                                   "\"Message\":\"{\\\"id\\\":\\\"7\\\"}\"}");
	assert_told(text, "\"inside\":\"sns notification\"");
	assert_told(text, "\"case\":\"plain\"");
	text = explain(recipe, "[{\"id\":\"1\"},{},{\"id\":\"2\"}]");
	assert_told(text, "{\"batch\":true,\"events\":[{");
	assert_told(text, "\"refused\":\"not recognised");
	text = explain(recipe, "[{\"id\":\"1\"}");
	assert_told(text, "],\"refused\":\"expected a JSON array of events");
	recipe_free(recipe);
}

static void newest_and_shadow_are_told(void **state)
{
	struct recipe *recipe = bench_claim((struct recipe_claim_spec){
		.kind = CLAIM_NEWEST,
		.shadow = true,
		.part_count = 1,
		.parts = { SPAN("order") },
		.time = SPAN("at"),
		.rank = SPAN("state"),
		.rank_count = 1,
		.ranks = { SPAN("x") },
	});
	(void)state;
	const char *text = explain(recipe, "{\"order\":1,\"at\":5,\"state\":\"x\"}");
	assert_told(text, "\"kind\":\"newest\"");
	assert_told(text, "\"shadow\":true");
	assert_told(text, "\"order_ms\":5000,\"rank\":1");
	recipe_free(recipe);
}

/* Long values are cut, hostile ones escaped. */
static struct recipe *compile_claim(struct recipe_claim_spec claim)
{
	struct recipe_case_spec it = { .claim_count = 1, .claims = { claim } };
	return bench_compile((struct recipe_spec){ .cases = &it, .case_count = 1 });
}

/* The digest keeps the mark behind each part: else data folders would forget. */
static void an_unnamed_claim_is_shown_without_the_end_mark_of_its_digest(void **state)
{
	const struct {
		struct recipe_claim_spec claim;
		const char *told, *in_digest;
	} claims[] = {
		{ { .part_count = 2, .parts = { SPAN("a"), SPAN("b") } }, "a,b", "a,b," },
		{ { .kind = CLAIM_CONTENT }, "content", "content:" },
		{ { .kind = CLAIM_CONTENT, .except_count = 1, .except = { SPAN("at") } },
		  "content:-at",
		  "content:-at," },
	};
	static const char body[] = "{\"a\":1,\"b\":2}";
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
		char told[64];
		struct recipe_claim_spec named = claims[i].claim;
		named.name = span_str(claims[i].in_digest);
		struct recipe *recipe = compile_claim(claims[i].claim);
		struct recipe *other = compile_claim(named);
		snprintf(told, sizeof(told), "\"name\":\"%s\"", claims[i].told);
		assert_told(explain(recipe, body), told);
		struct claim one = bench_first(recipe, body), two = bench_first(other, body);
		assert_memory_equal(&one.digest, &two.digest, sizeof(one.digest));
		recipe_free(recipe);
		recipe_free(other);
	}
}

static void hostile_values_are_escaped(void **state)
{
	struct recipe *recipe = bench_preset("auto");
	static char body[6000];
	(void)state;
	int len = snprintf(body, sizeof(body), "{\"id\":\"\\u001b[31m\\\"\\u0000\",\"type\":\"");
	memset(body + len, 'x', 5000);
	snprintf(body + len + 5000, sizeof(body) - (size_t)len - 5000, "\"}");
	const char *text = explain(recipe, body);
	assert_told(text, "\"length\":5000");
	assert_told(text, "\\u001b[31m");
	assert_true(strlen(text) < 60000);
	recipe_free(recipe);
}

static int tear_down(void **state)
{
	buf_free(&out);
	return bench_tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_types_and_digests_are_told),
		cmocka_unit_test(what_is_missing_is_told),
		cmocka_unit_test(events_in_strings_and_batches_are_told),
		cmocka_unit_test(newest_and_shadow_are_told),
		cmocka_unit_test(an_unnamed_claim_is_shown_without_the_end_mark_of_its_digest),
		cmocka_unit_test(hostile_values_are_escaped),
	};
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
