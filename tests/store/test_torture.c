/*
 * Every failure at every step: I/O errors and allocations of the local store.
 *
 * A scenario (open, a random history, close) runs again and again, and each time
 * another call fails. Whatever the answers were, the folder is then opened
 * without faults, as power loss would have left it, and held against them:
 * nothing may have been acknowledged falsely.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/oracle.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define IO_CALLS 500u
#define STEPS 220u
#define STRIDE 7u /* of calls, under sanitizers */

struct scene {
	struct clock_fake clock;
	struct oracle oracle;
	struct simfs *simfs;
	struct local_store_options options;
	char about[128];
};

static struct scene scene;

static void scene_begin(uint64_t seed)
{
	clock_fake_init(&scene.clock);
	oracle_init(&scene.oracle, seed, &scene.clock);
	scene.oracle.about = scene.about;
	scene.simfs = simfs_new(seed);
	scene.options = (struct local_store_options){
		.path = "data",
		.clock = &scene.clock.clock,
		.fs = simfs_fs(scene.simfs),
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = 2000,
		.retain_bytes = 128u << 10,
		.keeper_inline = true,
		.lazy_outcomes = seed & 1,
	};
}

static void scene_end(void)
{
	scene.simfs = simfs_free(scene.simfs);
	oracle_free(&scene.oracle);
}

/* The disk after power loss, without faults: all that was promised is there. */
static void check_after_power_loss(void)
{
	struct simfs *found = simfs_crash_copy(scene.simfs, scene.oracle.seed);
	struct local_store_options options = scene.options;
	struct error_text text = { "" };
	struct store *store = NULL;

	options.fs = simfs_fs(found);
	int error = local_store_open(&options, &store, &text);
	if (error < 0)
		fail_msg("%s, %s: open says %s: %s", test_note_seed(scene.oracle.seed), scene.about,
		         error_name(error), text.text);
	oracle_check(&scene.oracle, store);
	store_free(store);
	simfs_free(found);
}

/* After one failure the store must find its way back by itself. */
static void check_resumes(struct store *store)
{
	int error = ERR_FULL;

	for (int i = 0; i < 100 && error < 0 && !oracle_full(&scene.oracle); i++) {
		clock_fake_advance(&scene.clock, 100);
		store_tick(store);
		error = oracle_admit_one(&scene.oracle, store);
	}
	if (error < 0)
		fail_msg("%s, %s: admits still get %s", test_note_seed(scene.oracle.seed),
		         scene.about, error_name(error));
}

static struct store *try_open(void)
{
	struct error_text text = { "" };
	struct store *store = NULL;
	int error = local_store_open(&scene.options, &store, &text);

	if (error < 0 && text.text[0] == 0)
		fail_msg("%s, %s: open fails (%s) without a text",
		         test_note_seed(scene.oracle.seed), scene.about, error_name(error));
	if (error < 0)
		return NULL;
	return store;
}

static const char *const fault_names[] = { "none", "EIO", "ENOSPC", "short write" };

static void io_fault(enum simfs_fault_kind kind, uint64_t at, bool forever)
{
	snprintf(scene.about, sizeof(scene.about), "%s at call %llu %s", fault_names[kind],
	         (unsigned long long)at, forever ? "for ever" : "once");
	scene_begin(test_seed());
	simfs_fail_at(scene.simfs, kind, at, forever);
	struct store *store = try_open();
	for (uint64_t i = 0; store && i < STEPS; i++)
		oracle_step(&scene.oracle, store);
	if (store && !forever)
		check_resumes(store);
	check_after_power_loss();
	if (store) /* the record now knows the other disk's: only free it */
		store_free(store);
	scene_end();
}

static uint64_t calls_of_scenario(void)
{
	snprintf(scene.about, sizeof(scene.about), "no fault");
	scene_begin(test_seed());
	struct store *store = try_open();
	assert_non_null(store);
	for (uint64_t i = 0; i < STEPS; i++)
		oracle_step(&scene.oracle, store);
	uint64_t calls = simfs_calls(scene.simfs);
	store_free(store);
	scene_end();
	return calls;
}

static uint64_t stride(void)
{
	return test_stride(STRIDE);
}

/* Where not each call fails, the kinds of faults take turns. */
static uint64_t first_call(uint64_t turn)
{
	return 1 + turn % stride();
}

static void io_faults(enum simfs_fault_kind kind)
{
	uint64_t calls = calls_of_scenario();

	if (calls > IO_CALLS)
		calls = IO_CALLS;
	for (uint64_t at = first_call(kind); at <= calls; at += stride()) {
		io_fault(kind, at, false);
		io_fault(kind, at, true);
	}
	printf("%s at %s of %llu calls\n", fault_names[kind], stride() == 1 ? "each" : "some",
	       (unsigned long long)calls);
}

static void test_an_io_error_never_makes_a_false_acknowledgement(void **state)
{
	(void)state;
	io_faults(SIMFS_EIO);
}

static void test_enospc_never_makes_a_false_acknowledgement(void **state)
{
	(void)state;
	io_faults(SIMFS_ENOSPC);
}

static void test_a_short_write_never_makes_a_false_acknowledgement(void **state)
{
	(void)state;
	io_faults(SIMFS_SHORT);
}

/* The same while a folder with a past is recovered. */
static void recovery_fault(enum simfs_fault_kind kind, uint64_t at, bool forever)
{
	snprintf(scene.about, sizeof(scene.about), "%s at call %llu of recovery %s",
	         fault_names[kind], (unsigned long long)at, forever ? "for ever" : "once");
	scene_begin(test_seed());
	struct store *store = try_open();
	assert_non_null(store);
	for (uint64_t i = 0; i < STEPS; i++)
		oracle_step(&scene.oracle, store);
	struct simfs *killed = simfs_copy(scene.simfs);
	store_free(store);
	simfs_free(scene.simfs);
	scene.simfs = killed;
	scene.options.fs = simfs_fs(killed);
	oracle_restarted(&scene.oracle);

	simfs_fail_at(scene.simfs, kind, at, forever);
	store = try_open();
	for (uint64_t i = 0; store && i < 10; i++)
		oracle_step(&scene.oracle, store);
	check_after_power_loss();
	store_free(store);
	scene_end();
}

static void test_a_fault_in_recovery_loses_nothing(void **state)
{
	(void)state;
	for (uint64_t at = first_call(0); at <= 120; at += stride())
		for (int forever = 0; forever < 2; forever++) {
			recovery_fault(SIMFS_EIO, at, forever);
			recovery_fault(SIMFS_ENOSPC, at, forever);
		}
}

static void test_a_full_disk_says_so_and_resumes_when_room_returns(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < test_scale(40); round++) {
		uint64_t seed = test_seed() + round;
		snprintf(scene.about, sizeof(scene.about), "full disk, round %llu",
		         (unsigned long long)round);
		scene_begin(seed);
		scene.options.retain_ms = UINT64_C(86400000);
		scene.options.retain_bytes = 1u << 30;
		uint64_t random = seed;
		simfs_set_capacity(scene.simfs, (256 + test_random_below(&random, 512)) << 10);
		struct store *store = try_open();
		assert_non_null(store);
		for (int i = 0; i < 200 && !oracle_full(&scene.oracle); i++) {
			oracle_step(&scene.oracle, store);
			if (scene.oracle.errors > 20)
				break;
		}
		assert_true(scene.oracle.errors > 0);
		assert_int_equal(scene.oracle.last_error, ERR_FULL);
		struct store_stats stats;
		store_stats(store, &stats);
		assert_false(stats.writable);

		simfs_set_capacity(scene.simfs, 0);
		check_resumes(store);
		store_stats(store, &stats);
		assert_true(stats.writable);
		check_after_power_loss();
		store_free(store);
		scene_end();
	}
}

/* ---- allocations ---- */

/* Open, live, close, open again; returns how many allocations that took. */
static unsigned long memory_scenario(unsigned long fail_at, bool forever)
{
	snprintf(scene.about, sizeof(scene.about), "allocation %lu fails %s", fail_at,
	         forever ? "for ever" : "once");
	scene_begin(test_seed());
	mem_fail_at(fail_at, forever);
	struct store *store = try_open();
	for (uint64_t i = 0; store && i < 12; i++)
		oracle_step(&scene.oracle, store);
	store = store_free(store);
	oracle_restarted(&scene.oracle);
	store = try_open();
	for (uint64_t i = 0; store && i < 4; i++)
		oracle_step(&scene.oracle, store);
	unsigned long count = mem_fail_count();
	mem_fail_at(0, false);
	check_after_power_loss();
	store_free(store);
	scene_end();
	return count;
}

static void test_no_failed_allocation_breaks_a_promise(void **state)
{
	(void)state;
	unsigned long count = memory_scenario(1000000000, false);

	for (unsigned long n = 1; n <= count; n++) {
		memory_scenario(n, false);
		memory_scenario(n, true);
	}
	printf("each of %lu allocations failed\n", count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_io_error_never_makes_a_false_acknowledgement),
		cmocka_unit_test(test_enospc_never_makes_a_false_acknowledgement),
		cmocka_unit_test(test_a_short_write_never_makes_a_false_acknowledgement),
		cmocka_unit_test(test_a_fault_in_recovery_loses_nothing),
		cmocka_unit_test(test_a_full_disk_says_so_and_resumes_when_room_returns),
		cmocka_unit_test(test_no_failed_allocation_breaks_a_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
