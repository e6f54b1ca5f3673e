/* Receiving and sending, plain or TLS. See connection.h. */
#include <errno.h>
#include <sys/socket.h>

#include "net/connection.h"

/* Together in one system call: what they receive should still be in the processor's
 * nearest cache when it is looked at. */
#define RECEIVES_MAX 16u

static void break_off(struct connection *connection)
{
	connection->broken = connection->last = true;
	server_mark_dirty(connection->server, connection);
}

/* Of what a recv gave: bytes, or 0 after noting why there are none. */
static size_t note_received(struct connection *connection, ssize_t result)
{
	if (likely(result > 0)) {
		counter_add(&connection->server->counters.bytes_in, (uint64_t)result);
		return (size_t)result;
	}
	if (result == 0) {
		connection->eof = true;
		server_mark_dirty(connection->server, connection);
	} else if (result != -EAGAIN) {
		break_off(connection);
	}
	return 0;
}

static size_t receive(struct connection *connection, char *out, size_t room)
{
	ssize_t n;
	do
		n = recv(connection->handler.fd, out, room, 0);
	while (n < 0 && errno == EINTR);
	return note_received(connection, n < 0 ? -errno : n);
}

/* True: there may be more. */
static bool keep_received(struct connection *connection, size_t n)
{
	size_t room = connection->input->room - connection->in_len;
	connection->in_len += (uint32_t)n;
	return n > 0 && (n == room || connection->hangup);
}

static bool fill_plain(struct connection *connection)
{
	if (connection_make_room(connection)) {
		break_off(connection);
		return false;
	}
	size_t room = connection->input->room - connection->in_len;
	size_t n = receive(connection, connection->input->bytes + connection->in_len, room);
	return keep_received(connection, n);
}

/* One that found nothing is tried once more by itself: it may be that the kernel did
 * not come to it, and no edge would tell again. An error is told only once. */
static void received(struct socket_call *call, ssize_t result)
{
	struct connection *connection = container_of(call, struct connection, receiving);
	bool more = true;
	if (likely(result != -EAGAIN && result != -EINTR))
		more = keep_received(connection, note_received(connection, result));
	connection_received(connection, more);
}

void connection_receive_together(struct connection *connection, struct socket_batch *batch)
{
	if (connection_make_room(connection)) {
		break_off(connection);
		return;
	}
	connection->receiving.done = received;
	socket_batch_recv(batch, &connection->receiving, connection->handler.fd,
	                  connection->input->bytes + connection->in_len,
	                  connection->input->room - connection->in_len);
	if (socket_batch_queued(batch) == RECEIVES_MAX)
		socket_batch_run(batch);
}

/* What the peer's certificate says of it, before any of its requests is seen. */
static void learn_names(struct connection *connection)
{
	struct http_peer *peer = &connection->peer;
	if (!tls_session_is_certified(connection->tls))
		return;
	if (tls_session_names(connection->tls, &connection->names)) {
		break_off(connection);
		return;
	}
	peer->certified = true;
	peer->name_count = connection->names->count;
	peer->names = connection->names->names;
}

static void note_handshake(struct connection *connection)
{
	struct http_counters *counters = &connection->server->counters;
	enum tls_progress progress = tls_session_progress(connection->tls);
	if (progress == TLS_HANDSHAKE)
		return;
	connection->greeted = true;
	learn_names(connection);
	counter_add(&counters->tls_handshakes, 1);
	if (progress == TLS_RESUMED)
		counter_add(&counters->tls_resumed, 1);
}

/* The alert that says why is still to be sent, and read by the peer. */
static void end_tls(struct connection *connection, int error)
{
	if (error == 0) {
		connection->eof = true;
	} else if (error == -EPROTO) {
		if (!connection->greeted)
			counter_add(&connection->server->counters.tls_failed, 1);
		connection->last = connection->closing = connection->refused = true;
	} else {
		connection->broken = connection->last = true;
	}
	server_mark_dirty(connection->server, connection);
}

/* All that the session can decrypt goes behind what is in the input. */
static void decrypt(struct connection *connection)
{
	for (;;) {
		if (connection_make_room(connection)) {
			break_off(connection);
			return;
		}
		int n = tls_session_read(connection->tls,
		                         connection->input->bytes + connection->in_len,
		                         connection->input->room - connection->in_len);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			end_tls(connection, n);
			return;
		}
		connection->in_len += (uint32_t)n;
	}
}

static bool fill_tls(struct connection *connection)
{
	char *cipher = connection->server->cipher;
	size_t n = receive(connection, cipher, CONNECTION_CIPHER_ROOM);
	if (n == 0)
		return false;
	tls_session_feed(connection->tls, span_of(cipher, n));
	decrypt(connection);
	if (!connection->greeted)
		note_handshake(connection);
	if (outgoing_pending(tls_session_output(connection->tls)) > 0)
		server_mark_dirty(connection->server, connection);
	return n == CONNECTION_CIPHER_ROOM || connection->hangup;
}

bool connection_fill(struct connection *connection)
{
	return connection->tls ? fill_tls(connection) : fill_plain(connection);
}

/* The answers of a round become as few records as they fit in, and the goodbye
 * leaves with them. */
static void encrypt(struct connection *connection)
{
	struct outgoing *out = &connection->out;
	if (outgoing_pending(out) > 0 &&
	    tls_session_write(connection->tls, out->buffer->bytes + out->at, outgoing_pending(out)))
		connection->broken = true;
	outgoing_clear(&connection->server->pool, out);
	if (connection->closing && !connection->broken)
		tls_session_end(connection->tls);
}

/* Until when the peer must have read something: the least rate counts from the
 * first stall on, so a byte now and then does not buy time for ever. */
static uint64_t send_deadline_ms(struct connection *connection)
{
	const struct http_limits *limits = &connection->server->limits;
	uint64_t now_ms = loop_now_ms(connection->server->loop);
	if (connection->stalled_ms == 0) {
		connection->stalled_ms = now_ms;
		connection->stalled_bytes = 0;
	}
	uint64_t bought_ms = connection->stalled_bytes * 1000 / limits->body_rate;
	uint64_t in_all_ms = connection->stalled_ms + limits->send_ms + bought_ms;
	return in_all_ms < now_ms + limits->send_ms ? in_all_ms : now_ms + limits->send_ms;
}

/* The kernel takes no more: an edge will tell when it does. */
static void stall(struct connection *connection)
{
	struct http_server *server = connection->server;
	if (connection_register(connection)) {
		connection->broken = true;
		return;
	}
	connection->stalled = true;
	connection->phase = PHASE_SEND;
	wheel_set(&server->wheel, &connection->timeout, send_deadline_ms(connection));
}

static void note_sent(struct connection *connection, struct outgoing *out, size_t n)
{
	out->at += n;
	connection->stalled_bytes += n;
	counter_add(&connection->server->counters.bytes_out, n);
}

static void send_bytes(struct connection *connection, struct outgoing *out)
{
	while (outgoing_pending(out) > 0) {
		ssize_t n = send(connection->handler.fd, out->buffer->bytes + out->at,
		                 outgoing_pending(out), MSG_NOSIGNAL);
		if (n >= 0) {
			note_sent(connection, out, (size_t)n);
		} else if (errno == EAGAIN) {
			stall(connection);
			return;
		} else if (errno != EINTR) {
			connection->broken = true;
			return;
		}
	}
	outgoing_clear(&connection->server->pool, out);
	connection->stalled_ms = 0;
}

static void sent_ahead(struct socket_call *call, ssize_t result)
{
	struct connection *connection = container_of(call, struct connection, sending);
	if (result > 0)
		note_sent(connection, &connection->out, (size_t)result);
}

void connection_send_ahead(struct connection *connection, struct socket_batch *batch)
{
	const struct outgoing *out = &connection->out;
	if (connection->tls || !connection_may_send(connection) || outgoing_pending(out) == 0)
		return;
	connection->sending.done = sent_ahead;
	socket_batch_send(batch, &connection->sending, connection->handler.fd,
	                  out->buffer->bytes + out->at, outgoing_pending(out));
}

void connection_send(struct connection *connection)
{
	if (connection->tls) {
		encrypt(connection);
		if (!connection->broken)
			send_bytes(connection, tls_session_output(connection->tls));
	} else {
		send_bytes(connection, &connection->out);
	}
}

bool connection_has_output(const struct connection *connection)
{
	return outgoing_pending(&connection->out) > 0 ||
	       (connection->tls && outgoing_pending(tls_session_output(connection->tls)) > 0);
}
