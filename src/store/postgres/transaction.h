/*
 * transaction: a working set as a transaction: its rows are read, decided on, and written
 * back.
 *
 * Room:    store/postgres. Threads: the connection's.
 * Failure: as connection.h, or one of these:
 */
#pragma once

#include "store/postgres/connection.h"
#include "store/postgres/working_set.h"

enum {
	TRANSACTION_DONE = 0,
	/* Rolled back: begin again with working_set.lock_all. */
	TRANSACTION_LOCK_ALL = 1,
	/* The connection was lost during COMMIT; connection_was_committed() says how it
	 * ended. */
	TRANSACTION_UNKNOWN = 2,
	/* transaction_run_new() was rolled back: a claim existed. Use transaction_run(). */
	TRANSACTION_NOT_NEW = 3,
};

struct transaction_options {
	uint64_t clock; /* postgres_clock() */
	bool retain;    /* keep closed tickets */
	bool notify;    /* tell other nodes that tickets are due */
	const char *channel;
};

extern const struct statement transaction_statements[];

int transaction_run(struct working_set *set, struct connection *conn,
                    const struct transaction_options *options) must_check;

/* As if everything were new, for a set with working_set_may_be_new(): one statement and
 * one round trip. */
int transaction_run_new(struct working_set *set, struct connection *conn,
                        const struct transaction_options *options) must_check;
/* After TRANSACTION_UNKNOWN of transaction_run_new(): it was committed. Fills the answers. */
void transaction_new_committed(struct working_set *set, const struct connection *conn);
