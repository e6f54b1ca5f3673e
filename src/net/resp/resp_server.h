/*
 * resp_server: the Redis protocol over TCP and TLS on one loop. Knows neither commands
 * nor what is stored.
 *
 * A command is given to the handler when it has wholly arrived: it becomes a call, which
 * is done at once or later, in any order. Replies leave in the order of the commands: when
 * the turn of a call that is done has come, the server asks for its reply. All replies
 * of a connection in a round leave in one write, from the server's round hook. So all that
 * a round has read from all connections can be one commit, in a hook added before the
 * server's.
 *
 * A peer that does not read gets no more replies: while more than limits.output_bytes wait
 * for it, or too many of its calls, its commands are not read.
 *
 * Room:      net. Threads: one server per io thread, with a listener of its own
 *            (SO_REUSEPORT); everything here runs on that thread. The limits on
 *            connections are shared by all (struct gauge, atomics).
 * Ownership: the server owns calls and clients. The arguments of a command live until its
 *            call is replied to, their array only inside handle(). If the peer goes away
 *            first the call lives on until it is done; its reply is asked for and dropped.
 * Failure:   bytes that are no command are answered by the server itself, as Redis does,
 *            and end the connection.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "codec/ip.h"
#include "codec/resp.h"
#include "net/gauge.h"
#include "sys/loop.h"

struct resp_server;
struct histogram;
struct tls;

/* Who is at the other end of a connection. */
struct resp_client {
	struct ip_address address;
	uint16_t port;
	int fd;
	uint64_t id;       /* from 1, unique in this process */
	uint64_t since_ms; /* loop time */
	bool tls;
	bool trusted; /* the handler's: false has the limits of a stranger */
	void *user;   /* the server's user pointer, from the options */
	void *state;  /* options.client_size bytes for the handler, zeroed */
};

struct resp_call {
	struct resp_client *client;
	uint64_t arrived_ns; /* loop time when it was whole */
	void *scratch;       /* options.call_size bytes, 16-aligned, for the handler; not zeroed */
};

struct resp_server_limits {
	struct resp_limits known;    /* of trusted clients … */
	struct resp_limits stranger; /* … and of others */
	uint64_t input_bytes;        /* of commands larger than some KiB, in all; beyond: dropped */
	uint32_t output_bytes;       /* not sent, of a connection; then its commands wait */
	uint32_t pipeline;           /* calls of a connection that are not done; the same */
	uint32_t weight_bytes;       /* what such calls hold (resp_call_weigh()); the same */
	uint32_t calls;              /* of all connections of a server; the same */
	uint64_t weight_bytes_all;   /* what those hold; the same */
	uint64_t output_bytes_all;   /* not sent, of all; then resp_call_is_dear() */
	uint32_t idle_ms;            /* 0: no limit */
	uint32_t stranger_ms;        /* how long a stranger may stay one */
	uint32_t send_ms;            /* a peer that does not read is dropped */
	uint32_t connections;        /* in all; beyond: an error, and closed */
	uint32_t connections_per_address;
};

extern const struct resp_server_limits resp_server_limits_default;

/* Counters of one server, written by its thread, read by any (relaxed). */
struct resp_counters {
	struct wire_counters wires;
	atomic_uint_fast64_t commands;
	atomic_uint_fast64_t bad;                      /* ended for bytes that are no command */
	atomic_uint_fast64_t errors[RESP_ERROR_COUNT]; /* the handler's: replies */
};

struct resp_server_options {
	struct loop *loop;
	const char *address;             /* "127.0.0.1:6379" */
	const struct resp_server *joins; /* as http_server_options.joins */
	struct resp_server_limits limits;
	struct gauge *gauge; /* not that of an HTTP server */
	struct tls *tls;     /* net/tls.h, shared; NULL is plain */
	size_t call_size;
	size_t client_size;
	bool trusts; /* clients are trusted from the beginning */
	/* `args` has at least one. May do the call. */
	void (*handle)(struct resp_call *call, const struct span *args, uint32_t count);
	/* The call's turn has come: its reply, and its end. */
	void (*reply)(struct resp_call *call, struct buf *out);
	/* The connection is gone, and so are its calls. */
	void (*gone)(struct resp_client *client);
	void *user;
};

int resp_server_new(const struct resp_server_options *options, struct resp_server **ret_server,
                    struct error_text *ret_text) must_check;
struct resp_server *resp_server_free(struct resp_server *server); /* after the loop has ended */

/* As http_server_batch(). */
int resp_server_batch(struct resp_server *server) must_check;

/* The reply can be written. Once for each call; from inside handle(), or later. */
void resp_call_done(struct resp_call *call);

/* From inside handle(): the call may hold this many bytes until its reply is written. */
void resp_call_weigh(struct resp_call *call, uint64_t bytes);

/* From inside handle(): peers that do not read hold so much memory that nothing should be
 * done that has a large reply. */
bool resp_call_is_dear(const struct resp_call *call);

/* From inside handle(), before the call is done: its reply is delayed, and the commands
 * behind it are not read until then. */
void resp_call_delay(struct resp_call *call, uint32_t ms);

/* From inside handle(): the connection ends behind this call's reply. */
void resp_call_ends(struct resp_call *call);

/* Stops accepting, closes idle connections; others end when what they have asked is
 * replied to. resp_server_drained() is true when none is left. */
void resp_server_drain(struct resp_server *server);
bool resp_server_drained(const struct resp_server *server);
void resp_server_cut(struct resp_server *server); /* closes every connection */

struct resp_counters *resp_server_counters(struct resp_server *server);
const struct histogram *resp_server_reply_us(const struct resp_server *server);
uint16_t resp_server_port(const struct resp_server *server);
