/*
 * tls_client: one TLS connection of ours to a server, on a socket that does not block.
 * What a server needs is in tls.h. tls_client_begin(), then tls_client_shake() whenever the
 * socket is ready, until it returns 0. From then on -EAGAIN means that a call would have
 * blocked, and tls_client_send() sends as much as the socket takes.
 *
 * A server is trusted if a CA signed its certificate for the name in the address, or if
 * this certificate itself is in the given file: then under any name, since commands ask a
 * gateway on the loopback address and its certificate is for its public name. libcurl's
 * connections get the same rule by tls_client_trust().
 *
 * Room:      net. Threads: one owner. A peer that is gone raises SIGPIPE, unless the
 *            caller ignores it.
 * Ownership: the descriptor stays the caller's. tls_client_free() accepts NULL.
 * Failure:   -errno or -EPROTO; of begin and shake with a text.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"

struct tls_client;

struct tls_client_options {
	int fd;              /* connected */
	const char *host;    /* a name or an address; stays */
	const char *ca_file; /* PEM: trusted certificates; NULL: those of the machine */
};

int tls_client_begin(const struct tls_client_options *options, struct tls_client **ret_client,
                     struct error_text *ret_text) must_check;
/* -EAGAIN: not yet. */
int tls_client_shake(struct tls_client *client, struct error_text *ret_text) must_check;
struct tls_client *tls_client_free(struct tls_client *client);

int tls_client_send(struct tls_client *client, struct span bytes, size_t *ret_len) must_check;

/* *ret_len is 0 at the end. A missing close_notify of the peer is no error: the reader must
 * know the length. */
int tls_client_receive(struct tls_client *client, char *out, size_t room,
                       size_t *ret_len) must_check;

/* Gives an SSL_CTX, which has its certificates, the rule above for this name or address. */
int tls_client_trust(void *context, const char *host) must_check;
/* -EPROTO, and why a certificate was refused: what SSL_get_verify_result() said. */
int tls_client_distrust(long verified, const char *host, struct error_text *ret_text);
