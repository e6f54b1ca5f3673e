/*
 * housekeeping: ends leases and deletes what has expired, on the taker's thread. See
 * postgres_internal.h.
 *
 * Claims have no index on their expiry: it would cost every admission. The tables are
 * swept page by page instead, some pages a second, so that a full sweep takes about ten
 * minutes. Expired rows do not count from their moment on, deleted or not.
 */
#include "base/log.h"
#include "store/postgres/postgres_internal.h"
#include "store/postgres/statements.h"

#define BEAT_EVERY_MS 5000u
#define CLOCK_JUMP_MS 30000 /* more than waiting for an answer explains */
#define KEEP_EVERY_MS 1000u
#define COUNT_EVERY_MS 2000u
#define WALK_ROUNDS 600u /* a second each */
#define PAGES_MIN 64u
#define PAGES_MAX 4096u

#define SWEEP(table, condition)                                                             \
	"DELETE FROM " table " WHERE ctid = ANY(ARRAY(SELECT t.ctid FROM " table " t WHERE" \
	" t.ctid >= format('(%s,0)', $1::bigint)::tid"                                      \
	" AND t.ctid < format('(%s,0)', $2::bigint)::tid AND " condition                    \
	" FOR UPDATE SKIP LOCKED))"
#define SWEEP_OVER "t.expiry <= (SELECT " SQL_NOW("$3") ")"

const struct statement housekeeping_statements[] = {
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
	{ "claims_sweep", SWEEP("stile_claims", SWEEP_OVER) },
	{ "seen_sweep", SWEEP("stile_seen", SWEEP_OVER) },
	{ "cells_sweep", SWEEP("stile_cells", "t.expiry > 1 AND " SWEEP_OVER) },
	/* Events whose last tickets were closed by two nodes at once, or for age; not those
	 * of a transaction that still runs. */
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

static const char *const sweeps[] = { "claims_sweep", "seen_sweep", "cells_sweep", "events_sweep" };
_Static_assert(ARRAY_LEN(sweeps) == ARRAY_LEN(((struct postgres_store *)0)->sweeps),
               "a place for each table");

static int run(struct postgres_store *own, const char *name, uint64_t *ret_affected)
{
	struct postgres_answer answer = { 0 };
	int error = connection_query(&own->taker, name, &answer);

	if (!error && ret_affected)
		*ret_affected = postgres_affected(&answer);
	postgres_answer_free(&answer);
	return error;
}

static void arg(struct postgres_store *own, uint64_t value)
{
	postgres_args_u64(&own->taker.args, value);
}

/* Compares the server's clock with the monotonic clock of this machine. */
static void watch_clock(struct postgres_store *own, uint64_t said_ms)
{
	int64_t before_ms = own->clock_offset_ms;
	int64_t offset_ms = (int64_t)(said_ms - clock_read(clock_system()).boot_ms);

	own->clock_offset_ms = offset_ms;
	if (before_ms == 0)
		return;
	if (offset_ms > before_ms + CLOCK_JUMP_MS)
		log_error("PostgreSQL clock jumped forward: windows end earlier",
		          log_u64("by_ms", (uint64_t)(offset_ms - before_ms)));
	else if (offset_ms < before_ms - CLOCK_JUMP_MS)
		log_warn("PostgreSQL clock jumped back: waiting until it catches up",
		         log_u64("by_ms", (uint64_t)(before_ms - offset_ms)));
}

/* Writes that this node lives. Tickets of nodes that do not are due again. */
static int beat(struct postgres_store *own)
{
	struct postgres_answer answer = { 0 };

	arg(own, own->node);
	arg(own, POSTGRES_STORE_NODE_MS);
	int error = connection_query(&own->taker, "beat", &answer);
	if (!error) {
		own->nodes = postgres_u64(&answer, 0, 0);
		watch_clock(own, postgres_u64(&answer, 0, 1));
	}
	postgres_answer_free(&answer);
	if (error)
		return error;
	uint64_t ended = 0;
	arg(own, POSTGRES_STORE_NODE_MS);
	error = run(own, "nodes_end", &ended);
	own->look_now |= ended > 0;
	return error ? error : run(own, "nodes_forget", NULL);
}

int housekeeping_end_leases(struct postgres_store *own)
{
	uint64_t ended = 0;

	arg(own, postgres_clock(own));
	int error = run(own, "leases_end", &ended);
	own->look_now |= ended > 0;
	return error;
}

static int drop_old(struct postgres_store *own)
{
	uint64_t keep_ms = own->options.dead_keep_ms;
	uint64_t dropped = 0;

	arg(own, postgres_clock(own));
	arg(own, keep_ms < INT64_MAX ? keep_ms : INT64_MAX);
	int error = run(own, "dead_drop", &dropped);
	if (error)
		return error;
	arg(own, postgres_clock(own));
	arg(own, own->options.retain_ms);
	error = run(own, "closed_drop", NULL);
	return error ? error : run(own, "drops_forget", NULL);
}

static int sweep(struct postgres_store *own, size_t i, uint64_t pages)
{
	struct sweep *at = &own->sweeps[i];
	uint64_t step = pages / WALK_ROUNDS, swept = 0;

	step = step < PAGES_MIN ? PAGES_MIN : step > PAGES_MAX ? PAGES_MAX : step;
	if (at->page >= pages)
		at->page = 0;
	arg(own, at->page);
	arg(own, at->page + step);
	arg(own, postgres_clock(own));
	int error = run(own, sweeps[i], &swept);
	at->page += step;
	if (i == 0)
		own->expired += swept;
	return error;
}

static int sweep_all(struct postgres_store *own)
{
	struct postgres_answer pages = { 0 };
	int error = connection_query(&own->taker, "pages", &pages);

	for (uint32_t i = 0; i < ARRAY_LEN(sweeps) && !error && i < postgres_rows(&pages); i++)
		error = sweep(own, i, postgres_u64(&pages, i, 0));
	postgres_answer_free(&pages);
	return error;
}

int housekeeping_count(struct postgres_store *own)
{
	struct postgres_answer answer = { 0 };
	uint64_t found[STORE_STATE_CLOSED + 1] = { 0 }, callers = 0;
	int error = connection_query(&own->taker, "count_tickets", &answer);

	for (uint32_t i = 0; !error && i < postgres_rows(&answer); i++) {
		if (postgres_u64(&answer, i, 0) < ARRAY_LEN(found))
			found[postgres_u64(&answer, i, 0)] = postgres_u64(&answer, i, 1);
		callers += postgres_u64(&answer, i, 2);
	}
	for (size_t i = 0; !error && i < ARRAY_LEN(found); i++)
		own->tickets_in[i] = found[i];
	if (!error)
		own->callers = callers;
	if (!error)
		error = connection_query(&own->taker, "count_rows", &answer);
	if (!error) {
		own->claims = postgres_u64(&answer, 0, 0);
		own->cells = postgres_u64(&answer, 0, 1);
	}
	postgres_answer_free(&answer);
	return error;
}

/* True once every `every_ms`. */
static bool is_due(uint64_t *at_ms, uint64_t now_ms, uint64_t every_ms)
{
	if (now_ms < *at_ms)
		return false;
	*at_ms = now_ms + every_ms;
	return true;
}

int housekeeping_run(struct postgres_store *own, uint64_t now_ms, bool all)
{
	int error = 0;

	CHECK(connection_is_open(&own->taker) && !own->taker.in_doubt);
	if (is_due(&own->beat_at_ms, now_ms, BEAT_EVERY_MS))
		error = beat(own);
	if (!error && (is_due(&own->keep_at_ms, now_ms, KEEP_EVERY_MS) || all)) {
		error = housekeeping_end_leases(own);
		if (!error)
			error = drop_old(own);
		if (!error)
			error = sweep_all(own);
	}
	/* The longer a count takes, the rarer it is made. */
	if (!error && (is_due(&own->count_at_ms, now_ms, COUNT_EVERY_MS) || all)) {
		error = housekeeping_count(own);
		own->count_at_ms += 20 * (postgres_boot_ms() - now_ms);
	}
	return error;
}

int housekeeping_leave(struct postgres_store *own)
{
	arg(own, own->node);
	int error = run(own, "give_up", NULL);
	if (error)
		return error;
	arg(own, own->node);
	error = run(own, "node_delete", NULL);
	if (error)
		return error;
	arg(own, own->node);
	return run(own, "lines_delete", NULL);
}
