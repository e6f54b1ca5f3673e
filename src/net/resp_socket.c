/* Receiving and sending, plain or TLS. See resp_connection.h. */
#include <errno.h>
#include <sys/socket.h>

#include "net/resp_connection.h"

/* Together in one system call: see connection_io.c. */
#define RECEIVES_MAX 16u

void resp_break_off(struct resp_connection *connection)
{
	connection->broken = connection->last = true;
	resp_mark_dirty(connection);
}

/* Of what a recv gave: bytes, or 0 after noting why there are none. */
static size_t note_received(struct resp_connection *connection, ssize_t result)
{
	if (likely(result > 0)) {
		resp_count(&connection->server->counters.bytes_in, (uint64_t)result);
		return (size_t)result;
	}
	if (result == 0) {
		connection->eof = true;
		resp_mark_dirty(connection);
	} else if (result != -EAGAIN) {
		resp_break_off(connection);
	}
	return 0;
}

static size_t receive(struct resp_connection *connection, char *out, size_t room)
{
	ssize_t n;
	do
		n = recv(connection->handler.fd, out, room, 0);
	while (n < 0 && errno == EINTR);
	return note_received(connection, n < 0 ? -errno : n);
}

/* True: there may be more. */
static bool keep_received(struct resp_connection *connection, size_t n)
{
	size_t room = connection->input->room - connection->in_len;
	connection->in_len += (uint32_t)n;
	return n > 0 && (n == room || connection->hangup);
}

static bool make_room(struct resp_connection *connection)
{
	if (likely(resp_connection_make_room(connection) == 0))
		return true;
	resp_break_off(connection);
	return false;
}

static bool fill_plain(struct resp_connection *connection)
{
	if (!make_room(connection))
		return false;
	return keep_received(connection,
	                     receive(connection, connection->input->bytes + connection->in_len,
	                             connection->input->room - connection->in_len));
}

/* One that found nothing is tried once more by itself: it may be that the kernel did
 * not come to it, and no edge would tell again. An error is told only once. */
static void received(struct socket_call *call, ssize_t result)
{
	struct resp_connection *connection = container_of(call, struct resp_connection, receiving);
	bool more = true;
	if (likely(result != -EAGAIN && result != -EINTR))
		more = keep_received(connection, note_received(connection, result));
	resp_connection_received(connection, more);
}

void resp_receive_together(struct resp_connection *connection)
{
	struct socket_batch *batch = connection->server->batch;
	if (!make_room(connection))
		return;
	connection->receiving.done = received;
	socket_batch_recv(batch, &connection->receiving, connection->handler.fd,
	                  connection->input->bytes + connection->in_len,
	                  connection->input->room - connection->in_len);
	if (socket_batch_queued(batch) == RECEIVES_MAX)
		socket_batch_run(batch);
}

/* The alert that says why is still to be sent, and read by the peer. */
static void end_tls(struct resp_connection *connection, int error)
{
	if (error == 0)
		connection->eof = true;
	else if (error == -EPROTO)
		connection->last = connection->closing = connection->refused = true;
	else
		connection->broken = connection->last = true;
	resp_mark_dirty(connection);
}

static void decrypt(struct resp_connection *connection)
{
	while (make_room(connection)) {
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

static bool fill_tls(struct resp_connection *connection)
{
	char *cipher = connection->server->cipher;
	size_t n = receive(connection, cipher, RESP_CIPHER_ROOM);
	if (n == 0)
		return false;
	tls_session_feed(connection->tls, span_of(cipher, n));
	decrypt(connection);
	if (outgoing_pending(tls_session_output(connection->tls)) > 0)
		resp_mark_dirty(connection);
	return n == RESP_CIPHER_ROOM || connection->hangup;
}

bool resp_fill(struct resp_connection *connection)
{
	return connection->tls ? fill_tls(connection) : fill_plain(connection);
}

/* ---- sending ---- */

bool resp_may_send(const struct resp_connection *connection)
{
	return connection->handler.fd >= 0 && !connection->lingers && !connection->broken &&
	       !connection->stalled;
}

/* The kernel takes no more: an edge will tell when it does. */
static void stall(struct resp_connection *connection)
{
	struct resp_server *server = connection->server;
	if (resp_connection_register(connection)) {
		connection->broken = true;
		return;
	}
	connection->stalled = true;
	wheel_set(&server->wheel, &connection->timeout,
	          loop_now_ms(server->loop) + server->options.limits.send_ms);
}

static void note_sent(struct resp_connection *connection, struct outgoing *out, size_t n)
{
	out->at += n;
	resp_count(&connection->server->counters.bytes_out, n);
}

static void send_bytes(struct resp_connection *connection, struct outgoing *out)
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
}

/* The replies of a round become as few records as they fit in. */
static void encrypt(struct resp_connection *connection)
{
	struct outgoing *out = &connection->out;
	if (outgoing_pending(out) > 0 &&
	    tls_session_write(connection->tls, out->buffer->bytes + out->at, outgoing_pending(out)))
		connection->broken = true;
	outgoing_clear(&connection->server->pool, out);
	if (connection->closing && !connection->broken)
		tls_session_end(connection->tls);
}

static void sent_ahead(struct socket_call *call, ssize_t result)
{
	struct resp_connection *connection = container_of(call, struct resp_connection, sending);
	if (result > 0)
		note_sent(connection, &connection->out, (size_t)result);
}

void resp_send_ahead(struct resp_connection *connection)
{
	const struct outgoing *out = &connection->out;
	if (connection->tls || !resp_may_send(connection) || outgoing_pending(out) == 0)
		return;
	connection->sending.done = sent_ahead;
	socket_batch_send(connection->server->batch, &connection->sending, connection->handler.fd,
	                  out->buffer->bytes + out->at, outgoing_pending(out));
}

void resp_send(struct resp_connection *connection)
{
	if (!connection->tls) {
		send_bytes(connection, &connection->out);
		return;
	}
	encrypt(connection);
	if (!connection->broken)
		send_bytes(connection, tls_session_output(connection->tls));
}

bool resp_has_output(const struct resp_connection *connection)
{
	return outgoing_pending(&connection->out) > 0 ||
	       (connection->tls && outgoing_pending(tls_session_output(connection->tls)) > 0);
}
