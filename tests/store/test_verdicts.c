/*
 * Every verdict, kind of claim and policy, one by one, on every store: all but the
 * model are closed and opened again between the steps, so that what they say
 * comes from the disk, or the server, too.
 */
#include "place.h"

#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"

#define WINDOW_S 60u

/* ---- events ---- */

static struct claim once(uint64_t key, uint32_t check)
{
	return (struct claim){ .digest = { { key * UINT64_C(0x9e3779b97f4a7c15),
		                             UINT64_C(7) << 32 | check } },
		               .window_s = WINDOW_S,
		               .kind = CLAIM_ONCE };
}

static struct claim content(uint64_t key, uint32_t check)
{
	struct claim claim = once(key, check);

	claim.kind = CLAIM_CONTENT;
	return claim;
}

static struct claim newest(uint64_t entity, uint64_t order)
{
	struct claim claim = once(entity, 0);

	claim.kind = CLAIM_NEWEST;
	claim.order = order;
	return claim;
}

static struct claim shadow(struct claim claim)
{
	claim.shadow = true;
	return claim;
}

static struct store_admit event(struct claim claim)
{
	return (struct store_admit){
		.claims = { claim }, .claim_count = 1, .source = SPAN("s"), .payload = SPAN("{}")
	};
}

static struct store_admit event_of_two(struct claim first, struct claim second)
{
	struct store_admit admit = event(first);

	admit.claims[1] = second;
	admit.claim_count = 2;
	return admit;
}

static struct store_admit run(struct store_admit admit)
{
	assert_int_equal(store_call(place.store, &admit.op, STORE_ADMIT), 0);
	return admit;
}

static enum verdict verdict_of(struct claim claim)
{
	return run(event(claim)).verdict;
}

static struct store_lookup look(struct claim claim)
{
	struct store_lookup lookup = { .digest = claim.digest, .kind = claim.kind };

	assert_int_equal(store_call(place.store, &lookup.op, STORE_LOOKUP), 0);
	return lookup;
}

static int release(uint64_t ticket, bool drop)
{
	struct store_release op = { .ticket = ticket, .drop = drop };

	return store_call(place.store, &op.op, STORE_RELEASE);
}

/* The next ticket that is due, settled as done; 0 if none is. */
static uint64_t deliver(void)
{
	struct take_call call = { 0 };
	struct store_stats stats;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;

	store_stats(place.store, &stats);
	if (stats.due_tickets == 0)
		return 0;
	take_call_begin(place.store, &call, 1, 1000);
	store_flush(place.store);
	assert_true(take_call_poll(&call));
	assert_true(store_item_next(buf_span(&call.take.items), &at, &item, &parts));
	struct store_settle settle = { .ticket = item.ticket,
		                       .attempt = item.attempt,
		                       .outcome = OUTCOME_DONE };
	assert_int_equal(store_call(place.store, &settle.op, STORE_SETTLE), 0);
	buf_free(&call.take.items);
	return item.ticket;
}

static uint64_t held_count(void)
{
	struct store_stats stats;

	store_tick(place.store);
	store_stats(place.store, &stats);
	return stats.held_tickets;
}

/* ---- tests ---- */

static void test_other_content_under_a_key_is_no_duplicate(void **state)
{
	(void)state;
	struct store_admit first = run(event(once(1, 100)));

	assert_int_equal(verdict_of(once(1, 100)), VERDICT_DUPLICATE);
	place_restart();
	assert_int_equal(look(once(1, 0)).check, 100);
	struct store_admit other = event(once(1, 200));
	other.on_conflict = STORE_CONFLICT_REJECT;
	other = run(other);
	assert_int_equal(other.verdict, VERDICT_CONFLICT);
	assert_true(other.ticket == first.ticket && other.own_ticket == 0);
	assert_true(other.first_seen_ms == first.first_seen_ms);
	assert_int_equal(held_count(), 0);
	assert_true(deliver() == first.ticket && deliver() == 0);
}

static void test_content_that_is_not_known_makes_no_conflict(void **state)
{
	(void)state;
	run(event(once(1, 0)));
	run(event(once(2, 100)));
	run(event(content(3, 100)));
	place_restart();
	assert_int_equal(verdict_of(once(1, 200)), VERDICT_DUPLICATE);
	assert_int_equal(verdict_of(once(2, 0)), VERDICT_DUPLICATE);
	assert_int_equal(verdict_of(content(3, 200)), VERDICT_DUPLICATE);
}

static void test_a_conflict_is_kept_aside_once_and_not_delivered(void **state)
{
	(void)state;
	struct store_admit first = run(event(once(1, 100)));
	struct store_admit other = run(event_of_two(once(1, 200), once(2, 200)));

	assert_int_equal(other.verdict, VERDICT_CONFLICT);
	assert_true(other.ticket == first.ticket && other.own_ticket > first.ticket);
	assert_int_equal(held_count(), 1);
	place_restart();
	assert_int_equal(held_count(), 1);
	struct store_admit again = run(event_of_two(once(1, 200), once(2, 200)));
	assert_int_equal(again.verdict, VERDICT_DUPLICATE);
	assert_true(again.ticket == other.own_ticket && again.own_ticket == 0);
	assert_int_equal(again.seen, 1);
	struct store_admit third = run(event(once(1, 300)));
	assert_int_equal(third.verdict, VERDICT_CONFLICT);
	assert_int_equal(held_count(), 2);
	assert_false(look(once(2, 0)).taken);
	assert_int_equal(verdict_of(once(1, 100)), VERDICT_DUPLICATE);
	assert_true(deliver() == first.ticket && deliver() == 0);
}

static uint32_t list_held(uint64_t before, uint64_t *tickets, uint32_t max)
{
	struct store_held held = { .before = before, .tickets = tickets, .max = max };

	assert_int_equal(store_call(place.store, &held.op, STORE_HELD), 0);
	return held.count;
}

static void test_held_events_are_listed_newest_first(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t made[4], found[8];

	assert_int_equal(list_held(0, found, 8), 0);
	for (uint32_t i = 0; i < 4; i++) {
		run(event(once(i + 1, 100)));
		made[i] = run(event(once(i + 1, 200))).own_ticket;
	}
	place_restart();
	assert_int_equal(release(made[1], true), 0);
	assert_int_equal(list_held(0, found, 8), 3);
	assert_true(found[0] == made[3] && found[1] == made[2] && found[2] == made[0]);
	assert_int_equal(list_held(0, found, 2), 2);
	assert_true(found[0] == made[3] && found[1] == made[2]);
	assert_int_equal(list_held(made[2], found, 8), 1);
	assert_true(found[0] == made[0]);
	assert_int_equal(list_held(made[0], found, 8), 0);
}

static void test_a_held_event_is_delivered_when_it_is_released(void **state)
{
	(void)state;
	struct store_admit first = run(event(once(1, 100)));
	struct store_admit other = run(event(once(1, 200)));

	assert_int_equal(release(first.ticket, false), ERR_FENCED);
	assert_int_equal(release(12345, false), ERR_FENCED);
	place_restart();
	assert_int_equal(release(other.own_ticket, false), 0);
	assert_int_equal(held_count(), 0);
	assert_int_equal(release(other.own_ticket, false), ERR_FENCED);
	place_restart();
	assert_int_equal(held_count(), 0);
	assert_true(deliver() == first.ticket && deliver() == other.own_ticket && deliver() == 0);
	assert_int_equal(run(event(once(1, 200))).verdict, VERDICT_DUPLICATE);
}

static void test_a_held_event_that_is_dropped_never_comes_back(void **state)
{
	(void)state;
	run(event(once(1, 100)));
	struct store_admit other = run(event(once(1, 200)));

	assert_int_equal(release(other.own_ticket, true), 0);
	assert_int_equal(held_count(), 0);
	place_restart();
	assert_int_equal(release(other.own_ticket, false), ERR_FENCED);
	deliver();
	assert_true(deliver() == 0);
	assert_int_equal(run(event(once(1, 200))).verdict, VERDICT_DUPLICATE);
}

static void test_nothing_is_held_for_an_event_without_ticket(void **state)
{
	(void)state;
	run(event(once(1, 100)));
	struct store_admit other = event(once(1, 200));
	other.no_ticket = true;
	other = run(other);
	assert_int_equal(other.verdict, VERDICT_CONFLICT);
	assert_true(other.own_ticket == 0);
	assert_int_equal(held_count(), 0);
}

static void test_a_conflict_that_passes_has_the_claim_from_then_on(void **state)
{
	(void)state;
	struct store_admit first = run(event(once(1, 100)));
	struct store_admit other = event_of_two(once(1, 200), once(2, 200));

	other.on_conflict = STORE_CONFLICT_PASS;
	other = run(other);
	assert_int_equal(other.verdict, VERDICT_CONFLICT);
	assert_true(other.ticket == first.ticket && other.own_ticket > first.ticket);
	place_restart();
	struct store_lookup found = look(once(1, 0));
	assert_true(found.ticket == other.own_ticket && found.check == 200);
	assert_true(look(once(2, 0)).ticket == other.own_ticket);
	assert_int_equal(verdict_of(once(1, 200)), VERDICT_DUPLICATE);
	assert_true(deliver() == first.ticket && deliver() == other.own_ticket);
}

static void test_a_conflict_that_would_pass_is_dropped_by_a_later_claim(void **state)
{
	(void)state;
	run(event(once(1, 100)));
	struct store_admit second = run(event(once(2, 100)));
	struct store_admit both = event_of_two(once(1, 200), once(2, 100));

	both.on_conflict = STORE_CONFLICT_PASS;
	both = run(both);
	assert_int_equal(both.verdict, VERDICT_DUPLICATE);
	assert_int_equal(both.matched, 1);
	assert_true(both.ticket == second.ticket && both.own_ticket == 0);
	assert_int_equal(look(once(1, 0)).check, 100);
}

static void test_whoever_waits_for_the_outcome_is_told_busy_until_it_is_there(void **state)
{
	(void)state;
	struct store_admit first = run(event(once(1, 100)));
	struct store_admit again = event(once(1, 100));

	again.busy_if_open = true;
	struct store_admit busy = run(again);
	assert_int_equal(busy.verdict, VERDICT_BUSY);
	assert_true(busy.ticket == first.ticket && busy.seen == 1);
	assert_int_equal(verdict_of(once(1, 100)), VERDICT_DUPLICATE);
	assert_true(deliver() == first.ticket);
	store_tick(place.store);
	assert_int_equal(run(again).verdict, VERDICT_DUPLICATE);
}

static void test_an_entity_goes_only_forwards(void **state)
{
	(void)state;
	struct store_admit first = run(event(newest(1, 500)));

	assert_int_equal(first.verdict, VERDICT_NEW);
	struct store_admit older = run(event(newest(1, 499)));
	assert_int_equal(older.verdict, VERDICT_STALE);
	assert_true(older.ticket == first.ticket && older.order == 500 && older.own_ticket == 0);
	place_restart();
	assert_int_equal(verdict_of(newest(1, 499)), VERDICT_STALE);
	struct store_admit later = run(event(newest(1, 501)));
	assert_int_equal(later.verdict, VERDICT_NEW);
	place_restart();
	struct store_lookup found = look(newest(1, 0));
	assert_true(found.taken && found.order == 501 && found.ticket == later.ticket);
	assert_int_equal(verdict_of(newest(1, 500)), VERDICT_STALE);
	assert_int_equal(verdict_of(newest(2, 1)), VERDICT_NEW);
	assert_false(look(once(1, 0)).taken); /* an entity is no claim */
}

static void test_an_equal_order_follows_the_tie_rule(void **state)
{
	(void)state;
	struct claim tie = newest(1, 500);

	run(event(tie));
	assert_int_equal(verdict_of(tie), VERDICT_NEW);
	tie.equal_drops = true;
	assert_int_equal(verdict_of(tie), VERDICT_STALE);
}

static void test_an_entity_is_forgotten_with_its_window_which_each_event_renews(void **state)
{
	(void)state;
	run(event(newest(1, 500)));
	clock_fake_advance(&place.clock, 40000);
	run(event(newest(1, 600)));
	clock_fake_advance(&place.clock, 40000);
	place_restart();
	assert_int_equal(verdict_of(newest(1, 550)), VERDICT_STALE);
	clock_fake_advance(&place.clock, 20000);
	assert_false(look(newest(1, 0)).taken);
	assert_int_equal(verdict_of(newest(1, 10)), VERDICT_NEW);
	place_restart();
	assert_int_equal(look(newest(1, 0)).order, 10);
}

static void test_a_refused_event_moves_no_entity(void **state)
{
	(void)state;
	run(event_of_two(newest(1, 500), once(1, 0)));
	struct store_admit again = run(event_of_two(newest(1, 900), once(1, 0)));
	assert_int_equal(again.verdict, VERDICT_DUPLICATE);
	assert_int_equal(again.matched, 1);
	assert_int_equal(look(newest(1, 0)).order, 500);
	struct store_admit stale = run(event_of_two(once(2, 0), newest(1, 400)));
	assert_int_equal(stale.verdict, VERDICT_STALE);
	assert_int_equal(stale.matched, 1);
	assert_false(look(once(2, 0)).taken);
}

static void test_a_shadow_claim_drops_nothing_and_tells(void **state)
{
	(void)state;
	struct store_admit first = run(event(shadow(once(1, 100))));
	struct store_admit same = run(event_of_two(once(2, 0), shadow(once(1, 100))));

	assert_int_equal(first.would, VERDICT_NONE);
	assert_int_equal(same.verdict, VERDICT_NEW);
	assert_int_equal(same.would, VERDICT_DUPLICATE);
	assert_int_equal(same.would_matched, 1);
	assert_true(same.would_ticket == first.ticket);
	place_restart();
	assert_true(look(once(1, 0)).ticket == first.ticket); /* its first holder keeps it */
	assert_int_equal(run(event(shadow(once(1, 200)))).would, VERDICT_CONFLICT);
	assert_int_equal(look(once(1, 0)).check, 100);
	struct store_admit dropped = run(event_of_two(shadow(once(1, 100)), once(2, 0)));
	assert_int_equal(dropped.verdict, VERDICT_DUPLICATE);
	assert_int_equal(dropped.would, VERDICT_NONE);
}

static void test_a_shadow_entity_goes_only_forwards_too(void **state)
{
	(void)state;
	struct store_admit first = run(event(shadow(newest(1, 500))));
	struct store_admit older = run(event(shadow(newest(1, 400))));

	assert_int_equal(older.verdict, VERDICT_NEW);
	assert_int_equal(older.would, VERDICT_STALE);
	assert_true(older.would_ticket == first.ticket);
	place_restart();
	assert_true(look(newest(1, 0)).order == 500 && look(newest(1, 0)).ticket == first.ticket);
	run(event(shadow(newest(1, 600))));
	assert_int_equal(look(newest(1, 0)).order, 600);
}

static void test_an_event_without_claims_is_always_new(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	struct store_admit bare = event(once(1, 0));

	bare.claim_count = 0;
	struct store_admit first = run(bare), second = run(bare);
	assert_int_equal(first.verdict, VERDICT_NEW);
	assert_int_equal(second.verdict, VERDICT_NEW);
	place_restart();
	struct store_admit third = run(bare);
	assert_true(second.ticket > first.ticket && third.ticket > second.ticket);
	assert_true(deliver() == first.ticket && deliver() == second.ticket &&
	            deliver() == third.ticket && deliver() == 0);
	bare.no_ticket = true;
	assert_int_equal(store_call(place.store, &bare.op, STORE_ADMIT), ERR_INVALID);
}

static void test_verdicts_within_one_flush_see_each_other(void **state)
{
	(void)state;
	struct store_admit ops[] = { event(once(1, 100)),        event(once(1, 200)),
		                     event(once(1, 200)),        event(newest(9, 10)),
		                     event(newest(9, 12)),       event(newest(9, 11)),
		                     event(shadow(once(1, 300))) };
	static const enum verdict expected[] = { VERDICT_NEW, VERDICT_CONFLICT, VERDICT_DUPLICATE,
		                                 VERDICT_NEW, VERDICT_NEW,      VERDICT_STALE,
		                                 VERDICT_NEW };
	bool done[ARRAY_LEN(ops)] = { false };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		ops[i].op.kind = STORE_ADMIT;
		ops[i].op.done = store_calls_done;
		ops[i].op.user = &done[i];
		store_submit(place.store, &ops[i].op);
	}
	store_flush(place.store);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		assert_true(done[i]);
		assert_int_equal(ops[i].op.error, 0);
		assert_int_equal(ops[i].verdict, expected[i]);
	}
	assert_true(ops[2].ticket == ops[1].own_ticket);
	assert_true(ops[5].ticket == ops[4].ticket);
	assert_int_equal(ops[6].would, VERDICT_CONFLICT);
}

/* ---- writes that fail ---- */

static void submit(struct store_op *op, enum store_op_kind kind, bool *done)
{
	op->kind = kind;
	op->done = store_calls_done;
	op->user = done;
	*done = false;
	store_submit(place.store, op);
}

/* The next write fails, and the store goes on in the next segment. */
static void flush_in_vain(void)
{
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	store_flush(place.store);
	assert_int_equal(simfs_faults(place.simfs), 1);
}

static void test_a_lost_frame_gives_back_what_it_had_taken_over(void **state)
{
	(void)state;
	struct store_admit first = run(event_of_two(once(1, 100), newest(9, 500)));
	struct store_admit lost[] = { event(once(1, 200)), event(once(1, 300)),
		                      event(newest(9, 600)), event(newest(9, 700)),
		                      event(newest(8, 5)) };
	struct store_lookup looks[] = { { .digest = once(1, 0).digest },
		                        { .digest = newest(9, 0).digest, .kind = CLAIM_NEWEST },
		                        { .digest = newest(8, 0).digest, .kind = CLAIM_NEWEST } };
	bool done[ARRAY_LEN(lost) + ARRAY_LEN(looks)];

	for (size_t i = 0; i < ARRAY_LEN(lost); i++) {
		lost[i].on_conflict = STORE_CONFLICT_PASS;
		submit(&lost[i].op, STORE_ADMIT, &done[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(looks); i++)
		submit(&looks[i].op, STORE_LOOKUP, &done[ARRAY_LEN(lost) + i]);
	flush_in_vain();
	for (size_t i = 0; i < ARRAY_LEN(done); i++)
		assert_true(done[i]);
	for (size_t i = 0; i < ARRAY_LEN(lost); i++)
		assert_int_equal(lost[i].op.error, ERR_POISONED);
	assert_true(looks[0].taken && looks[0].ticket == first.ticket && looks[0].check == 100);
	assert_true(looks[1].taken && looks[1].ticket == first.ticket && looks[1].order == 500);
	assert_false(looks[2].taken);
	run(event(once(7, 0))); /* in the next segment: from now on the frame is no more */
	place_restart();
	assert_int_equal(verdict_of(once(1, 100)), VERDICT_DUPLICATE);
	assert_true(look(newest(9, 0)).order == 500 && !look(newest(8, 0)).taken);
	assert_int_equal(verdict_of(newest(9, 501)), VERDICT_NEW);
	assert_true(deliver() == first.ticket);
}

static void judged_again(enum store_conflict on_conflict, bool is_shadow)
{
	static const char bytes[12000] = { 0 }; /* two of them do not fit one frame */
	struct store_admit lost = event(once(1, 100)), next = event(once(1, 200));
	bool done[2];

	place_on_disk(NULL);
	next.claims[0].shadow = is_shadow;
	next.on_conflict = on_conflict;
	lost.payload = next.payload = span_of(bytes, sizeof(bytes));
	submit(&lost.op, STORE_ADMIT, &done[0]);
	submit(&next.op, STORE_ADMIT, &done[1]);
	flush_in_vain();
	assert_true(done[0] && done[1]);
	assert_int_equal(lost.op.error, ERR_POISONED);
	assert_int_equal(next.op.error, 0);
	assert_int_equal(next.verdict, VERDICT_NEW);
	assert_int_equal(next.would, VERDICT_NONE);
	place_restart();
	assert_true(look(once(1, 0)).ticket == next.ticket && look(once(1, 0)).check == 200);
	assert_true(deliver() == next.ticket && deliver() == 0);
	place_end(NULL);
}

static void test_an_event_that_met_a_lost_one_is_judged_again(void **state)
{
	(void)state;
	judged_again(STORE_CONFLICT_PASS, false);
	judged_again(STORE_CONFLICT_ASIDE, false);
	judged_again(STORE_CONFLICT_ASIDE, true);
}

static void test_a_release_that_was_not_written_leaves_the_event_held(void **state)
{
	(void)state;
	run(event(once(1, 100)));
	struct store_admit other = run(event(once(1, 200)));
	struct store_release op = { .ticket = other.own_ticket };
	bool done;

	submit(&op.op, STORE_RELEASE, &done);
	flush_in_vain();
	assert_true(done && op.op.error == ERR_POISONED);
	assert_int_equal(held_count(), 1);
	run(event(once(7, 0)));
	place_restart();
	assert_int_equal(held_count(), 1);
	assert_int_equal(release(other.own_ticket, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ALL(test_other_content_under_a_key_is_no_duplicate),
		ON_ALL(test_content_that_is_not_known_makes_no_conflict),
		ON_ALL(test_a_conflict_is_kept_aside_once_and_not_delivered),
		ON_ALL(test_held_events_are_listed_newest_first),
		ON_ALL(test_a_held_event_is_delivered_when_it_is_released),
		ON_ALL(test_a_held_event_that_is_dropped_never_comes_back),
		ON_ALL(test_nothing_is_held_for_an_event_without_ticket),
		ON_ALL(test_a_conflict_that_passes_has_the_claim_from_then_on),
		ON_ALL(test_a_conflict_that_would_pass_is_dropped_by_a_later_claim),
		ON_ALL(test_whoever_waits_for_the_outcome_is_told_busy_until_it_is_there),
		ON_ALL(test_an_entity_goes_only_forwards),
		ON_ALL(test_an_equal_order_follows_the_tie_rule),
		ON_ALL(test_an_entity_is_forgotten_with_its_window_which_each_event_renews),
		ON_ALL(test_a_refused_event_moves_no_entity),
		ON_ALL(test_a_shadow_claim_drops_nothing_and_tells),
		ON_ALL(test_a_shadow_entity_goes_only_forwards_too),
		ON_ALL(test_an_event_without_claims_is_always_new),
		ON_ALL(test_verdicts_within_one_flush_see_each_other),
		ON_DISK(test_a_lost_frame_gives_back_what_it_had_taken_over),
		cmocka_unit_test(test_an_event_that_met_a_lost_one_is_judged_again),
		ON_DISK(test_a_release_that_was_not_written_leaves_the_event_held),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
