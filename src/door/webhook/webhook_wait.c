/*
 * webhook_wait: answers that wait for the outcome (`ack: delivered`).
 *
 * When all items of a request are decided, each that has an event of its own, or is a
 * copy of one, waits at the store for what comes of it, until the source's limit. A
 * copy of an event that died makes it due again, once, under its old key, and waits: so
 * its sender's retry is a retry. One that is parked stays so: nobody knows whether it
 * had its effect, and a copy does not tell.
 *
 * The delivery goes on whether or not somebody waits, or is still there.
 */
#include "door/webhook/webhook_request.h"

/* The event whose outcome the sender is told; 0: there is none. */
static uint64_t awaited(const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	if (item->status != 0 || admit->op.error != 0 || admit->no_ticket)
		return 0;
	switch (admit->verdict) {
	case VERDICT_NEW:
	case VERDICT_DUPLICATE:
	case VERDICT_BUSY: return admit->ticket;
	case VERDICT_CONFLICT: return webhook_passed(admit) ? admit->own_ticket : 0;
	case VERDICT_STALE:
	case VERDICT_SPOOLED:
	case VERDICT_NONE: break;
	}
	return 0;
}

/* What the store says is told by webhook_answer(), with all of the round. */
static void finish(struct webhook_request *it)
{
	CHECK(it->left > 0);
	if (--it->left == 0)
		webhook_decided(it);
}

static void wait_done(struct store_op *op);

static void ask(struct webhook_request *it, struct webhook_item *item)
{
	item->wait = (struct store_wait){
		.op = { .kind = STORE_WAIT, .done = wait_done, .user = it },
		.ticket = awaited(item),
		.until_boot_ms = it->until_boot_ms,
		.over = &it->webhook->waits_over,
	};
	it->webhook->asked = true;
	store_submit(it->webhook->options.store, &item->wait.op);
}

static void release_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, release.op);
	struct webhook_request *it = op->user;
	if (op->error == 0) {
		item->outcome = OUTCOME_NONE;
		ask(it, item);
		return;
	}
	/* Somebody else released or dropped it: the copy's own retry will see. */
	finish(it);
}

static void wait_done(struct store_op *op)
{
	struct webhook_item *item = container_of(op, struct webhook_item, wait.op);
	struct webhook_request *it = op->user;
	item->outcome = op->error == 0 ? item->wait.outcome : OUTCOME_NONE;
	item->unheard = op->error != 0;
	bool again = item->outcome == OUTCOME_DEAD && item->admit.verdict == VERDICT_DUPLICATE &&
	             !item->released;
	if (!again) {
		finish(it);
		return;
	}
	item->released = true;
	item->release = (struct store_release){
		.op = { .kind = STORE_RELEASE, .done = release_done, .user = it },
		.ticket = item->wait.ticket,
		.states = 1u << STORE_STATE_DEAD,
		.whole_event = true,
	};
	it->webhook->asked = true;
	store_submit(it->webhook->options.store, &item->release.op);
}

bool webhook_await(struct webhook_request *it, uint64_t boot_ms)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < it->count; i++) {
		it->items[i].awaited = awaited(&it->items[i]) != 0;
		count += it->items[i].awaited;
	}
	it->waited = true;
	it->left = count;
	it->until_boot_ms = boot_ms + it->source->wait_ms;
	/* A port that is full completes inside submit, the last one with finish(). */
	for (uint32_t i = 0, asked = 0; asked < count; i++) {
		if (!it->items[i].awaited)
			continue;
		asked++;
		ask(it, &it->items[i]);
	}
	return count > 0;
}

uint16_t webhook_outcome_status(const struct webhook_item *item)
{
	if (!item->awaited)
		return 200;
	switch (item->outcome) {
	case OUTCOME_DEAD: return 502;
	case OUTCOME_UNKNOWN: return 504;
	case OUTCOME_NONE: break;
	default: return 200;
	}
	/* A duplicate of something that was closed so long ago that nobody knows how. */
	bool settled = item->admit.verdict == VERDICT_DUPLICATE && !item->released &&
	               !item->unheard;
	return settled ? 200 : 503;
}
