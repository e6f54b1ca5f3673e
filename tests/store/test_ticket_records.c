/*
 * What is told of tickets, on every store: notes, scans, and what is left of them when
 * their segment leaves or the disk fails.
 */
#include "ticket_kit.h"

#include <string.h>

#include "base/error.h"

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
	uint64_t ticket = kit_admit(2);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 500), 0);
	place_restart();
	item = kit_must_take(CRM);
	clock_fake_advance(&place.clock, 10);
	assert_int_equal(kit_note(&item, STORE_MARK_STARTED, 0), 0);
	assert_int_equal(kit_note(&item, STORE_MARK_UNKNOWN, 0), 0);
	item.attempt++;
	assert_int_equal(kit_settle(&item, OUTCOME_DEAD), 0);
	history_check(ticket, notes + 1, 4);
	place_restart();
	history_check(ticket, notes + 1, 4);
	history_check(ticket + 1, NULL, 0);
	assert_int_equal(kit_release(ticket, false), 0);
	place_restart();
	history_check(ticket, notes, 5);
}

static void test_a_long_text_is_cut(void **state)
{
	(void)state;
	static char text[STORE_TEXT_MAX + 2];
	memset(text, 'x', sizeof(text) - 1);
	uint64_t ticket = kit_admit(1);
	kit_must_take(CRM);
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

static void held_make(uint64_t *ret_ticket)
{
	struct store_admit op = kit_event_make(3);

	op.claims[0].digest = digest_with_check(op.claims[0].digest, 1);
	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct store_item item = kit_must_take(kit_legs[i].sink);
		assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
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
	struct store_item crm = kit_item_of(event), erp = kit_item_of(event + 1),
			  sms = kit_item_of(event + 2);

	assert_true(crm.due_ms == 777 && crm.order == 7 && crm.sink == CRM);
	assert_int_equal(crm.status, 500);
	history_check(event, &failed, 1);
	assert_int_equal(erp.state, STORE_STATE_DEAD);
	assert_true(erp.order == UINT64_MAX && erp.event == event);
	history_check(event + 1, &dead, 1);
	assert_int_equal(sms.last, STORE_MARK_STARTED);
	history_check(event + 2, &started, 1);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(kit_item_of(held + i).state, STORE_STATE_HELD);
	assert_true(kit_item_of(back).due_ms == 4242);
}

static void test_what_is_open_keeps_its_legs_and_last_note_when_its_segment_leaves(void **state)
{
	(void)state;
	uint64_t held;
	place.retain_ms = 1000;
	place_restart();
	kit_churn_once(10); /* few of many are left then */
	held_make(&held);
	uint64_t event = kit_admit(3);
	struct store_item crm = kit_must_take(CRM), erp = kit_must_take(ERP),
			  sms = kit_must_take(SMS);
	assert_int_equal(kit_note(&crm, STORE_MARK_FAILED, 500), 0);
	assert_int_equal(kit_settle(&erp, OUTCOME_DEAD), 0);
	assert_int_equal(kit_note(&sms, STORE_MARK_STARTED, 0), 0);
	kit_churn_once(10);
	uint64_t back = kit_admit(1);
	struct store_item item = kit_must_take(CRM);
	struct store_settle give = {
		.ticket = item.ticket, .attempt = 1, .outcome = OUTCOME_RELEASED, .due_ms = 4242
	};
	assert_int_equal(store_call(place.store, &give.op, STORE_SETTLE), 0);
	for (int i = 0; i < 3; i++) {
		kit_churn();
		moved_check(event, held, back);
		if (i == 1)
			place_restart();
		moved_check(event, held, back);
	}
	/* The attempts go on where they were. */
	place_restart();
	assert_int_equal(kit_must_take(SMS).attempt, 2);
	assert_int_equal(kit_must_take(CRM).attempt, 2);
	item = kit_must_take(CRM);
	assert_true(item.ticket == back && item.attempt == 2 && item.due_ms == 4242);
	assert_int_equal(kit_settle(&item, OUTCOME_DONE), 0);
	struct store_release all = { .ticket = held, .whole_event = true, .drop = true };
	assert_int_equal(store_call(place.store, &all.op, STORE_RELEASE), 0);
	kit_churn();
	place_restart();
	assert_int_equal(kit_item_of(back).state, STORE_STATE_CLOSED);
	assert_int_equal(kit_item_of(held + 1).state, STORE_STATE_CLOSED);
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
		tickets[i] = kit_admit(3);
	struct store_item one = kit_must_take(CRM), two = kit_must_take(CRM),
			  three = kit_must_take(CRM);
	assert_int_equal(kit_settle(&one, OUTCOME_DONE), 0);
	assert_int_equal(kit_settle(&two, OUTCOME_DEAD), 0);
	assert_int_equal(kit_settle(&three, OUTCOME_UNKNOWN), 0);
	place_restart();
	kit_must_take(ERP);
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
			assert_true(span_eq(parts.metadata, SPAN("letter")));
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
		uint64_t ticket = kit_admit(3);
		if (i == 150)
			middle = ticket;
		struct store_item crm = kit_must_take(CRM), erp = kit_must_take(ERP);
		assert_int_equal(kit_settle(&crm, OUTCOME_DONE), 0);
		if (i % 3 == 0)
			assert_int_equal(kit_settle(&erp, OUTCOME_DEAD), 0);
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

#define LOST 8u

/* A frame of which the first half reaches the disk. */
static void lose_half_a_frame(void)
{
	static struct store_admit lost[LOST];
	static char payload[1000];
	bool done = false;

	for (uint32_t i = 0; i < LOST; i++) {
		lost[i] = kit_event_make(1);
		lost[i].op = (struct store_op){ .kind = STORE_ADMIT,
			                        .done = store_calls_done,
			                        .user = &done };
		lost[i].payload = span_of(payload, sizeof(payload));
		store_submit(place.store, &lost[i].op);
	}
	simfs_fail_at(place.simfs, SIMFS_SHORT, 1, false);
	store_calls_flush(place.store);
	for (uint32_t i = 0; i < LOST; i++)
		assert_int_equal(lost[i].op.error, ERR_POISONED);
}

static uint32_t count_all(void)
{
	struct store_scan op = { .all = true, .max_items = 1000, .max_bytes = 1u << 20 };
	uint32_t count = 0;

	while (!op.end) {
		assert_int_equal(store_call(place.store, &op.op, STORE_SCAN), 0);
		count += op.count;
	}
	buf_free(&op.items);
	return count;
}

/* Where a segment ends that no start has read stands in the next one. */
static void test_what_was_refused_is_not_found_behind_the_end_of_its_segment(void **state)
{
	(void)state;
	struct store_stats stats;

	kit_churn_once(10);
	uint32_t admitted = count_all();
	lose_half_a_frame();
	assert_int_equal(count_all(), admitted);
	kit_churn_once(1000);
	admitted = count_all();
	store_tick(place.store);
	place_restart();
	store_stats(place.store, &stats);
	assert_true(stats.segments > 2);
	assert_int_equal(count_all(), admitted);
	place_restart();
	assert_int_equal(count_all(), admitted);
}

static void test_a_note_that_was_not_written_changed_nothing(void **state)
{
	(void)state;
	static const struct expected_note first = { STORE_MARK_FAILED, 1, 500, "what it said" };
	uint64_t ticket = kit_admit(1);
	struct store_item item = kit_must_take(CRM);

	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 500), 0);
	item.attempt = 2;
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_int_equal(kit_note(&item, STORE_MARK_FAILED, 501), ERR_POISONED);
	assert_int_equal(kit_item_of(ticket).attempt, 2);
	history_check(ticket, &first, 1);
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	assert_true(kit_note(&item, STORE_MARK_STARTED, 0) < 0);
	history_check(ticket, &first, 1);
	assert_int_equal(kit_note(&item, STORE_MARK_STARTED, 0), 0);
	place_restart();
	item = kit_must_take(CRM);
	assert_int_equal(item.last, STORE_MARK_STARTED);
	assert_int_equal(item.attempt, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ALL(test_every_attempt_can_be_read_again),
		ON_ALL(test_a_long_text_is_cut),
		ON_ALL(test_a_scan_finds_what_was_asked_for_and_all_of_it),
		ON_DISK(test_a_scan_of_all_finds_what_is_closed_too),
		ON_DISK(test_what_is_open_keeps_its_legs_and_last_note_when_its_segment_leaves),
		ON_DISK(test_what_was_refused_is_not_found_behind_the_end_of_its_segment),
		ON_DISK(test_a_note_that_was_not_written_changed_nothing),
	};

	shared_choose_tests();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
