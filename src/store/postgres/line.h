/*
 * line: a connection of a node, with the statements that it prepares, and a way to know
 * what came of a transaction whose end was not heard.
 *
 * Each transaction writes a number into the row of its line (stile_lines), in place of that
 * of the last one; it fails if it does not find that. After a connection was lost with
 * COMMIT under way, a new one writes a number of its own in place of the last: so it waits
 * for the old transaction, if that still runs, and then finds its number; or it does not,
 * and the old one, if it still comes to that, fails. A transaction that is one statement,
 * and sent without knowing what its tickets will be, writes the first of them: so that is
 * known then, too.
 *
 * A transaction also fails if somebody has deleted the row, or made the tables anew. A new connection then looks whether the tables are still those whose secret
 * the node has; it does not work with others.
 *
 * Room:      store/postgres. Threads: one owner, which it blocks.
 * Ownership: line_free() takes what it holds; the address stays the caller's.
 * Failure:   as postgres_link.h, and ERR_VERSION, ERR_CONFIG with a text: the server is
 *            there, and not fit.
 */
#pragma once

#include <errno.h>

#include "base/error.h"
#include "link/postgres_args.h"
#include "link/postgres_link.h"
#include "store/postgres/address.h"

struct line_statement {
	const char *name, *sql;
};

struct line {
	struct postgres_link link;
	struct postgres_args args; /* of the next statement */
	const struct address *address;
	const struct line_statement *statements; /* up to one without a name */
	const char *first;                       /* NULL, or a command for every new connection */
	uint64_t node;
	const unsigned char *key; /* POSTGRES_STORE_KEY_LEN: of the tables that it is about */
	uint32_t number;
	uint64_t batch;    /* of the last transaction that was begun */
	int64_t mark;      /* what the row has, as far as is known */
	bool in_doubt;     /* line_was_committed() is to be asked: its row is not made anew */
	uint32_t limit_ms; /* for one round trip */
	struct error_text text;
	char state[POSTGRES_STATE_LEN + 1]; /* of the last failure */
	uint32_t sent;                      /* statements that are not answered */
};

/* Connected, prepared and in pipeline mode, or an error with line->text. */
int line_open(struct line *line) must_check;
void line_close(struct line *line);
void line_free(struct line *line);
bool line_is_open(const struct line *line);

/* BEGIN, and the number of the transaction. Nothing waits before line_sync(). */
void line_begin(struct line *line);
/* Nothing is sent: one statement follows that writes line_mark_of() its first ticket number
 * in place of line->mark, and is a transaction that line_sync() ends. If its end was heard,
 * the caller sets line->mark. */
void line_begin_bare(struct line *line);
static inline int64_t line_mark_of(uint64_t first)
{
	return -1 - (int64_t)first;
}
/* That ticket number, of the last transaction that committed. */
uint64_t line_first(const struct line *line);
/* The statement with line->args, which are empty then. Errors show at line_sync(). */
void line_send(struct line *line, const char *name);
void line_commit(struct line *line); /* sends it */
/* Ends what was sent, and waits no longer than limit_ms for all answers to it. */
void line_sync(struct line *line);
/* Each is as postgres_take(); the first failure stays in line->state and ->text. */
int line_take(struct line *line, struct postgres_answer *answer) must_check;
int line_take_nothing(struct line *line) must_check;
int line_take_commit(struct line *line) must_check;
int line_take_sync(struct line *line) must_check;
/* The end was heard: nobody will ask line_was_committed(). */
void line_committed(struct line *line);

/* Of several answers the first failure counts; a statement that was skipped is none. */
static inline void line_join(int *error, int next)
{
	if (*error == 0 || (*error == 1 && next < 0))
		*error = next;
}

/* Of answers that leave the connection in order. */
static inline bool line_is_in_order(int error)
{
	return error == 0 || error == 1 || error == -EPROTO;
}

/* One statement, outside of line_begin(): a transaction of its own, of which nobody asks
 * later. After an error that is not -EPROTO the connection is closed. */
int line_query(struct line *line, const char *name, struct postgres_answer *answer) must_check;

/* Of a refusal: is it that the tables are not there any more, or not the same? Then close
 * the connection: the next says what is. */
bool line_lost_tables(const struct line *line);
/* Did it divide by zero, as statements do where something is not as it must be? */
bool line_divided(const struct line *line);

/* After a failed transaction: 0, or the connection is closed. */
int line_rollback(struct line *line) must_check;

/* After a lost COMMIT, on a new connection: the old one has ended. ERR_BUSY: it cannot be
 * known now; -ENOENT: its row is gone, so that nobody will ever know. */
int line_was_committed(struct line *line, bool *ret_committed) must_check;
