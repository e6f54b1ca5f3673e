/*
 * Power loss at any moment: seeded crash states of the local store.
 *
 * A history runs on a simulated disk. At points within its I/O calls the disk
 * is copied as power loss would leave it; the copy is opened and held against
 * what had been acknowledged at that very moment. One history gives many
 * states. Some states lose power a second time while they recover, and some
 * live on and are closed and opened again. The history itself has restarts, so
 * that power is lost in segments of many lives too.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/oracle.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define STATES 100000u
#define WARM_STEPS_MAX 90u
#define STEPS 40u
#define RESTART_EVERY 24u /* steps, about */

struct history {
	uint64_t random;
	struct clock_fake clock;
	struct oracle oracle;
	struct local_store_options options;
	struct simfs *simfs;
	struct store *store;
	bool armed;
};

/* Power is lost again while a state recovers. */
struct second {
	struct history *history;
	const struct oracle *record;
	uint64_t at; /* the point at which to lose power */
};

static uint64_t states, second_states, verdicts[VERDICT_COUNT], releases, notes, starts, cells;
static uint64_t outcomes[OUTCOME_COUNT];

static struct store *must_open(struct history *history, struct simfs *simfs)
{
	struct local_store_options options = history->options;
	struct error_text text = { "" };
	struct store *store = NULL;

	options.fs = simfs_fs(simfs);
	int error = local_store_open(&options, &store, &text);
	if (error < 0)
		fail_msg("%s, step %llu: after a crash open says %s: %s",
		         test_note_seed(history->oracle.seed),
		         (unsigned long long)history->oracle.step, error_name(error), text.text);
	return store;
}

static void state_check(struct history *history, const struct oracle *record, struct simfs *simfs,
                        const char *about)
{
	static struct oracle oracle;

	struct store *store = must_open(history, simfs);
	simfs_on_point(simfs, NULL, NULL);
	oracle_copy(&oracle, record); /* only now: a second crash uses it too */
	oracle.about = about;
	oracle_check(&oracle, store);
	store_free(store);
	states++;
}

static void second_point(void *user, struct simfs *simfs, enum simfs_point point)
{
	struct second *second = user;

	(void)point;
	if (second->at-- != 1)
		return;
	struct simfs *found = simfs_crash_copy(simfs, test_random(&second->history->random));
	state_check(second->history, second->record, found, "after a crash in recovery");
	second_states++;
	simfs_free(found);
}

/* It lives on, is closed, and opened again. */
static void live_on(struct history *history, struct simfs *simfs)
{
	static struct oracle oracle;
	struct clock_reading now = history->clock.now;

	oracle_copy(&oracle, &history->oracle);
	oracle.about = "after a crash, living on";
	struct store *store = must_open(history, simfs);
	oracle_check(&oracle, store);
	for (int i = 0; i < 8; i++)
		oracle_step(&oracle, store);
	store_free(store);
	simfs_kill(simfs);
	state_check(history, &oracle, simfs, "after a crash, some life and a clean close");
	oracle_free(&oracle);
	history->clock.now = now; /* the first history knows nothing of it */
}

static void first_point(void *user, struct simfs *simfs, enum simfs_point point)
{
	struct history *history = user;
	struct second second = { .history = history, .record = &history->oracle };

	(void)point;
	if (!history->armed)
		return;
	struct simfs *found = simfs_crash_copy(simfs, test_random(&history->random));
	uint64_t fate = test_random_below(&history->random, 16);
	if (fate < 4) {
		second.at = 1 + test_random_below(&history->random, 24);
		simfs_on_point(found, second_point, &second);
	}
	if (fate == 15)
		live_on(history, found);
	else
		state_check(history, &history->oracle, found, "after a crash");
	simfs_free(found);
}

/* A clean end, or a kill: then the old process goes on where nobody sees it. */
static void restart(struct history *history)
{
	static struct oracle known;
	bool armed = history->armed;

	if (test_random_below(&history->random, 2)) {
		store_free(history->store);
	} else {
		struct simfs *left = simfs_copy(history->simfs);
		oracle_copy(&known, &history->oracle);
		history->armed = false;
		store_free(history->store);
		simfs_free(history->simfs);
		oracle_free(&history->oracle);
		oracle_copy(&history->oracle, &known);
		history->simfs = left;
		simfs_on_point(left, first_point, history);
		history->armed = armed;
	}
	oracle_restarted(&history->oracle);
	history->store = must_open(history, history->simfs);
}

static void step(struct history *history)
{
	if (test_random_below(&history->random, RESTART_EVERY) == 0)
		restart(history);
	oracle_step(&history->oracle, history->store);
}

static void history_run(uint64_t seed)
{
	static struct history history;

	history = (struct history){ .random = seed };
	clock_fake_init(&history.clock);
	oracle_init(&history.oracle, seed, &history.clock);
	history.options = (struct local_store_options){
		.path = "data",
		.clock = &history.clock.clock,
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = 1 + test_random_below(&history.random, 5000),
		.retain_bytes = (1 + test_random_below(&history.random, 4)) << 16,
		.keeper_inline = true,
		.lazy_outcomes = test_random_below(&history.random, 2),
	};
	history.simfs = simfs_new(seed);
	uint64_t warm = test_random_below(&history.random, WARM_STEPS_MAX);
	/* Often most is settled on the way, so that segments leave. */
	uint64_t settle_at = test_random_below(&history.random, 2 * STEPS);
	/* Some histories lose power while the folder is made. */
	history.armed = warm < 10;
	simfs_on_point(history.simfs, first_point, &history);
	history.store = must_open(&history, history.simfs);
	for (uint64_t i = 0; i < warm; i++)
		step(&history);
	history.armed = true;
	for (uint64_t i = 0; i < STEPS; i++) {
		step(&history);
		if (i == settle_at)
			oracle_settle_most(&history.oracle, history.store);
	}
	store_free(history.store);
	for (int i = 0; i < VERDICT_COUNT; i++)
		verdicts[i] += history.oracle.verdicts[i];
	for (int i = 0; i < OUTCOME_COUNT; i++)
		outcomes[i] += history.oracle.outcomes[i];
	releases += history.oracle.releases;
	notes += history.oracle.notes;
	starts += history.oracle.starts;
	cells += history.oracle.cell_changes;
	oracle_restarted(&history.oracle);
	simfs_free(history.simfs);
	oracle_free(&history.oracle);
}

static void test_no_crash_loses_or_repeats_what_was_acknowledged(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), target = test_scale(STATES), histories = 0;

	while (states < target) {
		history_run(seed + histories);
		histories++;
	}
	printf("%llu crash states of %llu histories, %llu of them within a recovery\n",
	       (unsigned long long)states, (unsigned long long)histories,
	       (unsigned long long)second_states);
	for (int i = VERDICT_NEW; i <= VERDICT_BUSY; i++)
		assert_true(verdicts[i] > 0);
	for (int i = OUTCOME_DONE; i < OUTCOME_COUNT; i++)
		assert_true(outcomes[i] > 0);
	assert_true(releases > 0 && notes > 0 && starts > 0 && cells > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_crash_loses_or_repeats_what_was_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
