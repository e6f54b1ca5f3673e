/* recipe: which events are the same by a claim, and what happens to what is missing. */
#include "gate/recipe_bench.h"

static void types_and_values_count_and_spelling_does_not(void **state)
{
	struct recipe *recipe = bench_once("a b?", RECIPE_MISSING_REJECT);
	(void)state;
	assert_other_claim(recipe, "{\"a\":1}", "{\"a\":\"1\"}");
	assert_other_claim(recipe, "{\"a\":true}", "{\"a\":\"true\"}");
	assert_other_claim(recipe, "{\"a\":1,\"b\":null}", "{\"a\":1}");
	assert_other_claim(recipe, "{\"a\":1,\"b\":null}", "{\"a\":1,\"b\":\"null\"}");
	assert_other_claim(recipe, "{\"a\":1,\"b\":\"\"}", "{\"a\":1}");
	assert_other_claim(recipe, "{\"a\":\"12\",\"b\":\"3\"}", "{\"a\":\"1\",\"b\":\"23\"}");
	assert_other_claim(recipe, "{\"a\":\"x\",\"b\":\"y\"}", "{\"a\":\"y\",\"b\":\"x\"}");
	assert_other_claim(recipe, "{\"a\":9007199254740993}", "{\"a\":9007199254740992}");
	assert_other_claim(recipe, "{\"a\":{}}", "{\"a\":[]}");
	assert_other_claim(recipe, "{\"a\":[1]}", "{\"a\":1}");
	assert_same_claim(recipe, "{\"a\":1}", " { \"x\" : 2, \"a\" : 1.0 } ");
	assert_same_claim(recipe, "{\"a\":1500}", "{\"a\":15e2}");
	assert_same_claim(recipe, "{\"a\":\"A/\"}", "{\"\\u0061\":\"\\u0041\\/\"}");
	assert_same_claim(recipe, "{\"a\":{\"x\":1,\"y\":[2]}}", "{\"a\":{\"y\":[ 2 ],\"x\":1.0}}");
	assert_same_claim(recipe, "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}");
	recipe_free(recipe);
}

/* Random keys of three parts: the claims are equal exactly when the parts are. */
static void claims_are_equal_exactly_when_parts_are(void **state)
{
	static const char *const values[] = { "1",           "\"1\"",   "10",      "\"10\"", "\"\"",
		                              "null",        "true",    "\"a\"",   "[]",     "{}",
		                              "[1]",         "[\"1\"]", "\"a,b\"", "0.1",    "-1",
		                              "\"\\u0000\"", "\"ab\"",  "false" };
	struct recipe *recipe = bench_once("k x? y? z?", RECIPE_MISSING_REJECT);
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(4000); round > 0; round--) {
		char text[2][256];
		uint64_t parts[2][3];
		for (int i = 0; i < 2; i++) {
			static const char *const names[] = { "x", "y", "z" };
			int len = snprintf(text[i], sizeof(text[i]), "{\"k\":0");
			uint64_t first = test_random_below(&random, 3);
			for (uint64_t n = 0; n < 3; n++) {
				uint64_t at = (first + n) % 3;
				uint64_t value = test_random_below(&random, ARRAY_LEN(values) + 1);
				if (i == 1 && test_random_below(&random, 3))
					value = parts[0][at];
				parts[i][at] = value;
				if (value < ARRAY_LEN(values))
					len += snprintf(text[i] + len,
					                sizeof(text[i]) - (size_t)len, ",\"%s\":%s",
					                names[at], values[value]);
			}
			snprintf(text[i] + len, sizeof(text[i]) - (size_t)len, "}");
		}
		struct claim a = bench_first(recipe, text[0]);
		struct claim b = bench_first(recipe, text[1]);
		bool same = memcmp(parts[0], parts[1], sizeof(parts[0])) == 0;
		if (digest_same_key(&a.digest, &b.digest) != same)
			fail_msg("%s and %s (%s)", text[0], text[1], test_note_seed(seed));
	}
	recipe_free(recipe);
}

static void a_missing_part_follows_the_claims_rule(void **state)
{
	struct recipe *reject = bench_once("a.b", RECIPE_MISSING_REJECT);
	struct recipe *skip = bench_once("a.b", RECIPE_MISSING_SKIP);
	struct recipe *digest = bench_once("a.b", RECIPE_MISSING_DIGEST);
	(void)state;
	assert_refused_with(reject, "{}", "expected the member a.b, found nothing");
	assert_refused_with(reject, "{\"a\":{\"b\":null}}", "expected the member a.b, found null");
	assert_refused_with(reject, "{\"a\":{\"b\":\"\"}}",
	                    "expected the member a.b, found an empty string");
	assert_refused_with(reject, "{\"a\":7}", "expected the member a.b, found nothing");
	assert_refused_with(reject, "{\"a\"",
	                    "expected a JSON object; at byte 4 of the body: "
	                    "expected a colon after a name");
	/* The only claim is skipped: there is nothing to know the event by. */
	assert_refused_with(skip, "{}", "expected the member a.b, found nothing");
	assert_same_claim(digest, "{\"x\":1,\"y\":2}", "{\"y\":2.0,\"x\":1}");
	assert_other_claim(digest, "{\"x\":1}", "{\"x\":2}");
	assert_same_claim(digest, "not json", "not json");
	assert_other_claim(digest, "not json", "not json ");
	assert_other_claim(digest, "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1},\"c\":1}x");
	recipe_free(reject);
	recipe_free(skip);
	recipe_free(digest);
}

static void skipped_claims_leave_the_others(void **state)
{
	struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 3,
		.claims = {
			{ .name = SPAN("one"), .part_count = 1, .parts = { SPAN("id") } },
			{ .name = SPAN("two"),
			  .missing = RECIPE_MISSING_SKIP,
			  .part_count = 1,
			  .parts = { SPAN("order") },
			  .window_s = 5,
			  .shadow = true },
			{ .name = SPAN("three"),
			  .condition_count = 1,
			  .conditions = { { .part = SPAN("kind"), .pattern = SPAN("v*") } },
			  .part_count = 1,
			  .parts = { SPAN("id") } },
		},
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1 });
	(void)state;
	struct bench_run run = bench_body(recipe, "{\"id\":1}");
	assert_int_equal(run.result.claim_count, 1);
	run = bench_body(recipe, "{\"id\":1,\"order\":2,\"kind\":\"w\"}");
	assert_int_equal(run.result.claim_count, 2);
	assert_int_equal(run.result.claims[0].window_s, BENCH_WINDOW_S);
	assert_false(run.result.claims[0].shadow);
	assert_int_equal(run.result.claims[1].window_s, 5);
	assert_true(run.result.claims[1].shadow);
	run = bench_body(recipe, "{\"id\":1,\"order\":2,\"kind\":\"view\"}");
	assert_int_equal(run.result.claim_count, 3);
	assert_false(digest_same_key(&run.result.claims[0].digest, &run.result.claims[2].digest));
	assert_int_equal(recipe_window_s(recipe), BENCH_WINDOW_S);
	recipe_free(recipe);
}

static void repeated_names_on_used_paths_are_refused_whatever_the_rule(void **state)
{
	struct recipe *recipes[] = { bench_once("a.b", RECIPE_MISSING_REJECT),
		                     bench_once("a.b", RECIPE_MISSING_SKIP),
		                     bench_once("a.b", RECIPE_MISSING_DIGEST) };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(recipes); i++) {
		assert_refused_with(recipes[i], "{\"a\":{\"b\":1,\"b\":1}}",
		                    "expected a JSON object; at byte 12 of the body: "
		                    "expected this name only once");
		struct bench_run run = bench_body(recipes[i], "{\"a\":{\"b\":1},\"c\":1,\"c\":2}");
		assert_int_equal(run.error, 0);
		recipe_free(recipes[i]);
	}
}

static void lists_are_their_values_in_order(void **state)
{
	struct recipe *ids = bench_once("items[*].id", RECIPE_MISSING_REJECT);
	struct recipe *all = bench_once("items[*]", RECIPE_MISSING_REJECT);
	struct recipe *deep = bench_once("a[*].b[*].c", RECIPE_MISSING_REJECT);
	struct recipe *some = bench_once("k items[*].id?", RECIPE_MISSING_REJECT);
	(void)state;
	assert_same_claim(ids, "{\"items\":[{\"id\":1},{\"id\":2}]}",
	                  "{\"items\":[ {\"x\":0,\"id\":1.0} , {\"id\":2} ]}");
	assert_other_claim(ids, "{\"items\":[{\"id\":1},{\"id\":2}]}",
	                   "{\"items\":[{\"id\":2},{\"id\":1}]}");
	assert_other_claim(ids, "{\"items\":[{\"id\":\"12\"},{\"id\":\"3\"}]}",
	                   "{\"items\":[{\"id\":\"1\"},{\"id\":\"23\"}]}");
	assert_other_claim(ids, "{\"items\":[{\"id\":1}]}", "{\"items\":[{\"id\":\"1\"}]}");
	assert_other_claim(ids, "{\"items\":[{\"id\":1}]}", "{\"items\":[{\"id\":1},{\"id\":1}]}");
	assert_same_claim(all, "{\"items\":[\"a\",1,{\"x\":1,\"y\":2}]}",
	                  "{\"items\":[\"\\u0061\",1,{\"y\":2,\"x\":1}]}");
	assert_other_claim(all, "{\"items\":[[1],[2]]}", "{\"items\":[[1,2]]}");
	assert_other_claim(deep, "{\"a\":[{\"b\":[{\"c\":1}]},{\"b\":[{\"c\":2}]}]}",
	                   "{\"a\":[{\"b\":[{\"c\":1},{\"c\":2}]}]}");
	assert_refused_with(ids, "{\"items\":[]}",
	                    "expected the values items[*].id, found an "
	                    "element without it, or none");
	assert_refused_with(
		ids, "{\"items\":[{\"id\":1},{}]}",
		"expected the values items[*].id, found an element without it, or none");
	assert_refused_with(ids, "{\"items\":{\"id\":1}}",
	                    "expected the values items[*].id, found nothing");
	assert_refused_with(ids, "{\"items\":[{\"id\":1,\"id\":2}]}",
	                    "at byte 18 of the body: expected this name only once");
	assert_other_claim(some, "{\"k\":1}", "{\"k\":1,\"items\":[]}");
	assert_other_claim(some, "{\"k\":1,\"items\":[{}]}", "{\"k\":1,\"items\":[{},{}]}");
	recipe_free(ids);
	recipe_free(all);
	recipe_free(deep);
	recipe_free(some);
}

static struct claim claim_of(const struct recipe *recipe, struct bench_request request)
{
	struct bench_run run = bench_request(recipe, request);
	if (run.error != 0)
		fail_msg("%s", run.problem.text);
	return run.result.claims[0];
}

static void parts_come_from_all_of_a_request(void **state)
{
	struct recipe *recipe = bench_once("header:X-Request-Id query:page path:2 const:sms",
	                                   RECIPE_MISSING_REJECT);
	const char *const headers[] = { "Host: x", "x-request-id: r1", NULL };
	const char *const twice[] = { "X-Request-Id: r1", "X-REQUEST-ID: r1", NULL };
	struct bench_request request = { SPAN("{}"), headers, "/in/a%20b/c", "page=1+2&x=3" };
	(void)state;
	struct claim first = claim_of(recipe, request);
	struct claim other;
	request.path = "/x/a b/";
	request.query = "x=%2&p%61ge=1%202";
	other = claim_of(recipe, request);
	assert_true(digest_same_key(&first.digest, &other.digest));
	request.path = "/x/a/";
	other = claim_of(recipe, request);
	assert_false(digest_same_key(&first.digest, &other.digest));
	request.headers = twice;
	assert_string_equal(bench_request(recipe, request).problem.text,
	                    "expected the header X-Request-Id only once");
	request.headers = headers;
	request.query = "page=1&page=1";
	assert_string_equal(bench_request(recipe, request).problem.text,
	                    "expected the query parameter page only once");
	request.query = "page=%zz";
	assert_string_equal(bench_request(recipe, request).problem.text,
	                    "expected percent-encoded UTF-8 in the query parameter page");
	request.query = "page=1";
	request.path = "/in/";
	assert_string_equal(bench_request(recipe, request).problem.text,
	                    "expected the path segment 2, found nothing");
	recipe_free(recipe);
}

static void form_fields_are_read_from_forms_alone(void **state)
{
	struct recipe *recipe = bench_once("form:Sid form:Status?", RECIPE_MISSING_REJECT);
	const char *const form[] = { "Content-Type: Application/X-WWW-Form-Urlencoded; charset=x",
		                     NULL };
	const char *const json[] = { "Content-Type: application/json", NULL };
	struct bench_request a = { .body = SPAN("Sid=S1&Status=a+b"), .headers = form };
	struct bench_request b = { .body = SPAN("x=1&Status=a%20b&Sid=%53%31"), .headers = form };
	(void)state;
	struct claim first = claim_of(recipe, a);
	struct claim second = claim_of(recipe, b);
	assert_true(digest_same_key(&first.digest, &second.digest));
	a.headers = json;
	assert_string_equal(bench_request(recipe, a).problem.text,
	                    "expected the form field Sid, found nothing");
	recipe_free(recipe);
}

static void content_is_the_canonical_body_or_its_parts(void **state)
{
	struct recipe *whole = bench_claim((struct recipe_claim_spec){ .kind = CLAIM_CONTENT });
	struct recipe *except = bench_claim((struct recipe_claim_spec){
		.kind = CLAIM_CONTENT,
		.except_count = 2,
		.except = { SPAN("id"), SPAN("meta.trace") },
	});
	struct recipe *chosen = bench_claim((struct recipe_claim_spec){
		.kind = CLAIM_CONTENT,
		.part_count = 1,
		.parts = { SPAN("data") },
		.except_count = 1,
		.except = { SPAN("at") },
	});
	(void)state;
	assert_same_claim(whole, "{\"a\":1,\"b\":[\"x\"]}", "{ \"b\":[\"\\u0078\"], \"a\":1.0 }");
	assert_other_claim(whole, "{\"a\":1}", "{\"a\":2}");
	assert_other_claim(whole, "{\"a\":9007199254740993}", "{\"a\":9007199254740992}");
	assert_same_claim(except, "{\"id\":1,\"a\":1,\"meta\":{\"trace\":7}}",
	                  "{\"a\":1,\"meta\":{\"trace\":8},\"id\":2}");
	assert_other_claim(except, "{\"id\":1,\"meta\":{\"id\":1}}",
	                   "{\"id\":1,\"meta\":{\"id\":2}}");
	assert_same_claim(chosen, "{\"id\":1,\"data\":{\"v\":1,\"at\":5}}",
	                  "{\"id\":2,\"data\":{\"at\":6,\"v\":1}}");
	assert_other_claim(chosen, "{\"data\":{\"v\":1}}", "{\"data\":{\"v\":2}}");
	assert_refused_with(whole, "{\"x\":{\"a\":1,\"a\":2}}",
	                    "at byte 12 of the body: expected this name only once");
	assert_int_equal(bench_first(whole, "{}").kind, CLAIM_CONTENT);
	recipe_free(whole);
	recipe_free(except);
	recipe_free(chosen);
}

static void newest_goes_by_entity_time_and_rank(void **state)
{
	struct recipe_claim_spec claim = {
		.kind = CLAIM_NEWEST,
		.equal_drops = true,
		.part_count = 1,
		.parts = { SPAN("order") },
		.time = SPAN("at"),
		.rank = SPAN("state"),
		.rank_count = 2,
		.ranks = { SPAN("connected"), SPAN("disconnected") },
	};
	struct recipe *recipe = bench_claim(claim);
	struct recipe *once = bench_claim((struct recipe_claim_spec){
		.name = SPAN("newest:order,"), .part_count = 1, .parts = { SPAN("order") } });
	(void)state;
	struct claim a = bench_first(recipe, "{\"order\":7,\"at\":\"2026-01-02T03:04:05.678Z\","
	                                     "\"state\":\"connected\"}");
	struct claim b = bench_first(recipe, "{\"order\":7,\"at\":1767323045678,"
	                                     "\"state\":\"disconnected\"}");
	struct claim c = bench_first(recipe, "{\"order\":7,\"at\":1767323046}");
	struct claim other = bench_first(once, "{\"order\":7}");
	assert_int_equal(a.kind, CLAIM_NEWEST);
	assert_true(a.equal_drops);
	assert_int_equal(a.order, UINT64_C(1767323045678) << 8 | 1);
	assert_int_equal(b.order, UINT64_C(1767323045678) << 8 | 2);
	assert_int_equal(c.order, UINT64_C(1767323046000) << 8);
	assert_true(digest_same_key(&a.digest, &b.digest) && digest_same_key(&a.digest, &c.digest));
	assert_false(digest_same_key(&a.digest, &other.digest));
	assert_refused_with(recipe, "{\"order\":7}", "expected the member at, found nothing");
	assert_refused_with(recipe, "{\"order\":7,\"at\":\"soon\"}",
	                    "expected a time in the member at: ISO 8601, or seconds or "
	                    "milliseconds since 1970");
	recipe_free(recipe);
	recipe_free(once);
}

static void a_shared_scope_makes_two_ways_in_one(void **state)
{
	struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("id") } } },
	};
	struct recipe_spec spec = { .source = SPAN("a"), .cases = &it, .case_count = 1 };
	struct recipe *a = bench_compile(spec);
	spec.source = SPAN("b");
	struct recipe *b = bench_compile(spec);
	spec.scope = SPAN("a");
	struct recipe *shared = bench_compile(spec);
	(void)state;
	struct claim x = bench_first(a, "{\"id\":1}");
	struct claim y = bench_first(b, "{\"id\":1}");
	struct claim z = bench_first(shared, "{\"id\":1}");
	assert_false(digest_same_key(&x.digest, &y.digest));
	assert_true(digest_same_key(&x.digest, &z.digest));
	recipe_free(a);
	recipe_free(b);
	recipe_free(shared);
}

/* A claim without a name keeps its memory when others are put before it. */
static void a_claim_is_named_by_its_own_text(void **state)
{
	struct recipe_claim_spec id = { .part_count = 1, .parts = { SPAN("id") } };
	struct recipe_claim_spec longer = { .part_count = 2,
		                            .parts = { SPAN("a.member.with.a.long.path"),
		                                       SPAN("another.member.with.a.path?") } };
	struct recipe_case_spec one = { .claim_count = 1, .claims = { id } };
	struct recipe_case_spec two = { .claim_count = 2, .claims = { longer, id } };
	struct recipe *alone = bench_compile(
		(struct recipe_spec){ .cases = &one, .case_count = 1 });
	struct recipe *second = bench_compile(
		(struct recipe_spec){ .cases = &two, .case_count = 1 });
	const char *body =
		"{\"id\":1,\"a\":{\"member\":{\"with\":{\"a\":{\"long\":{\"path\":2}}}}}}";
	(void)state;
	struct bench_run a = bench_body(alone, body);
	struct bench_run b = bench_body(second, body);
	assert_int_equal(b.result.claim_count, 2);
	assert_true(digest_same_key(&a.result.claims[0].digest, &b.result.claims[1].digest));
	recipe_free(alone);
	recipe_free(second);
}

static void conditions_pick_the_case(void **state)
{
	const struct recipe_case_spec cases[] = {
		{ .name = "odd",
		  .type = SPAN("kind"),
		  .condition_count = 2,
		  .conditions = { { .part = SPAN("type"), .pattern = SPAN("a*c*e") },
		                  { .part = SPAN("x"), .negate = true } },
		  .claim_count = 1,
		  .claims = { { .part_count = 1, .parts = { SPAN("id") } } } },
		{ .name = "number",
		  .condition_count = 1,
		  .conditions = { { .part = SPAN("kind"), .pattern = SPAN("1?") } },
		  .claim_count = 1,
		  .claims = { { .part_count = 1, .parts = { SPAN("id") } } } },
		{ .name = "not b",
		  .condition_count = 1,
		  .conditions = { { .part = SPAN("kind"), .pattern = SPAN("b"), .negate = true } },
		  .claim_count = 1,
		  .claims = { { .part_count = 1, .parts = { SPAN("id") } } } },
	};
	static const char *const rows[][2] = {
		{ "\"ace\"", "odd" },       { "\"abcde\"", "odd" },
		{ "\"a\\u0063e\"", "odd" }, { "\"acde\",\"x\":1", "not b" },
		{ "\"ac\"", "not b" },      { "\"acee\"", "odd" },
		{ "\"1?\"", "number" },     { "12", "not b" },
		{ "null", "not b" },        { "{}", "not b" },
		{ "\"b\"", NULL },
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = cases, .case_count = ARRAY_LEN(cases) });
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char body[64];
		snprintf(body, sizeof(body), "{\"id\":1,\"kind\":%s}", rows[i][0]);
		struct bench_run run = bench_body(recipe, body);
		if (!rows[i][1])
			assert_string_equal(run.problem.text,
			                    "not recognised as an event; the recipe not b expected "
			                    "the member kind not b, found a string");
		else if (run.error != 0 || strcmp(run.result.event.name, rows[i][1]) != 0)
			fail_msg("%s: %s", body,
			         run.error ? run.problem.text : run.result.event.name);
	}
	recipe_free(recipe);
}

static void a_replay_passes_or_is_gated(void **state)
{
	struct recipe_case_spec it = {
		.name = "event",
		.replay = SPAN("replay-name"),
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("id") } } },
	};
	struct recipe_spec spec = { .cases = &it, .case_count = 1 };
	struct recipe *gate = bench_compile(spec);
	spec.replay_passes = true;
	struct recipe *pass = bench_compile(spec);
	(void)state;
	struct bench_run run = bench_body(gate, "{\"id\":1,\"replay-name\":\"r\"}");
	assert_true(run.result.event.replay);
	assert_int_equal(run.result.claim_count, 1);
	run = bench_body(pass, "{\"id\":1,\"replay-name\":\"r\"}");
	assert_int_equal(run.error, 0);
	assert_int_equal(run.result.claim_count, 0);
	run = bench_body(pass, "{\"id\":1}");
	assert_false(run.result.event.replay);
	assert_int_equal(run.result.claim_count, 1);
	recipe_free(gate);
	recipe_free(pass);
}

static uint64_t content_of(const struct recipe *recipe, const char *body)
{
	struct bench_run run = bench_body(recipe, body);
	assert_int_equal(run.error, 0);
	return run.result.event.content;
}

static uint64_t content_with_header(const struct recipe *recipe, const char *body)
{
	const char *const headers[] = { "X-Id: 7", NULL };
	struct bench_run run = bench_request(recipe, (struct bench_request){ .body = span_str(body),
	                                                                     .headers = headers });
	assert_int_equal(run.error, 0);
	assert_true(run.result.event.json);
	return run.result.event.content;
}

static void content_is_read_also_if_nothing_else_is_of_the_body(void **state)
{
	(void)state;
	struct recipe_case_spec it = {
		.content = SPAN("data"),
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("header:X-Id") } } },
	};
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1 });
	assert_int_equal(content_with_header(recipe, "{\"data\":{\"x\":1},\"try\":1}"),
	                 content_with_header(recipe, "{\"data\":{\"x\":1},\"try\":2}"));
	assert_int_not_equal(content_with_header(recipe, "{\"data\":{\"x\":1}}"),
	                     content_with_header(recipe, "{\"data\":{\"x\":2}}"));
	/* Twice: which of them is not ours to judge, and it is JSON still. */
	assert_int_not_equal(content_with_header(recipe, "{\"data\":1,\"data\":2}"),
	                     content_with_header(recipe, "{\"data\":1,\"data\":3}"));
	recipe_free(recipe);
}

static void content_changes_with_what_the_case_calls_so(void **state)
{
	struct recipe_case_spec it = {
		.name = "event",
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("id") } } },
	};
	struct recipe *body = bench_compile((struct recipe_spec){ .cases = &it, .case_count = 1 });
	it.content = SPAN("data");
	struct recipe *data = bench_compile((struct recipe_spec){ .cases = &it, .case_count = 1 });
	(void)state;
	assert_int_equal(content_of(body, "{\"id\":1,\"v\":\"a b\"}"),
	                 content_of(body, " {\n \"id\" : 1,\t\"v\":\"a b\" } "));
	assert_int_not_equal(content_of(body, "{\"id\":1,\"v\":\"a b\"}"),
	                     content_of(body, "{\"id\":1,\"v\":\"ab\"}"));
	assert_int_equal(content_of(data, "{\"id\":1,\"data\":{\"x\":1},\"try\":1}"),
	                 content_of(data, "{\"try\":2,\"id\":1,\"data\":{ \"x\" : 1 }}"));
	assert_int_not_equal(content_of(data, "{\"id\":1,\"data\":{\"x\":1}}"),
	                     content_of(data, "{\"id\":1,\"data\":{\"x\":2}}"));
	assert_int_not_equal(content_of(data, "{\"id\":1,\"v\":1}"),
	                     content_of(data, "{\"id\":1,\"v\":2}"));
	recipe_free(body);
	recipe_free(data);
}

/* Pairs that mean the same and are written otherwise. */
static const char *const same_values[][2] = {
	{ "{\"id\":1,\"data\":{\"x\":10,\"y\":[1,2]}}",
	  "{\"data\":{\"y\":[1.0,2e0],\"x\":1.0e1},\"id\":1}" },
	{ "{\"id\":1,\"data\":\"A\\/\"}", "{\"id\":1,\"data\":\"\\u0041/\"}" },
	{ "{\"id\":1,\"data\":10}", "{\"id\":1,\"data\":10.00}" },
	{ "{\"id\":1,\"more\":{\"a\":1,\"b\":\"\\u00e9\"}}",
	  "{\"more\":{\"b\":\"é\",\"a\":1},\"id\":1}" },
};

static const char *const other_values[][2] = {
	{ "{\"id\":1,\"data\":[1,2]}", "{\"id\":1,\"data\":[2,1]}" },
	{ "{\"id\":1,\"data\":{\"x\":1}}", "{\"id\":1,\"data\":{\"x\":\"1\"}}" },
	{ "{\"id\":1,\"data\":9007199254740993}", "{\"id\":1,\"data\":9007199254740992}" },
	{ "{\"id\":1,\"data\":{\"a\":{\"x\":1},\"b\":{\"x\":2}}}",
	  "{\"id\":1,\"data\":{\"a\":{\"x\":2},\"b\":{\"x\":1}}}" },
	/* A name that comes twice has no canonical form: the text counts. */
	{ "{\"id\":1,\"data\":{\"x\":1,\"x\":2}}", "{\"id\":1,\"data\":{\"x\":2,\"x\":1}}" },
};

static void content_is_compared_by_value_where_the_recipe_says_so(void **state)
{
	struct recipe_case_spec it = {
		.name = "event",
		.content = SPAN("data"),
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { SPAN("id") } } },
	};
	struct recipe_spec spec = { .cases = &it, .case_count = 1 };
	struct recipe *text = bench_compile(spec);
	spec.compare_values = true;
	struct recipe *value = bench_compile(spec);
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(same_values); i++) {
		const char *const *pair = same_values[i];
		assert_int_equal(content_of(value, pair[0]), content_of(value, pair[1]));
		assert_int_not_equal(content_of(text, pair[0]), content_of(text, pair[1]));
	}
	for (size_t i = 0; i < ARRAY_LEN(other_values); i++)
		assert_int_not_equal(content_of(value, other_values[i][0]),
		                     content_of(value, other_values[i][1]));
	assert_int_equal(content_of(value, "{\"id\":1,\"data\":{\"x\":1,\"x\":2}}"),
	                 content_of(value, "{\"id\":1,\"data\":{\"x\":1, \"x\":2 }}"));
	/* What is in its canonical form is remembered alike by both. */
	assert_int_equal(content_of(value, "{\"id\":1,\"data\":{\"a\":1,\"b\":2}}"),
	                 content_of(text, "{\"id\":1,\"data\":{\"a\":1,\"b\":2}}"));
	recipe_free(text);
	recipe_free(value);
}

static void values_beyond_their_room_are_refused(void **state)
{
	struct recipe *recipe = bench_once("a", RECIPE_MISSING_SKIP);
	static char body[DIGEST_PART_MAX + 64];
	(void)state;
	int len = snprintf(body, sizeof(body), "{\"a\":1");
	memset(body + len, '3', DIGEST_PART_MAX);
	body[len + DIGEST_PART_MAX] = '}';
	body[len + DIGEST_PART_MAX + 1] = '\0';
	assert_refused_with(recipe, body, "expected at most 1024 bytes in the member a");
	recipe_free(recipe);
}

/* Numbers that are longer in their exact form than as written. */
static void a_body_too_large_to_be_canonical_is_called_by_its_name(void **state)
{
	struct recipe *recipe = bench_claim((struct recipe_claim_spec){ .kind = CLAIM_CONTENT });
	struct buf body = { 0 };
	(void)state;
	buf_append_span(&body, SPAN("{\"b\":[1e20"));
	for (int i = 0; i < 800000; i++)
		buf_append_span(&body, SPAN(",1e20"));
	buf_append_span(&body, SPAN("],\"a\":1}"));
	assert_false(body.failed);
	struct bench_run run = bench_request(recipe,
	                                     (struct bench_request){ .body = buf_span(&body) });
	assert_int_equal(run.error, ERR_TOO_LARGE);
	assert_string_equal(run.problem.text, "the body is too large to be canonical");
	buf_free(&body);
	recipe_free(recipe);
}

/* Nothing is allocated once a thread's scratch has grown. */
static void a_steady_run_allocates_nothing(void **state)
{
	struct recipe *recipe = bench_preset("auto");
	static const char *const bodies[] = {
		"{\"id\":\"1\"}",
		"{\"id\":\"2\",\"source\":\"aws.partner/genesys.com/x\",\"detail-type\":\"v2.other\","
		"\"detail\":{ \"b\":1,\"a\":{\"d\":2,\"c\":3}}}",
		"{\"Type\":\"Notification\",\"TopicArn\":\"t\",\"MessageId\":\"m\","
		"\"Message\":\"{\\\"id\\\":\\\"3\\\"}\"}",
		"{\"id\":",
	};
	(void)state;
	for (int round = 0; round < 2; round++) {
		unsigned long before = mem_fail_count();
		for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
			bench_request(recipe,
			              (struct bench_request){ .body = span_str(bodies[i]) });
		if (round == 0)
			mem_fail_at(1, true); /* from here on every allocation fails */
		else
			assert_int_equal(mem_fail_count(), before);
	}
	mem_fail_at(0, false);
	recipe_free(recipe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_and_values_count_and_spelling_does_not),
		cmocka_unit_test(claims_are_equal_exactly_when_parts_are),
		cmocka_unit_test(a_missing_part_follows_the_claims_rule),
		cmocka_unit_test(skipped_claims_leave_the_others),
		cmocka_unit_test(repeated_names_on_used_paths_are_refused_whatever_the_rule),
		cmocka_unit_test(lists_are_their_values_in_order),
		cmocka_unit_test(parts_come_from_all_of_a_request),
		cmocka_unit_test(form_fields_are_read_from_forms_alone),
		cmocka_unit_test(content_is_the_canonical_body_or_its_parts),
		cmocka_unit_test(newest_goes_by_entity_time_and_rank),
		cmocka_unit_test(a_shared_scope_makes_two_ways_in_one),
		cmocka_unit_test(a_claim_is_named_by_its_own_text),
		cmocka_unit_test(conditions_pick_the_case),
		cmocka_unit_test(a_replay_passes_or_is_gated),
		cmocka_unit_test(content_is_read_also_if_nothing_else_is_of_the_body),
		cmocka_unit_test(content_changes_with_what_the_case_calls_so),
		cmocka_unit_test(content_is_compared_by_value_where_the_recipe_says_so),
		cmocka_unit_test(values_beyond_their_room_are_refused),
		cmocka_unit_test(a_body_too_large_to_be_canonical_is_called_by_its_name),
		cmocka_unit_test(a_steady_run_allocates_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, bench_tear_down);
}
