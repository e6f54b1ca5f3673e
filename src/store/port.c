/*
 * port: see port.h.
 *
 * Each operation gets a call from the port's pool at submit. The call goes to the host
 * with the port's next flush and comes back with the completion. It keeps the caller's
 * done() and user while the operation has the host's.
 *
 * A take may wait for hours (except that of one ticket), so the caller's take is not given
 * to the store: a proxy of the port is. So the host can end the caller's take when
 * deliveries stop, while the proxy stays at the store until that closes.
 *
 * Flags, and not the mailboxes, say who must be woken, since an embedded host cannot know
 * when it is about to sleep. A sender posts first and then sets the flag; a receiver
 * clears the flag first and then takes. So a flag that was already set belongs to a
 * receiver that has not taken yet.
 */
#include "store/port.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/mailbox.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

struct port_call {
	struct mailbox_node node; /* in a mailbox, a chain, or the pool */
	struct port *port;
	struct store_op *op;
	void (*done)(struct store_op *op); /* the caller's */
	void *user;                        /* the caller's */
	bool lazy;
};

struct proxy_take {
	struct store_take take;
	struct port_call *call; /* NULL: free, or its take was ended */
	bool busy;              /* at the store */
};

struct port {
	struct store store;
	struct store_host *host;
	struct port *next_port; /* all of the host's; freed with it */

	/* The port's thread. */
	struct port_call *calls;
	struct mailbox_node *pool;
	struct mailbox_chain queued;
	uint32_t in_flight, max_in_flight, takes;

	/* The host's thread. */
	struct proxy_take proxies[PORT_TAKES_MAX];
	struct mailbox_chain finished;
	bool finished_urgent;
	struct port *next_touched;

	/* Both. */
	struct mailbox inbox;
	struct wake_event waiting;
	pthread_mutex_t posting; /* held by the host while it posts and wakes */
	atomic_bool woken;
	atomic_bool all_urgent; /* port_drain() waits for lazy ones too */
	void (*wake)(void *user);
	void *wake_user;
};

struct store_host {
	struct store *store; /* NULL: closed */
	enum store_host_mode mode;
	uint32_t tick_ms;
	void (*wake)(void *user);
	void *wake_user;

	struct port *touched; /* ports with completions to post */
	bool takes_ended;     /* what the host's thread did about end_takes */
	bool hurried;         /* and about hurry */

	struct mailbox inbox;
	atomic_bool woken;
	atomic_bool stop;
	atomic_bool end_takes;
	atomic_bool hurry;
	_Atomic(struct port *) ports;
	atomic_uint open_ports;
	struct wake_event waiting;
	struct thread thread;
};

static struct port_call *call_of(struct mailbox_node *node)
{
	return container_of(node, struct port_call, node);
}

static struct port *port_of(struct store *store)
{
	return container_of(store, struct port, store);
}

/* ---- the host's side ---- */

static void call_finish(struct port_call *call)
{
	struct port *port = call->port;
	struct store_host *host = port->host;

	if (!port->finished.newest) {
		port->next_touched = host->touched;
		host->touched = port;
		port->finished_urgent = false;
	}
	if (!call->lazy)
		port->finished_urgent = true;
	mailbox_chain_add(&port->finished, &call->node);
}

static void op_done(struct store_op *op)
{
	call_finish(op->user);
}

static void take_done(struct store_op *op)
{
	struct proxy_take *proxy = op->user;
	struct port_call *call = proxy->call;

	proxy->busy = false;
	if (!call)
		return;
	struct store_take *take = container_of(call->op, struct store_take, op);
	take->items = proxy->take.items;
	take->count = proxy->take.count;
	take->now_ms = proxy->take.now_ms;
	take->op.error = op->error;
	proxy->call = NULL;
	proxy->take.items = (struct buf){ 0 };
	call_finish(call);
}

static void take_submit(struct store_host *host, struct port_call *call)
{
	struct store_take *take = container_of(call->op, struct store_take, op);
	struct proxy_take *proxy = call->port->proxies;

	if (host->takes_ended) {
		take->op.error = ERR_CLOSING;
		call_finish(call);
		return;
	}
	while (proxy->busy)
		CHECK(++proxy < call->port->proxies + PORT_TAKES_MAX);
	proxy->call = call;
	proxy->busy = true;
	proxy->take = *take;
	proxy->take.op.done = take_done;
	proxy->take.op.user = proxy;
	take->items = (struct buf){ .cap = take->items.cap };
	store_submit(host->store, &proxy->take.op);
}

static void takes_end(struct store_host *host)
{
	host->takes_ended = true;
	store_end_waits(host->store);
	for (struct port *port = atomic_load(&host->ports); port; port = port->next_port) {
		for (size_t i = 0; i < PORT_TAKES_MAX; i++) {
			struct port_call *call = port->proxies[i].call;
			if (!call)
				continue;
			port->proxies[i].call = NULL;
			call->op->error = ERR_CLOSING;
			call_finish(call);
		}
	}
}

static void completions_post(struct store_host *host)
{
	struct port *port = host->touched;

	host->touched = NULL;
	while (port) {
		struct port *next = port->next_touched; /* the port may be gone after the lock */
		bool urgent = port->finished_urgent;
		/* Under the lock: when store_free(port) has it, no wake can be under way. */
		pthread_mutex_lock(&port->posting);
		mailbox_post(&port->inbox, &port->finished);
		urgent |= atomic_load(&port->all_urgent);
		if (urgent && !atomic_exchange(&port->woken, true)) {
			wake_event_set(&port->waiting);
			if (port->wake)
				port->wake(port->wake_user);
		}
		pthread_mutex_unlock(&port->posting);
		port = next;
	}
}

static bool round_run(struct store_host *host, bool flush_always)
{
	atomic_exchange(&host->woken, false);
	struct mailbox_node *node = mailbox_take(&host->inbox);
	bool any = node != NULL;

	while (node) {
		struct port_call *call = call_of(node);
		node = node->next;
		if (store_take_waits(call->op))
			take_submit(host, call);
		else
			store_submit(host->store, call->op);
	}
	if (unlikely(atomic_load(&host->hurry)) && !host->hurried) {
		host->hurried = true;
		store_hurry(host->store);
	}
	if (unlikely(atomic_load(&host->end_takes)) && !host->takes_ended)
		takes_end(host);
	if (any || flush_always || store_under_way(host->store))
		store_flush(host->store);
	completions_post(host);
	return any;
}

void store_host_run(struct store_host *host)
{
	CHECK(host->mode == STORE_HOST_EMBEDDED);
	round_run(host, true);
}

void store_host_tick(struct store_host *host)
{
	CHECK(host->mode == STORE_HOST_EMBEDDED);
	round_run(host, true);
	store_tick(host->store);
	completions_post(host);
}

static void host_main(void *user)
{
	struct store_host *host = user;
	uint64_t tick_ns = (uint64_t)host->tick_ms * 1000000;
	uint64_t next_ns = clock_monotonic_ns() + tick_ns;

	for (;;) {
		bool stop = atomic_load(&host->stop);
		bool any = round_run(host, false);
		uint64_t now_ns = clock_monotonic_ns();
		if (now_ns >= next_ns) {
			store_tick(host->store);
			completions_post(host);
			next_ns = now_ns + tick_ns;
		} else if (!any && !stop) {
			wake_event_wait(&host->waiting, (int)((next_ns - now_ns) / 1000000 + 1));
		}
		if (stop && !any)
			return;
	}
}

static void host_wake(struct store_host *host)
{
	if (atomic_exchange(&host->woken, true))
		return;
	if (host->mode == STORE_HOST_THREAD)
		wake_event_set(&host->waiting);
	else
		host->wake(host->wake_user);
}

void store_host_hurry(struct store_host *host)
{
	atomic_store(&host->hurry, true);
	host_wake(host);
}

void store_host_end_takes(struct store_host *host)
{
	atomic_store(&host->end_takes, true);
	host_wake(host);
}

struct store *store_host_store(struct store_host *host)
{
	return host->store;
}

static void host_destroy(struct store_host *host)
{
	struct port *port = atomic_load(&host->ports);

	while (port) {
		struct port *next = port->next_port;
		for (size_t i = 0; i < PORT_TAKES_MAX; i++)
			buf_free(&port->proxies[i].take.items);
		pthread_mutex_destroy(&port->posting);
		wake_event_destroy(&port->waiting);
		mem_free(port->calls);
		mem_free(port);
		port = next;
	}
	wake_event_destroy(&host->waiting);
	mem_free(host);
}

void store_host_close(struct store_host *host)
{
	if (!host->store)
		return;
	if (host->mode == STORE_HOST_THREAD) {
		atomic_store(&host->stop, true);
		wake_event_set(&host->waiting);
		thread_join(&host->thread);
	}
	round_run(host, true);
	host->store = store_free(host->store); /* ends all that still waits there */
	completions_post(host);
}

struct store_host *store_host_free(struct store_host *host)
{
	if (!host)
		return NULL;
	CHECK(atomic_load(&host->open_ports) == 0);
	store_host_close(host);
	host_destroy(host);
	return NULL;
}

static void store_written(void *user)
{
	host_wake(user);
}

int store_host_new(const struct store_host_options *options, struct store_host **ret_host)
{
	struct store_host *host = mem_zalloc(1, sizeof(*host));
	int error = 0;

	if (!host)
		return -ENOMEM;
	CHECK(options->store);
	CHECK(options->mode == STORE_HOST_THREAD || options->wake);
	host->store = options->store;
	host->store->written = store_written;
	host->store->written_user = host;
	host->mode = options->mode;
	host->tick_ms = options->tick_ms ? options->tick_ms : STORE_HOST_TICK_MS;
	host->wake = options->wake;
	host->wake_user = options->user;
	mailbox_init(&host->inbox);
	wake_event_init(&host->waiting);
	if (host->mode == STORE_HOST_THREAD)
		error = thread_start(&host->thread, &(struct thread_options){ .name = "store",
		                                                              .cpu = THREAD_ANY_CPU,
		                                                              .run = host_main,
		                                                              .user = host });
	if (error < 0) {
		host->store->written = NULL;
		host_destroy(host);
		return error;
	}
	*ret_host = host;
	return 0;
}

/* ---- the port's side ---- */

/* By the port itself: the store has not seen the operation. */
static void refuse(struct store_op *op, int error)
{
	op->error = error;
	op->done(op);
}

static void port_submit(struct store *store, struct store_op *op)
{
	struct port *port = port_of(store);
	bool is_take = store_take_waits(op);

	CHECK(port->in_flight <= port->max_in_flight);
	CHECK(op->done);
	if (unlikely(!port->host->store)) {
		refuse(op, ERR_CLOSING);
		return;
	}
	if (!port->pool || (is_take && port->takes == PORT_TAKES_MAX)) {
		refuse(op, ERR_FULL);
		return;
	}
	struct port_call *call = call_of(port->pool);
	port->pool = call->node.next;
	port->in_flight++;
	port->takes += is_take;
	call->op = op;
	call->done = op->done;
	call->user = op->user;
	call->lazy = false;
	op->done = op_done;
	op->user = call;
	mailbox_chain_add(&port->queued, &call->node);
}

static void port_flush(struct store *store)
{
	struct port *port = port_of(store);

	if (!port->queued.newest)
		return;
	mailbox_post(&port->host->inbox, &port->queued);
	host_wake(port->host);
}

void port_flush_lazy(struct port *port)
{
	CHECK(port->queued.newest == NULL || port->in_flight > 0);
	if (!port->queued.newest)
		return;
	for (struct mailbox_node *node = port->queued.newest; node; node = node->next)
		call_of(node)->lazy = true;
	mailbox_post(&port->host->inbox, &port->queued);
}

/* The host ticks the store; a port has no housekeeping. */
static void port_tick(struct store *store)
{
	(void)store;
}

static void port_stats(struct store *store, struct store_stats *ret_stats)
{
	store_stats(port_of(store)->host->store, ret_stats);
}

size_t port_collect(struct port *port)
{
	size_t count = 0;

	atomic_exchange(&port->woken, false);
	struct mailbox_node *node = mailbox_take(&port->inbox);
	while (node) {
		struct mailbox_node *next = node->next;
		struct port_call *call = call_of(node);
		struct store_op *op = call->op;
		CHECK(call->port == port && port->in_flight > 0);
		op->done = call->done;
		op->user = call->user;
		port->takes -= store_take_waits(op);
		port->in_flight--;
		call->op = NULL;
		call->node.next = port->pool;
		port->pool = &call->node;
		op->done(op); /* may submit: the call is back in the pool */
		count++;
		node = next;
	}
	return count;
}

size_t port_wait(struct port *port, int timeout_ms)
{
	size_t count = port_collect(port);

	if (count || timeout_ms == 0)
		return count;
	wake_event_wait(&port->waiting, timeout_ms);
	return port_collect(port);
}

size_t port_drain(struct port *port, int timeout_ms)
{
	uint64_t end_ns = clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000;

	atomic_store(&port->all_urgent, true);
	while (port->in_flight) {
		uint64_t now_ns = clock_monotonic_ns();
		if (now_ns >= end_ns)
			break;
		port_flush(&port->store);
		host_wake(port->host); /* for what was posted lazily before */
		port_wait(port, (int)((end_ns - now_ns) / 1000000 + 1));
	}
	port_flush(&port->store); /* what the last done()s submitted: the close answers it */
	atomic_store(&port->all_urgent, false);
	return port->in_flight;
}

struct store *port_store(struct port *port)
{
	return &port->store;
}

/* The port itself stays until the host goes: its proxies may be at the store. */
static void port_close(struct store *store)
{
	struct port *port = port_of(store);

	CHECK(port->in_flight == 0);
	pthread_mutex_lock(&port->posting);
	port->wake = NULL;
	pthread_mutex_unlock(&port->posting);
	port->calls = mem_free(port->calls);
	atomic_fetch_sub(&port->host->open_ports, 1);
}

static uint32_t port_room(const struct store *store)
{
	const struct port *port = container_of(store, const struct port, store);

	CHECK(port->in_flight <= port->max_in_flight);
	return port->max_in_flight - port->in_flight;
}

static const struct store_methods port_methods = {
	.submit = port_submit,
	.flush = port_flush,
	.room = port_room,
	.tick = port_tick,
	.stats = port_stats,
	.free = port_close,
};

int port_new(struct store_host *host, const struct port_options *options, struct port **ret_port)
{
	struct port *port = mem_zalloc(1, sizeof(*port));

	if (!port)
		return -ENOMEM;
	port->max_in_flight = options->max_in_flight ? options->max_in_flight
	                                             : PORT_IN_FLIGHT_DEFAULT;
	port->calls = mem_zalloc(port->max_in_flight, sizeof(struct port_call));
	if (!port->calls) {
		mem_free(port);
		return -ENOMEM;
	}
	wake_event_init(&port->waiting);
	pthread_mutex_init(&port->posting, NULL); /* never fails for a plain one */
	mailbox_init(&port->inbox);
	port->host = host;
	port->wake = options->wake;
	port->wake_user = options->user;
	port->store.methods = &port_methods;
	port->store.commit_us = host->store->commit_us;
	port->store.commit_batch = host->store->commit_batch;
	for (uint32_t i = port->max_in_flight; i-- > 0;) {
		struct port_call *call = &port->calls[i];
		call->port = port;
		call->node.next = port->pool;
		port->pool = &call->node;
	}
	struct port *head = atomic_load(&host->ports);
	atomic_fetch_add(&host->open_ports, 1);
	do
		port->next_port = head;
	while (!atomic_compare_exchange_weak(&host->ports, &head, port));
	*ret_port = port;
	return 0;
}
