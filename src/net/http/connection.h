/*
 * connection: one peer that speaks HTTP. What arrives becomes requests, what is answered
 * leaves in their order.
 *
 * The private side of http_server.h.
 *
 * Invariants:
 *  C1 Requests wait in a queue, in the order they arrived; only the first may
 *     write to `out`, the others keep their answer aside.
 *  C2 `current` has a head but not yet its whole body and is not in the queue.
 *
 * Room: net. Threads: that of the server.
 */
#pragma once

#include "codec/http1.h"
#include "net/http/http_server.h"
#include "net/wire.h"

#define CONNECTION_OUTPUT_MAX (64u * 1024u) /* unsent bytes beyond which reading pauses */

struct connection;

struct request {
	struct connection *connection;
	struct request *next;  /* in the queue */
	struct input *input;   /* what the spans point into; counted */
	struct outgoing aside; /* the answer, while earlier ones are missing */
	bool answered;
	bool close;   /* the connection ends behind this answer */
	bool streams; /* its answer is being written, and has no end yet */
	struct http_request http;
};

/* What the deadline of a connection is for. */
enum phase {
	PHASE_NONE = 0,
	PHASE_HEAD,
	PHASE_BODY,
	PHASE_WAIT, /* for our own answer: no deadline */
	PHASE_IDLE,
	PHASE_SEND,
};

struct connection {
	struct wire wire;
	struct http_server *server;
	struct http_peer peer;
	struct tls_names *names; /* what peer.names points into; NULL: none */

	struct http1_scan scan;
	struct request *current;
	uint32_t head_len; /* of current, with what was before its request line */
	struct http1_chunked chunked;
	uint64_t body_since_ms; /* its rate is judged from here on */
	uint32_t body_seen;     /* bytes of it that there were then */

	struct request *first, *tail;
	uint32_t waiting;

	uint8_t phase;
	bool wanted;    /* the body of `current`: it was asked for */
	bool continued; /* 100 Continue was sent or is not needed */
};

struct http_server {
	struct wire_host host;
	struct http_limits limits;
	struct http1_limits head_limits;
	void (*handle)(struct http_request *request);
	bool (*wants_body)(const struct http_request *request);
	void *user;
	size_t scratch_size;
	struct span headers; /* of every answer */

	struct wire *spare_connections;
	struct spares spare_requests;

	char date[HTTP1_DATE_LEN];
	uint64_t date_until_ns;
	struct http_counters counters;
};

static inline struct connection *connection_of(struct wire *wire)
{
	return container_of(wire, struct connection, wire);
}

static inline const struct connection *connection_of_const(const struct wire *wire)
{
	return container_of(wire, const struct connection, wire);
}

/* http_server.c */
const char *server_date(struct http_server *server);

/* connection.c */
extern const struct wire_kind connection_kind;
void connection_drop_requests(struct connection *connection);
