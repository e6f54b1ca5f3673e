/* yaml: the tree is what was written, with its places; what is refused says why. */
#include "codec/yaml.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/test.h"

static struct yaml_doc *parse(const char *text)
{
	struct yaml_doc *doc = NULL;
	struct yaml_problem problem = { 0 };
	int error = yaml_doc_parse(span_str(text), &doc, &problem);
	if (error != 0)
		fail_msg("%u:%u: %s", problem.line, problem.column, problem.text.text);
	return doc;
}

static const struct yaml_node *at(const struct yaml_node *map, const char *name)
{
	const struct yaml_node *node = yaml_map_find(map, span_str(name));
	assert_non_null(node);
	return node;
}

static void assert_place(const struct yaml_node *node, uint32_t line, uint32_t column)
{
	assert_int_equal(node->line, line);
	assert_int_equal(node->column, column);
}

static void every_node_knows_its_place(void **state)
{
	(void)state;
	struct yaml_doc *doc = parse("# begin\n"
	                             "list:\n"
	                             "  - a\n"
	                             "  - \"b c\"\n"
	                             "map: { x: 1, größe: [] }\n"
	                             "empty:\n");
	const struct yaml_node *root = yaml_doc_root(doc);
	assert_int_equal(root->count, 3);
	const struct yaml_node *list = at(root, "list");
	assert_int_equal(list->kind, YAML_LIST);
	assert_int_equal(list->count, 2);
	assert_place(list->name, 2, 1);
	assert_place(list->first, 3, 5);
	assert_place(list->first->next, 4, 5);
	assert_string_equal(list->first->next->text.ptr, "b c");
	assert_true(list->first->next->quoted);
	assert_false(list->first->quoted);
	const struct yaml_node *size = at(at(root, "map"), "größe");
	assert_int_equal(size->kind, YAML_LIST);
	assert_int_equal(size->count, 0);
	assert_place(size->name, 5, 14);
	assert_place(size, 5, 21);
	assert_string_equal(at(root, "empty")->text.ptr, "");
	assert_null(yaml_map_find(root, SPAN("none")));
	assert_null(yaml_map_find(list, SPAN("none")));
	yaml_doc_free(doc);
}

static void references_need_no_quotes_between_braces(void **state)
{
	(void)state;
	struct yaml_doc *doc = parse(
		"auth: { header: X-Key, secret: ${KEY_1} , more: [a${B:-c d}e] }\n"
		"q: '${A}'\n"
		"odd: { x: \"${}\", y: \"${a b}\" }\n");
	const struct yaml_node *root = yaml_doc_root(doc);
	const struct yaml_node *auth = at(root, "auth");
	assert_string_equal(at(auth, "secret")->text.ptr, "${KEY_1}");
	assert_string_equal(at(auth, "more")->first->text.ptr, "a${B:-c d}e");
	assert_place(at(auth, "more"), 1, 49);
	assert_string_equal(at(root, "q")->text.ptr, "${A}");
	assert_string_equal(at(at(root, "odd"), "y")->text.ptr, "${a b}");
	yaml_doc_free(doc);
}

static void an_empty_file_has_no_root(void **state)
{
	(void)state;
	struct yaml_doc *doc = parse("");
	assert_null(yaml_doc_root(doc));
	yaml_doc_free(doc);
	doc = parse("# nothing\n\n");
	assert_null(yaml_doc_root(doc));
	yaml_doc_free(doc);
	assert_null(yaml_doc_free(NULL));
}

static void what_is_refused_says_where_and_why(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint32_t line, column;
		const char *says;
	} rows[] = {
		{ "a: *b\n", 1, 4, "alias" },
		{ "a: &b c\n", 1, 4, "anchor" },
		{ "a: !b c\n", 1, 4, "tag" },
		{ "a: !!str c\n", 1, 4, "tag" },
		{ "- &x []\n", 1, 3, "anchor" },
		{ "a: !x {}\n", 1, 4, "tag" },
		{ "a: 1\n---\nb: 1\n", 2, 1, "second document" },
		{ "? [a]\n: b\n", 1, 3, "expected a name" },
		{ "a:\n\tb: 1\n", 2, 1, "not with tabs" },
		{ "a: [x[*].y]\n", 1, 8, "quotes" },
		{ "a: [x[0].y]\n", 1, 6, "quotes" },
		{ "a: [1, 2\nb: 3\n", 2, 2, "not YAML" },
		{ "a: b: c\n", 1, 5, "not YAML" },
		{ "a: \"open\n", 2, 1, "not YAML" },
		{ "a: \"x\\0y\"\n", 1, 4, "NUL" },
		{ "a: @b\n", 1, 4, "quotes" },
		{ "a: b\n\x01", 2, 1, "not YAML" },
		{ "a: \xff\n", 1, 4, "not YAML" },
		{ "b: \xef\xb7\x90\n", 1, 4, "U+FDD0" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml_doc *doc = NULL;
		struct yaml_problem problem = { 0 };
		int error = yaml_doc_parse(span_str(rows[i].text), &doc, &problem);
		if (error != ERR_INVALID || !strstr(problem.text.text, rows[i].says) ||
		    problem.line != rows[i].line || problem.column != rows[i].column)
			fail_msg("row %zu: %d %u:%u: %s", i, error, problem.line, problem.column,
			         problem.text.text);
		assert_null(doc);
	}
}

static int parse_buf(struct buf *text, struct yaml_problem *problem)
{
	struct yaml_doc *doc = NULL;
	assert_false(text->failed);
	int error = yaml_doc_parse(buf_span(text), &doc, problem);
	yaml_doc_free(doc);
	buf_clear(text);
	return error;
}

static void repeat(struct buf *text, const char *piece, size_t times)
{
	for (size_t i = 0; i < times; i++)
		buf_append_span(text, span_str(piece));
}

static void the_limits_hold_exactly(void **state)
{
	(void)state;
	struct buf text = { 0 };
	struct yaml_problem problem;
	repeat(&text, "[", YAML_DEPTH_MAX);
	repeat(&text, "]", YAML_DEPTH_MAX);
	assert_int_equal(parse_buf(&text, &problem), 0);
	repeat(&text, "[", YAML_DEPTH_MAX + 1);
	repeat(&text, "]", YAML_DEPTH_MAX + 1);
	assert_int_equal(parse_buf(&text, &problem), ERR_INVALID);
	assert_non_null(strstr(problem.text.text, "deeply"));

	repeat(&text, "- a\n", YAML_NODES_MAX - 1);
	assert_int_equal(parse_buf(&text, &problem), 0);
	repeat(&text, "- a\n", YAML_NODES_MAX);
	assert_int_equal(parse_buf(&text, &problem), ERR_INVALID);

	for (unsigned i = 0; i < YAML_MEMBERS_MAX; i++)
		buf_printf(&text, "m%u: 1\n", i);
	size_t members = text.len;
	assert_int_equal(parse_buf(&text, &problem), 0);
	text.len = members; /* as before, and one more */
	repeat(&text, "more: 1\n", 1);
	assert_int_equal(parse_buf(&text, &problem), ERR_INVALID);

	repeat(&text, "#", YAML_SIZE_MAX);
	assert_int_equal(parse_buf(&text, &problem), 0);
	repeat(&text, "#", YAML_SIZE_MAX + 1);
	assert_int_equal(parse_buf(&text, &problem), ERR_INVALID);
	buf_free(&text);
}

static void each_failing_allocation_is_told(void **state)
{
	(void)state;
	int error = -ENOMEM;
	for (unsigned long n = 1; error != 0; n++) {
		struct yaml_doc *doc = NULL;
		struct yaml_problem problem;
		mem_fail_at(n, false);
		error = yaml_doc_parse(SPAN("a: { b: [c, ${D}] }\n"), &doc, &problem);
		mem_fail_at(0, false);
		assert_true(error == 0 || error == -ENOMEM);
		yaml_doc_free(doc);
		assert_true(n < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_node_knows_its_place),
		cmocka_unit_test(references_need_no_quotes_between_braces),
		cmocka_unit_test(an_empty_file_has_no_root),
		cmocka_unit_test(what_is_refused_says_where_and_why),
		cmocka_unit_test(the_limits_hold_exactly),
		cmocka_unit_test(each_failing_allocation_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
