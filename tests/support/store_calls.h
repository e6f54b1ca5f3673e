/*
 * store_calls: the store's operations as plain calls, for tests.
 *
 * Each submits one operation, flushes and returns its error. The store must
 * complete it by that (all do, but a take may wait).
 *
 * Room: tests.
 */
#pragma once

#include "store/store.h"

/* Set by store_calls_done(), the done() of all operations here. */
void store_calls_done(struct store_op *op); /* op->user is a bool * */

/* For store->written: then no flush waits for a write. */
void store_calls_written(void *user);

/* Flushes until nothing is under way. */
void store_calls_flush(struct store *store);

int store_call(struct store *store, struct store_op *op, enum store_op_kind kind);

/* A take, which may stay with the store over many flushes. begin() submits and
 * does not flush. The struct must be zeroed first; take.items is its owner's. */
struct take_call {
	struct store_take take;
	bool finished;
	bool waiting; /* with the store */
};

void take_call_begin(struct store *store, struct take_call *call, uint32_t max_items,
                     uint32_t max_bytes);
bool take_call_poll(struct take_call *call); /* true once, when it came back */
