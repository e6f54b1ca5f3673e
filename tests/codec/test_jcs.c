/* jcs: texts that mean the same have the same canonical form, others do not. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "codec/jcs.h"
#include "support/vectors.h"

static struct buf out;
static struct buf sorting;

static int write_with(struct span text, const struct jcs_options *options,
                      struct json_problem *problem)
{
	static struct json_doc doc;
	buf_clear(&out);
	if (json_scan(text, NULL, &doc) != 0)
		fail_msg("not JSON: %.*s", (int)text.len, text.ptr);
	return jcs_write(text, options, &out, &sorting, problem);
}

static void assert_canonical(const char *text, const char *expected, bool exact)
{
	struct jcs_options options = { .exact = exact };
	struct json_problem problem = { 0 };
	if (write_with(span_str(text), &options, &problem) != 0)
		fail_msg("%s: refused at %zu: %s", text, problem.offset, problem.expected);
	if (!span_eq(buf_span(&out), span_str(expected)))
		fail_msg("%s: %.*s", text, (int)out.len, out.ptr);
}

static int tear_down(void **state)
{
	(void)state;
	buf_free(&out);
	buf_free(&sorting);
	return 0;
}

static void members_are_sorted_and_blanks_go(void **state)
{
	(void)state;
	assert_canonical(" { \"b\" : 1 , \"a\" : [ 3 , { \"d\":null, \"c\":true } ] } ",
	                 "{\"a\":[3,{\"c\":true,\"d\":null}],\"b\":1}", false);
	assert_canonical("{}", "{}", false);
	assert_canonical(" [ ] ", "[]", false);
	assert_canonical("[[],{},[{}]]", "[[],{},[{}]]", false);
	assert_canonical("\"x\"", "\"x\"", false);
	assert_canonical(" 7.0 ", "7", false);
	assert_canonical("{\"\":0,\"a\":1}", "{\"\":0,\"a\":1}", false);
}

static void strings_have_the_fewest_escapes(void **state)
{
	(void)state;
	assert_canonical("\"\\u0041\\/\\u00e9\\u20AC\\uD83D\\uDE00\"",
	                 "\"A/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", false);
	assert_canonical("\"\\u000a\\u0000\\u001F\\b\\f\\r\\t\\\"\\\\\\u007f\"",
	                 "\"\\n\\u0000\\u001f\\b\\f\\r\\t\\\"\\\\\x7f\"", false);
}

/* By UTF-16: what is beyond U+FFFF comes before U+E000 … U+FFFF. */
static void names_are_sorted_by_their_utf16(void **state)
{
	(void)state;
	assert_canonical("{\"\xef\xbc\xa1\":1,\"\xf0\x9f\x98\x80\":2,\"\xed\x9f\xbf\":3}",
	                 "{\"\xed\x9f\xbf\":3,\"\xf0\x9f\x98\x80\":2,\"\xef\xbc\xa1\":1}", false);
	assert_canonical("{\"a\\n\":1,\"a\\t\":2,\"a\\\\\":3,\"a!\":4,\"a\":5,\"a\\u0001\":6}",
	                 "{\"a\":5,\"a\\u0001\":6,\"a\\t\":2,\"a\\n\":1,\"a!\":4,\"a\\\\\":3}",
	                 false);
	assert_canonical("{\"10\":1,\"1\":2,\"\\u0031b\":3}", "{\"1\":2,\"10\":1,\"1b\":3}", false);
}

static void numbers_are_doubles_unless_exact_ones_are_asked_for(void **state)
{
	(void)state;
	assert_canonical("[1E1,-0,4.50,2e-3,1e21,333333333.33333329]",
	                 "[10,0,4.5,0.002,1e+21,333333333.3333333]", false);
	assert_canonical("[9007199254740993,1.0,0.1,1e400]", "[9007199254740993,1,0.1,1e400]",
	                 true);
	assert_canonical("[9007199254740993]", "[9007199254740992]", false);
	assert_canonical("[123456789012345678901234567890123456789012]",
	                 "[123456789012345678901234567890123456789012e0]", true);
	struct json_problem problem;
	struct jcs_options options = { .exact = false };
	assert_int_equal(write_with(SPAN("[1,1e400]"), &options, &problem), ERR_INVALID);
	assert_int_equal(problem.offset, 3);
}

static void a_name_twice_is_refused_at_its_second_place(void **state)
{
	static const struct {
		const char *text;
		size_t offset;
	} rows[] = {
		{ "{\"a\":1,\"a\":1}", 7 },
		{ "{\"a\":1,\"b\":2,\"\\u0061\":1}", 13 },
		{ "[{\"b\":{\"x\":1,\"y\":1,\"x\":2}}]", 19 },
	};
	struct jcs_options options = { .exact = true };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json_problem problem = { 0 };
		assert_int_equal(write_with(span_str(rows[i].text), &options, &problem),
		                 ERR_INVALID);
		assert_true(problem.repeated);
		assert_int_equal(problem.offset, rows[i].offset);
		assert_int_equal(out.len, 0);
	}
}

static void make_plan(struct json_plan *plan, const char *const *paths)
{
	json_plan_init(plan);
	for (; *paths; paths++) {
		struct json_path path;
		struct json_problem problem;
		uint8_t node;
		assert_int_equal(json_path_parse(span_str(*paths), &path, &problem), 0);
		assert_int_equal(json_plan_add(plan, &path, &node), 0);
	}
	json_plan_seal(plan);
}

static void excepted_members_are_left_out(void **state)
{
	static struct json_plan plan;
	struct jcs_options options = { .exact = true, .except = &plan };
	struct json_problem problem;
	(void)state;
	make_plan(&plan, (const char *const[]){ "meta", "a.x", "list[*].t", "pair[0]", NULL });
	assert_int_equal(write_with(SPAN("{\"meta\":{\"b\":[1,{}]},\"z\":1,\"a\":{\"y\":1,\"x\":2},"
	                                 "\"list\":[{\"t\":1,\"u\":2},3,{\"t\":4}],"
	                                 "\"pair\":[1,2],\"x\":{\"meta\":5}}"),
	                            &options, &problem),
	                 0);
	struct span expected = SPAN("{\"a\":{\"y\":1},\"list\":[{\"u\":2},3,{}],\"pair\":[2],"
	                            "\"x\":{\"meta\":5},\"z\":1}");
	if (!span_eq(buf_span(&out), expected))
		fail_msg("%.*s", (int)out.len, out.ptr);
	make_plan(&plan, (const char *const[]){ "a", "c", NULL });
	assert_int_equal(write_with(SPAN("{\"c\":1,\"a\":2}"), &options, &problem), 0);
	assert_true(span_eq(buf_span(&out), SPAN("{}")));
}

static void a_full_buf_is_an_error_and_nothing_worse(void **state)
{
	static const char text[] =
		"{\"b\":[1.5,\"x\\u0041\",{\"d\":1,\"c\":2}],\"a\":12345678901234567890}";
	struct jcs_options options = { .exact = true };
	struct json_problem problem;
	(void)state;
	assert_canonical(text, "{\"a\":12345678901234567890,\"b\":[1.5,\"xA\",{\"c\":2,\"d\":1}]}",
	                 true);
	size_t needed = out.len;
	for (size_t cap = 1; cap < 2 * needed; cap++) {
		struct buf small = { .cap = cap };
		int error = jcs_write(span_str(text), &options, &small, &sorting, &problem);
		if (error == 0)
			assert_true(span_eq(buf_span(&small), buf_span(&out)));
		else
			assert_int_equal(error, ERR_TOO_LARGE);
		buf_free(&small);
	}
}

/* A small document with its members in any order, and blanks and escapes anywhere. */
struct writer {
	char *p;
	char *end;
	uint64_t *shape;  /* what is written */
	uint64_t *manner; /* how */
};

static void put(struct writer *w, const char *text)
{
	while (*text && w->p < w->end)
		*w->p++ = *text++;
}

static void put_blank(struct writer *w)
{
	static const char *const blanks[] = { "", "", "", " ", "\n", "\t " };
	put(w, blanks[test_random_below(w->manner, ARRAY_LEN(blanks))]);
}

static void put_string(struct writer *w, unsigned number)
{
	static const char *const spellings[][2] = {
		{ "a", "\\u0061" },
		{ "\xc3\xa9", "\\u00e9" },
		{ "/", "\\/" },
		{ "\\n", "\\u000A" },
	};
	char text[32];
	const char *piece = spellings[number % 4][test_random_below(w->manner, 2)];
	snprintf(text, sizeof(text), "\"%s%u\"", piece, number);
	put(w, text);
}

static void put_value(struct writer *w, int depth);

static void put_object(struct writer *w, int depth)
{
	uint64_t count = test_random_below(w->shape, 5);
	uint64_t base = test_random(w->shape);
	uint64_t first = count ? test_random_below(w->manner, count) : 0;
	put(w, "{");
	for (uint64_t i = 0; i < count; i++) {
		/* Rotated: the same members, begun elsewhere. Each has a shape of its own. */
		uint64_t member = (first + i) % count;
		uint64_t own = base + member * 977;
		struct writer inner = *w;
		inner.shape = &own;
		put(&inner, i ? "," : "");
		put_blank(&inner);
		put_string(&inner, (unsigned)(base % 50 + member));
		put_blank(&inner);
		put(&inner, ":");
		put_value(&inner, depth + 1);
		w->p = inner.p;
	}
	put(w, "}");
}

static void put_value(struct writer *w, int depth)
{
	static const char *const numbers[][2] = { { "1", "1.0" },
		                                  { "1500", "15e2" },
		                                  { "0.25", "25E-2" },
		                                  { "12345678901234567891",
		                                    "12345678901234567891.0" } };
	put_blank(w);
	switch (test_random_below(w->shape, depth > 3 ? 3 : 5)) {
	case 0: put_string(w, (unsigned)test_random_below(w->shape, 100)); break;
	case 1:
		put(w, numbers[test_random_below(w->shape, 4)][test_random_below(w->manner, 2)]);
		break;
	case 2: put(w, test_random(w->shape) & 1 ? "true" : "null"); break;
	case 3: put_object(w, depth); break;
	default:
		put(w, "[");
		for (uint64_t n = test_random_below(w->shape, 4); n > 0; n--) {
			put_value(w, depth + 1);
			put(w, n > 1 ? "," : "");
		}
		put(w, "]");
		break;
	}
	put_blank(w);
}

static void shuffled_texts_have_one_form(void **state)
{
	static char text[2][65536];
	struct jcs_options options = { .exact = true };
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(2000); round > 0; round--) {
		uint64_t shape = test_random(&random);
		struct buf forms[2] = { { .cap = 0 }, { .cap = 0 } };
		for (int i = 0; i < 2; i++) {
			uint64_t own = shape;
			struct json_problem problem = { 0 };
			static struct json_doc doc;
			struct writer w = { text[i], text[i] + sizeof(text[i]), &own, &random };
			put_value(&w, 0);
			struct span bytes = span_of(text[i], (size_t)(w.p - text[i]));
			assert_true(w.p < w.end);
			assert_int_equal(json_scan(bytes, NULL, &doc), 0);
			assert_int_equal(jcs_write(bytes, &options, &forms[i], &sorting, &problem),
			                 0);
			/* The form of a form is the form itself. */
			buf_clear(&out);
			assert_int_equal(jcs_write(buf_span(&forms[i]), &options, &out, &sorting,
			                           &problem),
			                 0);
			assert_true(span_eq(buf_span(&out), buf_span(&forms[i])));
		}
		if (!span_eq(buf_span(&forms[0]), buf_span(&forms[1])))
			fail_msg("%.*s\n%.*s (%s)", (int)forms[0].len, forms[0].ptr,
			         (int)forms[1].len, forms[1].ptr, test_note_seed(seed));
		buf_free(&forms[0]);
		buf_free(&forms[1]);
	}
}

/* An object with very many members must not take the square of their number. */
static void many_members_are_sorted(void **state)
{
	struct buf text = { .cap = 0 };
	struct jcs_options options = { .exact = true };
	struct json_problem problem;
	(void)state;
	buf_append_char(&text, '{');
	for (unsigned i = 0; i < 100000; i++)
		buf_printf(&text, "%s\"%u\":0", i ? "," : "", (i * 7919u) % 100003u);
	buf_append_char(&text, '}');
	assert_false(text.failed);
	assert_int_equal(write_with(buf_span(&text), &options, &problem), 0);
	assert_int_equal(out.len, text.len);
	assert_memory_equal(out.ptr, "{\"0\":0,\"1\":0,\"10\":0,\"100\":0,", 28);
	buf_free(&text);
}

static void judge_vector(const char *name, struct span bytes)
{
	char path[VECTORS_PATH_MAX];
	char file[300];
	struct json_problem problem = { 0 };
	struct jcs_options options = { .exact = false };
	snprintf(file, sizeof(file), "jcs/output/%s", name);
	vectors_path(file, path);
	struct span expected = vectors_read(path);
	assert_non_null(expected.ptr);
	if (write_with(bytes, &options, &problem) != 0)
		fail_msg("%s: %zu: %s", name, problem.offset, problem.expected);
	if (!span_eq(buf_span(&out), expected))
		fail_msg("%s: %.*s", name, (int)out.len, out.ptr);
	mem_free((void *)(uintptr_t)expected.ptr);
}

static void published_vectors_come_out_right(void **state)
{
	(void)state;
	if (vectors_each("jcs/input", judge_vector) == 0) {
		print_message("skipped: no jcs among the vectors\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_sorted_and_blanks_go),
		cmocka_unit_test(strings_have_the_fewest_escapes),
		cmocka_unit_test(names_are_sorted_by_their_utf16),
		cmocka_unit_test(numbers_are_doubles_unless_exact_ones_are_asked_for),
		cmocka_unit_test(a_name_twice_is_refused_at_its_second_place),
		cmocka_unit_test(excepted_members_are_left_out),
		cmocka_unit_test(a_full_buf_is_an_error_and_nothing_worse),
		cmocka_unit_test(shuffled_texts_have_one_form),
		cmocka_unit_test(many_members_are_sorted),
		cmocka_unit_test(published_vectors_come_out_right),
	};
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
