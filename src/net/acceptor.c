/* acceptor: see acceptor.h. */
#include "net/acceptor.h"

#include <errno.h>
#include <netinet/in.h>

#include "net/listener.h"

#define ACCEPTS_PER_ROUND 128
#define PAUSE_MS 100 /* when there are no descriptors left */

/* False when there is nothing more to accept now. */
static bool accept_one(struct acceptor *acceptor)
{
	struct sockaddr_in6 address = { 0 };
	socklen_t len = sizeof(address);
	struct sockaddr *any = (struct sockaddr *)(void *)&address;
	struct gauge_slot *slot;
	int fd = accept4(acceptor->listener.fd, any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EINTR || errno == ECONNABORTED)
			return true;
		/* No descriptors or memory: do not spin. */
		if (errno != EAGAIN && !loop_timer_set(acceptor->loop, &acceptor->pause, PAUSE_MS))
			loop_remove(acceptor->loop, &acceptor->listener);
		return false;
	}
	enum gauge_result result = gauge_take(acceptor->gauge, any, &acceptor->limits, &slot);
	if (result == GAUGE_OK)
		acceptor->taken(acceptor, fd, any, slot);
	else
		acceptor->refused(acceptor, fd, result);
	return true;
}

static void accept_ready(struct loop_handler *handler, uint32_t events)
{
	struct acceptor *acceptor = container_of(handler, struct acceptor, listener);
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_ROUND && accept_one(acceptor); i++)
		;
}

static void resume(struct loop_timer *timer)
{
	struct acceptor *acceptor = container_of(timer, struct acceptor, pause);
	if (acceptor->listener.fd < 0 ||
	    loop_add(acceptor->loop, &acceptor->listener, LOOP_READ) == 0)
		return;
	/* A timer that has just run has left a place in the loop's heap: cannot fail. */
	int error = loop_timer_set(acceptor->loop, timer, PAUSE_MS);
	CHECK(!error);
}

void acceptor_init(struct acceptor *acceptor)
{
	acceptor->listener.ready = accept_ready;
	acceptor->listener.fd = -1;
	acceptor->pause.due = resume;
}

int acceptor_open(struct acceptor *acceptor, const char *address, uint16_t joined,
                  struct error_text *ret_text)
{
	int error = listener_open(address, joined, &acceptor->listener.fd, &acceptor->port,
	                          ret_text);
	if (error)
		return error;
	error = loop_add(acceptor->loop, &acceptor->listener, LOOP_READ);
	if (error)
		return error_fill(ret_text, error, "cannot listen on %s: %s", address,
		                  error_name(error));
	return 0;
}

void acceptor_take_rest(struct acceptor *acceptor)
{
	while (acceptor->listener.fd >= 0 && accept_one(acceptor))
		;
}

void acceptor_close(struct acceptor *acceptor)
{
	loop_timer_clear(acceptor->loop, &acceptor->pause);
	if (acceptor->listener.fd < 0)
		return;
	loop_remove(acceptor->loop, &acceptor->listener);
	listener_close(acceptor->listener.fd);
	acceptor->listener.fd = -1;
}
