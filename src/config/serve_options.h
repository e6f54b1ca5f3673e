/*
 * serve_options: the options of `stile serve`: flags, most of which the
 * configuration file has too (config.h), under a path of their own but with the
 * same kind, range, default and help.
 *
 * Room: config. Threads: the main one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/options.h"

struct serve_options {
	const char *config; /* the configuration file; NULL: none */
	const char *listen;
	const char *admin; /* where the admin listener is; "none" */
	const char *resp;  /* where the Redis door is; "none" */
	const char *resp_scope;
	uint64_t resp_tls; /* enum serve_resp_tls */
	uint64_t resp_max_value;
	uint64_t resp_idle_ms; /* 0: for ever */
	const char *data;
	const char *store; /* the URL of a shared one; NULL: that of the file, or none */
	uint64_t window_ms;
	const char *tls_cert;
	const char *tls_key;
	const char *tls_client_ca;
	uint64_t threads;
	uint64_t log_json;
	uint64_t print_envelope;
	uint64_t commit;   /* enum serve_commit */
	uint64_t io_uring; /* enum serve_io_uring */
	uint64_t retain_ms;
	uint64_t retain_bytes;
	uint64_t dead_keep_ms;
	uint64_t body_bytes;
	uint64_t connections;
	uint64_t connections_per_address;
	uint64_t open_tickets;
	bool accept_clock;
};

enum serve_commit { SERVE_COMMIT_AUTO, SERVE_COMMIT_INLINE, SERVE_COMMIT_THREAD };

enum serve_resp_tls { SERVE_RESP_TLS_AUTO, SERVE_RESP_TLS_OFF };

enum serve_io_uring { SERVE_IO_URING_AUTO, SERVE_IO_URING_OFF };

/* The rows of its table. */
enum serve_row {
	SERVE_CONFIG,
	SERVE_LISTEN,
	SERVE_ADMIN,
	SERVE_RESP,
	SERVE_RESP_SCOPE,
	SERVE_RESP_TLS,
	SERVE_RESP_MAX_VALUE,
	SERVE_RESP_IDLE,
	SERVE_DATA,
	SERVE_STORE,
	SERVE_WINDOW,
	SERVE_TLS_CERT,
	SERVE_TLS_KEY,
	SERVE_TLS_CLIENT_CA,
	SERVE_THREADS,
	SERVE_LOG,
	SERVE_PRINT,
	SERVE_COMMIT,
	SERVE_IO_URING,
	SERVE_RETAIN,
	SERVE_RETAIN_SIZE,
	SERVE_DEAD_KEEP,
	SERVE_MAX_BODY,
	SERVE_MAX_CONNECTIONS,
	SERVE_MAX_PER_ADDRESS,
	SERVE_MAX_OPEN_TICKETS,
	SERVE_ACCEPT_CLOCK,
	SERVE_ROWS
};

extern const struct option serve_option_rows[SERVE_ROWS];
extern const struct option_table serve_option_table;
