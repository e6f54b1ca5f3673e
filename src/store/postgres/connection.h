/*
 * connection: a connection of a node to the server, its prepared statements, and a way to
 * find out whether a transaction was committed when its end was not received.
 *
 * Each connection of a node has a row in stile_lines. Each transaction replaces the number
 * in that row, and fails if it does not find the number of the last one. After a connection
 * was lost during COMMIT, the next one replaces the last known number by a new one. That
 * waits for the old transaction, if it still runs. If it was committed its number is found
 * in the row; if not, it can no longer be committed. A transaction that is sent as a single
 * statement writes its first ticket number instead, so that this is found in the row too.
 *
 * A transaction also fails if somebody has deleted the row, or made the tables anew. A new
 * connection then checks that the tables still have the secret that the node knows, and
 * refuses others.
 *
 * Room:      store/postgres. Threads: one owner, which it blocks.
 * Ownership: connection_free() takes what it holds; the address stays the caller's.
 * Failure:   as postgres_link.h; and ERR_VERSION, ERR_CONFIG with a text: the server is
 *            there, but cannot be used.
 */
#pragma once

#include <errno.h>

#include "base/error.h"
#include "link/postgres_link.h"
#include "store/postgres/address.h"

struct statement {
	const char *name, *sql;
};

#define CONNECTION_LISTS 3

struct connection {
	struct postgres_link link;
	struct postgres_args args; /* of the next statement */
	const struct address *address;
	/* Prepared by a new connection; each list ends with a statement without a name. */
	const struct statement *statements[CONNECTION_LISTS];
	const char *on_open; /* NULL, or a command for every new connection */
	uint64_t node;
	const unsigned char *key; /* POSTGRES_STORE_KEY_LEN: the secret of the tables */
	uint32_t number;          /* of this connection in its node */
	uint64_t transaction;     /* number of the last one that was begun */
	int64_t mark;             /* what the row has, as far as is known */
	bool in_doubt;     /* connection_was_committed() must be asked: keep the row as it is */
	uint32_t limit_ms; /* for one round trip */
	struct error_text text;
	char state[POSTGRES_STATE_LEN + 1]; /* SQLSTATE of the last failure */
	uint32_t sent;                      /* statements without an answer yet */
};

/* Connected, prepared and in pipeline mode, or an error with conn->text. */
int connection_open(struct connection *conn) must_check;
void connection_close(struct connection *conn);
void connection_free(struct connection *conn);
bool connection_is_open(const struct connection *conn);

/* Sends BEGIN and the number of the transaction. Nothing waits before connection_sync(). */
void connection_begin(struct connection *conn);
/* Sends nothing. One statement follows, which writes connection_mark_of() its first ticket
 * number in place of conn->mark; connection_sync() ends this transaction. When its end was
 * received, the caller sets conn->mark. */
void connection_begin_bare(struct connection *conn);
static inline int64_t connection_mark_of(uint64_t first)
{
	return -1 - (int64_t)first;
}
/* That ticket number, of the last transaction that was committed. */
uint64_t connection_first(const struct connection *conn);
/* The statement with conn->args, which are empty then. Errors show at connection_sync(). */
void connection_send(struct connection *conn, const char *name);
void connection_commit(struct connection *conn); /* sends COMMIT */
/* Ends what was sent; all its answers must come within limit_ms. */
void connection_sync(struct connection *conn);
/* Each is as postgres_take(); the first failure stays in conn->state and ->text. */
int connection_take(struct connection *conn, struct postgres_answer *answer) must_check;
int connection_take_nothing(struct connection *conn) must_check;
int connection_take_commit(struct connection *conn) must_check;
int connection_take_sync(struct connection *conn) must_check;
/* The end was received: connection_was_committed() need not be asked. */
void connection_committed(struct connection *conn);

/* Of several answers the first failure counts; a statement that was skipped is none. */
static inline void connection_join(int *error, int next)
{
	if (*error == 0 || (*error == 1 && next < 0))
		*error = next;
}

/* The end of what connection_sync() sent, if the answers so far leave the connection usable. */
void connection_join_sync(int *error, struct connection *conn);

/* One statement as a transaction of its own. After an error that is not -EPROTO the
 * connection is closed. */
int connection_query(struct connection *conn, const char *name,
                     struct postgres_answer *answer) must_check;

/* After a refusal: are the tables gone, or others? Then close the connection; opening it
 * again says which. */
bool connection_lost_tables(const struct connection *conn);
/* Did the statement divide by zero? Statements do so on purpose to fail. */
bool connection_divided(const struct connection *conn);

/* After a failed transaction: 0, or the connection is closed. */
int connection_rollback(struct connection *conn) must_check;

/* After a lost COMMIT, on a new connection. ERR_BUSY: not known yet, ask again; -ENOENT:
 * the row is gone, so it will never be known. */
int connection_was_committed(struct connection *conn, bool *ret_committed) must_check;
