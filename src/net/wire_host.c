/* Accepting, time-outs, drain. See wire.h. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/wire.h"

/* ---- accepting ---- */

static struct wire *make(struct wire_host *host, int fd, const struct sockaddr *address)
{
	struct tls_session *tls = NULL;
	if (host->tls && tls_session_new(host->tls, &host->pool, &tls))
		return NULL;
	struct wire *wire = host->kind->make(host, fd, address, tls);
	if (!wire) {
		tls_session_free(tls);
		return NULL;
	}
	*wire = (struct wire){ .host = host, .tls = tls };
	return wire;
}

/* The first bytes are usually there already (TCP_DEFER_ACCEPT). A wire that is to say
 * one thing more and end needs no place in the loop. */
static void taken(struct acceptor *acceptor, int fd, const struct sockaddr *address,
                  struct gauge_slot *slot)
{
	struct wire_host *host = container_of(acceptor, struct wire_host, acceptor);
	struct wire *wire = make(host, fd, address);
	if (!wire) {
		gauge_release(acceptor->gauge, slot);
		close(fd);
		return;
	}
	wire_begin(wire, fd, slot);
	counter_add(&host->counters->accepted, 1);
	counter_add(&host->counters->open, 1);
	wire_read(wire);
	if (wire->handler.fd >= 0 && !wire->last && wire_register(wire))
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
	host->hook.round = wire_round;
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
