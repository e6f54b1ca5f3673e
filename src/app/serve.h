/*
 * serve: the gateway itself: wires store, doors, console and sink together and
 * runs until told to stop.
 *
 * Room:    app. Threads: called on the main thread, which becomes io thread 0.
 * Failure: the exit code; what went wrong was logged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/options.h"

struct serve_options {
	const char *listen;
	const char *data;
	uint64_t window_ms;
	const char *tls_cert;
	const char *tls_key;
	uint64_t threads;
	uint64_t log_json;
	uint64_t print_envelope;
	uint64_t commit; /* enum serve_commit */
	uint64_t retain_ms;
	uint64_t retain_bytes;
	uint64_t body_bytes;
	uint64_t connections;
	uint64_t connections_per_address;
	uint64_t open_tickets;
	bool accept_clock;
};

enum serve_commit { SERVE_COMMIT_AUTO, SERVE_COMMIT_INLINE, SERVE_COMMIT_THREAD };

extern const struct option_table serve_option_table;

int serve_run(const struct serve_options *options);
