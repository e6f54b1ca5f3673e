/*
 * console: what machines that watch see: /healthz, /readyz, /metrics.
 *
 * Room:      console.
 * Threads:   any io thread may handle a request; everything read is atomic.
 * Ownership: borrows what app/ registered; all of it outlives the servers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "deliver/deliver.h"
#include "gate/meters.h"
#include "net/http_server.h"
#include "store/store.h"

#define CONSOLE_THREADS_MAX 64

/* What one io thread counts. */
struct console_thread {
	const struct meters *meters;
	const struct http_counters *http;
};

struct console {
	const char *version;
	const char *source; /* name of the only source */
	struct store *store;
	const struct deliver_counters *deliver;
	uint64_t started_ms; /* unix */
	atomic_bool draining;
	uint32_t thread_count;
	struct console_thread threads[CONSOLE_THREADS_MAX];
};

/* Answers if the path is one of its own; false: not mine. */
bool console_handle(struct console *console, struct http_request *request);
