/* Ports: several threads, one store. Under TSan too. */
#include "store/port.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/simfs.h"
#include "support/test.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define LONG_MS 60000 /* a bound for what comes at once */

static struct clock_fake fake;

static struct store *store_make(void)
{
	struct store *store = NULL;

	assert_int_equal(model_store_open(&(struct model_store_options){ .clock = &fake.clock },
	                                  &store),
	                 0);
	return store;
}

static struct store_host *host_of(struct store *store)
{
	struct store_host *host = NULL;
	struct store_host_options options = { .store = store, .mode = STORE_HOST_THREAD };

	assert_int_equal(store_host_new(&options, &host), 0);
	return host;
}

static struct store_host *host_make(void)
{
	return host_of(store_make());
}

static struct port *port_make(struct store_host *host, uint32_t max_in_flight)
{
	struct port *port = NULL;

	assert_int_equal(port_new(host, &(struct port_options){ .max_in_flight = max_in_flight },
	                          &port),
	                 0);
	return port;
}

static void port_finish(struct port *port)
{
	assert_int_equal(port_drain(port, LONG_MS), 0);
	store_free(port_store(port));
}

/* Completions count here; `user` must come back as it was. */
static void count_done(struct store_op *op)
{
	++*(unsigned *)op->user;
}

static struct store_admit admit_of(uint64_t key, unsigned *count)
{
	return (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = count_done, .user = count },
		.claims = { { .digest = { { key, ~key } }, .window_s = 60 } },
		.claim_count = 1,
		.source = SPAN("test"),
		.payload = SPAN("{}"),
	};
}

static void wait_for(struct port *port, const unsigned *count, unsigned target)
{
	while (*count < target)
		port_wait(port, LONG_MS);
}

static void test_answers_reach_the_thread_that_asked(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 8);
	unsigned count = 0;
	struct store_admit first = admit_of(7, &count), again = admit_of(7, &count);

	store_submit(port_store(port), &first.op);
	store_submit(port_store(port), &again.op);
	assert_int_equal(store_room(port_store(port)), 8 - 2);
	store_flush(port_store(port));
	wait_for(port, &count, 2);
	assert_int_equal(first.verdict, VERDICT_NEW);
	assert_int_equal(again.verdict, VERDICT_DUPLICATE);
	assert_true(again.ticket == first.ticket && again.seen == 1);
	assert_ptr_equal(first.op.done, count_done);
	assert_ptr_equal(first.op.user, &count);

	struct store_stats stats;
	store_stats(port_store(port), &stats);
	assert_int_equal(stats.open_tickets, 1);
	port_finish(port);
	store_host_free(host);
}

static void test_cells_go_through_a_port(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 8);
	unsigned count = 0;
	struct store_cell cell = {
		.op = { .kind = STORE_CELL, .done = count_done, .user = &count },
		.act = STORE_CELL_PUT,
		.cell = { .digest = { { 7, 8 } }, .name = SPAN("a"), .value = SPAN("1") },
	};
	struct store_cell_scan scan = {
		.op = { .kind = STORE_CELL_SCAN, .done = count_done, .user = &count },
		.max_names = 10,
	};

	store_submit(port_store(port), &cell.op);
	store_submit(port_store(port), &scan.op);
	store_flush(port_store(port));
	wait_for(port, &count, 2);
	assert_true(cell.op.error == 0 && cell.changed && !cell.found);
	assert_true(scan.op.error == 0 && scan.count == 1);
	cell.act = STORE_CELL_GET;
	cell.want_value = true;
	store_submit(port_store(port), &cell.op);
	store_flush(port_store(port));
	wait_for(port, &count, 3);
	assert_true(cell.found && span_eq(buf_span(&cell.value), SPAN("1")));
	buf_free(&cell.value);
	buf_free(&scan.names);
	port_finish(port);
	store_host_free(host);
}

static void test_a_full_port_refuses_at_once(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 2);
	unsigned count = 0;
	struct store_admit admits[3];

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(store_room(port_store(port)), 2 - i);
		admits[i] = admit_of(i + 1, &count);
		store_submit(port_store(port), &admits[i].op);
	}
	assert_int_equal(count, 1);
	assert_int_equal(admits[2].op.error, ERR_FULL);
	store_flush(port_store(port));
	wait_for(port, &count, 3);
	assert_int_equal(store_room(port_store(port)), 2);
	store_submit(port_store(port), &admits[2].op);
	store_flush(port_store(port));
	wait_for(port, &count, 4);
	assert_int_equal(admits[2].verdict, VERDICT_NEW);
	port_finish(port);
	store_host_free(host);
}

static void test_takes_beyond_the_limit_are_refused(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 64);
	struct store_take takes[PORT_TAKES_MAX + 1] = { 0 };
	unsigned count = 0;

	for (size_t i = 0; i <= PORT_TAKES_MAX; i++) {
		takes[i].op =
			(struct store_op){ .kind = STORE_TAKE, .done = count_done, .user = &count };
		takes[i].max_items = takes[i].max_bytes = 1000;
		store_submit(port_store(port), &takes[i].op);
	}
	assert_int_equal(count, 1);
	assert_int_equal(takes[PORT_TAKES_MAX].op.error, ERR_FULL);
	store_flush(port_store(port));
	store_host_end_takes(host);
	wait_for(port, &count, PORT_TAKES_MAX + 1);
	for (size_t i = 0; i < PORT_TAKES_MAX; i++)
		assert_int_equal(takes[i].op.error, ERR_CLOSING);
	port_finish(port);
	store_host_free(host);
}

/* Completions come in the order of submission, over many posts. */
static uint64_t expected_order;

static void order_done(struct store_op *op)
{
	struct store_admit *admit = container_of(op, struct store_admit, op);

	assert_true(admit->claims[0].digest.word[0] == expected_order);
	expected_order++;
	mem_free(admit);
}

static void test_order_of_submission_is_kept(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 0);
	uint64_t random = test_seed();

	expected_order = 1;
	for (uint64_t key = 1; key <= 5000; key++) {
		struct store_admit *admit = mem_zalloc(1, sizeof(*admit));
		*admit = admit_of(key, NULL);
		admit->op.done = order_done;
		store_submit(port_store(port), &admit->op);
		if (test_random_below(&random, 5) == 0)
			store_flush(port_store(port));
		else if (test_random_below(&random, 5) == 0)
			port_flush_lazy(port);
		if (test_random_below(&random, 20) == 0)
			port_collect(port);
	}
	port_finish(port);
	assert_true(expected_order == 5001);
	store_host_free(host);
}

static void op_run(struct port *port, struct store_op *op, enum store_op_kind kind)
{
	unsigned count = 0;

	op->kind = kind;
	op->done = count_done;
	op->user = &count;
	store_submit(port_store(port), op);
	store_flush(port_store(port));
	wait_for(port, &count, 1);
}

static void test_every_operation_goes_through_a_port(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 64);
	unsigned waited = 0;
	struct store_admit admit = admit_of(1, NULL);
	struct store_take take = { .max_items = 1, .max_bytes = 1000 };
	struct store_note note = { .attempt = 1, .mark = STORE_MARK_FAILED, .text = SPAN("no") };
	struct store_renew renew = { .attempt = 2 };
	struct store_read read = { .history = true };
	struct store_scan scan = { .max_items = 10, .max_bytes = 1000 };
	struct store_settle settle = { .attempt = 2, .outcome = OUTCOME_UNKNOWN };
	struct store_release release = { .drop = true };

	op_run(port, &admit.op, STORE_ADMIT);
	note.ticket = renew.ticket = read.ticket = settle.ticket = release.ticket = admit.ticket;
	struct store_wait wait = {
		.op = { .kind = STORE_WAIT, .done = count_done, .user = &waited },
		.ticket = admit.ticket,
		.until_boot_ms = UINT64_MAX,
	};
	store_submit(port_store(port), &wait.op);
	op_run(port, &take.op, STORE_TAKE);
	assert_true(take.count == 1 && take.now_ms > 0);
	op_run(port, &note.op, STORE_NOTE);
	op_run(port, &renew.op, STORE_RENEW);
	op_run(port, &read.op, STORE_READ);
	op_run(port, &scan.op, STORE_SCAN);
	assert_int_equal(note.op.error | renew.op.error | read.op.error | scan.op.error, 0);
	assert_true(scan.count == 1 && scan.end);
	assert_true(read.items.len > sizeof(struct store_item) + sizeof(struct store_history));
	assert_int_equal(waited, 0);
	op_run(port, &settle.op, STORE_SETTLE);
	wait_for(port, &waited, 1);
	assert_int_equal(wait.outcome, OUTCOME_UNKNOWN);
	op_run(port, &release.op, STORE_RELEASE);
	assert_int_equal(settle.op.error | release.op.error | wait.op.error, 0);
	buf_free(&take.items);
	buf_free(&read.items);
	buf_free(&scan.items);
	port_finish(port);
	store_host_free(host);
}

/* Nobody may hang on an outcome when the end is near. */
static void test_waits_end_with_the_takes(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 64);
	unsigned waited = 0;
	struct store_admit admit = admit_of(1, NULL);

	op_run(port, &admit.op, STORE_ADMIT);
	struct store_wait wait = {
		.op = { .kind = STORE_WAIT, .done = count_done, .user = &waited },
		.ticket = admit.ticket,
		.until_boot_ms = UINT64_MAX,
	};
	store_submit(port_store(port), &wait.op);
	store_flush(port_store(port));
	store_host_end_takes(host);
	wait_for(port, &waited, 1);
	assert_int_equal(wait.op.error, ERR_CLOSING);
	port_finish(port);
	store_host_free(host);
}

static void test_ended_takes_leave_settles_working(void **state)
{
	(void)state;
	struct store_host *host = host_make();
	struct port *port = port_make(host, 64);
	unsigned count = 0;
	struct store_admit admit = admit_of(1, &count);
	struct store_take take = { .op = { .kind = STORE_TAKE, .done = count_done, .user = &count },
		                   .max_items = 10,
		                   .max_bytes = 1000 };

	store_submit(port_store(port), &admit.op);
	store_submit(port_store(port), &take.op);
	store_flush(port_store(port));
	wait_for(port, &count, 2);
	assert_int_equal(take.op.error, 0);
	assert_int_equal(take.count, 1);

	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	assert_true(store_item_next(buf_span(&take.items), &offset, &item, &parts));
	assert_true(span_eq(parts.source, SPAN("test")) && span_eq(parts.payload, SPAN("{}")));
	assert_false(store_item_next(buf_span(&take.items), &offset, &item, &parts));

	store_submit(port_store(port), &take.op); /* waits: nothing is due */
	store_flush(port_store(port));
	store_host_end_takes(host);
	wait_for(port, &count, 3);
	assert_int_equal(take.op.error, ERR_CLOSING);
	store_submit(port_store(port), &take.op);
	store_flush(port_store(port));
	wait_for(port, &count, 4);
	assert_int_equal(take.op.error, ERR_CLOSING);

	struct store_settle settle = {
		.op = { .kind = STORE_SETTLE, .done = count_done, .user = &count },
		.ticket = item.ticket,
		.attempt = item.attempt,
		.outcome = OUTCOME_DONE,
	};
	store_submit(port_store(port), &settle.op);
	port_flush_lazy(port);
	assert_int_equal(port_drain(port, LONG_MS), 0);
	assert_int_equal(settle.op.error, 0);
	store_free(port_store(port));
	buf_free(&take.items);
	store_host_free(host);
}

/* ---- a store that does not come to an end with its operations ---- */

struct stuck_store {
	struct store store;
	struct store_op *ops;
};

static void stuck_submit(struct store *store, struct store_op *op)
{
	struct stuck_store *stuck = container_of(store, struct stuck_store, store);
	op->next = stuck->ops;
	stuck->ops = op;
}

static void stuck_nothing(struct store *store)
{
	(void)store;
}

static void stuck_free(struct store *store)
{
	struct stuck_store *stuck = container_of(store, struct stuck_store, store);
	while (stuck->ops) {
		struct store_op *op = stuck->ops;
		stuck->ops = op->next;
		op->error = ERR_CLOSING;
		op->done(op);
	}
}

static const struct store_methods stuck_methods = {
	.submit = stuck_submit,
	.flush = stuck_nothing,
	.tick = stuck_nothing,
	.free = stuck_free,
};

static void test_what_cannot_be_drained_comes_back_when_the_host_closes(void **state)
{
	(void)state;
	struct stuck_store stuck = { .store = { .methods = &stuck_methods } };
	struct store_host *host = host_of(&stuck.store);
	struct port *port = port_make(host, 64);
	unsigned count = 0;
	struct store_take take = { .op = { .kind = STORE_TAKE, .done = count_done, .user = &count },
		                   .max_items = 10,
		                   .max_bytes = 1000 };
	struct store_settle settle = {
		.op = { .kind = STORE_SETTLE, .done = count_done, .user = &count },
	};

	store_submit(port_store(port), &settle.op);
	store_submit(port_store(port), &take.op);
	assert_int_equal(port_drain(port, 1), 2);
	store_host_close(host);
	assert_int_equal(port_collect(port), 2);
	assert_int_equal(count, 2);
	assert_int_equal(settle.op.error, ERR_CLOSING);
	assert_int_equal(take.op.error, ERR_CLOSING);
	assert_int_equal(store_room(port_store(port)), 64);

	store_submit(port_store(port), &settle.op); /* too late: answered at once */
	assert_int_equal(count, 3);
	assert_int_equal(settle.op.error, ERR_CLOSING);
	store_free(port_store(port));
	store_host_free(host);
}

struct hurried_store {
	struct store store;
	atomic_uint times;
};

static void hurried_count(struct store *store)
{
	atomic_fetch_add(&container_of(store, struct hurried_store, store)->times, 1);
}

static const struct store_methods hurried_methods = {
	.submit = stuck_submit,
	.flush = stuck_nothing,
	.tick = stuck_nothing,
	.hurry = hurried_count,
	.free = stuck_nothing,
};

static void test_a_store_is_told_once_that_there_is_little_time(void **state)
{
	(void)state;
	struct hurried_store hurried = { .store = { .methods = &hurried_methods } };
	struct store_host *host = host_of(&hurried.store);

	store_host_hurry(host);
	store_host_hurry(host);
	store_host_free(host);
	assert_int_equal(atomic_load(&hurried.times), 1);
}

/* As by a done() that came when time was over. */
static void test_what_there_was_no_time_to_post_comes_back_when_the_host_closes(void **state)
{
	(void)state;
	struct stuck_store stuck = { .store = { .methods = &stuck_methods } };
	struct store_host *host = host_of(&stuck.store);
	struct port *port = port_make(host, 64);
	unsigned count = 0;
	struct store_settle settle = {
		.op = { .kind = STORE_SETTLE, .done = count_done, .user = &count },
	};

	store_submit(port_store(port), &settle.op);
	assert_int_equal(port_drain(port, 0), 1);
	store_host_close(host);
	assert_int_equal(port_collect(port), 1);
	assert_int_equal(settle.op.error, ERR_CLOSING);
	assert_int_equal(store_room(port_store(port)), 64);
	store_free(port_store(port));
	store_host_free(host);
}

/* ---- an embedded host ---- */

static atomic_uint host_wakes, port_wakes;

static void count_wake(void *user)
{
	atomic_fetch_add((atomic_uint *)user, 1);
}

static void test_lazy_posts_wake_nobody(void **state)
{
	(void)state;
	struct store_host *host = NULL;
	struct port *port = NULL;
	unsigned count = 0;
	struct store_admit admits[4];
	struct store_host_options host_options = { .store = store_make(),
		                                   .mode = STORE_HOST_EMBEDDED,
		                                   .wake = count_wake,
		                                   .user = &host_wakes };
	struct port_options port_options = { .wake = count_wake, .user = &port_wakes };

	assert_int_equal(store_host_new(&host_options, &host), 0);
	assert_int_equal(port_new(host, &port_options, &port), 0);
	for (size_t i = 0; i < 4; i++)
		admits[i] = admit_of(i + 1, &count);
	store_submit(port_store(port), &admits[0].op);
	port_flush_lazy(port);
	assert_int_equal(host_wakes, 0);
	store_host_tick(host);
	assert_int_equal(port_wakes, 0);
	assert_int_equal(port_collect(port), 1);

	for (size_t i = 1; i < 4; i++) {
		store_submit(port_store(port), &admits[i].op);
		store_flush(port_store(port));
	}
	assert_int_equal(host_wakes, 1); /* one is enough until it runs */
	store_host_run(host);
	assert_int_equal(port_wakes, 1);
	assert_int_equal(port_collect(port), 3);
	store_free(port_store(port));
	store_host_free(host);
}

static void test_the_owner_uses_the_store_beside_its_ports(void **state)
{
	(void)state;
	struct store_host *host = NULL;
	struct port *port = NULL;
	unsigned count = 0;
	struct store_host_options options = { .store = store_make(),
		                              .mode = STORE_HOST_EMBEDDED,
		                              .wake = count_wake,
		                              .user = &host_wakes };
	struct store_admit own = admit_of(5, &count), other = admit_of(5, &count);

	assert_int_equal(store_host_new(&options, &host), 0);
	assert_int_equal(port_new(host, &(struct port_options){ 0 }, &port), 0);
	store_submit(store_host_store(host), &own.op);
	store_submit(port_store(port), &other.op);
	store_flush(port_store(port));
	store_host_run(host);
	assert_int_equal(count, 1);
	assert_int_equal(own.verdict, VERDICT_NEW);
	assert_int_equal(port_wait(port, 0), 1);
	assert_int_equal(other.verdict, VERDICT_DUPLICATE);
	store_free(port_store(port));
	store_host_free(host);
}

/* ---- races ---- */

#define RACE_THREADS 4u
#define RACE_CLIENTS 16u /* on each */

struct client {
	struct store_admit admit;
	struct racer *racer;
	uint64_t at, start; /* walks all keys, from a place of its own */
};

struct racer {
	struct thread thread;
	struct port *port;
	uint64_t keys;
	unsigned left;
	uint64_t news;
	uint64_t *tickets;  /* by key: what this thread was told */
	uint8_t *new_count; /* by key */
	struct client clients[RACE_CLIENTS];
	bool differs;
};

static void client_next(struct client *client);

static void client_done(struct store_op *op)
{
	struct client *client = op->user;
	struct racer *racer = client->racer;
	uint64_t key = client->admit.claims[0].digest.word[0];

	if (client->admit.verdict == VERDICT_NEW)
		racer->new_count[key]++;
	if (racer->tickets[key] && racer->tickets[key] != client->admit.ticket)
		racer->differs = true;
	racer->tickets[key] = client->admit.ticket;
	client->at++;
	client_next(client);
}

static void client_next(struct client *client)
{
	struct racer *racer = client->racer;

	if (client->at == racer->keys) {
		racer->left--;
		return;
	}
	client->admit = admit_of((client->start + client->at) % racer->keys, NULL);
	client->admit.op.done = client_done;
	client->admit.op.user = client;
	client->admit.no_ticket = true;
	store_submit(port_store(racer->port), &client->admit.op);
}

static void racer_run(void *user)
{
	struct racer *racer = user;

	for (size_t i = 0; i < RACE_CLIENTS; i++)
		client_next(&racer->clients[i]);
	while (racer->left) {
		store_flush(port_store(racer->port));
		port_wait(racer->port, LONG_MS);
	}
	store_free(port_store(racer->port));
}

static void racer_start(struct racer *racer, struct store_host *host, uint64_t keys,
                        uint64_t *random)
{
	racer->port = port_make(host, RACE_CLIENTS);
	racer->keys = keys;
	racer->left = RACE_CLIENTS;
	racer->tickets = mem_zalloc(keys, sizeof(uint64_t));
	racer->new_count = mem_zalloc(keys, 1);
	for (size_t i = 0; i < RACE_CLIENTS; i++) {
		racer->clients[i].racer = racer;
		/* Close together, so that most keys are raced for. */
		racer->clients[i].start = test_random_below(random, 8);
	}
	struct thread_options options = {
		.name = "racer", .cpu = THREAD_ANY_CPU, .run = racer_run, .user = racer
	};
	assert_int_equal(thread_start(&racer->thread, &options), 0);
}

static void race(struct store *store)
{
	uint64_t keys = test_scale(10000), random = test_seed();
	struct store_host *host = host_of(store);
	static struct racer racers[RACE_THREADS];

	memset(racers, 0, sizeof(racers));
	for (size_t i = 0; i < RACE_THREADS; i++)
		racer_start(&racers[i], host, keys, &random);
	for (size_t i = 0; i < RACE_THREADS; i++)
		thread_join(&racers[i].thread);
	store_host_free(host);

	for (uint64_t key = 0; key < keys; key++) {
		unsigned news = 0;
		for (size_t i = 0; i < RACE_THREADS; i++) {
			news += racers[i].new_count[key];
			assert_true(racers[i].tickets[key] == racers[0].tickets[key]);
		}
		assert_int_equal(news, 1);
	}
	for (size_t i = 0; i < RACE_THREADS; i++) {
		assert_false(racers[i].differs);
		mem_free(racers[i].tickets);
		mem_free(racers[i].new_count);
	}
}

static void test_one_new_for_each_key_of_64_clients(void **state)
{
	(void)state;
	race(store_make());
}

static struct store *local_store_make(struct simfs *simfs, struct local_store_options options)
{
	struct store *store = NULL;

	options.path = "data";
	options.fs = simfs_fs(simfs);
	options.clock = &fake.clock;
	assert_int_equal(local_store_open(&options, &store, NULL), 0);
	return store;
}

/* The same on the local store, with its keeper thread at work beside it. */
static void test_one_new_for_each_key_on_the_local_store(void **state)
{
	(void)state;
	struct simfs *simfs = simfs_new(test_seed());

	race(local_store_make(simfs, (struct local_store_options){ .segment_bytes = 256u << 10 }));
	simfs_free(simfs);
}

static void test_no_allocation_failure_breaks_the_ports(void **state)
{
	(void)state;
	for (unsigned long n = 1; n < 6; n++) {
		struct store_host *host = NULL;
		struct port *port = NULL;
		struct store *store = store_make();
		struct store_host_options options = { .store = store,
			                              .mode = STORE_HOST_EMBEDDED,
			                              .wake = count_wake,
			                              .user = &host_wakes };
		mem_fail_at(n, false);
		int error = store_host_new(&options, &host);
		if (error == 0)
			error = port_new(host, &(struct port_options){ 0 }, &port);
		mem_fail_at(0, false);
		if (port)
			store_free(port_store(port));
		if (host)
			store_host_free(host);
		else
			store_free(store);
		assert_int_equal(error, n <= 3 ? -ENOMEM : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_reach_the_thread_that_asked),
		cmocka_unit_test(test_cells_go_through_a_port),
		cmocka_unit_test(test_a_full_port_refuses_at_once),
		cmocka_unit_test(test_takes_beyond_the_limit_are_refused),
		cmocka_unit_test(test_order_of_submission_is_kept),
		cmocka_unit_test(test_every_operation_goes_through_a_port),
		cmocka_unit_test(test_waits_end_with_the_takes),
		cmocka_unit_test(test_ended_takes_leave_settles_working),
		cmocka_unit_test(test_what_cannot_be_drained_comes_back_when_the_host_closes),
		cmocka_unit_test(
			test_what_there_was_no_time_to_post_comes_back_when_the_host_closes),
		cmocka_unit_test(test_a_store_is_told_once_that_there_is_little_time),
		cmocka_unit_test(test_lazy_posts_wake_nobody),
		cmocka_unit_test(test_the_owner_uses_the_store_beside_its_ports),
		cmocka_unit_test(test_one_new_for_each_key_of_64_clients),
		cmocka_unit_test(test_one_new_for_each_key_on_the_local_store),
		cmocka_unit_test(test_no_allocation_failure_breaks_the_ports),
	};

	clock_fake_init(&fake);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
