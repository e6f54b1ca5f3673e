/* recipe_compile: what is wrong with a recipe is told with its place. */
#include "gate/recipe_bench.h"

static struct recipe_problem problem;

static int compile(const struct recipe_spec *spec)
{
	struct recipe *recipe = NULL;
	memset(&problem, 0, sizeof(problem));
	int error = recipe_compile(spec, bench_key, &recipe, &problem);
	assert_true((error == 0) == (recipe != NULL));
	recipe_free(recipe);
	return error;
}

static void assert_problem(const struct recipe_spec *spec, const char *field, int index,
                           uint32_t column, const char *text)
{
	int error = compile(spec);
	if (error != ERR_CONFIG || strcmp(problem.field, field) != 0 || problem.index != index ||
	    problem.column != column || strcmp(problem.text.text, text) != 0)
		fail_msg("%d: case %d claim %d %s %d at %u: %s", error, problem.case_index,
		         problem.claim_index, problem.field, problem.index, problem.column,
		         problem.text.text);
}

static struct recipe_case_spec two[2];
static struct recipe_spec spec;

/* Two cases with two claims each, all right; a test breaks one thing. */
static int set_up(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		two[i] = (struct recipe_case_spec){
			.name = "event",
			.claim_count = 2,
			.claims = { { .part_count = 2, .parts = { SPAN("a"), SPAN("b.c") } },
			            { .part_count = 1, .parts = { SPAN("header:x") } } },
		};
	spec = (struct recipe_spec){
		.source = SPAN("s"), .window_s = 1, .cases = two, .case_count = 2
	};
	assert_int_equal(compile(&spec), 0);
	return 0;
}

static void the_place_of_a_mistake_is_told(void **state)
{
	(void)state;
	two[1].claims[0].parts[1] = SPAN("b..c");
	assert_problem(&spec, "part", 1, 2, "expected a name");
	assert_int_equal(problem.case_index, 1);
	assert_int_equal(problem.claim_index, 0);
}

static void parts_are_judged(void **state)
{
	static const struct {
		const char *text;
		uint32_t column;
		const char *expected;
	} rows[] = {
		{ "", 0, "expected a part" },
		{ "a b", 1, "expected a dot or [ after a name" },
		{ "header:", 7, "expected a header's name of 1 to 63 characters" },
		{ "header:a b", 8, "expected a header's name" },
		{ "query:", 6, "expected a name or text after query:" },
		{ "const:", 6, "expected a name or text after const:" },
		{ "form:", 5, "expected a name or text after form:" },
		{ "path:0", 5, "expected the number of a segment of the path, 1 to 64" },
		{ "path:x", 5, "expected the number of a segment of the path, 1 to 64" },
		{ "a[*][*][*][*][*]", 0, "expected at most 4 times [*] in a path" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		two[0].claims[0].parts[0] = span_str(rows[i].text);
		assert_problem(&spec, "part", 0, rows[i].column, rows[i].expected);
	}
	static const char *const good[] = { "[\"header:x\"]", "[\"body\"]", "body", "const:?", "a?",
		                            "[0].a",          "[*].a" };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		two[0].claims[0].parts[0] = span_str(good[i]);
		assert_int_equal(compile(&spec), 0);
	}
}

/* Events that have none of its parts would all be the same. */
static void a_claim_needs_a_part_that_must_be_there(void **state)
{
	(void)state;
	two[0].claims[0].parts[0] = SPAN("a?");
	two[0].claims[0].parts[1] = SPAN("const:x");
	assert_problem(&spec, "part", -1, 0, "expected a part that must be there");
	two[0].claims[0].part_count = 0;
	assert_problem(&spec, "part", -1, 0, "expected at least one part");
	two[0].claims[0].kind = CLAIM_CONTENT;
	assert_int_equal(compile(&spec), 0);
}

static void counts_are_judged(void **state)
{
	(void)state;
	two[0].claims[0].part_count = RECIPE_SPEC_PARTS_MAX + 1;
	assert_problem(&spec, "part", -1, 0, "expected at most 8 parts");
	set_up(state);
	two[0].condition_count = RECIPE_SPEC_CONDITIONS_MAX + 1;
	assert_problem(&spec, "condition", -1, 0, "expected at most 4 conditions");
	set_up(state);
	two[1].claim_count = 0;
	assert_problem(&spec, "claims", -1, 0, "expected 1 to 4 claims, found 0");
	two[1].items = SPAN("list");
	assert_int_equal(compile(&spec), 0);
	two[1].claim_count = 2;
	assert_problem(&spec, "claims", -1, 0, "expected 0 to 0 claims, found 2");
	set_up(state);
	spec.case_count = 0;
	assert_problem(&spec, "cases", -1, 0, "expected at least one case");
}

static void names_and_windows_are_judged(void **state)
{
	static char name[DIGEST_SOURCE_MAX + 1];
	(void)state;
	memset(name, 'n', sizeof(name));
	spec.source = SPAN_EMPTY;
	assert_problem(&spec, "source", -1, 0, "a source's name must have 1 to 64 bytes");
	spec.source = span_of(name, sizeof(name));
	assert_problem(&spec, "source", -1, 0, "a source's name must have 1 to 64 bytes");
	spec.source = span_of(name, DIGEST_SOURCE_MAX);
	assert_int_equal(compile(&spec), 0);
	spec.scope = span_of(name, sizeof(name));
	assert_problem(&spec, "scope", -1, 0, "a scope must have 1 to 64 bytes");
	set_up(state);
	spec.window_s = 0;
	assert_problem(&spec, "window", -1, 0, "a window must be at least one second");
	set_up(state);
	two[0].claims[1].name = span_of(name, DIGEST_RULE_MAX + 1);
	assert_problem(&spec, "name", -1, 0, "expected a name of at most 32 bytes");
	assert_int_equal(problem.claim_index, 1);
}

/* Cases may: an event has only one of them. */
static void two_claims_of_a_recipe_may_not_have_one_name(void **state)
{
	(void)state;
	two[0].claims[0].name = SPAN("order");
	two[1].claims[0].name = SPAN("order");
	assert_int_equal(compile(&spec), 0);
	two[1].claims[1].name = SPAN("orders");
	assert_int_equal(compile(&spec), 0);
	two[1].claims[1].name = SPAN("order");
	assert_problem(&spec, "name", -1, 0,
	               "expected another name: two claims of one recipe with one name would share "
	               "their memory");
	assert_int_equal(problem.case_index, 1);
	assert_int_equal(problem.claim_index, 1);
}

static void kinds_of_claims_have_their_own_texts(void **state)
{
	struct recipe_claim_spec *claim = &two[0].claims[0];
	(void)state;
	claim->time = SPAN("at");
	assert_problem(&spec, "time", -1, 0, "expected no time but in a newest claim");
	claim->kind = CLAIM_NEWEST;
	assert_int_equal(compile(&spec), 0);
	claim->missing = RECIPE_MISSING_DIGEST;
	assert_problem(&spec, "missing", -1, 0,
	               "expected reject or skip: the body has no order in time");
	claim->missing = RECIPE_MISSING_SKIP;
	claim->rank = SPAN("state");
	assert_problem(&spec, "rank", -1, 0, "expected a part and its values, the lowest first");
	claim->rank_count = 1;
	claim->ranks[0] = SPAN("x");
	assert_int_equal(compile(&spec), 0);
	claim->time = SPAN_EMPTY;
	assert_problem(&spec, "time", -1, 0, "expected the part that holds the time");
	set_up(state);
	claim->except_count = 1;
	claim->except[0] = SPAN("x");
	assert_problem(&spec, "except", -1, 0, "expected at most 8, in a content claim only");
	claim->kind = CLAIM_CONTENT;
	assert_int_equal(compile(&spec), 0);
	claim->except[0] = SPAN("x[");
	assert_problem(&spec, "except", 0, 2, "expected an index, * or a name in quotes");
}

static void fields_and_conditions_are_judged(void **state)
{
	(void)state;
	two[1].entity = SPAN("a[*].b");
	assert_problem(&spec, "entity", -1, 0, "expected one value, not a list");
	assert_int_equal(problem.case_index, 1);
	set_up(state);
	two[1].inner = SPAN("header:x");
	assert_problem(&spec, "inner", -1, 0, "expected a member of the body");
	set_up(state);
	two[0].condition_count = 2;
	two[0].conditions[0] = (struct recipe_condition){ .part = SPAN("type") };
	assert_problem(&spec, "condition", 1, 0, "expected a part that the condition is about");
	two[0].conditions[1] = (struct recipe_condition){ .part = SPAN("type"),
		                                          .pattern = SPAN("****************") };
	assert_problem(&spec, "condition", 1, 0, "expected at most 15 stars in a pattern");
}

static void more_than_there_is_room_for_is_refused(void **state)
{
	static struct recipe_case_spec many[200];
	static char texts[200][32];
	(void)state;
	for (int i = 0; i < 200; i++) {
		int len = snprintf(texts[i], sizeof(texts[i]), "name%d", i);
		many[i] = (struct recipe_case_spec){
			.claim_count = 1,
			.claims = { { .part_count = 1,
			              .parts = { span_of(texts[i], (size_t)len) } } },
		};
	}
	spec.cases = many;
	spec.case_count = 200;
	assert_problem(&spec, "part", 0, 0,
	               "expected fewer different paths: a recipe has room for 126 names");
	for (int i = 0; i < 200; i++) {
		int len = snprintf(texts[i], sizeof(texts[i]), "header:name%d", i);
		many[i].claims[0].parts[0] = span_of(texts[i], (size_t)len);
	}
	assert_problem(&spec, "part", 0, 0, "expected at most 32 different headers");
}

static void every_failed_allocation_is_an_error_without_a_leak(void **state)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	int error = -ENOMEM;
	(void)state;
	spec.cases = preset->cases;
	spec.case_count = preset->case_count;
	for (unsigned long n = 1; error == -ENOMEM && n < 10000; n++) {
		mem_fail_at(n, false);
		error = compile(&spec);
	}
	mem_fail_at(0, false);
	assert_int_equal(error, 0);
}

/* Texts are copied: who wrote them may go. */
static void a_recipe_outlives_its_texts(void **state)
{
	char part[] = "order";
	char name[] = "mine";
	struct recipe_case_spec it = {
		.name = name,
		.claim_count = 1,
		.claims = { { .part_count = 1, .parts = { span_str(part) } } },
	};
	(void)state;
	struct recipe *recipe = bench_compile(
		(struct recipe_spec){ .cases = &it, .case_count = 1 });
	memset(part, 'x', sizeof(part) - 1);
	memset(name, 'x', sizeof(name) - 1);
	struct bench_run run = bench_body(recipe, "{\"order\":1}");
	assert_int_equal(run.error, 0);
	assert_string_equal(run.result.event.name, "mine");
	recipe_free(recipe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_place_of_a_mistake_is_told, set_up),
		cmocka_unit_test_setup(parts_are_judged, set_up),
		cmocka_unit_test_setup(a_claim_needs_a_part_that_must_be_there, set_up),
		cmocka_unit_test_setup(counts_are_judged, set_up),
		cmocka_unit_test_setup(names_and_windows_are_judged, set_up),
		cmocka_unit_test_setup(two_claims_of_a_recipe_may_not_have_one_name, set_up),
		cmocka_unit_test_setup(kinds_of_claims_have_their_own_texts, set_up),
		cmocka_unit_test_setup(fields_and_conditions_are_judged, set_up),
		cmocka_unit_test_setup(more_than_there_is_room_for_is_refused, set_up),
		cmocka_unit_test_setup(every_failed_allocation_is_an_error_without_a_leak, set_up),
		cmocka_unit_test_setup(a_recipe_outlives_its_texts, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, bench_tear_down);
}
