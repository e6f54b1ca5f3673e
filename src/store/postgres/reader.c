/* reader: operations that only read, on the taker's thread. See postgres_internal.h. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres_internal.h"
#include "store/postgres/statements.h"

#define SCAN_WINDOW 4096u /* tickets that one operation looks at */

#define SCAN_START                                                                           \
	"WITH w AS (SELECT * FROM stile_tickets WHERE ticket >= $1::bigint"                  \
	" AND ticket <= $2::bigint ORDER BY ticket LIMIT $3::bigint), f AS (SELECT * FROM w" \
	" WHERE ($4::bigint = 0 OR ($4::bigint >> state::integer) & 1 = 1)"                  \
	" AND ($5::bigint = 0 OR sink = $5::bigint) AND ($6::bigint = 1 OR state <> 6)) "

const struct statement reader_statements[] = {
	{ "read",
	  "SELECT t.ticket, t.event, t.sink, t.ord, t.due, t.lease, t.attempt, t.status, t.state,"
	  " t.last, e.flags, e.source, e.letter, e.payload, " SQL_NOW(
		  "$2") ""
	                " FROM stile_tickets t JOIN stile_events e ON e.event = t.event"
	                " WHERE t.ticket = $1::bigint AND t.state <> 6" },
	{ "history",
	  "SELECT at, due, attempt, mark, status, text FROM stile_notes WHERE ticket = $1::bigint"
	  " ORDER BY id DESC LIMIT 1000" },
	{ "scan_window", SCAN_START
	  "SELECT (SELECT count(*) FROM w), (SELECT max(ticket) FROM w), (SELECT count(*) FROM f)" },
	{ "scan", SCAN_START
	  ", l AS (SELECT * FROM f ORDER BY ticket LIMIT $7::bigint), s AS (SELECT *,"
	  " sum(len + $9::bigint) OVER (ORDER BY ticket) AS total,"
	  " row_number() OVER (ORDER BY ticket) AS n FROM l)"
	  " SELECT t.ticket, t.event, t.sink, t.ord, t.due, t.lease, t.attempt, t.status, t.state,"
	  " t.last, e.flags, e.source, e.letter,"
	  " CASE WHEN $10::bigint = 1 THEN e.payload END, (SELECT " SQL_NOW(
		  "$11") ")"
	                 " FROM s t JOIN stile_events e ON e.event = t.event"
	                 " WHERE t.n = 1 OR t.total <= $8::bigint ORDER BY t.ticket" },
	{ "held", "SELECT DISTINCT event FROM stile_tickets WHERE state = 3 AND ticket < $1::bigint"
	          " ORDER BY event DESC LIMIT $2::bigint" },
	{ "cell_names",
	  "WITH w AS (SELECT key, name, expiry FROM stile_cells WHERE key >= $1::uuid ORDER BY key"
	  " LIMIT $2::bigint) SELECT key, name, expiry = 0 OR expiry > (SELECT"
	  " " SQL_NOW("$3") ") FROM w ORDER BY key" },
	{ 0 },
};

/* Columns as of "read" and "scan". */
static struct store_item item_at(const struct postgres_answer *rows, uint32_t i)
{
	uint64_t lease = postgres_u64(rows, i, 5);
	struct store_item item = { .ticket = postgres_u64(rows, i, 0),
		                   .event = postgres_u64(rows, i, 1),
		                   .sink = (uint32_t)postgres_u64(rows, i, 2),
		                   .order = postgres_u64(rows, i, 3),
		                   .due_ms = postgres_u64(rows, i, 4),
		                   .attempt = (uint32_t)postgres_u64(rows, i, 6),
		                   .status = (uint16_t)postgres_u64(rows, i, 7),
		                   .state = (uint8_t)postgres_u64(rows, i, 8),
		                   .last = (uint8_t)postgres_u64(rows, i, 9),
		                   .flags = (uint32_t)postgres_u64(rows, i, 10) };

	if (item.state != STORE_STATE_LEASED || lease == 0)
		return item;
	if (lease <= postgres_u64(rows, i, 14))
		item.state = STORE_STATE_DUE; /* the lease has ended */
	else
		item.due_ms = lease;
	return item;
}

static struct store_parts parts_at(const struct postgres_answer *rows, uint32_t i)
{
	return (struct store_parts){ .source = postgres_span(rows, i, 11),
		                     .metadata = postgres_span(rows, i, 12),
		                     .payload = postgres_span(rows, i, 13) };
}

static int append_history(struct store_read *read, const struct postgres_answer *rows)
{
	int error = 0;

	for (uint32_t i = 0; i < postgres_rows(rows) && !error; i++) {
		struct store_history history = {
			.at_ms = postgres_u64(rows, i, 0),
			.due_ms = postgres_u64(rows, i, 1),
			.attempt = (uint32_t)postgres_u64(rows, i, 2),
			.mark = (uint16_t)postgres_u64(rows, i, 3),
			.status = (uint16_t)postgres_u64(rows, i, 4),
		};
		error = store_history_append(&read->items, history, postgres_span(rows, i, 5));
	}
	return error;
}

static int run_read(struct postgres_store *own, struct store_read *read)
{
	struct connection *conn = &own->taker;
	struct postgres_answer answer = { 0 };

	buf_clear(&read->items);
	postgres_args_u64(&conn->args, read->ticket);
	postgres_args_u64(&conn->args, postgres_clock(own));
	int error = connection_query(conn, "read", &answer);
	read->op.error = -ENOENT;
	if (!error && postgres_rows(&answer) == 1) {
		struct store_item item = item_at(&answer, 0);
		struct store_parts parts = parts_at(&answer, 0);
		read->op.error = store_item_append(&read->items, &item, &parts);
	}
	if (!error && read->history && read->op.error == 0) {
		postgres_args_u64(&conn->args, read->ticket);
		error = connection_query(conn, "history", &answer);
		if (!error)
			read->op.error = append_history(read, &answer);
	}
	postgres_answer_free(&answer);
	return error;
}

static void send_window(struct postgres_store *own, const struct store_scan *scan)
{
	struct postgres_args *args = &own->taker.args;
	uint64_t from = scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from;
	uint64_t to = scan->to && scan->to < INT64_MAX ? scan->to : INT64_MAX;

	postgres_args_u64(args, from < INT64_MAX ? from : INT64_MAX);
	postgres_args_u64(args, to);
	postgres_args_u64(args, SCAN_WINDOW);
	postgres_args_u64(args, scan->states);
	postgres_args_u64(args, scan->sink);
	postgres_args_u64(args, scan->all);
}

static int fill_scan(struct store_scan *scan, const struct postgres_answer *rows)
{
	int error = 0;

	buf_clear(&scan->items);
	scan->count = 0;
	for (uint32_t i = 0; i < postgres_rows(rows) && !error; i++) {
		struct store_item item = item_at(rows, i);
		struct store_parts parts = parts_at(rows, i);
		item.bare = !scan->with_payload;
		error = store_item_append(&scan->items, &item, &parts);
		scan->count += error == 0;
	}
	return error;
}

/* Sets the cursor behind the last item, or behind all tickets that were looked at. */
static void move_on(struct store_scan *scan, const struct postgres_answer *window,
                    const struct postgres_answer *rows)
{
	uint64_t seen = postgres_u64(window, 0, 0), last = postgres_u64(window, 0, 1);
	uint32_t count = postgres_rows(rows);

	if (count > 0 && count < postgres_u64(window, 0, 2)) {
		scan->cursor.word[0] = postgres_u64(rows, count - 1, 0) + 1;
		scan->end = false;
		return;
	}
	scan->end = seen < SCAN_WINDOW;
	scan->cursor.word[0] = scan->end ? UINT64_MAX : last + 1;
}

static int run_scan(struct postgres_store *own, struct store_scan *scan)
{
	struct connection *conn = &own->taker;
	struct postgres_answer window = { 0 }, rows = { 0 };

	send_window(own, scan);
	int error = connection_query(conn, "scan_window", &window);
	if (!error) {
		send_window(own, scan);
		postgres_args_u64(&conn->args, scan->max_items);
		postgres_args_u64(&conn->args, scan->max_bytes);
		postgres_args_u64(&conn->args, sizeof(struct store_item));
		postgres_args_u64(&conn->args, scan->with_payload);
		postgres_args_u64(&conn->args, postgres_clock(own));
		error = connection_query(conn, "scan", &rows);
	}
	if (!error) {
		scan->op.error = fill_scan(scan, &rows);
		if (scan->op.error == 0)
			move_on(scan, &window, &rows);
	}
	postgres_answer_free(&window);
	postgres_answer_free(&rows);
	return error;
}

static int run_held(struct postgres_store *own, struct store_held *held)
{
	struct connection *conn = &own->taker;
	struct postgres_answer rows = { 0 };

	postgres_args_u64(&conn->args, held->before ? held->before : INT64_MAX);
	postgres_args_u64(&conn->args, held->max);
	int error = connection_query(conn, "held", &rows);
	held->count = error ? 0 : postgres_rows(&rows);
	for (uint32_t i = 0; i < held->count; i++)
		held->tickets[i] = postgres_u64(&rows, i, 0);
	held->op.error = 0;
	postgres_answer_free(&rows);
	return error;
}

/* The last 32 bits of a cell's key are 0; a 1 there means: after this key. */
static void set_cursor(struct store_cell_scan *scan, struct span key)
{
	memcpy(scan->cursor.word, key.ptr, sizeof(scan->cursor.word));
	((unsigned char *)scan->cursor.word)[ROW_KEY_LEN - 1] |= 1;
}

static int run_cell_scan(struct postgres_store *own, struct store_cell_scan *scan)
{
	struct connection *conn = &own->taker;
	struct postgres_answer rows = { 0 };
	uint64_t max = scan->max_names ? scan->max_names : 1;

	postgres_args_key(&conn->args, (const unsigned char *)scan->cursor.word);
	postgres_args_u64(&conn->args, max);
	postgres_args_u64(&conn->args, postgres_clock(own));
	int error = connection_query(conn, "cell_names", &rows);
	buf_clear(&scan->names);
	scan->count = 0;
	scan->op.error = 0;
	uint32_t count = error ? 0 : postgres_rows(&rows);
	for (uint32_t i = 0; i < count && scan->op.error == 0; i++) {
		if (postgres_u64(&rows, i, 2) == 0)
			continue;
		scan->op.error = store_name_append(&scan->names, postgres_span(&rows, i, 1));
		scan->count++;
	}
	scan->end = count < max;
	if (count > 0)
		set_cursor(scan, postgres_span(&rows, count - 1, 0));
	postgres_answer_free(&rows);
	return error;
}

int reader_run(struct postgres_store *own, struct store_op *op)
{
	CHECK(connection_is_open(&own->taker) && !own->taker.in_doubt);
	switch (op->kind) {
	case STORE_READ: return run_read(own, container_of(op, struct store_read, op));
	case STORE_SCAN: return run_scan(own, container_of(op, struct store_scan, op));
	case STORE_HELD: return run_held(own, container_of(op, struct store_held, op));
	case STORE_CELL_SCAN:
		return run_cell_scan(own, container_of(op, struct store_cell_scan, op));
	case STORE_ADMIT:
	case STORE_SETTLE:
	case STORE_LOOKUP:
	case STORE_RELEASE:
	case STORE_NOTE:
	case STORE_RENEW:
	case STORE_CELL:
	case STORE_TAKE:
	case STORE_WAIT: break;
	}
	op->error = ERR_INVALID;
	return 0;
}
