/* What a wire of HTTP is: its life and its time-outs. See connection.h. */
#include "net/http/connection.h"

#include "base/mem.h"
#include "codec/socket_address.h"

static struct wire *make(struct wire_host *host, int fd, const struct sockaddr *address,
                         struct tls_session *tls)
{
	struct http_server *server = container_of(host, struct http_server, host);
	struct wire *spare = server->spare_connections;
	struct connection *connection;
	(void)fd;
	if (spare) {
		server->spare_connections = spare->next;
		connection = connection_of(spare);
	} else {
		connection = mem_alloc(sizeof(*connection));
		if (!connection)
			return NULL;
	}
	*connection = (struct connection){
		.server = server,
		.peer = { .address = socket_address_ip(address),
		          .port = socket_address_port(address),
		          .local = socket_address_is_unix(address),
		          .tls = tls },
		.phase = PHASE_HEAD,
	};
	return &connection->wire;
}

static void begun(struct wire *wire)
{
	struct http_server *server = connection_of(wire)->server;
	wire_set_timeout(wire, loop_now_ms(server->host.loop) + server->limits.head_ms);
}

static void closed(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	if (connection->current)
		request_free(connection->current);
	connection->current = NULL;
}

/* Requests at the handler live on until they are answered. */
static void release(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_server *server = connection->server;
	if (connection->first)
		return;
	wire_unlink(wire);
	connection->names = mem_free(connection->names);
	wire->next = server->spare_connections;
	server->spare_connections = wire;
}

static bool is_idle(const struct wire *wire)
{
	const struct connection *connection = connection_of_const(wire);
	return !connection->first && !connection->current && !wire->input && !wire_has_output(wire);
}

static bool is_asked(const struct wire *wire)
{
	return connection_of_const(wire)->first;
}

/* What the peer's certificate says of it, before any of its requests is seen. */
static void learn_names(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_peer *peer = &connection->peer;
	if (!tls_session_is_certified(wire->tls))
		return;
	if (tls_session_names(wire->tls, &connection->names)) {
		wire_break_off(wire);
		return;
	}
	peer->certified = true;
	peer->name_count = connection->names->count;
	peer->names = connection->names->names;
}

/* The deadline that fits to what the connection is doing. A head has one deadline
 * from its beginning: bytes do not buy time. Those of a body buy time until the next
 * judgement, and no more: nobody fills our memory and then waits. */
static void set_deadline(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	const struct http_limits *limits = &connection->server->limits;
	uint64_t now_ms = loop_now_ms(connection->server->host.loop), deadline_ms = WHEEL_NEVER;
	uint8_t phase = PHASE_WAIT;
	if (connection->current)
		phase = PHASE_BODY;
	else if (wire->in_at < wire->in_len && !wire->paused && !wire->last)
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
	wire_set_timeout(wire, deadline_ms);
}

/* All is sent. */
static void rest(struct wire *wire)
{
	connection_offer_continue(connection_of(wire));
	set_deadline(wire);
}

static void stalled(struct wire *wire)
{
	connection_of(wire)->phase = PHASE_SEND;
}

/* Judges what came since the last time; the next time counts from here. */
static bool body_is_slow(struct connection *connection, uint64_t now_ms)
{
	uint32_t seen = connection->wire.in_len - connection->wire.in_at - connection->head_len;
	uint64_t bytes = seen > connection->body_seen ? seen - connection->body_seen : 0;
	uint64_t passed_ms = now_ms - connection->body_since_ms;
	connection->body_seen = seen;
	connection->body_since_ms = now_ms;
	return bytes < passed_ms * connection->server->limits.body_rate / 1000;
}

static void expired(struct wire *wire)
{
	struct connection *connection = connection_of(wire);
	struct http_server *server = connection->server;
	uint64_t now_ms = loop_now_ms(server->host.loop);
	if (wire->lingers) {
		wire_close(wire);
		return;
	}
	if (connection->phase == PHASE_BODY && !body_is_slow(connection, now_ms)) {
		wire_set_timeout(wire, now_ms + server->limits.body_grace_ms);
		return;
	}
	if (connection->phase != PHASE_IDLE)
		counter_add(&server->counters.wires.timeouts, 1);
	/* Who has sent nothing has asked nothing, and gets no answer. */
	if (connection->phase == PHASE_BODY || (connection->phase == PHASE_HEAD && wire->input))
		connection_refuse(connection, 408, "the request took too long to arrive");
	else
		wire_close(wire);
}

const struct wire_kind connection_kind = {
	.make = make,
	.begun = begun,
	.make_room = connection_make_room,
	.process = connection_process,
	.must_pause = connection_must_pause,
	.set_deadline = set_deadline,
	.rest = rest,
	.is_asked = is_asked,
	.is_idle = is_idle,
	.expired = expired,
	.release = release,
	.greeted = learn_names,
	.stalled = stalled,
	.closed = closed,
};
