/*
 * tls_private: what tls.c and tls_session.c share, and nobody else.
 *
 * Room: net.
 */
#pragma once

#include <openssl/ssl.h>

#include "net/tls_ticket.h"

struct tls {
	SSL_CTX *context;
	struct tls_ticket ticket;
	BIO_METHOD *bio;
};

BIO_METHOD *tls_bio_new(void); /* a BIO over the memory of a tls_session */
