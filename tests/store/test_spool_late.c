/*
 * A shared store that is unreachable at the start, and is opened later by the spool: what
 * was spooled until then is decided once it is open.
 */
#include "store/spool/spool_store.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/error.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/store_calls.h"
#include "support/test.h"

static struct clock_fake fake;

/* What open() of the spool finds. */
struct far {
	struct store *store;
	atomic_int error; /* ERR_AWAY: unreachable; 0: it gives the store */
	atomic_int opened;
	atomic_int refused, refused_error;
};

static int open_far(void *user, struct store **ret_store, struct error_text *ret_text)
{
	struct far *far = user;
	int error = atomic_load(&far->error);

	if (error != 0)
		return error_fill(ret_text, error, "not now");
	atomic_fetch_add(&far->opened, 1);
	*ret_store = far->store;
	return 0;
}

static void refused(void *user, int error, const char *text)
{
	struct far *far = user;

	assert_string_equal(text, "not now");
	atomic_store(&far->refused_error, error);
	atomic_fetch_add(&far->refused, 1);
}

static struct store *model_make(void)
{
	struct store *store = NULL;
	struct model_store_options options = { .clock = &fake.clock };

	assert_int_equal(model_store_open(&options, &store), 0);
	return store;
}

static struct store *spool_make(struct far *far)
{
	struct store *spool = NULL;
	struct spool_store_options options = { .local = model_make(),
		                               .clock = &fake.clock,
		                               .ready_when_away = true,
		                               .open = open_far,
		                               .refused = refused,
		                               .open_user = far,
		                               .open_every_ms = 1 };

	assert_int_equal(spool_store_open(&options, &spool), 0);
	return spool;
}

static int admit(struct store *store, uint64_t number, bool may_spool, enum verdict *ret_verdict)
{
	struct store_admit event = {
		.claims = { { .digest = digest_with_check((struct digest){ { number, number } }, 0),
		              .window_s = 4 * 86400 } },
		.claim_count = 1,
		.source = SPAN("orders"),
		.payload = SPAN("{}"),
		.flags = STORE_EVENT_JSON,
		.spool = may_spool,
	};
	int error = store_call(store, &event.op, STORE_ADMIT);

	*ret_verdict = event.verdict;
	return error;
}

static struct store_stats stats_of(struct store *store)
{
	struct store_stats stats;

	store_stats(store, &stats);
	return stats;
}

static void let_time_pass(struct store *store)
{
	clock_fake_advance(&fake, 50);
	store_tick(store);
	store_calls_flush(store);
	sched_yield();
}

static void test_late_store_decides_what_was_spooled(void **state)
{
	struct far far = { .error = ERR_AWAY };
	enum verdict verdict;

	(void)state;
	clock_fake_init(&fake);
	far.store = model_make();
	struct store *spool = spool_make(&far);
	for (uint64_t i = 1; i <= 20; i++) {
		assert_int_equal(admit(spool, i, true, &verdict), 0);
		assert_int_equal(verdict, VERDICT_SPOOLED);
	}
	assert_int_equal(admit(spool, 21, false, &verdict), ERR_AWAY);
	while (!stats_of(spool).away) /* the breaker opens after more failures */
		let_time_pass(spool);
	assert_int_equal(stats_of(spool).spooled_events, 20);
	atomic_store(&far.error, 0);
	while (stats_of(spool).away || stats_of(spool).spooled_events > 0)
		let_time_pass(spool);
	assert_int_equal(atomic_load(&far.opened), 1);
	assert_int_equal(atomic_load(&far.refused), 0);
	for (uint64_t i = 1; i <= 20; i++) {
		assert_int_equal(admit(spool, i, true, &verdict), 0);
		assert_int_equal(verdict, VERDICT_DUPLICATE);
	}
	assert_int_equal(admit(spool, 21, false, &verdict), 0);
	assert_int_equal(verdict, VERDICT_NEW);
	store_free(spool); /* the late store too */
}

static void test_another_error_is_reported_once_and_stays_away(void **state)
{
	struct far far = { .error = ERR_CONFIG };
	enum verdict verdict;

	(void)state;
	clock_fake_init(&fake);
	struct store *spool = spool_make(&far);
	while (atomic_load(&far.refused) == 0)
		sched_yield();
	assert_int_equal(atomic_load(&far.refused_error), ERR_CONFIG);
	assert_int_equal(admit(spool, 1, true, &verdict), 0);
	assert_int_equal(verdict, VERDICT_SPOOLED);
	store_free(spool);
	assert_int_equal(atomic_load(&far.refused), 1);
	assert_int_equal(atomic_load(&far.opened), 0);
}

static void finish(struct store_op *op)
{
	*(int *)op->user += 1;
}

static void test_free_ends_what_waits_for_the_late_store(void **state)
{
	struct far far = { .error = ERR_AWAY };
	struct store_settle settle = { .ticket = 1, .attempt = 1, .outcome = OUTCOME_DONE };
	struct store_lookup lookup = { .kind = CLAIM_ONCE };
	int ended = 0;

	(void)state;
	clock_fake_init(&fake);
	struct store *spool = spool_make(&far);
	settle.op = (struct store_op){ .kind = STORE_SETTLE, .done = finish, .user = &ended };
	lookup.op = (struct store_op){ .kind = STORE_LOOKUP, .done = finish, .user = &ended };
	store_submit(spool, &settle.op);
	store_flush(spool);
	assert_int_equal(ended, 0); /* an outcome waits for the store */
	store_submit(spool, &lookup.op);
	store_free(spool);
	assert_int_equal(ended, 2);
	assert_int_equal(settle.op.error, ERR_CLOSING);
	assert_int_equal(lookup.op.error, ERR_AWAY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_store_decides_what_was_spooled),
		cmocka_unit_test(test_another_error_is_reported_once_and_stays_away),
		cmocka_unit_test(test_free_ends_what_waits_for_the_late_store),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
