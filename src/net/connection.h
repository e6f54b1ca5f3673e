/*
 * connection: one peer. What arrives becomes requests, what is answered leaves
 * in their order.
 *
 * The private side of http_server.h, shared by the files of this room:
 *   http_server.c        accepting, the round hook, limits, drain
 *   connection.c         life and death, time-outs, the order of things
 *   connection_io.c      receiving and sending, plain or TLS
 *   connection_request.c bytes to requests
 *   connection_answer.c  answers to bytes
 *
 * Invariants:
 *  C1 Requests wait in a queue, in the order they arrived; only the first may
 *     write to `out`, the others keep their answer aside.
 *  C2 `current` has a head but not yet its whole body and is not in the queue.
 *  C3 The input from in_at on is not yet part of a whole request; it may be
 *     moved, the bytes before it never.
 *  C4 A connection is freed only by the round hook, so no function has to fear
 *     for its caller's pointer.
 *  C5 `last` is set: no byte that comes is looked at any more.
 *
 * Room: net. Threads: that of the server.
 */
#pragma once

#include "codec/http1.h"
#include "net/acceptor.h"
#include "net/gauge.h"
#include "net/http_server.h"
#include "net/pool.h"
#include "net/tls_session.h"
#include "net/wheel.h"
#include "sys/loop.h"
#include "sys/socket_batch.h"

#define CONNECTION_OUTPUT_MAX (64u * 1024u) /* unsent bytes beyond which reading pauses */
#define CONNECTION_LINGER_BYTES (1024u * 1024u)
#define CONNECTION_LINGER_MS 2000u
#define CONNECTION_CIPHER_ROOM (16u * 1024u + 512u) /* a largest record of TLS */

struct connection;

struct request {
	struct connection *connection;
	struct request *next;  /* in the queue, or while spare */
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
	PHASE_LINGER,
};

struct connection {
	struct loop_handler handler; /* fd is -1 when closed */
	struct socket_call sending, receiving;
	struct http_server *server;
	struct connection *dirty_next;
	struct connection *next, **prev; /* all of the server */
	struct gauge_slot *slot;
	struct wheel_entry timeout;
	struct http_peer peer;
	struct tls_names *names; /* what peer.names points into; NULL: none */

	struct input *input;
	uint32_t in_at, in_len;
	struct http1_scan scan;
	struct request *current;
	uint32_t head_len; /* of current, with what was before its request line */
	struct http1_chunked chunked;
	uint64_t body_since_ms; /* its rate is judged from here on */
	uint32_t body_seen;     /* bytes of it that there were then */

	struct request *first, *tail;
	uint32_t waiting;
	struct outgoing out;     /* answers, in clear */
	struct tls_session *tls; /* NULL: plain */
	uint32_t lingered;       /* bytes thrown away while lingering */
	uint64_t stalled_ms;     /* when the kernel first took no more; 0: all was sent since */
	uint64_t stalled_bytes;  /* sent since then */

	uint8_t phase;
	bool dirty;      /* in the server's list */
	bool registered; /* in the loop */
	bool hangup;     /* the peer has ended its side, or an error waits */
	bool eof;        /* and we have read all of it */
	bool paused;     /* too much unanswered or unsent: not reading */
	bool read_due;   /* bytes wait in the kernel, and no edge will tell again */
	bool stalled;    /* the kernel takes no more: wait until it is writable */
	bool last;       /* C5 */
	bool refused;    /* input was left unread: linger */
	bool wanted;     /* the body of `current`: it was asked for */
	bool continued;  /* 100 Continue was sent or is not needed */
	bool closing;    /* the last answer is written */
	bool greeted;    /* the TLS handshake is done and counted */
	bool broken;     /* no memory, or a peer's error: close at the next chance */
};

struct http_server {
	struct loop *loop;
	struct acceptor acceptor;
	struct loop_timer wheel_timer;
	struct loop_hook hook;
	struct loop_hook look_hook;
	uint64_t hook_round; /* the last round whose hook has begun */
	struct wheel wheel;
	struct http_limits limits;
	struct http1_limits head_limits;
	struct http_gauge *gauge;
	struct tls *tls;
	char *cipher; /* CONNECTION_CIPHER_ROOM bytes to receive ciphertext in; only with tls */
	void (*handle)(struct http_request *request);
	bool (*wants_body)(const struct http_request *request);
	void *user;
	size_t scratch_size;
	struct span headers; /* of every answer */
	bool draining;

	struct connection *connections; /* all, with closed ones whose requests live on */
	struct connection *dirty, **dirty_end;
	struct connection *flushing;
	struct connection *spare_connections;
	struct request *spare_requests;
	uint32_t spare_request_count;
	struct pool pool;

	struct socket_batch *batch; /* NULL: each connection receives and sends for itself */
	char date[HTTP1_DATE_LEN];
	uint64_t date_until_ns;
	struct http_counters counters;
};

/* One writer: no locked instruction needed. */
static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/* http_server.c */
void server_mark_dirty(struct http_server *server, struct connection *connection);
const char *server_date(struct http_server *server);

/* connection.c */
struct connection *connection_new(struct http_server *server, int fd,
                                  const struct sockaddr *address,
                                  struct gauge_slot *slot) must_check;
void connection_close(struct connection *connection);   /* at once, whatever is unsent */
void connection_release(struct connection *connection); /* closed, no requests: to the spares */
void connection_read(struct connection *connection);
void connection_received(struct connection *connection, bool more); /* goes on reading */
void connection_flush(struct connection *connection);
bool connection_may_send(const struct connection *connection);
void connection_expire(struct connection *connection);
int connection_register(struct connection *connection) must_check;
bool connection_is_idle(const struct connection *connection);

/* connection_io.c */
bool connection_fill(struct connection *connection); /* one recv; true: there may be more */
void connection_send(
	struct connection *connection); /* all that is to be sent, if the kernel takes it */
/* Queues what a plain connection has to send; connection_send() does what is left. */
void connection_send_ahead(struct connection *connection, struct socket_batch *batch);
/* Queues one recv of a plain connection, whose end calls connection_received(). */
void connection_receive_together(struct connection *connection, struct socket_batch *batch);
bool connection_has_output(const struct connection *connection);

/* connection_request.c */
int connection_make_room(struct connection *connection) must_check;
void connection_process(struct connection *connection); /* looks at the input */
void connection_refuse(struct connection *connection, uint16_t status, const char *reason);
void connection_offer_continue(struct connection *connection);
bool connection_must_pause(const struct connection *connection);
void connection_drop_requests(struct connection *connection);
void request_free(struct request *request);
