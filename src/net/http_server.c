/* Accepting, the round hook, drain. See http_server.h and connection.h. */
#include "net/http_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/connection.h"
#include "sys/clock.h"

#define TICK_MS_MAX 250u

const struct http_limits http_limits_default = {
	.head_bytes = 16 * 1024,
	.headers = HTTP1_HEADERS_MAX,
	.body_bytes = 1024 * 1024,
	.head_ms = 10 * 1000,
	.body_rate = 1024,
	.body_grace_ms = 10 * 1000,
	.input_bytes = 256u << 20,
	.idle_ms = 75 * 1000,
	.send_ms = 30 * 1000,
	.pipeline = 16,
	.connections = 16384,
	.connections_per_address = 4096,
};

void server_mark_dirty(struct http_server *server, struct connection *connection)
{
	if (connection->dirty)
		return;
	connection->dirty = true;
	connection->dirty_next = NULL;
	*server->dirty_end = connection;
	server->dirty_end = &connection->dirty_next;
	if (server->hook_round == loop_round(server->loop))
		loop_again(server->loop); /* this round's hook will not see it */
}

const char *server_date(struct http_server *server)
{
	uint64_t now_ns = loop_now_ns(server->loop);
	if (unlikely(now_ns >= server->date_until_ns)) {
		struct clock_reading reading = clock_read(clock_system());
		http1_format_date(reading.wall_ms / 1000, server->date);
		server->date_until_ns = now_ns + (1000 - reading.wall_ms % 1000) * 1000000u;
	}
	return server->date;
}

/* All that can be sent, at once. What the kernel does not take now, the flush of the
 * connection offers again; after an error that fails too, if only with EPIPE. */
static void send_ahead(struct http_server *server, struct connection *first)
{
	if (!server->batch)
		return;
	for (struct connection *connection = first; connection; connection = connection->dirty_next)
		connection_send_ahead(connection, server->batch);
	socket_batch_run(server->batch);
}

/* What ready connections have queued in this look of the loop. */
static void receive_queued(struct loop_hook *hook)
{
	struct http_server *server = container_of(hook, struct http_server, look_hook);
	socket_batch_run(server->batch);
}

/* Takes the list as it is: what gets dirty meanwhile waits for the next round,
 * so that earlier hooks come first. */
static void flush_dirty(struct loop_hook *hook)
{
	struct http_server *server = container_of(hook, struct http_server, hook);
	struct connection *connection = server->dirty;
	server->hook_round = loop_round(server->loop);
	server->dirty = NULL;
	server->dirty_end = &server->dirty;
	send_ahead(server, connection);
	while (connection) {
		struct connection *next = connection->dirty_next;
		if (next)
			__builtin_prefetch(next->out.buffer);
		connection->dirty = false;
		server->flushing = connection;
		connection_flush(connection);
		server->flushing = NULL;
		if (connection->handler.fd < 0 && !connection->first && !connection->dirty)
			connection_release(connection);
		connection = next;
	}
}

static size_t write_turn_away(struct http_server *server, bool address, char *out, size_t room)
{
	struct span body =
		address ? SPAN("{\"type\":\"about:blank\",\"title\":\"Too Many Requests\","
	                       "\"status\":429,\"detail\":\"too many connections from this address\"}\n")
			: SPAN("{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
	                       "\"status\":503,\"detail\":\"too many connections\"}\n");
	struct http1_answer answer = {
		.status = address ? 429 : 503,
		.close = true,
		.date = server_date(server),
		.content_type = SPAN("application/problem+json"),
		.headers = SPAN("Retry-After: 1\r\n"),
		.content_length = body.len,
	};
	CHECK(http1_head_room(&answer) + body.len <= room);
	size_t len = http1_write_head(&answer, out);
	memcpy(out + len, body.ptr, body.len);
	return len + body.len;
}

/* Only when it costs nothing: with TLS there is no answer without a handshake,
 * which is what overload cannot afford. */
static void turn_away(struct acceptor *acceptor, int fd, enum gauge_result result)
{
	struct http_server *server = container_of(acceptor, struct http_server, acceptor);
	char out[768];
	counter_add(&server->counters.refused, 1);
	if (!server->tls) {
		size_t len = write_turn_away(server, result == GAUGE_ADDRESS_FULL, out,
		                             sizeof(out));
		/* Unread bytes would turn the close into a reset. */
		recv(fd, NULL, CONNECTION_LINGER_BYTES, MSG_TRUNC | MSG_DONTWAIT);
		send(fd, out, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
	}
	close(fd);
}

/* The first bytes are usually there already (TCP_DEFER_ACCEPT). A connection
 * whose only request waits for its answer needs no place in the loop. */
static void start_connection(struct acceptor *acceptor, int fd, const struct sockaddr *address,
                             struct gauge_slot *slot)
{
	struct http_server *server = container_of(acceptor, struct http_server, acceptor);
	struct connection *connection = connection_new(server, fd, address, slot);
	if (!connection) {
		gauge_release(server->gauge, slot);
		close(fd);
		return;
	}
	counter_add(&server->counters.accepted, 1);
	counter_add(&server->counters.open, 1);
	connection_read(connection);
	if (connection->last && (connection->first || connection->closing))
		return;
	if (connection->handler.fd >= 0 && connection_register(connection))
		connection_close(connection);
}

/* A timer that has just run has left a place in the loop's heap: cannot fail. */
static void repeat_timer(struct http_server *server, struct loop_timer *timer, uint64_t after_ms)
{
	int error = loop_timer_set(server->loop, timer, after_ms);
	CHECK(!error);
}

static void expired(struct wheel_entry *entry)
{
	connection_expire(container_of(entry, struct connection, timeout));
}

static void turn_wheel(struct loop_timer *timer)
{
	struct http_server *server = container_of(timer, struct http_server, wheel_timer);
	repeat_timer(server, timer, server->wheel.tick_ms);
	wheel_run(&server->wheel, loop_now_ms(server->loop), expired);
}

/* Fine enough for the shortest limit, coarse enough to cost nothing. */
static uint64_t tick_for(const struct http_limits *limits)
{
	uint32_t least = limits->head_ms;
	if (limits->body_grace_ms < least)
		least = limits->body_grace_ms;
	if (limits->idle_ms < least)
		least = limits->idle_ms;
	if (limits->send_ms < least)
		least = limits->send_ms;
	uint32_t tick_ms = least / 8 > TICK_MS_MAX ? TICK_MS_MAX : least / 8;
	return tick_ms > 0 ? tick_ms : 1;
}

static void init_server(struct http_server *server, const struct http_server_options *options)
{
	server->loop = options->loop;
	server->acceptor = (struct acceptor){ .loop = options->loop,
		                              .gauge = options->gauge,
		                              .limits = options->limits,
		                              .taken = start_connection,
		                              .refused = turn_away };
	acceptor_init(&server->acceptor);
	server->wheel_timer.due = turn_wheel;
	server->hook.round = flush_dirty;
	server->hook_round = UINT64_MAX;
	server->dirty_end = &server->dirty;
	server->limits = options->limits;
	server->head_limits = (struct http1_limits){ .head_bytes = options->limits.head_bytes,
		                                     .headers = options->limits.headers };
	server->gauge = options->gauge;
	server->tls = options->tls;
	server->handle = options->handle;
	server->wants_body = options->wants_body;
	server->user = options->user;
	server->pool.gauge = options->gauge;
	server->pool.bytes_max = options->limits.input_bytes;
	server->scratch_size = options->scratch_size;
	server->headers = options->headers;
	wheel_init(&server->wheel, tick_for(&options->limits), loop_now_ms(options->loop));
}

static int start_listening(struct http_server *server, const struct http_server_options *options,
                           struct error_text *ret_text)
{
	uint16_t joined = options->joins ? options->joins->acceptor.port : 0;
	int error = loop_timer_set(server->loop, &server->wheel_timer, server->wheel.tick_ms);
	if (error)
		return error_fill(ret_text, error, "no memory for the HTTP server");
	return acceptor_open(&server->acceptor, options->address, joined, ret_text);
}

int http_server_new(const struct http_server_options *options, struct http_server **ret_server,
                    struct error_text *ret_text)
{
	CHECK(options->loop && options->gauge && options->handle && options->limits.body_rate > 0);
	struct http_server *server = mem_zalloc(1, sizeof(*server));
	if (!server)
		return error_fill(ret_text, -ENOMEM, "no memory for the HTTP server");
	init_server(server, options);
	loop_hook_add(server->loop, &server->hook);
	int error = 0;
	if (server->tls && !(server->cipher = mem_alloc(CONNECTION_CIPHER_ROOM)))
		error = error_fill(ret_text, -ENOMEM, "no memory for the HTTP server");
	if (!error)
		error = start_listening(server, options, ret_text);
	if (error) {
		http_server_free(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

int http_server_batch(struct http_server *server)
{
	CHECK(!server->batch);
	int error = socket_batch_new(&server->batch);
	if (error)
		return error;
	server->look_hook.round = receive_queued;
	loop_look_hook_add(server->loop, &server->look_hook);
	return 0;
}

static void free_spares(struct http_server *server)
{
	while (server->spare_connections) {
		struct connection *connection = server->spare_connections;
		server->spare_connections = connection->next;
		mem_free(connection);
	}
	while (server->spare_requests) {
		struct request *request = server->spare_requests;
		server->spare_requests = request->next;
		mem_free(request);
	}
	pool_free(&server->pool);
}

struct http_server *http_server_free(struct http_server *server)
{
	if (!server)
		return NULL;
	acceptor_close(&server->acceptor);
	loop_timer_clear(server->loop, &server->wheel_timer);
	loop_hook_remove(server->loop, &server->hook);
	loop_hook_remove(server->loop, &server->look_hook);
	while (server->connections) {
		struct connection *connection = server->connections;
		connection_close(connection);
		connection_drop_requests(connection);
		connection->dirty = false;
		connection_release(connection);
	}
	free_spares(server);
	server->batch = socket_batch_free(server->batch);
	mem_free(server->cipher);
	return mem_free(server);
}

/* Those that the kernel has already accepted for us are served, not reset. */
void http_server_drain(struct http_server *server)
{
	if (server->draining)
		return;
	if (server->batch)
		socket_batch_run(server->batch); /* no connection is closed while it receives */
	acceptor_take_rest(&server->acceptor);
	acceptor_close(&server->acceptor);
	server->draining = true;
	for (struct connection *connection = server->connections; connection;
	     connection = connection->next)
		if (connection->handler.fd >= 0 && connection_is_idle(connection))
			connection_close(connection);
}

void http_server_cut(struct http_server *server)
{
	http_server_drain(server);
	if (server->batch)
		socket_batch_run(server->batch);
	for (struct connection *connection = server->connections; connection;
	     connection = connection->next)
		connection_close(connection);
}

bool http_server_drained(const struct http_server *server)
{
	return server->draining && !server->connections;
}

const struct http_counters *http_server_counters(const struct http_server *server)
{
	return &server->counters;
}

uint16_t http_server_port(const struct http_server *server)
{
	return server->acceptor.port;
}
