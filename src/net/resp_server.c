/* Accepting, the round hook, drain. See resp_server.h and resp_connection.h. */
#include "net/resp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "net/resp_connection.h"
#include "sys/clock.h"

#define TICK_MS 250u
#define KEEPALIVE_S 300 /* as Redis asks for it */

/* A pipeline of 64 commands is more than POOL_INPUT_ROOM; an odd count of cache lines. */
#define INPUT_ROOM (257u * 64u - 24u)

const struct resp_server_limits resp_server_limits_default = {
	.known = { .args = 4096,
	           .bulk_bytes = 2u << 20,
	           .command_bytes = 4u << 20,
	           .line_bytes = 64u << 10 },
	.stranger = { .args = 10,
	              .bulk_bytes = 16384,
	              .command_bytes = 64u << 10,
	              .line_bytes = 64u << 10,
	              .stranger = true },
	.input_bytes = 256u << 20,
	.output_bytes = 1u << 20,
	.pipeline = 1024,
	.weight_bytes = 8u << 20,
	.calls = 8192,
	.weight_bytes_all = 512u << 20,
	.output_bytes_all = 256u << 20,
	.idle_ms = 0,
	.stranger_ms = 30 * 1000,
	.send_ms = 30 * 1000,
	.connections = 8192,
	.connections_per_address = 8192,
};

void resp_mark_dirty(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (connection->dirty)
		return;
	connection->dirty = true;
	connection->dirty_next = NULL;
	*server->dirty_end = connection;
	server->dirty_end = &connection->dirty_next;
	if (server->hook_round == loop_round(server->loop))
		loop_again(server->loop); /* this round's hook will not see it */
}

void resp_hold(struct resp_connection *connection)
{
	if (connection->held)
		return;
	connection->held = true;
	connection->held_next = connection->server->held;
	connection->server->held = connection;
}

/* There are few calls again. */
static void let_go(struct resp_server *server)
{
	while (server->held) {
		struct resp_connection *connection = server->held;
		server->held = connection->held_next;
		connection->held = false;
		resp_mark_dirty(connection);
	}
}

/* ---- patience ---- */

#define RESTS_MAX 6u /* doublings */

/* Of two hooks, those that the later has too are counted once. */
static void note_served(struct resp_server *server, uint32_t count, uint32_t both)
{
	server->patience.present = count + server->patience.last - both;
	server->patience.last = count;
}

/* Whoever was replied to a moment ago is back, or does not come. */
static void end_wait(struct resp_server *server)
{
	uint32_t gained = server->patience.asking - server->patience.before;
	loop_expect(server->loop, 0);
	server->patience.until_ns = 0;
	if (gained * 4 >= server->patience.before) {
		server->patience.misses = 0;
		return;
	}
	if (server->patience.misses < RESTS_MAX)
		server->patience.misses++;
	server->patience.rest = 1u << server->patience.misses;
}

static void begin_wait(struct resp_server *server)
{
	server->patience.before = server->patience.asking;
	server->patience.until_ns = clock_monotonic_ns() + server->patience.ns;
	loop_expect(server->loop, server->patience.until_ns);
}

/* After a look: is it worth to wait for another? */
static void consider_wait(struct resp_server *server)
{
	bool all = server->patience.asking >= server->patience.present;
	if (server->patience.until_ns > 0) {
		if (all)
			end_wait(server);
		return;
	}
	if (!all && server->patience.undone > 0 && server->patience.rest == 0)
		begin_wait(server);
}

void resp_server_patience(struct resp_server *server, uint64_t ns)
{
	server->patience.ns = ns;
}

/* ---- rounds ---- */

/* What ready connections have queued in this look of the loop. */
static void look_ends(struct loop_hook *hook)
{
	struct resp_server *server = container_of(hook, struct resp_server, look_hook);
	if (server->batch)
		socket_batch_run(server->batch);
	if (server->patience.ns > 0)
		consider_wait(server);
}

static void write_replies(struct resp_server *server, struct resp_connection *first)
{
	uint64_t now_ns = clock_monotonic_ns(), served = ++server->patience.served;
	uint32_t count = 0, both = 0;
	for (struct resp_connection *connection = first; connection;
	     connection = connection->dirty_next) {
		if (resp_connection_reply(connection, now_ns)) {
			count++;
			both += connection->served + 1 == served;
			connection->served = served;
		}
		if (server->batch)
			resp_send_ahead(connection);
	}
	note_served(server, count, both);
	if (server->batch)
		socket_batch_run(server->batch);
}

/* Takes the list as it is: what gets dirty meanwhile waits for the next round,
 * so that earlier hooks come first. */
static void flush_dirty(struct loop_hook *hook)
{
	struct resp_server *server = container_of(hook, struct resp_server, hook);
	struct resp_connection *connection = server->dirty;
	server->hook_round = loop_round(server->loop);
	if (server->patience.until_ns > 0)
		end_wait(server);
	else if (server->patience.rest > 0 && connection)
		server->patience.rest--;
	if (!connection)
		return;
	server->dirty = NULL;
	server->dirty_end = &server->dirty;
	write_replies(server, connection);
	while (connection) {
		struct resp_connection *next = connection->dirty_next;
		connection->dirty = false;
		server->flushing = connection;
		resp_connection_flush(connection);
		server->flushing = NULL;
		if (connection->handler.fd < 0 && !connection->first && !connection->dirty)
			resp_connection_free(connection);
		connection = next;
	}
	if (unlikely(server->held) && server->calls <= server->options.limits.calls / 2 &&
	    server->weight <= server->options.limits.weight_bytes_all / 2)
		let_go(server);
}

/* ---- accepting ---- */

static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result why)
{
	struct resp_server *server = container_of(acceptor, struct resp_server, acceptor);
	static const char text[] = "-ERR max number of clients reached\r\n";
	(void)why;
	resp_count(&server->counters.refused, 1);
	if (!server->options.tls) {
		/* Unread bytes would turn the close into a reset. */
		recv(fd, NULL, RESP_LINGER_BYTES, MSG_TRUNC | MSG_DONTWAIT);
		send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
	}
	close(fd);
}

/* Clients keep connections open for long: a peer that has vanished is found. */
static void keep_alive(int fd)
{
	int on = 1, idle_s = KEEPALIVE_S, interval_s = KEEPALIVE_S / 3, probes = 3;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void start_connection(struct acceptor *acceptor, int fd, const struct sockaddr *address,
                             struct gauge_slot *slot)
{
	struct resp_server *server = container_of(acceptor, struct resp_server, acceptor);
	struct resp_connection *connection = NULL;
	if (resp_connection_new(server, fd, address, slot, &connection)) {
		gauge_release(server->options.gauge, slot);
		close(fd);
		return;
	}
	keep_alive(fd);
	resp_count(&server->counters.accepted, 1);
	resp_count(&server->counters.open, 1);
	resp_connection_read(connection);
	if (connection->handler.fd >= 0 && resp_connection_register(connection))
		resp_connection_close(connection);
}

/* A timer that has just run has left a place in the loop's heap: cannot fail. */
static void repeat_timer(struct resp_server *server, struct loop_timer *timer, uint64_t after_ms)
{
	int error = loop_timer_set(server->loop, timer, after_ms);
	CHECK(!error);
}

/* ---- time-outs ---- */

/* Whoever waits for our own reply is not late. */
static void expired(struct wheel_entry *entry)
{
	struct resp_connection *connection = container_of(entry, struct resp_connection, timeout);
	struct resp_server *server = connection->server;
	if (connection->first && !connection->stalled) {
		wheel_set(&server->wheel, entry,
		          loop_now_ms(server->loop) + server->options.limits.send_ms);
		return;
	}
	if (!connection->lingers)
		resp_count(&server->counters.timeouts, 1);
	resp_connection_close(connection);
}

static void turn_wheel(struct loop_timer *timer)
{
	struct resp_server *server = container_of(timer, struct resp_server, wheel_timer);
	repeat_timer(server, timer, server->wheel.tick_ms);
	wheel_run(&server->wheel, loop_now_ms(server->loop), expired);
}

/* ---- start and end ---- */

static void init_server(struct resp_server *server, const struct resp_server_options *options)
{
	server->options = *options;
	server->loop = options->loop;
	server->acceptor = (struct acceptor){
		.loop = options->loop,
		.gauge = options->gauge,
		.limits = { .connections = options->limits.connections,
		            .connections_per_address = options->limits.connections_per_address },
		.taken = start_connection,
		.refused = turn_away,
	};
	acceptor_init(&server->acceptor);
	server->wheel_timer.due = turn_wheel;
	server->hook.round = flush_dirty;
	server->look_hook.round = look_ends;
	server->hook_round = UINT64_MAX;
	server->dirty_end = &server->dirty;
	server->pool.gauge = options->gauge;
	server->pool.bytes_max = options->limits.input_bytes;
	server->pool.input_room = INPUT_ROOM;
	wheel_init(&server->wheel, TICK_MS, loop_now_ms(options->loop));
}

static int start_listening(struct resp_server *server, struct error_text *ret_text)
{
	const struct resp_server_options *options = &server->options;
	uint16_t joined = options->joins ? options->joins->acceptor.port : 0;
	int error = loop_timer_set(server->loop, &server->wheel_timer, server->wheel.tick_ms);
	if (error)
		return error_fill(ret_text, error, "no memory for the Redis door");
	return acceptor_open(&server->acceptor, options->address, joined, ret_text);
}

int resp_server_new(const struct resp_server_options *options, struct resp_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->reply &&
	      options->gone);
	struct resp_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the Redis door");
	init_server(server, options);
	loop_hook_add(server->loop, &server->hook);
	loop_look_hook_add(server->loop, &server->look_hook);
	int error = 0;
	server->reply_us = mem_zalloc(1, sizeof(*server->reply_us));
	if (options->tls)
		server->cipher = mem_alloc(RESP_CIPHER_ROOM);
	if (!server->reply_us || (options->tls && !server->cipher))
		error = error_fill(ret_text, -ENOMEM, "no memory for the Redis door");
	if (!error)
		error = start_listening(server, ret_text);
	if (error) {
		resp_server_free(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

int resp_server_batch(struct resp_server *server)
{
	CHECK(!server->batch);
	return socket_batch_new(&server->batch);
}

static void free_spares(struct resp_server *server)
{
	while (server->spare_entries) {
		struct resp_entry *entry = server->spare_entries;
		server->spare_entries = entry->next;
		mem_free(entry);
	}
	pool_free(&server->pool);
	buf_free(&server->replies);
	mem_free(server->args);
}

struct resp_server *resp_server_free(struct resp_server *server)
{
	if (!server)
		return NULL;
	acceptor_close(&server->acceptor);
	loop_timer_clear(server->loop, &server->wheel_timer);
	loop_hook_remove(server->loop, &server->hook);
	loop_hook_remove(server->loop, &server->look_hook);
	while (server->connections) {
		struct resp_connection *connection = server->connections;
		server->flushing = connection; /* no list may have it any more */
		connection->dirty = false;
		resp_connection_close(connection);
		resp_connection_drop_calls(connection);
		resp_connection_free(connection);
	}
	free_spares(server);
	server->batch = socket_batch_free(server->batch);
	mem_free(server->cipher);
	mem_free(server->reply_us);
	return mem_free(server);
}

void resp_server_drain(struct resp_server *server)
{
	if (server->draining)
		return;
	if (server->batch)
		socket_batch_run(server->batch); /* no connection is closed while it receives */
	acceptor_close(&server->acceptor);
	server->draining = true;
	for (struct resp_connection *connection = server->connections; connection;
	     connection = connection->next) {
		connection->last = true;
		if (connection->handler.fd >= 0 && resp_connection_is_idle(connection))
			resp_connection_close(connection);
		else
			resp_mark_dirty(connection);
	}
}

void resp_server_cut(struct resp_server *server)
{
	resp_server_drain(server);
	if (server->batch)
		socket_batch_run(server->batch);
	for (struct resp_connection *connection = server->connections; connection;
	     connection = connection->next)
		resp_connection_close(connection);
}

bool resp_server_drained(const struct resp_server *server)
{
	return server->draining && !server->connections;
}

struct resp_counters *resp_server_counters(struct resp_server *server)
{
	return &server->counters;
}

const struct histogram *resp_server_reply_us(const struct resp_server *server)
{
	return server->reply_us;
}

uint16_t resp_server_port(const struct resp_server *server)
{
	return server->acceptor.port;
}
