/*
 * web: a server and its peers on one loop and one thread, so that every test is
 * the same each time and a failing allocation can be aimed at.
 *
 * The server answers by path: /hold keeps a request, /release answers those
 * kept in the opposite order and then itself, /large answers WEB_LARGE bytes,
 * /none 204, /close ends the connection, /who says who asks; all others get their
 * body back. A body to /unwanted that does not come with its head is not waited for.
 * A condition that does not come true within WEB_PATIENCE_MS fails the test.
 */
#pragma once

#include <openssl/types.h>
#include <stdlib.h>

#include "net/http/http_server.h"
#include "net/tls/tls.h"
#include "support/clock_fake.h"
#include "support/test.h"

#define WEB_PATIENCE_MS 20000
#define WEB_HELD_MAX 256
#define WEB_LARGE (8u * 1024u * 1024u)

struct web {
	struct loop *loop;
	struct gauge *gauge;
	struct http_server *server;
	struct http_server_options options;
	struct http_request *held[WEB_HELD_MAX];
	size_t held_count;
	uint64_t handled;
	struct loop_hook hook;
	struct loop_timer guard;
	bool (*condition)(void *user);
	void *user;
	bool met, late;
};

/* Whether servers opened from now on use http_server_batch(). */
extern bool web_batches;

/* 0, or the error of http_server_new(). */
int web_open(struct web *web, const struct http_limits *limits, struct tls *tls);
/* With a handler of the test's own. */
struct web_handler {
	void (*handle)(struct http_request *request);
	bool (*wants_body)(const struct http_request *request);
	size_t scratch_size;
	void *user; /* request->user */
};
int web_open_with(struct web *web, const struct http_limits *limits,
                  const struct web_handler *handler);
void web_close(struct web *web);
bool web_try(struct web *web, bool (*condition)(void *user), void *user); /* false: too late */
void web_until(struct web *web, bool (*condition)(void *user), void *user);
void web_release(struct web *web); /* as /release does */

struct web_peer {
	struct loop_handler handler;
	struct web *web;
	SSL *ssl; /* NULL: plain */
	bool greeted;
	char *in; /* NUL behind it */
	size_t len, room;
	char *out;
	size_t out_at, out_len;
	bool eof, shut, deaf; /* deaf: does not read */
	int error;
};

struct web_answer {
	int status;
	struct span head, body;
};

void peer_open(struct web *web, struct web_peer *peer, SSL_CTX *tls);
void peer_close(struct web_peer *peer);
uint16_t peer_port(const struct web_peer *peer);          /* our own */
void peer_send(struct web_peer *peer, struct span bytes); /* what the kernel does not take waits */
void peer_say(struct web_peer *peer, const char *text);
void peer_shut(struct web_peer *peer);   /* ends our side, when all is sent */
void peer_listen(struct web_peer *peer); /* no longer deaf */

/* The n-th answer (0 is the first, interim ones count), if it is whole. HEAD
 * and 204 are told from `head_only`. */
bool peer_answer(const struct web_peer *peer, size_t n, bool head_only,
                 struct web_answer *ret_answer);
void peer_until_answers(struct web_peer *peer, size_t count); /* bodies as Content-Length says */
void peer_until_eof(struct web_peer *peer);
void peer_until_status(struct web_peer *peer, size_t n, int status);
bool answer_has(const struct web_answer *answer, const char *text);

/* Certificates made for the test; files in a fresh directory. */
struct web_tls {
	char dir[256];
	char cert[300], key[300];
	struct tls *tls;
	struct clock_fake clock; /* by which the keys of tickets change */
	SSL_CTX *client;
	struct ssl_session_st *session; /* an SSL_SESSION: the client's last, if kept */
};

enum web_key { WEB_ECDSA, WEB_RSA };
void web_tls_open(struct web_tls *web_tls, enum web_key kind);
void web_tls_close(struct web_tls *web_tls);
void web_tls_keep_sessions(struct web_tls *web_tls);
void web_tls_forget_session(struct web_tls *web_tls);
