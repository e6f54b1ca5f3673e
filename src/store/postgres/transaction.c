/* transaction: see transaction.h. */
#include "store/postgres/transaction.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "store/postgres/statements.h"

/* ---- statements ---- */

#define CLAIM_COLUMNS "c.key, c.ticket, c.expiry, c.ord, c.chk, s.seen"
#define CLAIM_TABLES "stile_claims c LEFT JOIN stile_seen s ON s.event = c.ticket"
/* Without the rows that this transaction has inserted. */
#define CLAIM_OLD "c.key = ANY($1::uuid[]) AND c.xmin <> pg_current_xact_id()::xid"
#define TICKET_COLUMNS                                                                 \
	"t.ticket, t.event, t.sink, t.ord, t.due, t.lease, t.node, t.attempt, t.used," \
	" t.status, t.state, t.last"

/* A whole transaction, which fails if a claim exists, or the row of its connection is gone. */
#define ALL_START                                                                                   \
	"n AS MATERIALIZED (SELECT first, now FROM stile_number($1::bigint, " SQL_CLOCK(            \
		"$2") ")),"                                                                         \
		      " m AS (UPDATE stile_lines l SET batch = -1 - n.first FROM n"                 \
		      " WHERE l.node = $3::bigint AND l.line = $4::bigint AND l.batch = $5::bigint" \
		      " RETURNING 1),"                                                              \
		      " i AS (INSERT INTO stile_claims (key, ticket, expiry, ord, chk)"             \
		      " SELECT u.key, n.first + u.off, ((n.first + u.off) >> " SQL_TICKET_BITS      \
		      ") + " SQL_TICKET_EPOCH " + u.win, u.ord, u.chk"                              \
		      " FROM n, unnest($6::uuid[], $7::bigint[], $8::bigint[], $9::bigint[],"       \
		      " $10::bigint[]) AS u (key, off, win, ord, chk) ORDER BY u.key"               \
		      " ON CONFLICT DO NOTHING RETURNING 1)"
#define ALL_CHECK \
	"1 / ((SELECT count(*) FROM i) = $11::bigint AND (SELECT count(*) FROM m) = 1)::integer"

const struct statement transaction_statements[] = {
	{ "claims_insert",
	  "WITH n AS MATERIALIZED (SELECT first, now FROM stile_number($1::bigint, " SQL_CLOCK(
		  "$2") ")),"
	                " i AS (INSERT INTO stile_claims (key, ticket, expiry, ord, chk)"
	                " SELECT u.key, n.first + u.off, ((n.first + u.off) >> " SQL_TICKET_BITS
	                ") + " SQL_TICKET_EPOCH " + u.win, u.ord, u.chk"
	                " FROM n, unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])"
	                " AS u (key, off, win, ord, chk) ORDER BY u.key ON CONFLICT DO NOTHING RETURNING key)"
	                " SELECT n.first, n.now, i.key FROM n LEFT JOIN i ON true" },
	{ "all_claims", "WITH " ALL_START " SELECT n.first, n.now, " ALL_CHECK " FROM n" },
	{ "all_events",
	  "WITH " ALL_START ", e AS (INSERT INTO stile_events (event, flags, source, letter,"
	  " payload) SELECT n.first + u.off, u.flags, u.source, u.letter, u.payload FROM n,"
	  " unnest($12::bigint[], $13::bigint[], $14::bytea[], $15::bytea[], $16::bytea[])"
	  " AS u (off, flags, source, letter, payload)),"
	  " t AS (INSERT INTO stile_tickets (ticket, event, sink, ord, lease, len, attempt, used,"
	  " state, last, due, node, stamp, status) SELECT n.first + u.off, n.first + u.event,"
	  " u.sink, u.ord, 0, u.len, 0, 0, 1, 0, 0, 0, 0, 0 FROM n, unnest($17::bigint[],"
	  " $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[])"
	  " AS u (off, event, sink, ord, len))"
	  " SELECT n.first, n.now, " ALL_CHECK " FROM n" },
	{ "claims_read",
	  "SELECT " CLAIM_COLUMNS " FROM " CLAIM_TABLES " WHERE c.key = ANY($1::uuid[])" },
	{ "claims_lock", "SELECT " CLAIM_COLUMNS " FROM " CLAIM_TABLES " WHERE " CLAIM_OLD
	                 " ORDER BY c.key FOR UPDATE OF c" },
	{ "claims_update",
	  "UPDATE stile_claims c SET ticket = u.ticket, expiry = u.expiry, ord = u.ord,"
	  " chk = u.chk FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[],"
	  " $5::bigint[]) AS u (key, ticket, expiry, ord, chk) WHERE c.key = u.key" },
	{ "claims_delete", "DELETE FROM stile_claims WHERE key = ANY($1::uuid[])" },
	{ "seen_add",
	  "INSERT INTO stile_seen AS s (event, seen, expiry) SELECT * FROM unnest($1::bigint[],"
	  " $2::bigint[], $3::bigint[]) AS u (event, seen, expiry) ORDER BY u.event"
	  " ON CONFLICT (event) DO UPDATE SET seen = s.seen + excluded.seen,"
	  " expiry = greatest(s.expiry, excluded.expiry)" },
	{ "legs_read",
	  "SELECT " TICKET_COLUMNS " FROM stile_claims c JOIN stile_tickets t"
	  " ON t.ticket >= c.ticket AND t.ticket < c.ticket + 16 AND t.event = c.ticket"
	  " WHERE c.key = ANY($1::uuid[]) AND t.state IN (1, 2, 3)" },
	{ "cells_insert",
	  "INSERT INTO stile_cells (key, expiry, name, value) SELECT u.key, 1, '', ''"
	  " FROM unnest($1::uuid[]) AS u (key) ORDER BY u.key ON CONFLICT DO NOTHING" },
	{ "cells_read", "SELECT c.key, c.expiry, CASE WHEN u.w = 1 THEN c.value END"
	                " FROM unnest($1::uuid[], $2::bigint[]) AS u (key, w) JOIN stile_cells c"
	                " ON c.key = u.key" },
	{ "cells_lock", "SELECT c.key, c.expiry, CASE WHEN u.w = 1 THEN c.value END"
	                " FROM unnest($1::uuid[], $2::bigint[]) AS u (key, w) JOIN stile_cells c"
	                " ON c.key = u.key ORDER BY c.key FOR UPDATE OF c" },
	{ "cells_put", "UPDATE stile_cells c SET expiry = u.expiry, name = u.name, value = u.value"
	               " FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bytea[])"
	               " AS u (key, expiry, name, value) WHERE c.key = u.key" },
	{ "cells_expire",
	  "UPDATE stile_cells c SET expiry = u.expiry FROM unnest($1::uuid[], $2::bigint[])"
	  " AS u (key, expiry) WHERE c.key = u.key" },
	{ "cells_delete", "DELETE FROM stile_cells WHERE key = ANY($1::uuid[])" },
	{ "tickets_lock",
	  "SELECT " TICKET_COLUMNS " FROM stile_tickets t WHERE"
	  " t.ticket = ANY($1::bigint[]) AND t.state <> 6 ORDER BY t.ticket FOR UPDATE" },
	{ "parts_read",
	  "SELECT t.ticket, e.flags, e.source, e.letter, e.payload FROM stile_tickets t"
	  " JOIN stile_events e ON e.event = t.event WHERE t.ticket = ANY($1::bigint[])" },
	{ "events_insert",
	  "INSERT INTO stile_events (event, flags, source, letter, payload) SELECT *"
	  " FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[])" },
	{ "tickets_insert",
	  "INSERT INTO stile_tickets (ticket, event, sink, ord, lease, len, attempt, used, state,"
	  " last, due, node, stamp, status) SELECT u.*, 0, 0, 0, 0 FROM unnest($1::bigint[],"
	  " $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],"
	  " $8::bigint[], $9::bigint[], $10::bigint[]) AS u" },
	{ "tickets_update",
	  "UPDATE stile_tickets t SET due = u.due, lease = u.lease, node = u.node,"
	  " attempt = u.attempt, used = u.used, status = u.status, state = u.state, last = u.last,"
	  " stamp = CASE u.node WHEN 0 THEN 0 ELSE t.stamp END"
	  " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
	  " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) AS u (ticket, due, lease,"
	  " node, attempt, used, status, state, last) WHERE t.ticket = u.ticket" },
	{ "tickets_keep",
	  "UPDATE stile_tickets t SET state = 6, due = $2::bigint, lease = 0 WHERE ticket ="
	  " ANY($1::bigint[])" },
	{ "tickets_delete", "DELETE FROM stile_tickets WHERE ticket = ANY($1::bigint[])" },
	/* Two nodes that close the last two legs at once leave it: housekeeping deletes it. */
	{ "events_delete",
	  "DELETE FROM stile_events e WHERE e.event = ANY($1::bigint[]) AND NOT EXISTS (SELECT"
	  " FROM stile_tickets t WHERE t.ticket >= e.event AND t.ticket < e.event + 16"
	  " AND t.event = e.event)" },
	{ "notes_insert",
	  "INSERT INTO stile_notes (ticket, at, due, attempt, mark, status, text) SELECT *"
	  " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
	  " $6::bigint[], $7::bytea[])" },
	{ "notes_delete", "DELETE FROM stile_notes WHERE ticket = ANY($1::bigint[])" },
	{ "drops_insert",
	  "INSERT INTO stile_drops (event, at) SELECT u, $2::bigint FROM unnest($1::bigint[])"
	  " AS u" },
	{ "give_back", "SELECT stile_give_back($1::bigint, $2::bigint)" },
	{ "give_back_all",
	  "SELECT stile_give_back(last_value, last_value - $1::bigint) FROM stile_ticket" },
	{ "notify", "SELECT pg_notify($1::text, '')" },
	{ 0 },
};

/* ---- rows as parameters ---- */

/* Rows go to the server by columns: arrays, which unnest() makes rows of again. A list of
 * columns ends with one of kind 0. */
struct column {
	enum { COLUMN_KEY = 1, COLUMN_NUMBER, COLUMN_BYTES } kind;
	size_t offset;
};

#define KEY(row)                                      \
	{                                             \
		COLUMN_KEY, offsetof(struct row, key) \
	}
#define NUMBER(row, field)                                 \
	{                                                  \
		COLUMN_NUMBER, offsetof(struct row, field) \
	}
#define BYTES(row, field)                                 \
	{                                                 \
		COLUMN_BYTES, offsetof(struct row, field) \
	}

static const struct column claim_key[] = { KEY(claim_row), { 0 } };
static const struct column claim_new[] = {
	KEY(claim_row),           NUMBER(claim_row, offset), NUMBER(claim_row, window_ms),
	NUMBER(claim_row, order), NUMBER(claim_row, check),  { 0 }
};
static const struct column claim_now[] = { KEY(claim_row),
	                                   NUMBER(claim_row, now.ticket),
	                                   NUMBER(claim_row, now.expiry),
	                                   NUMBER(claim_row, now.order),
	                                   NUMBER(claim_row, now.check),
	                                   { 0 } };
static const struct column seen_more[] = {
	NUMBER(seen_row, event), NUMBER(seen_row, more), NUMBER(seen_row, expiry), { 0 }
};
static const struct column cell_key[] = { KEY(cell_row), { 0 } };
static const struct column cell_asked[] = { KEY(cell_row), NUMBER(cell_row, value_wanted), { 0 } };
static const struct column cell_expiry[] = { KEY(cell_row), NUMBER(cell_row, expiry), { 0 } };
static const struct column cell_all[] = { KEY(cell_row),
	                                  NUMBER(cell_row, expiry),
	                                  BYTES(cell_row, name),
	                                  BYTES(cell_row, value),
	                                  { 0 } };
static const struct column event_all[] = { NUMBER(event_row, event),  NUMBER(event_row, flags),
	                                   BYTES(event_row, source),  BYTES(event_row, metadata),
	                                   BYTES(event_row, payload), { 0 } };
static const struct column ticket_number[] = { NUMBER(ticket_row, ticket), { 0 } };
static const struct column ticket_event[] = { NUMBER(ticket_row, event), { 0 } };
static const struct column ticket_due[] = { NUMBER(ticket_row, ticket), NUMBER(ticket_row, event),
	                                    NUMBER(ticket_row, sink),   NUMBER(ticket_row, order),
	                                    NUMBER(ticket_row, len),    { 0 } };
static const struct column ticket_new[] = { NUMBER(ticket_row, ticket),
	                                    NUMBER(ticket_row, event),
	                                    NUMBER(ticket_row, sink),
	                                    NUMBER(ticket_row, order),
	                                    NUMBER(ticket_row, lease),
	                                    NUMBER(ticket_row, len),
	                                    NUMBER(ticket_row, attempt),
	                                    NUMBER(ticket_row, used),
	                                    NUMBER(ticket_row, state),
	                                    NUMBER(ticket_row, last),
	                                    { 0 } };
static const struct column ticket_now[] = { NUMBER(ticket_row, ticket),  NUMBER(ticket_row, due),
	                                    NUMBER(ticket_row, lease),   NUMBER(ticket_row, node),
	                                    NUMBER(ticket_row, attempt), NUMBER(ticket_row, used),
	                                    NUMBER(ticket_row, status),  NUMBER(ticket_row, state),
	                                    NUMBER(ticket_row, last),    { 0 } };
static const struct column note_all[] = { NUMBER(note_row, ticket), NUMBER(note_row, at),
	                                  NUMBER(note_row, due),    NUMBER(note_row, attempt),
	                                  NUMBER(note_row, mark),   NUMBER(note_row, status),
	                                  BYTES(note_row, text),    { 0 } };
static const struct column drop_event[] = { NUMBER(drop_row, event), { 0 } };

static void add_columns(struct connection *conn, const struct column *columns,
                        const struct row_list *rows)
{
	for (; columns->kind; columns++) {
		struct postgres_column values = { rows->at, rows->count, columns->offset };
		switch (columns->kind) {
		case COLUMN_KEY: postgres_args_keys(&conn->args, values); break;
		case COLUMN_NUMBER: postgres_args_u64s(&conn->args, values); break;
		case COLUMN_BYTES: postgres_args_spans(&conn->args, values); break;
		}
	}
}

/* Which rows a statement is about. */
enum pick {
	CLAIM_WANTED,
	CLAIM_LOCKED,
	CLAIM_READ, /* it existed, and needs no lock */
	CLAIM_ASKED,
	CLAIM_CHANGED,
	CLAIM_GONE,
	SEEN_CHANGED,
	CELL_PUT,
	CELL_LOCKED,
	CELL_READ,
	CELL_REWRITTEN,
	CELL_MOVED,
	CELL_GONE,
	TICKET_ANY,
	TICKET_WHOLE,
	TICKET_NEW,
	TICKET_CHANGED,
	TICKET_CLOSED,
	TICKET_CLOSED_NOTED,
};

static const struct rows *rows_of(const struct working_set *set, enum pick which)
{
	return which < SEEN_CHANGED ? &set->claims
	       : which < CELL_PUT   ? &set->seen
	       : which < TICKET_ANY ? &set->cells
	                            : &set->tickets;
}

static bool is_picked(const void *row, enum pick which)
{
	const struct claim_row *claim = row;
	const struct cell_row *cell = row;
	const struct ticket_row *ticket = row;

	switch (which) {
	case CLAIM_WANTED: return claim->wanted;
	case CLAIM_LOCKED: return claim->locked;
	case CLAIM_READ: return !claim->locked && !claim->inserted;
	case CLAIM_ASKED: return claim->asked && !claim->inserted;
	case CLAIM_CHANGED:
		return claim->live && memcmp(&claim->now, &claim->stored, sizeof(claim->now)) != 0;
	case CLAIM_GONE: return claim->inserted && !claim->live;
	case SEEN_CHANGED: return ((const struct seen_row *)row)->more > 0;
	case CELL_PUT: return cell->put;
	case CELL_LOCKED: return cell->locked;
	case CELL_READ: return !cell->locked;
	case CELL_REWRITTEN: return cell->live && cell->rewritten;
	case CELL_MOVED: return cell->live && cell->moved && !cell->rewritten;
	case CELL_GONE: return !cell->live && cell->found && cell->locked;
	case TICKET_ANY: return true;
	case TICKET_WHOLE: return ticket->parts_wanted;
	case TICKET_NEW: return ticket->fresh;
	case TICKET_CHANGED: return !ticket->fresh && ticket->changed && !ticket->closed;
	case TICKET_CLOSED: return ticket->closed;
	case TICKET_CLOSED_NOTED: return ticket->closed && ticket->last != 0;
	}
	return false;
}

/* A row that cannot be listed makes the working set useless: `failed`. */
static struct row_list pick(struct working_set *set, enum pick which)
{
	const struct rows *rows = rows_of(set, which);
	struct row_list list = { 0 };

	for (uint32_t i = 0; i < rows->count; i++)
		if (is_picked(rows->at[i], which) && row_list_add(&list, rows->at[i]) < 0)
			set->failed = -ENOMEM;
	return list;
}

/* A statement that reads: sent for no rows too, since its answer is awaited. */
static void ask(struct working_set *set, struct connection *conn, const char *statement,
                const struct column *columns, enum pick which)
{
	struct row_list list = pick(set, which);

	add_columns(conn, columns, &list);
	connection_send(conn, statement);
	row_list_free(&list);
}

/* A statement that writes: not sent for no rows. */
static void write_list(struct connection *conn, const char *statement, const struct column *columns,
                       const struct row_list *list)
{
	if (list->count == 0)
		return;
	add_columns(conn, columns, list);
	connection_send(conn, statement);
}

static void write_rows(struct working_set *set, struct connection *conn, const char *statement,
                       const struct column *columns, enum pick which)
{
	struct row_list list = pick(set, which);

	write_list(conn, statement, columns, &list);
	row_list_free(&list);
}

/* ---- asking ---- */

/* Which questions are asked at all. */
struct questions {
	bool locked, cells, tickets;
};

static struct questions choose_questions(const struct working_set *set)
{
	struct questions asked = { .cells = set->cells.count > 0,
		                   .tickets = set->tickets.count > 0 };

	for (uint32_t i = 0; i < set->claims.count; i++)
		asked.locked |= is_picked(set->claims.at[i], CLAIM_LOCKED);
	return asked;
}

/* In the order of locks (schema.h, S2). */
static void ask_all(struct working_set *set, struct connection *conn, const struct questions *asked,
                    uint64_t clock)
{
	rows_sort(&set->claims);
	rows_sort(&set->cells);
	rows_sort(&set->tickets);
	connection_begin(conn);
	postgres_args_u64(&conn->args, set->numbers);
	postgres_args_u64(&conn->args, clock);
	ask(set, conn, "claims_insert", claim_new, CLAIM_WANTED);
	if (asked->locked)
		ask(set, conn, "claims_lock", claim_key, CLAIM_LOCKED);
	if (asked->cells) {
		ask(set, conn, "cells_insert", cell_key, CELL_PUT);
		ask(set, conn, "cells_lock", cell_asked, CELL_LOCKED);
		ask(set, conn, "cells_read", cell_asked, CELL_READ);
	}
	if (asked->tickets) {
		ask(set, conn, "tickets_lock", ticket_number, TICKET_ANY);
		ask(set, conn, "parts_read", ticket_number, TICKET_WHOLE);
	}
	connection_sync(conn);
}

/* ---- reading ---- */

static struct row_key key_at(const struct postgres_answer *answer, uint32_t row, uint32_t column)
{
	struct row_key key = { { 0 } };
	struct span bytes = postgres_span(answer, row, column);

	if (bytes.len == ROW_KEY_LEN)
		memcpy(key.bytes, bytes.ptr, ROW_KEY_LEN);
	return key;
}

/* Copies that stay after the answer is freed. */
static struct span keep_bytes(struct working_set *set, struct span bytes)
{
	struct span copy = arena_copy(&set->arena, bytes);

	if (!copy.ptr)
		set->failed = -ENOMEM;
	return copy;
}

/* The first number, the time, and the key of an inserted claim; one row without a key if
 * none was inserted. */
static void fill_inserted(struct working_set *set, const struct postgres_answer *answer, uint32_t i)
{
	struct row_key key = key_at(answer, i, 2);
	struct claim_row *row = rows_find(&set->claims, &key);

	set->first = postgres_u64(answer, i, 0);
	set->now_ms = postgres_u64(answer, i, 1);
	if (row && !postgres_is_null(answer, i, 2))
		row->inserted = true;
}

static void fill_claim(struct working_set *set, const struct postgres_answer *answer, uint32_t i)
{
	struct row_key key = key_at(answer, i, 0);
	struct claim_row *row = rows_find(&set->claims, &key);

	if (!row)
		return;
	row->found = true;
	row->stored = (struct claim_values){ .ticket = postgres_u64(answer, i, 1),
		                             .expiry = postgres_u64(answer, i, 2),
		                             .order = postgres_u64(answer, i, 3),
		                             .check = postgres_u64(answer, i, 4) };
	row->now = row->stored;
	row->live = row->now.expiry > set->now_ms;
	struct seen_row *seen = working_set_seen(set, row->now.ticket);
	if (seen)
		seen->seen = postgres_u64(answer, i, 5);
}

static void fill_cell(struct working_set *set, const struct postgres_answer *answer, uint32_t i)
{
	struct row_key key = key_at(answer, i, 0);
	struct cell_row *row = rows_find(&set->cells, &key);

	if (!row)
		return;
	row->found = true;
	row->expiry = postgres_u64(answer, i, 1);
	row->live = row->expiry == 0 || row->expiry > set->now_ms;
	row->value = keep_bytes(set, postgres_span(answer, i, 2));
}

/* Columns as TICKET_COLUMNS. */
static void fill_ticket(struct working_set *set, const struct postgres_answer *answer, uint32_t i)
{
	struct ticket_row *row = working_set_ticket_add(set, postgres_u64(answer, i, 0));

	if (!row || row->state != 0)
		return;
	uint64_t *const numbers[] = { &row->event,  &row->sink,  &row->order,   &row->due,
		                      &row->lease,  &row->node,  &row->attempt, &row->used,
		                      &row->status, &row->state, &row->last };
	for (uint32_t n = 0; n < ARRAY_LEN(numbers); n++)
		*numbers[n] = postgres_u64(answer, i, n + 1);
	/* The lease has ended, but nobody has written that yet. */
	if (row->state == STORE_STATE_LEASED && row->lease != 0 && row->lease <= set->now_ms)
		row->state = STORE_STATE_DUE;
}

static void fill_parts(struct working_set *set, const struct postgres_answer *answer, uint32_t i)
{
	struct ticket_row *row = working_set_ticket(set, postgres_u64(answer, i, 0));

	if (!row)
		return;
	row->flags = (uint32_t)postgres_u64(answer, i, 1);
	row->parts.source = keep_bytes(set, postgres_span(answer, i, 2));
	row->parts.metadata = keep_bytes(set, postgres_span(answer, i, 3));
	row->parts.payload = keep_bytes(set, postgres_span(answer, i, 4));
}

static int read_rows(struct working_set *set, struct connection *conn,
                     void (*fill)(struct working_set *set, const struct postgres_answer *answer,
                                  uint32_t i))
{
	struct postgres_answer answer = { 0 };
	int error = connection_take(conn, &answer);

	for (uint32_t i = 0; !error && i < postgres_rows(&answer); i++)
		fill(set, &answer, i);
	postgres_answer_free(&answer);
	return error;
}

/* What ask_all() asked, in that order. */
static int read_all(struct working_set *set, struct connection *conn, const struct questions *asked)
{
	int error = connection_take_nothing(conn);              /* BEGIN */
	connection_join(&error, connection_take_nothing(conn)); /* its number */
	connection_join(&error, read_rows(set, conn, fill_inserted));
	if (asked->locked)
		connection_join(&error, read_rows(set, conn, fill_claim));
	if (asked->cells) {
		connection_join(&error, connection_take_nothing(conn));
		connection_join(&error, read_rows(set, conn, fill_cell));
		connection_join(&error, read_rows(set, conn, fill_cell));
	}
	if (asked->tickets) {
		connection_join(&error, read_rows(set, conn, fill_ticket));
		connection_join(&error, read_rows(set, conn, fill_parts));
	}
	connection_join_sync(&error, conn);
	return error;
}

/* Claims that existed already, and whether their events are open. */
static int read_old_claims(struct working_set *set, struct connection *conn)
{
	bool any = false;

	for (uint32_t i = 0; i < set->claims.count; i++)
		any |= is_picked(set->claims.at[i], CLAIM_READ) ||
		       is_picked(set->claims.at[i], CLAIM_ASKED);
	if (!any)
		return 0;
	ask(set, conn, "claims_read", claim_key, CLAIM_READ);
	ask(set, conn, "legs_read", claim_key, CLAIM_ASKED);
	connection_sync(conn);
	int error = read_rows(set, conn, fill_claim);
	connection_join(&error, read_rows(set, conn, fill_ticket));
	connection_join_sync(&error, conn);
	return error;
}

/* What was inserted is as it was sent. False: a claim was neither inserted nor found, since
 * it was deleted in between. */
static bool note_inserted(struct working_set *set)
{
	for (uint32_t i = 0; i < set->claims.count; i++) {
		struct claim_row *row = set->claims.at[i];
		uint64_t ticket = set->first + row->offset;
		if (row->wanted && !row->inserted && !row->found)
			return false;
		if (row->inserted)
			row->stored = (struct claim_values){
				.ticket = ticket,
				.expiry = statements_ticket_ms(ticket) + row->window_ms,
				.order = row->order,
				.check = row->check
			};
	}
	return true;
}

/* ---- writing ---- */

/* Times that a bigint cannot hold are never reached. */
static void cap_times(struct working_set *set)
{
	for (uint32_t i = 0; i < set->cells.count; i++) {
		struct cell_row *row = set->cells.at[i];
		row->expiry = row->expiry < INT64_MAX ? row->expiry : INT64_MAX;
	}
	for (uint32_t i = 0; i < set->tickets.count; i++) {
		struct ticket_row *row = set->tickets.at[i];
		row->due = row->due < INT64_MAX ? row->due : INT64_MAX;
	}
}

static void send_notify(struct working_set *set, struct connection *conn,
                        const struct transaction_options *options)
{
	if (!options->notify || !set->any_due)
		return;
	postgres_args_bytes(&conn->args, span_str(options->channel));
	connection_send(conn, "notify");
}

/* The changes, and COMMIT. */
static void send_changes(struct working_set *set, struct connection *conn,
                         const struct transaction_options *options)
{
	cap_times(set);
	write_rows(set, conn, "claims_update", claim_now, CLAIM_CHANGED);
	write_rows(set, conn, "claims_delete", claim_key, CLAIM_GONE);
	write_rows(set, conn, "seen_add", seen_more, SEEN_CHANGED);
	write_rows(set, conn, "cells_put", cell_all, CELL_REWRITTEN);
	write_rows(set, conn, "cells_expire", cell_expiry, CELL_MOVED);
	write_rows(set, conn, "cells_delete", cell_key, CELL_GONE);
	write_list(conn, "events_insert", event_all, &set->events);
	write_rows(set, conn, "tickets_insert", ticket_new, TICKET_NEW);
	write_rows(set, conn, "tickets_update", ticket_now, TICKET_CHANGED);
	write_list(conn, "notes_insert", note_all, &set->notes);

	struct row_list closed = pick(set, TICKET_CLOSED);
	if (closed.count > 0 && options->retain) {
		add_columns(conn, ticket_number, &closed);
		postgres_args_u64(&conn->args, set->now_ms);
		connection_send(conn, "tickets_keep");
	} else {
		write_list(conn, "tickets_delete", ticket_number, &closed);
		write_list(conn, "events_delete", ticket_event, &closed);
		write_rows(set, conn, "notes_delete", ticket_number, TICKET_CLOSED_NOTED);
	}
	row_list_free(&closed);

	if (set->drops.count > 0) {
		add_columns(conn, drop_event, &set->drops);
		postgres_args_u64(&conn->args, set->now_ms);
		connection_send(conn, "drops_insert");
	}
	if (set->dense && set->numbers > 0) {
		postgres_args_u64(&conn->args, set->first + set->numbers - 1);
		postgres_args_u64(&conn->args, set->next - 1);
		connection_send(conn, "give_back");
	}
	send_notify(set, conn, options);
	/* A row that is missing here would be lost: nothing may be committed. */
	if (set->failed)
		connection_close(conn);
	connection_commit(conn);
}

static int write_all(struct working_set *set, struct connection *conn,
                     const struct transaction_options *options)
{
	int error = 0;

	send_changes(set, conn, options);
	connection_sync(conn);
	while (conn->sent > 1)
		connection_join(&error, connection_take_nothing(conn));
	connection_join(&error, connection_take_commit(conn));
	connection_join_sync(&error, conn);
	if (!error)
		connection_committed(conn);
	/* The server reported no failure, and the end was not received. */
	return error < 0 && error != -EPROTO ? TRANSACTION_UNKNOWN : error;
}

/* ---- all of it ---- */

/* Dense: gives the numbers back that were not used. */
static int give_back(const struct working_set *set, struct connection *conn)
{
	struct postgres_answer answer = { 0 };

	if (!set->dense || set->numbers == 0)
		return 0;
	postgres_args_u64(&conn->args, set->first + set->numbers - 1);
	postgres_args_u64(&conn->args, set->first - 1);
	int error = connection_query(conn, "give_back", &answer);
	postgres_answer_free(&answer);
	return error;
}

int transaction_run(struct working_set *set, struct connection *conn,
                    const struct transaction_options *options)
{
	struct questions asked = choose_questions(set);

	CHECK(!set->sent_as_new && !conn->in_doubt);
	ask_all(set, conn, &asked, options->clock);
	int error = read_all(set, conn, &asked);
	if (!error)
		error = read_old_claims(set, conn);
	if (!error && !note_inserted(set))
		set->incomplete = true;
	if (!error && !set->incomplete)
		working_set_decide(set);
	if (error == 0 && set->failed)
		error = set->failed;
	if (error == 0 && set->incomplete)
		error = TRANSACTION_LOCK_ALL;
	if (error == 0)
		error = write_all(set, conn, options);
	if (error == 0 || error == TRANSACTION_UNKNOWN)
		return error;
	if (error < 0 && error != -EPROTO && error != set->failed) {
		connection_close(conn);
		return error;
	}
	int rolled_back = connection_rollback(conn);
	if (rolled_back == 0 && error == TRANSACTION_LOCK_ALL)
		rolled_back = give_back(set, conn);
	return rolled_back < 0 && error == TRANSACTION_LOCK_ALL ? rolled_back : error;
}

/* ---- in one round trip ---- */

static void send_as_new(struct working_set *set, struct connection *conn,
                        const struct transaction_options *options)
{
	struct row_list claims = { .at = set->claims.at, .count = set->claims.count };
	struct row_list tickets = { .at = set->tickets.at, .count = set->tickets.count };
	bool events = set->events.count > 0;

	connection_begin_bare(conn);
	postgres_args_u64(&conn->args, set->numbers);
	postgres_args_u64(&conn->args, options->clock);
	postgres_args_u64(&conn->args, conn->node);
	postgres_args_u64(&conn->args, conn->number);
	postgres_args_u64(&conn->args, (uint64_t)conn->mark);
	add_columns(conn, claim_new, &claims);
	postgres_args_u64(&conn->args, claims.count);
	if (events) {
		add_columns(conn, event_all, &set->events);
		add_columns(conn, ticket_due, &tickets);
	}
	connection_send(conn, events ? "all_events" : "all_claims");
	send_notify(set, conn, options);
	connection_sync(conn);
}

static int read_first(struct working_set *set, struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	int error = connection_take(conn, &answer);

	if (!error) {
		set->first = postgres_u64(&answer, 0, 0);
		set->now_ms = postgres_u64(&answer, 0, 1);
	}
	postgres_answer_free(&answer);
	while (conn->sent > 0)
		connection_join(&error, connection_take_nothing(conn));
	/* The server commits at the end of what was sent. */
	connection_join_sync(&error, conn);
	return error;
}

/* The server refused, and has rolled back. */
static int explain_refusal(const struct working_set *set, struct connection *conn)
{
	struct postgres_answer answer = { 0 };
	int error = 0;

	if (!connection_divided(conn)) {
		error = connection_rollback(conn);
		return error ? error : -EPROTO;
	}
	/* Dense: none of the numbers was used; which they were is not known, but nobody else
	 * got any since. */
	if (set->dense) {
		postgres_args_u64(&conn->args, set->numbers);
		error = connection_query(conn, "give_back_all", &answer);
		postgres_answer_free(&answer);
	}
	return error ? error : TRANSACTION_NOT_NEW;
}

int transaction_run_new(struct working_set *set, struct connection *conn,
                        const struct transaction_options *options)
{
	CHECK(!set->sent_as_new && !conn->in_doubt);
	rows_sort(&set->claims);
	working_set_open_all(set);
	if (set->failed)
		return set->failed;
	set->sent_as_new = true;
	send_as_new(set, conn, options);
	int error = read_first(set, conn);
	if (error == -EPROTO)
		return explain_refusal(set, conn);
	if (error)
		return TRANSACTION_UNKNOWN;
	conn->mark = connection_mark_of(set->first);
	working_set_all_new(set);
	return TRANSACTION_DONE;
}

void transaction_new_committed(struct working_set *set, const struct connection *conn)
{
	CHECK(set->sent_as_new);
	set->first = connection_first(conn);
	set->now_ms = statements_ticket_ms(set->first);
	working_set_all_new(set);
}
