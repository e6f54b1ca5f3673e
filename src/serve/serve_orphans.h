/*
 * serve_orphans: tells at the start how many events wait for a sink that the
 * configuration does not have: removed, or written otherwise. They stay until it is
 * there again.
 *
 * The store is asked in small pieces, one a round, beside the events that come.
 *
 * Room:      serve. Threads: an io thread's, that of the store it asks.
 * Ownership: borrows the store; the operation is its own until the store is closed.
 */
#pragma once

#include "config/config.h"
#include "store/store.h"

struct orphans {
	struct store *store;
	struct store_scan scan;
	uint32_t known_count;
	uint32_t known[CONFIG_SINKS_MAX]; /* numbers of the sinks that there are */
	uint64_t found;
	uint32_t example; /* number of a sink that is not there */
};

void serve_orphans_begin(struct orphans *orphans, const struct config *config, struct store *store);
/* When the store is closed. */
void serve_orphans_end(struct orphans *orphans);
