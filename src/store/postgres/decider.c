/*
 * decider: the thread that decides. It takes what is there, decides it in one transaction,
 * and hands it back when that has committed.
 *
 * If the last ones were all new, the next is sent as if it were, too: one statement, which
 * fails if that is wrong. Then it is made as all others are.
 *
 * A transaction that ran into another's locks, or lost its connection, is made again as
 * long as away_ms allows. One whose COMMIT was under way is asked for first.
 */
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/postgres/postgres_internal.h"

#define BATCH_BYTES (8u << 20)
#define PAUSE_MS 20u
#define TRY_EVERY_MS 500u
#define NEW_RUN 4u /* transactions that were all new: the next is expected to be, too */

static bool decides(const struct store_op *op)
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
		return admit->payload.len + admit->letter.len;
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
	struct op_queue others; /* that read, after that */
	uint32_t count;
};

/* Under the mutex. */
static void take_work(struct postgres_store *own, struct work *work)
{
	size_t bytes = 0;

	*work = (struct work){ .count = 0 };
	op_queue_init(&work->ops);
	op_queue_init(&work->others);
	while (own->inbox.first) {
		struct store_op *op = own->inbox.first;
		bytes += bytes_of(op);
		if (work->count == own->options.batch_ops ||
		    (bytes > BATCH_BYTES && work->count > 0))
			break;
		op = op_queue_take(&own->inbox);
		bool is_ours = decides(op);
		op_queue_put(is_ours ? &work->ops : &work->others, op);
		work->count += is_ours;
	}
}

static void fail_all(struct op_queue *ops, int error)
{
	for (struct store_op *op = ops->first; op; op = op->next)
		op->error = error;
}

static void pause_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)ms * 1000000 }, NULL);
}

/* ---- the connection ---- */

/* Told when it begins, and when the server that comes back is not fit. */
static void note_away(struct postgres_store *own, uint64_t now_ms, int error)
{
	bool unfit = error == ERR_CONFIG || error == ERR_VERSION;
	bool told = own->away_since_ms != 0 && (!unfit || error == own->away_error);

	own->try_again_ms = now_ms + TRY_EVERY_MS;
	own->io_errors++;
	if (own->away_since_ms == 0) {
		own->away_since_ms = now_ms;
		own->away++;
	}
	own->away_error = error;
	if (told)
		return;
	if (unfit)
		log_error("the database cannot be used", log_str("reason", own->decider.text.text));
	else
		log_warn("the database is away", log_str("reason", own->decider.text.text));
}

static void note_back(struct postgres_store *own, uint64_t now_ms)
{
	if (own->away_since_ms == 0)
		return;
	log_info("the database is back", log_u64("after_ms", now_ms - own->away_since_ms));
	own->away_since_ms = 0;
	own->away--;
}

/* In an outage it is tried a few times a second, and not by everybody. */
static int connect_line(struct postgres_store *own)
{
	uint64_t now_ms = postgres_boot_ms();

	if (connection_is_open(&own->decider))
		return 0;
	if (own->away_since_ms != 0 && now_ms < own->try_again_ms)
		return -ECONNREFUSED;
	int error = connection_open(&own->decider);
	now_ms = postgres_boot_ms();
	if (error)
		note_away(own, now_ms, error);
	else
		note_back(own, now_ms);
	return error;
}

/* ---- a transaction ---- */

static bool has_class(const char *state, const char *class)
{
	return memcmp(state, class, strlen(class)) == 0;
}

/* What the server refused: 0: try again, else what to say. */
static int judge_refusal(const struct connection *conn)
{
	if (has_class(conn->state, "40") || has_class(conn->state, "55P03") ||
	    has_class(conn->state, "57014") || has_class(conn->state, "25006"))
		return 0;
	log_error("the database refuses a transaction", log_str("state", conn->state),
	          log_str("reason", conn->text.text));
	return has_class(conn->state, "53") ? ERR_FULL : ERR_AWAY;
}

static int enter_all(struct postgres_store *own, const struct work *work, bool lock_all)
{
	struct working_set *set = &own->set;
	int error = 0;

	working_set_clear(set);
	set->lock_all = lock_all;
	set->dense = own->options.dense;
	set->node = own->node;
	for (struct store_op *op = work->ops.first; op && !error; op = op->next)
		error = working_set_enter(set, op);
	return error;
}

static bool expects_new(const struct postgres_store *own)
{
	return own->new_run >= NEW_RUN || (own->options.eager && !own->was_old);
}

/* One try: TRANSACTION_…, or an error. */
static int try_batch(struct postgres_store *own, const struct work *work, bool lock_all)
{
	struct transaction_options options = { .clock = postgres_clock(own),
		                               .retain = own->options.retain_ms > 0,
		                               .notify = own->nodes > 1,
		                               .channel = own->channel };
	struct working_set *set = &own->set;
	int error = enter_all(own, work, lock_all);

	if (error)
		return error;
	if (expects_new(own) && working_set_may_be_new(set)) {
		error = transaction_run_new(set, &own->decider, &options);
		own->new_run = error == TRANSACTION_NOT_NEW ? 0 : own->new_run;
		own->was_old = error == TRANSACTION_NOT_NEW;
		return error;
	}
	own->was_old = false;
	error = transaction_run(set, &own->decider, &options);
	if (error == TRANSACTION_DONE && set->claims.count > 0)
		own->new_run = working_set_was_all_new(set) ? own->new_run + 1 : 0;
	return error;
}

/* True: it is over, and the operations have their answers or `*ret_error`. */
static bool ask_what_came(struct postgres_store *own, bool *unknown, int *ret_error)
{
	bool committed = false;
	int error = connection_was_committed(&own->decider, &committed);

	if (error == -ENOENT) {
		log_error("the database does not know any more whether a transaction was "
		          "committed: its row in stile_lines is gone; its senders are told to "
		          "send again");
		*ret_error = ERR_AWAY;
	}
	if (error != 0 && error != ERR_BUSY)
		connection_close(&own->decider);
	if (committed && own->set.sent_as_new)
		transaction_new_committed(&own->set, &own->decider);
	if (error == 0 || error == -ENOENT)
		*unknown = own->decider.in_doubt = false;
	return committed || error == -ENOENT;
}

/* What the server refused: true as run_once(). */
static bool cope_with_refusal(struct connection *conn, int *ret_error)
{
	if (connection_lost_tables(conn)) {
		connection_close(conn);
		return false;
	}
	*ret_error = judge_refusal(conn);
	if (has_class(conn->state, "25006"))
		connection_close(conn); /* not the server that writes any more */
	return *ret_error != 0;
}

/* True: it is over, and every operation has its answer or `*ret_error`. */
static bool run_once(struct postgres_store *own, const struct work *work, bool *lock_all,
                     bool *unknown, int *ret_error)
{
	if (*unknown && ask_what_came(own, unknown, ret_error))
		return true;
	if (*unknown)
		return false;
	int error = try_batch(own, work, *lock_all);
	if (error == TRANSACTION_DONE)
		return true;
	if (error == TRANSACTION_LOCK_ALL) {
		*lock_all = true;
		return false;
	}
	if (error == TRANSACTION_NOT_NEW)
		return false;
	if (error == TRANSACTION_UNKNOWN) {
		connection_close(&own->decider);
		*unknown = own->decider.in_doubt = true;
		return false;
	}
	if (error == -EPROTO)
		return cope_with_refusal(&own->decider, ret_error);
	if (error == -ENOMEM)
		*ret_error = ERR_FULL;
	return *ret_error != 0;
}

static void decide(struct postgres_store *own, struct work *work)
{
	uint64_t began_ms = postgres_boot_ms();
	uint64_t from_ms = own->away_since_ms ? own->away_since_ms : began_ms;
	bool lock_all = false, unknown = false, over = false;
	int error = 0;

	for (uint32_t tries = 0; !over; tries++) {
		if (connect_line(own) == 0)
			over = run_once(own, work, &lock_all, &unknown, &error);
		if (over)
			break;
		if (postgres_boot_ms() >= from_ms + own->options.away_ms && tries > 0) {
			error = ERR_AWAY;
			break;
		}
		if (tries > 1 || !connection_is_open(&own->decider))
			pause_ms(PAUSE_MS);
	}
	own->decider.in_doubt = false; /* known, or given up */
	if (error) {
		fail_all(&work->ops, error);
		return;
	}
	postgres_heard(own, own->set.now_ms);
	own->commits++;
	own->commit_ops += work->count;
	histogram_record(own->store.commit_us, (postgres_boot_ms() - began_ms) * 1000);
	histogram_record(own->store.commit_batch, work->count);
}

/* Under the mutex. */
static void pass_on(struct postgres_store *own, struct work *work)
{
	bool stirs = work->others.first || own->set.any_due || own->set.any_closed || own->test;

	op_queue_move(&own->asked, &work->others);
	own->deciding = false;
	if (stirs) {
		own->stirred = true;
		postgres_wake_taker(own);
	} else {
		pthread_cond_broadcast(&own->settled);
	}
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
		if (work.count > 0)
			decide(own, &work);
		postgres_finish(own, &work.ops);
		pthread_mutex_lock(&own->mutex);
		pass_on(own, &work);
	}
	pthread_mutex_unlock(&own->mutex);
}
