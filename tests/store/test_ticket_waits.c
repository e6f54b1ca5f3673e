/* Who waits for what comes of an event, on every store. */
#include "ticket_kit.h"

#include "base/error.h"

/* ---- wait ---- */

struct waiting {
	struct store_wait wait;
	bool done;
};

static void wait_submit(struct waiting *waiting, uint64_t ticket, uint64_t ms)
{
	*waiting = (struct waiting){
		.wait = { .op = { .kind = STORE_WAIT,
		                  .done = store_calls_done,
		                  .user = &waiting->done },
		          .ticket = ticket,
		          .until_boot_ms = place.clock.now.boot_ms + ms },
	};
	store_submit(place.store, &waiting->wait.op);
}

static void wait_begin(struct waiting *waiting, uint64_t ticket, uint64_t ms)
{
	wait_submit(waiting, ticket, ms);
	store_flush(place.store);
}

static enum outcome outcome_now(uint64_t ticket)
{
	struct waiting waiting;

	wait_begin(&waiting, ticket, 0);
	store_tick(place.store);
	assert_true(waiting.done);
	assert_int_equal(waiting.wait.op.error, 0);
	return waiting.wait.outcome;
}

static void test_whoever_waits_is_told_when_the_last_leg_has_its_outcome(void **state)
{
	(void)state;
	static const enum outcome worst[] = { OUTCOME_DONE, OUTCOME_DEAD, OUTCOME_UNKNOWN };

	for (size_t i = 0; i < ARRAY_LEN(worst); i++) {
		uint64_t event = kit_admit(3), next = kit_admit(0);
		struct store_item crm = kit_must_take(CRM), erp = kit_must_take(ERP),
				  sms = kit_must_take(SMS);
		struct waiting one, two;
		wait_begin(&one, event, 5000);
		assert_int_equal(kit_settle(&crm, OUTCOME_DONE), 0);
		assert_int_equal(kit_note(&sms, STORE_MARK_FAILED, 0), 0);
		sms.attempt++;
		wait_begin(&two, event, 5000);
		assert_int_equal(kit_settle(&erp, worst[i]), 0);
		store_tick(place.store);
		assert_false(one.done || two.done);
		assert_int_equal(kit_settle(&sms, i == 2 ? OUTCOME_DEAD : OUTCOME_DONE), 0);
		assert_true(one.done && two.done);
		assert_int_equal(one.wait.outcome, worst[i]);
		assert_int_equal(two.wait.outcome, worst[i]);
		assert_int_equal(outcome_now(event), worst[i]); /* for the one that comes late */
		assert_int_equal(outcome_now(next), OUTCOME_NONE);
		struct store_item only = kit_must_take(0);
		assert_int_equal(kit_settle(&only, OUTCOME_DONE), 0);
	}
}

static void test_a_wait_ends_with_its_time(void **state)
{
	(void)state;
	struct store_stats stats;
	struct waiting waiting;
	uint64_t ticket = kit_admit(1);

	wait_begin(&waiting, ticket, 1000);
	store_stats(place.store, &stats);
	assert_true(stats.waits == 1);
	clock_fake_advance(&place.clock, 999);
	store_tick(place.store);
	assert_false(waiting.done);
	clock_fake_advance(&place.clock, 1);
	store_tick(place.store);
	assert_true(waiting.done);
	assert_int_equal(waiting.wait.op.error, 0);
	assert_int_equal(waiting.wait.outcome, OUTCOME_NONE);
}

static void test_what_was_dropped_was_not_done(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t ticket = kit_admit(1), later = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(kit_settle(&item, OUTCOME_UNKNOWN), 0);
	assert_int_equal(outcome_now(ticket), OUTCOME_UNKNOWN);
	assert_int_equal(kit_release(ticket, true), 0);
	assert_int_equal(outcome_now(ticket), OUTCOME_DEAD);
	item = kit_must_take(CRM);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
	assert_int_equal(outcome_now(later), OUTCOME_DONE);
	place_restart();
	assert_int_equal(outcome_now(later), OUTCOME_NONE); /* nobody remembers */
}

static void test_waits_are_bounded_and_end_with_the_store(void **state)
{
	(void)state;
	static struct waiting waiting[STORE_WAITS_MAX + 1];
	uint64_t ticket = kit_admit(1);

	for (size_t i = 0; i <= STORE_WAITS_MAX; i++)
		wait_submit(&waiting[i], ticket, 1000);
	store_flush(place.store);
	assert_true(waiting[STORE_WAITS_MAX].done);
	assert_int_equal(waiting[STORE_WAITS_MAX].wait.op.error, ERR_FULL);
	store_end_waits(place.store);
	assert_false(waiting[0].done);
	store_tick(place.store);
	for (size_t i = 0; i < STORE_WAITS_MAX; i++) {
		assert_true(waiting[i].done);
		assert_int_equal(waiting[i].wait.op.error, ERR_CLOSING);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ALL(test_whoever_waits_is_told_when_the_last_leg_has_its_outcome),
		ON_ALL(test_a_wait_ends_with_its_time),
		ON_ALL(test_what_was_dropped_was_not_done),
		ON_ALL(test_waits_are_bounded_and_end_with_the_store),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
