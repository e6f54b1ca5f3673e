/*
 * The local store against the memory store: random histories, equal answers.
 *
 * Both get the same operations in the same flushes. Segments are as small as
 * can be, so rollover, claims files, retention and carrying happen all the
 * time. The wall clock of the local store jumps, that of the memory store tells
 * the true time: a window must not notice.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_store.h"
#include "store/memory/memory_store.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define DIGESTS 160u
#define ENTITIES 24u
#define ORDERS 40u
#define CHECKS 3u
#define BATCH_MAX 24u
#define LEASES_MAX 4096u
#define PAYLOAD_MAX 9000u
#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

struct lease {
	uint64_t ticket;
	uint32_t attempt;
};

struct pair {
	enum store_op_kind kind;
	union {
		struct store_op op;
		struct store_admit admit;
		struct store_settle settle;
		struct store_lookup lookup;
		struct store_release release;
	} on[2]; /* memory, local */
	bool done[2];
};

struct world {
	uint64_t seed, random, step;
	const char *doing;
	struct simfs *simfs;
	struct clock_fake true_clock, jumpy_clock;
	struct store *memory, *local;
	struct local_store_options options;
	struct take_call waiting; /* at the local store */
	struct buf memory_items;
	struct lease leases[LEASES_MAX];
	size_t lease_count;
	uint64_t held[LEASES_MAX]; /* tickets that were kept aside, some of them released */
	size_t held_count;
	uint64_t killed_after; /* counts of tickets up to this one may be low */
	/* Claims of one event end at different times. A count may go with the claim
	 * by which it was raised, so it may be low too. */
	bool told; /* when a write has ended */
	bool mixed_windows;
	unsigned char bytes[PAYLOAD_MAX];
	struct pair pairs[BATCH_MAX];
	size_t pair_count;
	char log[ERROR_TEXT_MAX];
};

#define EXPECT(world, condition)                                                                   \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("%s, step %llu (%s): %s does not hold; last log: %s",             \
			         test_note_seed((world)->seed), (unsigned long long)(world)->step, \
			         (world)->doing, #condition, (world)->log);                        \
	} while (0)

/* What the histories came to, so that a rule that never applies is seen. */
static uint64_t verdicts[VERDICT_COUNT], would_verdicts[VERDICT_COUNT], releases;

static uint64_t below(struct world *world, uint64_t n)
{
	return n ? test_random_below(&world->random, n) : 0;
}

static void keep_log(void *user, enum local_store_level level, const char *text)
{
	struct world *world = user;

	(void)level;
	snprintf(world->log, sizeof(world->log), "%s", text);
}

static void local_open(struct world *world)
{
	struct error_text text = { "" };

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
	world->options = (struct local_store_options){
		.path = "data",
		.clock = &world->jumpy_clock.clock,
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = below(world, 2) ? HOUR_MS : 1000,
		.retain_bytes = below(world, 2) ? 256u << 10 : 64u << 10,
		.keeper_inline = true,
		.lazy_outcomes = below(world, 2),
		.beside_bytes = below(world, 2) ? 512 : 0,
		.log = keep_log,
		.log_user = world,
	};
	world->told = below(world, 2);
	struct memory_store_options options = { .clock = &world->true_clock.clock };
	assert_int_equal(memory_store_open(&options, &world->memory), 0);
	local_open(world);
}

static void world_end(struct world *world)
{
	store_free(world->memory);
	store_free(world->local);
	simfs_free(world->simfs);
	buf_free(&world->waiting.take.items);
	buf_free(&world->memory_items);
}

/* ---- building operations ---- */

static const uint32_t windows_s[] = { 1, 5, 60, 511, 600, 1001, 3600, 86400, 345600, 3000001 };

static struct digest digest_of(uint64_t index)
{
	uint64_t random = index + 77;
	uint64_t first = test_random(&random);

	return (struct digest){ { first, test_random(&random) } };
}

/* The claims of one event are different rules, so never the same digest. */
static void claim_make(struct world *world, struct claim *claim, uint64_t index)
{
	uint64_t kind = below(world, 8);

	*claim = (struct claim){ .shadow = below(world, 8) == 0 };
	if (kind == 0) {
		claim->kind = CLAIM_NEWEST;
		claim->digest = digest_of(DIGESTS + index % ENTITIES);
		claim->order = below(world, ORDERS);
		claim->equal_drops = below(world, 2);
		return;
	}
	claim->kind = kind == 1 ? CLAIM_CONTENT : CLAIM_ONCE;
	/* Mostly the same content, or that would be all; sometimes unknown. */
	uint32_t check = below(world, 6) ? 1 : (uint32_t)below(world, CHECKS);
	claim->digest = digest_with_check(digest_of(index), check);
}

static void claims_make(struct world *world, struct store_admit *admit)
{
	uint64_t first = below(world, DIGESTS);
	uint32_t window_s = windows_s[below(world, ARRAY_LEN(windows_s))];

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		if (world->mixed_windows)
			window_s = windows_s[below(world, ARRAY_LEN(windows_s))];
		claim_make(world, &admit->claims[i], (first + i * 7) % DIGESTS);
		admit->claims[i].window_s = window_s;
	}
	admit->on_conflict = (enum store_conflict)below(world, 3);
	admit->busy_if_open = below(world, 4) == 0;
}

static void admit_make(struct world *world, struct store_admit *admit)
{
	uint64_t len = below(world, 20) == 0 ? below(world, PAYLOAD_MAX) : below(world, 300);
	uint64_t start = below(world, PAYLOAD_MAX - len);

	*admit = (struct store_admit){
		.claim_count = 1 + (uint32_t)(below(world, 3) ? 0 : below(world, CLAIMS_MAX)),
		.no_ticket = below(world, 5) == 0,
		.flags = (uint16_t)below(world, 65536),
		.source = span_of(world->bytes, below(world, STORE_SOURCE_MAX + 1)),
		.payload = span_of(world->bytes + start, len),
	};
	claims_make(world, admit);
	if (below(world, 40) == 0) { /* a replay that its sender asked for */
		admit->claim_count = 0;
		admit->no_ticket = false;
	}
}

static void release_make(struct world *world, struct store_release *release)
{
	*release = (struct store_release){ .drop = below(world, 2), .ticket = below(world, 1000) };
	if (below(world, 8) == 0 && world->lease_count)
		release->ticket = world->leases[0].ticket;
	else if (world->held_count)
		release->ticket = world->held[below(world, world->held_count)];
}

static void lookup_make(struct world *world, struct store_lookup *lookup)
{
	bool newest = below(world, 4) == 0;

	*lookup = (struct store_lookup){ .kind = newest ? CLAIM_NEWEST : CLAIM_ONCE };
	lookup->digest = digest_of(newest ? DIGESTS + below(world, ENTITIES)
	                                  : below(world, DIGESTS));
}

static void settle_make(struct world *world, struct store_settle *settle)
{
	static const enum outcome outcomes[] = { OUTCOME_DONE, OUTCOME_DONE, OUTCOME_DEAD,
		                                 OUTCOME_RELEASED };

	*settle = (struct store_settle){ .outcome = outcomes[below(world, 4)],
		                         .ticket = below(world, 1000),
		                         .attempt = 1 };
	if (world->lease_count == 0)
		return;
	size_t at = below(world, world->lease_count);
	settle->ticket = world->leases[at].ticket;
	settle->attempt = world->leases[at].attempt;
	if (below(world, 12) == 0)
		settle->attempt += (uint32_t)below(world, 3) - 1; /* a late or a wild one */
	else if (below(world, 8))                                 /* else it is tried again later */
		world->leases[at] = world->leases[--world->lease_count];
}

static void pair_make(struct world *world, struct pair *pair)
{
	uint64_t dice = below(world, 20);

	pair->done[0] = pair->done[1] = false;
	if (dice < 12) {
		pair->kind = STORE_ADMIT;
		admit_make(world, &pair->on[0].admit);
	} else if (dice < 13) {
		pair->kind = STORE_RELEASE;
		release_make(world, &pair->on[0].release);
	} else if (dice < 18) {
		pair->kind = STORE_SETTLE;
		settle_make(world, &pair->on[0].settle);
	} else {
		pair->kind = STORE_LOOKUP;
		lookup_make(world, &pair->on[0].lookup);
	}
	pair->on[1] = pair->on[0];
}

/* ---- comparing answers ---- */

static void seen_compare(struct world *world, uint64_t ticket, uint64_t memory, uint64_t local)
{
	bool exact = ticket > world->killed_after && !world->mixed_windows;
	bool right = exact ? local == memory : local <= memory;

	if (!right)
		fail_msg("%s, step %llu: ticket %llx was seen %llu times, the store says %llu",
		         test_note_seed(world->seed), (unsigned long long)world->step,
		         (unsigned long long)ticket, (unsigned long long)memory,
		         (unsigned long long)local);
}

/* Between its decision and its commit a settle may be seen or not. */
static bool settled_in_batch(const struct world *world, uint64_t ticket)
{
	for (size_t i = 0; i < world->pair_count; i++)
		if ((world->pairs[i].kind == STORE_SETTLE &&
		     world->pairs[i].on[0].settle.ticket == ticket) ||
		    (world->pairs[i].kind == STORE_RELEASE &&
		     world->pairs[i].on[0].release.ticket == ticket))
			return true;
	return false;
}

static bool same_verdict(const struct world *world, enum verdict memory, enum verdict local,
                         uint64_t ticket)
{
	return memory == local || (memory == VERDICT_DUPLICATE && local == VERDICT_BUSY &&
	                           settled_in_batch(world, ticket));
}

static void admit_compare(struct world *world, const struct store_admit *memory,
                          const struct store_admit *local)
{
	if (!same_verdict(world, memory->verdict, local->verdict, memory->ticket))
		fail_msg("%s, step %llu: the model says %s of ticket %llx by claim %u, the store "
		         "%s of ticket %llx by claim %u",
		         test_note_seed(world->seed), (unsigned long long)world->step,
		         verdict_name(memory->verdict), (unsigned long long)memory->ticket,
		         memory->matched, verdict_name(local->verdict),
		         (unsigned long long)local->ticket, local->matched);
	EXPECT(world, memory->matched == local->matched);
	EXPECT(world, memory->ticket == local->ticket);
	EXPECT(world, memory->own_ticket == local->own_ticket);
	EXPECT(world, memory->first_seen_ms == local->first_seen_ms);
	EXPECT(world, memory->order == local->order);
	EXPECT(world, same_verdict(world, memory->would, local->would, memory->would_ticket));
	EXPECT(world, memory->would_matched == local->would_matched);
	EXPECT(world, memory->would_ticket == local->would_ticket);
	if (memory->verdict == VERDICT_DUPLICATE || memory->verdict == VERDICT_BUSY)
		seen_compare(world, memory->ticket, memory->seen, local->seen);
	verdicts[memory->verdict]++;
	would_verdicts[memory->would]++;
	if (memory->verdict == VERDICT_CONFLICT && memory->on_conflict == STORE_CONFLICT_ASIDE &&
	    memory->own_ticket && world->held_count < LEASES_MAX)
		world->held[world->held_count++] = memory->own_ticket;
}

static void lookup_compare(struct world *world, const struct store_lookup *memory,
                           const struct store_lookup *local)
{
	EXPECT(world, memory->taken == local->taken);
	if (!memory->taken)
		return;
	bool unsure = settled_in_batch(world, memory->ticket);
	EXPECT(world, memory->ticket == local->ticket);
	EXPECT(world, memory->open == local->open || unsure);
	EXPECT(world, memory->held == local->held || unsure);
	EXPECT(world, memory->check == local->check);
	EXPECT(world, memory->order == local->order);
	EXPECT(world, memory->first_seen_ms == local->first_seen_ms);
	seen_compare(world, memory->ticket, memory->seen, local->seen);
}

static void pair_compare(struct world *world, struct pair *pair)
{
	EXPECT(world, pair->done[0] && pair->done[1]);
	EXPECT(world, pair->on[0].op.error == pair->on[1].op.error);
	if (pair->on[0].op.error < 0)
		return;
	if (pair->kind == STORE_ADMIT)
		admit_compare(world, &pair->on[0].admit, &pair->on[1].admit);
	else if (pair->kind == STORE_LOOKUP)
		lookup_compare(world, &pair->on[0].lookup, &pair->on[1].lookup);
	else if (pair->kind == STORE_RELEASE)
		releases++;
}

/* What the local store leased, the memory store leases too: the same tickets,
 * oldest first, byte for byte. How many a take gives is the store's affair. */
static void take_compare(struct world *world)
{
	struct take_call call = { .take.items = world->memory_items };
	size_t at[2] = { 0, 0 };
	struct store_item item[2];
	struct span source[2], payload[2];

	EXPECT(world, world->waiting.take.op.error == 0);
	EXPECT(world, world->waiting.take.count > 0);
	take_call_begin(world->memory, &call, world->waiting.take.count, UINT32_MAX);
	store_flush(world->memory);
	EXPECT(world, call.finished && call.take.op.error == 0);
	EXPECT(world, call.take.count == world->waiting.take.count);
	for (uint32_t i = 0; i < call.take.count; i++) {
		const struct buf *items[2] = { &call.take.items, &world->waiting.take.items };
		for (size_t k = 0; k < 2; k++)
			EXPECT(world, store_item_next(buf_span(items[k]), &at[k], &item[k],
			                              &source[k], &payload[k]));
		EXPECT(world, item[0].ticket == item[1].ticket);
		if (item[0].attempt != item[1].attempt)
			fail_msg("%s, step %llu: attempt %u of ticket %llx, the store says %u",
			         test_note_seed(world->seed), (unsigned long long)world->step,
			         item[0].attempt, (unsigned long long)item[0].ticket,
			         item[1].attempt);
		EXPECT(world, item[0].flags == item[1].flags);
		EXPECT(world, span_eq(source[0], source[1]) && span_eq(payload[0], payload[1]));
		if (world->lease_count < LEASES_MAX)
			world->leases[world->lease_count++] = (struct lease){ item[1].ticket,
				                                              item[1].attempt };
	}
	EXPECT(world, at[1] == world->waiting.take.items.len);
	world->memory_items = call.take.items;
}

static void stats_compare(struct world *world)
{
	struct store_stats memory, local;
	store_stats(world->memory, &memory);
	store_stats(world->local, &local);
	EXPECT(world, memory.open_tickets == local.open_tickets);
	EXPECT(world, memory.due_tickets == local.due_tickets);
	EXPECT(world, memory.held_tickets == local.held_tickets);
	EXPECT(world, local.writable);
	EXPECT(world, !world->waiting.waiting || local.due_tickets == 0);
}

static void flush_both(struct world *world)
{
	store_flush(world->memory);
	store_calls_flush(world->local);
	if (world->options.lazy_outcomes)
		store_tick(world->local);
	if (take_call_poll(&world->waiting))
		take_compare(world);
}

/* Some come while the write of those before is under way. A take is then served with
 * what is durable: so while one waits, each operation is seen to its end. */
static void flush_between(struct world *world)
{
	bool beside = world->options.beside_bytes > 0;

	if (beside && world->waiting.waiting) {
		flush_both(world);
	} else if (beside && below(world, 8) == 0) {
		store_flush(world->memory);
		store_flush(world->local);
	}
}

/* ---- steps ---- */

static void step_batch(struct world *world)
{
	world->pair_count = 1 + below(world, BATCH_MAX);
	for (size_t i = 0; i < world->pair_count; i++) {
		struct pair *pair = &world->pairs[i];
		flush_between(world);
		pair_make(world, pair);
		for (size_t k = 0; k < 2; k++) {
			pair->on[k].op.kind = pair->kind;
			pair->on[k].op.done = store_calls_done;
			pair->on[k].op.user = &pair->done[k];
			store_submit(k == 0 ? world->memory : world->local, &pair->on[k].op);
		}
	}
	flush_both(world);
	for (size_t i = 0; i < world->pair_count; i++)
		pair_compare(world, &world->pairs[i]);
	stats_compare(world);
}

static void step_take(struct world *world)
{
	static const uint32_t sizes[] = { 1, 100, 2000, 20000, 1u << 20 };

	if (!world->waiting.waiting)
		take_call_begin(world->local, &world->waiting, 1 + (uint32_t)below(world, 40),
		                sizes[below(world, ARRAY_LEN(sizes))]);
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
		store_tick(world->memory);
		store_tick(world->local);
	}
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
	memory_store_restart(world->memory);
	local_open(world);
	flush_both(world);
	stats_compare(world);
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
	EXPECT(world, store_call(world->memory, &last.op, STORE_ADMIT) == 0);
	EXPECT(world, store_call(world->local, &twin.op, STORE_ADMIT) == 0);
	EXPECT(world, last.ticket == twin.ticket);
	world->killed_after = last.ticket;
}

static const struct {
	uint64_t until;
	const char *name;
	void (*run)(struct world *world);
} kinds[] = {
	{ 55, "batch", step_batch }, { 75, "take", step_take },     { 90, "time", step_time },
	{ 94, "jump", step_jump },   { 97, "reopen", step_reopen }, { 100, "kill", step_kill },
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
	uint64_t seed = test_seed(), count = test_scale(150);

	for (uint64_t i = 0; i < count; i++)
		history_run(seed + i, 300);
}

static void test_long_history_keeps_answering_as_the_model_does(void **state)
{
	(void)state;
	history_run(test_seed(), test_scale(20000));
}

/* After the others. */
static void test_the_histories_came_to_every_verdict(void **state)
{
	(void)state;
	for (int i = VERDICT_NEW; i < VERDICT_COUNT; i++)
		assert_true(verdicts[i] > 0);
	for (int i = VERDICT_DUPLICATE; i < VERDICT_COUNT; i++)
		assert_true(would_verdicts[i] > 0);
	assert_true(releases > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_store_answers_as_the_model_does),
		cmocka_unit_test(test_long_history_keeps_answering_as_the_model_does),
		cmocka_unit_test(test_the_histories_came_to_every_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
