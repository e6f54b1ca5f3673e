/* The model store alone, and the oracle of the other suites against it. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/oracle.h"
#include "support/store_calls.h"
#include "support/test.h"

static struct clock_fake fake;

static struct store *store_make(uint32_t max_open)
{
	struct store *store = NULL;
	struct model_store_options options = { .clock = &fake.clock, .max_open_tickets = max_open };

	clock_fake_init(&fake);
	assert_int_equal(model_store_open(&options, &store), 0);
	return store;
}

static struct store_admit admit(struct store *store, uint64_t first, uint64_t second,
                                uint32_t window_s)
{
	struct store_admit admit = {
		.claims = { { .digest = { { first, 1 } }, .window_s = window_s },
		            { .digest = { { second, 1 } }, .window_s = window_s } },
		.claim_count = second ? 2 : 1,
		.source = SPAN("s"),
		.payload = SPAN("{}"),
	};

	store_call(store, &admit.op, STORE_ADMIT);
	return admit;
}

static bool is_taken(struct store *store, uint64_t first)
{
	struct store_lookup lookup = { .digest = { { first, 1 } } };

	assert_int_equal(store_call(store, &lookup.op, STORE_LOOKUP), 0);
	return lookup.taken;
}

static void test_a_refused_event_takes_none_of_its_claims(void **state)
{
	(void)state;
	struct store *store = store_make(0);
	struct store_admit one = admit(store, 1, 0, 60), two = admit(store, 2, 1, 60);

	assert_int_equal(one.verdict, VERDICT_NEW);
	assert_int_equal(two.verdict, VERDICT_DUPLICATE);
	assert_int_equal(two.matched, 1);
	assert_true(two.ticket == one.ticket && two.seen == 1);
	assert_true(two.first_seen_ms == CLOCK_FAKE_START_MS);
	assert_false(is_taken(store, 2));
	store_free(store);
}

static void test_a_claim_ends_with_its_window_and_not_before(void **state)
{
	(void)state;
	struct store *store = store_make(0);

	admit(store, 1, 0, 60);
	clock_fake_advance(&fake, 59999);
	assert_true(is_taken(store, 1));
	clock_fake_advance(&fake, 1);
	assert_false(is_taken(store, 1));
	assert_int_equal(admit(store, 1, 0, 60).verdict, VERDICT_NEW);
	clock_fake_jump(&fake, -3600000); /* never back */
	assert_true(is_taken(store, 1));
	clock_fake_jump(&fake, 3600000);
	assert_true(is_taken(store, 1));
	store_free(store);
}

static void test_long_windows_are_rounded_up(void **state)
{
	(void)state;
	struct store *store = store_make(0);

	admit(store, 1, 0, 1001); /* kept as 1002 */
	clock_fake_advance(&fake, 1001999);
	assert_true(is_taken(store, 1));
	clock_fake_advance(&fake, 1);
	assert_false(is_taken(store, 1));
	store_free(store);
}

static void test_malformed_events_are_refused(void **state)
{
	(void)state;
	struct store *store = store_make(0);

	assert_int_equal(admit(store, 1, 0, 0).op.error, ERR_INVALID);
	struct store_admit none = { .claim_count = 0, .no_ticket = true };
	assert_int_equal(store_call(store, &none.op, STORE_ADMIT), ERR_INVALID);
	store_free(store);
}

static void test_late_writers_are_fenced(void **state)
{
	(void)state;
	struct store *store = store_make(0);
	struct store_admit one = admit(store, 1, 0, 60);
	struct take_call call = { 0 };
	struct store_settle settle = { .ticket = one.ticket, .attempt = 1 };

	settle.outcome = OUTCOME_DONE;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_FENCED);
	take_call_begin(store, &call, 10, 1000);
	store_flush(store);
	assert_true(take_call_poll(&call));
	settle.outcome = OUTCOME_RELEASED;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), 0);
	settle.outcome = OUTCOME_DONE;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_FENCED);
	take_call_begin(store, &call, 10, 1000);
	store_flush(store);
	assert_true(take_call_poll(&call));
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_FENCED);
	settle.attempt = 2;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), 0);
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_FENCED);
	buf_free(&call.take.items);
	store_free(store);
}

static void test_a_waiting_take_ends_when_the_store_closes(void **state)
{
	(void)state;
	struct store *store = store_make(0);
	struct take_call call = { 0 };

	take_call_begin(store, &call, 10, 1000);
	store_flush(store);
	assert_false(take_call_poll(&call));
	store_free(store);
	assert_true(take_call_poll(&call));
	assert_int_equal(call.take.op.error, ERR_CLOSING);
}

static void test_open_tickets_are_bounded(void **state)
{
	(void)state;
	struct store *store = store_make(2);
	struct store_stats stats;

	assert_int_equal(admit(store, 1, 0, 60).op.error, 0);
	assert_int_equal(admit(store, 2, 0, 60).op.error, 0);
	assert_int_equal(admit(store, 3, 0, 60).op.error, ERR_FULL);
	assert_false(is_taken(store, 3));
	assert_int_equal(admit(store, 1, 0, 60).verdict, VERDICT_DUPLICATE);
	store_stats(store, &stats);
	assert_false(stats.writable);
	struct store_admit letter = { .payload = SPAN("{}"), .beyond_limit = true };
	assert_int_equal(store_call(store, &letter.op, STORE_ADMIT), 0);
	assert_int_equal(admit(store, 3, 0, 60).op.error, ERR_FULL);
	store_free(store);
}

static void test_expired_claims_give_their_memory_back(void **state)
{
	(void)state;
	struct store *store = store_make(0);
	struct store_stats before, after;

	store_stats(store, &before);
	for (uint64_t i = 1; i <= 3000; i++) {
		struct store_admit one = { .claims = { { .digest = { { i, i } }, .window_s = 1 } },
			                   .claim_count = 1,
			                   .no_ticket = true };
		assert_int_equal(store_call(store, &one.op, STORE_ADMIT), 0);
	}
	clock_fake_advance(&fake, 5000);
	store_tick(store);
	store_stats(store, &after);
	assert_int_equal(after.live_claims, 0);
	assert_int_equal(after.expired_claims, 3000);
	assert_true(after.index_bytes < before.index_bytes + 65536);
	store_free(store);
}

static void oracle_run(uint64_t seed, uint64_t steps)
{
	static struct oracle oracle;
	struct store *store = store_make(0);

	oracle_init(&oracle, seed, &fake);
	for (uint64_t i = 0; i < steps && !oracle_full(&oracle); i++)
		oracle_step(&oracle, store);
	model_store_restart(store);
	oracle_check(&oracle, store);
	store_free(store);
	oracle_free(&oracle);
}

static void test_the_oracle_agrees_with_the_model(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < test_scale(200); i++)
		oracle_run(test_seed() + i, 120);
}

static void test_a_failed_allocation_decides_nothing(void **state)
{
	(void)state;
	for (unsigned long n = 1; n < 12; n++) {
		struct store *store = store_make(0);
		mem_fail_at(n, false);
		struct store_admit first = admit(store, 1, 2, 60);
		mem_fail_at(0, false);
		if (first.op.error < 0) {
			assert_int_equal(first.op.error, ERR_FULL);
			assert_false(is_taken(store, 1) || is_taken(store, 2));
			assert_int_equal(admit(store, 1, 2, 60).verdict, VERDICT_NEW);
		}
		store_free(store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_refused_event_takes_none_of_its_claims),
		cmocka_unit_test(test_a_claim_ends_with_its_window_and_not_before),
		cmocka_unit_test(test_long_windows_are_rounded_up),
		cmocka_unit_test(test_malformed_events_are_refused),
		cmocka_unit_test(test_late_writers_are_fenced),
		cmocka_unit_test(test_a_waiting_take_ends_when_the_store_closes),
		cmocka_unit_test(test_open_tickets_are_bounded),
		cmocka_unit_test(test_expired_claims_give_their_memory_back),
		cmocka_unit_test(test_the_oracle_agrees_with_the_model),
		cmocka_unit_test(test_a_failed_allocation_decides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
