/*
 * serve_waiting: what a gateway does while the shared store that it needs is away at its
 * start: it listens, so that senders are told to come again (503, Retry-After) and health
 * checks see that it lives and is not ready, and tries to open the store.
 *
 * Room:      serve. Threads: the main one, whose loop it has meanwhile; a thread of its own
 *            opens the store.
 * Ownership: serve_waiting_new() gives it, serve_waiting_free() takes it; what the options
 *            point to must stay.
 * Failure:   an error and a text.
 */
#pragma once

#include "serve/serve_store.h"

struct gauge;
struct http_server;
struct tls;
struct waiting;

struct waiting_options {
	const struct config *config;
	struct gauge *gauge;
	struct tls *tls; /* or NULL */
	uint32_t connections;
	int signal_fd; /* a signalfd: SIGTERM and SIGINT end the waiting */
};

int serve_waiting_new(const struct waiting_options *options, struct waiting **ret_waiting,
                      struct error_text *ret_text) must_check;

/* Until the store is there. ERR_CLOSING: a signal came first; another error: the server
 * answers, and is not fit. */
int serve_waiting_run(struct waiting *waiting, struct serve_store *ret_store,
                      struct error_text *ret_text) must_check;

/* Whose port the real servers share before this one goes; NULL if there is none. */
const struct http_server *serve_waiting_server(const struct waiting *waiting);

struct waiting *serve_waiting_free(struct waiting *waiting); /* accepts NULL, returns NULL */
