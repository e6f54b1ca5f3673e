/* table_arena: a bulk load leaves its pages to the helper, whatever its size; others get
 * addresses too. */
#include "support/test.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "store/local/index/table_arena.h"

#define AHEAD_FROM ((size_t)64 << 20) /* as in table_arena.c */

static void load(struct table_arena *arena, uint32_t buckets)
{
	uint32_t first;

	assert_int_equal(table_arena_init(arena), 0);
	table_arena_load_begin(arena);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(table_arena_take(arena, i, buckets / 16, &first), 0);
	assert_false(arena->pages.started); /* it would join what nobody has filled */
	table_arena_load_end(arena);
}

static void every_large_load_is_joined_afterwards(void **state)
{
	(void)state;
	for (uint32_t buckets = AHEAD_FROM / TABLE_BUCKET_BYTES + 16; buckets < 80000;
	     buckets += 1009) {
		struct table_arena arena;
		load(&arena, buckets);
		assert_true(arena.pages.started);
		table_arena_free(&arena);
	}
}

static void small_load_needs_no_helper(void **state)
{
	(void)state;
	struct table_arena arena;
	load(&arena, 1024);
	assert_false(arena.pages.started);
	table_arena_free(&arena);
}

static void load_touches_what_it_took(void **state)
{
	(void)state;
	struct table_arena arena;
	uint32_t first;
	assert_int_equal(table_arena_init(&arena), 0);
	table_arena_touch(&arena); /* without a load: nothing */
	table_arena_load_begin(&arena);
	assert_int_equal(table_arena_take(&arena, 0, 4096, &first), 0);
	table_arena_touch(&arena);
	for (uint32_t i = 0; i < 4096; i++)
		for (uint32_t k = 0; k < TABLE_BUCKET_ENTRIES; k++)
			assert_int_equal(arena.buckets[i].tags[k], 0);
	table_arena_load_end(&arena);
	table_arena_free(&arena);
}

static uint64_t addresses_used(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &pages), 1);
	(void)fclose(file);
	return (uint64_t)pages * MEM_PAGE;
}

/* As by `ulimit -v`: whatever the limit, the index does not take all of it. */
static void limited_addresses_are_shared(void **state)
{
	(void)state;
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	for (uint64_t mib = 320; mib < 16384; mib += mib / 5) {
		struct rlimit limit = before;
		struct table_arena arena;
		size_t others = (size_t)(mib < 2048 ? mib / 4 : 512) << 20;
		limit.rlim_cur = addresses_used() + (mib << 20);
		if (limit.rlim_cur > limit.rlim_max)
			skip();
		assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
		int error = table_arena_init(&arena);
		void *rest = error ? NULL : mem_reserve(others);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		assert_int_equal(error, 0);
		assert_non_null(rest);
		mem_unmap(rest, others);
		table_arena_free(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_large_load_is_joined_afterwards),
		cmocka_unit_test(small_load_needs_no_helper),
		cmocka_unit_test(load_touches_what_it_took),
		cmocka_unit_test(limited_addresses_are_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
