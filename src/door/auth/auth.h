/*
 * auth: does a request come from a sender that the source trusts?
 *
 * Made of a spec (auth_spec.h) once; a check allocates nothing except inside OpenSSL, a copy
 * of the message for ed25519, and the parameters of a form for Twilio.
 *
 * Rules, for every kind:
 *  A1 The bytes are checked as they were received. A header that proves something must be
 *     there once: repeated it proves nothing.
 *  A2 Exact length first, then constant time. All secrets are tried, even after one fits:
 *     neither time nor answer tells which, or how much of it was right.
 *  A3 An empty or truncated signature matches nothing.
 *  A4 Time stamps are checked after the signature that covers them.
 *  A5 Networks are checked first, against the connection's own peer: no header can change
 *     it.
 *
 * The sender gets the same detail (auth_detail()) for every wrong proof; ret_why is for the
 * log and names headers and seconds, but never holds a secret, a signature, or anything that
 * the sender wrote.
 *
 * Room:      door/auth.
 * Threads:   any number may check with one struct auth.
 * Ownership: auth_new() copies all of the spec it needs; auth_free() wipes it.
 */
#pragma once

#include "base/error.h"
#include "codec/http1.h"
#include "door/auth/auth_spec.h"
#include "net/http/http_server.h"

struct auth;

struct auth_request {
	const struct http1_head *head;
	struct span body; /* raw */
	const struct http_peer *peer;
	uint64_t now_s; /* unix time */
};

enum auth_result {
	AUTH_OK = 0,
	AUTH_MISSING,   /* the request has no proof */
	AUTH_WRONG,     /* the proof is wrong */
	AUTH_STALE,     /* the signature is right, its time too long ago or too far ahead */
	AUTH_NETWORK,   /* the peer's address is not allowed */
	AUTH_NO_MEMORY, /* not checked */
};

/* ERR_CONFIG or -ENOMEM; the text says what was expected, and no secret. */
int auth_new(const struct auth_spec *spec, struct auth **ret_auth,
             struct error_text *ret_text) must_check;
struct auth *auth_free(struct auth *auth);

/* A warning for the operator at the start: a weak secret, a body that is not signed. NULL:
 * none. Valid as long as the auth. */
const char *auth_warning(const struct auth *auth);

/* ret_why may be NULL and is not written for AUTH_OK. */
enum auth_result auth_check(const struct auth *auth, const struct auth_request *request,
                            struct error_text *ret_why) must_check;

/* Checks the head before there is a body: AUTH_OK if the body is needed to decide. A request
 * that fails here fails in auth_check() too, with any body. */
enum auth_result auth_check_head(const struct auth *auth,
                                 const struct auth_request *request) must_check;

/* For the answer to anything but AUTH_OK. */
uint16_t auth_status(enum auth_result result);         /* 401, 403, 503 */
const char *auth_detail(enum auth_result result);      /* for the sender */
struct span auth_challenge(const struct auth *auth);   /* WWW-Authenticate line, or empty */
const char *auth_result_name(enum auth_result result); /* for metrics: "missing", … */
