/*
 * taker: the thread that leases tickets to lanes, answers waits, and reads.
 *
 * Takes wait until there is a ticket for their sink. The thread looks when the decider or
 * another node (NOTIFY) says that tickets are due, and every second. A take is a
 * transaction: the number of an attempt must be durable before anybody acts on it, or two
 * could have the same. If its end was not received, the tickets are found by their stamp
 * and are due again: their taker did not get them.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "store/postgres/postgres_internal.h"
#include "store/postgres/statements.h"

#define LOOK_EVERY_MS 1000u
#define WAITS_EVERY_MS 100u /* another node may have settled the ticket */
#define TRY_EVERY_MS 500u

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

const struct statement taker_statements[] = {
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
	{ 0 },
};

static struct store_take *take_of(struct store_op *op)
{
	return container_of(op, struct store_take, op);
}

static struct store_wait *wait_of(struct store_op *op)
{
	return container_of(op, struct store_wait, op);
}

/* ---- the connection ---- */

/* Takes back what a transaction took whose end was not received. */
static int undo_take(struct postgres_store *own)
{
	struct connection *conn = &own->taker;
	struct postgres_answer answer = { 0 };
	bool committed = false;
	int error = connection_was_committed(conn, &committed);
	bool gone = error == -ENOENT;

	if (gone) /* the tickets have the stamp, committed or not */
		log_warn(
			"row of this node in stile_lines is missing: unconfirmed leases given back");
	if (gone || (!error && committed)) {
		postgres_args_u64(&conn->args, own->node);
		postgres_args_u64(&conn->args, conn->transaction);
		error = connection_query(conn, "untake", &answer);
		postgres_answer_free(&answer);
	}
	conn->in_doubt = error != 0;
	if (gone && !error) {
		connection_close(conn); /* opening it inserts the row */
		error = connection_open(conn);
	}
	return error;
}

/* The decider would not notice while there is nothing to decide. */
static void note_unusable(struct postgres_store *own, int error)
{
	bool unusable = error == ERR_CONFIG || error == ERR_VERSION;

	if (unusable == own->unusable)
		return;
	own->unusable = unusable;
	if (!unusable) {
		own->away--;
		return;
	}
	own->away++;
	log_error("the shared store in PostgreSQL is unusable: deliveries wait",
	          log_str("reason", own->taker.text.text));
}

static int connect_taker(struct postgres_store *own, uint64_t now_ms)
{
	struct connection *conn = &own->taker;
	int error = 0;

	if (connection_is_open(conn) && !postgres_link_is_alive(&conn->link))
		connection_close(conn);
	if (!connection_is_open(conn)) {
		if (now_ms < own->open_at_ms)
			return -ECONNREFUSED;
		error = connection_open(conn);
		note_unusable(own, error);
		own->look_now = true; /* notifications were missed meanwhile */
	}
	if (!error && conn->in_doubt)
		error = undo_take(own);
	if (error)
		own->open_at_ms = now_ms + TRY_EVERY_MS;
	return error;
}

/* ---- takes ---- */

static int fill_take(struct store_take *take, const struct postgres_answer *rows)
{
	buf_clear(&take->items);
	take->count = 0;
	for (uint32_t i = 0; i < postgres_rows(rows); i++) {
		struct store_parts parts = { 0 };
		struct store_item item = { .ticket = postgres_u64(rows, i, 0),
			                   .event = postgres_u64(rows, i, 1),
			                   .sink = (uint32_t)postgres_u64(rows, i, 2),
			                   .order = postgres_u64(rows, i, 3),
			                   .due_ms = postgres_u64(rows, i, 4),
			                   .attempt = (uint32_t)postgres_u64(rows, i, 5),
			                   .status = (uint16_t)postgres_u64(rows, i, 6),
			                   .last = (uint8_t)postgres_u64(rows, i, 7),
			                   .state = STORE_STATE_LEASED,
			                   .bare = take->without_payload };
		if (!take->without_payload) {
			item.flags = (uint32_t)postgres_u64(rows, i, 8);
			parts = (struct store_parts){ .source = postgres_span(rows, i, 9),
				                      .metadata = postgres_span(rows, i, 10),
				                      .payload = postgres_span(rows, i, 11) };
		}
		int error = store_item_append(&take->items, &item, &parts);
		if (error)
			return error;
		take->count++;
	}
	return 0;
}

static void send_take(struct postgres_store *own, const struct store_take *take)
{
	struct connection *conn = &own->taker;

	CHECK(!conn->in_doubt); /* its stamp would be lost */
	connection_begin(conn);
	postgres_args_u64(&conn->args, take->sink);
	postgres_args_u64(&conn->args, take->max_items);
	postgres_args_u64(&conn->args, take->max_bytes);
	postgres_args_u64(&conn->args, sizeof(struct store_item));
	postgres_args_u64(&conn->args, take->lease_ms);
	postgres_args_u64(&conn->args, own->node);
	postgres_args_u64(&conn->args, conn->transaction);
	postgres_args_u64(&conn->args, postgres_clock(own));
	postgres_args_u64(&conn->args, take->without_payload ? 0 : 1);
	connection_send(conn, take->without_payload ? "take_bare" : "take_whole");
	postgres_args_u64(&conn->args, postgres_clock(own));
	connection_send(conn, "now");
	connection_commit(conn);
	connection_sync(conn);
}

/* One transaction for one take. Its items count when it has committed. */
static int run_take(struct postgres_store *own, struct store_take *take)
{
	struct connection *conn = &own->taker;
	struct postgres_answer items = { 0 }, now = { 0 };

	send_take(own, take);
	int error = connection_take_nothing(conn);              /* BEGIN */
	connection_join(&error, connection_take_nothing(conn)); /* its number */
	connection_join(&error, connection_take(conn, &items));
	connection_join(&error, connection_take(conn, &now));
	connection_join(&error, connection_take_commit(conn));
	connection_join_sync(&error, conn);
	int filled = error ? 0 : fill_take(take, &items);
	if (!error) {
		take->now_ms = postgres_u64(&now, 0, 0);
		postgres_note_time(own, take->now_ms);
	}
	postgres_answer_free(&items);
	postgres_answer_free(&now);
	if (error == -EPROTO)
		return connection_rollback(conn) ? -ECONNRESET : -EPROTO;
	if (error || filled) {
		conn->in_doubt = true;
		connection_close(conn);
	} else {
		connection_committed(conn);
	}
	return error ? error : filled;
}

/* Which of the sinks that takes wait for have due tickets. */
static int find_due(struct postgres_store *own, struct postgres_answer *answer)
{
	struct row_list sinks = { 0 };
	uint64_t wide[256];
	uint32_t count = 0;
	int error = 0;

	for (struct store_op *op = own->takes.first; op && count < ARRAY_LEN(wide) && !error;
	     op = op->next) {
		wide[count] = take_of(op)->sink;
		error = row_list_add(&sinks, &wide[count++]);
	}
	if (!error) {
		postgres_args_u64s(&own->taker.args,
		                   (struct postgres_column){ sinks.at, sinks.count, 0 });
		error = connection_query(&own->taker, "sinks_due", answer);
	}
	row_list_free(&sinks);
	return error;
}

static bool is_among(const struct postgres_answer *sinks, uint32_t sink)
{
	for (uint32_t i = 0; i < postgres_rows(sinks); i++)
		if (postgres_u64(sinks, i, 0) == sink)
			return true;
	return false;
}

/* The longest waiting take first. */
static int serve_takes(struct postgres_store *own)
{
	struct postgres_answer due = { 0 };
	struct op_queue waiting, finished;
	struct store_op *op;
	int error = own->takes.first ? find_due(own, &due) : 0;

	op_queue_init(&waiting);
	op_queue_init(&finished);
	if (!error && postgres_rows(&due) > 0)
		op_queue_move(&waiting, &own->takes);
	while ((op = op_queue_take(&waiting))) {
		struct store_take *take = take_of(op);
		take->count = 0;
		if (!error && is_among(&due, take->sink))
			error = run_take(own, take);
		op->error = 0;
		op_queue_put(!error && take->count > 0 ? &finished : &own->takes, op);
	}
	postgres_answer_free(&due);
	postgres_finish(own, &finished);
	return error;
}

/* ---- waits ---- */

/* False: the event still has a leg to deliver. */
static bool fill_outcome(const struct postgres_store *own, struct store_wait *wait, uint64_t states,
                         bool dropped)
{
	bool pending = states &
	               (1u << STORE_STATE_DUE | 1u << STORE_STATE_LEASED | 1u << STORE_STATE_HELD);
	bool parked = states & 1u << STORE_STATE_PARKED;
	bool dead = states & 1u << STORE_STATE_DEAD;

	wait->was_open |= pending || parked || dead;
	if (pending)
		return false;
	if (parked)
		wait->outcome = OUTCOME_UNKNOWN;
	else if (dead || dropped)
		wait->outcome = OUTCOME_DEAD;
	else
		wait->outcome = wait->was_open || wait->ticket > own->floor_ticket ? OUTCOME_DONE
		                                                                   : OUTCOME_NONE;
	return true;
}

static int ask_outcomes(struct postgres_store *own, struct postgres_answer *answer)
{
	struct row_list events = { 0 };
	int error = 0;

	for (struct store_op *op = own->waits.first; op && !error; op = op->next)
		error = row_list_add(&events, &wait_of(op)->ticket);
	if (!error) {
		postgres_args_u64s(&own->taker.args,
		                   (struct postgres_column){ events.at, events.count, 0 });
		postgres_args_u64(&own->taker.args, own->floor_drop);
		error = connection_query(&own->taker, "outcomes", answer);
	}
	row_list_free(&events);
	return error;
}

/* Answers are in the order of the waits. */
static int serve_waits(struct postgres_store *own)
{
	struct postgres_answer answer = { 0 };
	struct op_queue waiting, finished;
	struct store_op *op;
	int error = own->waits.first ? ask_outcomes(own, &answer) : 0;

	op_queue_init(&waiting);
	op_queue_init(&finished);
	if (!error)
		op_queue_move(&waiting, &own->waits);
	for (uint32_t row = 0; (op = op_queue_take(&waiting)); row++) {
		bool over = row < postgres_rows(&answer) &&
		            fill_outcome(own, wait_of(op), postgres_u64(&answer, row, 1),
		                         postgres_u64(&answer, row, 2) != 0);
		op_queue_put(over ? &finished : &own->waits, op);
	}
	postgres_answer_free(&answer);
	own->waiting = own->waits.count;
	postgres_finish(own, &finished);
	return error;
}

/* With an error all waits, else those whose time is over. */
static void end_waits(struct postgres_store *own, uint64_t boot_ms, int error)
{
	struct op_queue waiting, finished;
	struct store_op *op;

	op_queue_init(&waiting);
	op_queue_init(&finished);
	op_queue_move(&waiting, &own->waits);
	while ((op = op_queue_take(&waiting))) {
		bool over = error || store_wait_is_over(wait_of(op), boot_ms);
		op->error = error;
		op_queue_put(over ? &finished : &own->waits, op);
	}
	own->waiting = own->waits.count;
	postgres_finish(own, &finished);
}

static void finish_one(struct postgres_store *own, struct store_op *op, int error)
{
	struct op_queue list;

	op_queue_init(&list);
	op->error = error;
	op_queue_put(&list, op);
	postgres_finish(own, &list);
}

/* ---- a round ---- */

static void run_reader(struct postgres_store *own, struct store_op *op, uint64_t now_ms)
{
	int error = connect_taker(own, now_ms);

	if (!error)
		error = reader_run(own, op);
	if (error && !connection_is_open(&own->taker)) {
		error = connect_taker(own, now_ms);
		if (!error)
			error = reader_run(own, op);
	}
	finish_one(own, op, error ? ERR_AWAY : op->error);
}

static void accept_ops(struct postgres_store *own, struct op_queue *asked, uint64_t now_ms)
{
	struct store_op *op;

	while ((op = op_queue_take(asked))) {
		if (op->kind == STORE_TAKE) {
			op_queue_put(&own->takes, op);
			own->look_now = true;
		} else if (op->kind != STORE_WAIT) {
			run_reader(own, op, now_ms);
		} else if (own->waits.count == STORE_WAITS_MAX) {
			finish_one(own, op, ERR_FULL);
		} else {
			wait_of(op)->was_open = false;
			wait_of(op)->outcome = OUTCOME_NONE;
			op->error = 0;
			op_queue_put(&own->waits, op);
			own->look_now = true;
		}
	}
}

struct round {
	struct op_queue asked;
	bool tick, ending, leave;
};

static void begin_round(struct postgres_store *own, struct round *round)
{
	uint64_t ignored;
	ssize_t n = read(own->wake_fd, &ignored, sizeof(ignored));

	(void)n;
	op_queue_init(&round->asked);
	pthread_mutex_lock(&own->mutex);
	op_queue_move(&round->asked, &own->asked);
	own->look_now |= own->look_wanted;
	round->tick = own->tick_wanted;
	round->ending = own->ending;
	round->leave = own->decided_all;
	own->taking = round->asked.first || own->look_wanted || own->tick_wanted;
	own->look_wanted = own->tick_wanted = false;
	pthread_mutex_unlock(&own->mutex);
}

static void end_round(struct postgres_store *own)
{
	pthread_mutex_lock(&own->mutex);
	own->taking = false;
	pthread_cond_broadcast(&own->settled);
	pthread_mutex_unlock(&own->mutex);
}

static void run_round(struct postgres_store *own, struct round *round)
{
	uint64_t now_ms = postgres_boot_ms();
	struct connection *conn = &own->taker;

	accept_ops(own, &round->asked, now_ms);
	if (round->ending)
		end_waits(own, 0, ERR_CLOSING);
	bool look = own->look_now || now_ms >= own->look_at_ms || round->tick;
	int error = connect_taker(own, now_ms);
	if (!error && own->test && !round->tick)
		error = housekeeping_end_leases(own);
	else if (!error && look)
		error = housekeeping_run(own, now_ms, round->tick);
	if (!error && look) {
		own->look_now = false;
		own->look_at_ms = now_ms + (own->waits.first ? WAITS_EVERY_MS : LOOK_EVERY_MS);
		error = serve_waits(own);
	}
	if (!own->test || round->tick)
		end_waits(own, clock_read(&own->clock).boot_ms, 0);
	if (!error && look)
		error = serve_takes(own);
	if (!error && own->test)
		error = housekeeping_count(own);
	if (error && connection_is_open(conn) && connection_lost_tables(conn))
		connection_close(conn);
	else if (error && connection_is_open(conn) && conn->state[0])
		log_warn("PostgreSQL rejected a lease", log_str("state", conn->state),
		         log_str("reason", conn->text.text));
}

static void wait_for_work(struct postgres_store *own)
{
	struct pollfd polls[2] = {
		{ .fd = own->wake_fd, .events = POLLIN },
		{ .fd = postgres_link_fd(&own->taker.link), .events = POLLIN },
	};
	uint64_t every = own->waits.first ? WAITS_EVERY_MS : LOOK_EVERY_MS;
	bool notified = false;

	if (!connection_is_open(&own->taker) && every > TRY_EVERY_MS)
		every = TRY_EVERY_MS;
	if (poll(polls, 2, (int)every) <= 0 || polls[1].revents == 0 ||
	    !connection_is_open(&own->taker))
		return;
	if (postgres_link_notified(&own->taker.link, &notified) < 0)
		connection_close(&own->taker);
	own->look_now |= notified;
}

void taker_main(void *user)
{
	struct postgres_store *own = user;
	struct round round = { 0 };

	while (!round.leave) {
		begin_round(own, &round);
		run_round(own, &round);
		end_round(own);
		if (!round.leave)
			wait_for_work(own);
	}
	for (struct store_op *op = own->takes.first; op; op = op->next)
		op->error = ERR_CLOSING;
	postgres_finish(own, &own->takes);
	end_waits(own, 0, ERR_CLOSING);
	if (connect_taker(own, UINT64_MAX) < 0 || housekeeping_leave(own) < 0)
		log_warn(
			"PostgreSQL not informed of the stop: leases of this node end by their timeout");
}
