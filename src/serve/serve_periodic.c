/*
 * Periodic checks: windows that are too short for the gaps of a source, claims that nobody
 * settled; and once, at the start, events of sinks that are not in the configuration.
 * See serve_private.h.
 */
#include "base/error.h"
#include "base/log.h"
#include "gate/ticket.h"
#include "serve/serve_private.h"
#include "sys/clock.h"

/* ---- events without a sink ---- */

#define ORPHANS_ITEMS 4096u
#define ORPHANS_BYTES (1u << 20)

static void orphans_scanned(struct store_op *op)
{
	struct orphans *orphans = container_of(op, struct orphans, scan.op);
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	if (op->error != 0)
		return; /* the store is closed, or logs its failure itself */
	while (store_item_next(buf_span(&orphans->scan.items), &offset, &item, &parts)) {
		bool known = item.sink == STORE_SINK_CALLER;
		for (uint32_t i = 0; i < orphans->known_count && !known; i++)
			known = orphans->known[i] == item.sink;
		if (known)
			continue;
		orphans->found++;
		orphans->example = item.sink;
	}
	if (!orphans->scan.end)
		store_submit(orphans->store, op);
	else if (orphans->found > 0)
		log_warn("events wait for a sink that is not configured",
		         log_u64("events", orphans->found), log_u64("sink", orphans->example));
}

void serve_orphans_begin(struct orphans *orphans, const struct config *config, struct store *store)
{
	*orphans = (struct orphans){
		.store = store,
		.scan = { .op = { .kind = STORE_SCAN, .done = orphans_scanned },
		          .states = 1u << STORE_STATE_DUE,
		          .max_items = ORPHANS_ITEMS,
		          .max_bytes = ORPHANS_BYTES,
		          .items_only = true },
	};
	for (uint32_t i = 0; i < config->sink_count; i++)
		orphans->known[orphans->known_count++] = config->sinks[i].id;
	store_submit(store, &orphans->scan.op);
}

void serve_orphans_end(struct orphans *orphans)
{
	buf_free(&orphans->scan.items);
}

/* ---- claims that nobody settled ---- */

#define CALLERS_BYTES (64u << 10)
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
		log_warn("claims expired: their callers never settled them",
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
		end(callers); /* the store is closed, or logs its failure itself */
}

/* When a claim's window ends. The order of its leg holds the length of the window, counted
 * from the ticket's time (door/claims.h); a larger number is the time itself. */
static uint64_t end_ms(const struct store_item *item)
{
	return item->order < WINDOW_MAX_MS ? ticket_time_ms(item->ticket) + item->order
	                                   : item->order;
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
		step(callers); /* it was taken or closed meanwhile */
		return;
	}
	/* Windows end by the store's clock, which a take tells; this machine's may differ. */
	callers->apart_ms = (int64_t)(callers->take.now_ms - callers->wall_ms);
	callers->now_ms = callers->take.now_ms;
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

/* One claim after the other: there are few, and none is urgent. */
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
		                             .max_bytes = CALLERS_BYTES,
		                             .items = items };
	step(callers);
}

void serve_callers_end(struct callers *callers)
{
	buf_free(&callers->scan.items);
	buf_free(&callers->take.items);
}

/* ---- timers ---- */

_Static_assert(CONFIG_SOURCES_MAX <= TRACE_SOURCES_MAX, "every source has its advice");

#define ADVISE_MS 10000
#define SWEEP_MS 60000

static void advise_source(void *user, struct span source, const struct gap *gap)
{
	struct serve *serve = user;
	uint64_t now_ms = clock_read(clock_system()).wall_ms;
	for (uint32_t i = 0; i < serve->sources->count; i++) {
		const struct source *known = &serve->sources->sources[i];
		if (!span_eq(known->name, source))
			continue;
		struct advice advice =
			advice_make(&(struct advice_question){ known->name, known->window_ms,
		                                               known->options.retries_ms },
		                    gap);
		if (!advice_alarm_due(&serve->alarms[i], &advice, now_ms))
			return;
		struct buf words = { 0 };
		advice_text(&advice, &words);
		log_warn("window is too short", log_span("source", known->name),
		         log_span("text", buf_span(&words)));
		buf_free(&words);
	}
}

static void advise(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, advise);
	if (serve->traces)
		trace_log_gaps(serve->traces, advise_source, serve);
	if (loop_timer_set(serve->ios[0].loop, timer, ADVISE_MS) != 0)
		log_error("window advice timer cannot be set");
}

static void sweep(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, sweep);
	if (serve->phase == PHASE_SERVE)
		serve_callers_sweep(&serve->callers, serve->ios[0].webhook.options.store,
		                    clock_read(clock_system()).wall_ms);
	if (loop_timer_set(serve->ios[0].loop, timer, SWEEP_MS) != 0)
		log_warn("claim expiry timer cannot be set");
}

int serve_periodic_start(struct serve *serve)
{
	struct loop *loop = serve->ios[0].loop;
	serve->advise.due = advise;
	serve->sweep.due = sweep;
	int error = loop_timer_set(loop, &serve->advise, ADVISE_MS);
	return error != 0 ? error : loop_timer_set(loop, &serve->sweep, SWEEP_MS);
}
