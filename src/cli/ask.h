/*
 * ask: one question to a running gateway, over HTTP or HTTPS, for the commands that
 * show what it knows.
 *
 * Room:    cli. Threads: blocks the caller, at most ASK_LIMIT_S for each step.
 * Failure: -errno or ERR_… with a text that names the address.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "config/options.h"

#define ASK_LIMIT_S 10
#define ASK_ANSWER_MAX (16u << 20)
#define ASK_HOST_MAX 256

/* Whom to ask. Commands have the options for it in their tables. */
struct ask_options {
	const char *url;
	const char *ca;         /* a file with certificates; NULL: whom the machine believes */
	const char *token_file; /* NULL: no token */
};

#define ASK_OPTIONS(type, member)                                                                 \
	{ "url",                                                                                  \
	  OPTION_TEXT,                                                                            \
	  offsetof(type, member.url),                                                             \
	  "URL",                                                                                  \
	  "http://127.0.0.1:8081",                                                                \
	  0,                                                                                      \
	  0,                                                                                      \
	  NULL,                                                                                   \
	  "the gateway's admin listener; https:// where it has TLS, unix:/PATH for a socket" },   \
		{ "ca",                                                                           \
		  OPTION_TEXT,                                                                    \
		  offsetof(type, member.ca),                                                      \
		  "FILE",                                                                         \
		  NULL,                                                                           \
		  0,                                                                              \
		  0,                                                                              \
		  NULL,                                                                           \
		  "with https: believe these certificates (PEM), such as the gateway's own" },    \
	{                                                                                         \
		"token-file", OPTION_TEXT, offsetof(type, member.token_file), "FILE", NULL, 0, 0, \
			NULL, "a file with the token, where the gateway wants one (admin.token)"  \
	}

/* Where a URL such as http://127.0.0.1:8080, https://[::1]:8443/ or
 * unix:/run/stile.sock leads. */
struct ask_address {
	bool secure; /* https */
	bool local;  /* unix: the host is the path, and there is no port */
	char host[ASK_HOST_MAX];
	char port[8];
	bool bracketed; /* an IPv6 address */
};
int ask_parse_url(const char *url, struct ask_address *ret_address,
                  struct error_text *ret_text) must_check;

/* Percent-encodes what is not a letter, a digit or one of -._~ */
void ask_encode(struct buf *out, struct span text);

/* An answer as it came: status, and where its body starts. ERR_INVALID: it is
 * not HTTP, or not whole. */
int ask_parse_answer(struct span answer, uint16_t *ret_status, struct span *ret_body) must_check;

/* GET. The body is appended to `out` when the status is 2xx; another status is
 * an error (ERR_INVALID) whose text is what the gateway says. */
int ask_get(const struct ask_options *options, struct span target, struct buf *out,
            struct error_text *ret_text) must_check;

/* POST without a body; else the same. */
int ask_post(const struct ask_options *options, struct span target, struct buf *out,
             struct error_text *ret_text) must_check;
