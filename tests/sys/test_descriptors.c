/* The limit on descriptors. */
#include "sys/descriptors.h"

#include <sys/resource.h>

#include "support/test.h"

static void the_soft_limit_becomes_the_hard_one(void **state)
{
	(void)state;
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(descriptors_raise_limit() == limit.rlim_max);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(limit.rlim_cur == limit.rlim_max);
	assert_true(descriptors_raise_limit() == limit.rlim_max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_soft_limit_becomes_the_hard_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
