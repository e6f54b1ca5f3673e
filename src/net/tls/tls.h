/*
 * tls: what a TLS listener needs: certificate, key, rules. TLS 1.2 and later,
 * ALPN http/1.1 (a client that offers ALPN without it gets the alert
 * no_application_protocol), resumption by stateless tickets whose keys change
 * twice a day (tls_ticket.h). Client certificates are requested where a CA for
 * them is configured.
 *
 * Room:      net, the only includer of OpenSSL. Threads: tls_new() and
 *            tls_free() from one; servers of all threads may share it.
 * Ownership: outlives the servers that use it.
 * Failure:   the text names the file and the reason, never a byte of the key.
 */
#pragma once

#include "base/error.h"
#include "sys/clock.h"

struct tls;

struct tls_options {
	const char *cert_file; /* PEM: the certificate, then its chain */
	const char *key_file;  /* PEM, without a passphrase; ECDSA or RSA */
	/* PEM: the CAs that vouch for clients; NULL: clients are not asked. A client
	 * that shows a certificate of another CA gets no connection; one that shows
	 * none does, unless it is required. */
	const char *client_ca_file;
	bool client_required;
	const struct clock *clock; /* for the keys of tickets; default: the machine's */
};

int tls_new(const struct tls_options *options, struct tls **ret_tls,
            struct error_text *ret_text) must_check;
struct tls *tls_free(struct tls *tls);
