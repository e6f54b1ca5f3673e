/* postgres_store: see postgres_store.h and postgres_internal.h. */
#include "store/postgres/postgres_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "store/postgres/postgres_internal.h"

uint64_t postgres_boot_ms(void)
{
	return clock_monotonic_ns() / 1000000;
}

uint64_t postgres_clock(const struct postgres_store *own)
{
	return own->test ? clock_read(&own->clock).wall_ms : 0 - own->latest_ms;
}

void postgres_note_time(struct postgres_store *own, uint64_t now_ms)
{
	uint64_t latest_ms = own->latest_ms;
	while (now_ms > latest_ms &&
	       !atomic_compare_exchange_weak(&own->latest_ms, &latest_ms, now_ms))
		;
}

/* A connection of this node, not open yet and without statements. */
static void init_connection(struct postgres_store *own, struct connection *conn, uint32_t number)
{
	*conn = (struct connection){
		.link = { .options = { .conninfo = own->address.conninfo,
		                       .password = own->address.password,
		                       .connect_ms = own->options.connect_ms,
		                       .statement_ms = own->options.statement_ms,
		                       .lock_ms = own->options.lock_ms },
		          .interrupt_fd = own->interrupt_fd },
		.address = &own->address,
		.node = own->node,
		.key = own->key,
		.number = number,
		.limit_ms = own->options.statement_ms + own->options.lock_ms,
	};
}

/* ---- handing over ---- */

static struct postgres_store *own_of(struct store *store)
{
	return container_of(store, struct postgres_store, store);
}

static void signal_fd(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));
	(void)n; /* EAGAIN: the counter is full, so it is readable already */
}

void postgres_wake_taker(struct postgres_store *own)
{
	signal_fd(own->wake_fd);
}

void postgres_finish(struct postgres_store *own, struct op_queue *list)
{
	if (!list->first)
		return;
	pthread_mutex_lock(&own->mutex);
	op_queue_move(&own->finished, list);
	pthread_mutex_unlock(&own->mutex);
	if (own->store.written)
		own->store.written(own->store.written_user);
}

/* For the taker at once. */
static bool may_wait(const struct store_op *op)
{
	if (op->kind == STORE_TAKE)
		return container_of(op, const struct store_take, op)->ticket == 0;
	return op->kind == STORE_WAIT;
}

static void hand_over(struct postgres_store *own)
{
	struct store_op *op;
	bool asked = false;

	while ((op = op_queue_take(&own->queue))) {
		bool waits = may_wait(op);
		op_queue_put(waits ? &own->asked : &own->inbox, op);
		asked |= waits;
	}
	if (own->inbox.first)
		pthread_cond_signal(&own->decider_wake);
	if (asked)
		postgres_wake_taker(own);
}

/* Under the mutex. */
static bool is_busy(const struct postgres_store *own)
{
	return own->inbox.first || own->deciding || own->asked.first || own->taking ||
	       own->look_wanted || own->tick_wanted;
}

/* done() may submit again: the operations leave `finished` before it is called. */
static void collect(struct postgres_store *own, bool wait)
{
	struct op_queue finished;

	op_queue_init(&finished);
	pthread_mutex_lock(&own->mutex);
	while (wait && is_busy(own))
		pthread_cond_wait(&own->settled, &own->mutex);
	op_queue_move(&finished, &own->finished);
	pthread_mutex_unlock(&own->mutex);
	for (struct store_op *op; (op = op_queue_take(&finished));)
		op->done(op);
}

static void submit(struct store *store, struct store_op *op)
{
	struct postgres_store *own = own_of(store);

	CHECK(op->done && !own->closing);
	op_queue_put(&own->queue, op);
}

static void flush(struct store *store)
{
	struct postgres_store *own = own_of(store);

	if (own->queue.first) {
		pthread_mutex_lock(&own->mutex);
		hand_over(own);
		pthread_mutex_unlock(&own->mutex);
	}
	collect(own, !store->written);
}

static bool under_way(struct store *store)
{
	struct postgres_store *own = own_of(store);

	pthread_mutex_lock(&own->mutex);
	bool busy = is_busy(own) || own->finished.first;
	pthread_mutex_unlock(&own->mutex);
	return busy;
}

static void tick(struct store *store)
{
	struct postgres_store *own = own_of(store);

	if (own->test) {
		pthread_mutex_lock(&own->mutex);
		own->tick_wanted = true;
		postgres_wake_taker(own);
		pthread_mutex_unlock(&own->mutex);
	}
	collect(own, own->test);
}

static void end_waits(struct store *store)
{
	struct postgres_store *own = own_of(store);

	pthread_mutex_lock(&own->mutex);
	own->ending = true;
	postgres_wake_taker(own);
	pthread_mutex_unlock(&own->mutex);
}

static void stats(struct store *store, struct store_stats *ret_stats)
{
	struct postgres_store *own = own_of(store);
	uint64_t open = 0;

	for (int i = STORE_STATE_DUE; i < STORE_STATE_CLOSED; i++)
		open += own->tickets_in[i];
	*ret_stats = (struct store_stats){
		.live_claims = own->claims,
		.live_cells = own->cells,
		.expired_claims = own->expired,
		.open_tickets = open,
		.due_tickets = own->tickets_in[STORE_STATE_DUE],
		.held_tickets = own->tickets_in[STORE_STATE_HELD],
		.parked_tickets = own->tickets_in[STORE_STATE_PARKED],
		.dead_tickets = own->tickets_in[STORE_STATE_DEAD],
		.caller_tickets = own->callers,
		.waits = own->waiting,
		.commits = own->commits,
		.commit_ops = own->commit_ops,
		.io_errors = own->io_errors,
		.writable = own->away == 0,
	};
}

/* ---- closing ---- */

static void destroy(struct postgres_store *own)
{
	connection_free(&own->decider);
	connection_free(&own->taker);
	working_set_free(&own->set);
	address_free(&own->address);
	if (own->wake_fd >= 0)
		close(own->wake_fd);
	if (own->interrupt_fd >= 0)
		close(own->interrupt_fd);
	pthread_cond_destroy(&own->decider_wake);
	pthread_cond_destroy(&own->settled);
	pthread_mutex_destroy(&own->mutex);
	secret_wipe(own->key, sizeof(own->key));
	mem_free(own);
}

/* The decider ends when everything is decided, then the taker. */
static void free_store(struct store *store)
{
	struct postgres_store *own = own_of(store);

	pthread_mutex_lock(&own->mutex);
	hand_over(own);
	own->closing = true;
	pthread_cond_signal(&own->decider_wake);
	pthread_mutex_unlock(&own->mutex);
	thread_join(&own->decider_thread);
	pthread_mutex_lock(&own->mutex);
	own->decided_all = true;
	postgres_wake_taker(own);
	pthread_mutex_unlock(&own->mutex);
	thread_join(&own->taker_thread);
	store->written = NULL;
	collect(own, false);
	CHECK(!own->queue.first); /* nobody may submit to a closing store */
	destroy(own);
}

static const struct store_methods postgres_methods = {
	.submit = submit,
	.flush = flush,
	.under_way = under_way,
	.tick = tick,
	.stats = stats,
	.end_waits = end_waits,
	.free = free_store,
};

/* ---- opening ---- */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static void copy_options(struct postgres_store *own, const struct postgres_store_options *options)
{
	own->options = *options;
	own->options.url = NULL;
	own->options.connect_ms = or_default(options->connect_ms, 5000);
	own->options.statement_ms = or_default(options->statement_ms, 10000);
	own->options.lock_ms = or_default(options->lock_ms, 2000);
	own->options.away_ms = or_default(options->away_ms, 5000);
	own->options.batch_ops = or_default(options->batch_ops, 1024);
	if (own->options.dead_keep_ms == 0)
		own->options.dead_keep_ms = STORE_DEAD_KEEP_MS;
	own->test = options->clock != NULL;
	own->clock = options->clock ? *options->clock : *clock_system();
}

/* The secret, and the first ticket and drop whose outcomes are known. */
static int read_meta(struct postgres_store *own, struct postgres_link *link,
                     struct error_text *ret_text)
{
	static const char sql[] =
		"SELECT encode(m.key, 'hex'),"
		" (SELECT last_value FROM stile_ticket), (SELECT coalesce(max(id), 0) FROM stile_drops)"
		" FROM stile_meta m";
	struct postgres_answer answer = { 0 };
	int error = postgres_command(link, sql, &answer);
	if (error) {
		error = error_fill(ret_text, ERR_AWAY, "cannot read stile_meta: %.300s",
		                   answer.text.text);
	} else if (postgres_rows(&answer) != 1 ||
	           !hex_decode(postgres_span(&answer, 0, 0), own->key, sizeof(own->key)) ||
	           text_parse_u64(postgres_span(&answer, 0, 1), &own->floor_ticket) < 0 ||
	           text_parse_u64(postgres_span(&answer, 0, 2), &own->floor_drop) < 0) {
		error = error_fill(
			ret_text, ERR_DAMAGED,
			"stile_meta is damaged: expected one row with a key of 16 bytes");
	}
	postgres_answer_free(&answer);
	return error;
}

static int open_connections(struct postgres_store *own, struct error_text *ret_text)
{
	struct postgres_link link;
	int error = address_connect(&own->address, &link, ret_text);
	if (error)
		return error;
	error = schema_expect(&link, ret_text);
	if (!error)
		error = read_meta(own, &link, ret_text);
	postgres_link_close(&link);
	if (error)
		return error;
	init_connection(own, &own->decider, 0);
	own->decider.statements[0] = transaction_statements;
	init_connection(own, &own->taker, 1);
	own->taker.statements[0] = taker_statements;
	own->taker.statements[1] = reader_statements;
	own->taker.statements[2] = housekeeping_statements;
	own->taker.on_open = own->listen;
	error = connection_open(&own->decider);
	if (error)
		return error_fill(ret_text, error == ERR_CONFIG ? error : ERR_AWAY, "%s",
		                  own->decider.text.text);
	error = connection_open(&own->taker);
	if (!error)
		error = housekeeping_run(own, postgres_boot_ms(), true);
	return error ? error_fill(ret_text, ERR_AWAY, "%s", own->taker.text.text) : 0;
}

static int start_threads(struct postgres_store *own)
{
	int error = thread_start(&own->decider_thread,
	                         &(struct thread_options){ .name = "pg decider",
	                                                   .cpu = THREAD_ANY_CPU,
	                                                   .run = decider_main,
	                                                   .user = own });
	if (error < 0)
		return error;
	error = thread_start(&own->taker_thread, &(struct thread_options){ .name = "pg taker",
	                                                                   .cpu = THREAD_ANY_CPU,
	                                                                   .run = taker_main,
	                                                                   .user = own });
	if (error == 0)
		return 0;
	pthread_mutex_lock(&own->mutex);
	own->closing = true;
	pthread_cond_signal(&own->decider_wake);
	pthread_mutex_unlock(&own->mutex);
	thread_join(&own->decider_thread);
	return error;
}

static int make_node(struct postgres_store *own)
{
	if (getrandom(&own->node, sizeof(own->node), 0) != sizeof(own->node))
		return -EIO;
	own->node = own->node >> 2 | 1; /* positive */
	snprintf(own->channel, sizeof(own->channel), "stile_%s", own->address.schema);
	snprintf(own->listen, sizeof(own->listen), "LISTEN %s", own->channel);
	own->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	own->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return own->wake_fd >= 0 && own->interrupt_fd >= 0 ? 0 : -errno;
}

int postgres_store_open(const struct postgres_store_options *options, struct store **ret_store,
                        struct error_text *ret_text)
{
	struct postgres_store *own = mem_zalloc(1, sizeof(*own));
	struct error_text text = { "" };

	if (!own)
		return -ENOMEM;
	own->store = (struct store){ .methods = &postgres_methods,
		                     .commit_us = &own->commit_us,
		                     .commit_batch = &own->commit_batch };
	own->wake_fd = own->interrupt_fd = -1;
	pthread_mutex_init(&own->mutex, NULL); /* these never fail for plain ones */
	pthread_cond_init(&own->decider_wake, NULL);
	pthread_cond_init(&own->settled, NULL);
	struct op_queue *lists[] = { &own->queue,    &own->inbox, &own->asked,
		                     &own->finished, &own->takes, &own->waits };
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		op_queue_init(lists[i]);
	copy_options(own, options);
	int error = address_read(options->url, &own->address, &text);
	if (!error)
		error = make_node(own);
	if (!error)
		error = open_connections(own, &text);
	if (!error)
		error = start_threads(own);
	if (error) {
		error_fill(ret_text, error, "%s", text.text[0] ? text.text : error_name(error));
		destroy(own);
		return error;
	}
	*ret_store = &own->store;
	return 0;
}

const unsigned char *postgres_store_key(const struct store *store)
{
	return container_of(store, const struct postgres_store, store)->key;
}

int postgres_store_url_check(const char *url, struct error_text *ret_text)
{
	struct address address;
	int error = address_read(url, &address, ret_text);
	if (!error)
		address_free(&address);
	return error;
}

/* ---- the tables ---- */

static int make_tables(const char *url, bool migrate, struct error_text *ret_text)
{
	struct address address;
	struct postgres_link link;
	int error = address_read(url, &address, ret_text);
	if (error)
		return error;
	error = address_connect(&address, &link, ret_text);
	if (!error) {
		error = schema_make(&link, address.schema, migrate, ret_text);
		postgres_link_close(&link);
	}
	address_free(&address);
	return error;
}

int postgres_store_init(const char *url, struct error_text *ret_text)
{
	return make_tables(url, false, ret_text);
}

int postgres_store_migrate(const char *url, struct error_text *ret_text)
{
	return make_tables(url, true, ret_text);
}
