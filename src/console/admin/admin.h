/*
 * admin: the admin API, /v1/…, which shows events and acts on them. docs/admin.md
 * and docs/openapi.yaml describe it; GET /v1 lists its routes.
 *
 * Access: with tokens configured, anyone who sends one of them. Without, only clients on
 * this machine that use a loopback name (a page that points a name of its own here is
 * rejected), no pages of another origin, and nothing that came through a proxy.
 *
 * Room:      console.
 * Threads:   one owner: the thread of the admin listener. What it reads of other threads
 *            is atomic, or goes through the store's port and the lanes' mailboxes.
 * Ownership: borrows what the options point to. Call admin_release() when nothing is in
 *            flight any more: after the store and the lanes have stopped.
 * Failure:   answered with problem+json. Nothing here ends the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "console/console.h"
#include "net/http/http_server.h"
#include "store/store.h"
#include "sys/mailbox.h"

#define ADMIN_TOKENS_MAX 5u
#define ADMIN_STREAMS_MAX 16u

struct admin_options {
	struct console *console;
	struct store *port; /* this thread's; the caller flushes and collects it */
	const struct span *tokens;
	uint32_t token_count;
	bool tls;                 /* clients use https */
	const unsigned char *key; /* DIGEST_KEY_LEN bytes: the store's secret */
	/* Called on any thread: the owner should call admin_collect() soon. */
	void (*wake)(void *user);
	void *user;
};

struct admin {
	struct admin_options options;
	struct mailbox mail;    /* commands that lanes have completed */
	struct admin_job *jobs; /* newest first */
	uint32_t job_count;     /* ever started */
	struct http_request *streams[ADMIN_STREAMS_MAX];
	uint32_t stream_count;
	uint64_t heartbeat_ms; /* when the streams get the next one */
	/* Of the request that is being handled: the sources of the current configuration. */
	struct console_view view;
	uint64_t now_ms; /* unix */
};

/* Header lines of every answer of the admin listener. */
extern const struct span admin_headers;

void admin_init(struct admin *admin, const struct admin_options *options);
void admin_release(struct admin *admin);

/* Answers now or later. `view` must live until this returns. */
void admin_handle(struct admin *admin, const struct console_view *view, uint64_t now_ms,
                  struct http_request *request);

/* Once a round: takes the results of the lanes. */
void admin_collect(struct admin *admin);
/* A few times a second: jobs and streams make progress. */
void admin_tick(struct admin *admin, uint64_t now_ms);
