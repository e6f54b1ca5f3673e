/* deliver: see deliver.h. */
#include "deliver/deliver.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/port.h"
#include "sys/clock.h"
#include "sys/thread.h"

#define BATCH_ITEMS 4096u
#define BATCH_BYTES (4u << 20)

/*
 * Takes wait at the store while earlier batches are with the sink or wait for
 * their settles to be durable; three keep all of them busy.
 */
#define BATCHES 3u
_Static_assert(BATCHES <= PORT_TAKES_MAX, "the port must hold all takes");

#define BACK_OFF_FIRST_MS 100
#define BACK_OFF_MAX_MS 5000
#define SETTLE_LIMIT_MS 5000

enum batch_state {
	BATCH_IDLE,
	BATCH_TAKING,   /* with the store */
	BATCH_TAKEN,    /* its items wait for the sink */
	BATCH_SETTLING, /* its outcomes are with the store */
};

struct batch {
	enum batch_state state;
	struct deliver *deliver;
	struct store_take take;
	struct sink_event events[BATCH_ITEMS];
	struct store_settle settles[BATCH_ITEMS];
	uint32_t settling;
	uint32_t unrecorded; /* of its settles, and the last reason */
	int error;
	uint64_t order; /* batches go to the sink in the order they were taken */
};

struct deliver {
	struct port *port;
	struct sink *sink;
	struct thread thread;
	atomic_bool stopping;
	atomic_bool ended;
	bool closing; /* the store has ended our takes */
	uint64_t taken;
	int back_off_ms; /* 0: store and sink work */
	struct deliver_counters counters;
	struct batch batches[BATCHES];
};

static void raise_back_off(struct deliver *deliver)
{
	if (deliver->back_off_ms == 0)
		deliver->back_off_ms = BACK_OFF_FIRST_MS;
	else if (deliver->back_off_ms < BACK_OFF_MAX_MS)
		deliver->back_off_ms *= 2;
}

static void take_done(struct store_op *op)
{
	struct batch *batch = op->user;
	struct deliver *deliver = batch->deliver;
	CHECK(batch->state == BATCH_TAKING);
	if (op->error == ERR_CLOSING) {
		deliver->closing = true;
	} else if (op->error != 0) {
		log_error("tickets cannot be taken for delivery", log_code(op->error));
		raise_back_off(deliver);
	}
	batch->state = op->error == 0 ? BATCH_TAKEN : BATCH_IDLE;
	batch->order = ++deliver->taken;
}

static void begin_takes(struct deliver *deliver)
{
	bool any = false;
	for (uint32_t i = 0; i < BATCHES; i++) {
		struct batch *batch = &deliver->batches[i];
		if (batch->state != BATCH_IDLE)
			continue;
		batch->state = BATCH_TAKING;
		batch->take.op.kind = STORE_TAKE;
		batch->take.op.done = take_done;
		batch->take.op.user = batch;
		batch->take.max_items = BATCH_ITEMS;
		batch->take.max_bytes = BATCH_BYTES;
		store_submit(port_store(deliver->port), &batch->take.op);
		any = true;
	}
	if (any)
		store_flush(port_store(deliver->port));
}

static struct batch *next_taken(struct deliver *deliver)
{
	struct batch *first = NULL;
	for (uint32_t i = 0; i < BATCHES; i++) {
		struct batch *batch = &deliver->batches[i];
		if (batch->state == BATCH_TAKEN && (!first || batch->order < first->order))
			first = batch;
	}
	return first;
}

static void settle_done(struct store_op *op)
{
	struct batch *batch = op->user;
	CHECK(batch->state == BATCH_SETTLING && batch->settling > 0);
	if (op->error != 0) {
		batch->unrecorded++;
		batch->error = op->error;
	}
	if (--batch->settling > 0)
		return;
	batch->state = BATCH_IDLE;
	if (batch->unrecorded > 0)
		log_error("outcomes could not be recorded; the events may be delivered again",
		          log_u64("events", batch->unrecorded), log_code(batch->error));
}

static uint32_t read_items(struct batch *batch)
{
	struct span items = buf_span(&batch->take.items);
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	uint32_t count = 0;
	while (store_item_next(items, &offset, &item, &parts)) {
		CHECK(count < BATCH_ITEMS);
		batch->events[count++] = (struct sink_event){
			.ticket = item.ticket,
			.attempt = item.attempt,
			.json = (item.flags & STORE_EVENT_JSON) != 0,
			.source = parts.source,
			.payload = parts.payload,
		};
	}
	CHECK(count == batch->take.count);
	return count;
}

static bool all_settling(const struct deliver *deliver)
{
	for (uint32_t i = 0; i < BATCHES; i++)
		if (deliver->batches[i].state != BATCH_SETTLING)
			return false;
	return true;
}

static void settle(struct batch *batch, uint32_t count)
{
	struct deliver *deliver = batch->deliver;
	uint64_t outcomes[OUTCOME_COUNT] = { 0 };
	batch->state = count > 0 ? BATCH_SETTLING : BATCH_IDLE;
	batch->settling = count;
	batch->unrecorded = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct sink_event *event = &batch->events[i];
		outcomes[event->outcome]++;
		batch->settles[i] = (struct store_settle){
			.op = { .kind = STORE_SETTLE, .done = settle_done, .user = batch },
			.ticket = event->ticket,
			.attempt = event->attempt,
			.outcome = event->outcome,
		};
		store_submit(port_store(deliver->port), &batch->settles[i].op);
	}
	/* Before anyone can see the tickets closed. */
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (outcomes[i] > 0)
			atomic_fetch_add_explicit(&deliver->counters.outcomes[i], outcomes[i],
			                          memory_order_relaxed);
	/* Lazy completions wake nobody: they come with the next take. When all
	 * batches settle, no take is left to come. */
	if (all_settling(deliver))
		store_flush(port_store(deliver->port));
	else
		port_flush_lazy(deliver->port);
}

static void run_batch(struct deliver *deliver, struct batch *batch)
{
	uint32_t count = read_items(batch);
	deliver->sink->methods->deliver(deliver->sink, batch->events, count);
	bool failed = count > 0 && batch->events[count - 1].outcome != OUTCOME_DONE;
	if (failed)
		raise_back_off(deliver);
	else
		deliver->back_off_ms = 0;
	settle(batch, count);
}

static bool stopping(struct deliver *deliver)
{
	return deliver->closing || atomic_load(&deliver->stopping);
}

/* A failing sink or store is left alone for a while, the tickets due at the
 * store; completions that come meanwhile do not shorten the wait. */
static void back_off(struct deliver *deliver)
{
	if (deliver->back_off_ms == 0)
		return;
	uint64_t end_ns = clock_monotonic_ns() + (uint64_t)deliver->back_off_ms * 1000000u;
	for (uint64_t now = 0; !stopping(deliver) && (now = clock_monotonic_ns()) < end_ns;)
		port_wait(deliver->port, (int)((end_ns - now) / 1000000u) + 1);
}

static void run(void *user)
{
	struct deliver *deliver = user;
	while (!stopping(deliver)) {
		struct batch *batch = next_taken(deliver);
		if (batch) {
			run_batch(deliver, batch);
			port_collect(deliver->port);
		}
		back_off(deliver);
		begin_takes(deliver);
		if (!next_taken(deliver) && !stopping(deliver))
			port_wait(deliver->port, -1);
	}
	/* What was taken before the end is delivered; a sink that was interrupted
	 * gives it back at once. */
	for (struct batch *batch; (batch = next_taken(deliver)) != NULL;)
		run_batch(deliver, batch);
	size_t left = port_drain(deliver->port, SETTLE_LIMIT_MS);
	if (left > 0)
		log_warn("outcomes are not recorded yet; the store is closed now",
		         log_u64("outcomes", left));
	atomic_store(&deliver->ended, true);
}

int deliver_start(struct port *port, struct sink *sink, struct deliver **ret_deliver)
{
	struct deliver *deliver = mem_zalloc(1, sizeof(*deliver));
	if (!deliver)
		return -ENOMEM;
	deliver->port = port;
	deliver->sink = sink;
	for (uint32_t i = 0; i < BATCHES; i++)
		deliver->batches[i].deliver = deliver;
	int error = thread_start(&deliver->thread, &(struct thread_options){
							   .name = "stile-deliver",
							   .cpu = THREAD_ANY_CPU,
							   .run = run,
							   .user = deliver,
						   });
	if (error != 0) {
		mem_free(deliver);
		return error;
	}
	*ret_deliver = deliver;
	return 0;
}

void deliver_end(struct deliver *deliver)
{
	atomic_store(&deliver->stopping, true);
	deliver->sink->methods->interrupt(deliver->sink);
	port_wake(deliver->port);
}

bool deliver_ended(const struct deliver *deliver)
{
	return atomic_load(&deliver->ended);
}

void deliver_join(struct deliver *deliver)
{
	if (!deliver_ended(deliver))
		deliver_end(deliver);
	thread_join(&deliver->thread);
}

struct deliver *deliver_free(struct deliver *deliver)
{
	if (!deliver)
		return NULL;
	deliver_join(deliver);
	port_collect(deliver->port); /* what only the store's close has answered */
	CHECK(port_in_flight(deliver->port) == 0);
	for (uint32_t i = 0; i < BATCHES; i++)
		buf_free(&deliver->batches[i].take.items);
	return mem_free(deliver);
}

const struct deliver_counters *deliver_counters(const struct deliver *deliver)
{
	return &deliver->counters;
}
