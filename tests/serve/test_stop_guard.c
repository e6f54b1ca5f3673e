/* The last bound of a stop: a process that hangs is ended, one that stops is not. */
#include "serve/serve_private.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "support/test.h"

#define LONG_MS 60000

static void a_stop_that_hangs_ends_the_process(void **state)
{
	(void)state;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct stop_guard guard = { 0 };
		if (stop_guard_begin(&guard, 1) != 0)
			_exit(EXIT_CODE_OK);
		for (;;)
			pause();
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EXIT_CODE_FAILED);
}

static void a_stop_in_time_is_left_alone(void **state)
{
	(void)state;
	struct stop_guard guard = { 0 };
	assert_int_equal(stop_guard_begin(&guard, LONG_MS), 0);
	stop_guard_end(&guard);
	stop_guard_end(&guard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_that_hangs_ends_the_process),
		cmocka_unit_test(a_stop_in_time_is_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
