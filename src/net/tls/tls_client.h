/*
 * tls_client: one TLS connection of ours to a server. What a server needs is in tls.h.
 *
 * On a socket that blocks, for commands that ask one question: tls_client_open(). On one
 * that does not: tls_client_begin(), then tls_client_shake() whenever the socket is ready,
 * until it says 0. From then on -EAGAIN says that a call would have blocked, and sends are
 * made by tls_client_send_some(), as much as goes.
 *
 * The server is believed if a CA vouches for it under the name it was called by, or
 * if its very certificate is in the given file: then by any name, since a gateway is
 * asked on the loopback address and its certificate is for the outside.
 *
 * Room:      net. Threads: one owner; blocks as long as the socket does. A peer that
 *            is gone raises SIGPIPE, unless the caller ignores it.
 * Ownership: the descriptor stays the caller's. tls_client_free() accepts NULL.
 * Failure:   -errno or -EPROTO; of open, begin and shake with a text.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

struct tls_client;

struct tls_client_options {
	int fd;              /* connected */
	const char *host;    /* a name or an address; stays */
	const char *ca_file; /* PEM: who is believed; NULL: whom the machine believes */
};

int tls_client_open(const struct tls_client_options *options, struct tls_client **ret_client,
                    struct error_text *ret_text) must_check;
int tls_client_begin(const struct tls_client_options *options, struct tls_client **ret_client,
                     struct error_text *ret_text) must_check;
/* -EAGAIN: not yet. */
int tls_client_shake(struct tls_client *client, struct error_text *ret_text) must_check;
struct tls_client *tls_client_free(struct tls_client *client);

int tls_client_send(struct tls_client *client, struct span bytes) must_check; /* all of them */
int tls_client_send_some(struct tls_client *client, struct span bytes, size_t *ret_len) must_check;

/* *ret_len is 0 at the end. Whether the peer said that it is the end is not judged:
 * whoever reads must know the length. */
int tls_client_receive(struct tls_client *client, char *out, size_t room,
                       size_t *ret_len) must_check;
