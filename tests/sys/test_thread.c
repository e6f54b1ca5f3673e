/* thread: named, pinned, out of the reach of signals. */
#include "support/test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "sys/thread.h"

struct seen {
	char name[32];
	sigset_t blocked;
	int cpus;
};

static void look(void *user)
{
	struct seen *seen = user;
	cpu_set_t set;
	pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
	pthread_sigmask(SIG_BLOCK, NULL, &seen->blocked);
	pthread_getaffinity_np(pthread_self(), sizeof(set), &set);
	seen->cpus = CPU_COUNT(&set);
}

static void thread_has_its_name_and_no_signals(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	struct thread thread;
	struct thread_options options = {
		.name = "a-name-that-is-too-long", .cpu = THREAD_ANY_CPU, .run = look, .user = &seen
	};
	assert_int_equal(thread_start(&thread, &options), 0);
	thread_join(&thread);
	assert_string_equal(seen.name, "a-name-that-is-");
	assert_true(sigismember(&seen.blocked, SIGTERM));
	assert_true(sigismember(&seen.blocked, SIGPIPE));
	assert_false(sigismember(&seen.blocked, SIGSEGV));
	sigset_t own;
	pthread_sigmask(SIG_BLOCK, NULL, &own);
	assert_false(sigismember(&own, SIGTERM));
	thread_join(&thread); /* twice is nothing */
}

static void pinned_thread_has_one_processor(void **state)
{
	(void)state;
	cpu_set_t allowed;
	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	int cpu = 0;
	while (!CPU_ISSET((size_t)cpu, &allowed))
		cpu++;
	struct seen seen = { 0 };
	struct thread thread;
	struct thread_options options = {
		.name = "pinned", .cpu = cpu, .run = look, .user = &seen
	};
	assert_int_equal(thread_start(&thread, &options), 0);
	thread_join(&thread);
	assert_int_equal(seen.cpus, 1);
}

static void impossible_processor_starts_nothing(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	struct thread thread;
	struct thread_options options = { .name = "x", .cpu = -5, .run = look, .user = &seen };
	assert_int_equal(thread_start(&thread, &options), -EINVAL);
	assert_false(thread.running);
	thread_join(&thread);
	options.cpu = CPU_SETSIZE - 1; /* no such processor here */
	if (thread_start(&thread, &options) == 0) {
		thread_join(&thread);
		skip();
	}
	assert_false(thread.running);
	assert_int_equal(seen.cpus, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_has_its_name_and_no_signals),
		cmocka_unit_test(pinned_thread_has_one_processor),
		cmocka_unit_test(impossible_processor_starts_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
