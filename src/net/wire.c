/* Life and death of a wire, reading, the round. See wire.h. */
#include "net/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_PER_ROUND 4 /* of one wire, before others get their turn */
#define LINGER_MS 2000u

static void ready(struct loop_handler *handler, uint32_t events);

void wire_begin(struct wire *wire, int fd, struct gauge_slot *slot)
{
	struct wire_host *host = wire->host;
	wire->handler = (struct loop_handler){ .ready = ready, .fd = fd };
	wire->slot = slot;
	wire->next = host->wires;
	wire->prev = &host->wires;
	if (host->wires)
		host->wires->prev = &wire->next;
	host->wires = wire;
	host->kind->begun(wire);
}

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
	wire->broken = wire->last = true;
	wire_mark_dirty(wire);
}

void wire_set_timeout(struct wire *wire, uint64_t deadline_ms)
{
	wheel_set(&wire->host->wheel, &wire->timeout, deadline_ms);
}

/* Edge-triggered for both directions, once: no call to change it is ever needed. */
int wire_register(struct wire *wire)
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

/* ---- reading ---- */

/* After an answer that does not wait for the peer's rest, closing at once could
 * make the kernel reset the connection and the peer lose the answer. So what
 * comes is thrown away for a while. */
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
	if (wire->eof || shutdown(wire->handler.fd, SHUT_WR) || wire_register(wire)) {
		wire_close(wire);
		return;
	}
	wire->lingers = true;
	wire_set_timeout(wire, loop_now_ms(wire->host->loop) + LINGER_MS);
	linger(wire);
}

/* After so many reads, the last of which said whether there is more. */
static void read_on(struct wire *wire, int reads, bool more)
{
	const struct wire_kind *kind = wire->host->kind;
	for (int i = reads; more && !wire->last && !wire->eof; i++) {
		if (wire->paused || i == READS_PER_ROUND) {
			wire->read_due = true;
			break;
		}
		more = wire_fill(wire);
		kind->process(wire);
	}
	if (wire->read_due && !wire->paused)
		wire_mark_dirty(wire);
	if (!wire->stalled)
		kind->set_deadline(wire);
}

void wire_read(struct wire *wire)
{
	if (wire->lingers) {
		linger(wire);
		return;
	}
	if (wire->last)
		wire->refused = true; /* something comes that nobody will read */
	wire->read_due = false;
	read_on(wire, 0, true);
}

void wire_received(struct wire *wire, bool more)
{
	wire->host->kind->process(wire);
	read_on(wire, 1, more);
}

static bool may_receive(const struct wire *wire)
{
	return !wire->lingers && !wire->last && !wire->eof && !wire->paused;
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
	if (wire->host->batch && !wire->tls && may_receive(wire)) {
		wire->read_due = false;
		wire_receive_together(wire);
	} else {
		wire_read(wire);
	}
}

/* ---- the round ---- */

/* Goes on where reading was paused. What comes of it missed this round's earlier
 * hooks, so the next round must not wait. */
static void resume(struct wire *wire)
{
	const struct wire_kind *kind = wire->host->kind;
	wire->paused = false;
	loop_again(wire->host->loop);
	kind->process(wire);
	if (wire->read_due && !wire->paused)
		wire_read(wire);
	else
		kind->set_deadline(wire);
}

/* Everything is sent; what now? */
static void settle(struct wire *wire)
{
	const struct wire_kind *kind = wire->host->kind;
	if (wire->closing) {
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
	if (wire->handler.fd < 0 || wire->lingers)
		return;
	if (wire_may_send(wire))
		wire_send(wire);
	if (wire->broken)
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
	for (struct wire *wire = first; wire; wire = wire->dirty_next)
		wire_send_ahead(wire);
	socket_batch_run(host->batch);
}

/* Takes the list as it is: what gets dirty meanwhile waits for the next round,
 * so that earlier hooks come first. */
void wire_round(struct loop_hook *hook)
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
