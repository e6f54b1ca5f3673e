/* json_diff: in which members two objects differ. */
#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "codec/json_diff.h"

static char told[2048];

static void tell(void *user, struct span path, enum json_change change)
{
	static const char marks[] = {
		[JSON_CHANGED] = '~', [JSON_ADDED] = '+', [JSON_MISSING] = '-'
	};
	size_t len = strlen(told);
	(void)user;
	snprintf(told + len, sizeof(told) - len, "%s%c%.*s", len ? " " : "", marks[change],
	         (int)path.len, path.ptr);
}

/* In memory of exactly its size: one byte too far is seen by ASan. */
static struct span copy_of(const char *text)
{
	char *copy = mem_alloc(strlen(text));
	assert_non_null(copy);
	memcpy(copy, text, strlen(text));
	return span_of(copy, strlen(text));
}

static int differ(const char *a, const char *b)
{
	struct span first = copy_of(a), second = copy_of(b);
	told[0] = 0;
	int r = json_diff(first, second, 5, tell, NULL);
	mem_free((void *)(uintptr_t)first.ptr);
	mem_free((void *)(uintptr_t)second.ptr);
	return r;
}

static void assert_diff(const char *a, const char *b, const char *expected)
{
	assert_true(differ(a, b) >= 0);
	if (strcmp(told, expected) != 0)
		fail_msg("%s and %s: found %s, expected %s", a, b, told, expected);
}

static void members_are_told_by_their_path(void **state)
{
	(void)state;
	assert_diff("{}", "{}", "");
	assert_diff("{\"a\":1}", "{\"a\":2}", "~a");
	assert_diff("{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"c\":[1]}", "-a +c");
	assert_diff("{\"d\":{\"x\":{\"y\":1,\"z\":2}},\"e\":1}",
	            "{\"e\":1,\"d\":{\"x\":{\"z\":3,\"y\":1}}}", "~d.x.z");
	assert_diff("{\"a\":{}}", "{\"a\":[]}", "~a");
	assert_diff("{\"a\":[1,{\"b\":2}]}", "{\"a\":[1,{\"b\":3}]}", "~a");
	assert_diff(" {\"a}\":\"}\\\"\" , \"b\" : null } ", "{\"b\":false,\"a}\":\"}\\\"\"}", "~b");
	assert_diff("{\"a\\u0062\":1}", "{\"a\\u0062\":2}", "~ab");
}

static void what_means_the_same_is_no_difference(void **state)
{
	(void)state;
	assert_diff("{\"a\":1.0,\"b\":{\"c\":\"\\u0041\",\"d\":[ 1 , 2 ]}}",
	            "{\"b\":{\"d\":[1,2],\"c\":\"A\"},\"a\":1}", "");
}

static void no_more_than_asked_for_are_told_but_all_are_counted(void **state)
{
	(void)state;
	int count = differ("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1}", "{}");
	assert_int_equal(count, 7);
	assert_string_equal(told, "-a -b -c -d -e");
}

static void what_is_no_object_is_refused(void **state)
{
	(void)state;
	assert_int_equal(differ("[]", "{}"), ERR_INVALID);
	assert_int_equal(differ("{}", "{\"a\":"), ERR_INVALID);
	assert_int_equal(differ("{}", ""), ERR_INVALID);
}

/* Deep, long, and many in another order: bounded all the same. */
static void large_objects_end_somewhere(void **state)
{
	struct buf a = { 0 }, b = { 0 };
	(void)state;
	for (int i = 0; i < 60; i++) {
		buf_append_span(&a, SPAN("{\"aaaaaaaaaa\":"));
		buf_append_span(&b, SPAN("{\"aaaaaaaaaa\":"));
	}
	buf_append_span(&a, SPAN("1"));
	buf_append_span(&b, SPAN("2"));
	for (int i = 0; i < 60; i++) {
		buf_append_char(&a, '}');
		buf_append_char(&b, '}');
	}
	assert_int_equal(json_diff(buf_span(&a), buf_span(&b), 5, tell, NULL), 1);
	buf_clear(&a);
	buf_clear(&b);
	for (int i = 0; i < 30000; i++) {
		buf_printf(&a, "%c\"%d\":1", i ? ',' : '{', i);
		buf_printf(&b, "%c\"%d\":1", i ? ',' : '{', 29999 - i);
	}
	buf_append_char(&a, '}');
	buf_append_char(&b, '}');
	assert_int_equal(json_diff(buf_span(&a), buf_span(&a), 5, tell, NULL), 0);
	assert_int_equal(json_diff(buf_span(&a), buf_span(&b), 5, tell, NULL), ERR_TOO_LARGE);
	buf_free(&a);
	buf_free(&b);
}

static void want_of_memory_is_told(void **state)
{
	unsigned long n = 0, count;
	(void)state;
	do {
		mem_fail_at(++n, false);
		told[0] = 0;
		int r = json_diff(SPAN("{\"a\":[1]}"), SPAN("{\"a\":[2]}"), 5, tell, NULL);
		count = mem_fail_count();
		mem_fail_at(0, false);
		assert_true(r == 1 || r == -ENOMEM);
	} while (count >= n);
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_told_by_their_path),
		cmocka_unit_test(what_means_the_same_is_no_difference),
		cmocka_unit_test(no_more_than_asked_for_are_told_but_all_are_counted),
		cmocka_unit_test(what_is_no_object_is_refused),
		cmocka_unit_test(large_objects_end_somewhere),
		cmocka_unit_test(want_of_memory_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
