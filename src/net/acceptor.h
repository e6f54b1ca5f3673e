/*
 * acceptor: takes connections from a listening socket, within limits, on a loop. What a
 * connection is, and how one too many is turned away, is its server's.
 *
 * Without descriptors or memory it pauses instead of spinning, and goes on by itself.
 *
 * Room:      net. Threads: that of the loop.
 * Ownership: part of its server, which sets the first members before acceptor_open() and
 *            calls acceptor_close(), also after a failed open. A descriptor that `taken`
 *            or `refused` was told of is the server's; a slot too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "net/gauge.h"
#include "sys/loop.h"

struct acceptor {
	/* the server's, set before open */
	struct loop *loop;
	struct gauge *gauge;
	struct gauge_limits limits;
	void (*taken)(struct acceptor *acceptor, int fd, const struct sockaddr *address,
	              struct gauge_slot *slot);
	void (*refused)(struct acceptor *acceptor, int fd, enum gauge_result why);
	/* the acceptor's */
	struct loop_handler listener; /* its descriptor is -1 when it is closed */
	struct loop_timer pause;      /* accepting goes on then */
	uint16_t port;
};

/* Before anything else. */
void acceptor_init(struct acceptor *acceptor);

/* `joined`: as listener_open(). */
int acceptor_open(struct acceptor *acceptor, const char *address, uint16_t joined,
                  struct error_text *ret_text) must_check;

/* Those that the kernel has already accepted for us, all of them. */
void acceptor_take_rest(struct acceptor *acceptor);
void acceptor_close(struct acceptor *acceptor);
