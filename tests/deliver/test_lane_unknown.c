/*
 * A lane, with a fake clock: what nobody knows. Attempts of which no answer came, or whose
 * process died, leases that ended, and any history of all that.
 */
#include "deliver/lane.h"

#include "base/check.h"
#include "deliver/lane_kit.h"
#include "support/store_calls.h"

static struct lane_kit kit;

#define MINUTE_MS UINT64_C(60000)

/* ---- the unknown ---- */

static void note_is_there(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                          struct outlet_result *result)
{
	(void)probe;
	assert_int_equal(kit_item(it, attempt->ticket).last, STORE_MARK_STARTED);
	result->answer = OUTLET_DONE;
}

static void before_an_attempt_that_must_not_be_repeated_its_start_is_durable(void **state)
{
	(void)state;
	for (enum deliver_unknown on = DELIVER_UNKNOWN_PROBE; on <= DELIVER_UNKNOWN_PARK; on++) {
		kit_open(&kit);
		kit.answer = note_is_there;
		kit.options.policy.on_unknown = on;
		kit_start(&kit);
		for (uint32_t i = 0; i < 200; i++)
			kit_admit(&kit, i % 5);
		kit_advance(&kit, 1000);
		assert_int_equal(kit.sent_count, 200);
		kit_close(&kit);
	}
}

static void park_never_sends_again(void **state)
{
	(void)state;
	struct outlet_result lost = { .answer = OUTLET_UNKNOWN };
	kit_open(&kit);
	kit_say(&kit, &lost);
	kit.options.policy.on_unknown = DELIVER_UNKNOWN_PARK;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	kit_crash(&kit);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, ticket), 1);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_PARKED);

	lost.answer = OUTLET_DONE; /* a person says that it is to be sent */
	struct store_release release = { .ticket = ticket };
	assert_int_equal(store_call(kit.store, &release.op, STORE_RELEASE), 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, ticket), 2);
	assert_false(kit_is_open(&kit, ticket));
	kit_close(&kit);
}

static void what_was_not_sent_is_retried_even_with_park(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.on_unknown = DELIVER_UNKNOWN_PARK;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit_sends_of(&kit, ticket), 1);
	kit_crash(&kit); /* that it was not sent is noted: it is not taken for unknown */
	no.answer = OUTLET_DONE;
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, ticket), 2);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

/* Killed while the attempt is on its way: nobody knows what came of it. */
static void after_a_crash_a_started_attempt_is_unknown(void **state)
{
	(void)state;
	static const uint32_t sends[] = {
		[DELIVER_UNKNOWN_RETRY] = 2, [DELIVER_UNKNOWN_PROBE] = 1, [DELIVER_UNKNOWN_PARK] = 1
	};
	for (uint32_t on = DELIVER_UNKNOWN_RETRY; on <= DELIVER_UNKNOWN_PARK; on++) {
		kit_open(&kit);
		kit.options.policy.on_unknown = (enum deliver_unknown)on;
		kit.holds = true;
		kit_start(&kit);
		uint64_t ticket = kit_admit(&kit, 0);
		kit_run(&kit);
		assert_int_equal(kit.held_count, 1);
		kit_crash(&kit);
		kit.holds = false;
		kit_advance(&kit, MINUTE_MS);
		assert_int_equal(kit_sends_of(&kit, ticket), sends[on]);
		uint32_t probes = 0;
		for (uint32_t i = 0; i < kit.sent_count; i++)
			probes += kit.sent[i].probe && kit.sent[i].ticket == ticket;
		assert_int_equal(probes, on == DELIVER_UNKNOWN_PROBE);
		assert_int_equal(kit_is_open(&kit, ticket), on == DELIVER_UNKNOWN_PARK);
		if (on == DELIVER_UNKNOWN_PARK)
			assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_PARKED);
		kit_close(&kit);
	}
}

struct probe_script {
	enum outlet_answer probes[8];
	uint32_t asked;
	uint32_t sent;
};

static void follow(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                   struct outlet_result *result)
{
	(void)attempt;
	struct probe_script *script = it->user;
	if (probe)
		result->answer = script->probes[script->asked++];
	else
		result->answer = script->sent++ == 0 ? OUTLET_UNKNOWN : OUTLET_DONE;
}

static void a_probe_decides_what_follows(void **state)
{
	(void)state;
	static const struct {
		struct probe_script script;
		uint32_t asked, sent;
	} cases[] = {
		{ { { OUTLET_DONE }, 0, 0 }, 1, 1 },
		{ { { OUTLET_NOT_FOUND }, 0, 0 }, 1, 2 },
		{ { { OUTLET_UNKNOWN, OUTLET_NOT_SENT, OUTLET_REFUSED, OUTLET_NOT_FOUND }, 0, 0 },
		  4,
		  2 },
		{ { { OUTLET_REFUSED, OUTLET_UNKNOWN, OUTLET_DONE }, 0, 0 }, 3, 1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct probe_script script = cases[i].script;
		kit_open(&kit);
		kit.answer = follow;
		kit.user = &script;
		kit.options.policy.on_unknown = DELIVER_UNKNOWN_PROBE;
		kit_start(&kit);
		kit_admit(&kit, 0);
		kit_advance(&kit, 10 * MINUTE_MS);
		assert_int_equal(script.asked, cases[i].asked);
		assert_int_equal(script.sent, cases[i].sent);
		assert_int_equal(kit_stats(&kit).open_tickets, 0);
		kit_close(&kit);
	}
}

static void unknown_that_is_given_up_is_parked_and_not_dead(void **state)
{
	(void)state;
	struct outlet_result lost = { .answer = OUTLET_UNKNOWN };
	for (uint32_t on = DELIVER_UNKNOWN_RETRY; on <= DELIVER_UNKNOWN_PROBE; on++) {
		kit_open(&kit);
		kit_say(&kit, &lost);
		kit.options.policy.on_unknown = (enum deliver_unknown)on;
		kit.options.policy.retry.attempts = 3;
		kit_start(&kit);
		kit_admit(&kit, 0);
		kit_advance(&kit, 60 * MINUTE_MS);
		assert_int_equal(kit.sent_count, 3);
		assert_int_equal(kit_stats(&kit).parked_tickets, 1);
		kit_close(&kit);
	}
}

/* ---- leases ---- */

#define LEASE_MS 10000u

/* One attempt is under way and gets no answer; its ticket. `most`: at a time; 0: as by default. */
static uint64_t hold_leased(uint32_t most)
{
	kit_open(&kit);
	kit.holds = true;
	kit.options.lease_ms = LEASE_MS;
	if (most)
		kit.options.policy.limiter.most = most;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 1);
	return ticket;
}

/* The process stops for longer than its lease: nothing runs meanwhile. */
static void sleep_past_the_lease(void)
{
	clock_fake_advance(&kit.clock, UINT64_C(2) * LEASE_MS);
	store_tick(kit.store);
}

static void leases_are_renewed_as_long_as_it_takes(void **state)
{
	(void)state;
	uint64_t ticket = hold_leased(0);
	kit_advance(&kit, UINT64_C(10) * LEASE_MS);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_LEASED);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_run(&kit);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, 1);
	kit_close(&kit);
}

/* Another node: takes the ticket, and settles it later. */
static uint32_t steal(struct lane_kit *it, uint64_t *ret_ticket)
{
	struct take_call call = { 0 };
	call.take.sink = it->options.sink;
	take_call_begin(it->store, &call, 1, 1 << 20);
	store_flush(it->store);
	assert_true(take_call_poll(&call));
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	assert_true(store_item_next(buf_span(&call.take.items), &offset, &item, &parts));
	buf_free(&call.take.items);
	*ret_ticket = item.ticket;
	return item.attempt;
}

/* The process was stopped past its lease, and somebody else has the ticket. */
static void a_node_that_slept_past_its_lease_neither_starts_nor_settles(void **state)
{
	(void)state;
	uint64_t out = hold_leased(1);
	uint64_t waits = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 1);
	sleep_past_the_lease();
	uint64_t stolen[2];
	uint32_t attempts[2];
	for (uint32_t i = 0; i < 2; i++)
		attempts[i] = steal(&kit, &stolen[i]);
	assert_int_equal(stolen[0], out);
	assert_int_equal(stolen[1], waits);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_in_range(kit_view(&kit).lost, 1, 2);
	for (uint32_t i = 0; i < 2; i++) { /* the new owner's word counts */
		struct store_settle settle = { .ticket = stolen[i],
			                       .attempt = attempts[i],
			                       .outcome = OUTCOME_DONE };
		assert_int_equal(store_call(kit.store, &settle.op, STORE_SETTLE), 0);
	}
	kit_close(&kit);
}

/* The same, but it is this node that gets the ticket again while its attempt of it is
 * still under way (the outlet of the kit refuses two of one ticket). */
static void a_ticket_that_comes_back_is_not_sent_beside_its_first_attempt(void **state)
{
	(void)state;
	uint64_t ticket = hold_leased(0);
	assert_true(kit.takes > 0); /* which get it */
	sleep_past_the_lease();
	store_flush(kit.store);
	kit_run(&kit);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_item(&kit, ticket).attempt, 2);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

/* The store is away for longer than the lease, and so is the outcome of what was done. */
static uint64_t be_done_unheard(uint32_t most)
{
	uint64_t ticket = hold_leased(most);
	struct store_note started = { .ticket = ticket, .attempt = 1, .mark = STORE_MARK_STARTED };
	assert_int_equal(store_call(kit.store, &started.op, STORE_NOTE), 0);
	kit.late = true;
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	assert_non_null(kit.outcomes);
	return ticket;
}

static void what_is_done_is_not_begun_again_if_its_outcome_comes_behind_a_take(void **state)
{
	(void)state;
	uint64_t ticket = be_done_unheard(0);
	assert_true(kit.takes > 0); /* which get it */
	sleep_past_the_lease();
	store_flush(kit.store);
	kit_run(&kit);
	assert_int_equal(kit_item(&kit, ticket).attempt, 2);
	kit_let_go(&kit);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit_view(&kit).lost, 0);
	kit_close(&kit);
}

static void what_is_done_is_not_begun_again_if_its_outcome_was_refused_before(void **state)
{
	(void)state;
	uint64_t ticket = be_done_unheard(1), stolen;
	sleep_past_the_lease();
	uint32_t attempt = steal(&kit, &stolen);
	assert_int_equal(stolen, ticket);
	kit_let_go(&kit);
	kit_run(&kit);
	assert_int_equal(kit_view(&kit).lost, 1);
	struct store_settle settle = { .ticket = ticket,
		                       .attempt = attempt,
		                       .outcome = OUTCOME_RELEASED };
	assert_int_equal(store_call(kit.store, &settle.op, STORE_SETTLE), 0);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

/* Whoever gives it free wants it to be delivered. */
static void what_is_done_is_sent_again_if_a_person_says_so(void **state)
{
	(void)state;
	uint64_t ticket = be_done_unheard(1), stolen;
	sleep_past_the_lease();
	uint32_t attempt = steal(&kit, &stolen);
	struct store_settle settle = { .ticket = ticket,
		                       .attempt = attempt,
		                       .outcome = OUTCOME_DEAD };
	assert_int_equal(store_call(kit.store, &settle.op, STORE_SETTLE), 0);
	kit_let_go(&kit);
	kit_run(&kit);
	struct store_release release = { .ticket = ticket };
	assert_int_equal(store_call(kit.store, &release.op, STORE_RELEASE), 0);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 2);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_run(&kit);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

static void no_more_is_held_than_can_be_renewed(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.options.lease_ms = LEASE_MS;
	kit_start(&kit);
	lane_pause(kit.lane);
	kit_admit_many(&kit, 3000);
	kit_advance(&kit, 100000);
	assert_in_range(kit_stats(&kit).due_tickets, 3000 - 1024, 2999);
	lane_resume(kit.lane);
	kit_advance(&kit, 100000);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, 3000);
	kit_close(&kit);
}

/* ---- any history ---- */

struct chaos {
	uint64_t seed;
	uint32_t effects[KIT_SENT_MAX]; /* by payload */
};

static void chaos_answer(struct chaos *chaos, uint32_t which)
{
	uint64_t payload;
	memcpy(&payload, kit.held[which]->payload.ptr, sizeof(payload));
	bool probe = kit.held_probe[which];
	uint64_t dice = test_random_below(&chaos->seed, 10);
	if (probe) {
		kit_answer(&kit, which,
		           dice < 3 ? OUTLET_UNKNOWN
		                    : (chaos->effects[payload] ? OUTLET_DONE : OUTLET_NOT_FOUND),
		           0);
		return;
	}
	bool acts = dice < 7;
	chaos->effects[payload] += acts;
	if (dice < 5)
		kit_answer(&kit, which, OUTLET_DONE, 200);
	else if (dice == 5 || dice == 8)
		kit_answer(&kit, which, OUTLET_UNKNOWN, 0);
	else if (dice == 9 || dice == 7)
		kit_answer(&kit, which, dice == 9 ? OUTLET_NOT_SENT : OUTLET_REFUSED, 503);
	else
		kit_answer(&kit, which, OUTLET_UNKNOWN, 0);
}

static void chaos_step(struct chaos *chaos)
{
	switch (test_random_below(&chaos->seed, 20)) {
	case 0:
	case 1:
	case 2:
	case 3: kit_admit(&kit, test_random_below(&chaos->seed, 6)); break;
	case 4: kit_advance(&kit, test_random_below(&chaos->seed, 60000)); break;
	case 5:
		if (test_random_below(&chaos->seed, 8) == 0)
			kit_crash(&kit);
		break;
	default:
		kit_run(&kit);
		if (kit.held_count > 0)
			chaos_answer(chaos,
			             (uint32_t)test_random_below(&chaos->seed, kit.held_count));
		break;
	}
}

static void drain(struct chaos *chaos)
{
	for (uint32_t i = 0; i < 100000; i++) {
		kit_advance(&kit, 1000);
		while (kit.held_count > 0)
			chaos_answer(chaos, kit.held_count - 1);
		struct store_stats stats = kit_stats(&kit);
		if (stats.open_tickets == stats.parked_tickets)
			return;
	}
	fail_msg("tickets are left: %s", test_note_seed(chaos->seed));
}

/* Events that are closed had their effect; with park and probe never twice, whatever
 * happens; the same bytes for the same key always. */
static void in_any_history_nothing_is_lost_and_unknown_is_honoured(void **state)
{
	(void)state;
	static struct chaos chaos;
	for (uint64_t run = 0; run < test_scale(30); run++) {
		memset(&chaos, 0, sizeof(chaos));
		chaos.seed = test_seed() + run;
		kit_open(&kit);
		kit.holds = true;
		kit.options.seed = chaos.seed;
		kit.options.policy.on_unknown = (enum deliver_unknown)(run % 3);
		kit.options.policy.retry.for_ms = 0;
		kit.options.lease_ms = run % 2 ? 5000 : 0;
		kit_start(&kit);
		for (uint32_t i = 0; i < 400; i++)
			chaos_step(&chaos);
		drain(&chaos);
		for (uint32_t i = 0; i < kit.ticket_count; i++) {
			bool open = kit_is_open(&kit, kit.tickets[i]);
			if (!open)
				assert_true(chaos.effects[i + 1] >= 1);
			if (kit.options.policy.on_unknown != DELIVER_UNKNOWN_RETRY)
				assert_true(chaos.effects[i + 1] <= 1);
			if (open)
				assert_int_equal(kit.options.policy.on_unknown,
				                 DELIVER_UNKNOWN_PARK);
		}
		kit_close(&kit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_an_attempt_that_must_not_be_repeated_its_start_is_durable),
		cmocka_unit_test(park_never_sends_again),
		cmocka_unit_test(what_was_not_sent_is_retried_even_with_park),
		cmocka_unit_test(after_a_crash_a_started_attempt_is_unknown),
		cmocka_unit_test(a_probe_decides_what_follows),
		cmocka_unit_test(unknown_that_is_given_up_is_parked_and_not_dead),
		cmocka_unit_test(leases_are_renewed_as_long_as_it_takes),
		cmocka_unit_test(a_node_that_slept_past_its_lease_neither_starts_nor_settles),
		cmocka_unit_test(
			what_is_done_is_not_begun_again_if_its_outcome_comes_behind_a_take),
		cmocka_unit_test(what_is_done_is_not_begun_again_if_its_outcome_was_refused_before),
		cmocka_unit_test(what_is_done_is_sent_again_if_a_person_says_so),
		cmocka_unit_test(a_ticket_that_comes_back_is_not_sent_beside_its_first_attempt),
		cmocka_unit_test(no_more_is_held_than_can_be_renewed),
		cmocka_unit_test(in_any_history_nothing_is_lost_and_unknown_is_honoured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
