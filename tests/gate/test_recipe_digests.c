/* recipe: the digests of claims never change. Stores remember them for the length of a
 * window, so another digest for the same event would let it through again. */
#include "gate/recipe_bench.h"

#define CLAIMS_LISTED 4

struct listed {
	struct bench_request request;
	const char *claims; /* 32 hexadecimal digits each, divided by blanks */
};

static void list_claims(const struct recipe_result *result, char *text, size_t room)
{
	size_t len = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < result->claim_count; i++)
		len += (size_t)snprintf(text + len, room - len, "%s%016llx%016llx", i ? " " : "",
		                        (unsigned long long)result->claims[i].digest.word[0],
		                        (unsigned long long)result->claims[i].digest.word[1]);
}

/* Of a batch the claims of each item, divided by bars. */
static void assert_claims(const struct recipe *recipe, const struct listed *it)
{
	char text[CLAIMS_LISTED * 33 + 1];
	struct http1_header headers[BENCH_HEADERS_MAX];
	struct recipe_input input = bench_input(&it->request, headers);
	struct recipe_result result;
	struct recipe_items items;
	struct error_text problem = { "" };
	const char *expected = it->claims;
	recipe_items_begin(&items, recipe, &bench_scratch, &input);
	while (recipe_items_next(&items, &result, &problem) == RECIPE_EVENT) {
		list_claims(&result, text, sizeof(text));
		size_t len = strcspn(expected, "|");
		if (strlen(text) != len || memcmp(text, expected, len) != 0)
			fail_msg("%.*s: claims %s, not %.*s", (int)result.payload.len,
			         result.payload.ptr, text, (int)len, expected);
		expected += len + (expected[len] == '|');
	}
	if (items.error != 0)
		fail_msg("%s: refused: %s", it->request.body.ptr, problem.text);
	assert_string_equal(expected, "");
}

static void assert_all(struct recipe *recipe, const struct listed *listed, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_claims(recipe, &listed[i]);
	recipe_free(recipe);
}

#define BYTES(text)                    \
	{                              \
		text, sizeof(text) - 1 \
	}
#define BODY(text)                  \
	{                           \
		.body = BYTES(text) \
	}

static void events_of_platforms_have_their_digests(void **state)
{
	static const char *const github[] = {
		"X-GitHub-Event: push",
		"X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958",
		"Content-Type: application/json",
		NULL,
	};
	static const char *const ce[] = {
		"ce-specversion: 1.0", "ce-id: A-1", "ce-source: /orders", "ce-type: made", NULL,
	};
	static const struct listed listed[] = {
		{ BODY("{\"id\":\"1\"}"), "514aba2e363214284db4a7aefa017542" },
		{ BODY("{\"id\": \"1\", \"b\": [1, 2]}"), "514aba2e363214284db4a7ae686cea66" },
		{ BODY("{\"id\":17.50}"), "9e830ea46788a45e1cab00d4ea7fbe24" },
		{ BODY("{\"specversion\":\"1.0\",\"id\":\"\\u0041\",\"source\":\"/s\",\"type\":\"t\"}"),
		  "3fd03e6d5bd3130c77c30ed103cbd501" },
		{ BODY("{\"version\":\"0\",\"id\":\"0f6c1b1e\",\"detail-type\":\"made\",\"source\":"
		       "\"shop\",\"account\":\"1\",\"time\":\"2026-03-04T05:06:07Z\",\"region\":\"r\","
		       "\"resources\":[],\"detail\":{}}"),
		  "9250046f68eb5ac6f67bd65e5e33ca6a" },
		{ BODY("{\"Type\":\"Notification\",\"MessageId\":\"m\",\"TopicArn\":\"arn:aws:sns:x\","
		       "\"Message\":\"{\\\"id\\\":\\\"1\\\"}\"}"),
		  "514aba2e363214284db4a7aefa017542" },
		{ BODY("[{\"id\":\"1\"},{\"id\":\"2\"} , {\"id\":\"3\"}]"),
		  "514aba2e363214284db4a7aefa017542|"
		  "d2456653aa4a593c740ac1cc65cacd9f|"
		  "7e1511424493de8de8f8cc64350fef89" },
		{ { .body = BYTES("{\"ref\":\"x\"}"), .headers = github },
		  "42a2c8a5aa2424ce70aeed54158bb208" },
		{ { .body = BYTES("not JSON"), .headers = ce },
		  "c269f64805bfe72cbfcaa72d5f94c169" },
	};
	(void)state;
	assert_all(bench_preset("auto"), listed, ARRAY_LEN(listed));
}

static void parts_of_every_kind_have_their_digests(void **state)
{
	static const char *const headers[] = { "X-Id: \xc3\xa9", NULL };
	const struct recipe_case_spec it = {
		.name = "event",
		.time = SPAN("at"),
		.claim_count = 4,
		.claims = {
			{ .name = SPAN("parts"),
			  .part_count = 8,
			  .parts = { SPAN("s"), SPAN("n"), SPAN("l?"), SPAN("o?"), SPAN("list[*].id?"),
			             SPAN("header:X-Id?"), SPAN("query:q?"), SPAN("path:2?") } },
			{ .name = SPAN("content"),
			  .kind = CLAIM_CONTENT,
			  .except_count = 1,
			  .except = { SPAN("at") } },
			{ .kind = CLAIM_NEWEST,
			  .part_count = 1,
			  .parts = { SPAN("s") },
			  .time = SPAN("at"),
			  .missing = RECIPE_MISSING_SKIP },
			{ .name = SPAN("digest"),
			  .part_count = 2,
			  .parts = { SPAN("const:c"), SPAN("absent") },
			  .missing = RECIPE_MISSING_DIGEST },
		},
	};
	static const struct listed listed[] = {
		{ BODY("{\"s\":\"a\",\"n\":1,\"l\":true}"), "9126c0f73a6bbd5423087590dd26a574 "
		                                            "5950a7e524c9443fe192e88800000000 "
		                                            "97d41579b99997a6c9bad584dd26a574" },
		{ BODY("{\"s\":\"a\",\"n\":-1.250e3,\"l\":null,\"o\":{\"b\":2, \"a\":[1e2]},"
		       "\"list\":[{\"id\":\"x\"},{\"id\":7},{},{\"id\":[{\"z\":0}]}],"
		       "\"at\":\"2026-03-04T05:06:07Z\"}"),
		  "514dd2dac4eff3101e1dc5e23982ddc4 "
		  "b6246d82df5654ec2e496e2400000000 "
		  "be2c63f479fa78e558def43e00000000 "
		  "b50212ea632c948eb29bcaaf3982ddc4" },
		{ { .body = BYTES("{\"s\":\"\\u00e9\",\"n\":0,\"l\":false}"),
		    .headers = headers,
		    .path = "/one/t%77o",
		    .query = "p=1&q=%20x" },
		  "494e49cc6d1b3b61185b010c627ea9b6 "
		  "1b85fe90bf65e36c7deb4b8e00000000 "
		  "11deb93f6510884724070875627ea9b6" },
	};
	(void)state;
	assert_all(bench_compile((struct recipe_spec){
			   .scope = SPAN("shared"), .cases = &it, .case_count = 1 }),
	           listed, ARRAY_LEN(listed));
}

static void content_compared_by_values_has_its_digest(void **state)
{
	const struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 1,
		.claims = { { .name = SPAN("key"), .part_count = 1, .parts = { SPAN("id") } } },
	};
	static const struct listed listed[] = {
		{ BODY("{\"id\":\"a\", \"b\":1.0,\"a\":\"\\u0041\"}"),
		  "470798a97fa33e432ea8d6fd00402d55" },
	};
	(void)state;
	assert_all(bench_compile((struct recipe_spec){
			   .compare_values = true, .cases = &it, .case_count = 1 }),
	           listed, ARRAY_LEN(listed));
}

static void bodies_that_are_not_json_have_their_digests(void **state)
{
	const struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 1,
		.claims = { { .name = SPAN("body"), .kind = CLAIM_CONTENT } },
	};
	static const struct listed listed[] = {
		{ BODY("a text"), "b044f1104a8254a56229390900000000" },
		{ BODY("{\"b\":1, \"a\":2}"), "e75aef857aff7739456b960100000000" },
	};
	(void)state;
	assert_all(bench_compile((struct recipe_spec){ .cases = &it, .case_count = 1 }), listed,
	           ARRAY_LEN(listed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_of_platforms_have_their_digests),
		cmocka_unit_test(parts_of_every_kind_have_their_digests),
		cmocka_unit_test(content_compared_by_values_has_its_digest),
		cmocka_unit_test(bodies_that_are_not_json_have_their_digests),
	};
	return cmocka_run_group_tests(tests, NULL, bench_tear_down);
}
