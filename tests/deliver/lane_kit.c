/* lane_kit: see lane_kit.h. */
#include "deliver/lane_kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "support/store_calls.h"

#define SINK 7u

static struct lane_kit *kit_of(struct outlet *outlet)
{
	return container_of(outlet, struct lane_kit, outlet);
}

static void tell(struct lane_kit *kit, struct outlet_attempt *attempt, bool probe)
{
	memset(&attempt->result, 0, sizeof(attempt->result));
	attempt->result.answer = OUTLET_DONE;
	if (kit->answer)
		kit->answer(kit, attempt, probe, &attempt->result);
	attempt->done(attempt);
}

static void saw(struct lane_kit *kit, struct outlet_attempt *attempt, bool probe)
{
	CHECK(kit->sent_count < KIT_SENT_MAX);
	struct kit_sent *sent = &kit->sent[kit->sent_count++];
	*sent = (struct kit_sent){ attempt->ticket, attempt->event,         attempt->number,
		                   probe,           kit->clock.now.boot_ms, 0 };
	CHECK(attempt->payload.len == sizeof(sent->payload));
	memcpy(&sent->payload, attempt->payload.ptr, sizeof(sent->payload));
	if (!kit->holds) {
		tell(kit, attempt, probe);
		return;
	}
	for (uint32_t i = 0; i < kit->held_count; i++) /* P2: never two at once */
		CHECK(kit->held[i]->ticket != attempt->ticket);
	CHECK(kit->held_count < ARRAY_LEN(kit->held));
	kit->held_probe[kit->held_count] = probe;
	kit->held[kit->held_count++] = attempt;
	if (kit->held_count > kit->most_held)
		kit->most_held = kit->held_count;
}

static void outlet_send(struct outlet *outlet, struct outlet_attempt *chain)
{
	while (chain) {
		struct outlet_attempt *next = chain->next;
		saw(kit_of(outlet), chain, false);
		chain = next;
	}
}

static void outlet_probe(struct outlet *outlet, struct outlet_attempt *attempt)
{
	saw(kit_of(outlet), attempt, true);
}

static void outlet_interrupt(struct outlet *outlet)
{
	kit_of(outlet)->interrupted = true;
}

static void outlet_free(struct outlet *outlet)
{
	(void)outlet;
}

static const struct outlet_methods methods = { outlet_send, outlet_probe, outlet_interrupt,
	                                       outlet_free };

/* ---- the store that the lane sees ---- */

struct take_front {
	struct lane_kit *kit;
	void (*done)(struct store_op *op);
	void *user;
};

static void take_done(struct store_op *op)
{
	struct take_front *front = op->user;
	front->kit->takes--;
	op->done = front->done;
	op->user = front->user;
	free(front);
	op->done(op);
}

static bool is_damaged(const struct lane_kit *kit, struct store_op *op)
{
	return kit->damaged != 0 && op->kind == STORE_READ &&
	       container_of(op, struct store_read, op)->ticket == kit->damaged;
}

static void front_submit(struct store *store, struct store_op *op)
{
	struct lane_kit *kit = container_of(store, struct lane_kit, front);
	bool full = (kit->full && op->kind == STORE_ADMIT) ||
	            (kit->blind && op->kind == STORE_CELL);
	if (kit->crashed || full || is_damaged(kit, op)) {
		op->error = kit->crashed ? ERR_CLOSING : full ? ERR_FULL : ERR_DAMAGED;
		op->done(op);
		return;
	}
	kit->submits++;
	if (kit->late && op->kind == STORE_SETTLE) {
		op->next = kit->outcomes;
		kit->outcomes = op;
		return;
	}
	if (op->kind == STORE_TAKE) {
		struct take_front *front = calloc(1, sizeof(*front)); /* beside mem's failures */
		*front = (struct take_front){ kit, op->done, op->user };
		op->done = take_done;
		op->user = front;
		kit->takes++;
	}
	store_submit(kit->store, op);
}

static void front_flush(struct store *store)
{
	struct lane_kit *kit = container_of(store, struct lane_kit, front);
	if (!kit->crashed)
		store_flush(kit->store);
}

void kit_let_go(struct lane_kit *kit)
{
	kit->late = false;
	while (kit->outcomes) {
		struct store_op *op = kit->outcomes;
		kit->outcomes = op->next;
		store_submit(kit->store, op);
	}
	store_flush(kit->store);
}

static const struct store_methods front_methods = { .submit = front_submit, .flush = front_flush };

void kit_open(struct lane_kit *kit)
{
	memset(kit, 0, sizeof(*kit));
	clock_fake_init(&kit->clock);
	kit->outlet = (struct outlet){ .methods = &methods, .batch_max = 1 };
	kit->options = (struct lane_options){
		.name = "kit",
		.sink = SINK,
		.policy = deliver_policy_default(),
		.outlet = &kit->outlet,
		.clock = &kit->clock.clock,
		.seed = test_seed(),
	};
	struct model_store_options options = { .clock = &kit->clock.clock };
	assert_int_equal(model_store_open(&options, &kit->store), 0);
	kit->front.methods = &front_methods;
	kit->options.store = &kit->front;
}

static void say(struct lane_kit *kit, const struct outlet_attempt *attempt, bool probe,
                struct outlet_result *result)
{
	(void)attempt;
	(void)probe;
	*result = *(const struct outlet_result *)kit->user;
}

void kit_say(struct lane_kit *kit, struct outlet_result *answer)
{
	kit->answer = say;
	kit->user = answer;
}

void kit_start(struct lane_kit *kit)
{
	assert_int_equal(lane_new(&kit->options, &kit->lane), 0);
}

static void forget_held(struct lane_kit *kit)
{
	bool holds = kit->holds;
	kit->holds = false;
	while (kit->held_count > 0)
		kit_answer(kit, kit->held_count - 1, OUTLET_NOT_SENT, 0);
	kit->holds = holds;
}

/* Takes stay with the store until it is closed. */
void kit_close(struct lane_kit *kit)
{
	lane_stop(kit->lane);
	forget_held(kit);
	lane_run(kit->lane);
	lane_flush(kit->lane);
	store_flush(kit->store);
	kit->store = store_free(kit->store);
	kit->lane = lane_free(kit->lane);
}

uint64_t kit_admit_to(struct lane_kit *kit, uint32_t sink, uint64_t order)
{
	uint64_t payload = ++kit->next_payload;
	struct store_leg leg = { .sink = sink, .order = order };
	struct store_admit admit = {
		.source = SPAN("test"),
		.payload = span_of(&payload, sizeof(payload)),
		.legs = &leg,
		.leg_count = 1,
	};
	assert_int_equal(store_call(kit->store, &admit.op, STORE_ADMIT), 0);
	assert_int_equal(admit.verdict, VERDICT_NEW);
	if (sink == SINK)
		kit->tickets[kit->ticket_count++] = admit.ticket;
	return admit.ticket;
}

uint64_t kit_admit(struct lane_kit *kit, uint64_t order)
{
	return kit_admit_to(kit, SINK, order);
}

void kit_crash(struct lane_kit *kit)
{
	store_flush(kit->store);
	kit->crashed = true;
	while (kit->takes > 0)
		kit_admit(kit, 0);
	lane_stop(kit->lane);
	forget_held(kit);
	kit->lane = lane_free(kit->lane);
	kit->crashed = false;
	model_store_restart(kit->store);
	kit_start(kit);
}

/* Whoever runs a lane does so until it wants to wait. */
static uint64_t run(struct lane_kit *kit)
{
	uint64_t wait_ms = 0;
	uint64_t before;
	do {
		before = kit->submits;
		wait_ms = lane_run(kit->lane);
		lane_flush(kit->lane);
		store_tick(kit->store);
		store_flush(kit->store);
	} while (kit->submits != before);
	return wait_ms;
}

void kit_admit_many(struct lane_kit *kit, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		kit_admit(kit, 0);
}

void kit_run(struct lane_kit *kit)
{
	run(kit);
}

void kit_advance(struct lane_kit *kit, uint64_t ms)
{
	uint64_t left = ms;
	for (;;) {
		uint64_t wait_ms = run(kit);
		uint64_t step = wait_ms < left ? wait_ms : left;
		if (left == 0)
			return;
		clock_fake_advance(&kit->clock, step > 0 ? step : 1);
		left -= step > 0 ? step : 1;
	}
}

void kit_answer(struct lane_kit *kit, uint32_t which, enum outlet_answer answer, uint16_t status)
{
	assert_true(which < kit->held_count);
	struct outlet_attempt *attempt = kit->held[which];
	kit->held[which] = kit->held[--kit->held_count];
	kit->held_probe[which] = kit->held_probe[kit->held_count];
	memset(&attempt->result, 0, sizeof(attempt->result));
	attempt->result.answer = answer;
	attempt->result.status = status;
	attempt->result.latency_us = 1000;
	outlet_result_text(&attempt->result, SPAN("held"));
	attempt->done(attempt);
}

struct store_stats kit_stats(struct lane_kit *kit)
{
	struct store_stats stats;
	store_stats(kit->store, &stats);
	return stats;
}

struct lane_view kit_view(struct lane_kit *kit)
{
	struct lane_view view;
	lane_view(kit->lane, &view);
	return view;
}

uint32_t kit_sends_of(const struct lane_kit *kit, uint64_t ticket)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < kit->sent_count; i++)
		count += kit->sent[i].ticket == ticket && !kit->sent[i].probe;
	return count;
}

static bool read_item(struct lane_kit *kit, uint64_t ticket, struct store_item *ret_item)
{
	struct store_read read = { .ticket = ticket };
	struct store_parts parts;
	size_t offset = 0;
	int error = store_call(kit->store, &read.op, STORE_READ);
	if (error == 0)
		assert_true(store_item_next(buf_span(&read.items), &offset, ret_item, &parts));
	buf_free(&read.items);
	return error == 0;
}

bool kit_is_open(struct lane_kit *kit, uint64_t ticket)
{
	struct store_item item;
	return read_item(kit, ticket, &item);
}

struct store_item kit_item(struct lane_kit *kit, uint64_t ticket)
{
	struct store_item item;
	assert_true(read_item(kit, ticket, &item));
	return item;
}
