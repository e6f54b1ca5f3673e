/* store_calls: see store_calls.h. */
#include "support/store_calls.h"

#include <unistd.h>

#include "store/local/local_store.h"
#include "support/test.h"

#define NAP_US 20u     /* a server of the same machine needs the processor, */
#define NAP_AFTER 4u   /* but a store without threads does not, and is told twice */
#define CHECK_EVERY 7u /* it looks at every shard of every index: some 50 us */

void store_calls_done(struct store_op *op)
{
	*(bool *)op->user = true;
}

void store_calls_written(void *user)
{
	(void)user;
}

/* After one in seven flushes, every invariant of a local store is checked
 * (local_store_check()): a suite that repeats its histories gets to all of them. */
static void flush_once(struct store *store)
{
	static _Thread_local uint32_t flushes;

	store_flush(store);
	if (++flushes % CHECK_EVERY == 0)
		local_store_check(store);
}

static void flush_all(struct store *store, void (*flush)(struct store *store))
{
	flush(store);
	for (uint32_t asked = 1; store_under_way(store); asked++) {
		if (asked >= NAP_AFTER)
			usleep(NAP_US);
		flush(store);
	}
}

void store_calls_flush(struct store *store)
{
	flush_all(store, flush_once);
}

/* What changes nothing needs no check, and some suites look up everything. */
static bool changes_nothing(enum store_op_kind kind)
{
	return kind == STORE_LOOKUP || kind == STORE_READ || kind == STORE_SCAN ||
	       kind == STORE_HELD || kind == STORE_CELL_SCAN;
}

int store_call(struct store *store, struct store_op *op, enum store_op_kind kind)
{
	bool finished = false;

	op->kind = kind;
	op->done = store_calls_done;
	op->user = &finished;
	store_submit(store, op);
	flush_all(store, changes_nothing(kind) ? store_flush : flush_once);
	if (!finished)
		fail_msg("operation of kind %d was not completed by the flush", (int)kind);
	return op->error;
}

void take_call_begin(struct store *store, struct take_call *call, uint32_t max_items,
                     uint32_t max_bytes)
{
	call->finished = false;
	call->waiting = true;
	call->take.op.kind = STORE_TAKE;
	call->take.op.done = store_calls_done;
	call->take.op.user = &call->finished;
	call->take.max_items = max_items;
	call->take.max_bytes = max_bytes;
	store_submit(store, &call->take.op);
}

bool take_call_poll(struct take_call *call)
{
	if (!call->waiting || !call->finished)
		return false;
	call->waiting = false;
	return true;
}
