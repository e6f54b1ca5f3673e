/*
 * What can be done with a ticket, one by one, on every store: legs, notes, outcomes,
 * release, read, scan, wait. The local one is killed and opened again between the
 * steps, so that what it says comes from the disk too, and a shared one is closed.
 */
#include "place.h"

#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"

#define CRM 11u
#define ERP 22u
#define SMS 33u

/* ---- operations ---- */

static const struct store_leg three_legs[] = {
	{ .sink = CRM, .order = 7 },
	{ .sink = ERP, .order = UINT64_MAX },
	{ .sink = SMS, .order = 0 },
};

static struct store_admit event_make(uint32_t legs)
{
	return (struct store_admit){
		.claims = { { .digest = { { ++place.keys * UINT64_C(0x9e3779b97f4a7c15), 1 } },
		              .window_s = 3600 } },
		.claim_count = 1,
		.flags = 5,
		.source = SPAN("src"),
		.letter = SPAN("letter"),
		.payload = SPAN("{\"a\":1}"),
		.legs = three_legs,
		.leg_count = legs,
	};
}

/* A new event with so many legs; its ticket. */
static uint64_t admit(uint32_t legs)
{
	struct store_admit op = event_make(legs);

	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	return op.ticket;
}

/* What is due at a sink, if anything is: the first item. */
static bool take(uint32_t sink, struct store_item *ret_item)
{
	struct store_parts parts;
	size_t at = 0;

	place.call.take.sink = sink;
	take_call_begin(place.store, &place.call, 1, 1u << 20);
	store_flush(place.store);
	if (!take_call_poll(&place.call))
		return false;
	assert_int_equal(place.call.take.op.error, 0);
	assert_true(store_item_next(buf_span(&place.call.take.items), &at, ret_item, &parts));
	assert_true(span_eq(parts.source, SPAN("src")) || ret_item->bare);
	assert_true(span_eq(parts.letter, SPAN("letter")) || ret_item->bare);
	assert_true(span_eq(parts.payload, SPAN("{\"a\":1}")) || ret_item->bare);
	return true;
}

/* A take that waits is ended by a restart alone; so ask before. */
static uint64_t due_count(void)
{
	struct store_stats stats;

	store_stats(place.store, &stats);
	return stats.due_tickets;
}

static struct store_item must_take(uint32_t sink)
{
	struct store_item item;

	assert_true(due_count() > 0);
	if (!take(sink, &item))
		fail_msg("nothing is due at sink %u", sink);
	return item;
}

static int note(const struct store_item *item, enum store_mark mark, uint16_t status)
{
	struct store_note op = { .ticket = item->ticket,
		                 .attempt = item->attempt,
		                 .mark = mark,
		                 .status = status,
		                 .due_ms = 777,
		                 .text = SPAN("what it said") };

	return store_call(place.store, &op.op, STORE_NOTE);
}

static int settle(const struct store_item *item, enum outcome outcome)
{
	struct store_settle op = { .ticket = item->ticket,
		                   .attempt = item->attempt,
		                   .outcome = outcome,
		                   .status = 503,
		                   .text = SPAN("no more") };

	return store_call(place.store, &op.op, STORE_SETTLE);
}

static int release(uint64_t ticket, bool drop)
{
	struct store_release op = { .ticket = ticket, .drop = drop };

	return store_call(place.store, &op.op, STORE_RELEASE);
}

/* The state of an open ticket, or STORE_STATE_CLOSED. */
static struct store_item item_of(uint64_t ticket)
{
	struct store_read op = { .ticket = ticket };
	struct store_item item = { .state = STORE_STATE_CLOSED };
	struct store_parts parts;
	size_t at = 0;

	int r = store_call(place.store, &op.op, STORE_READ);
	if (r != -ENOENT) {
		assert_int_equal(r, 0);
		assert_true(store_item_next(buf_span(&op.items), &at, &item, &parts));
		assert_true(span_eq(parts.payload, SPAN("{\"a\":1}")));
		assert_true(span_eq(parts.letter, SPAN("letter")));
		assert_int_equal(at, op.items.len);
	}
	buf_free(&op.items);
	return item;
}

/* ---- legs ---- */

static void test_every_leg_of_an_event_is_a_ticket_of_its_own(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t event = admit(3);
	uint64_t next = admit(0);

	assert_true(next >= event + 3);
	place_restart();
	struct store_item erp = must_take(ERP);
	assert_true(erp.ticket == event + 1 && erp.event == event);
	assert_true(erp.order == UINT64_MAX && erp.sink == ERP);
	assert_int_equal(erp.flags, 5);
	assert_int_equal(settle(&erp, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(item_of(event + 1).state, STORE_STATE_CLOSED);
	struct store_item crm = must_take(CRM), sms = must_take(SMS), only = must_take(0);
	assert_true(crm.ticket == event && crm.order == 7);
	assert_true(sms.ticket == event + 2 && sms.order == 0 && sms.event == event);
	assert_true(only.ticket == next && only.event == next);
	assert_int_equal(settle(&sms, OUTCOME_DEAD), 0);
	assert_int_equal(settle(&crm, OUTCOME_RELEASED), 0);
	place_restart();
	assert_int_equal(item_of(event).state, STORE_STATE_DUE);
	assert_int_equal(item_of(event + 1).state, STORE_STATE_CLOSED);
	assert_int_equal(item_of(event + 2).state, STORE_STATE_DEAD);
}

static void test_an_event_is_busy_while_any_leg_is_to_be_delivered(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	struct store_admit op = event_make(3);

	op.busy_if_open = true;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	struct store_item crm = must_take(CRM), erp = must_take(ERP), sms = must_take(SMS);
	assert_int_equal(settle(&crm, OUTCOME_DONE), 0);
	assert_int_equal(settle(&erp, OUTCOME_UNKNOWN), 0);
	uint64_t next = admit(0); /* its number follows, and it is open */
	assert_true(next > sms.ticket);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_BUSY);
	assert_int_equal(settle(&sms, OUTCOME_DEAD), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_DUPLICATE);
}

static void test_legs_without_a_ticket_and_too_many_of_them_are_refused(void **state)
{
	(void)state;
	static const struct store_leg many[STORE_LEGS_MAX + 1];
	static char long_letter[STORE_LETTER_MAX + 1];
	struct store_admit op = event_make(3);

	op.no_ticket = true;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_INVALID);
	op.no_ticket = false;
	op.legs = many;
	op.leg_count = STORE_LEGS_MAX + 1;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_INVALID);
	op.leg_count = STORE_LEGS_MAX;
	op.letter = span_of(long_letter, sizeof(long_letter));
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_TOO_LARGE);
	op.letter.len--;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	place_restart();
	assert_true(due_count() == STORE_LEGS_MAX);
}

static void test_a_take_without_payload_gives_the_items_alone(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t first = admit(1), second = admit(1);

	place.call.take.without_payload = true;
	struct store_item item = must_take(CRM);
	assert_true(item.bare && item.ticket == first && item.order == 7);
	assert_true(item.payload_len + item.letter_len + item.source_len == 0);
	place.call.take.without_payload = false;
	item = must_take(CRM);
	assert_true(!item.bare && item.ticket == second);
	assert_int_equal(item_of(first).state, STORE_STATE_LEASED);
}

/* ---- attempts ---- */

static void test_a_failed_attempt_moves_the_number_on_and_keeps_the_lease(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);

	assert_int_equal(item.attempt, 1);
	assert_int_equal(note(&item, STORE_MARK_FAILED, 500), 0);
	assert_int_equal(note(&item, STORE_MARK_FAILED, 500), ERR_FENCED);
	assert_int_equal(settle(&item, OUTCOME_DONE), ERR_FENCED);
	item.attempt = 2;
	assert_int_equal(note(&item, STORE_MARK_UNKNOWN, 0), 0);
	assert_true(due_count() == 0);
	item = item_of(ticket);
	assert_int_equal(item.state, STORE_STATE_LEASED);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.last, STORE_MARK_UNKNOWN);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.last, STORE_MARK_UNKNOWN);
	assert_true(item.due_ms == 777);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
}

/* Many failed attempts in one flush; the number of the next one. */
static uint32_t fail_often(const struct store_item *item, uint32_t attempt)
{
	static struct store_note notes[1024];
	bool finished;

	for (uint32_t i = 0; i < ARRAY_LEN(notes); i++) {
		notes[i] = (struct store_note){
			.op = { .kind = STORE_NOTE, .done = store_calls_done, .user = &finished },
			.ticket = item->ticket,
			.attempt = attempt,
			.mark = STORE_MARK_FAILED
		};
		attempt = store_attempt_next(attempt);
		store_submit(place.store, &notes[i].op);
	}
	store_flush(place.store);
	for (uint32_t i = 0; i < ARRAY_LEN(notes); i++)
		assert_int_equal(notes[i].op.error, 0);
	return attempt;
}

static void test_the_last_number_of_an_attempt_stays(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);

	for (uint32_t i = 0; i < 65; i++)
		item.attempt = fail_often(&item, item.attempt);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(settle(&item, OUTCOME_RELEASED), 0);
	item = must_take(CRM);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(note(&item, STORE_MARK_FAILED, 0), 0);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
}

static void test_an_attempt_that_had_started_is_known_after_a_crash(void **state)
{
	(void)state;
	admit(1);
	struct store_item item = must_take(CRM);

	assert_int_equal(note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(item_of(item.ticket).attempt, 1);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_STARTED);
	assert_int_equal(item.attempt, 2);
	assert_int_equal(note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(note(&item, STORE_MARK_FAILED, 429), 0);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_FAILED);
	assert_int_equal(item.status, 429);
	assert_int_equal(item.attempt, 3);
}

static void test_an_attempt_of_which_nothing_was_noted_is_made_again(void **state)
{
	(void)state;
	admit(1);
	must_take(CRM);
	place_restart();
	struct store_item item = must_take(CRM);
	assert_int_equal(item.attempt, 1);
	assert_int_equal(item.last, STORE_MARK_NONE);
}

static void test_what_is_given_back_is_due_when_it_was_said(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);
	struct store_settle op = { .ticket = ticket,
		                   .attempt = 1,
		                   .outcome = OUTCOME_RELEASED,
		                   .due_ms = UINT64_C(1) << 45 };

	assert_int_equal(store_call(place.store, &op.op, STORE_SETTLE), 0);
	place_restart();
	assert_true(item_of(ticket).due_ms == UINT64_C(1) << 45);
	item = must_take(CRM);
	assert_int_equal(item.attempt, 2);
	assert_true(item.due_ms == UINT64_C(1) << 45);
	assert_int_equal(settle(&item, OUTCOME_RELEASED), 0);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_true(item.due_ms == 0);
}

static void test_an_outcome_and_a_note_in_one_flush_see_each_other(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	must_take(CRM);
	struct store_note failed = { .op = { .kind = STORE_NOTE, .done = store_calls_done },
		                     .ticket = ticket,
		                     .attempt = 1,
		                     .mark = STORE_MARK_FAILED,
		                     .status = 500 };
	struct store_settle back = { .op = { .kind = STORE_SETTLE, .done = store_calls_done },
		                     .ticket = ticket,
		                     .attempt = 2,
		                     .outcome = OUTCOME_RELEASED };
	bool done[2] = { false, false };

	failed.op.user = &done[0];
	back.op.user = &done[1];
	store_submit(place.store, &failed.op);
	store_submit(place.store, &back.op);
	store_flush(place.store);
	assert_true(done[0] && done[1]);
	assert_int_equal(failed.op.error | back.op.error, 0);
	place_restart();
	struct store_item item = must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.status, 500);
}

static void test_what_is_not_allowed_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = { .ticket = ticket, .attempt = 0 };

	assert_int_equal(note(&item, STORE_MARK_FAILED, 1), ERR_FENCED); /* not leased */
	item = must_take(CRM);
	assert_int_equal(note(&item, STORE_MARK_DEAD, 1), ERR_INVALID);
	assert_int_equal(note(&item, STORE_MARK_NONE, 1), ERR_INVALID);
	assert_int_equal(settle(&item, OUTCOME_NONE), ERR_INVALID);
	assert_int_equal(release(ticket, false), ERR_FENCED);
	struct store_renew renew = { .ticket = ticket, .attempt = 1 };
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	renew.attempt = 2;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(item_of(ticket).attempt, 1);
}

/* With a shared store a node may be stopped past its lease. */
static void test_a_lease_that_is_over_can_neither_note_nor_settle(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	place.call.take.lease_ms = 1000;
	struct store_item old = must_take(CRM);
	struct store_renew renew = { .ticket = ticket, .attempt = 1, .lease_ms = 1000 };

	clock_fake_advance(&place.clock, 900);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	clock_fake_advance(&place.clock, 900);
	store_tick(place.store);
	assert_int_equal(item_of(ticket).state, STORE_STATE_LEASED);
	clock_fake_advance(&place.clock, 100);
	store_tick(place.store);
	assert_int_equal(item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(settle(&old, OUTCOME_DONE), ERR_FENCED);
	struct store_item item = must_take(CRM);
	assert_int_equal(item.attempt, 2);
	assert_int_equal(note(&old, STORE_MARK_STARTED, 0), ERR_FENCED);
	assert_int_equal(note(&old, STORE_MARK_FAILED, 0), ERR_FENCED);
	assert_int_equal(settle(&old, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
}

/* ---- aside ---- */

static void test_what_is_parked_or_dead_is_not_delivered_before_its_release(void **state)
{
	(void)state;
	static const enum outcome outcomes[] = { OUTCOME_UNKNOWN, OUTCOME_DEAD };
	static const enum store_state states[] = { STORE_STATE_PARKED, STORE_STATE_DEAD };
	static const enum store_mark marks[] = { STORE_MARK_PARKED, STORE_MARK_DEAD };

	for (size_t i = 0; i < 2; i++) {
		uint64_t ticket = admit(1);
		struct store_item item = must_take(CRM);
		assert_int_equal(settle(&item, outcomes[i]), 0);
		assert_int_equal(settle(&item, outcomes[i]), ERR_FENCED);
		place_restart();
		item = item_of(ticket);
		assert_int_equal(item.state, states[i]);
		assert_int_equal(item.last, marks[i]);
		assert_int_equal(item.status, 503);
		assert_true(item.due_ms == place.clock.now.wall_ms);
		assert_true(due_count() == 0);
		assert_int_equal(release(ticket, false), 0);
		place_restart();
		item = must_take(CRM);
		assert_true(item.ticket == ticket && item.attempt == 2 && item.due_ms == 0);
		assert_int_equal(item.last, STORE_MARK_RELEASED);
		assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	}
}

#define DUE (1u << STORE_STATE_DUE)

static int release_due(uint64_t ticket, bool drop)
{
	struct store_release op = { .ticket = ticket, .drop = drop, .states = DUE };

	return store_call(place.store, &op.op, STORE_RELEASE);
}

static void test_what_nobody_has_taken_can_be_dropped_and_hurried(void **state)
{
	(void)state;
	uint64_t dropped = admit(1), later = admit(2), leased = admit(3);

	assert_int_equal(release(dropped, true), ERR_FENCED); /* it was not asked for */
	assert_int_equal(release_due(dropped, true), 0);
	assert_int_equal(release_due(dropped, true), ERR_FENCED);
	place_restart();
	assert_int_equal(item_of(dropped).state, STORE_STATE_CLOSED);
	struct store_item item = must_take(CRM);
	assert_true(item.ticket == later);
	struct store_settle back = { .ticket = later,
		                     .attempt = item.attempt,
		                     .outcome = OUTCOME_RELEASED,
		                     .due_ms = place.clock.now.wall_ms + 60000 };
	assert_int_equal(store_call(place.store, &back.op, STORE_SETTLE), 0);
	assert_int_equal(release_due(later, false), 0);
	place_restart();
	assert_true(item_of(later).due_ms == 0);
	item = must_take(CRM);
	assert_true(item.ticket == later && item.attempt == 2 && item.due_ms == 0);
	item = must_take(CRM);
	assert_true(item.ticket == leased);
	assert_int_equal(release_due(leased, true), ERR_FENCED);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
}

/* Else a delivery that must not be repeated would be, because somebody was in a hurry. */
static void test_hurrying_a_due_ticket_does_not_forget_that_it_is_unknown(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);

	assert_int_equal(note(&item, STORE_MARK_STARTED, 0), 0);
	place_restart();
	assert_int_equal(item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(release_due(ticket, false), 0);
	place_restart();
	assert_int_equal(must_take(CRM).last, STORE_MARK_STARTED);
}

static void test_a_release_of_dead_legs_leaves_parked_ones_alone(void **state)
{
	(void)state;
	uint64_t ticket = admit(2);
	struct store_item one = must_take(CRM), two = must_take(ERP);
	struct store_release op = { .ticket = ticket,
		                    .whole_event = true,
		                    .states = 1u << STORE_STATE_DEAD };

	assert_int_equal(settle(&one, OUTCOME_UNKNOWN), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_RELEASE), ERR_FENCED);
	assert_int_equal(settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_RELEASE), 0);
	assert_int_equal(item_of(one.ticket).state, STORE_STATE_PARKED);
	assert_int_equal(item_of(two.ticket).state, STORE_STATE_DUE);
}

static void test_releases_of_one_event_in_one_flush_are_each_about_their_own_legs(void **state)
{
	(void)state;
	uint64_t event = admit(2);
	struct store_item dead = must_take(CRM);
	bool finished[2] = { false, false };

	assert_int_equal(settle(&dead, OUTCOME_DEAD), 0);
	struct store_release drop = {
		.op = { .kind = STORE_RELEASE, .done = store_calls_done, .user = &finished[0] },
		.ticket = event,
		.drop = true,
		.whole_event = true
	};
	struct store_release hurry = {
		.op = { .kind = STORE_RELEASE, .done = store_calls_done, .user = &finished[1] },
		.ticket = event + 1,
		.states = 1u << STORE_STATE_DUE
	};
	store_submit(place.store, &drop.op);
	store_submit(place.store, &hurry.op);
	store_calls_flush(place.store);
	assert_true(finished[0] && finished[1]);
	assert_int_equal(drop.op.error, 0);
	assert_int_equal(hurry.op.error, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(item_of(event).state, STORE_STATE_CLOSED);
		assert_int_equal(item_of(event + 1).state, STORE_STATE_DUE);
		place_restart();
	}
}

static void test_what_is_dropped_never_comes_back(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t parked = admit(1), dead = admit(2);
	struct store_item one = must_take(CRM), two = must_take(CRM);

	assert_int_equal(settle(&one, OUTCOME_UNKNOWN), 0);
	assert_int_equal(settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(release(parked, true), 0);
	assert_int_equal(release(parked, true), ERR_FENCED);
	place_restart();
	assert_int_equal(item_of(parked).state, STORE_STATE_CLOSED);
	assert_int_equal(item_of(dead).state, STORE_STATE_DEAD);
	assert_int_equal(release(dead, true), 0);
	place_restart();
	assert_int_equal(item_of(dead).state, STORE_STATE_CLOSED);
	assert_int_equal(item_of(dead + 1).state, STORE_STATE_DUE);
}

static void test_a_dead_one_that_is_forgotten_is_closed(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	must_take(CRM);
	struct store_settle op = {
		.ticket = ticket, .attempt = 1, .outcome = OUTCOME_DEAD, .forget = true
	};

	assert_int_equal(store_call(place.store, &op.op, STORE_SETTLE), 0);
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
	place_restart();
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
}

static void test_a_dead_letter_goes_when_it_is_too_old(void **state)
{
	(void)state;
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);

	clock_fake_advance(&place.clock, 2 * PLACE_DEAD_KEEP_MS);
	assert_int_equal(settle(&item, OUTCOME_DEAD), 0);
	clock_fake_advance(&place.clock, PLACE_DEAD_KEEP_MS - 1);
	store_tick(place.store);
	place_restart();
	store_tick(place.store);
	assert_int_equal(item_of(ticket).state, STORE_STATE_DEAD);
	clock_fake_advance(&place.clock, 1);
	store_tick(place.store);
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
	place_restart(); /* nothing was written of that */
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
	assert_int_equal(release(ticket, false), ERR_FENCED);
}

static void test_the_legs_of_a_held_event_are_released_together_or_one_by_one(void **state)
{
	(void)state;
	struct store_admit first = event_make(3), op;
	uint64_t held[2];

	first.claims[0].digest = digest_with_check(first.claims[0].digest, 1);
	assert_int_equal(store_call(place.store, &first.op, STORE_ADMIT), 0);
	for (uint32_t i = 0; i < 2; i++) {
		op = first;
		op.claims[0].digest = digest_with_check(op.claims[0].digest, 2 + i);
		assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
		assert_int_equal(op.verdict, VERDICT_CONFLICT);
		held[i] = op.own_ticket;
	}
	uint64_t listed[4];
	struct store_held list = { .tickets = listed, .max = 4 };
	assert_int_equal(store_call(place.store, &list.op, STORE_HELD), 0);
	assert_true(list.count == 2 && listed[0] == held[1] && listed[1] == held[0]);
	assert_int_equal(release(held[0] + 1, false), 0);
	place_restart();
	assert_int_equal(store_call(place.store, &list.op, STORE_HELD), 0);
	assert_true(list.count == 2 && listed[0] == held[1] && listed[1] == held[0]);
	assert_int_equal(item_of(held[0]).state, STORE_STATE_HELD);
	assert_int_equal(item_of(held[0] + 1).state, STORE_STATE_DUE);
	assert_int_equal(item_of(held[0] + 2).state, STORE_STATE_HELD);
	struct store_release all = { .ticket = held[0], .whole_event = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), ERR_FENCED);
	all = (struct store_release){ .ticket = held[1], .whole_event = true, .drop = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	place_restart();
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(item_of(held[0] + i).state, STORE_STATE_DUE);
		assert_int_equal(item_of(held[1] + i).state, STORE_STATE_CLOSED);
		assert_int_equal(item_of(first.ticket + i).state, STORE_STATE_DUE);
	}
}

/* ---- history ---- */

struct expected_note {
	enum store_mark mark;
	uint32_t attempt;
	uint16_t status;
	const char *text;
};

static void history_check(uint64_t ticket, const struct expected_note *notes, size_t count)
{
	struct store_read op = { .ticket = ticket, .history = true };
	struct store_item item;
	struct store_parts parts;
	struct store_history found;
	struct span text;
	size_t at = 0;

	assert_int_equal(store_call(place.store, &op.op, STORE_READ), 0);
	assert_true(store_item_next(buf_span(&op.items), &at, &item, &parts));
	for (size_t i = 0; i < count; i++) {
		assert_true(store_history_next(buf_span(&op.items), &at, &found, &text));
		assert_int_equal(found.mark, notes[i].mark);
		assert_int_equal(found.attempt, notes[i].attempt);
		assert_int_equal(found.status, notes[i].status);
		assert_true(span_eq(text, span_str(notes[i].text)));
		assert_true(found.at_ms <= place.clock.now.wall_ms && found.at_ms > 0);
	}
	assert_false(store_history_next(buf_span(&op.items), &at, &found, &text));
	buf_free(&op.items);
}

static void test_every_attempt_can_be_read_again(void **state)
{
	(void)state;
	static const struct expected_note notes[] = {
		{ STORE_MARK_RELEASED, 3, 0, "" },
		{ STORE_MARK_DEAD, 3, 503, "no more" },
		{ STORE_MARK_UNKNOWN, 2, 0, "what it said" },
		{ STORE_MARK_STARTED, 2, 0, "what it said" },
		{ STORE_MARK_FAILED, 1, 500, "what it said" },
	};
	uint64_t ticket = admit(2);
	struct store_item item = must_take(CRM);

	assert_int_equal(note(&item, STORE_MARK_FAILED, 500), 0);
	place_restart();
	item = must_take(CRM);
	clock_fake_advance(&place.clock, 10);
	assert_int_equal(note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(note(&item, STORE_MARK_UNKNOWN, 0), 0);
	item.attempt++;
	assert_int_equal(settle(&item, OUTCOME_DEAD), 0);
	history_check(ticket, notes + 1, 4);
	place_restart();
	history_check(ticket, notes + 1, 4);
	history_check(ticket + 1, NULL, 0);
	assert_int_equal(release(ticket, false), 0);
	place_restart();
	history_check(ticket, notes, 5);
}

static void test_a_long_text_is_cut(void **state)
{
	(void)state;
	static char text[STORE_TEXT_MAX + 2];
	memset(text, 'x', sizeof(text) - 1);
	uint64_t ticket = admit(1);
	must_take(CRM);
	struct store_note op = { .ticket = ticket,
		                 .attempt = 1,
		                 .mark = STORE_MARK_FAILED,
		                 .text = span_of(text, sizeof(text) - 1) };

	assert_int_equal(store_call(place.store, &op.op, STORE_NOTE), 0);
	text[STORE_TEXT_MAX] = '\0';
	const struct expected_note cut = { STORE_MARK_FAILED, 1, 0, text };
	place_restart();
	history_check(ticket, &cut, 1);
}

/* ---- moved within the journal ---- */

#define CHURN 60u

/* Events of this size come and go. */
static void churn_once(size_t size)
{
	static struct store_admit admits[CHURN];
	static struct store_settle settles[CHURN];
	static char payload[1000];
	struct store_leg leg = { .sink = 77 };
	struct take_call call = { .take = { .sink = 77, .without_payload = true } };
	bool done = false;

	for (uint32_t i = 0; i < CHURN; i++) {
		admits[i] = event_make(1);
		admits[i].op = (struct store_op){ .kind = STORE_ADMIT,
			                          .done = store_calls_done,
			                          .user = &done };
		admits[i].legs = &leg;
		admits[i].payload = span_of(payload, size);
		store_submit(place.store, &admits[i].op);
	}
	take_call_begin(place.store, &call, CHURN, 1u << 20);
	store_flush(place.store);
	assert_true(take_call_poll(&call) && call.take.count == CHURN);
	for (uint32_t i = 0; i < CHURN; i++) {
		settles[i] = (struct store_settle){
			.op = { .kind = STORE_SETTLE, .done = store_calls_done, .user = &done },
			.ticket = admits[i].ticket,
			.attempt = 1,
			.outcome = OUTCOME_DONE
		};
		store_submit(place.store, &settles[i].op);
	}
	store_flush(place.store);
	buf_free(&call.take.items);
}

/* So much comes and goes that the first segments have to leave. */
static void churn(void)
{
	struct store_stats stats;

	for (int i = 0; i < 5; i++)
		churn_once(1000);
	for (int i = 0; i < 20; i++) {
		clock_fake_advance(&place.clock, 500);
		store_tick(place.store);
	}
	store_stats(place.store, &stats);
	assert_true(stats.segments <= 3);
}

static void held_make(uint64_t *ret_ticket)
{
	struct store_admit op = event_make(3);

	op.claims[0].digest = digest_with_check(op.claims[0].digest, 1);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct store_item item = must_take(three_legs[i].sink);
		assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	}
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 2);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	*ret_ticket = op.own_ticket;
}

static void moved_check(uint64_t event, uint64_t held, uint64_t back)
{
	static const struct expected_note failed = { STORE_MARK_FAILED, 1, 500, "what it said" };
	static const struct expected_note dead = { STORE_MARK_DEAD, 1, 503, "no more" };
	static const struct expected_note started = { STORE_MARK_STARTED, 1, 0, "what it said" };
	struct store_item crm = item_of(event), erp = item_of(event + 1), sms = item_of(event + 2);

	assert_true(crm.due_ms == 777 && crm.order == 7 && crm.sink == CRM);
	assert_int_equal(crm.status, 500);
	history_check(event, &failed, 1);
	assert_int_equal(erp.state, STORE_STATE_DEAD);
	assert_true(erp.order == UINT64_MAX && erp.event == event);
	history_check(event + 1, &dead, 1);
	assert_int_equal(sms.last, STORE_MARK_STARTED);
	history_check(event + 2, &started, 1);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(item_of(held + i).state, STORE_STATE_HELD);
	assert_true(item_of(back).due_ms == 4242);
}

static void test_what_is_open_keeps_its_legs_and_last_note_when_its_segment_leaves(void **state)
{
	(void)state;
	uint64_t held;
	place.retain_ms = 1000;
	place_restart();
	churn_once(10); /* few of many are left then */
	held_make(&held);
	uint64_t event = admit(3);
	struct store_item crm = must_take(CRM), erp = must_take(ERP), sms = must_take(SMS);
	assert_int_equal(note(&crm, STORE_MARK_FAILED, 500), 0);
	assert_int_equal(settle(&erp, OUTCOME_DEAD), 0);
	assert_int_equal(note(&sms, STORE_MARK_STARTED, 0), 0);
	churn_once(10);
	uint64_t back = admit(1);
	struct store_item item = must_take(CRM);
	struct store_settle give = {
		.ticket = item.ticket, .attempt = 1, .outcome = OUTCOME_RELEASED, .due_ms = 4242
	};
	assert_int_equal(store_call(place.store, &give.op, STORE_SETTLE), 0);
	for (int i = 0; i < 3; i++) {
		churn();
		moved_check(event, held, back);
		if (i == 1)
			place_restart();
		moved_check(event, held, back);
	}
	/* The attempts go on where they were. */
	place_restart();
	assert_int_equal(must_take(SMS).attempt, 2);
	assert_int_equal(must_take(CRM).attempt, 2);
	item = must_take(CRM);
	assert_true(item.ticket == back && item.attempt == 2 && item.due_ms == 4242);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	struct store_release all = { .ticket = held, .whole_event = true, .drop = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	churn();
	place_restart();
	assert_int_equal(item_of(back).state, STORE_STATE_CLOSED);
	assert_int_equal(item_of(held + 1).state, STORE_STATE_CLOSED);
}

/* ---- scan ---- */

/* How many tickets a scan finds, a few at a time, in order. */
static uint32_t scan(struct store_scan op)
{
	uint64_t before = 0;
	uint32_t count = 0;

	op.max_items = 2;
	op.max_bytes = 1u << 20;
	for (int i = 0; !op.end; i++) {
		struct store_item item;
		struct store_parts parts;
		size_t at = 0;
		assert_true(i < 10000);
		assert_int_equal(store_call(place.store, &op.op, STORE_SCAN), 0);
		assert_true(op.count <= 2);
		while (store_item_next(buf_span(&op.items), &at, &item, &parts)) {
			assert_true(item.ticket > before);
			before = item.ticket;
			assert_true(span_eq(parts.source, SPAN("src")) || op.items_only);
			assert_true(item.bare ? parts.payload.len == 0 : parts.payload.len == 7);
			assert_true(op.states == 0 || op.states & 1u << item.state);
			assert_true(op.sink == 0 || op.sink == item.sink);
			count++;
		}
	}
	buf_free(&op.items);
	return count;
}

static void test_a_scan_finds_what_was_asked_for_and_all_of_it(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t tickets[5];

	for (size_t i = 0; i < ARRAY_LEN(tickets); i++)
		tickets[i] = admit(3);
	struct store_item one = must_take(CRM), two = must_take(CRM), three = must_take(CRM);
	assert_int_equal(settle(&one, OUTCOME_DONE), 0);
	assert_int_equal(settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(settle(&three, OUTCOME_UNKNOWN), 0);
	place_restart();
	must_take(ERP);
	assert_int_equal(scan((struct store_scan){ 0 }), 14);
	assert_int_equal(scan((struct store_scan){ .with_payload = true }), 14);
	assert_int_equal(scan((struct store_scan){ .states = 1u << STORE_STATE_DEAD }), 1);
	assert_int_equal(scan((struct store_scan){ .states = 1u << STORE_STATE_LEASED }), 1);
	assert_int_equal(scan((struct store_scan){ .states = 1u << STORE_STATE_DEAD |
	                                                     1u << STORE_STATE_PARKED }),
	                 2);
	assert_int_equal(scan((struct store_scan){ .states = 1u << STORE_STATE_DUE, .sink = CRM }),
	                 2);
	assert_int_equal(scan((struct store_scan){ .sink = ERP }), 5);
	assert_int_equal(scan((struct store_scan){ .from = tickets[1] + 1, .to = tickets[2] }), 3);
	assert_int_equal(scan((struct store_scan){ .sink = 999 }), 0);
	uint64_t calls = place.simfs ? simfs_calls(place.simfs) : 0;
	assert_int_equal(scan((struct store_scan){ .items_only = true }), 14);
	assert_true(!place.simfs || simfs_calls(place.simfs) == calls); /* nothing was read */
}

/* Counts what a scan of all events finds, by state; none twice. */
static void scan_all(uint32_t states, uint64_t from,
                     uint32_t ret_counts[static STORE_STATE_CLOSED + 1])
{
	struct store_scan op = { .all = true,
		                 .states = states,
		                 .from = from,
		                 .max_items = 3,
		                 .max_bytes = 4096,
		                 .with_payload = true };
	uint64_t before = 0;

	memset(ret_counts, 0, (STORE_STATE_CLOSED + 1) * sizeof(ret_counts[0]));
	while (!op.end) {
		struct store_item item;
		struct store_parts parts;
		assert_int_equal(store_call(place.store, &op.op, STORE_SCAN), 0);
		for (size_t at = 0; store_item_next(buf_span(&op.items), &at, &item, &parts);) {
			assert_true(item.ticket > before && item.ticket >= from);
			assert_true(span_eq(parts.payload, SPAN("{\"a\":1}")));
			assert_true(span_eq(parts.letter, SPAN("letter")));
			assert_true(item.flags == 5 && !item.bare);
			before = item.ticket;
			ret_counts[item.state]++;
		}
	}
	buf_free(&op.items);
}

static void test_a_scan_of_all_finds_what_is_closed_too(void **state)
{
	(void)state;
	uint32_t counts[STORE_STATE_CLOSED + 1];
	uint64_t middle = 0;

	for (int i = 0; i < 300; i++) {
		uint64_t ticket = admit(3);
		if (i == 150)
			middle = ticket;
		struct store_item crm = must_take(CRM), erp = must_take(ERP);
		assert_int_equal(settle(&crm, OUTCOME_DONE), 0);
		if (i % 3 == 0)
			assert_int_equal(settle(&erp, OUTCOME_DEAD), 0);
		if (i % 100 == 0)
			place_restart();
	}
	store_tick(place.store);
	scan_all(0, 0, counts);
	assert_int_equal(counts[STORE_STATE_CLOSED], 300);
	assert_int_equal(counts[STORE_STATE_DEAD], 100);
	assert_int_equal(counts[STORE_STATE_DUE] + counts[STORE_STATE_LEASED], 500);
	scan_all(1u << STORE_STATE_CLOSED, middle, counts);
	assert_int_equal(counts[STORE_STATE_CLOSED], 150);
	assert_int_equal(counts[STORE_STATE_DEAD] + counts[STORE_STATE_DUE] +
	                         counts[STORE_STATE_LEASED],
	                 0);
}

/* ---- when the disk fails ---- */

static void test_a_note_that_was_not_written_changed_nothing(void **state)
{
	(void)state;
	static const struct expected_note first = { STORE_MARK_FAILED, 1, 500, "what it said" };
	uint64_t ticket = admit(1);
	struct store_item item = must_take(CRM);

	assert_int_equal(note(&item, STORE_MARK_FAILED, 500), 0);
	item.attempt = 2;
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_int_equal(note(&item, STORE_MARK_FAILED, 501), ERR_POISONED);
	assert_int_equal(item_of(ticket).attempt, 2);
	history_check(ticket, &first, 1);
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_true(note(&item, STORE_MARK_STARTED, 0) < 0);
	history_check(ticket, &first, 1);
	assert_int_equal(note(&item, STORE_MARK_STARTED, 0), 0);
	place_restart();
	item = must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_STARTED);
	assert_int_equal(item.attempt, 3);
}

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
		uint64_t event = admit(3), next = admit(0);
		struct store_item crm = must_take(CRM), erp = must_take(ERP), sms = must_take(SMS);
		struct waiting one, two;
		wait_begin(&one, event, 5000);
		assert_int_equal(settle(&crm, OUTCOME_DONE), 0);
		assert_int_equal(note(&sms, STORE_MARK_FAILED, 0), 0);
		sms.attempt++;
		wait_begin(&two, event, 5000);
		assert_int_equal(settle(&erp, worst[i]), 0);
		store_tick(place.store);
		assert_false(one.done || two.done);
		assert_int_equal(settle(&sms, i == 2 ? OUTCOME_DEAD : OUTCOME_DONE), 0);
		assert_true(one.done && two.done);
		assert_int_equal(one.wait.outcome, worst[i]);
		assert_int_equal(two.wait.outcome, worst[i]);
		assert_int_equal(outcome_now(event), worst[i]); /* for the one that comes late */
		assert_int_equal(outcome_now(next), OUTCOME_NONE);
		struct store_item only = must_take(0);
		assert_int_equal(settle(&only, OUTCOME_DONE), 0);
	}
}

static void test_a_wait_ends_with_its_time(void **state)
{
	(void)state;
	struct store_stats stats;
	struct waiting waiting;
	uint64_t ticket = admit(1);

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
	uint64_t ticket = admit(1), later = admit(1);
	struct store_item item = must_take(CRM);

	assert_int_equal(settle(&item, OUTCOME_UNKNOWN), 0);
	assert_int_equal(outcome_now(ticket), OUTCOME_UNKNOWN);
	assert_int_equal(release(ticket, true), 0);
	assert_int_equal(outcome_now(ticket), OUTCOME_DEAD);
	item = must_take(CRM);
	assert_int_equal(settle(&item, OUTCOME_DONE), 0);
	assert_int_equal(outcome_now(later), OUTCOME_DONE);
	place_restart();
	assert_int_equal(outcome_now(later), OUTCOME_NONE); /* nobody remembers */
}

static void test_waits_are_bounded_and_end_with_the_store(void **state)
{
	(void)state;
	static struct waiting waiting[STORE_WAITS_MAX + 1];
	uint64_t ticket = admit(1);

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

/* ---- leases of whoever claimed the event ---- */

static struct store_admit claim_make(uint32_t lease_ms)
{
	static const struct store_leg leg = { .sink = STORE_SINK_CALLER, .order = 3 };
	struct store_admit op = event_make(0);

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
	return settle(&(struct store_item){ .ticket = ticket, .attempt = attempt }, outcome);
}

static void test_whoever_claims_an_event_has_it_alone_until_the_lease_is_over(void **state)
{
	(void)state;
	struct store_admit op = claim_make(1000);

	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	uint64_t ticket = op.ticket;
	struct store_item item = item_of(ticket);
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
	assert_int_equal(item_of(ticket).state, STORE_STATE_LEASED);
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
	assert_int_equal(item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(item_of(ticket).last, STORE_MARK_STARTED);
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
	assert_int_equal(item_of(ticket).state, STORE_STATE_DUE);
	place_restart();
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 5);
	assert_int_equal(settle_as(ticket, 5, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(item_of(ticket).state, STORE_STATE_CLOSED);
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

static void test_a_conflict_kept_aside_is_not_leased(void **state)
{
	(void)state;
	struct store_admit op = claim_make(1000);
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 1);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 2);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_CONFLICT);
	assert_int_equal(item_of(op.own_ticket).state, STORE_STATE_HELD);
	assert_int_equal(item_of(op.own_ticket).attempt, 0);
	op.on_conflict = STORE_CONFLICT_PASS;
	op.claims[0].digest = digest_with_check(op.claims[0].digest, 3);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_CONFLICT);
	assert_int_equal(item_of(op.own_ticket).state, STORE_STATE_LEASED);
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
	assert_int_equal(item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(item_of(ticket).attempt, 1);
	assert_int_equal(take_one(ticket, STORE_SINK_CALLER), 2);
	buf_free(&take.items);
}

/* The number stays used, and so does the mark, when the event moves. */
static void test_a_caller_s_number_is_kept_when_its_segment_leaves(void **state)
{
	(void)state;
	place.retain_ms = 1000;
	place_restart();
	churn_once(10);
	uint64_t leased = claim(100000000), over = claim(1000);
	clock_fake_advance(&place.clock, 1000);
	assert_int_equal(take_one(over, STORE_SINK_CALLER), 2);
	for (int i = 0; i < 3; i++)
		churn();
	place_restart();
	assert_int_equal(item_of(leased).last, STORE_MARK_STARTED);
	assert_int_equal(take_one(leased, STORE_SINK_CALLER), 2);
	assert_int_equal(take_one(over, STORE_SINK_CALLER), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ALL(test_every_leg_of_an_event_is_a_ticket_of_its_own),
		ON_ALL(test_an_event_is_busy_while_any_leg_is_to_be_delivered),
		ON_ALL(test_legs_without_a_ticket_and_too_many_of_them_are_refused),
		ON_ALL(test_a_take_without_payload_gives_the_items_alone),
		ON_ALL(test_a_failed_attempt_moves_the_number_on_and_keeps_the_lease),
		ON_ALL(test_the_last_number_of_an_attempt_stays),
		ON_ALL(test_an_attempt_that_had_started_is_known_after_a_crash),
		ON_ALL(test_an_attempt_of_which_nothing_was_noted_is_made_again),

		ON_ALL(test_what_is_given_back_is_due_when_it_was_said),
		ON_ALL(test_an_outcome_and_a_note_in_one_flush_see_each_other),
		ON_ALL(test_what_is_not_allowed_is_refused_and_changes_nothing),
		ON_ALL(test_a_lease_that_is_over_can_neither_note_nor_settle),
		ON_ALL(test_whoever_claims_an_event_has_it_alone_until_the_lease_is_over),
		IN_MEMORY(test_a_number_that_a_caller_had_is_not_given_again_after_a_crash),
		ON_DISK(test_a_number_that_a_caller_had_is_not_given_again_after_a_crash),
		SHARED(test_a_caller_keeps_its_lease_when_a_gateway_ends),
		ON_ALL(test_a_renewed_lease_goes_on),
		ON_ALL(test_a_conflict_kept_aside_is_not_leased),
		ON_ALL(test_what_is_given_back_for_later_is_not_taken_before),
		ON_DISK(test_a_claim_that_was_not_written_has_no_lease),
		ON_DISK(test_a_caller_s_number_is_kept_when_its_segment_leaves),
		ON_ALL(test_what_is_parked_or_dead_is_not_delivered_before_its_release),
		ON_ALL(test_what_is_dropped_never_comes_back),
		ON_ALL(test_a_dead_one_that_is_forgotten_is_closed),
		ON_ALL(test_a_dead_letter_goes_when_it_is_too_old),
		ON_ALL(test_what_nobody_has_taken_can_be_dropped_and_hurried),
		ON_ALL(test_hurrying_a_due_ticket_does_not_forget_that_it_is_unknown),
		ON_ALL(test_a_release_of_dead_legs_leaves_parked_ones_alone),
		ON_ALL(test_releases_of_one_event_in_one_flush_are_each_about_their_own_legs),
		ON_ALL(test_the_legs_of_a_held_event_are_released_together_or_one_by_one),
		ON_ALL(test_every_attempt_can_be_read_again),
		ON_ALL(test_a_long_text_is_cut),
		ON_ALL(test_a_scan_finds_what_was_asked_for_and_all_of_it),
		ON_DISK(test_a_scan_of_all_finds_what_is_closed_too),
		ON_DISK(test_what_is_open_keeps_its_legs_and_last_note_when_its_segment_leaves),
		ON_DISK(test_a_note_that_was_not_written_changed_nothing),
		ON_ALL(test_whoever_waits_is_told_when_the_last_leg_has_its_outcome),
		ON_ALL(test_a_wait_ends_with_its_time),
		ON_ALL(test_what_was_dropped_was_not_done),
		ON_ALL(test_waits_are_bounded_and_end_with_the_store),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
