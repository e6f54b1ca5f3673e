/*
 * http_server: HTTP/1.1 over TCP and TLS on one loop. Knows nothing of events.
 *
 * A request is given to the handler when it has wholly arrived. The handler
 * answers at once or later, in any order; answers leave in the order of the
 * requests, and all output of a connection in a round leaves in one
 * write, from the server's round hook. So a store that commits in a hook added
 * before the server's makes decisions durable first and answers after.
 *
 * Room:      net. Threads: one server per io thread, with a listener of its own
 *            (SO_REUSEPORT); everything here runs on that thread. The limits on
 *            connections are shared by all (struct gauge, atomics).
 * Ownership: the server owns requests. A request's spans live until it is
 *            answered. If the peer goes away first, the request lives on until
 *            http_respond(), which then only frees it.
 * Failure:   bad requests are answered by the server itself with
 *            application/problem+json and never reach the handler.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "codec/http1.h"
#include "codec/ip.h"
#include "codec/peer_name.h"
#include "net/gauge.h"
#include "sys/loop.h"

struct http_server;
struct histogram;

/* Who is at the other end of a connection. */
struct http_peer {
	struct ip_address address;
	uint16_t port;
	bool local; /* by a unix socket: it has neither address nor port */
	bool tls;
	bool certified; /* showed a certificate that our client CA vouches for */
	uint32_t name_count;
	const struct peer_name *names; /* of that certificate */
};

struct http_request {
	struct http1_head head; /* method, target, headers: codec/http1.h */
	struct span body;
	bool unread; /* the body was not wanted (options.wants_body): it is empty here */
	const struct http_peer *peer; /* lives as long as the request */
	uint64_t arrived_ns;          /* loop time when it was whole */
	void *user;                   /* the server's user pointer, from the options */
	void *scratch; /* options.scratch_size bytes, 16-aligned, for the handler; not zeroed */
};

struct http_response {
	uint16_t status;
	struct span content_type; /* empty: none */
	struct span headers;      /* extra header lines, each ended by CRLF; may be empty */
	struct span body;
	bool close; /* end the connection after this answer */
};

struct http_limits {
	uint32_t head_bytes;    /* 16 KiB; beyond is 431 */
	uint32_t headers;       /* 100; beyond is 431 */
	uint32_t body_bytes;    /* 1 MiB; beyond is 413 */
	uint32_t head_ms;       /* 10 s to send the head; then 408 */
	uint32_t body_rate;     /* least bytes/s of a body, over each body_grace_ms; then 408 */
				/* … and of a peer that reads slowly; not 0 */
	uint32_t body_grace_ms; /* 10 s */
	/* Memory of requests that are not answered yet, beyond some KiB each: of all
	 * servers of a gauge. 256 MiB; beyond is 503. */
	uint64_t input_bytes;
	uint32_t idle_ms;     /* keep-alive, 75 s */
	uint32_t send_ms;     /* a peer that does not read, or below the rate, is dropped */
	uint32_t pipeline;    /* unanswered requests per connection; then reading pauses */
	uint32_t connections; /* in all; beyond is 503 with Retry-After and close */
	uint32_t connections_per_address; /* beyond is 429 and close */
};

extern const struct http_limits http_limits_default;

/* Counters of one server, written by its thread, read by any (relaxed). */
struct http_counters {
	struct wire_counters wires;
	atomic_uint_fast64_t requests;
	atomic_uint_fast64_t bad;     /* answered 4xx by the server itself */
	atomic_uint_fast64_t crowded; /* answered 503: limits.input_bytes */
};

struct http_server_options {
	struct loop *loop;
	const char *address; /* "127.0.0.1:8080", "[::1]:8443", "0.0.0.0:0" */
	/* Another server of this process, on another loop, whose port this one
	 * shares. NULL: the address must be free. */
	const struct http_server *joins;
	struct http_limits limits;
	struct gauge *gauge;
	struct tls *tls; /* net/tls.h, shared; NULL is plain */
	size_t scratch_size;
	struct span headers; /* lines that every answer has; as long as the server */
	void (*handle)(struct http_request *request);
	/* Asked once of a request whose body has not wholly arrived with its head.
	 * false: the handler gets it at once as `unread`, and the connection ends with
	 * its answer. NULL: every body is wanted. */
	bool (*wants_body)(const struct http_request *request);
	void *user;
};

int http_server_new(const struct http_server_options *options, struct http_server **ret_server,
                    struct error_text *ret_text) must_check;
struct http_server *http_server_free(struct http_server *server); /* after the loop has ended */

/* From now on many plain connections are read, and the answers of a round sent, in
 * one system call (sys/socket_batch.h). Where that is not available each does
 * so by itself: the error says why. */
int http_server_batch(struct http_server *server) must_check;

/* Answers a request (any time after the handler got it; from the loop's thread).
 * Bytes are copied. */
void http_respond(struct http_request *request, const struct http_response *response);

/* Has the peer ended its side of the connection, or is it gone? A caller that makes it wait
 * cannot tell one from the other. */
bool http_peer_has_ended(const struct http_request *request);

/*
 * An answer without an end: begun with a head and the first bytes, then written piece by
 * piece. The request lives until http_stream_end(), which ends the connection, also when
 * the peer is gone meanwhile. False: the connection has other requests that are not answered
 * yet, or there is no memory; the request is as it was.
 */
bool http_stream_begin(struct http_request *request, const struct http_response *response);
/* Bytes that are not sent yet, with these; -1: the peer is gone. */
int64_t http_stream_write(struct http_request *request, struct span bytes);
void http_stream_end(struct http_request *request);

/* problem+json with status, title and detail; extra header lines may be empty. */
void http_respond_problem(struct http_request *request, uint16_t status, const char *detail,
                          struct span headers);

/* Stops accepting, closes idle connections, lets the others finish with
 * Connection: close; requests that came later on the same connection are not
 * taken in. http_server_drained() is true when none is left. */
void http_server_drain(struct http_server *server);
bool http_server_drained(const struct http_server *server);

/* The end of a drain that takes too long: closes every connection, whatever it
 * is doing. Requests at the handler live on until they are answered. */
void http_server_cut(struct http_server *server);

const struct http_counters *http_server_counters(const struct http_server *server);
uint16_t http_server_port(const struct http_server *server); /* the real one when asked for 0 */
