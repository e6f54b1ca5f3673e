/*
 * op_queue: operations in the order in which they came, linked by `next`.
 *
 * Room: store. Threads: one, or under the owner's lock. Ownership: an operation is in
 * one queue at a time; a queue must be initialised before use. An empty queue points into
 * itself, so a copy serves to walk the chain only: op_queue_move() moves one.
 */
#pragma once

#include "store/store.h"

struct op_queue {
	struct store_op *first;
	struct store_op **last;
	uint32_t count;
};

static inline void op_queue_init(struct op_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
	queue->count = 0;
}

static inline void op_queue_put(struct op_queue *queue, struct store_op *op)
{
	op->next = NULL;
	*queue->last = op;
	queue->last = &op->next;
	queue->count++;
}

/* NULL: it is empty. */
static inline struct store_op *op_queue_take(struct op_queue *queue)
{
	struct store_op *op = queue->first;

	if (op) {
		queue->first = op->next;
		queue->count--;
		if (!queue->first)
			queue->last = &queue->first;
	}
	return op;
}

/* Appends all of `from`, which is empty afterwards. */
static inline void op_queue_move(struct op_queue *to, struct op_queue *from)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	to->count += from->count;
	op_queue_init(from);
}

/* All of them as a chain; the queue is empty afterwards. NULL: it was. */
static inline struct store_op *op_queue_take_all(struct op_queue *queue)
{
	struct store_op *first = queue->first;

	op_queue_init(queue);
	return first;
}
