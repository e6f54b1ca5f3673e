/* store_calls: see store_calls.h. */
#include "support/store_calls.h"

#include <unistd.h>

#include "support/test.h"

#define NAP_US 20u   /* a server of the same machine needs the processor, */
#define NAP_AFTER 4u /* but a store without threads does not, and is told twice */

void store_calls_done(struct store_op *op)
{
	*(bool *)op->user = true;
}

void store_calls_written(void *user)
{
	(void)user;
}

void store_calls_flush(struct store *store)
{
	store_flush(store);
	for (uint32_t asked = 1; store_under_way(store); asked++) {
		if (asked >= NAP_AFTER)
			usleep(NAP_US);
		store_flush(store);
	}
}

int store_call(struct store *store, struct store_op *op, enum store_op_kind kind)
{
	bool finished = false;

	op->kind = kind;
	op->done = store_calls_done;
	op->user = &finished;
	store_submit(store, op);
	store_calls_flush(store);
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
