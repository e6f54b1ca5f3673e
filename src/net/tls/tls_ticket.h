/*
 * tls_ticket: the keys under which session tickets are sealed, and their change.
 *
 * A ticket lets its holder resume without a certificate, and a holder of the key can
 * read sessions that were resumed with it. So no key lives long: after
 * TLS_TICKET_ROTATE_MS a new one takes over, and the old one only opens what it
 * sealed, for the same time again. A ticket opened with the old key is replaced. Keys
 * are random, in memory alone, and wiped when they are too old: after a
 * restart, and between machines, the first handshake is a full one.
 *
 * Room:      net, private to tls.c.
 * Threads:   all io threads share it; a mutex guards the keys.
 * Ownership: tls_ticket_init() fills it, tls_ticket_destroy() wipes it (also one
 *            that was only zeroed).
 * Failure:   -errno without random bytes or memory. Later a failure
 *            costs tickets, not handshakes.
 */
#pragma once

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "sys/clock.h"

#define TLS_TICKET_ROTATE_MS (UINT64_C(12) * 60 * 60 * 1000)
#define TLS_TICKET_NAME_LEN 16

struct tls_ticket_key {
	unsigned char name[TLS_TICKET_NAME_LEN]; /* stands in the ticket, in clear */
	unsigned char cipher[32];
	unsigned char mac[32];
	uint64_t made_ms; /* boot time */
	bool there;
};

struct tls_ticket {
	bool ready;
	pthread_mutex_t mutex; /* guards the keys */
	struct tls_ticket_key current, previous;
	const struct clock *clock;
	EVP_CIPHER *cipher;
};

int tls_ticket_init(struct tls_ticket *ticket, const struct clock *clock) must_check;
void tls_ticket_destroy(struct tls_ticket *ticket);

/* Makes the context use it; it must outlive the context. */
bool tls_ticket_attach(struct tls_ticket *ticket, SSL_CTX *context) must_check;

/* A copy of the key to seal with, as of now; the caller wipes it. */
int tls_ticket_seal_key(struct tls_ticket *ticket, struct tls_ticket_key *ret_key) must_check;
/* Likewise that of a name: 0; 1 if it is the previous one; -ENOENT: none (any more). */
int tls_ticket_open_key(struct tls_ticket *ticket,
                        const unsigned char name[static TLS_TICKET_NAME_LEN],
                        struct tls_ticket_key *ret_key) must_check;
