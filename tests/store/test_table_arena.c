/* table_arena: the index leaves addresses to others. */
#include "support/test.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "store/local/index/table_shard.h"

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
		cmocka_unit_test(limited_addresses_are_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
