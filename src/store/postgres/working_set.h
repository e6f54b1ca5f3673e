/*
 * working_set: the operations of one transaction, and the rows that they are about.
 *
 * working_set_enter() takes an operation and collects its rows. When those were read from
 * the server, working_set_decide() decides all operations in their order, on the rows
 * alone: each sees what those before it did. The same transaction writes the changed and
 * the new rows back.
 *
 * To save a round trip the claims are inserted before anything is decided, as if every
 * event were new: `offset` says which of the transaction's ticket numbers each event
 * would get. Where that was wrong the row is changed, or deleted again.
 *
 * Most claims that exist need no lock: nobody changes them before they expire. If one
 * does (it has expired), or a row was not read (of a conflict that is kept aside),
 * `incomplete` is set: roll back, and begin again with `lock_all`.
 *
 *   working_set.c  entering operations
 *   decide.c       deciding them
 *
 * Room:      store/postgres. Threads: one owner. Nothing here talks to the server.
 * Ownership: working_set_clear() forgets all operations and rows, working_set_free() also
 *            frees the memory; a zeroed struct is empty. Operations stay the caller's.
 * Failure:   -ENOMEM; the working set must then be cleared.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/postgres/rows.h"
#include "store/store.h"

/* Kinds of keys in stile_claims. */
enum { KEY_OF_CLAIM = 0, KEY_OF_ENTITY = 1 };

struct claim_values {
	uint64_t ticket, expiry, order, check;
};

struct claim_row {
	struct row_key key;
	/* As it is inserted: of the first event that wants it. */
	uint64_t offset, window_ms, order, check;
	struct claim_values now;    /* if it is live */
	struct claim_values stored; /* as the server has it */
	bool wanted;                /* insert it if it does not exist */
	bool locked;
	bool asked;    /* read whether its event is open */
	bool inserted; /* by this transaction */
	bool found;    /* it existed before */
	bool live;
};

struct seen_row {
	struct row_key key;
	uint64_t event, seen, more, expiry;
};

struct ticket_row {
	struct row_key key;
	uint64_t ticket, event, sink, order, due, lease, node, len;
	uint64_t attempt, used, status, state, last;
	bool locked; /* else only read */
	bool fresh;  /* of this transaction */
	bool changed;
	bool closed;
	bool parts_wanted;
	struct store_parts parts;
	uint32_t flags;
};

struct event_row {
	uint64_t event, flags;
	struct span source, metadata, payload;
};

struct note_row {
	uint64_t ticket, at, due, attempt, mark, status;
	struct span text;
};

struct drop_row {
	uint64_t event;
};

struct cell_row {
	struct row_key key;
	uint64_t expiry;
	uint64_t value_wanted;
	struct span name, value;
	bool put;    /* an operation may put it: insert it if it does not exist */
	bool locked; /* an operation may change it */
	bool found, live;
	bool rewritten, moved; /* name, value and expiry; or the expiry alone */
};

struct entry {
	struct store_op *op;
	uint64_t offset;
	struct claim_row *claims[CLAIMS_MAX];
	struct claim_row *asides[CLAIMS_MAX]; /* NULL: not read */
	struct cell_row *cell;
};

struct working_set {
	struct arena arena;
	struct rows claims, cells, tickets, seen;
	struct row_list events, notes, drops;
	struct entry *entries;
	uint32_t entry_count, entry_room;
	uint64_t numbers; /* tickets that all operations together could need */
	uint64_t node;
	bool lock_all, dense;
	bool incomplete;
	bool sent_as_new; /* by transaction_run_new() */
	int failed;       /* -ENOMEM */
	/* From the server. */
	uint64_t now_ms, first;
	uint64_t next;   /* dense: the next number */
	bool any_due;    /* a waiting take may find a ticket now */
	bool any_closed; /* a wait may find an outcome now */
};

void working_set_clear(struct working_set *set);
void working_set_free(struct working_set *set);
int working_set_enter(struct working_set *set, struct store_op *op) must_check;
/* The answers are in the operations; they count when the transaction has committed. */
void working_set_decide(struct working_set *set);

/* Are all operations admissions, which want each claim once, with nothing to lock? Then the
 * result is known in advance, should all of them be new: */
bool working_set_may_be_new(const struct working_set *set);
/* events and tickets, numbered from 0, */
void working_set_open_all(struct working_set *set);
/* and, when `first` and `now_ms` are known, the answers. */
void working_set_all_new(struct working_set *set);
/* After deciding: were all claims new? */
bool working_set_was_all_new(const struct working_set *set);

/* NULL: there is no open ticket of this number. */
struct ticket_row *working_set_ticket(const struct working_set *set, uint64_t ticket);
/* The row, new if need be. NULL: no memory, `failed` is set. */
struct ticket_row *working_set_ticket_add(struct working_set *set, uint64_t ticket);
struct seen_row *working_set_seen(struct working_set *set, uint64_t event);

/* Windows as all stores keep them: nine significant bits, rounded up. */
uint64_t working_set_window_ms(uint32_t window_s);
