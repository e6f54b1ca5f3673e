/* Leases of whoever claimed an event and acts itself, on every store. */
#include "ticket_kit.h"

#include "base/error.h"
#include "gate/ticket.h"

/* ---- leases of whoever claimed the event ---- */

static struct store_admit claim_make(uint32_t lease_ms)
{
	static const struct store_leg leg = { .sink = STORE_SINK_CALLER, .order = 3 };
	struct store_admit op = kit_event_make(0);

	op.legs = &leg;
	op.leg_count = 1;
	op.lease_ms = lease_ms;
	op.busy_if_open = true;
	return op;
}

static uint64_t claim(uint32_t lease_ms)
{
	struct store_admit op = claim_make(lease_ms);

	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	return op.ticket;
}

/* The number of the attempt; 0: it is not due. */
static uint32_t take_one(uint64_t ticket, uint32_t sink)
{
	struct store_take op = { .ticket = ticket, .sink = sink, .lease_ms = 1000 };
	struct store_item item = { 0 };
	struct store_parts parts;
	size_t at = 0;

	assert_int_equal(store_call(place.store, &op.op, STORE_TAKE), 0);
	assert_int_equal(store_item_next(buf_span(&op.items), &at, &item, &parts), op.count);
	if (op.count) {
		assert_int_equal(item.ticket, ticket);
		assert_int_equal(item.flags, 5);
		assert_int_equal(item.order, 3);
		assert_true(span_eq(parts.payload, SPAN("{\"a\":1}")));
	}
	buf_free(&op.items);
	return item.attempt;
}

static int settle_as(uint64_t ticket, uint32_t attempt, enum outcome outcome)
{
	return kit_settle(&(struct store_item){ .ticket = ticket, .attempt = attempt }, outcome);
}

static void test_whoever_claims_an_event_has_it_alone_until_the_lease_is_over(void **state)
{
	(void)state;
	struct store_admit op = claim_make(1000);

	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	uint64_t ticket = op.ticket;
	struct store_item item = kit_item_of(ticket);
	assert_int_equal(item.state, STORE_STATE_LEASED);
	assert_int_equal(item.attempt, 1);
	assert_int_equal(item.last, STORE_MARK_STARTED);
	assert_int_equal(item.due_ms, op.decided_ms + 1000);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_BUSY);
	assert_int_equal(op.ticket, ticket);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	clock_fake_advance(&place.clock, 999);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	clock_fake_advance(&place.clock, 1);
	assert_int_equal(take_one(ticket, CRM), 0);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	assert_int_equal(settle_as(ticket, 1, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(settle_as(ticket, 2, OUTCOME_DONE), 0);
	assert_int_equal(settle_as(ticket, 2, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_DUPLICATE);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
}

static void test_a_caller_keeps_its_lease_when_a_gateway_ends(void **state)
{
	(void)state;
	uint64_t ticket = claim(1000000);

	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_LEASED);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	clock_fake_advance(&place.clock, 1000000);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	place_restart();
	assert_int_equal(settle_as(ticket, 1, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(settle_as(ticket, 2, OUTCOME_DONE), 0);
}

static void test_a_number_that_a_caller_had_is_not_given_again_after_a_crash(void **state)
{
	(void)state;
	uint64_t ticket = claim(1000000);

	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(kit_item_of(ticket).last, STORE_MARK_STARTED);
	assert_int_equal(settle_as(ticket, 1, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	place_restart();
	assert_int_equal(settle_as(ticket, 2, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 3);
	assert_int_equal(settle_as(ticket, 3, OUTCOME_RELEASED), 0);
	place_restart();
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 4);
	clock_fake_advance(&place.clock, 1000);
	store_tick(place.store);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DUE);
	place_restart();
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 5);
	assert_int_equal(settle_as(ticket, 5, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
}

static void test_a_renewed_lease_goes_on(void **state)
{
	(void)state;
	uint64_t ticket = claim(1000);
	struct store_renew renew = { .ticket = ticket, .attempt = 1, .lease_ms = 1000 };

	for (int i = 0; i < 10; i++) {
		clock_fake_advance(&place.clock, 900);
		store_tick(place.store);
		assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
		assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	}
	renew.lease_ms = 0;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	clock_fake_advance(&place.clock, 100000);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	renew.lease_ms = 1;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	clock_fake_advance(&place.clock, 1);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
}

static void test_a_renewed_lease_goes_no_further_than_it_may(void **state)
{
	(void)state;
	uint64_t ticket = claim(1000);
	uint64_t until_ms = ticket_time_ms(ticket) + 3000;
	struct store_renew renew = {
		.ticket = ticket, .attempt = 1, .lease_ms = 1000000, .until_ms = until_ms
	};

	clock_fake_advance(&place.clock, 900);
	store_tick(place.store);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	clock_fake_advance(&place.clock, 2000);
	store_tick(place.store);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	clock_fake_advance(&place.clock, 200);
	store_tick(place.store);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	renew.attempt = 2;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	renew.until_ms = 0;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
}

static void test_a_conflict_kept_aside_is_not_leased(void **state)
{
	(void)state;
	struct store_admit op = claim_make(1000);
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 1);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 2);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_CONFLICT);
	assert_int_equal(kit_item_of(op.own_ticket).state, STORE_STATE_HELD);
	assert_int_equal(kit_item_of(op.own_ticket).attempt, 0);
	op.on_conflict = STORE_CONFLICT_PASS;
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 3);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_CONFLICT);
	assert_int_equal(kit_item_of(op.own_ticket).state, STORE_STATE_LEASED);
	clock_fake_advance(&place.clock, 1000);
	assert_int_equal(take_one(op.own_ticket, STORE_SINK_CALLER), 2);
}

static void test_what_is_given_back_for_later_is_not_taken_before(void **state)
{
	(void)state;
	uint64_t ticket = claim(1000);
	struct store_settle give = { .ticket = ticket,
		                     .attempt = 1,
		                     .outcome = OUTCOME_RELEASED,
		                     .due_ms = ticket_time_ms(ticket) + 5000 };

	assert_int_equal(store_call(place.store, &give.op, STORE_SETTLE), 0);
	clock_fake_advance(&place.clock, 4999);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 0);
	clock_fake_advance(&place.clock, 1);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
}

static void test_a_claim_that_was_not_written_has_no_lease(void **state)
{
	(void)state;
	struct store_admit op = claim_make(1000);

	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_true(store_call(place.store, &op.op, STORE_ADMIT) < 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	uint64_t ticket = op.ticket;
	clock_fake_advance(&place.clock, 1000);
	struct store_take take = { .ticket = ticket, .sink = STORE_SINK_CALLER, .lease_ms = 1000 };
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_true(store_call(place.store, &take.op, STORE_TAKE) < 0);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(kit_item_of(ticket).attempt, 1);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	buf_free(&take.items);
}

/* The number stays used, and so does the mark, when the event moves. */
static void test_a_caller_s_number_is_kept_when_its_segment_leaves(void **state)
{
	(void)state;
	place.retain_ms = 1000;
	place_restart();
	kit_churn_once(10);
	uint64_t leased = claim(100000000), over = claim(1000);
	clock_fake_advance(&place.clock, 1000);
	assert_int_equal(take_one(over, STORE_SINK_CALLER), 2);
	for (int i = 0; i < 3; i++)
		kit_churn();
	place_restart();
	assert_int_equal(kit_item_of(leased).last, STORE_MARK_STARTED);
	assert_int_equal(take_one(leased, STORE_SINK_CALLER), 2);
	assert_int_equal(take_one(over, STORE_SINK_CALLER), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ALL(test_whoever_claims_an_event_has_it_alone_until_the_lease_is_over),
		IN_MEMORY(test_a_number_that_a_caller_had_is_not_given_again_after_a_crash),
		ON_DISK(test_a_number_that_a_caller_had_is_not_given_again_after_a_crash),
		SHARED(test_a_caller_keeps_its_lease_when_a_gateway_ends),
		ON_ALL(test_a_renewed_lease_goes_on),
		ON_ALL(test_a_renewed_lease_goes_no_further_than_it_may),
		ON_ALL(test_a_conflict_kept_aside_is_not_leased),
		ON_ALL(test_what_is_given_back_for_later_is_not_taken_before),
		ON_DISK(test_a_claim_that_was_not_written_has_no_lease),
		ON_DISK(test_a_caller_s_number_is_kept_when_its_segment_leaves),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
