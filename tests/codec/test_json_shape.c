/* json_shape: what is learnt, what it is good for, and when it is let be. That it changes
 * no result is tested with the scanner (test_json.c). */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "codec/json.h"
#include "codec/json_shape.h"

static const char *const wanted_paths[] = { "id", "n", "detail", "detail.id", "list[1]" };
enum { ID, N, DETAIL, DETAIL_ID, LIST_1 };
#define PATHS ARRAY_LEN(wanted_paths)

static struct json_plan plan;
static uint8_t nodes[PATHS];
static struct json_shapes shapes;

static void make_plan(struct json_plan *ret_plan, const char *const *texts, size_t count,
                      uint8_t *ret_nodes)
{
	json_plan_init(ret_plan);
	for (size_t i = 0; i < count; i++) {
		struct json_path path;
		struct json_problem problem;
		assert_int_equal(json_path_parse(span_str(texts[i]), &path, &problem), 0);
		assert_int_equal(json_plan_add(ret_plan, &path, &ret_nodes[i]), 0);
	}
	json_plan_seal(ret_plan);
}

static int set_up(void **state)
{
	(void)state;
	memset(&shapes, 0, sizeof(shapes));
	make_plan(&plan, wanted_paths, PATHS, nodes);
	return 0;
}

static void scan(const char *text, struct json_doc *doc)
{
	assert_int_equal(json_scan_known(span_str(text), &plan, &shapes, doc), 0);
}

/* Was it scanned by a shape? Only then does the debt become less. */
static bool is_known(const char *text)
{
	struct json_doc doc;
	shapes.debt = 10;
	scan(text, &doc);
	return shapes.debt < 10;
}

static void assert_value(const struct json_doc *doc, int path, enum json_type type,
                         const char *text)
{
	struct json_value value = json_get(doc, nodes[path]);
	assert_int_equal(value.type, type);
	if (type != JSON_NONE && !span_eq(value.text, span_str(text)))
		fail_msg("%.*s, not %s", (int)value.text.len, value.text.ptr, text);
}

static void a_text_that_looks_the_same_is_known(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_false(
		is_known("{\"id\":\"a\",\"n\":1,\"detail\":{\"id\":\"b\"},\"list\":[0,\"c\"]}"));
	assert_true(is_known(
		"{\"id\":\"\",\"n\":-2.5e7,\"detail\":{\"id\":\"\\u00e9\"},\"list\":[true,\"\"]}"));
	scan("{\"id\":\"Z\xc3\xbcrich\",\"n\":null,\"detail\":{\"id\":\"q\"},\"list\":[1,\"long\"]}",
	     &doc);
	assert_value(&doc, ID, JSON_STRING, "Z\xc3\xbcrich");
	assert_value(&doc, N, JSON_NULL, "null");
	assert_value(&doc, DETAIL, JSON_OBJECT, "{\"id\":\"q\"}");
	assert_value(&doc, DETAIL_ID, JSON_STRING, "q");
	assert_value(&doc, LIST_1, JSON_STRING, "long");
	assert_false(json_set_has(&doc.there, nodes[N]));
	assert_true(json_set_has(&doc.there, nodes[ID]));
}

/* A string that begins with more than plain bytes seems to be empty at first. */
static void a_string_that_begins_with_an_escape_is_there(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_false(is_known("{\"id\":\"a\"}"));
	assert_true(is_known("{\"id\":\"\\n\"}"));
	scan("{\"id\":\"\\n\"}", &doc);
	assert_true(json_set_has(&doc.there, nodes[ID]));
	assert_true(json_get(&doc, nodes[ID]).escaped);
	scan("{\"id\":\"b\"}", &doc);
	assert_false(json_get(&doc, nodes[ID]).escaped);
}

static void texts_that_differ_in_one_place_share_the_rest(void **state)
{
	static const char *const texts[] = {
		"{\"id\":\"a\",\"n\":1}",  "{\"id\":\"a\",\"n\":\"1\"}", "{\"id\":\"a\",\"n\":[]}",
		"{\"id\":\"a\",\"n\":{}}", "{\"id\":\"a\",\"n\": 1}",    "{\"id\":\"a\"}",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_false(is_known(texts[i]));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_true(is_known(texts[i]));
	/* The first step once, then one more for each, and the ends of those with values. */
	assert_int_equal(shapes.step_count, 1 + ARRAY_LEN(texts) + 3);
	/* There is no room for a seventh at this place; it is scanned as ever. */
	assert_false(is_known("{\"id\":\"a\",\"x\":1}"));
	assert_false(is_known("{\"id\":\"a\",\"x\":1}"));
}

static void long_steps_and_long_strings_are_known(void **state)
{
	static char text[3 * JSON_MARKS_CHUNK];
	(void)state;
	for (size_t blanks = 50; blanks < 200; blanks++) {
		struct json_doc doc;
		int n = snprintf(text, sizeof(text), "{\"n\":%*d,\"detail\":%*s\"id\":\"%0*d\"}}",
		                 (int)blanks, 7, (int)blanks, "{", 5000, 0);
		assert_in_range(n, 1, sizeof(text) - 1);
		memset(&shapes, 0, sizeof(shapes));
		assert_false(is_known(text));
		assert_true(is_known(text));
		scan(text, &doc);
		assert_value(&doc, N, JSON_NUMBER, "7");
		assert_int_equal(json_get(&doc, nodes[DETAIL]).text.ptr[0], '{');
		assert_int_equal(json_get(&doc, nodes[DETAIL]).text.len, 5000 + 9);
	}
}

/* What was learnt with one plan says nothing to another, even at the same address. */
static void each_plan_has_shapes_of_its_own(void **state)
{
	static const char *const others[] = { "detail.id", "id" };
	const char *text = "{\"id\":\"a\",\"detail\":{\"id\":\"b\"}}";
	struct json_doc doc;
	uint64_t serial = plan.serial;
	(void)state;
	assert_false(is_known(text));
	assert_true(is_known(text));
	make_plan(&plan, others, ARRAY_LEN(others), nodes);
	assert_true(plan.serial != serial);
	assert_false(is_known(text));
	assert_true(is_known(text));
	scan(text, &doc);
	assert_value(&doc, 0, JSON_STRING, "b");
	assert_value(&doc, 1, JSON_STRING, "a");
	for (uint32_t i = 0; i < 3 * JSON_SHAPE_PLANS; i++) {
		json_plan_seal(&plan);
		assert_false(is_known(text));
		assert_true(is_known(text));
	}
}

/* When there is no more room all is forgotten, and learning begins anew. */
static void memory_that_is_full_is_used_again(void **state)
{
	char text[64];
	(void)state;
	for (int i = 0; i < 5000; i++) {
		/* Three at each place, and three below each of them. */
		snprintf(text, sizeof(text), "{\"a%d\":1,\"b%d\":1,\"c%d\":1,\"d%d\":1}", i % 3,
		         i / 3 % 3, i / 9 % 3, i / 27 % 3);
		(void)is_known(text);
		assert_in_range(shapes.step_count, 0, JSON_SHAPE_STEPS - 1);
		assert_in_range(shapes.end_count, 0, JSON_SHAPE_ENDS);
	}
	assert_false(is_known("{\"id\":\"a\"}"));
	assert_true(is_known("{\"id\":\"a\"}"));
}

/* Texts that never look alike are neither compared nor learnt any more. */
static void what_does_not_help_is_let_be(void **state)
{
	struct json_doc doc;
	char text[64];
	(void)state;
	for (int i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "{\"id\":\"a\",\"a%d\":1}", i);
		scan(text, &doc);
	}
	uint32_t steps = shapes.step_count;
	uint32_t untried = shapes.untried;
	assert_true(untried > 0);
	for (int i = 0; i < 32; i++)
		scan("{\"id\":\"a\",\"other\":1}", &doc);
	assert_int_equal(shapes.step_count, steps);
	assert_int_equal(shapes.untried, untried + 32);
	/* One look that comes again and again is learnt in the end. */
	for (int i = 0; i < 1000; i++)
		scan("{\"n\":1}", &doc);
	assert_int_equal(shapes.debt, 0);
}

static void a_text_with_too_many_values_is_scanned_as_ever(void **state)
{
	char text[4096] = "{\"list\":[";
	size_t len = strlen(text);
	struct json_doc doc;
	(void)state;
	for (int i = 0; i < 2 * JSON_SHAPE_LENGTH; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%d,", i);
	snprintf(text + len, sizeof(text) - len, "0]}");
	assert_false(is_known(text));
	assert_false(is_known(text));
	scan(text, &doc);
	assert_value(&doc, LIST_1, JSON_NUMBER, "1");
}

static void an_array_of_events_is_known_one_by_one(void **state)
{
	const char *text =
		"[{\"id\":\"a\"},{\"id\":\"b\"} , {\"id\":\"c\"},{\"id\":\"d\",\"id\":1}]";
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	(void)state;
	assert_int_equal(json_elements_begin(&elements, span_str(text)), 0);
	elements.shapes = &shapes;
	for (const char *id = "abc"; *id; id++) {
		assert_int_equal(json_elements_next(&elements, &plan, &doc, &element), 1);
		assert_int_equal(json_get(&doc, nodes[ID]).text.ptr[0], *id);
	}
	assert_true(shapes.debt < 16);
	assert_int_equal(json_elements_next(&elements, &plan, &doc, &element), ERR_INVALID);
	assert_true(doc.problem.repeated);
	assert_int_equal(json_elements_next(&elements, NULL, &doc, &element), 1);
	assert_int_equal(json_elements_next(&elements, NULL, &doc, &element), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_text_that_looks_the_same_is_known, set_up),
		cmocka_unit_test_setup(a_string_that_begins_with_an_escape_is_there, set_up),
		cmocka_unit_test_setup(texts_that_differ_in_one_place_share_the_rest, set_up),
		cmocka_unit_test_setup(long_steps_and_long_strings_are_known, set_up),
		cmocka_unit_test_setup(each_plan_has_shapes_of_its_own, set_up),
		cmocka_unit_test_setup(memory_that_is_full_is_used_again, set_up),
		cmocka_unit_test_setup(what_does_not_help_is_let_be, set_up),
		cmocka_unit_test_setup(a_text_with_too_many_values_is_scanned_as_ever, set_up),
		cmocka_unit_test_setup(an_array_of_events_is_known_one_by_one, set_up),
	};
	int failed = 0;
	/* At every level that the machine has. */
	for (int level = JSON_LEVEL_BASE; level <= JSON_LEVEL_AVX512; level++) {
		json_level_max = (enum json_level)level;
		if (json_level() == json_level_max)
			failed += cmocka_run_group_tests(tests, NULL, NULL);
	}
	return failed;
}
