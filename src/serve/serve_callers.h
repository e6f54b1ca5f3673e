/*
 * serve_callers: claims that nobody settled, and whose window has ended: no caller can come
 * back for them, so their tickets would stay for ever. They are closed, and that is said.
 *
 * Room:      serve. Threads: an io thread's, that of the store it asks.
 * Ownership: borrows the store; the operations are its own until the store is closed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define CALLERS_PER_SCAN 256u

struct callers {
	struct store *store;
	bool sweeping;
	bool stopped;     /* for good: the store is about to be closed */
	uint64_t wall_ms; /* this machine's when it began */
	uint64_t now_ms;  /* the store's, as far as it is known */
	int64_t apart_ms; /* how far the store's clock is ahead of this machine's */
	struct store_scan scan;
	struct store_take take;
	struct store_settle settle;
	uint64_t over[CALLERS_PER_SCAN]; /* tickets of the last piece */
	uint32_t count;
	uint64_t closed;
};

/* Does nothing while the last one is under way. */
void serve_callers_sweep(struct callers *callers, struct store *store, uint64_t now_ms);
/* When the store is closed. */
void serve_callers_end(struct callers *callers);
