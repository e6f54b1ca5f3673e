/*
 * load: a load generator for one HTTP server on the loopback.
 *
 * One thread on one core, so cheap per request that a server on the other core
 * is the limit: one request template whose id is patched in place, one send
 * and one recv a request, edge-triggered epoll, no timer per request. It shows
 * its own CPU per request, so a run can prove that it was not the limit.
 *
 * Parts: load.c (options, report), load_run.c (the loop), load_request.c (what
 *        is sent and how an answer is read), load_tls.c and load_tls_keys.c (a lean TLS
 *        client), load_cpu.c (CPU of the server), load_latency.h.
 * Threads: one.
 * Failure: a message on stderr and exit code 1; a failed request is counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load_latency.h"

#define LOAD_CONNECTIONS_MAX 4096
#define LOAD_PIDS_MAX 16
#define LOAD_ANSWER_MAX 16384
#define LOAD_REQUEST_MAX (192u << 10)
#define LOAD_BATCH_MAX 128 /* events of one request */

enum load_mode {
	LOAD_KEEPALIVE, /* closed loop: a connection's next request follows its answer */
	LOAD_CLOSE,     /* closed loop, a new connection for every request */
	LOAD_OPEN,      /* fixed rate on keep-alive connections, timed from the intended moment */
};

/* What is sent: see load_request.c. */
enum load_event { LOAD_EVENT_PLAIN, LOAD_EVENT_GENESYS };

enum load_tls_kind { LOAD_PLAIN, LOAD_TLS_FULL, LOAD_TLS_RESUME };

struct load_options {
	const char *host; /* an IPv4 address */
	uint16_t port;
	const char *path;
	enum load_mode mode;
	enum load_tls_kind tls;
	uint32_t connections;
	double seconds;
	double warmup_seconds;
	double rate;         /* requests/s of LOAD_OPEN */
	uint32_t duplicates; /* ids in the set that is sent again and again; 0: every id is new */
	uint32_t prefix;     /* first digits of every id: another one for every run */
	enum load_event event;
	uint32_t body_bytes; /* of one event */
	uint32_t batch;      /* events of one request: an array; 0: one, by itself */
	int cpu;             /* core to pin to, -1: none */
	int pids[LOAD_PIDS_MAX];
	uint32_t pid_count;
	bool show; /* print one request and one answer, then leave */
};

/* What a run has counted so far; a window is the difference of two. */
struct load_counts {
	uint64_t requests; /* answers with status 200 */
	uint64_t errors;
	uint64_t fresh; /* answers that said verdict new */
	uint64_t duplicate;
	uint64_t other; /* any other verdict */
	uint64_t resumed;
	uint64_t handshakes;
};

struct load_result {
	struct load_counts counts;
	double seconds;
	uint64_t server_ns;  /* CPU of the given pids in the window */
	uint64_t own_ns;     /* CPU of this process */
	uint64_t machine_ns; /* CPU of the whole machine */
	uint64_t idle_ns;    /* of it, spent asking in vain for answers */
	struct load_latency latency;
};

/* load_request.c */
struct load_request {
	char bytes[LOAD_REQUEST_MAX];
	size_t size;
	uint32_t events;
	char *id_digits[LOAD_BATCH_MAX][2]; /* places of the 12 hex digits that count */
};

int load_request_build(struct load_request *request, const struct load_options *options);
void load_request_number(struct load_request *request, uint64_t number);

enum load_verdict { LOAD_NONE, LOAD_NEW, LOAD_DUPLICATE, LOAD_OTHER };

struct load_answer {
	bool ok; /* status 200 */
	enum load_verdict verdict;
	uint64_t fresh; /* of a batch: how many events are new */
};

/* Where the last answer had its parts: the next one mostly has them there too. */
struct load_shape {
	size_t size;
	size_t head;
	size_t verdict;
	char length[24]; /* the Content-Length header from the digits to the end of line */
	size_t length_at;
};

/* Reads one answer. Its size in bytes, 0 when more bytes are needed, -1 when
 * it is no answer that this generator understands. */
long load_answer_read(struct load_shape *shape, const char *bytes, size_t size,
                      struct load_answer *ret_answer);

/* load_run.c */
int load_run(const struct load_options *options, struct load_result *result);
int load_show(const struct load_options *options);
uint64_t load_now_ns(void);

/* load_cpu.c: nanoseconds on a CPU of all threads of these processes. */
uint64_t load_cpu_ns(const int *pids, uint32_t count);
uint64_t load_cpu_own_ns(void);
uint64_t load_cpu_machine_ns(void); /* of everything that runs, in steps of 10 ms */
int load_cpu_pin(int cpu);

/* load_tls.c: a client that trusts any certificate. A connection begins, hands
 * shakes until it is ready, sends, receives, and ends. */
struct load_tls_context;
struct load_tls;

enum load_tls_step { LOAD_TLS_AGAIN, LOAD_TLS_READY, LOAD_TLS_FAILED };

struct load_tls_context *load_tls_new(bool resume);
/* NULL with errno; EAGAIN when the socket is not connected yet. */
struct load_tls *load_tls_begin(struct load_tls_context *context, int fd);
enum load_tls_step load_tls_handshake(struct load_tls *tls, bool *ret_resumed);
int load_tls_send(struct load_tls *tls, const char *bytes, size_t size);
/* As recv(): bytes, 0 at the end, -1 when there is nothing now, -2 on failure. */
long load_tls_recv(struct load_tls *tls, char *bytes, size_t size);
void load_tls_end(struct load_tls *tls);
