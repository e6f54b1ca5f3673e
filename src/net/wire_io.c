/* Receiving and sending, plain or TLS. See wire.h. */
#include <errno.h>
#include <sys/socket.h>

#include "net/wire.h"

/* Together in one system call: what they receive should still be in the processor's
 * nearest cache when it is looked at. */
#define RECEIVES_MAX 16u

/* ---- receiving ---- */

/* Of what a recv gave: bytes, or 0 after noting why there are none. */
static size_t note_received(struct wire *wire, ssize_t result)
{
	if (likely(result > 0)) {
		counter_add(&wire->host->counters->bytes_in, (uint64_t)result);
		return (size_t)result;
	}
	if (result == 0) {
		wire->eof = true;
		wire_mark_dirty(wire);
	} else if (result != -EAGAIN) {
		wire_break_off(wire);
	}
	return 0;
}

static size_t receive(struct wire *wire, char *out, size_t room)
{
	ssize_t n;
	do
		n = recv(wire->handler.fd, out, room, 0);
	while (n < 0 && errno == EINTR);
	return note_received(wire, n < 0 ? -errno : n);
}

static bool make_room(struct wire *wire)
{
	if (likely(wire->host->kind->make_room(wire) == 0))
		return true;
	wire_break_off(wire);
	return false;
}

static char *free_bytes(const struct wire *wire)
{
	return wire->input->bytes + wire->in_len;
}

static size_t free_room(const struct wire *wire)
{
	return wire->input->room - wire->in_len;
}

/* True: there may be more. */
static bool keep_received(struct wire *wire, size_t n)
{
	size_t room = free_room(wire);
	wire->in_len += (uint32_t)n;
	return n > 0 && (n == room || wire->hangup);
}

static bool fill_plain(struct wire *wire)
{
	if (!make_room(wire))
		return false;
	return keep_received(wire, receive(wire, free_bytes(wire), free_room(wire)));
}

/* One that found nothing is tried once more by itself: it may be that the kernel did
 * not come to it, and no edge would tell again. An error is told only once. */
static void received(struct socket_call *call, ssize_t result)
{
	struct wire *wire = container_of(call, struct wire, receiving);
	bool more = true;
	if (likely(result != -EAGAIN && result != -EINTR))
		more = keep_received(wire, note_received(wire, result));
	wire_received(wire, more);
}

void wire_receive_together(struct wire *wire)
{
	struct socket_batch *batch = wire->host->batch;
	if (!make_room(wire))
		return;
	wire->receiving.done = received;
	socket_batch_recv(batch, &wire->receiving, wire->handler.fd, free_bytes(wire),
	                  free_room(wire));
	if (socket_batch_queued(batch) == RECEIVES_MAX)
		socket_batch_run(batch);
}

static void note_handshake(struct wire *wire)
{
	struct wire_host *host = wire->host;
	enum tls_progress progress = tls_session_progress(wire->tls);
	if (progress == TLS_HANDSHAKE)
		return;
	wire->greeted = true;
	if (host->kind->greeted)
		host->kind->greeted(wire);
	counter_add(&host->counters->tls_handshakes, 1);
	if (progress == TLS_RESUMED)
		counter_add(&host->counters->tls_resumed, 1);
}

/* The alert that says why is still to be sent, and read by the peer. */
static void end_tls(struct wire *wire, int error)
{
	if (error == 0) {
		wire->eof = true;
	} else if (error == -EPROTO) {
		if (!wire->greeted)
			counter_add(&wire->host->counters->tls_failed, 1);
		wire->last = wire->closing = wire->refused = true;
	} else {
		wire->broken = wire->last = true;
	}
	wire_mark_dirty(wire);
}

/* All that the session can decrypt goes behind what is in the input. */
static void decrypt(struct wire *wire)
{
	while (make_room(wire)) {
		int n = tls_session_read(wire->tls, free_bytes(wire), free_room(wire));
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			end_tls(wire, n);
			return;
		}
		wire->in_len += (uint32_t)n;
	}
}

static bool fill_tls(struct wire *wire)
{
	char *cipher = wire->host->cipher;
	size_t n = receive(wire, cipher, WIRE_CIPHER_ROOM);
	if (n == 0)
		return false;
	tls_session_feed(wire->tls, span_of(cipher, n));
	decrypt(wire);
	if (!wire->greeted)
		note_handshake(wire);
	if (outgoing_pending(tls_session_output(wire->tls)) > 0)
		wire_mark_dirty(wire);
	return n == WIRE_CIPHER_ROOM || wire->hangup;
}

bool wire_fill(struct wire *wire)
{
	return wire->tls ? fill_tls(wire) : fill_plain(wire);
}

/* ---- sending ---- */

bool wire_may_send(const struct wire *wire)
{
	return wire->handler.fd >= 0 && !wire->lingers && !wire->broken && !wire->stalled;
}

bool wire_has_output(const struct wire *wire)
{
	return outgoing_pending(&wire->out) > 0 ||
	       (wire->tls && outgoing_pending(tls_session_output(wire->tls)) > 0);
}

/* Until when the peer must have read something: the least rate counts from the
 * first stall on, so a byte now and then does not buy time for ever. */
static uint64_t send_deadline_ms(struct wire *wire)
{
	const struct wire_host *host = wire->host;
	uint64_t now_ms = loop_now_ms(host->loop);
	if (wire->stalled_ms == 0) {
		wire->stalled_ms = now_ms;
		wire->stalled_bytes = 0;
	}
	uint64_t bought_ms = wire->stalled_bytes * 1000 / host->send_rate;
	uint64_t in_all_ms = wire->stalled_ms + host->send_ms + bought_ms;
	return in_all_ms < now_ms + host->send_ms ? in_all_ms : now_ms + host->send_ms;
}

/* The kernel takes no more: an edge will tell when it does. */
static void stall(struct wire *wire)
{
	if (wire_register(wire)) {
		wire->broken = true;
		return;
	}
	wire->stalled = true;
	if (wire->host->kind->stalled)
		wire->host->kind->stalled(wire);
	wire_set_timeout(wire, send_deadline_ms(wire));
}

static void note_sent(struct wire *wire, struct outgoing *out, size_t n)
{
	out->at += n;
	wire->stalled_bytes += n;
	counter_add(&wire->host->counters->bytes_out, n);
}

static void send_bytes(struct wire *wire, struct outgoing *out)
{
	while (outgoing_pending(out) > 0) {
		ssize_t n = send(wire->handler.fd, out->buffer->bytes + out->at,
		                 outgoing_pending(out), MSG_NOSIGNAL);
		if (n >= 0) {
			note_sent(wire, out, (size_t)n);
		} else if (errno == EAGAIN) {
			stall(wire);
			return;
		} else if (errno != EINTR) {
			wire->broken = true;
			return;
		}
	}
	outgoing_clear(&wire->host->pool, out);
	wire->stalled_ms = 0;
}

/* The answers of a round become as few records as they fit in, and the goodbye
 * leaves with them. */
static void encrypt(struct wire *wire)
{
	struct outgoing *out = &wire->out;
	if (outgoing_pending(out) > 0 &&
	    tls_session_write(wire->tls, out->buffer->bytes + out->at, outgoing_pending(out)))
		wire->broken = true;
	outgoing_clear(&wire->host->pool, out);
	if (wire->closing && !wire->broken)
		tls_session_end(wire->tls);
}

static void sent_ahead(struct socket_call *call, ssize_t result)
{
	struct wire *wire = container_of(call, struct wire, sending);
	if (result > 0)
		note_sent(wire, &wire->out, (size_t)result);
}

void wire_send_ahead(struct wire *wire)
{
	const struct outgoing *out = &wire->out;
	if (wire->tls || !wire_may_send(wire) || outgoing_pending(out) == 0)
		return;
	wire->sending.done = sent_ahead;
	socket_batch_send(wire->host->batch, &wire->sending, wire->handler.fd,
	                  out->buffer->bytes + out->at, outgoing_pending(out));
}

void wire_send(struct wire *wire)
{
	if (!wire->tls) {
		send_bytes(wire, &wire->out);
		return;
	}
	encrypt(wire);
	if (!wire->broken)
		send_bytes(wire, tls_session_output(wire->tls));
}
