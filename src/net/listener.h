/*
 * listener: a listening socket from "127.0.0.1:8080", "[::1]:8443" or "0.0.0.0:0", or
 * in the file system: "unix:/run/stile.sock". Names are not resolved: what is listened
 * on is written down.
 *
 * Room: net. Ownership: the caller closes the descriptor, by listener_close().
 * Failure: ERR_CONFIG for an address that cannot be read, else -errno; the text
 *          names the address and the cause.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Non-blocking, SO_REUSEPORT, answers without delay; a connection is not
 * reported before its first bytes are there (TCP_DEFER_ACCEPT).
 *
 * `joined` is the port of another listener of this process that the new one
 * shares, whatever port the address names. With 0 nobody may listen there yet:
 * SO_REUSEPORT alone would let a second process have a part of the connections.
 */
int listener_open(const char *address, uint16_t joined, int *ret_fd, uint16_t *ret_port,
                  struct error_text *ret_text) must_check;

/*
 * "unix:/PATH": only this user can connect (mode 0600), the port is 0, and nobody joins.
 * What a killed process has left at the path is replaced; a socket that somebody answers
 * at is -EADDRINUSE, anything else that is there -EEXIST.
 */
bool listener_is_unix(const char *address);

/* Of a unix socket the path goes too, if a socket is there. */
void listener_close(int fd);
