/*
 * The local store, or a shared one, against the model store: random histories, equal
 * answers.
 *
 * Both get the same operations in the same flushes. Segments are as small as
 * can be, so rollover, claims files, retention and carrying happen all the
 * time. The wall clock of the local store jumps, that of the model tells
 * the true time: a window must not notice. (A shared store's clock is its server's, and
 * is not judged.)
 */
#include <stdio.h>
#include <string.h>

#include "model_world.h"

struct model_tally model_tally;

static void keep_log(void *user, enum local_store_level level, const char *text)
{
	struct world *world = user;

	(void)level;
	snprintf(world->log, sizeof(world->log), "%s", text);
}

static void local_open(struct world *world)
{
	struct error_text text = { "" };

	if (world->shared) {
		world->local = shared_open(
			&(struct shared_options){ .clock = &world->true_clock.clock,
		                                  .dead_keep_ms = world->options.dead_keep_ms });
		world->local->written = world->told ? store_calls_written : NULL;
		return;
	}
	world->options.fs = simfs_fs(world->simfs);
	int error = local_store_open(&world->options, &world->local, &text);
	if (error < 0)
		fail_msg("%s, step %llu: open says %s: %s", test_note_seed(world->seed),
		         (unsigned long long)world->step, error_name(error), text.text);
	world->local->written = world->told ? store_calls_written : NULL;
}

static void world_begin(struct world *world, uint64_t seed, uint64_t steps)
{
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->random = seed ^ (steps << 40); /* both tests can be rerun by the seed */
	world->simfs = simfs_new(seed);
	clock_fake_init(&world->true_clock);
	clock_fake_init(&world->jumpy_clock);
	for (size_t i = 0; i < sizeof(world->bytes); i++)
		world->bytes[i] = (unsigned char)test_random(&world->random);
	world->mixed_windows = below(world, 2);
	world->mostly_cells = steps < 1000 && below(world, 3) == 0;
	world->options = (struct local_store_options){
		.path = "data",
		.clock = &world->jumpy_clock.clock,
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = below(world, 2) ? HOUR_MS : 1000,
		.retain_bytes = below(world, 2) ? 256u << 10 : 64u << 10,
		/* So many open tickets that a tick does not look at all of them: never. */
		.dead_keep_ms = steps > 1000 || below(world, 2) ? UINT64_MAX / 4 : HOUR_MS,
		.keeper_inline = true,
		.lazy_outcomes = below(world, 2),
		.log = keep_log,
		.log_user = world,
	};
	world->told = below(world, 2);
	world->shared = shared_is_asked_for();
	if (world->shared)
		shared_wipe();
	struct model_store_options options = { .clock = &world->true_clock.clock,
		                               .dead_keep_ms = world->options.dead_keep_ms };
	assert_int_equal(model_store_open(&options, &world->model), 0);
	local_open(world);
}

static void world_end(struct world *world)
{
	store_free(world->model);
	store_free(world->local);
	simfs_free(world->simfs);
	buf_free(&world->waiting.take.items);
	buf_free(&world->model_items);
}

static void flush_both(struct world *world)
{
	store_flush(world->model);
	store_calls_flush(world->local);
	store_tick(world->model);
	store_tick(world->local);
	if (take_call_poll(&world->waiting))
		take_compare(world);
	waits_compare(world);
}

/* ---- steps ---- */

static void step_batch(struct world *world)
{
	size_t count = 1 + below(world, BATCH_MAX);

	for (world->pair_count = 0; world->pair_count < count;) {
		struct pair *pair = &world->pairs[world->pair_count];
		pair_make(world, pair);
		for (size_t k = 0; k < 2; k++) {
			pair->on[k].op.kind = pair->kind;
			pair->on[k].op.done = store_calls_done;
			pair->on[k].op.user = &pair->done[k];
			store_submit(k == 0 ? world->model : world->local, &pair->on[k].op);
		}
		world->pair_count++;
	}
	flush_both(world);
	for (size_t i = 0; i < world->pair_count; i++)
		pair_compare(world, &world->pairs[i]);
	stats_compare(world);
}

static void step_take(struct world *world)
{
	static const uint32_t sizes[] = { 1, 100, 2000, 20000, 1u << 20 };

	if (!world->waiting.waiting) {
		world->waiting.take.sink = sink_choose(world);
		world->waiting.take.without_payload = below(world, 4) == 0;
		take_call_begin(world->local, &world->waiting, 1 + (uint32_t)below(world, 40),
		                sizes[below(world, ARRAY_LEN(sizes))]);
	}
	flush_both(world);
	stats_compare(world);
}

static void step_look(struct world *world)
{
	for (uint64_t i = 0; i < 8; i++)
		read_compare(world, ticket_choose(world));
	if (below(world, world->shared ? 1 : 3) == 0)
		scan_compare(world);
	cells_compare(world);
	if (take_call_poll(&world->waiting)) /* a read flushes too */
		take_compare(world);
}

static void step_wait(struct world *world)
{
	struct wait_pair *pair = world->waits;

	while (pair->used)
		if (++pair == world->waits + WAITS_MAX)
			return;
	*pair = (struct wait_pair){ .used = true };
	pair->on[0] = (struct store_wait){
		.op = { .kind = STORE_WAIT, .done = store_calls_done },
		.ticket = ticket_choose(world),
		.until_boot_ms = world->true_clock.now.boot_ms + below(world, 100000),
	};
	pair->on[1] = pair->on[0];
	for (size_t k = 0; k < 2; k++) {
		pair->on[k].op.user = &pair->done[k];
		store_submit(k == 0 ? world->model : world->local, &pair->on[k].op);
	}
	flush_both(world);
	stats_compare(world);
}

static void step_time(struct world *world)
{
	static const uint64_t spans_ms[] = { 1, 40, 1000, 5000, 61000, 700000, 4000000, 90000000 };
	uint64_t ms = below(world, spans_ms[below(world, ARRAY_LEN(spans_ms))]) + 1;

	clock_fake_advance(&world->true_clock, ms);
	clock_fake_advance(&world->jumpy_clock, ms);
	for (uint64_t i = 0; i <= below(world, 4); i++) {
		store_tick(world->model);
		store_tick(world->local);
	}
	waits_compare(world);
	if (take_call_poll(&world->waiting))
		take_compare(world);
}

static void step_jump(struct world *world)
{
	static const int64_t jumps_ms[] = { HOUR_MS, -HOUR_MS, 400 * DAY_MS, -400 * DAY_MS };

	clock_fake_jump(&world->jumpy_clock, jumps_ms[below(world, 4)]);
}

static void after_restart(struct world *world)
{
	world->waiting.waiting = false;
	world->lease_count = 0;
	world->first_event = 0;
	if (world->shared)
		model_store_restart_shared(world->model);
	else
		model_store_restart(world->model);
	waits_compare(world);
	local_open(world);
	flush_both(world);
	stats_compare(world);
	cells_compare(world);
}

static void step_reopen(struct world *world)
{
	world->local = store_free(world->local);
	EXPECT(world, !world->waiting.waiting || world->waiting.take.op.error == ERR_CLOSING);
	after_restart(world);
}

/* The process dies: what it had written to the cache is still there. */
static void step_kill(struct world *world)
{
	if (world->shared) {
		step_reopen(world);
		return;
	}
	struct simfs *left = simfs_copy(world->simfs);

	store_free(world->local); /* on the old disk, which nobody sees again */
	simfs_free(world->simfs);
	world->simfs = left;
	struct store_admit last = { .claim_count = 1,
		                    .no_ticket = true,
		                    .claims = {
					    { .digest = { { world->step, 1 } }, .window_s = 1 } } };
	struct store_admit twin = last;
	after_restart(world);
	EXPECT(world, store_call(world->model, &last.op, STORE_ADMIT) == 0);
	EXPECT(world, store_call(world->local, &twin.op, STORE_ADMIT) == 0);
	EXPECT(world, last.ticket == twin.ticket);
	world->killed_after = world->last_event = last.ticket;
}

static const struct {
	uint64_t until;
	const char *name;
	void (*run)(struct world *world);
} kinds[] = {
	{ 46, "batch", step_batch },   { 70, "take", step_take },  { 75, "look", step_look },
	{ 79, "wait", step_wait },     { 90, "time", step_time },  { 94, "jump", step_jump },
	{ 97, "reopen", step_reopen }, { 100, "kill", step_kill },
};

static void history_run(uint64_t seed, uint64_t steps)
{
	static struct world world;

	world_begin(&world, seed, steps);
	for (world.step = 0; world.step < steps; world.step++) {
		uint64_t dice = below(&world, 100);
		size_t i = 0;
		while (dice >= kinds[i].until)
			i++;
		world.doing = kinds[i].name;
		kinds[i].run(&world);
	}
	world_end(&world);
}

static void test_local_store_answers_as_the_model_does(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), count = test_scale(shared_is_asked_for() ? 6 : 150);

	for (uint64_t i = 0; i < count; i++)
		history_run(seed + i, 300);
}

/* What a history costs grows with the square of its length: beyond this there are more. */
#define LONG_STEPS 40000u

static void test_long_history_keeps_answering_as_the_model_does(void **state)
{
	(void)state;
	uint64_t left = test_scale(shared_is_asked_for() ? 700 : 20000);
	for (uint64_t seed = test_seed(); left > 0; seed++) {
		uint64_t steps = left < LONG_STEPS ? left : LONG_STEPS;
		history_run(seed, steps);
		left -= steps;
	}
}

/* After the others. */
static void test_the_histories_came_to_everything(void **state)
{
	(void)state;
	if (shared_is_asked_for() && test_stride(2) > 1)
		skip(); /* these were too few */
	for (int i = VERDICT_NEW; i <= VERDICT_BUSY; i++)
		assert_true(model_tally.verdicts[i] > 0);
	for (int i = VERDICT_DUPLICATE; i <= VERDICT_BUSY; i++)
		assert_true(model_tally.would_verdicts[i] > 0);
	for (int i = OUTCOME_DONE; i < OUTCOME_COUNT; i++)
		assert_true(model_tally.settled[i] > 0);
	for (int i = STORE_MARK_STARTED; i <= STORE_MARK_UNKNOWN; i++)
		assert_true(model_tally.noted[i] > 0);
	/* A shared store has a fiftieth of the steps: not everything that is rare comes then. */
	int waited = 0;
	for (int i = OUTCOME_NONE; i < OUTCOME_RELEASED; i++)
		waited += model_tally.waited[i] > 0;
	assert_true(waited >= (shared_is_asked_for() ? 2 : OUTCOME_RELEASED - OUTCOME_NONE));
	for (int i = STORE_STATE_DUE; i < STORE_STATE_CLOSED + !shared_is_asked_for(); i++)
		assert_true(model_tally.states[i] > 0);
	assert_true(model_tally.ops[STORE_RELEASE] > 0 && model_tally.ops[STORE_RENEW] > 0);
	assert_true(model_tally.starts > 0 && model_tally.takes_of_one > 0);
	for (int i = STORE_CELL_GET; i <= STORE_CELL_REMOVE; i++) {
		assert_true(model_tally.cells[i][0][0] > 0); /* not there, nothing done */
		assert_true(model_tally.cells[i][1][i != STORE_CELL_GET] > 0);
	}
	assert_true(model_tally.cells[STORE_CELL_PUT][0][1] > 0);
	assert_true(model_tally.cells[STORE_CELL_PUT][1][0] > 0);
	assert_true(model_tally.answers > 0 && model_tally.cells_told > 0);
	assert_true(model_tally.legs > 0 && model_tally.histories > 0 && model_tally.fenced > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_store_answers_as_the_model_does),
		cmocka_unit_test(test_long_history_keeps_answering_as_the_model_does),
		cmocka_unit_test(test_the_histories_came_to_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
