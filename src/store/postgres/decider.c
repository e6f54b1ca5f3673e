/*
 * decider: the thread that decides. It takes the operations that wait, decides them in one
 * transaction, and hands them back when that is committed.
 *
 * After several transactions in which everything was new, the next is sent as if it were
 * too: one statement, which fails if that is wrong. Then the transaction is made as usual.
 *
 * A transaction that met another's locks, or lost its connection, is repeated for away_ms.
 * If the connection was lost during COMMIT, its result is looked up first.
 */
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/postgres/postgres_internal.h"

#define BATCH_BYTES (8u << 20)
#define PAUSE_MS 20u
#define TRY_EVERY_MS 500u
#define NEW_RUN 4u /* transactions with new events only, before the next is sent as new */

/* Else it is the taker's. */
static bool is_for_decider(const struct store_op *op)
{
	switch (op->kind) {
	case STORE_ADMIT:
	case STORE_SETTLE:
	case STORE_LOOKUP:
	case STORE_RELEASE:
	case STORE_NOTE:
	case STORE_RENEW:
	case STORE_CELL: return true;
	case STORE_TAKE: return container_of(op, const struct store_take, op)->ticket != 0;
	case STORE_READ:
	case STORE_SCAN:
	case STORE_WAIT:
	case STORE_HELD:
	case STORE_CELL_SCAN: break;
	}
	return false;
}

static size_t bytes_of(const struct store_op *op)
{
	if (op->kind == STORE_ADMIT) {
		const struct store_admit *admit = container_of(op, const struct store_admit, op);
		return admit->payload.len + admit->metadata.len;
	}
	if (op->kind == STORE_CELL)
		return container_of(op, const struct store_cell, op)->cell.value.len;
	if (op->kind == STORE_SETTLE) {
		const struct store_settle *settle = container_of(op, const struct store_settle, op);
		return settle->answer ? settle->answer->value.len : 0;
	}
	return 0;
}

struct work {
	struct op_queue ops;    /* to decide */
	struct op_queue others; /* for the taker, when those are decided */
};

/* Under the mutex. */
static void take_work(struct postgres_store *own, struct work *work)
{
	size_t bytes = 0;

	op_queue_init(&work->ops);
	op_queue_init(&work->others);
	while (own->inbox.first) {
		bytes += bytes_of(own->inbox.first);
		if (work->ops.count == own->options.batch_ops ||
		    (bytes > BATCH_BYTES && work->ops.count > 0))
			break;
		struct store_op *op = op_queue_take(&own->inbox);
		op_queue_put(is_for_decider(op) ? &work->ops : &work->others, op);
	}
}

/* ---- the connection ---- */

/* Logged when the outage begins, and when the server is back but cannot be used. */
static void note_away(struct postgres_store *own, uint64_t now_ms, int error)
{
	bool unusable = error == ERR_CONFIG || error == ERR_VERSION;
	bool logged = own->away_since_ms != 0 && (!unusable || error == own->away_error);

	own->try_again_ms = now_ms + TRY_EVERY_MS;
	own->io_errors++;
	if (own->away_since_ms == 0) {
		own->away_since_ms = now_ms;
		own->away++;
	}
	own->away_error = error;
	if (logged)
		return;
	if (unusable)
		log_error("PostgreSQL cannot be used as the store",
		          log_str("reason", own->decider.text.text));
	else
		log_warn("PostgreSQL is unreachable", log_str("reason", own->decider.text.text));
}

/* During an outage it tries twice a second, whatever waits. */
static int connect_decider(struct postgres_store *own)
{
	if (connection_is_open(&own->decider))
		return 0;
	if (own->away_since_ms != 0 && postgres_boot_ms() < own->try_again_ms)
		return -ECONNREFUSED;
	int error = connection_open(&own->decider);
	uint64_t now_ms = postgres_boot_ms();
	if (error) {
		note_away(own, now_ms, error);
	} else if (own->away_since_ms != 0) {
		log_info("PostgreSQL is reachable again",
		         log_u64("after_ms", now_ms - own->away_since_ms));
		own->away_since_ms = 0;
		own->away--;
	}
	return error;
}

/* ---- a transaction ---- */

/* One try: TRANSACTION_…, or an error. */
static int try_transaction(struct postgres_store *own, const struct work *work, bool lock_all)
{
	struct transaction_options options = { .clock = postgres_clock(own),
		                               .retain = own->options.retain_ms > 0,
		                               .notify = own->nodes > 1,
		                               .channel = own->channel };
	bool expect_new = own->new_run >= NEW_RUN || (own->options.eager && !own->was_old);
	struct working_set *set = &own->set;
	int error = 0;

	working_set_clear(set);
	set->lock_all = lock_all;
	set->dense = own->options.dense;
	set->node = own->node;
	for (struct store_op *op = work->ops.first; op && !error; op = op->next)
		error = working_set_enter(set, op);
	if (error)
		return error;
	own->was_old = false;
	if (expect_new && working_set_may_be_new(set)) {
		error = transaction_run_new(set, &own->decider, &options);
		own->was_old = error == TRANSACTION_NOT_NEW;
		own->new_run = own->was_old ? 0 : own->new_run;
		return error;
	}
	error = transaction_run(set, &own->decider, &options);
	if (error == TRANSACTION_DONE && set->claims.count > 0)
		own->new_run = working_set_was_all_new(set) ? own->new_run + 1 : 0;
	return error;
}

/* True as run_once(). */
static bool look_up_commit(struct postgres_store *own, int *ret_error)
{
	bool committed = false;
	int error = connection_was_committed(&own->decider, &committed);

	if (error == -ENOENT) {
		log_error(
			"commit result unknown: the row of this node in stile_lines is missing; senders must retry");
		*ret_error = ERR_AWAY;
	}
	if (error != 0 && error != ERR_BUSY)
		connection_close(&own->decider);
	if (committed && own->set.sent_as_new)
		transaction_new_committed(&own->set, &own->decider);
	if (error == 0 || error == -ENOENT)
		own->decider.in_doubt = false;
	return committed || error == -ENOENT;
}

static bool state_is(const struct connection *conn, const char *start)
{
	return memcmp(conn->state, start, strlen(start)) == 0;
}

/* The server refused the transaction. True as run_once(). */
static bool give_up_refused(struct connection *conn, int *ret_error)
{
	if (connection_lost_tables(conn)) {
		connection_close(conn);
		return false;
	}
	if (state_is(conn, "25006")) { /* read-only: another server writes now */
		connection_close(conn);
		return false;
	}
	/* Serialization failure, deadlock, lock_timeout, statement_timeout. */
	if (state_is(conn, "40") || state_is(conn, "55P03") || state_is(conn, "57014"))
		return false;
	log_error("PostgreSQL rejected a transaction", log_str("state", conn->state),
	          log_str("reason", conn->text.text));
	*ret_error = state_is(conn, "53") ? ERR_FULL : ERR_AWAY;
	return true;
}

/* True: finished; every operation has its answer, or there is a *ret_error. False: try
 * again. */
static bool run_once(struct postgres_store *own, const struct work *work, bool *lock_all,
                     int *ret_error)
{
	if (own->decider.in_doubt) {
		bool over = look_up_commit(own, ret_error);
		if (over || own->decider.in_doubt)
			return over;
	}
	int error = try_transaction(own, work, *lock_all);
	*lock_all |= error == TRANSACTION_LOCK_ALL;
	if (error == TRANSACTION_UNKNOWN) {
		connection_close(&own->decider);
		own->decider.in_doubt = true;
	}
	if (error == -EPROTO)
		return give_up_refused(&own->decider, ret_error);
	if (error == -ENOMEM)
		*ret_error = ERR_FULL;
	return error == TRANSACTION_DONE || error == -ENOMEM;
}

static void decide(struct postgres_store *own, struct work *work)
{
	uint64_t began_ms = postgres_boot_ms();
	uint64_t from_ms = own->away_since_ms ? own->away_since_ms : began_ms;
	bool lock_all = false, over = false;
	int error = 0;

	for (uint32_t tries = 0; !over; tries++) {
		if (connect_decider(own) == 0)
			over = run_once(own, work, &lock_all, &error);
		if (over)
			break;
		if (postgres_boot_ms() >= from_ms + own->options.away_ms && tries > 0) {
			error = ERR_AWAY;
			break;
		}
		if (tries > 1 || !connection_is_open(&own->decider))
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
	}
	own->decider.in_doubt = false; /* known, or given up */
	if (error) {
		for (struct store_op *op = work->ops.first; op; op = op->next)
			op->error = error;
		return;
	}
	postgres_note_time(own, own->set.now_ms);
	own->commits++;
	own->commit_ops += work->ops.count;
	histogram_record(own->store.commit_us, (postgres_boot_ms() - began_ms) * 1000);
	histogram_record(own->store.commit_batch, work->ops.count);
}

void decider_main(void *user)
{
	struct postgres_store *own = user;
	struct work work;

	pthread_mutex_lock(&own->mutex);
	while (own->inbox.first || !own->closing) {
		if (!own->inbox.first) {
			pthread_cond_wait(&own->decider_wake, &own->mutex);
			continue;
		}
		take_work(own, &work);
		own->deciding = true;
		pthread_mutex_unlock(&own->mutex);
		own->set.any_due = own->set.any_closed = false;
		if (work.ops.count > 0)
			decide(own, &work);
		postgres_finish(own, &work.ops);
		pthread_mutex_lock(&own->mutex);
		bool wake_taker = work.others.first || own->set.any_due || own->set.any_closed ||
		                  own->test;
		op_queue_move(&own->asked, &work.others);
		own->deciding = false;
		own->look_wanted |= wake_taker;
		if (wake_taker)
			postgres_wake_taker(own);
		else
			pthread_cond_broadcast(&own->settled);
	}
	pthread_mutex_unlock(&own->mutex);
}
