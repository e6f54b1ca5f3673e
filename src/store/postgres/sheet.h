/*
 * sheet: what one transaction works on.
 *
 * Operations are entered (sheet_enter()), which collects the rows that they are about.
 * When those were read from the server, sheet_decide() decides all operations in their
 * order, on the rows alone: each sees what those before it did. What the rows are then,
 * and the new ones, is written back by the same transaction.
 *
 * To save a round trip the claims are inserted before anything is decided, as if every
 * event were new: `offset` says which of the numbers that the transaction gets would be
 * its ticket. Where that was wrong the row is changed, or taken out again.
 *
 * Most claims that are there need no lock: nobody changes them before they expire. If one
 * needs a lock after all (it has expired), or a row that was not asked for (of a conflict
 * that is kept aside), `short_of` is set: roll back, and begin again with `thorough`.
 *
 *   sheet.c         entering
 *   decide_admit.c  admissions and lookups, decide_ticket.c, decide_cell.c
 *
 * Room:      store/postgres. Threads: one owner. Nothing here meets the server.
 * Ownership: sheet_clear() forgets all, sheet_free() takes the memory; a zeroed struct is
 *            an empty sheet. Operations stay the caller's.
 * Failure:   -ENOMEM; the sheet is then of no use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/postgres/rows.h"
#include "store/store.h"

/* Kinds of keys of claims. */
enum { SHEET_CLAIM = 0, SHEET_ENTITY = 1 };

struct claim_values {
	uint64_t ticket, expiry, order, check;
};

struct claim_row {
	struct row_key key;
	/* Of the first that wants it: how it is inserted. */
	uint64_t offset, window_ms, order, check;
	struct claim_values now;    /* if it is live */
	struct claim_values stored; /* as the server has it */
	bool wanted;                /* inserted if it is not there */
	bool locked;
	bool asked; /* is its event open? */
	bool inserted;
	bool found; /* it was there */
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
	bool locked; /* else only looked at */
	bool fresh;
	bool changed;
	bool closed;
	bool parts_wanted;
	struct store_parts parts;
	uint32_t flags;
};

struct event_row {
	uint64_t event, flags;
	struct span source, letter, payload;
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
	bool put;    /* somebody may put it */
	bool locked; /* or change it */
	bool found, live;
	bool rewritten, moved; /* all of it, or its expiry alone */
};

struct entry {
	struct store_op *op;
	uint64_t offset;
	struct claim_row *claims[CLAIMS_MAX];
	struct claim_row *asides[CLAIMS_MAX]; /* NULL: not asked for */
	struct cell_row *cell;
};

struct sheet {
	struct arena arena;
	struct rows claims, cells, tickets, seen;
	struct row_list events, notes, drops;
	struct entry *entries;
	uint32_t entry_count, entry_room;
	uint64_t numbers; /* of tickets, that all of them could need */
	uint64_t node;
	bool thorough, dense;
	bool short_of;
	bool all_at_once; /* batch_run_all() has sent it */
	int failed;       /* -ENOMEM */
	/* From the server. */
	uint64_t now_ms, first;
	uint64_t next;   /* dense: the next number */
	bool any_due;    /* somebody who waits for tickets may find some now */
	bool any_closed; /* or for an outcome */
};

void sheet_clear(struct sheet *sheet);
void sheet_free(struct sheet *sheet);
int sheet_enter(struct sheet *sheet, struct store_op *op) must_check;
/* Answers are in the operations; they count when the transaction has committed. */
void sheet_decide(struct sheet *sheet);

/* Is it all admissions, of claims that are wanted once each, with nothing to lock? Then it
 * is known before anything is asked what it comes to if all of them are new: */
bool sheet_is_plain(const struct sheet *sheet);
/* events and tickets, numbered from 0, */
void sheet_open_all(struct sheet *sheet);
/* and, when their numbers begin with sheet->first, the answers. */
void sheet_all_new(struct sheet *sheet);
/* Of a sheet that was decided: were they? */
bool sheet_was_all_new(const struct sheet *sheet);

/* Is there one, that others could have too, with this number? */
struct ticket_row *sheet_ticket(const struct sheet *sheet, uint64_t ticket);
struct ticket_row *sheet_ticket_add(struct sheet *sheet, uint64_t ticket);
struct seen_row *sheet_seen(struct sheet *sheet, uint64_t event); /* NULL: no memory */

/* Windows as all stores keep them: nine significant bits, rounded up. */
uint64_t sheet_window_ms(uint32_t window_s);

/* One operation each. */
int sheet_admit(struct sheet *sheet, const struct entry *entry);
int sheet_lookup(struct sheet *sheet, const struct entry *entry);
int sheet_settle(struct sheet *sheet, const struct entry *entry);
int sheet_note(struct sheet *sheet, const struct store_note *note);
int sheet_release(struct sheet *sheet, const struct store_release *release);
int sheet_renew(struct sheet *sheet, const struct store_renew *renew);
int sheet_take_one(struct sheet *sheet, struct store_take *take);
int sheet_cell(struct sheet *sheet, const struct entry *entry);
void sheet_cell_put(struct sheet *sheet, struct cell_row *row,
                    const struct store_cell_value *value);
/* Remembers it: the newest note of the ticket. */
void sheet_note_add(struct sheet *sheet, struct ticket_row *ticket, const struct note_row *note);
