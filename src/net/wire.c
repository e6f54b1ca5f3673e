/*
 * wire: see wire.h. Receiving, sending, reading, the round, accepting, time-outs, the end:
 * in this order.
 */
#include "net/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

/* In one system call: what they receive should still be in the first-level cache when it
 * is processed. */
#define RECEIVES_MAX 16u

/* ---- begin and end of a wire ---- */

#define READS_PER_ROUND 4 /* of one wire, before others get their turn */
#define LINGER_MS 2000u

static void ready(struct loop_handler *handler, uint32_t events);

void wire_mark_dirty(struct wire *wire)
{
	struct wire_host *host = wire->host;
	if (wire->dirty)
		return;
	wire->dirty = true;
	wire->dirty_next = NULL;
	*host->dirty_end = wire;
	host->dirty_end = &wire->dirty_next;
	if (host->hook_round == loop_round(host->loop))
		loop_again(host->loop); /* this round's hook will not see it */
}

void wire_break_off(struct wire *wire)
{
	wire_advance(wire, WIRE_BROKEN);
	wire_mark_dirty(wire);
}

void wire_set_timeout(struct wire *wire, uint64_t deadline_ms)
{
	wheel_set(&wire->host->wheel, &wire->timeout, deadline_ms);
}

/* Edge-triggered for both directions, once: no call to change it is ever needed. */
static int register_in_loop(struct wire *wire)
{
	int error = 0;
	if (!wire->registered)
		error = loop_add(wire->host->loop, &wire->handler,
		                 LOOP_READ | LOOP_WRITE | LOOP_EDGE);
	if (!error)
		wire->registered = true;
	return error;
}

void wire_close(struct wire *wire)
{
	struct wire_host *host = wire->host;
	if (wire->handler.fd < 0)
		return;
	if (wire->registered)
		loop_forget(host->loop, &wire->handler);
	close(wire->handler.fd);
	wire->handler.fd = -1;
	wheel_remove(&wire->timeout);
	gauge_release(host->acceptor.gauge, wire->slot);
	outgoing_clear(&host->pool, &wire->out);
	wire->tls = tls_session_free(wire->tls);
	pool_drop_input(&host->pool, wire->input);
	wire->input = NULL;
	if (host->kind->closed)
		host->kind->closed(wire);
	counter_add(&host->counters->open, UINT64_MAX);
	if (host->flushing != wire)
		wire_mark_dirty(wire);
}

void wire_unlink(struct wire *wire)
{
	CHECK(wire->handler.fd < 0 && !wire->dirty);
	*wire->prev = wire->next;
	if (wire->next)
		wire->next->prev = wire->prev;
}

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

/* The alert with the reason is still to be sent, and read by the peer. */
static void end_tls(struct wire *wire, int error)
{
	if (error == 0) {
		wire->eof = true;
	} else if (error == -EPROTO) {
		if (!wire->greeted)
			counter_add(&wire->host->counters->tls_failed, 1);
		wire->refused = true;
		wire_advance(wire, WIRE_CLOSING);
	} else {
		wire_advance(wire, WIRE_BROKEN);
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

static bool fill(struct wire *wire)
{
	return wire->tls ? fill_tls(wire) : fill_plain(wire);
}

/* ---- sending ---- */

static bool may_send(const struct wire *wire)
{
	return wire->handler.fd >= 0 && wire->life < WIRE_LINGERING && !wire->stalled;
}

bool wire_has_output(const struct wire *wire)
{
	return outgoing_pending(&wire->out) > 0 ||
	       (wire->tls && outgoing_pending(tls_session_output(wire->tls)) > 0);
}

/* When the peer must have read something: the least rate counts from the first stall on,
 * so a byte now and then does not extend the deadline for ever. */
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

/* The kernel takes no more: an edge will report when it does. */
static void stall(struct wire *wire)
{
	if (register_in_loop(wire)) {
		wire_advance(wire, WIRE_BROKEN);
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
			wire_advance(wire, WIRE_BROKEN);
			return;
		}
	}
	outgoing_clear(&wire->host->pool, out);
	wire->stalled_ms = 0;
}

static void sent_ahead(struct socket_call *call, ssize_t result)
{
	struct wire *wire = container_of(call, struct wire, sending);
	if (result > 0)
		note_sent(wire, &wire->out, (size_t)result);
}

static void send_output(struct wire *wire)
{
	if (!wire->tls) {
		send_bytes(wire, &wire->out);
		return;
	}
	/* The answers of a round become as few records as possible, and the end of our side
	 * leaves with them. */
	struct outgoing *out = &wire->out;
	if (outgoing_pending(out) > 0 &&
	    tls_session_write(wire->tls, out->buffer->bytes + out->at, outgoing_pending(out)))
		wire_advance(wire, WIRE_BROKEN);
	outgoing_clear(&wire->host->pool, out);
	if (wire->life == WIRE_CLOSING)
		tls_session_end(wire->tls);
	if (wire->life != WIRE_BROKEN)
		send_bytes(wire, tls_session_output(wire->tls));
}

/* ---- reading ---- */

/* After an answer that does not wait for the peer's rest, closing at once could
 * make the kernel reset the connection and the peer lose the answer. So what
 * arrives is discarded for a while. */
static void linger(struct wire *wire)
{
	for (;;) {
		ssize_t n = recv(wire->handler.fd, NULL, WIRE_LINGER_BYTES, MSG_TRUNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		wire->lingered += n > 0 ? (uint32_t)n : 0;
		if (n <= 0 || wire->lingered >= WIRE_LINGER_BYTES)
			break;
	}
	wire_close(wire);
}

static void begin_linger(struct wire *wire)
{
	if (wire->eof || shutdown(wire->handler.fd, SHUT_WR) || register_in_loop(wire)) {
		wire_close(wire);
		return;
	}
	wire_advance(wire, WIRE_LINGERING);
	wire_set_timeout(wire, loop_now_ms(wire->host->loop) + LINGER_MS);
	linger(wire);
}

/* `reads` were done already; `more`: the last one may have left bytes. */
static void read_on(struct wire *wire, int reads, bool more)
{
	const struct wire_kind *kind = wire->host->kind;
	for (int i = reads; more && wire->life == WIRE_OPEN && !wire->eof; i++) {
		if (wire->paused || i == READS_PER_ROUND) {
			wire->read_due = true;
			break;
		}
		more = fill(wire);
		kind->process(wire);
	}
	if (wire->read_due && !wire->paused)
		wire_mark_dirty(wire);
	if (!wire->stalled)
		kind->set_deadline(wire);
}

static void read_input(struct wire *wire)
{
	if (wire->life == WIRE_LINGERING) {
		linger(wire);
		return;
	}
	if (wire->life != WIRE_OPEN)
		wire->refused = true; /* bytes that are never processed */
	wire->read_due = false;
	read_on(wire, 0, true);
}

/* A call that found nothing is repeated alone: the kernel may have skipped it, and no edge
 * would report the bytes again. An error is reported only once. */
static void received(struct socket_call *call, ssize_t result)
{
	struct wire *wire = container_of(call, struct wire, receiving);
	bool more = true;
	if (likely(result != -EAGAIN && result != -EINTR))
		more = keep_received(wire, note_received(wire, result));
	wire->host->kind->process(wire);
	read_on(wire, 1, more);
}

static void receive_together(struct wire *wire)
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

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct wire *wire = container_of(handler, struct wire, handler);
	if (events & LOOP_HANGUP)
		wire->hangup = true;
	if ((events & LOOP_WRITE) && wire->stalled) {
		wire->stalled = false;
		wire_mark_dirty(wire);
	}
	if (!(events & LOOP_READ))
		return;
	/* With others if it can be. */
	if (wire->host->batch && !wire->tls && wire->life == WIRE_OPEN && !wire->eof &&
	    !wire->paused) {
		wire->read_due = false;
		receive_together(wire);
	} else {
		read_input(wire);
	}
}

/* ---- the round ---- */

/* Continues reading after a pause. Its results missed this round's earlier hooks, so the
 * next round must not wait. */
static void resume(struct wire *wire)
{
	const struct wire_kind *kind = wire->host->kind;
	wire->paused = false;
	loop_again(wire->host->loop);
	kind->process(wire);
	if (wire->read_due && !wire->paused)
		read_input(wire);
	else
		kind->set_deadline(wire);
}

/* Everything is sent: the next step. */
static void settle(struct wire *wire)
{
	const struct wire_kind *kind = wire->host->kind;
	if (wire->life == WIRE_CLOSING) {
		if (wire->refused)
			begin_linger(wire);
		else
			wire_close(wire);
	} else if ((wire->paused || wire->read_due) && !kind->must_pause(wire)) {
		resume(wire);
	} else if (wire->eof && !kind->is_asked(wire)) {
		wire_close(wire);
	} else if (wire->host->draining && kind->is_idle(wire)) {
		wire_close(wire);
	} else {
		kind->rest(wire);
	}
}

static void flush(struct wire *wire)
{
	if (wire->handler.fd < 0 || wire->life == WIRE_LINGERING)
		return;
	if (may_send(wire))
		send_output(wire);
	if (wire->life == WIRE_BROKEN)
		wire_close(wire);
	else if (!wire->stalled)
		settle(wire);
}

/* All that can be sent, at once. What the kernel does not take now, the flush of the
 * wire offers again; after an error that fails too, if only with EPIPE. */
static void send_ahead(struct wire_host *host, struct wire *first)
{
	if (!host->batch)
		return;
	for (struct wire *wire = first; wire; wire = wire->dirty_next) {
		const struct outgoing *out = &wire->out;
		if (wire->tls || !may_send(wire) || outgoing_pending(out) == 0)
			continue;
		wire->sending.done = sent_ahead;
		socket_batch_send(host->batch, &wire->sending, wire->handler.fd,
		                  out->buffer->bytes + out->at, outgoing_pending(out));
	}
	socket_batch_run(host->batch);
}

/* Takes the list as it is: what gets dirty meanwhile waits for the next round,
 * so that earlier hooks come first. */
static void run_round(struct loop_hook *hook)
{
	struct wire_host *host = container_of(hook, struct wire_host, hook);
	struct wire *wire = host->dirty;
	host->hook_round = loop_round(host->loop);
	host->dirty = NULL;
	host->dirty_end = &host->dirty;
	if (host->kind->round)
		host->kind->round(host, wire);
	send_ahead(host, wire);
	while (wire) {
		struct wire *next = wire->dirty_next;
		if (next)
			__builtin_prefetch(next->out.buffer);
		wire->dirty = false;
		host->flushing = wire;
		flush(wire);
		host->flushing = NULL;
		if (wire->handler.fd < 0 && !wire->dirty)
			host->kind->release(wire);
		wire = next;
	}
	if (host->kind->round_ends)
		host->kind->round_ends(host);
}

/* ---- accepting ---- */

/* The first bytes are usually there already (TCP_DEFER_ACCEPT). A wire that only
 * has to send one answer and end needs no place in the loop. */
static void taken(struct acceptor *acceptor, int fd, const struct sockaddr *address,
                  struct gauge_slot *slot)
{
	struct wire_host *host = container_of(acceptor, struct wire_host, acceptor);
	struct tls_session *tls = NULL;
	struct wire *wire = NULL;
	if (!host->tls || tls_session_new(host->tls, &host->pool, &tls) == 0)
		wire = host->kind->make(host, fd, address, tls);
	if (!wire) {
		tls_session_free(tls);
		gauge_release(acceptor->gauge, slot);
		close(fd);
		return;
	}
	*wire = (struct wire){ .handler = { .ready = ready, .fd = fd },
		               .host = host,
		               .tls = tls,
		               .slot = slot,
		               .next = host->wires,
		               .prev = &host->wires };
	if (host->wires)
		host->wires->prev = &wire->next;
	host->wires = wire;
	host->kind->begun(wire);
	counter_add(&host->counters->accepted, 1);
	counter_add(&host->counters->open, 1);
	read_input(wire);
	if (wire->handler.fd >= 0 && wire->life == WIRE_OPEN && register_in_loop(wire))
		wire_close(wire);
}

/* With TLS there is no answer without a handshake, which is what overload cannot afford. */
void wire_turn_away(struct wire_host *host, int fd, struct span text)
{
	counter_add(&host->counters->refused, 1);
	if (!host->tls) {
		/* Unread bytes would turn the close into a reset. */
		recv(fd, NULL, WIRE_LINGER_BYTES, MSG_TRUNC | MSG_DONTWAIT);
		send(fd, text.ptr, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
	}
	close(fd);
}

/* ---- time-outs ---- */

static void expired(struct wheel_entry *entry)
{
	struct wire *wire = container_of(entry, struct wire, timeout);
	wire->host->kind->expired(wire);
}

/* A timer that has just run has left a place in the loop's heap: cannot fail. */
static void turn_wheel(struct loop_timer *timer)
{
	struct wire_host *host = container_of(timer, struct wire_host, wheel_timer);
	int error = loop_timer_set(host->loop, timer, host->wheel.tick_ms);
	CHECK(!error);
	wheel_run(&host->wheel, loop_now_ms(host->loop), expired);
}

/* ---- start and end ---- */

/* What ready wires have queued in this look of the loop. */
static void look_ends(struct loop_hook *hook)
{
	struct wire_host *host = container_of(hook, struct wire_host, look_hook);
	if (host->batch)
		socket_batch_run(host->batch);
}

void wire_host_init(struct wire_host *host)
{
	CHECK(host->send_rate > 0);
	host->acceptor.loop = host->loop;
	host->acceptor.taken = taken;
	acceptor_init(&host->acceptor);
	host->pool.bytes = gauge_bytes(host->acceptor.gauge);
	host->wheel_timer.due = turn_wheel;
	host->hook.round = run_round;
	host->look_hook.round = look_ends;
	host->hook_round = UINT64_MAX;
	host->dirty_end = &host->dirty;
	wheel_init(&host->wheel, host->tick_ms, loop_now_ms(host->loop));
	loop_hook_add(host->loop, &host->hook);
	loop_look_hook_add(host->loop, &host->look_hook);
}

int wire_host_open(struct wire_host *host, const char *address, const struct wire_host *joins,
                   struct error_text *ret_text)
{
	if (host->tls)
		host->cipher = mem_alloc(WIRE_CIPHER_ROOM);
	if ((host->tls && !host->cipher) ||
	    loop_timer_set(host->loop, &host->wheel_timer, host->wheel.tick_ms))
		return error_fill(ret_text, -ENOMEM, "no memory to listen on %s", address);
	return acceptor_open(&host->acceptor, address, joins ? joins->acceptor.port : 0, ret_text);
}

int wire_host_batch(struct wire_host *host)
{
	CHECK(!host->batch);
	return socket_batch_new(&host->batch);
}

void wire_host_close(struct wire_host *host)
{
	acceptor_close(&host->acceptor);
	loop_timer_clear(host->loop, &host->wheel_timer);
	loop_hook_remove(host->loop, &host->hook);
	loop_hook_remove(host->loop, &host->look_hook);
	while (host->wires) {
		struct wire *wire = host->wires;
		host->flushing = wire; /* no list is to have it any more */
		wire_close(wire);
		wire->dirty = false;
		host->kind->release(wire);
	}
	pool_free(&host->pool);
	host->batch = socket_batch_free(host->batch);
	host->cipher = mem_free(host->cipher);
}

void wire_host_drain(struct wire_host *host)
{
	if (host->batch)
		socket_batch_run(host->batch); /* no wire is closed while it receives */
	acceptor_close(&host->acceptor);
	host->draining = true;
	for (struct wire *wire = host->wires; wire; wire = wire->next)
		if (wire->handler.fd >= 0 && host->kind->is_idle(wire))
			wire_close(wire);
}

void wire_host_cut(struct wire_host *host)
{
	if (host->batch)
		socket_batch_run(host->batch);
	for (struct wire *wire = host->wires; wire; wire = wire->next)
		wire_close(wire);
}

bool wire_host_drained(const struct wire_host *host)
{
	return host->draining && !host->wires;
}
