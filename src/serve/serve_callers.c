/* serve_callers: see serve_callers.h. */
#include "serve/serve_callers.h"

#include "base/error.h"
#include "base/log.h"
#include "gate/ticket.h"

#define BYTES (64u << 10)
#define LEASE_MS 60000u
#define WINDOW_MAX_MS (UINT64_C(1) << 40) /* 34 years: no window is longer, no date earlier */

static void step(struct callers *callers);

static void ask(struct callers *callers, struct store_op *op, enum store_op_kind kind,
                void (*done)(struct store_op *op))
{
	*op = (struct store_op){ .kind = kind, .done = done, .user = callers };
	store_submit(callers->store, op);
}

static void end(struct callers *callers)
{
	callers->sweeping = false;
	if (callers->closed > 0)
		log_warn("claims were never settled, and their windows have ended",
		         log_u64("claims", callers->closed));
}

static void settled(struct store_op *op)
{
	struct callers *callers = op->user;
	if (op->error == 0 && callers->settle.outcome == OUTCOME_DEAD)
		callers->closed++;
	if (op->error == 0 || op->error == ERR_FENCED)
		step(callers);
	else
		end(callers); /* the store is closed, or has worse to tell of */
}

/* How long a claim lives from its ticket on stands as the order of its leg (door/claims.h).
 * What is no such length is the time itself. */
static uint64_t end_ms(const struct store_item *item)
{
	return item->order < WINDOW_MAX_MS ? ticket_time_ms(item->ticket) + item->order
	                                   : item->order;
}

/* Ends are by the store's clock, which a take tells; ours may be another. */
static void learn_time(struct callers *callers)
{
	callers->apart_ms = (int64_t)(callers->take.now_ms - callers->wall_ms);
	callers->now_ms = callers->take.now_ms;
}

static void taken(struct store_op *op)
{
	struct callers *callers = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	if (op->error != 0 || callers->stopped) {
		end(callers);
		return;
	}
	if (!store_item_next(buf_span(&callers->take.items), &at, &item, &parts)) {
		step(callers); /* somebody was quicker */
		return;
	}
	learn_time(callers);
	bool over = end_ms(&item) < callers->take.now_ms;
	callers->settle = (struct store_settle){ .ticket = item.ticket,
		                                 .attempt = item.attempt,
		                                 .outcome = over ? OUTCOME_DEAD : OUTCOME_RELEASED,
		                                 .forget = over };
	ask(callers, &callers->settle.op, STORE_SETTLE, settled);
}

static void scanned(struct store_op *op)
{
	struct callers *callers = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t at = 0;
	if (op->error != 0) {
		end(callers);
		return;
	}
	while (store_item_next(buf_span(&callers->scan.items), &at, &item, &parts))
		if (end_ms(&item) < callers->now_ms && callers->count < CALLERS_PER_SCAN)
			callers->over[callers->count++] = item.ticket;
	step(callers);
}

/* One after the other: there are few, and none is in a hurry. */
static void step(struct callers *callers)
{
	if (callers->stopped) {
		end(callers);
	} else if (callers->count > 0) {
		callers->take.ticket = callers->over[--callers->count];
		callers->take.sink = STORE_SINK_CALLER;
		callers->take.lease_ms = LEASE_MS;
		callers->take.without_payload = true;
		ask(callers, &callers->take.op, STORE_TAKE, taken);
	} else if (!callers->scan.end) {
		ask(callers, &callers->scan.op, STORE_SCAN, scanned);
	} else {
		end(callers);
	}
}

void serve_callers_sweep(struct callers *callers, struct store *store, uint64_t now_ms)
{
	if (callers->sweeping || callers->stopped)
		return;
	struct buf items = callers->scan.items;
	callers->store = store;
	callers->sweeping = true;
	callers->wall_ms = now_ms;
	callers->now_ms = now_ms + (uint64_t)callers->apart_ms;
	callers->closed = 0;
	callers->count = 0;
	callers->scan = (struct store_scan){ .states = 1u << STORE_STATE_DUE,
		                             .sink = STORE_SINK_CALLER,
		                             .max_items = CALLERS_PER_SCAN,
		                             .max_bytes = BYTES,
		                             .items = items };
	step(callers);
}

void serve_callers_end(struct callers *callers)
{
	buf_free(&callers->scan.items);
	buf_free(&callers->take.items);
}
