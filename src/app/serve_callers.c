/* serve_callers: see serve_callers.h. */
#include "app/serve_callers.h"

#include "base/error.h"
#include "base/log.h"

#define BYTES (64u << 10)
#define LEASE_MS 60000u

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
	if (op->error == 0)
		callers->closed++;
	if (op->error == 0 || op->error == ERR_FENCED)
		step(callers);
	else
		end(callers); /* the store is closed, or has worse to tell of */
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
	callers->settle = (struct store_settle){ .ticket = item.ticket,
		                                 .attempt = item.attempt,
		                                 .outcome = OUTCOME_DEAD,
		                                 .forget = true };
	ask(callers, &callers->settle.op, STORE_SETTLE, settled);
}

/* The time up to which a claim lives stands as the order of its leg (door/claims.h). */
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
		if (item.order < callers->now_ms && callers->count < CALLERS_PER_SCAN)
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
	callers->now_ms = now_ms;
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
