/* mem: the failure plan hits exactly the allocation it names. */
#include "support/test.h"

#include "base/mem.h"

static bool allocate(void)
{
	void *ptr = mem_alloc(1);
	bool worked = ptr != NULL;
	mem_free(ptr);
	return worked;
}

static void plan_fails_only_the_nth(void **state)
{
	(void)state;
	mem_fail_at(3, false);
	assert_true(allocate());
	assert_true(allocate());
	assert_false(allocate());
	assert_true(allocate());
	assert_int_equal(mem_fail_count(), 4);
	mem_fail_at(0, false);
	assert_true(allocate());
}

static void plan_for_ever_fails_all_from_the_nth(void **state)
{
	(void)state;
	mem_fail_at(2, true);
	assert_true(allocate());
	assert_false(allocate());
	assert_false(allocate());
	mem_fail_at(0, false);
	assert_true(allocate());
}

static void every_kind_of_allocation_is_under_the_plan(void **state)
{
	(void)state;
	void *kept = mem_alloc(8);
	assert_non_null(kept);
	mem_fail_at(1, true);
	assert_null(mem_alloc(1));
	assert_null(mem_zalloc(1, 1));
	assert_null(mem_realloc(kept, 100));
	assert_null(mem_aligned(4096, 4096));
	assert_null(mem_strdup("x"));
	assert_int_equal(mem_fail_count(), 5);
	mem_fail_at(0, false);
	mem_free(kept);
}

static void zalloc_refuses_overflow(void **state)
{
	(void)state;
	volatile size_t half = SIZE_MAX / 2;
	assert_null(mem_zalloc(half, 4));
}

static void take_leaves_null_behind(void **state)
{
	(void)state;
	cleanup_free char *text = mem_strdup("moved");
	cleanup_free char *moved = TAKE(text);
	assert_null(text);
	assert_string_equal(moved, "moved");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_fails_only_the_nth),
		cmocka_unit_test(plan_for_ever_fails_all_from_the_nth),
		cmocka_unit_test(every_kind_of_allocation_is_under_the_plan),
		cmocka_unit_test(zalloc_refuses_overflow),
		cmocka_unit_test(take_leaves_null_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
