/*
 * console: health, metrics, and questions about events and windows.
 *
 *   GET  /healthz, /readyz, /metrics        on every listener
 *   /v1/…                                   on the admin listener: console/admin/admin.h
 *
 * Room:      console.
 * Threads:   any io thread may handle a request; everything read is atomic, or the
 *            thread's own (struct console_view).
 * Ownership: borrows what serve/ registered; all of it outlives the servers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "console/why/why.h"
#include "deliver/deliver.h"
#include "gate/advice.h"
#include "gate/meters.h"
#include "net/http/http_server.h"
#include "net/resp/resp_server.h"
#include "store/store.h"
#include "sys/worker.h"
#include "trace/trace_log.h"

#define CONSOLE_THREADS_MAX 64

/* What one io thread counts. */
struct console_thread {
	const struct histogram *answer_us; /* from whole request to answer */
	const struct http_counters *http;
	const struct resp_counters *resp; /* NULL: there is no Redis door */
	const struct histogram *reply_us; /* of that door: from whole command to reply */
};

struct feed;

struct console {
	const char *version;
	const struct source_counts *counts;
	struct store *store;
	struct trace_log *traces; /* NULL: there is none */
	/* See struct why_context; called on the worker's thread. */
	int (*read)(void *user, uint64_t ticket, struct buf *ret_payload);
	void *read_user;
	struct worker *worker; /* reads from disk; NULL: it has ended */
	struct deliver *deliver;
	struct feed *feed;   /* decisions and attempts as they happen */
	uint64_t started_ms; /* unix */
	atomic_bool draining;
	uint32_t thread_count;
	struct console_thread threads[CONSOLE_THREADS_MAX];
};

/* Of the thread that handles a request. */
struct console_view {
	struct store *port; /* to submit to: the store itself or a port */
	struct worker_desk *desk;
	const struct advice_question *windows;
	uint32_t window_count;
};

/* Answers one of the pages of every listener; false: the path is none of them. */
bool console_handle(struct console *console, const struct console_view *view,
                    struct http_request *request);

/* GET /v1/why and /v1/advise. */
void console_answer_why(struct console *console, const struct console_view *view,
                        struct http_request *request);
void console_answer_advise(struct console *console, const struct console_view *view,
                           struct http_request *request);
