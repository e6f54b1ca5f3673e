/*
 * gateway: one request to the admin API of a running gateway, for the commands that show
 * its state or act on it. The client is that of link/http.h.
 *
 * Room:    cli. Threads: blocks the caller.
 * Failure: -errno or ERR_… with a text that names the address.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "cli/answer.h"
#include "config/options.h"

#define GATEWAY_ANSWER_MAX (16u << 20)

/* Where the gateway is. Commands have these options in their tables. */
struct gateway_options {
	const char *url;
	const char *ca;         /* a file with trusted certificates; NULL: those of the machine */
	const char *token_file; /* NULL: no token */
};

#define GATEWAY_TEXT(name, type, field, value, standard, help)                              \
	{                                                                                   \
		name, OPTION_TEXT, offsetof(type, field), value, standard, 0, 0, NULL, help \
	}
#define GATEWAY_OPTIONS(type, member)                                                             \
	GATEWAY_TEXT(                                                                             \
		"url", type, member.url, "URL", "http://127.0.0.1:8081",                          \
		"address of the gateway's admin listener: http://…, https://… or unix:/PATH"),    \
		GATEWAY_TEXT(                                                                     \
			"ca", type, member.ca, "FILE", NULL,                                      \
			"with https: trust these certificates (PEM), such as the gateway's own"), \
		GATEWAY_TEXT("token-file", type, member.token_file, "FILE", NULL,                 \
	                     "file with the token, if the gateway requires one (admin.token)")

/* GET of a target such as "/v1/why?id=1". The body is appended to `out` when the status is
 * 2xx; another status is an error (ERR_INVALID) with the gateway's text. */
int gateway_get(const struct gateway_options *options, struct span target, struct buf *out,
                struct error_text *ret_text) must_check;

/* POST without a body; else the same. */
int gateway_post(const struct gateway_options *options, struct span target, struct buf *out,
                 struct error_text *ret_text) must_check;

/* Asks with GET or POST, and prints the answer: see answer_print(). Frees the target. */
int gateway_print(const char *command, const struct gateway_options *options, const char *method,
                  struct buf *target, bool json, answer_write_fn *write);

/* Adds "&name=value", percent-encoded, to a target; NULL: nothing. */
void gateway_add_parameter(struct buf *target, const char *name, const char *value);
