/* steady_clock: a machine whose true time only the test knows. */
#include <stdio.h>
#include <string.h>

#include "support/test.h"

#include "store/local/journal/steady_clock.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)
#define START_MS INT64_C(1735689600000) /* 2025-01-01 */

/* What really passes (true_ms), and what the machine's clocks say. */
struct machine {
	struct clock clock;
	int64_t true_ms;
	int64_t boot_at_ms;
	int64_t wall_error_ms;
};

static void machine_read(void *user, struct clock_reading *ret_reading)
{
	const struct machine *machine = user;
	ret_reading->wall_ms = (uint64_t)(machine->true_ms + machine->wall_error_ms);
	ret_reading->boot_ms = (uint64_t)(machine->true_ms - machine->boot_at_ms);
}

static void machine_init(struct machine *machine)
{
	*machine = (struct machine){ .true_ms = START_MS, .boot_at_ms = START_MS - HOUR_MS };
	machine->clock.read = machine_read;
	machine->clock.user = machine;
}

/* A folder's first use on a machine, and what it keeps of it. */
static struct steady_clock_state start_and_save(struct machine *machine,
                                                struct steady_clock *steady)
{
	machine_init(machine);
	steady_clock_start(steady, &machine->clock, NULL);
	return steady_clock_save(steady);
}

static void machine_reboot(struct machine *machine, int64_t off_ms, int64_t up_ms)
{
	machine->boot_at_ms = machine->true_ms + off_ms;
	machine->true_ms += off_ms + up_ms;
	machine->clock.boot_id[0]++;
}

static void test_a_fresh_clock_is_the_wall(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	machine_init(&machine);
	steady_clock_start(&steady, &machine.clock, NULL);
	assert_int_equal(steady_clock_last(&steady), START_MS);
	machine.true_ms += 1234;
	assert_int_equal(steady_clock_now(&steady), START_MS + 1234);
	struct error_text text;
	assert_false(steady_clock_alarm(&steady, &text));
}

static void test_a_jump_of_the_wall_changes_nothing_and_is_told_once(void **state)
{
	(void)state;
	static const int64_t jumps_ms[] = { HOUR_MS, -HOUR_MS, 400 * DAY_MS, -400 * DAY_MS };
	for (size_t i = 0; i < ARRAY_LEN(jumps_ms); i++) {
		struct machine machine;
		struct steady_clock steady;
		struct error_text text;
		machine_init(&machine);
		steady_clock_start(&steady, &machine.clock, NULL);
		machine.wall_error_ms = jumps_ms[i];
		machine.true_ms += 5000;
		assert_int_equal(steady_clock_now(&steady), START_MS + 5000);
		assert_int_equal(steady_clock_deviation_ms(&steady), jumps_ms[i]);
		assert_int_equal(steady_clock_held_ms(&steady), jumps_ms[i] > 0 ? jumps_ms[i] : 0);
		assert_true(steady_clock_alarm(&steady, &text));
		assert_non_null(strstr(text.text, jumps_ms[i] > 0 ? "ahead" : "behind"));
		machine.true_ms += 5000;
		steady_clock_now(&steady);
		assert_false(steady_clock_alarm(&steady, &text));
		machine.wall_error_ms = 0;
		steady_clock_now(&steady);
		assert_true(steady_clock_alarm(&steady, &text));
		assert_non_null(strstr(text.text, "again"));
	}
}

static void test_a_restart_in_the_same_boot_goes_on_by_boot_time(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	struct steady_clock_state saved = start_and_save(&machine, &steady);
	machine.true_ms += 3 * DAY_MS;
	machine.wall_error_ms = -HOUR_MS;
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), START_MS + 3 * DAY_MS);
}

static void test_after_a_reboot_the_wall_is_believed_up_to_a_day(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	struct steady_clock_state saved = start_and_save(&machine, &steady);
	machine_reboot(&machine, DAY_MS - 1000, 60000);
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), machine.true_ms);
	assert_int_equal(steady_clock_held_ms(&steady), 0);

	saved = steady_clock_save(&steady);
	int64_t before_ms = machine.true_ms;
	machine_reboot(&machine, DAY_MS + 1000, 60000);
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), before_ms + 60000);
	assert_int_equal(steady_clock_held_ms(&steady), DAY_MS + 1000);
	assert_int_equal(steady_clock_accept_wall(&steady), DAY_MS + 1000);
	assert_int_equal(steady_clock_last(&steady), machine.true_ms);
	assert_int_equal(steady_clock_held_ms(&steady), 0);
}

static void test_after_a_reboot_a_wall_that_went_back_is_not_followed(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	struct steady_clock_state saved = start_and_save(&machine, &steady);
	machine.wall_error_ms = -400 * DAY_MS;
	machine_reboot(&machine, 1000, 60000);
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), START_MS);
	assert_int_equal(steady_clock_accept_wall(&steady), 0);
}

/* How long that one was up says nothing of how long ago the folder was used. */
static void test_on_another_machine_its_time_since_boot_has_not_passed(void **state)
{
	(void)state;
	static const int64_t errors_ms[] = { 0, HOUR_MS, -2000, -400 * DAY_MS };
	for (size_t i = 0; i < ARRAY_LEN(errors_ms); i++) {
		struct machine machine;
		struct steady_clock steady;
		machine_init(&machine);
		steady_clock_start(&steady, &machine.clock, NULL);
		struct steady_clock_state saved = steady_clock_save(&steady);
		machine.true_ms += 1000;
		machine.boot_at_ms = START_MS - 200 * DAY_MS;
		machine.wall_error_ms = errors_ms[i];
		machine.clock.boot_id[0]++;
		steady_clock_start(&steady, &machine.clock, &saved);
		int64_t wall_ms = machine.true_ms + errors_ms[i];
		assert_int_equal(steady_clock_last(&steady),
		                 wall_ms > START_MS ? wall_ms : START_MS);
	}
}

static void test_a_start_long_after_a_reboot_is_explained(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	struct steady_clock_state saved = start_and_save(&machine, &steady);
	machine_reboot(&machine, HOUR_MS, 5 * DAY_MS);
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), machine.true_ms);
	assert_int_equal(steady_clock_held_ms(&steady), 0);
}

/* Another machine, and its wall is wrong by more than it was up. */
static void test_of_a_time_since_boot_with_a_wall_that_is_held_a_day_is_believed(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	struct steady_clock_state saved = start_and_save(&machine, &steady);
	machine.boot_at_ms = START_MS - 200 * DAY_MS;
	machine.wall_error_ms = 400 * DAY_MS;
	machine.clock.boot_id[0]++;
	steady_clock_start(&steady, &machine.clock, &saved);
	assert_int_equal(steady_clock_last(&steady), START_MS + DAY_MS);
}

static void test_a_wall_slightly_behind_is_met_by_running_slower(void **state)
{
	(void)state;
	struct machine machine;
	struct steady_clock steady;
	machine_init(&machine);
	steady_clock_start(&steady, &machine.clock, NULL);
	machine.wall_error_ms = -500;
	uint64_t last = steady_clock_last(&steady);
	for (int i = 0; i < 499; i++) {
		machine.true_ms += 1000;
		uint64_t now = steady_clock_now(&steady);
		assert_true(now - last >= 999);
		last = now;
	}
	assert_int_equal(steady_clock_deviation_ms(&steady), -1);
	machine.true_ms += 10000;
	steady_clock_now(&steady);
	assert_int_equal(steady_clock_deviation_ms(&steady), 0);
	struct error_text text;
	assert_false(steady_clock_alarm(&steady, &text));
}

/*
 * Random histories. Within a boot, over restarts too, the steady time that
 * passed never exceeds the true one; over a reboot, by at most the day that
 * rule 3 grants to a wall that was wrong in that moment.
 */
static void history(uint64_t seed)
{
	struct machine machine;
	struct steady_clock steady;
	uint64_t random = seed;
	machine_init(&machine);
	steady_clock_start(&steady, &machine.clock, NULL);
	struct steady_clock_state saved = steady_clock_save(&steady);
	uint64_t boot_steady = steady_clock_last(&steady);
	int64_t boot_true = machine.true_ms;
	uint64_t last = boot_steady;
	int64_t last_true = boot_true;
	for (int i = 0; i < 400; i++) {
		static const int64_t errors_ms[] = { 0,        300,          -300,         HOUR_MS,
			                             -HOUR_MS, 400 * DAY_MS, -400 * DAY_MS };
		uint64_t dice = test_random_below(&random, 100);
		machine.true_ms += (int64_t)test_random_below(&random, dice % 10 ? 5000 : 40000000);
		if (dice < 10)
			machine.wall_error_ms = errors_ms[test_random_below(&random, 7)];
		if (dice >= 10 && dice < 20)
			saved = steady_clock_save(&steady);
		if (dice >= 20 && dice < 25) {
			steady_clock_start(&steady, &machine.clock, &saved);
			saved = steady_clock_save(&steady);
		}
		if (dice >= 25 && dice < 30) {
			saved = steady_clock_save(&steady);
			machine_reboot(&machine, (int64_t)test_random_below(&random, 3 * DAY_MS),
			               (int64_t)test_random_below(&random, 100000));
			steady_clock_start(&steady, &machine.clock, &saved);
			saved = steady_clock_save(&steady);
			boot_steady = steady_clock_last(&steady);
			if ((int64_t)(boot_steady - last) >
			    machine.true_ms - last_true + STEADY_CLOCK_DOWNTIME_MAX_MS)
				fail_msg("a reboot explained too much, %s", test_note_seed(seed));
			boot_true = machine.true_ms;
		}
		uint64_t now = steady_clock_now(&steady);
		if (now < last)
			fail_msg("time went back, %s", test_note_seed(seed));
		last = now;
		last_true = machine.true_ms;
		if ((int64_t)(now - boot_steady) > machine.true_ms - boot_true)
			fail_msg("time ran ahead, %s", test_note_seed(seed));
	}
}

static void test_no_window_is_cut_short_in_any_history(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < test_scale(3000); i++)
		history(test_seed() + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fresh_clock_is_the_wall),
		cmocka_unit_test(test_a_jump_of_the_wall_changes_nothing_and_is_told_once),
		cmocka_unit_test(test_a_restart_in_the_same_boot_goes_on_by_boot_time),
		cmocka_unit_test(test_after_a_reboot_the_wall_is_believed_up_to_a_day),
		cmocka_unit_test(test_after_a_reboot_a_wall_that_went_back_is_not_followed),
		cmocka_unit_test(test_on_another_machine_its_time_since_boot_has_not_passed),
		cmocka_unit_test(test_a_start_long_after_a_reboot_is_explained),
		cmocka_unit_test(
			test_of_a_time_since_boot_with_a_wall_that_is_held_a_day_is_believed),
		cmocka_unit_test(test_a_wall_slightly_behind_is_met_by_running_slower),
		cmocka_unit_test(test_no_window_is_cut_short_in_any_history),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
