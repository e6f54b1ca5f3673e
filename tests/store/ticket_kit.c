/* ticket_kit: see ticket_kit.h. */
#include "ticket_kit.h"

#include "base/error.h"

#define CHURN 60u

const struct store_leg kit_legs[KIT_LEGS] = {
	{ .sink = CRM, .order = 7 },
	{ .sink = ERP, .order = UINT64_MAX },
	{ .sink = SMS, .order = 0 },
};

struct store_admit kit_event_make(uint32_t legs)
{
	return (struct store_admit){
		.claims = { { .digest = { { ++place.keys * UINT64_C(0x9e3779b97f4a7c15), 1 } },
		              .window_s = 3600 } },
		.claim_count = 1,
		.flags = 5,
		.source = SPAN("src"),
		.metadata = SPAN("letter"),
		.payload = SPAN("{\"a\":1}"),
		.legs = kit_legs,
		.leg_count = legs,
	};
}

uint64_t kit_admit(uint32_t legs)
{
	struct store_admit op = kit_event_make(legs);

	assert_int_equal(store_call(place.store, &op.op, STORE_ADMIT), 0);
	assert_int_equal(op.verdict, VERDICT_NEW);
	return op.ticket;
}

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
	assert_true(span_eq(parts.metadata, SPAN("letter")) || ret_item->bare);
	assert_true(span_eq(parts.payload, SPAN("{\"a\":1}")) || ret_item->bare);
	return true;
}

uint64_t kit_due_count(void)
{
	struct store_stats stats;

	store_stats(place.store, &stats);
	return stats.due_tickets;
}

struct store_item kit_must_take(uint32_t sink)
{
	struct store_item item;

	assert_true(kit_due_count() > 0);
	if (!take(sink, &item))
		fail_msg("nothing is due at sink %u", sink);
	return item;
}

int kit_note(const struct store_item *item, enum store_mark mark, uint16_t status)
{
	struct store_note op = { .ticket = item->ticket,
		                 .attempt = item->attempt,
		                 .mark = mark,
		                 .status = status,
		                 .due_ms = 777,
		                 .text = SPAN("what it said") };

	return store_call(place.store, &op.op, STORE_NOTE);
}

int kit_settle(const struct store_item *item, enum outcome outcome)
{
	struct store_settle op = { .ticket = item->ticket,
		                   .attempt = item->attempt,
		                   .outcome = outcome,
		                   .status = 503,
		                   .text = SPAN("no more") };

	return store_call(place.store, &op.op, STORE_SETTLE);
}

int kit_release(uint64_t ticket, bool drop)
{
	struct store_release op = { .ticket = ticket, .drop = drop };

	return store_call(place.store, &op.op, STORE_RELEASE);
}

struct store_item kit_item_of(uint64_t ticket)
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
		assert_true(span_eq(parts.metadata, SPAN("letter")));
		assert_int_equal(at, op.items.len);
	}
	buf_free(&op.items);
	return item;
}

/* ---- many that come and go ---- */

void kit_churn_once(size_t size)
{
	static struct store_admit admits[CHURN];
	static struct store_settle settles[CHURN];
	static char payload[1000];
	struct store_leg leg = { .sink = 77 };
	struct take_call call = { .take = { .sink = 77, .without_payload = true } };
	bool done = false;

	for (uint32_t i = 0; i < CHURN; i++) {
		admits[i] = kit_event_make(1);
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

void kit_churn(void)
{
	struct store_stats stats;

	for (int i = 0; i < 5; i++)
		kit_churn_once(1000);
	for (int i = 0; i < 20; i++) {
		clock_fake_advance(&place.clock, 500);
		store_tick(place.store);
	}
	store_stats(place.store, &stats);
	assert_true(stats.segments <= 3);
}
