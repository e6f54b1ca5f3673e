/* A lane, with a fake clock: every new event arrives, once, in spite of everything. */
#include "deliver/lane.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "deliver/lane_kit.h"
#include "support/store_calls.h"

static struct lane_kit kit;

#define MINUTE_MS UINT64_C(60000)

static void every_event_is_sent_once_and_closed(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	for (uint32_t i = 0; i < 5000; i++)
		kit_admit(&kit, i % 3);
	kit_advance(&kit, 1000);
	assert_int_equal(kit.sent_count, 5000);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(kit_sends_of(&kit, kit.tickets[i]), 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DONE], 5000);
	kit_close(&kit);
}

/* Else it falls behind what comes in, and the store reads events back from the disk. */
static void an_immediate_outlet_gets_what_waits_in_one_take(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.outlet.immediate = true;
	kit.outlet.batch_max = 128;
	kit.options.policy.limiter.most = 1024;
	kit.options.policy.limiter.fixed = true;
	kit_admit_many(&kit, 4000);
	kit_start(&kit);
	kit_run(&kit);
	assert_int_equal(kit.sent_count, 4000);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.takes, 3);
	/* Its state, outcomes, that take, those that wait. */
	assert_int_equal(kit.submits, 1 + 4000 + 1 + 3);
	kit_close(&kit);
}

static void another_sinks_tickets_are_left_alone(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	kit_admit_to(&kit, 8, 0);
	kit_admit(&kit, 0);
	kit_advance(&kit, 1000);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).due_tickets, 1);
	kit_close(&kit);
}

/* ---- retries ---- */

static void a_retry_has_the_same_key_and_bytes_and_the_next_number(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.breaker.failures = 0;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_in_range(kit.sent_count, 8, 40);
	for (uint32_t i = 0; i < kit.sent_count; i++) {
		assert_int_equal(kit.sent[i].ticket, ticket);
		assert_int_equal(kit.sent[i].event, ticket);
		assert_int_equal(kit.sent[i].number, i + 1);
		assert_int_equal(kit.sent[i].payload, 1);
		if (i > 0)
			assert_true(kit.sent[i].at_ms - kit.sent[i - 1].at_ms <=
			            retry_ceiling_ms(&kit.options.policy.retry, i));
	}
	assert_int_equal(kit_item(&kit, ticket).last, STORE_MARK_FAILED);
	assert_int_equal(kit_item(&kit, ticket).status, 500);
	kit_close(&kit);
}

static void what_is_given_up_is_a_dead_letter(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.retry.attempts = 3;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit.sent_count, 3);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_DEAD);
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DEAD], 1);
	assert_int_equal(kit_view(&kit).failed, 2);
	kit_close(&kit);
}

/* Whose every attempt has this answer. */
static void start_with_dead_sink(struct outlet_result *answer)
{
	kit_open(&kit);
	kit_say(&kit, answer);
	kit.options.policy.has_dead_sink = true;
	kit.options.policy.dead_sink = 77;
	kit_start(&kit);
}

static void a_dead_letter_goes_to_its_sink_too(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	start_with_dead_sink(&no);
	kit_admit(&kit, 0);
	kit_admit(&kit, 7);
	kit_admit(&kit, 7);
	kit_advance(&kit, 1000);
	assert_int_equal(kit.sent_count, 3);
	assert_int_equal(kit_stats(&kit).dead_tickets, 3);
	assert_int_equal(kit_stats(&kit).due_tickets, 3); /* of the other sink */
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DEAD], 3);
	kit_close(&kit);
}

/* Else a sink that has refused an event gets it once a second while the disk is full. */
static void a_burial_is_repeated_and_not_the_attempt(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	start_with_dead_sink(&no);
	kit.full = true;
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 30000);
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	kit.full = false;
	kit_advance(&kit, 5000);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_DEAD);
	assert_int_equal(kit_item(&kit, ticket).status, 400);
	assert_int_equal(kit_stats(&kit).due_tickets, 1); /* of the other sink */
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DEAD], 1);
	kit.full = true;
	kit_admit(&kit, 0);
	kit_advance(&kit, 3000);
	kit_close(&kit); /* it stays open */
}

/* A reload may come while the store is full: then the event is dead, as without that sink. */
static void a_dead_letter_that_waits_needs_no_sink_after_a_change(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	start_with_dead_sink(&no);
	kit.full = true;
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 3000);
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	lane_prepare_change(kit.lane);
	assert_true(lane_is_idle(kit.lane));
	kit.options.policy.has_dead_sink = false;
	kit.options.policy.dead_sink = 0;
	lane_change(kit.lane, &kit.outlet, &kit.options.policy);
	kit.full = false;
	kit_advance(&kit, 3000);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_DEAD);
	assert_int_equal(kit_item(&kit, ticket).status, 400);
	assert_int_equal(kit_stats(&kit).due_tickets, 0); /* no other sink has it */
	kit_close(&kit);
}

/* A sender's retry, or a person, sets it free; whoever reads the letters has one of it. */
static void what_dies_again_is_one_dead_letter(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	start_with_dead_sink(&no);
	struct store_release release = { .ticket = kit_admit(&kit, 0) };
	for (uint32_t i = 0; i < 3; i++) {
		kit_advance(&kit, 100);
		assert_int_equal(kit.sent_count, i + 1);
		assert_int_equal(store_call(kit.store, &release.op, STORE_RELEASE), 0);
	}
	kit_advance(&kit, 100);
	assert_int_equal(kit_stats(&kit).dead_tickets, 1);
	assert_int_equal(kit_stats(&kit).due_tickets, 1);
	kit_close(&kit);
}

static void without_dead_letters_it_is_forgotten(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.forget_dead = true;
	kit_start(&kit);
	kit_admit(&kit, 0);
	kit_advance(&kit, 1000);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

/* ---- what a person decided ---- */

static void what_is_paused_or_disabled_is_so_after_a_crash(void **state)
{
	(void)state;
	struct outlet_result gone = { .answer = OUTLET_REFUSED, .status = 410 };
	kit_open(&kit);
	kit_start(&kit);
	kit_run(&kit);
	lane_pause(kit.lane);
	assert_false(lane_is_state_saved(kit.lane));
	kit_run(&kit);
	assert_true(lane_is_state_saved(kit.lane));
	kit_crash(&kit);
	kit_admit(&kit, 0);
	kit_advance(&kit, 10000);
	assert_int_equal(kit.sent_count, 0);
	assert_int_equal(kit_view(&kit).state, LANE_PAUSED);
	lane_resume(kit.lane);
	kit_run(&kit);
	kit_crash(&kit);
	kit_advance(&kit, 1000);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_say(&kit, &gone);
	uint32_t sent = kit.sent_count;
	kit_admit(&kit, 0);
	kit_advance(&kit, 1000);
	kit_crash(&kit);
	kit_advance(&kit, 100000);
	assert_int_equal(kit.sent_count, sent + 1);
	assert_int_equal(kit_view(&kit).state, LANE_DISABLED);
	lane_prepare_change(kit.lane);
	lane_change(kit.lane, &kit.outlet, &kit.options.policy);
	kit.answer = NULL;
	kit_advance(&kit, 1000);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_crash(&kit);
	kit_run(&kit);
	assert_int_equal(kit_view(&kit).state, LANE_RUNNING);
	kit_close(&kit);
}

static void nothing_starts_before_it_is_known_whether_it_may(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	kit.blind = true;
	kit_admit(&kit, 0);
	kit_advance(&kit, 10000);
	assert_int_equal(kit.sent_count, 0);
	lane_pause(kit.lane); /* it is not written down, and stays so long as the lane lives */
	kit_advance(&kit, 5000);
	assert_true(lane_is_state_saved(kit.lane));
	kit.blind = false;
	kit_advance(&kit, 5000);
	assert_int_equal(kit.sent_count, 0);
	lane_resume(kit.lane);
	kit_advance(&kit, 5000);
	assert_int_equal(kit.sent_count, 1);
	kit_close(&kit);
}

/* While it is asked for, or another is being written. */
static void what_is_decided_meanwhile_is_written_down_next(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	lane_run(kit.lane); /* it asks */
	lane_pause(kit.lane);
	kit_advance(&kit, 1);
	assert_true(lane_is_state_saved(kit.lane));
	lane_resume(kit.lane);
	lane_run(kit.lane); /* it writes */
	lane_pause(kit.lane);
	kit_advance(&kit, 1);
	assert_true(lane_is_state_saved(kit.lane));
	kit_crash(&kit);
	kit_run(&kit);
	assert_int_equal(kit_view(&kit).state, LANE_PAUSED);
	kit_close(&kit);
}

static void what_was_decided_belongs_to_a_name(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	kit_run(&kit);
	lane_pause(kit.lane);
	kit_run(&kit);
	lane_rename(kit.lane, "other");
	lane_run(kit.lane);                      /* it asks … */
	lane_rename(kit.lane, kit.options.name); /* … and the answer is that of "other" */
	kit_admit(&kit, 0);
	kit_advance(&kit, 1);
	assert_int_equal(kit_view(&kit).state, LANE_PAUSED);
	assert_int_equal(kit.sent_count, 0);
	lane_rename(kit.lane, "other");
	kit_advance(&kit, 1);
	assert_string_equal(kit_view(&kit).name, "other");
	assert_int_equal(kit_view(&kit).state, LANE_RUNNING);
	assert_int_equal(kit.sent_count, 1);
	kit_close(&kit);
}

static void refuse_the_first(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                             struct outlet_result *result)
{
	const uint64_t *last = it->user;
	(void)probe;
	if (attempt->ticket <= *last)
		*result = (struct outlet_result){ .answer = OUTLET_REFUSED, .status = 500 };
}

/* Whose leases end: more of them than can be renewed wait for their next attempt, or behind
 * one of their entity that does. */
static void fail_and_see_others_pass(uint64_t order)
{
	enum { FAILING = 3000 };
	uint64_t last = UINT64_MAX;
	kit_open(&kit);
	kit.options.lease_ms = 30000;
	kit.options.policy.breaker.failures = kit.options.policy.breaker.per_cent = 0;
	kit.options.policy.retry = (struct retry_policy){ .first_ms = 180 * MINUTE_MS,
		                                          .max_ms = 180 * MINUTE_MS };
	kit.answer = refuse_the_first;
	kit.user = &last;
	kit_start(&kit);
	for (uint32_t i = 0; i < FAILING; i++)
		kit_admit(&kit, order);
	last = kit.tickets[FAILING - 1];
	kit_advance(&kit, 2 * MINUTE_MS);
	for (uint32_t i = 0; i < FAILING && order == 0; i++)
		assert_true(kit_sends_of(&kit, kit.tickets[i]) > 0);
	uint64_t good = kit_admit(&kit, 0);
	kit_advance(&kit, 1000);
	assert_int_equal(kit_sends_of(&kit, good), 1);
	last = 0;
	kit_advance(&kit, 180 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit_view(&kit).lost, 0);
	kit_close(&kit);
}

static void those_that_fail_do_not_keep_others_out(void **state)
{
	(void)state;
	fail_and_see_others_pass(0);
	fail_and_see_others_pass(7);
}

/* With a shared store: what was decided elsewhere. */
static void what_another_node_decided_is_seen(void **state)
{
	(void)state;
	struct lane *other = NULL;
	kit_open(&kit);
	kit.options.lease_ms = 60000;
	kit_start(&kit);
	assert_int_equal(lane_new(&kit.options, &other), 0);
	lane_pause(other);
	lane_run(other);
	lane_flush(other);
	kit_admit(&kit, 0);
	kit_advance(&kit, 10000);
	assert_int_equal(kit_view(&kit).state, LANE_PAUSED);
	lane_resume(other);
	lane_run(other);
	lane_flush(other);
	kit_advance(&kit, 10000);
	assert_int_equal(kit_view(&kit).state, LANE_RUNNING);
	kit_close(&kit);
	lane_free(other);
}

/* With a shared store other nodes may still have the sink. */
static void what_a_removed_sink_has_not_begun_is_given_back(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.options.lease_ms = 30000;
	kit.options.policy.limiter.most = 1;
	kit.holds = true;
	kit_start(&kit);
	lane_pause(kit.lane); /* it takes all of them */
	for (uint32_t i = 0; i < 300; i++)
		kit_admit(&kit, i % 3);
	kit_advance(&kit, 10000);
	assert_int_equal(kit_stats(&kit).due_tickets, 0);
	lane_resume(kit.lane);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 1);
	lane_remove(kit.lane);
	kit_advance(&kit, 100);
	assert_int_equal(kit_stats(&kit).due_tickets, 299);
	kit_advance(&kit, 2 * MINUTE_MS); /* what is under way is still ours */
	kit_answer(&kit, 0, OUTLET_REFUSED, 500);
	kit_admit_many(&kit, 50); /* takes that waited before get some */
	kit_advance(&kit, 2 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).due_tickets, 350);
	assert_int_equal(kit_view(&kit).waiting, 0);
	assert_int_equal(kit_view(&kit).lost, 0);
	assert_int_equal(kit.takes, 0);
	assert_int_equal(kit.sent_count, 1);

	kit.holds = false; /* it comes back */
	lane_prepare_change(kit.lane);
	lane_change(kit.lane, &kit.outlet, &kit.options.policy);
	kit_advance(&kit, 10 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, 351);
	kit_close(&kit);
}

/* Its store has no other taker. */
static void what_a_removed_sink_has_waits_there_when_leases_do_not_end(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	lane_remove(kit.lane);
	kit_admit_many(&kit, 20);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_view(&kit).waiting, 20);
	assert_int_equal(kit.sent_count, 0);
	kit_close(&kit);
}

/* Noted, so a restart neither forgets the attempts nor sends too early. */
static void a_restart_keeps_number_and_time_of_a_retry(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.retry.first_ms = 100000;
	kit.options.policy.breaker.failures = 0;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.sent_count, 1);
	uint64_t due_ms = kit_item(&kit, ticket).due_ms;
	assert_true(due_ms > kit.clock.now.wall_ms);
	kit_crash(&kit);
	while (kit_sends_of(&kit, ticket) < 2)
		kit_advance(&kit, 1);
	assert_int_equal(kit.clock.now.wall_ms, due_ms);
	for (uint32_t i = 0; i < kit.sent_count; i++)
		if (kit.sent[i].ticket == ticket)
			assert_in_range(kit.sent[i].number, 1, 2);
	kit_close(&kit);
}

static void retry_after_pauses_the_sink_and_is_bounded(void **state)
{
	(void)state;
	struct outlet_result busy = { .answer = OUTLET_REFUSED,
		                      .status = 429,
		                      .retry_after_ms = 30000 };
	kit_open(&kit);
	kit_say(&kit, &busy);
	kit.options.policy.limiter.most = 1;
	kit.options.policy.retry_after_max_ms = 60000;
	kit_start(&kit);
	kit_admit(&kit, 0);
	kit_admit(&kit, 0);
	kit_advance(&kit, 29999);
	assert_int_equal(kit.sent_count, 1); /* the other waits too */
	busy.retry_after_ms = UINT64_C(1000000000);
	kit_advance(&kit, 1);
	assert_int_equal(kit.sent_count, 2);
	kit_advance(&kit, 59999);
	assert_int_equal(kit.sent_count, 2);
	busy.answer = OUTLET_DONE;
	kit_advance(&kit, 2);
	assert_true(kit.sent_count > 2);
	kit_close(&kit);
}

/* ---- gone, paused ---- */

static void gone_disables_the_sink_until_it_is_resumed(void **state)
{
	(void)state;
	struct outlet_result gone = { .answer = OUTLET_REFUSED, .status = 410 };
	kit_open(&kit);
	kit_say(&kit, &gone);
	kit.options.policy.limiter.most = 1;
	kit_start(&kit);
	uint64_t first = kit_admit(&kit, 0);
	kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_view(&kit).state, LANE_DISABLED);
	assert_int_equal(kit_view(&kit).disabled, 1);
	assert_int_equal(kit_view(&kit).error_status, 410);
	gone.answer = OUTLET_DONE;
	lane_resume(kit.lane);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit_sends_of(&kit, first), 2);
	kit_close(&kit);
}

static void the_last_attempt_at_a_sink_that_is_gone_makes_no_dead_letter(void **state)
{
	(void)state;
	struct outlet_result gone = { .answer = OUTLET_REFUSED, .status = 410 };
	kit_open(&kit);
	kit_say(&kit, &gone);
	kit.options.policy.retry.attempts = 1;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit_view(&kit).state, LANE_DISABLED);
	assert_int_equal(kit_view(&kit).waiting, 1);
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	lane_resume(kit.lane); /* in vain */
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_view(&kit).state, LANE_DISABLED);
	assert_int_equal(kit_sends_of(&kit, ticket), 2);
	gone.status = 500;
	lane_resume(kit.lane);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_item(&kit, ticket).state, STORE_STATE_DEAD);
	assert_int_equal(kit.sent_count, 3);
	kit_close(&kit);
}

static void a_paused_sink_starts_nothing(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	lane_pause(kit.lane);
	kit_admit_many(&kit, 100);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 0);
	assert_int_equal(kit_view(&kit).state, LANE_PAUSED);
	assert_int_equal(kit_view(&kit).waiting, 100);
	lane_resume(kit.lane);
	kit_advance(&kit, 1000);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, 100);
	kit_close(&kit);
}

/* ---- order ---- */

static void fail_first(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                       struct outlet_result *result)
{
	(void)probe;
	result->answer = attempt->ticket == it->tickets[0] ? OUTLET_REFUSED : OUTLET_DONE;
	result->status = 500;
}

static void a_stuck_head_blocks_only_its_entity(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.answer = fail_first;
	kit_start(&kit);
	for (uint32_t i = 0; i < 30; i++)
		kit_admit(&kit, 1 + i % 3);
	kit_advance(&kit, 10 * MINUTE_MS);
	for (uint32_t i = 0; i < 30; i++) {
		if (i == 0)
			assert_true(kit_sends_of(&kit, kit.tickets[i]) > 3);
		else
			assert_int_equal(kit_sends_of(&kit, kit.tickets[i]), i % 3 != 0);
	}
	kit_close(&kit);
}

static void a_stuck_head_steps_aside_when_the_policy_says_so(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.answer = fail_first;
	kit.options.policy.stuck.attempts = 4;
	kit_start(&kit);
	for (uint32_t i = 0; i < 10; i++)
		kit_admit(&kit, 1);
	kit_advance(&kit, 10 * MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, kit.tickets[0]), 4);
	assert_int_equal(kit_item(&kit, kit.tickets[0]).state, STORE_STATE_DEAD);
	assert_int_equal(kit_stats(&kit).open_tickets, 1);
	for (uint32_t i = 1; i < 10; i++)
		assert_int_equal(kit_sends_of(&kit, kit.tickets[i]), 1);
	kit_close(&kit);
}

/* ---- outages ---- */

struct outage {
	bool down;
	uint32_t tries;
};

static void maybe_down(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                       struct outlet_result *result)
{
	struct outage *outage = it->user;
	(void)attempt;
	(void)probe;
	outage->tries += outage->down;
	result->answer = outage->down ? OUTLET_NOT_SENT : OUTLET_DONE;
	result->latency_us = 1000;
}

static void an_outage_is_asked_little_and_recovery_is_paced(void **state)
{
	(void)state;
	struct outage outage = { .down = true };
	kit_open(&kit);
	kit.answer = maybe_down;
	kit.user = &outage;
	kit_start(&kit);
	uint32_t count = 10000;
	kit_admit_many(&kit, count);
	kit_advance(&kit, 60 * MINUTE_MS);
	struct lane_view view = kit_view(&kit);
	assert_in_range(outage.tries, 60, 150); /* about one a minute */
	assert_int_equal(view.waiting, count);
	outage.down = false;
	kit_advance(&kit, 10 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, count + outage.tries);
	assert_int_equal(kit_view(&kit).breaker, BREAKER_CLOSED);
	kit_close(&kit);
}

/* With a shared store: another node may reach the sink. */
static void an_outage_here_keeps_little_from_others(void **state)
{
	(void)state;
	struct outage outage = { .down = true };
	kit_open(&kit);
	kit.options.lease_ms = 30000;
	kit.answer = maybe_down;
	kit.user = &outage;
	kit_start(&kit);
	uint32_t count = 1000;
	for (uint32_t i = 0; i < count; i++) {
		kit_admit(&kit, i % 4);
		kit_advance(&kit, 5);
	}
	kit_advance(&kit, 30 * MINUTE_MS);
	assert_int_equal(kit_view(&kit).breaker, BREAKER_OPEN);
	assert_in_range(outage.tries, 30, 90); /* it is still asked */
	assert_in_range(kit_view(&kit).waiting, 1, 60);
	assert_in_range(kit_stats(&kit).due_tickets, count - 60, count - 1);
	outage.down = false;
	kit_advance(&kit, 10 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, count + outage.tries);
	kit_close(&kit);
}

/* With attempts that take their time: the limit is what is under way. */
static void after_an_outage_the_first_go_one_by_one(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.holds = true;
	kit.options.policy.breaker.failures = 3;
	kit_start(&kit);
	kit_admit_many(&kit, 500);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 16);
	while (kit.held_count > 0)
		kit_answer(&kit, 0, OUTLET_NOT_SENT, 0);
	assert_int_equal(kit_view(&kit).breaker, BREAKER_OPEN);
	kit.most_held = 0;
	for (uint32_t i = 0; i < 3; i++) { /* half-open: three must succeed */
		kit_advance(&kit, 2000);
		assert_int_equal(kit.held_count, 1);
		kit_answer(&kit, 0, OUTLET_DONE, 200);
	}
	assert_int_equal(kit_view(&kit).breaker, BREAKER_CLOSED);
	uint64_t closed_ms = kit.clock.now.boot_ms;
	for (uint32_t i = 0; i < 200; i++) {
		kit_advance(&kit, 10);
		uint64_t doublings = (kit.clock.now.boot_ms - closed_ms) / 500;
		assert_true(kit.held_count <= UINT32_C(1) << doublings);
		while (kit.held_count > 0)
			kit_answer(&kit, 0, OUTLET_DONE, 200);
	}
	assert_in_range(kit.most_held, 4, 16);
	kit_close(&kit);
}

static void a_rate_is_kept_and_used(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.options.policy.limiter.rate = 10;
	kit.options.policy.limiter.per_ms = 1000;
	kit.options.policy.limiter.burst = 5;
	kit_start(&kit);
	kit_admit_many(&kit, 1000);
	kit_advance(&kit, 20000);
	assert_in_range(kit.sent_count, 203, 206);
	kit_close(&kit);
}

/* ---- commands ---- */

struct dropping {
	struct lane_drop drop;
	uint32_t answers;
	int error;
};

static void dropped(struct lane_drop *drop, int error)
{
	struct dropping *it = container_of(drop, struct dropping, drop);
	it->answers++;
	it->error = error;
}

static void a_person_can_drop_and_hurry_what_waits(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.retry.first_ms = 1000000;
	kit.options.policy.retry.max_ms = 1000000;
	kit.options.policy.breaker.failures = 2;
	kit_start(&kit);
	kit_admit_many(&kit, 3);
	kit_run(&kit);
	struct dropping it = { .drop.done = dropped };
	assert_int_equal(lane_drop(kit.lane, kit.tickets[0], &it.drop), 0);
	assert_int_equal(lane_drop(kit.lane, 12345, &it.drop), -ENOENT);
	assert_int_equal(it.answers, 0); /* the store does not have it yet */
	kit_run(&kit);
	assert_int_equal(it.answers, 1);
	assert_int_equal(it.error, 0);
	assert_false(kit_is_open(&kit, kit.tickets[0]));
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	assert_int_equal(lane_retry_now(kit.lane, kit.tickets[0]), -ENOENT);

	uint32_t before = kit_sends_of(&kit, kit.tickets[1]);
	no.answer = OUTLET_DONE;
	assert_int_equal(lane_retry_now(kit.lane, kit.tickets[1]), 0); /* the breaker is open */
	kit_run(&kit);
	assert_int_equal(kit_sends_of(&kit, kit.tickets[1]), before + 1);
	assert_false(kit_is_open(&kit, kit.tickets[1]));
	kit_close(&kit);
}

static void what_is_under_way_can_be_neither_dropped_nor_hurried(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.holds = true;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 5);
	uint64_t blocked = kit_admit(&kit, 5);
	kit_run(&kit);
	struct dropping it = { .drop.done = dropped };
	assert_int_equal(lane_drop(kit.lane, ticket, &it.drop), ERR_BUSY);
	assert_int_equal(lane_retry_now(kit.lane, ticket), ERR_BUSY);
	assert_int_equal(lane_retry_now(kit.lane, blocked), ERR_BUSY);
	assert_int_equal(lane_drop(kit.lane, blocked, &it.drop), 0);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_run(&kit);
	assert_int_equal(it.answers, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit.sent_count, 1);
	kit_close(&kit);
}

static void a_damaged_event_does_not_block_its_entity(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	lane_pause(kit.lane); /* so bytes are read when their turn comes */
	kit.damaged = kit_admit(&kit, 1);
	uint64_t next = kit_admit(&kit, 1);
	kit_advance(&kit, MINUTE_MS);
	lane_resume(kit.lane);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, kit.damaged), 0);
	assert_int_equal(kit_sends_of(&kit, next), 1);
	assert_int_equal(kit_item(&kit, kit.damaged).state,
	                 STORE_STATE_LEASED); /* what is left of it is kept */
	kit_close(&kit);
}

static void without_memory_nothing_is_lost(void **state)
{
	(void)state;
	for (unsigned long n = 1; n < 60; n++) {
		kit_open(&kit);
		kit_start(&kit);
		for (uint32_t i = 0; i < 200; i++)
			kit_admit(&kit, i % 4);
		mem_fail_at(n, false);
		kit_run(&kit);
		mem_fail_at(0, false);
		kit_advance(&kit, MINUTE_MS);
		assert_int_equal(kit_stats(&kit).open_tickets, 0);
		assert_int_equal(kit.sent_count, 200);
		kit_close(&kit);
	}
}

/* The last round is over; what the store answers after it is all that still comes. */
static void what_the_store_answers_after_the_end_is_put_back(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.options.policy.on_unknown = DELIVER_UNKNOWN_PARK;
	kit_start(&kit);
	kit_run(&kit); /* takes wait */
	uint64_t ticket = kit_admit(&kit, 0);
	lane_run(kit.lane); /* notes that an attempt begins */
	lane_stop(kit.lane);
	assert_true(lane_is_still(kit.lane));
	store_flush(kit.store); /* that is durable, … */
	store_flush(kit.store); /* … and so is that nothing came of it */
	assert_int_equal(kit.sent_count, 0);
	assert_int_equal(kit_item(&kit, ticket).last, STORE_MARK_FAILED);
	kit.store = store_free(kit.store);
	kit.lane = lane_free(kit.lane); /* nothing is left in it */
}

/* A sink that is away for very long, and a policy that never gives up. */
static void the_last_number_of_an_attempt_does_not_end_the_attempts(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit_say(&kit, &no);
	kit.options.policy.retry = (struct retry_policy){ .first_ms = 1000, .max_ms = 1000 };
	uint64_t ticket = kit_admit(&kit, 0);
	struct take_call call = { .take.sink = kit.options.sink };
	take_call_begin(kit.store, &call, 1, 4096);
	store_flush(kit.store);
	assert_true(take_call_poll(&call));
	buf_free(&call.take.items);
	struct store_note note = { .ticket = ticket, .mark = STORE_MARK_FAILED };
	for (note.attempt = 1; note.attempt < STORE_ATTEMPT_MAX; note.attempt++)
		assert_int_equal(store_call(kit.store, &note.op, STORE_NOTE), 0);
	model_store_restart(kit.store);
	kit_start(&kit);
	kit_advance(&kit, 10 * MINUTE_MS);
	uint32_t sends = kit_sends_of(&kit, ticket);
	assert_true(sends > 2);
	assert_int_equal(kit.sent[sends - 1].number, STORE_ATTEMPT_MAX);
	no.answer = OUTLET_DONE;
	kit_advance(&kit, 10 * MINUTE_MS);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	assert_int_equal(kit_view(&kit).lost, 0);
	kit_close(&kit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_is_sent_once_and_closed),
		cmocka_unit_test(an_immediate_outlet_gets_what_waits_in_one_take),
		cmocka_unit_test(another_sinks_tickets_are_left_alone),
		cmocka_unit_test(a_retry_has_the_same_key_and_bytes_and_the_next_number),
		cmocka_unit_test(what_is_given_up_is_a_dead_letter),
		cmocka_unit_test(a_dead_letter_goes_to_its_sink_too),
		cmocka_unit_test(a_burial_is_repeated_and_not_the_attempt),
		cmocka_unit_test(a_dead_letter_that_waits_needs_no_sink_after_a_change),
		cmocka_unit_test(what_dies_again_is_one_dead_letter),
		cmocka_unit_test(what_is_paused_or_disabled_is_so_after_a_crash),
		cmocka_unit_test(what_is_decided_meanwhile_is_written_down_next),
		cmocka_unit_test(what_was_decided_belongs_to_a_name),
		cmocka_unit_test(those_that_fail_do_not_keep_others_out),
		cmocka_unit_test(nothing_starts_before_it_is_known_whether_it_may),
		cmocka_unit_test(what_another_node_decided_is_seen),
		cmocka_unit_test(what_a_removed_sink_has_not_begun_is_given_back),
		cmocka_unit_test(what_a_removed_sink_has_waits_there_when_leases_do_not_end),
		cmocka_unit_test(without_dead_letters_it_is_forgotten),
		cmocka_unit_test(a_restart_keeps_number_and_time_of_a_retry),
		cmocka_unit_test(retry_after_pauses_the_sink_and_is_bounded),
		cmocka_unit_test(gone_disables_the_sink_until_it_is_resumed),
		cmocka_unit_test(the_last_attempt_at_a_sink_that_is_gone_makes_no_dead_letter),
		cmocka_unit_test(a_paused_sink_starts_nothing),
		cmocka_unit_test(a_stuck_head_blocks_only_its_entity),
		cmocka_unit_test(a_stuck_head_steps_aside_when_the_policy_says_so),
		cmocka_unit_test(an_outage_is_asked_little_and_recovery_is_paced),
		cmocka_unit_test(an_outage_here_keeps_little_from_others),
		cmocka_unit_test(after_an_outage_the_first_go_one_by_one),
		cmocka_unit_test(a_rate_is_kept_and_used),
		cmocka_unit_test(a_person_can_drop_and_hurry_what_waits),
		cmocka_unit_test(what_is_under_way_can_be_neither_dropped_nor_hurried),
		cmocka_unit_test(a_damaged_event_does_not_block_its_entity),
		cmocka_unit_test(without_memory_nothing_is_lost),
		cmocka_unit_test(what_the_store_answers_after_the_end_is_put_back),
		cmocka_unit_test(the_last_number_of_an_attempt_does_not_end_the_attempts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
