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
	for (uint32_t i = 0; i < 4000; i++)
		kit_admit(&kit, 0);
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

static void say(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                struct outlet_result *result)
{
	(void)attempt;
	(void)probe;
	*result = *(const struct outlet_result *)it->user;
}

/* ---- retries ---- */

static void a_retry_has_the_same_key_and_bytes_and_the_next_number(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
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
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.last, STORE_MARK_FAILED);
	assert_int_equal(item.status, 500);
	kit_close(&kit);
}

static void what_is_given_up_is_a_dead_letter(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.retry.attempts = 3;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	struct store_item item;
	assert_int_equal(kit.sent_count, 3);
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.state, STORE_STATE_DEAD);
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DEAD], 1);
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_RELEASED], 2);
	kit_close(&kit);
}

static void a_dead_letter_goes_to_its_sink_too(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.buries = true;
	kit.options.policy.dead_sink = 77;
	kit_start(&kit);
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
	struct store_item item;
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.buries = true;
	kit.options.policy.dead_sink = 77;
	kit_start(&kit);
	kit.full = true;
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 30000);
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	kit.full = false;
	kit_advance(&kit, 5000);
	assert_int_equal(kit.sent_count, 1);
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.state, STORE_STATE_DEAD);
	assert_int_equal(item.status, 400);
	assert_int_equal(kit_stats(&kit).due_tickets, 1); /* of the other sink */
	assert_int_equal(kit_view(&kit).outcomes[OUTCOME_DEAD], 1);
	kit.full = true;
	kit_admit(&kit, 0);
	kit_advance(&kit, 3000);
	kit_close(&kit); /* it stays open */
}

/* A sender's retry, or a person, sets it free; whoever reads the letters has one of it. */
static void what_dies_again_is_one_dead_letter(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 400 };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.buries = true;
	kit.options.policy.dead_sink = 77;
	kit_start(&kit);
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
	kit.answer = say;
	kit.user = &no;
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
	assert_false(lane_wish_written(kit.lane));
	kit_run(&kit);
	assert_true(lane_wish_written(kit.lane));
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
	kit.answer = say;
	kit.user = &gone;
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
	assert_true(lane_wish_written(kit.lane));
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
	assert_true(lane_wish_written(kit.lane));
	lane_resume(kit.lane);
	lane_run(kit.lane); /* it writes */
	lane_pause(kit.lane);
	kit_advance(&kit, 1);
	assert_true(lane_wish_written(kit.lane));
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

/* Noted, so a restart neither forgets the attempts nor sends too early. */
static void a_restart_keeps_number_and_time_of_a_retry(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.retry.first_ms = 100000;
	kit.options.policy.breaker.failures = 0;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.sent_count, 1);
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	uint64_t due_ms = item.due_ms;
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
	kit.answer = say;
	kit.user = &busy;
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
	kit.answer = say;
	kit.user = &gone;
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

static void a_paused_sink_starts_nothing(void **state)
{
	(void)state;
	kit_open(&kit);
	kit_start(&kit);
	lane_pause(kit.lane);
	for (uint32_t i = 0; i < 100; i++)
		kit_admit(&kit, 0);
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

/* ---- the unknown ---- */

static void note_is_there(struct lane_kit *it, const struct outlet_attempt *attempt, bool probe,
                          struct outlet_result *result)
{
	struct store_item item;
	(void)probe;
	assert_true(kit_read(it, attempt->ticket, &item));
	assert_int_equal(item.last, STORE_MARK_STARTED);
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
	kit.answer = say;
	kit.user = &lost;
	kit.options.policy.on_unknown = DELIVER_UNKNOWN_PARK;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	kit_crash(&kit);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, ticket), 1);
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.state, STORE_STATE_PARKED);

	lost.answer = OUTLET_DONE; /* a person says that it is to be sent */
	struct store_release release = { .ticket = ticket };
	assert_int_equal(store_call(kit.store, &release.op, STORE_RELEASE), 0);
	kit_advance(&kit, 60 * MINUTE_MS);
	assert_int_equal(kit_sends_of(&kit, ticket), 2);
	assert_false(kit_read(&kit, ticket, &item));
	kit_close(&kit);
}

static void what_was_not_sent_is_retried_even_with_park(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
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
		struct store_item item;
		bool open = kit_read(&kit, ticket, &item);
		assert_int_equal(open, on == DELIVER_UNKNOWN_PARK);
		if (open)
			assert_int_equal(item.state, STORE_STATE_PARKED);
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
		kit.answer = say;
		kit.user = &lost;
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
	struct store_item item;
	assert_int_equal(kit_sends_of(&kit, kit.tickets[0]), 4);
	assert_true(kit_read(&kit, kit.tickets[0], &item));
	assert_int_equal(item.state, STORE_STATE_DEAD);
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
	for (uint32_t i = 0; i < count; i++)
		kit_admit(&kit, 0);
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

/* With attempts that take their time: the limit is what is under way. */
static void after_an_outage_the_first_go_one_by_one(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.holds = true;
	kit.options.policy.breaker.failures = 3;
	kit_start(&kit);
	for (uint32_t i = 0; i < 500; i++)
		kit_admit(&kit, 0);
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
	for (uint32_t i = 0; i < 1000; i++)
		kit_admit(&kit, 0);
	kit_advance(&kit, 20000);
	assert_in_range(kit.sent_count, 203, 206);
	kit_close(&kit);
}

/* ---- commands ---- */

static void a_person_can_drop_and_hurry_what_waits(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_REFUSED, .status = 500 };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
	kit.options.policy.retry.first_ms = 1000000;
	kit.options.policy.retry.max_ms = 1000000;
	kit.options.policy.breaker.failures = 2;
	kit_start(&kit);
	for (uint32_t i = 0; i < 3; i++)
		kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(lane_drop(kit.lane, kit.tickets[0]), 0);
	assert_int_equal(lane_drop(kit.lane, 12345), -ENOENT);
	kit_run(&kit);
	struct store_item item;
	assert_false(kit_read(&kit, kit.tickets[0], &item));
	assert_int_equal(kit_stats(&kit).dead_tickets, 0);
	assert_int_equal(lane_retry_now(kit.lane, kit.tickets[0]), -ENOENT);

	uint32_t before = kit_sends_of(&kit, kit.tickets[1]);
	no.answer = OUTLET_DONE;
	assert_int_equal(lane_retry_now(kit.lane, kit.tickets[1]), 0); /* the breaker is open */
	kit_run(&kit);
	assert_int_equal(kit_sends_of(&kit, kit.tickets[1]), before + 1);
	assert_false(kit_read(&kit, kit.tickets[1], &item));
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
	assert_int_equal(lane_drop(kit.lane, ticket), ERR_BUSY);
	assert_int_equal(lane_retry_now(kit.lane, ticket), ERR_BUSY);
	assert_int_equal(lane_retry_now(kit.lane, blocked), ERR_BUSY);
	assert_int_equal(lane_drop(kit.lane, blocked), 0);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_run(&kit);
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
	struct store_item item;
	assert_true(kit_read(&kit, kit.damaged, &item)); /* what is left of it is kept */
	assert_int_equal(item.state, STORE_STATE_LEASED);
	kit_close(&kit);
}

/* ---- leases ---- */

static void leases_are_renewed_as_long_as_it_takes(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.holds = true;
	kit.options.lease_ms = 10000;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_advance(&kit, 100000); /* ten times the lease */
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.state, STORE_STATE_LEASED);
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
	kit_open(&kit);
	kit.holds = true;
	kit.options.lease_ms = 10000;
	kit.options.policy.limiter.most = 1;
	kit_start(&kit);
	uint64_t out = kit_admit(&kit, 0);
	uint64_t waits = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 1);
	clock_fake_advance(&kit.clock, 20000); /* nothing runs meanwhile */
	store_tick(kit.store);
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
	kit_open(&kit);
	kit.holds = true;
	kit.options.lease_ms = 10000;
	kit_start(&kit);
	uint64_t ticket = kit_admit(&kit, 0);
	kit_run(&kit);
	assert_int_equal(kit.held_count, 1);
	assert_true(kit.takes > 0); /* which get it */
	clock_fake_advance(&kit.clock, 20000);
	store_tick(kit.store);
	store_flush(kit.store);
	kit_run(&kit);
	assert_int_equal(kit.sent_count, 1);
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.attempt, 2);
	kit_answer(&kit, 0, OUTLET_DONE, 200);
	kit_advance(&kit, MINUTE_MS);
	assert_int_equal(kit.sent_count, 1);
	assert_int_equal(kit_stats(&kit).open_tickets, 0);
	kit_close(&kit);
}

static void no_more_is_held_than_can_be_renewed(void **state)
{
	(void)state;
	kit_open(&kit);
	kit.options.lease_ms = 10000;
	kit_start(&kit);
	lane_pause(kit.lane);
	for (uint32_t i = 0; i < 3000; i++)
		kit_admit(&kit, 0);
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
			struct store_item item;
			bool open = kit_read(&kit, kit.tickets[i], &item);
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
	struct store_item item;
	assert_true(kit_read(&kit, ticket, &item));
	assert_int_equal(item.last, STORE_MARK_FAILED);
	kit.store = store_free(kit.store);
	kit.lane = lane_free(kit.lane); /* nothing is left in it */
}

/* A sink that is away for very long, and a policy that never gives up. */
static void the_last_number_of_an_attempt_does_not_end_the_attempts(void **state)
{
	(void)state;
	struct outlet_result no = { .answer = OUTLET_NOT_SENT };
	kit_open(&kit);
	kit.answer = say;
	kit.user = &no;
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
	memory_store_restart(kit.store);
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
		cmocka_unit_test(what_dies_again_is_one_dead_letter),
		cmocka_unit_test(what_is_paused_or_disabled_is_so_after_a_crash),
		cmocka_unit_test(what_is_decided_meanwhile_is_written_down_next),
		cmocka_unit_test(what_was_decided_belongs_to_a_name),
		cmocka_unit_test(nothing_starts_before_it_is_known_whether_it_may),
		cmocka_unit_test(what_another_node_decided_is_seen),
		cmocka_unit_test(without_dead_letters_it_is_forgotten),
		cmocka_unit_test(a_restart_keeps_number_and_time_of_a_retry),
		cmocka_unit_test(retry_after_pauses_the_sink_and_is_bounded),
		cmocka_unit_test(gone_disables_the_sink_until_it_is_resumed),
		cmocka_unit_test(a_paused_sink_starts_nothing),
		cmocka_unit_test(before_an_attempt_that_must_not_be_repeated_its_start_is_durable),
		cmocka_unit_test(park_never_sends_again),
		cmocka_unit_test(what_was_not_sent_is_retried_even_with_park),
		cmocka_unit_test(after_a_crash_a_started_attempt_is_unknown),
		cmocka_unit_test(a_probe_decides_what_follows),
		cmocka_unit_test(unknown_that_is_given_up_is_parked_and_not_dead),
		cmocka_unit_test(a_stuck_head_blocks_only_its_entity),
		cmocka_unit_test(a_stuck_head_steps_aside_when_the_policy_says_so),
		cmocka_unit_test(an_outage_is_asked_little_and_recovery_is_paced),
		cmocka_unit_test(after_an_outage_the_first_go_one_by_one),
		cmocka_unit_test(a_rate_is_kept_and_used),
		cmocka_unit_test(a_person_can_drop_and_hurry_what_waits),
		cmocka_unit_test(what_is_under_way_can_be_neither_dropped_nor_hurried),
		cmocka_unit_test(a_damaged_event_does_not_block_its_entity),
		cmocka_unit_test(leases_are_renewed_as_long_as_it_takes),
		cmocka_unit_test(a_node_that_slept_past_its_lease_neither_starts_nor_settles),
		cmocka_unit_test(a_ticket_that_comes_back_is_not_sent_beside_its_first_attempt),
		cmocka_unit_test(no_more_is_held_than_can_be_renewed),
		cmocka_unit_test(in_any_history_nothing_is_lost_and_unknown_is_honoured),
		cmocka_unit_test(without_memory_nothing_is_lost),
		cmocka_unit_test(what_the_store_answers_after_the_end_is_put_back),
		cmocka_unit_test(the_last_number_of_an_attempt_does_not_end_the_attempts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
