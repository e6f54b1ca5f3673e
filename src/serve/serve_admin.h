/*
 * serve_admin: the admin listener: a thread with a loop, an HTTP server and a port to the
 * store of its own, so that neither a flood of events keeps people out nor a question of
 * theirs delays an event.
 *
 * Room:      serve.
 * Threads:   opened, offered, ended and closed by the main thread.
 * Ownership: serve_admin_open() gives it, serve_admin_close() takes it.
 * Failure:   0 or an error with a text.
 * Shutdown:  serve_admin_end() with the io threads; serve_admin_join() before the store
 *            is closed; serve_admin_settle() after that, while the lanes can still be
 *            looked at; serve_admin_close() when they have let go too.
 */
#pragma once

#include "base/check.h"
#include "base/error.h"

struct config;
struct console;
struct serve_admin;
struct source_set;
struct store_host;
struct tls;

struct serve_admin_options {
	const struct config *config; /* of the start */
	struct console *console;
	struct store_host *host;
	struct source_set *sources;
	struct tls *tls;          /* NULL: none */
	const unsigned char *key; /* the store's secret */
};

/* Listens, and answers from serve_admin_start() on. *ret_admin is NULL when there is none:
 * switched off, or its place is taken that nobody asked for (ret_text says so). */
int serve_admin_open(const struct serve_admin_options *options, struct serve_admin **ret_admin,
                     struct error_text *ret_text) must_check;
int serve_admin_start(struct serve_admin *admin) must_check;

/* Where it is: "http://127.0.0.1:8081". */
const char *serve_admin_url(const struct serve_admin *admin);

/* From a reload on. Accepts NULL, as all below. */
void serve_admin_offer(struct serve_admin *admin, struct source_set *sources);

void serve_admin_end(struct serve_admin *admin);
void serve_admin_join(struct serve_admin *admin);
void serve_admin_settle(struct serve_admin *admin);
struct serve_admin *serve_admin_close(struct serve_admin *admin); /* returns NULL */
