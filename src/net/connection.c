/* A connection's life: reading, sending, time-outs, the end. See connection.h. */
#include "net/connection.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "codec/socket_address.h"

#define READS_PER_ROUND 4 /* of one connection, before others get their turn */

static void ready(struct loop_handler *handler, uint32_t events);

struct connection *connection_new(struct http_server *server, int fd,
                                  const struct sockaddr *address, struct gauge_slot *slot)
{
	struct connection *connection = server->spare_connections;
	if (connection)
		server->spare_connections = connection->next;
	else
		connection = mem_alloc(sizeof(*connection));
	if (!connection)
		return NULL;
	struct tls_session *tls = NULL;
	if (server->tls && tls_session_new(server->tls, &server->pool, &tls)) {
		connection->next = server->spare_connections;
		server->spare_connections = connection;
		return NULL;
	}
	*connection = (struct connection){
		.handler = { .ready = ready, .fd = fd },
		.server = server,
		.slot = slot,
		.peer = { .address = socket_address_ip(address),
		          .port = socket_address_port(address),
		          .tls = tls },
		.tls = tls,
		.next = server->connections,
		.prev = &server->connections,
		.phase = PHASE_HEAD,
	};
	if (server->connections)
		server->connections->prev = &connection->next;
	server->connections = connection;
	wheel_set(&server->wheel, &connection->timeout,
	          loop_now_ms(server->loop) + server->limits.head_ms);
	return connection;
}

/* Edge-triggered for both directions, once: no call to change it is ever needed. */
int connection_register(struct connection *connection)
{
	int error = 0;
	if (!connection->registered)
		error = loop_add(connection->server->loop, &connection->handler,
		                 LOOP_READ | LOOP_WRITE | LOOP_EDGE);
	if (!error)
		connection->registered = true;
	return error;
}

void connection_close(struct connection *connection)
{
	struct http_server *server = connection->server;
	if (connection->handler.fd < 0)
		return;
	if (connection->registered)
		loop_forget(server->loop, &connection->handler);
	close(connection->handler.fd);
	connection->handler.fd = -1;
	wheel_remove(&connection->timeout);
	gauge_release(server->gauge, connection->slot);
	outgoing_clear(&server->pool, &connection->out);
	connection->tls = tls_session_free(connection->tls);
	pool_drop_input(&server->pool, connection->input);
	connection->input = NULL;
	if (connection->current)
		request_free(connection->current);
	connection->current = NULL;
	counter_add(&server->counters.open, UINT64_MAX);
	if (server->flushing != connection)
		server_mark_dirty(server, connection);
}

void connection_release(struct connection *connection)
{
	struct http_server *server = connection->server;
	CHECK(connection->handler.fd < 0 && !connection->first && !connection->dirty);
	*connection->prev = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	connection->names = mem_free(connection->names);
	connection->next = server->spare_connections;
	server->spare_connections = connection;
}

bool connection_is_idle(const struct connection *connection)
{
	return !connection->first && !connection->current && !connection->input &&
	       !connection_has_output(connection);
}

/* The deadline that fits to what the connection is doing. A head has one deadline
 * from its beginning: bytes do not buy time. Those of a body buy time until the next
 * judgement, and no more: nobody fills our memory and then waits. */
static void set_deadline(struct connection *connection)
{
	const struct http_limits *limits = &connection->server->limits;
	uint64_t now_ms = loop_now_ms(connection->server->loop), deadline_ms = WHEEL_NEVER;
	uint8_t phase = PHASE_WAIT;
	if (connection->current)
		phase = PHASE_BODY;
	else if (connection->in_at < connection->in_len && !connection->paused && !connection->last)
		phase = PHASE_HEAD;
	else if (!connection->first)
		phase = connection->phase == PHASE_HEAD ? PHASE_HEAD : PHASE_IDLE;
	if (phase == connection->phase && phase != PHASE_IDLE)
		return;
	connection->phase = phase;
	if (phase == PHASE_BODY) {
		connection->body_since_ms = now_ms;
		connection->body_seen = 0;
		deadline_ms = now_ms + limits->body_grace_ms;
	} else if (phase == PHASE_HEAD) {
		deadline_ms = now_ms + limits->head_ms;
	} else if (phase == PHASE_IDLE) {
		deadline_ms = now_ms + limits->idle_ms;
	}
	wheel_set(&connection->server->wheel, &connection->timeout, deadline_ms);
}

/* After an answer that does not wait for the peer's rest, closing at once could
 * make the kernel reset the connection and the peer lose the answer. So what
 * comes is thrown away for a while. */
static void linger(struct connection *connection)
{
	for (;;) {
		ssize_t n = recv(connection->handler.fd, NULL, CONNECTION_LINGER_BYTES, MSG_TRUNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		connection->lingered += n > 0 ? (uint32_t)n : 0;
		if (n <= 0 || connection->lingered >= CONNECTION_LINGER_BYTES)
			break;
	}
	connection_close(connection);
}

static void begin_linger(struct connection *connection)
{
	struct http_server *server = connection->server;
	if (connection->eof || shutdown(connection->handler.fd, SHUT_WR) ||
	    connection_register(connection)) {
		connection_close(connection);
		return;
	}
	connection->phase = PHASE_LINGER;
	wheel_set(&server->wheel, &connection->timeout,
	          loop_now_ms(server->loop) + CONNECTION_LINGER_MS);
	linger(connection);
}

/* After so many reads, the last of which said whether there is more. */
static void read_on(struct connection *connection, int reads, bool more)
{
	for (int i = reads; more && !connection->last && !connection->eof; i++) {
		if (connection->paused || i == READS_PER_ROUND) {
			connection->read_due = true;
			break;
		}
		more = connection_fill(connection);
		connection_process(connection);
	}
	if (connection->read_due && !connection->paused)
		server_mark_dirty(connection->server, connection);
	if (!connection->stalled)
		set_deadline(connection);
}

void connection_read(struct connection *connection)
{
	if (connection->phase == PHASE_LINGER) {
		linger(connection);
		return;
	}
	if (connection->last)
		connection->refused = true; /* something comes that nobody will read */
	connection->read_due = false;
	read_on(connection, 0, true);
}

void connection_received(struct connection *connection, bool more)
{
	connection_process(connection);
	read_on(connection, 1, more);
}

static bool may_receive(const struct connection *connection)
{
	return connection->phase != PHASE_LINGER && !connection->last && !connection->eof &&
	       !connection->paused;
}

/* With others if it can be. */
static void read_ready(struct connection *connection)
{
	struct socket_batch *batch = connection->server->batch;
	if (!batch || connection->tls || !may_receive(connection)) {
		connection_read(connection);
		return;
	}
	connection->read_due = false;
	connection_receive_together(connection, batch);
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct connection *connection = container_of(handler, struct connection, handler);
	if (events & LOOP_HANGUP)
		connection->hangup = true;
	if ((events & LOOP_WRITE) && connection->stalled) {
		connection->stalled = false;
		server_mark_dirty(connection->server, connection);
	}
	if (events & LOOP_READ)
		read_ready(connection);
}

/* Goes on where reading was paused. Requests that come of it missed this
 * round's earlier hooks, so the next round must not wait. */
static void resume(struct connection *connection)
{
	connection->paused = false;
	loop_again(connection->server->loop);
	connection_process(connection);
	if (connection->read_due && !connection->paused)
		connection_read(connection);
	else
		set_deadline(connection);
}

/* Everything is sent; what now? */
static void settle(struct connection *connection)
{
	bool idle = connection_is_idle(connection);
	if (connection->closing) {
		if (connection->refused)
			begin_linger(connection);
		else
			connection_close(connection);
	} else if ((connection->paused || connection->read_due) &&
	           !connection_must_pause(connection)) {
		resume(connection);
	} else if (connection->eof && !connection->first) {
		connection_close(connection);
	} else if (idle && connection->server->draining) {
		connection_close(connection);
	} else {
		connection_offer_continue(connection);
		set_deadline(connection);
	}
}

bool connection_may_send(const struct connection *connection)
{
	return connection->handler.fd >= 0 && connection->phase != PHASE_LINGER &&
	       !connection->broken && !connection->stalled;
}

void connection_flush(struct connection *connection)
{
	if (connection->handler.fd < 0 || connection->phase == PHASE_LINGER)
		return;
	if (connection_may_send(connection))
		connection_send(connection);
	if (connection->broken)
		connection_close(connection);
	else if (!connection->stalled)
		settle(connection);
}

/* Judges what came since the last time; the next time counts from here. */
static bool body_is_slow(struct connection *connection, uint64_t now_ms)
{
	uint32_t seen = connection->in_len - connection->in_at - connection->head_len;
	uint64_t bytes = seen > connection->body_seen ? seen - connection->body_seen : 0;
	uint64_t passed_ms = now_ms - connection->body_since_ms;
	connection->body_seen = seen;
	connection->body_since_ms = now_ms;
	return bytes < passed_ms * connection->server->limits.body_rate / 1000;
}

void connection_expire(struct connection *connection)
{
	struct http_server *server = connection->server;
	uint64_t now_ms = loop_now_ms(server->loop);
	if (connection->phase == PHASE_BODY && !body_is_slow(connection, now_ms)) {
		wheel_set(&server->wheel, &connection->timeout,
		          now_ms + server->limits.body_grace_ms);
		return;
	}
	if (connection->phase != PHASE_IDLE && connection->phase != PHASE_LINGER)
		counter_add(&server->counters.timeouts, 1);
	/* Who has sent nothing has asked nothing, and gets no answer. */
	if (connection->phase == PHASE_BODY ||
	    (connection->phase == PHASE_HEAD && connection->input))
		connection_refuse(connection, 408, "the request took too long to arrive");
	else
		connection_close(connection);
}
