/* Claims that nobody settled go when their window has ended, and no others. */
#include "serve/serve_private.h"

#include "base/error.h"
#include "base/log.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/store_calls.h"
#include "support/test.h"

#define CLAIMS 700u /* more than one piece of a scan */

static struct clock_fake fake;
static struct store *store;

static uint64_t claim(uint64_t number, uint64_t until_ms, uint32_t lease_ms, uint32_t sink)
{
	const struct store_leg leg = { .sink = sink, .order = until_ms };
	struct store_admit op = { .claims = { { .digest = { { number, 1 } }, .window_s = 60 } },
		                  .claim_count = 1,
		                  .legs = &leg,
		                  .leg_count = 1,
		                  .lease_ms = lease_ms };

	assert_int_equal(store_call(store, &op.op, STORE_ADMIT), 0);
	return op.ticket;
}

static uint64_t open_count(void)
{
	struct store_stats stats;

	store_stats(store, &stats);
	return stats.open_tickets;
}

static void test_only_claims_whose_window_has_ended_are_closed(void **state)
{
	static struct callers callers;

	(void)state;
	clock_fake_init(&fake);
	uint64_t now_ms = fake.now.wall_ms;
	struct model_store_options options = { .clock = &fake.clock };
	assert_int_equal(model_store_open(&options, &store), 0);
	for (uint64_t i = 0; i < CLAIMS; i++)
		claim(1 + i, now_ms + (i % 2 ? 1000 : 9000), 100, STORE_SINK_CALLER);
	claim(10001, now_ms + 1000, 1000000, STORE_SINK_CALLER); /* somebody is at it */
	claim(10002, 1, 0, 77);                                  /* a lane's */
	clock_fake_advance(&fake, 5000);
	serve_callers_sweep(&callers, store, now_ms + 5000);
	for (int i = 0; i < 5000 && callers.sweeping; i++)
		store_flush(store);
	assert_false(callers.sweeping);
	assert_int_equal(callers.closed, CLAIMS / 2);
	assert_int_equal(open_count(), CLAIMS / 2 + 2);
	serve_callers_sweep(&callers, store, now_ms + 5000);
	for (int i = 0; i < 100 && callers.sweeping; i++)
		store_flush(store);
	assert_int_equal(callers.closed, 0);
	serve_callers_sweep(&callers, store, now_ms + 50000);
	callers.stopped = true;
	store_free(store); /* in the middle */
	assert_false(callers.sweeping);
	serve_callers_end(&callers);
}

/* The end is counted from the ticket, by the store's clock: one of ours that is ahead, or
 * behind, neither ends a claim early nor keeps it for ever. */
static void test_windows_end_by_the_clock_of_the_store(void **state)
{
	static struct callers callers;

	(void)state;
	clock_fake_init(&fake);
	struct model_store_options options = { .clock = &fake.clock };
	assert_int_equal(model_store_open(&options, &store), 0);
	for (uint64_t i = 0; i < 4; i++)
		claim(1 + i, i < 2 ? 60000 : 3600000, 100, STORE_SINK_CALLER);
	clock_fake_advance(&fake, 5000);
	for (int round = 0; round < 3; round++) { /* a day ahead */
		serve_callers_sweep(&callers, store, fake.now.wall_ms + 86400000);
		for (int i = 0; i < 100 && callers.sweeping; i++)
			store_flush(store);
		assert_false(callers.sweeping);
		assert_int_equal(callers.closed, 0);
		assert_int_equal(open_count(), 4);
	}
	clock_fake_advance(&fake, 60000);
	serve_callers_sweep(&callers, store, fake.now.wall_ms + 86400000);
	for (int i = 0; i < 100 && callers.sweeping; i++)
		store_flush(store);
	assert_int_equal(callers.closed, 2);
	assert_int_equal(open_count(), 2);
	serve_callers_end(&callers);
	store_free(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_claims_whose_window_has_ended_are_closed),
		cmocka_unit_test(test_windows_end_by_the_clock_of_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
