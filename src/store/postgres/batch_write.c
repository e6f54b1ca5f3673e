/*
 * batch_write: what a sheet came to, back to the server.
 *
 * The statements of a batch are here too. Rows go by columns: arrays that the server makes
 * rows of again.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "store/postgres/batch.h"
#include "store/postgres/statements.h"

#define CLAIM_COLUMNS "c.key, c.ticket, c.expiry, c.ord, c.chk, s.seen"
#define CLAIM_TABLES "stile_claims c LEFT JOIN stile_seen s ON s.event = c.ticket"
/* Not what this transaction has inserted. */
#define CLAIM_OLD "c.key = ANY($1::uuid[]) AND c.xmin <> pg_current_xact_id()::xid"
#define TICKET_COLUMNS                                                                 \
	"t.ticket, t.event, t.sink, t.ord, t.due, t.lease, t.node, t.attempt, t.used," \
	" t.status, t.state, t.last"

/* A whole transaction, which fails if a claim was there already, or its line is gone. */
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

const struct line_statement batch_statements[] = {
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
	/* Two nodes that close the last two legs at once leave it: the keeper finds it. */
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

static void list(struct sheet *sheet, struct row_list *to, void *row, bool wanted)
{
	if (wanted && row_list_add(to, row) < 0)
		sheet->failed = -ENOMEM;
}

static void send_notify(struct line *line, const char *channel)
{
	postgres_args_bytes(&line->args, span_str(channel));
	line_send(line, "notify");
}

/* ---- all at once ---- */

static void send_column(struct line *line, const struct row_list *rows, size_t offset)
{
	postgres_args_u64s(&line->args, batch_column(rows, offset));
}

static void send_events(struct line *line, const struct row_list *rows)
{
	struct postgres_args *args = &line->args;
	send_column(line, rows, offsetof(struct event_row, event));
	send_column(line, rows, offsetof(struct event_row, flags));
	postgres_args_spans(args, batch_column(rows, offsetof(struct event_row, source)));
	postgres_args_spans(args, batch_column(rows, offsetof(struct event_row, letter)));
	postgres_args_spans(args, batch_column(rows, offsetof(struct event_row, payload)));
}

static void send_all_tickets(struct line *line, const struct rows *tickets)
{
	static const size_t columns[] = {
		offsetof(struct ticket_row, ticket), offsetof(struct ticket_row, event),
		offsetof(struct ticket_row, sink),   offsetof(struct ticket_row, order),
		offsetof(struct ticket_row, len),
	};
	struct row_list rows = { .at = tickets->at, .count = tickets->count };
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		send_column(line, &rows, columns[i]);
}

void batch_write_all(struct sheet *sheet, struct line *line, const struct batch_options *options)
{
	struct row_list claims = { .at = sheet->claims.at, .count = sheet->claims.count };
	struct postgres_args *args = &line->args;
	line_begin_bare(line);
	postgres_args_u64(args, sheet->numbers);
	postgres_args_u64(args, options->clock);
	postgres_args_u64(args, line->node);
	postgres_args_u64(args, line->number);
	postgres_args_u64(args, (uint64_t)line->mark);
	postgres_args_keys(args, batch_column(&claims, offsetof(struct claim_row, key)));
	send_column(line, &claims, offsetof(struct claim_row, offset));
	send_column(line, &claims, offsetof(struct claim_row, window_ms));
	send_column(line, &claims, offsetof(struct claim_row, order));
	send_column(line, &claims, offsetof(struct claim_row, check));
	postgres_args_u64(args, claims.count);
	if (sheet->events.count > 0) {
		send_events(line, &sheet->events);
		send_all_tickets(line, &sheet->tickets);
	}
	line_send(line, sheet->events.count > 0 ? "all_events" : "all_claims");
	if (options->notify && sheet->any_due)
		send_notify(line, options->channel);
	line_sync(line);
}

/* ---- claims ---- */

static void send_claims(struct line *line, const struct row_list *changed)
{
	struct postgres_args *args = &line->args;
	postgres_args_keys(args, batch_column(changed, offsetof(struct claim_row, key)));
	postgres_args_u64s(args, batch_column(changed, offsetof(struct claim_row, now.ticket)));
	postgres_args_u64s(args, batch_column(changed, offsetof(struct claim_row, now.expiry)));
	postgres_args_u64s(args, batch_column(changed, offsetof(struct claim_row, now.order)));
	postgres_args_u64s(args, batch_column(changed, offsetof(struct claim_row, now.check)));
	line_send(line, "claims_update");
}

static void send_keys(struct line *line, const char *name, const struct row_list *rows)
{
	postgres_args_keys(&line->args, batch_column(rows, 0));
	line_send(line, name);
}

static void write_claims(struct sheet *sheet, struct line *line)
{
	struct row_list changed = { 0 }, gone = { 0 };
	for (uint32_t i = 0; i < sheet->claims.count; i++) {
		struct claim_row *row = sheet->claims.at[i];
		bool same = memcmp(&row->now, &row->stored, sizeof(row->now)) == 0;
		list(sheet, &changed, row, row->live && !same);
		list(sheet, &gone, row, row->inserted && !row->live);
	}
	if (changed.count > 0)
		send_claims(line, &changed);
	if (gone.count > 0)
		send_keys(line, "claims_delete", &gone);
	row_list_free(&changed);
	row_list_free(&gone);
}

static void write_seen(struct sheet *sheet, struct line *line)
{
	struct row_list more = { 0 };
	for (uint32_t i = 0; i < sheet->seen.count; i++) {
		struct seen_row *row = sheet->seen.at[i];
		list(sheet, &more, row, row->more > 0);
	}
	if (more.count > 0) {
		struct postgres_args *args = &line->args;
		postgres_args_u64s(args, batch_column(&more, offsetof(struct seen_row, event)));
		postgres_args_u64s(args, batch_column(&more, offsetof(struct seen_row, more)));
		postgres_args_u64s(args, batch_column(&more, offsetof(struct seen_row, expiry)));
		line_send(line, "seen_add");
	}
	row_list_free(&more);
}

/* ---- cells ---- */

/* Times beyond what the server can count are never reached. */
static void cap_expiry(struct cell_row *row)
{
	if (row->expiry > INT64_MAX)
		row->expiry = INT64_MAX;
}

static void write_cells(struct sheet *sheet, struct line *line)
{
	struct row_list put = { 0 }, moved = { 0 }, gone = { 0 };
	for (uint32_t i = 0; i < sheet->cells.count; i++) {
		struct cell_row *row = sheet->cells.at[i];
		cap_expiry(row);
		list(sheet, &put, row, row->live && row->rewritten);
		list(sheet, &moved, row, row->live && row->moved && !row->rewritten);
		list(sheet, &gone, row, !row->live && row->found && row->locked);
	}
	struct postgres_args *args = &line->args;
	if (put.count > 0) {
		postgres_args_keys(args, batch_column(&put, offsetof(struct cell_row, key)));
		postgres_args_u64s(args, batch_column(&put, offsetof(struct cell_row, expiry)));
		postgres_args_spans(args, batch_column(&put, offsetof(struct cell_row, name)));
		postgres_args_spans(args, batch_column(&put, offsetof(struct cell_row, value)));
		line_send(line, "cells_put");
	}
	if (moved.count > 0) {
		postgres_args_keys(args, batch_column(&moved, offsetof(struct cell_row, key)));
		postgres_args_u64s(args, batch_column(&moved, offsetof(struct cell_row, expiry)));
		line_send(line, "cells_expire");
	}
	if (gone.count > 0)
		send_keys(line, "cells_delete", &gone);
	row_list_free(&put);
	row_list_free(&moved);
	row_list_free(&gone);
}

/* ---- tickets ---- */

static void send_new_tickets(struct line *line, const struct row_list *rows)
{
	static const size_t columns[] = {
		offsetof(struct ticket_row, ticket),  offsetof(struct ticket_row, event),
		offsetof(struct ticket_row, sink),    offsetof(struct ticket_row, order),
		offsetof(struct ticket_row, lease),   offsetof(struct ticket_row, len),
		offsetof(struct ticket_row, attempt), offsetof(struct ticket_row, used),
		offsetof(struct ticket_row, state),   offsetof(struct ticket_row, last),
	};
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		send_column(line, rows, columns[i]);
	line_send(line, "tickets_insert");
}

static void send_changed_tickets(struct line *line, const struct row_list *rows)
{
	static const size_t columns[] = {
		offsetof(struct ticket_row, ticket),  offsetof(struct ticket_row, due),
		offsetof(struct ticket_row, lease),   offsetof(struct ticket_row, node),
		offsetof(struct ticket_row, attempt), offsetof(struct ticket_row, used),
		offsetof(struct ticket_row, status),  offsetof(struct ticket_row, state),
		offsetof(struct ticket_row, last),
	};
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		send_column(line, rows, columns[i]);
	line_send(line, "tickets_update");
}

static void send_notes(struct line *line, const struct row_list *rows)
{
	static const size_t columns[] = {
		offsetof(struct note_row, ticket), offsetof(struct note_row, at),
		offsetof(struct note_row, due),    offsetof(struct note_row, attempt),
		offsetof(struct note_row, mark),   offsetof(struct note_row, status),
	};
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		send_column(line, rows, columns[i]);
	postgres_args_spans(&line->args, batch_column(rows, offsetof(struct note_row, text)));
	line_send(line, "notes_insert");
}

static void send_closed(struct sheet *sheet, struct line *line, const struct row_list *closed,
                        bool retain)
{
	size_t ticket = offsetof(struct ticket_row, ticket);
	send_column(line, closed, ticket);
	if (retain) {
		postgres_args_u64(&line->args, sheet->now_ms);
		line_send(line, "tickets_keep");
		return;
	}
	line_send(line, "tickets_delete");
	send_column(line, closed, offsetof(struct ticket_row, event));
	line_send(line, "events_delete");
	struct row_list noted = { 0 };
	for (uint32_t i = 0; i < closed->count; i++)
		list(sheet, &noted, closed->at[i], ((struct ticket_row *)closed->at[i])->last != 0);
	if (noted.count > 0) {
		send_column(line, &noted, ticket);
		line_send(line, "notes_delete");
	}
	row_list_free(&noted);
}

static void write_tickets(struct sheet *sheet, struct line *line, bool retain)
{
	struct row_list fresh = { 0 }, changed = { 0 }, closed = { 0 };
	for (uint32_t i = 0; i < sheet->tickets.count; i++) {
		struct ticket_row *row = sheet->tickets.at[i];
		if (row->due > INT64_MAX)
			row->due = INT64_MAX;
		list(sheet, &fresh, row, row->fresh);
		list(sheet, &changed, row, !row->fresh && row->changed && !row->closed);
		list(sheet, &closed, row, row->closed);
	}
	if (sheet->events.count > 0) {
		send_events(line, &sheet->events);
		line_send(line, "events_insert");
	}
	if (fresh.count > 0)
		send_new_tickets(line, &fresh);
	if (changed.count > 0)
		send_changed_tickets(line, &changed);
	if (sheet->notes.count > 0)
		send_notes(line, &sheet->notes);
	if (closed.count > 0)
		send_closed(sheet, line, &closed, retain);
	row_list_free(&fresh);
	row_list_free(&changed);
	row_list_free(&closed);
}

static void write_drops(struct sheet *sheet, struct line *line)
{
	if (sheet->drops.count == 0)
		return;
	send_column(line, &sheet->drops, offsetof(struct drop_row, event));
	postgres_args_u64(&line->args, sheet->now_ms);
	line_send(line, "drops_insert");
}

void batch_write(struct sheet *sheet, struct line *line, const struct batch_options *options)
{
	write_claims(sheet, line);
	write_seen(sheet, line);
	write_cells(sheet, line);
	write_tickets(sheet, line, options->retain);
	write_drops(sheet, line);
	if (sheet->dense && sheet->numbers > 0) {
		postgres_args_u64(&line->args, sheet->first + sheet->numbers - 1);
		postgres_args_u64(&line->args, sheet->next - 1);
		line_send(line, "give_back");
	}
	if (options->notify && sheet->any_due)
		send_notify(line, options->channel);
	/* A row that is missing would be lost: the transaction must not end well. */
	if (sheet->failed)
		line_close(line);
	line_commit(line);
}
