/*
 * tls_session: one TLS connection, without a socket. Ciphertext goes in and out in
 * memory, so that a flight of the handshake, the ticket and the first answer can be
 * sent in one call.
 *
 * Room: net. Threads: one owner.
 * Failure: -EAGAIN wants more ciphertext; -EPROTO is final, and what is in the
 *          output then (an alert) should still be sent; -ENOMEM is final too.
 */
#pragma once

#include "base/pool.h"
#include "base/span.h"
#include "codec/peer_name.h"
#include "net/tls/tls.h"

struct tls_session;

int tls_session_new(struct tls *tls, struct pool *pool,
                    struct tls_session **ret_session) must_check;
struct tls_session *tls_session_free(struct tls_session *session);

/* Lends received bytes to the session: call tls_session_read() until it returns -EAGAIN,
 * by then it has taken all. */
void tls_session_feed(struct tls_session *session, struct span ciphertext);

/* Bytes read (> 0), 0 when the peer has ended its side, or negative. */
int tls_session_read(struct tls_session *session, char *out, size_t room) must_check;
int tls_session_write(struct tls_session *session, const char *ptr, size_t len) must_check;
void tls_session_end(struct tls_session *session); /* ends our side */

/* What is to be sent. The caller moves `at` and clears it. */
struct outgoing *tls_session_output(struct tls_session *session);

enum tls_progress { TLS_HANDSHAKE = 0, TLS_FULL, TLS_RESUMED };
enum tls_progress tls_session_progress(const struct tls_session *session);

/* Did the peer show a certificate that the client CA vouches for? Only after the
 * handshake; a resumed session says what its first handshake found,
 * as long as the certificate has not expired since. */
bool tls_session_is_certified(const struct tls_session *session);

#define TLS_NAMES_MAX 32

/* The names of a certificate: the subject's CN and the DNS names, at most
 * TLS_NAMES_MAX. Names that contain a NUL are left out: they are made to be
 * misread. */
struct tls_names {
	uint32_t count;
	struct peer_name names[];
};

/* Of a certified session; the caller frees them (mem_free). 0 or -ENOMEM. */
int tls_session_names(const struct tls_session *session, struct tls_names **ret_names) must_check;
