/*
 * The spool: a shared store that goes away, loses answers and comes back; a node that
 * dies in between. Whatever was acknowledged is decided, once.
 */
#include "store/spool/spool_store.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/spool/spool_record.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/store_calls.h"
#include "support/test.h"

#define DAY_S 86400u

/* ---- a store that fails as told ---- */

enum shaky_mode {
	SHAKY_WELL = 0,
	SHAKY_AWAY, /* nothing is done */
	SHAKY_PART, /* nothing is done of events with odd numbers, which is told after 5 s */
	SHAKY_DEAF, /* it is done, and nobody hears of it */
	SHAKY_DEAD, /* the process has died: nothing is done, and nothing is told but that */
};

#define SLOTS 4096

struct shaky {
	struct store store;
	struct store *inner; /* the test's */
	enum shaky_mode mode;
	uint32_t asked; /* operations that came */
	struct slot {
		struct shaky *shaky;
		struct store_op *op;
		void (*done)(struct store_op *op);
		void *user;
		bool deaf;
	} slots[SLOTS];
	struct store_op *failed[SLOTS];
	uint32_t failed_count;
	struct store_op *mute[SLOTS];
	uint64_t mute_until_ms[SLOTS];
	uint32_t mute_count, mute_told;
};

static struct clock_fake fake;

static bool is_odd(const struct store_op *op)
{
	return op->kind == STORE_ADMIT &&
	       container_of(op, const struct store_admit, op)->claims[0].digest.word[1] >> 32 & 1;
}

static void slot_done(struct store_op *op)
{
	struct slot *slot = op->user;
	op->done = slot->done;
	op->user = slot->user;
	if (slot->deaf)
		op->error = ERR_AWAY;
	if (slot->shaky->mode == SHAKY_DEAD)
		op->error = ERR_CLOSING;
	slot->op = NULL;
	op->done(op);
}

static void shaky_submit(struct store *store, struct store_op *op)
{
	struct shaky *shaky = container_of(store, struct shaky, store);
	shaky->asked++;
	if (shaky->mode == SHAKY_AWAY || shaky->mode == SHAKY_DEAD) {
		shaky->failed[shaky->failed_count++] = op;
		return;
	}
	if (shaky->mode == SHAKY_PART && is_odd(op)) {
		uint32_t at = shaky->mute_count++ % SLOTS;
		shaky->mute[at] = op;
		shaky->mute_until_ms[at] = clock_read(&fake.clock).boot_ms + 5000;
		return;
	}
	struct slot *slot = shaky->slots;
	while (slot->op)
		assert_true(++slot < shaky->slots + SLOTS);
	*slot = (struct slot){ shaky, op, op->done, op->user,
		               shaky->mode == SHAKY_DEAF && op->kind != STORE_TAKE };
	op->done = slot_done;
	op->user = slot;
	store_submit(shaky->inner, op);
}

static void shaky_flush(struct store *store)
{
	struct shaky *shaky = container_of(store, struct shaky, store);
	while (shaky->failed_count > 0) {
		struct store_op *op = shaky->failed[--shaky->failed_count];
		op->error = shaky->mode == SHAKY_DEAD ? ERR_CLOSING : ERR_AWAY;
		op->done(op);
	}
	while (shaky->mute_told < shaky->mute_count &&
	       (shaky->mode != SHAKY_PART || shaky->mute_until_ms[shaky->mute_told % SLOTS] <=
	                                             clock_read(&fake.clock).boot_ms)) {
		struct store_op *op = shaky->mute[shaky->mute_told++ % SLOTS];
		op->error = shaky->mode == SHAKY_DEAD ? ERR_CLOSING : ERR_AWAY;
		op->done(op);
	}
	store_flush(shaky->inner);
}

static void shaky_tick(struct store *store)
{
	store_tick(container_of(store, struct shaky, store)->inner);
}

static void shaky_stats(struct store *store, struct store_stats *ret_stats)
{
	store_stats(container_of(store, struct shaky, store)->inner, ret_stats);
}

/* What waits comes back; the store behind it stays. */
static void shaky_free(struct store *store)
{
	struct shaky *shaky = container_of(store, struct shaky, store);
	shaky->mode = SHAKY_DEAD;
	shaky_flush(store);
	model_store_restart(shaky->inner);
}

static const struct store_methods shaky_methods = {
	.submit = shaky_submit,
	.flush = shaky_flush,
	.tick = shaky_tick,
	.stats = shaky_stats,
	.free = shaky_free,
};

/* ---- a node ---- */

struct world {
	struct store *far, *near; /* what they remember outlives the node */
	struct shaky shared, local;
	struct store *node;
	bool in_parts;
};

static struct store *memory_make(void)
{
	struct store *store = NULL;
	assert_int_equal(model_store_open(&(struct model_store_options){ .clock = &fake.clock },
	                                  &store),
	                 0);
	return store;
}

static void shaky_init(struct shaky *shaky, struct store *inner)
{
	memset(shaky, 0, sizeof(*shaky));
	shaky->store.methods = &shaky_methods;
	shaky->store.commit_us = inner->commit_us;
	shaky->store.commit_batch = inner->commit_batch;
	shaky->inner = inner;
}

static void node_start(struct world *world)
{
	shaky_init(&world->shared, world->far);
	shaky_init(&world->local, world->near);
	struct spool_store_options options = { .shared = &world->shared.store,
		                               .local = &world->local.store,
		                               .clock = &fake.clock,
		                               .in_parts = world->in_parts,
		                               .ready_when_away = true };
	assert_int_equal(spool_store_open(&options, &world->node), 0);
}

static struct world *world_make_of(bool in_parts)
{
	struct world *world = mem_zalloc(1, sizeof(*world));
	assert_non_null(world);
	world->in_parts = in_parts;
	clock_fake_init(&fake);
	world->far = memory_make();
	world->near = memory_make();
	node_start(world);
	return world;
}

static struct world *world_make(void)
{
	return world_make_of(false);
}

/* kill -9: nothing that is under way is heard of. */
static void node_kill(struct world *world)
{
	world->shared.mode = world->local.mode = SHAKY_DEAD;
	world->node = store_free(world->node);
}

static void world_free(struct world *world)
{
	store_free(world->node);
	store_free(world->far);
	store_free(world->near);
	mem_free(world);
}

/* Time passes until the node has asked again and done what it can. */
static void pass_time(struct world *world, uint64_t ms)
{
	for (uint64_t at = 0; at < ms; at += 50) {
		clock_fake_advance(&fake, 50);
		store_tick(world->node);
		store_calls_flush(world->node);
	}
}

/* ---- events ---- */

static struct digest digest_of(uint64_t number)
{
	return (struct digest){ { number * UINT64_C(0x9e3779b97f4a7c15) + 1, number << 32 } };
}

static struct store_admit once_event(uint64_t number)
{
	return (struct store_admit){
		.claims = { { .digest = digest_of(number), .window_s = 4 * DAY_S } },
		.claim_count = 1,
		.source = SPAN("orders"),
		.metadata = SPAN("a letter"),
		.payload = SPAN("{\"id\":1}"),
		.flags = STORE_EVENT_JSON,
		.spool = true,
	};
}

static int admit(struct world *world, struct store_admit *event)
{
	return store_call(world->node, &event->op, STORE_ADMIT);
}

/* The breaker opens. */
static void go_away(struct world *world)
{
	world->shared.mode = SHAKY_AWAY;
	for (int i = 0; i < (world->in_parts ? 60 : 6); i++) {
		struct store_lookup lookup = { .digest = digest_of(1), .kind = CLAIM_ONCE };
		assert_int_equal(store_call(world->node, &lookup.op, STORE_LOOKUP), ERR_AWAY);
	}
	struct store_stats stats;
	store_stats(world->node, &stats);
	assert_true(stats.away);
}

static void come_back(struct world *world)
{
	world->shared.mode = SHAKY_WELL;
	pass_time(world, 5000);
	struct store_stats stats;
	store_stats(world->node, &stats);
	assert_false(stats.away);
	assert_int_equal(stats.spooled_events, 0);
}

static uint64_t open_tickets(struct store *store)
{
	struct store_stats stats;
	store_stats(store, &stats);
	return stats.open_tickets;
}

/* ---- tests ---- */

static void test_passes_on_what_the_store_says(void **state)
{
	(void)state;
	struct world *world = world_make();
	struct store_admit first = once_event(1), again = once_event(1);
	assert_int_equal(admit(world, &first), 0);
	assert_int_equal(first.verdict, VERDICT_NEW);
	assert_int_equal(admit(world, &again), 0);
	assert_int_equal(again.verdict, VERDICT_DUPLICATE);
	assert_int_equal(again.ticket, first.ticket);
	assert_int_equal(again.claim_count, 1);
	assert_int_equal(open_tickets(world->near), 0);
	world_free(world);
}

static void test_fails_fast_and_recovers_by_itself(void **state)
{
	(void)state;
	struct world *world = world_make();
	go_away(world);
	uint32_t asked = world->shared.asked;
	for (int i = 0; i < 100; i++) {
		struct store_admit event = once_event(1);
		event.spool = false;
		assert_int_equal(admit(world, &event), ERR_AWAY);
	}
	assert_int_equal(world->shared.asked, asked);
	pass_time(world, 10000);
	assert_in_range(world->shared.asked - asked, 3, 30); /* probes, less and less often */
	come_back(world);
	struct store_admit event = once_event(1);
	assert_int_equal(admit(world, &event), 0);
	assert_int_equal(event.verdict, VERDICT_NEW);
	world_free(world);
}

static void test_spooled_is_decided_in_order_with_all_it_came_with(void **state)
{
	(void)state;
	struct world *world = world_make();
	struct store_leg legs[2] = { { .sink = 7, .order = 70 }, { .sink = 8, .order = 80 } };
	go_away(world);
	for (uint64_t i = 0; i < 300; i++) {
		struct store_admit event = once_event(i / 2);
		event.legs = legs;
		event.leg_count = 2;
		assert_int_equal(admit(world, &event), 0);
		assert_int_equal(event.verdict, VERDICT_SPOOLED);
		assert_int_not_equal(event.ticket, 0);
	}
	assert_int_equal(open_tickets(world->far), 0);
	come_back(world);
	assert_int_equal(open_tickets(world->far), 300); /* 150 events with two legs */
	assert_int_equal(open_tickets(world->near), 0);

	struct store_take take = { .sink = 8, .max_items = 1000, .max_bytes = 1u << 20 };
	assert_int_equal(store_call(world->node, &take.op, STORE_TAKE), 0);
	assert_int_equal(take.count, 150);
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	assert_true(store_item_next(buf_span(&take.items), &offset, &item, &parts));
	assert_int_equal(item.order, 80);
	assert_int_equal(item.flags, STORE_EVENT_JSON);
	assert_true(span_eq(parts.metadata, SPAN("a letter")));
	assert_true(span_eq(parts.payload, SPAN("{\"id\":1}")));
	assert_true(span_eq(parts.source, SPAN("orders")));
	for (uint64_t i = 0; i < 150; i++) { /* numbers go up as events came */
		struct store_lookup lookup = { .digest = digest_of(i), .kind = CLAIM_ONCE };
		assert_int_equal(store_call(world->far, &lookup.op, STORE_LOOKUP), 0);
		assert_true(lookup.taken);
		assert_int_equal(lookup.seen, 1); /* copies */
		assert_true(lookup.ticket + 1 >= item.ticket);
	}
	buf_free(&take.items);
	world_free(world);
}

/* Kinds of events whose second admission only the mark can tell. */
static struct store_admit event_of_kind(int kind, uint64_t number)
{
	struct store_admit event = once_event(number);
	switch (kind) {
	case 1: event.claims[0].kind = CLAIM_NEWEST; break;
	case 2: event.claims[0].shadow = true; break;
	case 3: event.claim_count = 0; break;
	case 4: event.claims[0].window_s = 60; break;
	case 5: event.claims[0].kind = CLAIM_CONTENT; break;
	default: break;
	}
	event.claims[0].order = number;
	return event;
}

static void test_lost_answer_makes_no_second_ticket(void **state)
{
	(void)state;
	for (int kind = 0; kind < 6; kind++) {
		struct world *world = world_make();
		struct store_admit event = event_of_kind(kind, 5);
		uint32_t claims = event.claim_count;
		world->shared.mode = SHAKY_DEAF;
		assert_int_equal(admit(world, &event), 0);
		assert_int_equal(event.verdict, VERDICT_SPOOLED);
		assert_int_equal(event.claim_count, claims);
		world->shared.mode = SHAKY_WELL;
		pass_time(world, 5000);
		assert_int_equal(open_tickets(world->far), 1);
		assert_int_equal(open_tickets(world->near), 0);
		world_free(world);
	}
}

static void test_node_that_dies_before_it_hears_of_the_decision_makes_no_second_ticket(void **state)
{
	(void)state;
	for (int kind = 0; kind < 6; kind++) {
		struct world *world = world_make();
		struct store_admit event = event_of_kind(kind, 5);
		go_away(world);
		assert_int_equal(admit(world, &event), 0);
		assert_int_equal(event.verdict, VERDICT_SPOOLED);
		/* The decision is made, and the node dies before it can note it. */
		pass_time(world, 100);
		world->shared.mode = SHAKY_WELL;
		world->local.mode = SHAKY_DEAD;
		pass_time(world, 3000);
		assert_int_equal(open_tickets(world->far), 1);
		assert_int_equal(open_tickets(world->near), 1);
		node_kill(world);
		clock_fake_advance(&fake, 2 * DAY_S * UINT64_C(1000)); /* past short windows */
		node_start(world);
		pass_time(world, 5000);
		assert_int_equal(open_tickets(world->far), 1);
		assert_int_equal(open_tickets(world->near), 0);
		world_free(world);
	}
}

static void test_part_that_is_away_holds_up_nobody_else(void **state)
{
	(void)state;
	struct world *world = world_make_of(true);
	struct store_stats stats;
	uint64_t decided = 0;
	go_away(world);
	for (uint64_t i = 0; i < 3000; i++) {
		struct store_admit event = once_event(i);
		assert_int_equal(admit(world, &event), 0);
		assert_int_equal(event.verdict, VERDICT_SPOOLED);
	}
	world->shared.mode = SHAKY_PART;
	for (int s = 0; s < 120 && decided < 1500; s++) {
		pass_time(world, 1000);
		decided = open_tickets(world->far);
	}
	assert_int_equal(decided, 1500);
	store_stats(world->node, &stats);
	assert_false(stats.away); /* the others are there */
	assert_int_equal(stats.spooled_events, 1500);
	struct store_admit event = once_event(10000);
	assert_int_equal(admit(world, &event), 0);
	assert_int_equal(event.verdict, VERDICT_SPOOLED); /* behind the others */
	pass_time(world, 20000);
	assert_int_equal(open_tickets(world->far), 1501);
	node_kill(world);
	node_start(world);
	world->shared.mode = SHAKY_WELL;
	pass_time(world, 20000);
	store_stats(world->node, &stats);
	assert_int_equal(stats.spooled_events, 0);
	assert_int_equal(open_tickets(world->far), 3001);
	assert_int_equal(open_tickets(world->near), 0);
	world_free(world);
}

static void test_windows_count_from_when_the_event_came(void **state)
{
	(void)state;
	struct world *world = world_make();
	struct store_admit event = once_event(9), copy = once_event(9);
	go_away(world);
	assert_int_equal(admit(world, &event), 0);
	clock_fake_advance(&fake, 3 * DAY_S * UINT64_C(1000));
	come_back(world);
	copy.spool = false;
	assert_int_equal(admit(world, &copy), 0);
	assert_int_equal(copy.verdict, VERDICT_DUPLICATE);
	clock_fake_advance(&fake, (DAY_S + 600) * UINT64_C(1000));
	assert_int_equal(admit(world, &copy), 0);
	assert_int_equal(copy.verdict, VERDICT_NEW); /* four days after it came */
	world_free(world);
}

static void test_outcome_waits_until_the_store_is_back(void **state)
{
	(void)state;
	struct world *world = world_make();
	struct store_admit event = once_event(3);
	assert_int_equal(admit(world, &event), 0);
	struct store_take take = { .max_items = 1, .max_bytes = 1024 };
	assert_int_equal(store_call(world->node, &take.op, STORE_TAKE), 0);
	assert_int_equal(take.count, 1);
	go_away(world);
	bool finished = false;
	struct store_settle settle = {
		.op = { .kind = STORE_SETTLE, .done = store_calls_done, .user = &finished },
		.ticket = event.ticket,
		.attempt = 1,
		.outcome = OUTCOME_DONE,
	};
	store_submit(world->node, &settle.op);
	store_calls_flush(world->node);
	assert_false(finished);
	come_back(world);
	assert_true(finished);
	assert_int_equal(settle.op.error, 0);
	assert_int_equal(open_tickets(world->far), 0);
	buf_free(&take.items);
	world_free(world);
}

static void test_event_that_could_not_be_told_from_its_copy_is_refused(void **state)
{
	(void)state;
	struct world *world = world_make();
	struct store_admit event = once_event(3);
	event.claim_count = CLAIMS_MAX;
	for (uint32_t i = 0; i < CLAIMS_MAX; i++)
		event.claims[i] = (struct claim){ .digest = digest_of(100 + i),
			                          .window_s = 60,
			                          .kind = i ? CLAIM_NEWEST : CLAIM_ONCE };
	go_away(world);
	assert_int_equal(admit(world, &event), ERR_AWAY);
	assert_int_equal(open_tickets(world->near), 0);
	event.claims[0].window_s = DAY_S;
	assert_int_equal(admit(world, &event), 0);
	assert_int_equal(event.verdict, VERDICT_SPOOLED);
	world_free(world);
}

/* Events of all kinds, a store that comes and goes, nodes that die: each key that was
 * acknowledged has one ticket in the end, and the others have one at most. */
static void test_history_loses_and_doubles_nothing(void **state)
{
	(void)state;
	enum { KEYS = 400 };
	static const enum shaky_mode modes[] = { SHAKY_WELL, SHAKY_AWAY, SHAKY_DEAF };
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
		struct world *world = world_make_of(seed % 2 == 0);
		bool acknowledged[KEYS] = { false };
		for (int step = 0; step < 1500; step++) {
			uint64_t key = test_random_below(&random, KEYS);
			struct store_admit event = once_event(key);
			event.spool = test_random_below(&random, 4) > 0;
			event.claims[0].kind = key % 3 == 0 ? CLAIM_CONTENT : CLAIM_ONCE;
			if (admit(world, &event) == 0)
				acknowledged[key] = true;
			if (test_random_below(&random, 20) == 0)
				world->shared.mode = modes[test_random_below(&random, 3)];
			if (test_random_below(&random, 4) == 0)
				pass_time(world, 50 + test_random_below(&random, 400));
			if (test_random_below(&random, 100) == 0) {
				node_kill(world);
				node_start(world);
			}
		}
		world->shared.mode = SHAKY_WELL;
		pass_time(world, 20000);
		assert_int_equal(open_tickets(world->near), 0);
		uint64_t taken = 0;
		for (uint64_t key = 0; key < KEYS; key++) {
			struct store_lookup lookup = { .digest = digest_of(key),
				                       .kind = CLAIM_ONCE };
			assert_int_equal(store_call(world->far, &lookup.op, STORE_LOOKUP), 0);
			if (acknowledged[key] && !lookup.taken)
				fail_msg("seed %d: key %d is lost", (int)seed, (int)key);
			taken += lookup.taken;
		}
		if (open_tickets(world->far) != taken)
			fail_msg("seed %d: %d tickets of %d keys", (int)seed,
			         (int)open_tickets(world->far), (int)taken);
		world_free(world);
	}
}

/* Whatever cannot be allocated: an answer comes, and what was acknowledged is there. */
static void test_without_memory_nothing_acknowledged_is_lost(void **state)
{
	(void)state;
	for (unsigned long fail = 1; fail < 60; fail++) {
		struct world *world = world_make();
		bool acknowledged[12] = { false };
		go_away(world);
		mem_fail_at(fail, false);
		for (uint64_t i = 0; i < 12; i++) {
			struct store_admit event = once_event(i);
			acknowledged[i] = admit(world, &event) == 0;
			if (i == 6)
				world->shared.mode = SHAKY_WELL;
			if (i > 6)
				pass_time(world, 300);
		}
		mem_fail_at(0, false);
		come_back(world);
		for (uint64_t i = 0; i < 12; i++) {
			struct store_lookup lookup = { .digest = digest_of(i), .kind = CLAIM_ONCE };
			assert_int_equal(store_call(world->far, &lookup.op, STORE_LOOKUP), 0);
			if (acknowledged[i] && !lookup.taken)
				fail_msg("allocation %d: event %d is lost", (int)fail, (int)i);
		}
		world_free(world);
	}
}

static void test_record_is_read_as_written_and_no_part_of_it_is(void **state)
{
	(void)state;
	struct store_leg legs[STORE_LEGS_MAX];
	struct store_admit event = once_event(77);
	for (uint32_t i = 0; i < STORE_LEGS_MAX; i++)
		legs[i] = (struct store_leg){ .sink = i + 5, .order = UINT64_MAX - i };
	event.legs = legs;
	event.leg_count = STORE_LEGS_MAX;
	event.on_conflict = STORE_CONFLICT_REJECT;
	event.claims[1] = (struct claim){ .digest = digest_of(4),
		                          .window_s = UINT32_MAX,
		                          .kind = CLAIM_NEWEST,
		                          .shadow = true,
		                          .equal_drops = true,
		                          .order = UINT64_MAX };
	event.claim_count = 2;
	struct digest mark = { { 11, 12 } };
	struct buf out = { 0 };
	struct spool_record record;
	assert_int_equal(spool_record_write(&event, &mark, &out), 0);
	assert_int_equal(spool_record_read(buf_span(&out), &record), 0);
	assert_int_equal(record.mark.word[1], 12);
	assert_int_equal(record.admit.leg_count, STORE_LEGS_MAX);
	assert_int_equal(record.admit.legs[15].sink, legs[15].sink);
	assert_int_equal(record.admit.legs[15].order, legs[15].order);
	assert_int_equal(record.admit.claims[1].order, UINT64_MAX);
	assert_true(record.admit.claims[1].shadow && record.admit.claims[1].equal_drops);
	assert_true(record.admit.on_conflict == STORE_CONFLICT_REJECT);
	assert_true(span_eq(record.admit.metadata, event.metadata));
	assert_true(span_eq(record.admit.payload, event.payload));

	size_t head = out.len - event.payload.len;
	for (size_t len = 0; len < head; len++)
		assert_int_equal(spool_record_read(span_of(out.ptr, len), &record), ERR_INVALID);
	out.ptr[0] = 2;
	assert_int_equal(spool_record_read(buf_span(&out), &record), ERR_VERSION);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_on_what_the_store_says),
		cmocka_unit_test(test_fails_fast_and_recovers_by_itself),
		cmocka_unit_test(test_spooled_is_decided_in_order_with_all_it_came_with),
		cmocka_unit_test(test_lost_answer_makes_no_second_ticket),
		cmocka_unit_test(
			test_node_that_dies_before_it_hears_of_the_decision_makes_no_second_ticket),
		cmocka_unit_test(test_part_that_is_away_holds_up_nobody_else),
		cmocka_unit_test(test_windows_count_from_when_the_event_came),
		cmocka_unit_test(test_outcome_waits_until_the_store_is_back),
		cmocka_unit_test(test_event_that_could_not_be_told_from_its_copy_is_refused),
		cmocka_unit_test(test_history_loses_and_doubles_nothing),
		cmocka_unit_test(test_without_memory_nothing_acknowledged_is_lost),
		cmocka_unit_test(test_record_is_read_as_written_and_no_part_of_it_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
