/*
 * What can be done with a ticket, one by one, on every store: legs, attempts, outcomes,
 * release.
 */
#include "ticket_kit.h"

#include <string.h>

#include "base/error.h"

/* ---- legs ---- */

static void test_every_leg_of_an_event_is_a_ticket_of_its_own(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t event = kit_admit(3);
	uint64_t next = kit_admit(0);

	assert_true(next >= event + 3);
	place_restart();
	struct store_item erp = kit_must_take(ERP);
	assert_true(erp.ticket == event + 1 && erp.event == event);
	assert_true(erp.order == UINT64_MAX && erp.sink == ERP);
	assert_int_equal(erp.flags, 5);
	assert_int_equal(kit_settle(&erp, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(kit_item_of(event + 1).state, STORE_STATE_CLOSED);
	struct store_item crm = kit_must_take(CRM), sms = kit_must_take(SMS),
			  only = kit_must_take(0);
	assert_true(crm.ticket == event && crm.order == 7);
	assert_true(sms.ticket == event + 2 && sms.order == 0 && sms.event == event);
	assert_true(only.ticket == next && only.event == next);
	assert_int_equal(kit_settle(&sms, OUTCOME_DEAD), 0);
	assert_int_equal(kit_settle(&crm, OUTCOME_RELEASED), 0);
	place_restart();
	assert_int_equal(kit_item_of(event).state, STORE_STATE_DUE);
	assert_int_equal(kit_item_of(event + 1).state, STORE_STATE_CLOSED);
	assert_int_equal(kit_item_of(event + 2).state, STORE_STATE_DEAD);
}

static void test_an_event_is_busy_while_any_leg_is_to_be_delivered(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	struct store_admit op = kit_event_make(3);

	op.busy_if_open = true;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	struct store_item crm = kit_must_take(CRM), erp = kit_must_take(ERP),
			  sms = kit_must_take(SMS);
	assert_int_equal(kit_settle(&crm, OUTCOME_DONE), 0);
	assert_int_equal(kit_settle(&erp, OUTCOME_UNKNOWN), 0);
	uint64_t next = kit_admit(0); /* its number follows, and it is open */
	assert_true(next > sms.ticket);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_BUSY);
	assert_int_equal(kit_settle(&sms, OUTCOME_DEAD), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_DUPLICATE);
}

static void test_legs_without_a_ticket_and_too_many_of_them_are_refused(void **state)
{
	(void)state;
	static const struct store_leg many[STORE_LEGS_MAX + 1];
	static char long_metadata[STORE_METADATA_MAX + 1];
	struct store_admit op = kit_event_make(3);

	op.no_ticket = true;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_INVALID);
	op.no_ticket = false;
	op.legs = many;
	op.leg_count = STORE_LEGS_MAX + 1;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_INVALID);
	op.leg_count = STORE_LEGS_MAX;
	op.metadata = span_of(long_metadata, sizeof(long_metadata));
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), ERR_TOO_LARGE);
	op.metadata.len--;
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	place_restart();
	assert_true(kit_due_count() == STORE_LEGS_MAX);
}

static void test_a_take_without_payload_gives_the_items_alone(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t first = kit_admit(1), second = kit_admit(1);

	place.call.take.without_payload = true;
	struct store_item item = kit_must_take(CRM);
	assert_true(item.bare && item.ticket == first && item.order == 7);
	assert_true(item.payload_len + item.metadata_len + item.source_len == 0);
	place.call.take.without_payload = false;
	item = kit_must_take(CRM);
	assert_true(!item.bare && item.ticket == second);
	assert_int_equal(kit_item_of(first).state, STORE_STATE_LEASED);
}

/* ---- attempts ---- */

static void test_a_failed_attempt_moves_the_number_on_and_keeps_the_lease(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(item.attempt, 1);
	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 500), 0);
	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 500), ERR_FENCED);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), ERR_FENCED);
	item.attempt = 2;
	assert_int_equal(kit_note(&item, STORE_MARK_UNKNOWN, 0), 0);
	assert_true(kit_due_count() == 0);
	item = kit_item_of(ticket);
	assert_int_equal(item.state, STORE_STATE_LEASED);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.last, STORE_MARK_UNKNOWN);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.last, STORE_MARK_UNKNOWN);
	assert_true(item.due_ms == 777);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
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
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	for (uint32_t i = 0; i < 65; i++)
		item.attempt = fail_often(&item, item.attempt);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(kit_settle(&item, OUTCOME_RELEASED), 0);
	item = kit_must_take(CRM);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 0), 0);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.attempt, STORE_ATTEMPT_MAX);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
}

static void test_an_attempt_that_had_started_is_known_after_a_crash(void **state)
{
	(void)state;
	kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(kit_note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(kit_item_of(item.ticket).attempt, 1);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_STARTED);
	assert_int_equal(item.attempt, 2);
	assert_int_equal(kit_note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 429), 0);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_FAILED);
	assert_int_equal(item.status, 429);
	assert_int_equal(item.attempt, 3);
}

static void test_an_attempt_of_which_nothing_was_noted_is_made_again(void **state)
{
	(void)state;
	kit_admit(1);
	kit_must_take(CRM);
	place_restart();
	struct store_item item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 1);
	assert_int_equal(item.last, STORE_MARK_NONE);
}

static void test_what_is_given_back_is_due_when_it_was_said(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);
	struct store_settle op = { .ticket = ticket,
		                   .attempt = 1,
		                   .outcome = OUTCOME_RELEASED,
		                   .due_ms = UINT64_C(1) << 45 };

	assert_int_equal(store_call(place.store, &op.op, STORE_SETTLE), 0);
	place_restart();
	assert_true(kit_item_of(ticket).due_ms == UINT64_C(1) << 45);
	item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 2);
	assert_true(item.due_ms == UINT64_C(1) << 45);
	assert_int_equal(kit_settle(&item, OUTCOME_RELEASED), 0);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_true(item.due_ms == 0);
}

static void test_an_outcome_and_a_note_in_one_flush_see_each_other(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	kit_must_take(CRM);
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
	struct store_item item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 3);
	assert_int_equal(item.status, 500);
}

static void test_what_is_not_allowed_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	struct store_item item = { .ticket = ticket, .attempt = 0 };

	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 1), ERR_FENCED); /* not leased */
	item = kit_must_take(CRM);
	assert_int_equal(kit_note(&item, STORE_MARK_DEAD, 1), ERR_INVALID);
	assert_int_equal(kit_note(&item, STORE_MARK_NONE, 1), ERR_INVALID);
	assert_int_equal(kit_settle(&item, OUTCOME_NONE), ERR_INVALID);
	assert_int_equal(kit_release(ticket, false), ERR_FENCED);
	struct store_renew renew = { .ticket = ticket, .attempt = 1 };
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	renew.attempt = 2;
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(kit_item_of(ticket).attempt, 1);
}

/* With a shared store a node may be stopped past its lease. */
static void test_a_lease_that_is_over_can_neither_note_nor_settle(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	place.call.take.lease_ms = 1000;
	struct store_item old = kit_must_take(CRM);
	struct store_renew renew = { .ticket = ticket, .attempt = 1, .lease_ms = 1000 };

	clock_fake_advance(&place.clock, 900);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), 0);
	clock_fake_advance(&place.clock, 900);
	store_tick(place.store);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_LEASED);
	clock_fake_advance(&place.clock, 100);
	store_tick(place.store);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(kit_settle(&old, OUTCOME_DONE), ERR_FENCED);
	struct store_item item = kit_must_take(CRM);
	assert_int_equal(item.attempt, 2);
	assert_int_equal(kit_note(&old, STORE_MARK_STARTED, 0), ERR_FENCED);
	assert_int_equal(kit_note(&old, STORE_MARK_FAILED, 0), ERR_FENCED);
	assert_int_equal(kit_settle(&old, OUTCOME_DONE), ERR_FENCED);
	assert_int_equal(store_call(place.store, &renew.op, STORE_RENEW), ERR_FENCED);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
}

/* ---- aside ---- */

static void test_what_is_parked_or_dead_is_not_delivered_before_its_release(void **state)
{
	(void)state;
	static const enum outcome outcomes[] = { OUTCOME_UNKNOWN, OUTCOME_DEAD };
	static const enum store_state states[] = { STORE_STATE_PARKED, STORE_STATE_DEAD };
	static const enum store_mark marks[] = { STORE_MARK_PARKED, STORE_MARK_DEAD };

	for (size_t i = 0; i < 2; i++) {
		uint64_t ticket = kit_admit(1);
		struct store_item item = kit_must_take(CRM);
		assert_int_equal(kit_settle(&item, outcomes[i]), 0);
		assert_int_equal(kit_settle(&item, outcomes[i]), ERR_FENCED);
		place_restart();
		item = kit_item_of(ticket);
		assert_int_equal(item.state, states[i]);
		assert_int_equal(item.last, marks[i]);
		assert_int_equal(item.status, 503);
		assert_true(item.due_ms == place.clock.now.wall_ms);
		assert_true(kit_due_count() == 0);
		assert_int_equal(kit_release(ticket, false), 0);
		place_restart();
		item = kit_must_take(CRM);
		assert_true(item.ticket == ticket && item.attempt == 2 && item.due_ms == 0);
		assert_int_equal(item.last, STORE_MARK_RELEASED);
		assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
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
	uint64_t dropped = kit_admit(1), later = kit_admit(2), leased = kit_admit(3);

	assert_int_equal(kit_release(dropped, true), ERR_FENCED); /* it was not asked for */
	assert_int_equal(release_due(dropped, true), 0);
	assert_int_equal(release_due(dropped, true), ERR_FENCED);
	place_restart();
	assert_int_equal(kit_item_of(dropped).state, STORE_STATE_CLOSED);
	struct store_item item = kit_must_take(CRM);
	assert_true(item.ticket == later);
	struct store_settle back = { .ticket = later,
		                     .attempt = item.attempt,
		                     .outcome = OUTCOME_RELEASED,
		                     .due_ms = place.clock.now.wall_ms + 60000 };
	assert_int_equal(store_call(place.store, &back.op, STORE_SETTLE), 0);
	assert_int_equal(release_due(later, false), 0);
	place_restart();
	assert_true(kit_item_of(later).due_ms == 0);
	item = kit_must_take(CRM);
	assert_true(item.ticket == later && item.attempt == 2 && item.due_ms == 0);
	item = kit_must_take(CRM);
	assert_true(item.ticket == leased);
	assert_int_equal(release_due(leased, true), ERR_FENCED);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
}

/* Else a delivery that must not be repeated would be, because somebody was in a hurry. */
static void test_hurrying_a_due_ticket_does_not_forget_that_it_is_unknown(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(kit_note(&item, STORE_MARK_STARTED, 0), 0);
	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DUE);
	assert_int_equal(release_due(ticket, false), 0);
	place_restart();
	assert_int_equal(kit_must_take(CRM).last, STORE_MARK_STARTED);
}

static void test_a_release_of_dead_legs_leaves_parked_ones_alone(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(2);
	struct store_item one = kit_must_take(CRM), two = kit_must_take(ERP);
	struct store_release op = { .ticket = ticket,
		                    .whole_event = true,
		                    .states = 1u << STORE_STATE_DEAD };

	assert_int_equal(kit_settle(&one, OUTCOME_UNKNOWN), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_RELEASE), ERR_FENCED);
	assert_int_equal(kit_settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(store_call(place.store, &op.op, STORE_RELEASE), 0);
	assert_int_equal(kit_item_of(one.ticket).state, STORE_STATE_PARKED);
	assert_int_equal(kit_item_of(two.ticket).state, STORE_STATE_DUE);
}

static void test_releases_of_one_event_in_one_flush_are_each_about_their_own_legs(void **state)
{
	(void)state;
	uint64_t event = kit_admit(2);
	struct store_item dead = kit_must_take(CRM);
	bool finished[2] = { false, false };

	assert_int_equal(kit_settle(&dead, OUTCOME_DEAD), 0);
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
		assert_int_equal(kit_item_of(event).state, STORE_STATE_CLOSED);
		assert_int_equal(kit_item_of(event + 1).state, STORE_STATE_DUE);
		place_restart();
	}
}

static void test_what_is_dropped_never_comes_back(void **state)
{
	(void)state;
	if (place.shared && shared_has_own_numbers())
		skip(); /* among shards there is no order */
	uint64_t parked = kit_admit(1), dead = kit_admit(2);
	struct store_item one = kit_must_take(CRM), two = kit_must_take(CRM);

	assert_int_equal(kit_settle(&one, OUTCOME_UNKNOWN), 0);
	assert_int_equal(kit_settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(kit_release(parked, true), 0);
	assert_int_equal(kit_release(parked, true), ERR_FENCED);
	place_restart();
	assert_int_equal(kit_item_of(parked).state, STORE_STATE_CLOSED);
	assert_int_equal(kit_item_of(dead).state, STORE_STATE_DEAD);
	assert_int_equal(kit_release(dead, true), 0);
	place_restart();
	assert_int_equal(kit_item_of(dead).state, STORE_STATE_CLOSED);
	assert_int_equal(kit_item_of(dead + 1).state, STORE_STATE_DUE);
}

static void test_a_dead_one_that_is_forgotten_is_closed(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	kit_must_take(CRM);
	struct store_settle op = {
		.ticket = ticket, .attempt = 1, .outcome = OUTCOME_DEAD, .forget = true
	};

	assert_int_equal(store_call(place.store, &op.op, STORE_SETTLE), 0);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
	place_restart();
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
}

static void test_a_dead_letter_goes_when_it_is_too_old(void **state)
{
	(void)state;
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	clock_fake_advance(&place.clock, 2 * PLACE_DEAD_KEEP_MS);
	assert_int_equal(kit_settle(&item, OUTCOME_DEAD), 0);
	clock_fake_advance(&place.clock, PLACE_DEAD_KEEP_MS - 1);
	store_tick(place.store);
	place_restart();
	store_tick(place.store);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_DEAD);
	clock_fake_advance(&place.clock, 1);
	store_tick(place.store);
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
	place_restart(); /* nothing was written of that */
	assert_int_equal(kit_item_of(ticket).state, STORE_STATE_CLOSED);
	assert_int_equal(kit_release(ticket, false), ERR_FENCED);
}

static void test_the_legs_of_a_held_event_are_released_together_or_one_by_one(void **state)
{
	(void)state;
	struct store_admit first = kit_event_make(3), op;
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
	assert_int_equal(kit_release(held[0] + 1, false), 0);
	place_restart();
	assert_int_equal(store_call(place.store, &list.op, STORE_HELD), 0);
	assert_true(list.count == 2 && listed[0] == held[1] && listed[1] == held[0]);
	assert_int_equal(kit_item_of(held[0]).state, STORE_STATE_HELD);
	assert_int_equal(kit_item_of(held[0] + 1).state, STORE_STATE_DUE);
	assert_int_equal(kit_item_of(held[0] + 2).state, STORE_STATE_HELD);
	struct store_release all = { .ticket = held[0], .whole_event = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), ERR_FENCED);
	all = (struct store_release){ .ticket = held[1], .whole_event = true, .drop = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	place_restart();
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(kit_item_of(held[0] + i).state, STORE_STATE_DUE);
		assert_int_equal(kit_item_of(held[1] + i).state, STORE_STATE_CLOSED);
		assert_int_equal(kit_item_of(first.ticket + i).state, STORE_STATE_DUE);
	}
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
		ON_ALL(test_what_is_parked_or_dead_is_not_delivered_before_its_release),
		ON_ALL(test_what_is_dropped_never_comes_back),
		ON_ALL(test_a_dead_one_that_is_forgotten_is_closed),
		ON_ALL(test_a_dead_letter_goes_when_it_is_too_old),
		ON_ALL(test_what_nobody_has_taken_can_be_dropped_and_hurried),
		ON_ALL(test_hurrying_a_due_ticket_does_not_forget_that_it_is_unknown),
		ON_ALL(test_a_release_of_dead_legs_leaves_parked_ones_alone),
		ON_ALL(test_releases_of_one_event_in_one_flush_are_each_about_their_own_legs),
		ON_ALL(test_the_legs_of_a_held_event_are_released_together_or_one_by_one),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
