/* awake: worth it only where it is; its helper runs last and does not run for ever. */
#include "support/test.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/awake.h"
#include "sys/clock.h"

#define US UINT64_C(1000)
#define LIMIT_NS UINT64_C(60000000000)
#define ROW 256u /* the rows of awake.c: one asleep, one awake, fourteen as they say */
#define ROWS 16u

/* Time as it would pass: the owner works, and waits this long by the way of waiting. */
struct life {
	struct awake *awake;
	struct awake_time at;
	uint64_t work_ns, idle_ns, asleep_ns, awake_ns;
	uint64_t toll_ns;     /* what the host takes back after a wait awake */
	uint32_t stall_every; /* waits; 0: never */
};

static struct life begin(uint64_t work_us, uint64_t asleep_us, uint64_t awake_us)
{
	struct life life = { .at = { 1000 * US, 0 },
		             .work_ns = work_us * US,
		             .asleep_ns = asleep_us * US,
		             .awake_ns = awake_us * US };
	life.awake = awake_new(life.at);
	assert_non_null(life.awake);
	return life;
}

/* Of so many waits, how many were awake? */
static uint32_t live(struct life *life, uint32_t waits)
{
	uint32_t awake = 0;

	for (uint32_t i = 0; i < waits; i++) {
		life->at.now_ns += life->work_ns + life->idle_ns;
		life->at.cpu_ns += life->work_ns;
		bool is_awake = awake_begin(life->awake, life->at);
		awake += is_awake;
		life->at.now_ns += is_awake ? life->awake_ns : life->asleep_ns;
		if (life->stall_every > 0 && i % life->stall_every == 0)
			life->at.now_ns += 5000 * US;
		awake_end(life->awake, life->at.now_ns);
		life->at.now_ns += is_awake ? life->toll_ns : 0;
	}
	return awake;
}

static void shorter_waits_are_awake(void **state)
{
	(void)state;
	struct life life = begin(440, 140, 110);
	live(&life, 1); /* the first is the first that it hears of */
	assert_int_equal(live(&life, ROW * ROWS), ROW * (ROWS - 1));
	/* It looks again, and the host has changed. */
	life.awake_ns = life.asleep_ns;
	assert_int_equal(live(&life, ROW * ROWS), ROW);
	awake_free(life.awake);
}

static void stalls_of_either_kind_change_nothing(void **state)
{
	(void)state;
	struct life life = begin(440, 140, 110);
	life.stall_every = 50;
	live(&life, 1);
	/* A few after each do not seem worth it; those are not awake. */
	assert_in_range(live(&life, ROW * ROWS * 4), ROW * ROWS * 2, ROW * ROWS * 4);
	awake_free(life.awake);
}

static void waits_that_are_not_shorter_are_asleep(void **state)
{
	(void)state;
	struct life life = begin(440, 140, 138);
	live(&life, 1);
	assert_int_equal(live(&life, ROW * ROWS), ROW);
	awake_free(life.awake);
}

/* As long from write to write, but by a thread that sleeps in between. */
static void cores_that_sleep_anyway_may_sleep(void **state)
{
	(void)state;
	struct life life = begin(300, 140, 100);
	life.idle_ns = 140 * US;
	assert_int_equal(live(&life, ROW * ROWS), 0);
	awake_free(life.awake);
}

static void waits_that_are_paid_for_later_are_asleep(void **state)
{
	(void)state;
	struct life life = begin(440, 140, 100);
	life.toll_ns = 35 * US;
	live(&life, 1);
	assert_int_equal(live(&life, ROW * ROWS), ROW);
	awake_free(life.awake);
}

static void idle_and_busy_cores_may_sleep(void **state)
{
	(void)state;
	static const uint64_t work_us[] = { 20, 150, 250, 700, 1500, 1000000 };
	for (size_t i = 0; i < sizeof(work_us) / sizeof(work_us[0]); i++) {
		struct life life = begin(work_us[i], 140, 100);
		assert_int_equal(live(&life, ROW * ROWS), 0);
		awake_free(life.awake);
	}
}

/* The helper's, by its name; 0: there is none. */
static pid_t find_helper(void)
{
	DIR *tasks = opendir("/proc/self/task");
	pid_t found = 0;

	assert_non_null(tasks);
	for (struct dirent *entry; !found && (entry = readdir(tasks));) {
		char path[300], name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		FILE *file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && strcmp(name, "stile-awake\n") == 0)
			found = (pid_t)strtol(entry->d_name, NULL, 10);
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return found;
}

/* It names itself when it begins, and is seen for a moment when it has ended. */
static pid_t await_helper(bool there)
{
	uint64_t until_ns = clock_monotonic_ns() + LIMIT_NS;
	pid_t helper;

	while (((helper = find_helper()) != 0) != there && clock_monotonic_ns() < until_ns)
		usleep(1000);
	assert_int_equal(helper != 0, there);
	return helper;
}

static char state_of(pid_t thread)
{
	char path[64], text[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	return strrchr(text, ')')[2];
}

static void await_state(pid_t thread, char wanted)
{
	uint64_t until_ns = clock_monotonic_ns() + LIMIT_NS;

	while (state_of(thread) != wanted && clock_monotonic_ns() < until_ns)
		usleep(1000);
	assert_int_equal(state_of(thread), wanted);
}

static void helper_runs_last_and_sleeps_when_nobody_waits(void **state)
{
	(void)state;
	struct life life = begin(440, 140, 110);
	await_helper(false); /* those of the tests before */
	live(&life, ROW * 2);
	pid_t helper = await_helper(true);
	await_state(helper, 'S');
	assert_int_equal(sched_getscheduler(helper), SCHED_IDLE);
	/* A wait that does not end. */
	life.at.now_ns += life.work_ns;
	life.at.cpu_ns += life.work_ns;
	assert_true(awake_begin(life.awake, life.at));
	await_state(helper, 'S');
	awake_end(life.awake, life.at.now_ns);
	awake_free(life.awake);
	await_helper(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shorter_waits_are_awake),
		cmocka_unit_test(stalls_of_either_kind_change_nothing),
		cmocka_unit_test(waits_that_are_not_shorter_are_asleep),
		cmocka_unit_test(cores_that_sleep_anyway_may_sleep),
		cmocka_unit_test(waits_that_are_paid_for_later_are_asleep),
		cmocka_unit_test(idle_and_busy_cores_may_sleep),
		cmocka_unit_test(helper_runs_last_and_sleeps_when_nobody_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
