/*
 * tls_private: what the files of TLS share, and nobody else.
 *
 * Room: net.
 */
#pragma once

#include <openssl/ssl.h>

#include "net/tls/tls_session.h"
#include "net/tls/tls_ticket.h"

struct tls {
	SSL_CTX *context;
	struct tls_ticket ticket;
	BIO_METHOD *bio;
};

BIO_METHOD *tls_bio_new(void); /* a BIO over the memory of a tls_session */

/* tls_names.c */
int tls_names_of(const X509 *certificate, struct tls_names **ret_names) must_check;
