/* taker_statements: what the taker, reader.c and keeper.c ask. See postgres_internal.h. */
#include "store/postgres/postgres_internal.h"
#include "store/postgres/statements.h"

#define TAKE_START                                                                                          \
	"WITH c AS (SELECT ticket, len FROM stile_tickets WHERE sink = $1::bigint"                          \
	" AND state = 1 ORDER BY ticket LIMIT $2::bigint FOR UPDATE SKIP LOCKED),"                          \
	" s AS (SELECT ticket, sum(len * $9::bigint + $4::bigint) OVER (ORDER BY ticket)"                   \
	" AS total, row_number() OVER (ORDER BY ticket) AS n FROM c),"                                      \
	" u AS (UPDATE stile_tickets t SET state = 2, attempt = least(t.attempt + 1, 65535),"               \
	" lease = CASE WHEN $5::bigint > 0 THEN (SELECT " SQL_NOW(                                          \
		"$8") ") + $5::bigint ELSE 0 END,"                                                          \
		      " node = $6::bigint, stamp = $7::bigint FROM s WHERE t.ticket = s.ticket"             \
		      " AND (s.n = 1 OR s.total <= $3::bigint) RETURNING t.ticket, t.event, t.sink, t.ord," \
		      " t.due, t.attempt, t.status, t.last) "

const struct line_statement taker_statements[] = {
	{ "now", "SELECT " SQL_NOW("$1") },
	{ "sinks_due", "SELECT u.sink FROM unnest($1::bigint[]) AS u (sink) WHERE EXISTS (SELECT"
	               " FROM stile_tickets t WHERE t.sink = u.sink AND t.state = 1)" },
	{ "take_whole",
	  TAKE_START "SELECT u.*, e.flags, e.source, e.letter, e.payload"
	             " FROM u JOIN stile_events e ON e.event = u.event ORDER BY u.ticket" },
	{ "take_bare", TAKE_START "SELECT * FROM u ORDER BY u.ticket" },
	{ "untake",
	  "UPDATE stile_tickets SET state = 1 WHERE state = 2 AND lease >= 0 AND node = $1::bigint"
	  " AND stamp = $2::bigint" },
	{ "outcomes",
	  "SELECT u.event, coalesce((SELECT bit_or(1 << t.state) FROM stile_tickets t"
	  " WHERE t.ticket >= u.event AND t.ticket < u.event + 16 AND t.event = u.event), 0)"
	  "::bigint, EXISTS (SELECT FROM stile_drops d WHERE d.event = u.event"
	  " AND d.id > $2::bigint) FROM unnest($1::bigint[]) AS u (event)" },
	/* reader.c */
	{ "read",
	  "SELECT t.ticket, t.event, t.sink, t.ord, t.due, t.lease, t.attempt, t.status, t.state,"
	  " t.last, e.flags, e.source, e.letter, e.payload, " SQL_NOW(
		  "$2") ""
	                " FROM stile_tickets t JOIN stile_events e ON e.event = t.event"
	                " WHERE t.ticket = $1::bigint AND t.state <> 6" },
	{ "history",
	  "SELECT at, due, attempt, mark, status, text FROM stile_notes WHERE ticket = $1::bigint"
	  " ORDER BY id DESC LIMIT 1000" },
#define SCAN_WINDOW                                                                          \
	"WITH w AS (SELECT * FROM stile_tickets WHERE ticket >= $1::bigint"                  \
	" AND ticket <= $2::bigint ORDER BY ticket LIMIT $3::bigint), f AS (SELECT * FROM w" \
	" WHERE ($4::bigint = 0 OR ($4::bigint >> state::integer) & 1 = 1)"                  \
	" AND ($5::bigint = 0 OR sink = $5::bigint) AND ($6::bigint = 1 OR state <> 6)) "
	{ "scan_window", SCAN_WINDOW
	  "SELECT (SELECT count(*) FROM w), (SELECT max(ticket) FROM w), (SELECT count(*) FROM f)" },
	{ "scan", SCAN_WINDOW
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
	/* keeper.c */
	{ "beat",
	  "WITH b AS (INSERT INTO stile_nodes VALUES ($1::bigint, stile_clock()) ON CONFLICT"
	  " (node) DO UPDATE SET beat = excluded.beat) SELECT 1 + count(*),"
	  " (SELECT stile_clock()) FROM stile_nodes"
	  " WHERE node <> $1::bigint AND beat > (SELECT stile_clock()) - $2::bigint" },
	{ "leases_end", "UPDATE stile_tickets SET state = 1 WHERE ticket = ANY(ARRAY(SELECT ticket"
	                " FROM stile_tickets WHERE state = 2 AND lease > 0 AND lease <= (SELECT"
	                " " SQL_NOW("$1") ") LIMIT 1000 FOR UPDATE SKIP LOCKED))" },
	{ "nodes_end",
	  "UPDATE stile_tickets SET state = 1 WHERE ticket = ANY(ARRAY(SELECT ticket"
	  " FROM stile_tickets t WHERE state = 2 AND lease = 0 AND NOT EXISTS (SELECT"
	  " FROM stile_nodes n WHERE n.node = t.node AND n.beat > (SELECT stile_clock())"
	  " - $1::bigint) LIMIT 1000 FOR UPDATE SKIP LOCKED))" },
	{ "nodes_forget",
	  "WITH n AS (DELETE FROM stile_nodes WHERE beat < (SELECT stile_clock()) - 86400000"
	  " RETURNING node) DELETE FROM stile_lines l USING n WHERE l.node = n.node" },
	{ "dead_drop",
	  "WITH d AS (DELETE FROM stile_tickets WHERE ticket = ANY(ARRAY(SELECT ticket"
	  " FROM stile_tickets WHERE state = 5 AND due <= (SELECT " SQL_NOW(
		  "$1") ")"
	                " - $2::bigint ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED))"
	                " RETURNING ticket, event), n AS (DELETE FROM stile_notes s USING d WHERE s.ticket ="
	                " d.ticket) INSERT INTO stile_drops (event, at) SELECT event, (SELECT " SQL_NOW(
				"$1") ")"
	                              " FROM d" },
	{ "closed_drop",
	  "WITH d AS (DELETE FROM stile_tickets WHERE ticket = ANY(ARRAY(SELECT ticket"
	  " FROM stile_tickets WHERE state = 6 AND due <= (SELECT " SQL_NOW(
		  "$1") ")"
	                " - $2::bigint ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING ticket)"
	                " DELETE FROM stile_notes s USING d WHERE s.ticket = d.ticket" },
	{ "drops_forget",
	  "DELETE FROM stile_drops WHERE id = ANY(ARRAY(SELECT id FROM stile_drops WHERE id <"
	  " (SELECT max(id) FROM stile_drops) - 100000 ORDER BY id LIMIT 1000))" },
#define SWEEP(table, condition)                                                             \
	"DELETE FROM " table " WHERE ctid = ANY(ARRAY(SELECT t.ctid FROM " table " t WHERE" \
	" t.ctid >= format('(%s,0)', $1::bigint)::tid"                                      \
	" AND t.ctid < format('(%s,0)', $2::bigint)::tid AND " condition                    \
	" FOR UPDATE SKIP LOCKED))"
#define SWEEP_OVER "t.expiry <= (SELECT " SQL_NOW("$3") ")"
	{ "claims_sweep", SWEEP("stile_claims", SWEEP_OVER) },
	{ "seen_sweep", SWEEP("stile_seen", SWEEP_OVER) },
	{ "cells_sweep", SWEEP("stile_cells", "t.expiry > 1 AND " SWEEP_OVER) },
	/* Those whose last tickets were closed by two at once, or for age; not of a
	 * transaction that has not ended. */
	{ "events_sweep",
	  SWEEP("stile_events",
	        "(t.event >> 14) + 1704067200000 < (SELECT " SQL_NOW(
			"$3") ") - 600000"
	                      " AND NOT EXISTS (SELECT FROM stile_tickets k WHERE k.ticket >= t.event"
	                      " AND k.ticket < t.event + 16 AND k.event = t.event)") },
	{ "pages",
	  "SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint"
	  " FROM unnest(ARRAY['stile_claims', 'stile_seen', 'stile_cells', 'stile_events'])"
	  " WITH ORDINALITY AS u (name, n) JOIN pg_class c ON c.oid = u.name::regclass"
	  " ORDER BY u.n" },
	{ "count_tickets",
	  "SELECT state::bigint, count(*), count(*) FILTER (WHERE sink = 1) FROM stile_tickets"
	  " WHERE state <> 6 GROUP BY state" },
	{ "count_rows",
	  "SELECT CASE WHEN pg_relation_size('stile_claims') < 1048576 THEN (SELECT count(*)"
	  " FROM stile_claims) ELSE greatest(0, (SELECT reltuples FROM pg_class WHERE oid ="
	  " 'stile_claims'::regclass))::bigint END, CASE WHEN pg_relation_size('stile_cells')"
	  " < 1048576 THEN (SELECT count(*) FROM stile_cells) ELSE greatest(0, (SELECT reltuples"
	  " FROM pg_class WHERE oid = 'stile_cells'::regclass))::bigint END" },
	{ "give_up", "UPDATE stile_tickets SET state = 1, attempt = used WHERE state = 2"
	             " AND node = $1::bigint AND (lease = 0 OR stamp > 0)" },
	{ "node_delete", "DELETE FROM stile_nodes WHERE node = $1::bigint" },
	{ "lines_delete", "DELETE FROM stile_lines WHERE node = $1::bigint" },
	{ 0 },
};
