/* json_plan: paths as people write them, and the trie that they become. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "codec/json.h"

static void paths_are_read_step_by_step(void **state)
{
	struct json_path path;
	struct json_problem problem;
	(void)state;
	struct span text = SPAN("a-b.c[0].d[*][\"x.y\"].\xc3\xa9[12][\"\\u0041\\n\"]");
	assert_int_equal(json_path_parse(text, &path, &problem), 0);
	assert_int_equal(path.count, 9);
	assert_memory_equal(path.steps[0].name, "a-b", path.steps[0].len);
	assert_int_equal(path.steps[2].kind, JSON_STEP_INDEX);
	assert_int_equal(path.steps[2].index, 0);
	assert_int_equal(path.steps[4].kind, JSON_STEP_EACH);
	assert_int_equal(path.steps[5].len, 3);
	assert_memory_equal(path.steps[5].name, "x.y", 3);
	assert_int_equal(path.steps[6].len, 2);
	assert_int_equal(path.steps[7].index, 12);
	assert_int_equal(path.steps[8].len, 2);
	assert_memory_equal(path.steps[8].name, "A\n", 2);
	assert_int_equal(json_path_parse(SPAN("[\"\"][3]"), &path, &problem), 0);
	assert_int_equal(path.count, 2);
	assert_int_equal(path.steps[0].len, 0);
}

static void broken_paths_are_refused_where_they_break(void **state)
{
	static const struct {
		const char *text;
		size_t offset;
		const char *expected;
	} rows[] = {
		{ "", 0, "a name" },
		{ ".a", 0, "a name" },
		{ "a.", 2, "a name" },
		{ "a..b", 2, "a name" },
		{ "a b", 1, "a dot or [ after a name" },
		{ "a]", 1, "a dot or [ after a name" },
		{ "a[", 2, "an index, * or a name in quotes" },
		{ "a[x]", 2, "an index, * or a name in quotes" },
		{ "a[-1]", 2, "an index, * or a name in quotes" },
		{ "a[1", 3, "]" },
		{ "a[1 ]", 3, "]" },
		{ "a[*", 3, "]" },
		{ "a[**]", 3, "]" },
		{ "a[\"b]", 2, "a name in quotes" },
		{ "a[\"\\x\"]", 2, "a name in quotes, as JSON writes strings" },
		{ "a[1]b", 4, "a dot or [ after a name" },
		{ "a[1000001]", 8, "an index of at most 1000000" },
		{ "a\x80", 0, "a name in UTF-8" },
		{ "*", 0, "a name" },
		{ "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q", 31, "at most 16 steps in a path" },
		{ "n123456789n123456789n123456789n123456789n123456789n123456789n123", 0,
		  "a name of at most 63 bytes" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json_path path;
		struct json_problem problem = { 0 };
		int error = json_path_parse(span_str(rows[i].text), &path, &problem);
		if (error >= 0 || problem.offset != rows[i].offset ||
		    strcmp(problem.expected, rows[i].expected) != 0)
			fail_msg("%s: %d at %zu: %s", rows[i].text, error, problem.offset,
			         problem.expected);
	}
}

static uint8_t add(struct json_plan *plan, const char *text)
{
	struct json_path path;
	struct json_problem problem;
	uint8_t node = 0;
	assert_int_equal(json_path_parse(span_str(text), &path, &problem), 0);
	assert_int_equal(json_plan_add(plan, &path, &node), 0);
	return node;
}

static void the_same_path_is_the_same_node(void **state)
{
	static struct json_plan plan;
	(void)state;
	json_plan_init(&plan);
	uint8_t deep = add(&plan, "a.b.c");
	assert_int_equal(add(&plan, "a[\"b\"].c"), deep);
	assert_int_not_equal(add(&plan, "a.b"), deep);
	assert_int_not_equal(add(&plan, "a[1]"), add(&plan, "a[\"1\"]"));
	assert_int_equal(add(&plan, "a[1]"), add(&plan, "a[1]"));
	assert_int_equal(add(&plan, "a[*]"), add(&plan, "a[*]"));
}

static void a_plan_has_its_limits(void **state)
{
	static struct json_plan plan;
	struct json_path path;
	struct json_problem problem;
	uint8_t node;
	int error = 0;
	uint32_t count = 0;
	(void)state;
	json_plan_init(&plan);
	for (; error == 0 && count < 1000; count++) {
		char text[16];
		snprintf(text, sizeof(text), "name%u", count);
		assert_int_equal(json_path_parse(span_str(text), &path, &problem), 0);
		error = json_plan_add(&plan, &path, &node);
	}
	assert_int_equal(error, ERR_TOO_LARGE);
	assert_int_equal(count - 1, JSON_NODES_MAX - 2);
	json_plan_init(&plan);
	error = 0;
	for (count = 0; error == 0 && count < 1000; count++) {
		char text[32];
		snprintf(text, sizeof(text), "n%u.x", count);
		assert_int_equal(json_path_parse(span_str(text), &path, &problem), 0);
		error = json_plan_add(&plan, &path, &node);
	}
	assert_int_equal(error, ERR_TOO_LARGE);
}

/* Random names of all lengths, many alike: each is found, and no other. */
static void every_name_is_found_and_no_other(void **state)
{
	static struct json_plan plan;
	static struct json_doc doc;
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(200); round > 0; round--) {
		char names[40][32];
		uint8_t nodes[40];
		uint32_t count = 1 + (uint32_t)test_random_below(&random, 40);
		json_plan_init(&plan);
		for (uint32_t i = 0; i < count; i++) {
			size_t len = 1 + test_random_below(&random, 24);
			for (size_t at = 0; at < len; at++)
				names[i][at] = (char)('a' + test_random_below(&random, 2));
			names[i][len] = '\0';
			nodes[i] = add(&plan, names[i]);
		}
		json_plan_seal(&plan);
		for (uint32_t i = 0; i < count; i++) {
			char text[128];
			snprintf(text, sizeof(text), "{\"%s\":%u,\"%sa\":0}", names[i], i,
			         names[i]);
			if (json_scan(span_str(text), &plan, &doc) != 0)
				continue; /* the second name is one of the list, and … */
			struct json_value value = json_get(&doc, nodes[i]);
			if (value.type != JSON_NUMBER)
				fail_msg("%s was not found (%s)", text, test_note_seed(seed));
		}
		char text[128];
		snprintf(text, sizeof(text), "{\"%sX\":1,\"Y%s\":2,\"\":3}", names[0], names[0]);
		assert_int_equal(json_scan(span_str(text), &plan, &doc), 0);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(json_get(&doc, nodes[i]).type, JSON_NONE);
	}
}

static void empty_and_long_names_are_found(void **state)
{
	static struct json_plan plan;
	static struct json_doc doc;
	static const char longest[] =
		"n123456789n123456789n123456789n123456789n123456789n123456789n12";
	char text[256];
	(void)state;
	json_plan_init(&plan);
	uint8_t empty = add(&plan, "[\"\"]");
	uint8_t inner = add(&plan, "a[\"\"]");
	uint8_t longer = add(&plan, longest);
	json_plan_seal(&plan);
	snprintf(text, sizeof(text), "{\"\":1,\"a\":{\"\":2},\"%s\":3}", longest);
	assert_int_equal(json_scan(span_str(text), &plan, &doc), 0);
	assert_memory_equal(json_get(&doc, empty).text.ptr, "1", 1);
	assert_memory_equal(json_get(&doc, inner).text.ptr, "2", 1);
	assert_memory_equal(json_get(&doc, longer).text.ptr, "3", 1);
	snprintf(text, sizeof(text), "{\"%sX\":3,\"%.62s\":4}", longest, longest);
	assert_int_equal(json_scan(span_str(text), &plan, &doc), 0);
	assert_int_equal(json_get(&doc, longer).type, JSON_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_read_step_by_step),
		cmocka_unit_test(broken_paths_are_refused_where_they_break),
		cmocka_unit_test(the_same_path_is_the_same_node),
		cmocka_unit_test(a_plan_has_its_limits),
		cmocka_unit_test(every_name_is_found_and_no_other),
		cmocka_unit_test(empty_and_long_names_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
