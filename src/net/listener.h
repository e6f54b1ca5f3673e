/*
 * listener: a listening socket on a loop, and the connections that it accepts, within
 * limits. Its server decides what a connection is, and how one too many is turned away.
 *
 * Addresses are "127.0.0.1:8080", "[::1]:8443", "0.0.0.0:0" or "unix:/run/stile.sock".
 * Names are not resolved: the configuration says exactly what is listened on.
 *
 * Without descriptors or memory it pauses instead of spinning, and resumes by itself.
 *
 * Room:      net. Threads: that of the loop.
 * Ownership: part of its server, which sets the first members before acceptor_open() and
 *            calls acceptor_close(), also after a failed open. A descriptor that was given
 *            to `taken` or `refused` is the server's; a slot too.
 * Failure:   ERR_CONFIG for an address that cannot be read, else -errno; the text
 *            names the address and the cause.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "net/gauge.h"
#include "sys/loop.h"

struct acceptor {
	/* set by the server before open */
	struct loop *loop;
	struct gauge *gauge;
	struct gauge_limits limits;
	void (*taken)(struct acceptor *acceptor, int fd, const struct sockaddr *address,
	              struct gauge_slot *slot);
	void (*refused)(struct acceptor *acceptor, int fd, enum gauge_result why);
	/* private */
	struct loop_handler listener; /* its descriptor is -1 when it is closed */
	struct loop_timer pause;      /* then it accepts again */
	uint16_t port;
};

/* Before anything else. */
void acceptor_init(struct acceptor *acceptor);

/*
 * The socket is non-blocking, has SO_REUSEPORT, sends answers without delay, and does not
 * report a connection before its first bytes have arrived (TCP_DEFER_ACCEPT).
 *
 * `joined` is the port of another listener of this process that the new one shares,
 * whatever port the address names. With 0 the address must be free: SO_REUSEPORT alone
 * would let a second process receive a part of the connections.
 *
 * At "unix:/PATH" only this user can connect (mode 0600), the port is 0, and joining is not
 * possible. A socket that a killed process has left at the path is replaced; one at which
 * somebody answers is -EADDRINUSE, any other file there -EEXIST.
 */
int acceptor_open(struct acceptor *acceptor, const char *address, uint16_t joined,
                  struct error_text *ret_text) must_check;

/* Takes all connections that the kernel has already accepted. */
void acceptor_take_rest(struct acceptor *acceptor);
/* Also removes the socket of "unix:/PATH". */
void acceptor_close(struct acceptor *acceptor);
