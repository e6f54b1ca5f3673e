/*
 * resp_connection: one peer of a resp_server. The private side of resp_server.h:
 *   resp_server.c      accepting, the round hook, limits, drain
 *   resp_connection.c  life and death, bytes to calls, calls to replies
 *   resp_socket.c      receiving and sending, plain or TLS
 *
 * Invariants:
 *  R1 Calls stand in a queue in the order of their commands; replies are written
 *     from its head on.
 *  R2 The input from in_at on is no part of a call: it may be moved, the bytes before it
 *     never.
 *  R3 A connection is freed only by the round hook (or with its server), so no function
 *     has to fear for its caller's pointer.
 *  R4 `last` is set: no byte that comes is looked at any more.
 *
 * Room: net. Threads: that of the server.
 */
#pragma once

#include "net/acceptor.h"
#include "net/gauge.h"
#include "net/pool.h"
#include "net/resp_server.h"
#include "net/tls_session.h"
#include "net/wheel.h"
#include "sys/socket_batch.h"

#define RESP_LINGER_BYTES (1024u * 1024u)
#define RESP_LINGER_MS 2000u
#define RESP_CIPHER_ROOM (16u * 1024u + 512u) /* a largest record of TLS */

struct resp_connection;

struct resp_entry {
	struct resp_entry *next; /* in the queue, or while spare */
	struct resp_connection *connection;
	struct input *input; /* what its arguments point into; counted */
	uint64_t weight;
	bool done;
	bool fault; /* not the handler's: the bytes behind it are no command */
	bool ends;
	struct resp_call call;
};

struct resp_connection {
	struct loop_handler handler; /* fd is -1 when closed */
	struct socket_call sending, receiving;
	struct resp_server *server;
	struct resp_connection *dirty_next;
	struct resp_connection *next, **prev; /* all of the server */
	struct resp_connection *held_next;    /* waits until others have fewer calls */
	struct gauge_slot *slot;
	struct wheel_entry timeout;
	struct resp_client client;

	struct input *input;
	uint32_t in_at, in_len;
	struct resp_parser parser;

	struct resp_entry *first, **tail;
	uint32_t waiting;        /* calls in the queue */
	uint64_t served;         /* the number of the last hook that had replies for it */
	uint64_t weight;         /* of them */
	struct outgoing out;     /* replies, in clear */
	struct tls_session *tls; /* NULL: plain */
	uint32_t lingered;       /* bytes thrown away while lingering */

	bool dirty;      /* in the server's list */
	bool held;       /* in the server's other list */
	bool registered; /* in the loop */
	bool hangup;     /* the peer has ended its side, or an error waits */
	bool eof;        /* and we have read all of it */
	bool paused;     /* too much undone or unsent: not looking at commands */
	bool read_due;   /* bytes wait in the kernel, and no edge will tell again */
	bool stalled;    /* the kernel takes no more: wait until it is writable */
	bool last;       /* R4 */
	bool closing;    /* the last reply is written */
	bool lingers;
	bool refused; /* input was left unread: linger */
	bool broken;  /* no memory, or a peer's error: close at the next chance */
};

struct resp_server {
	struct loop *loop;
	struct acceptor acceptor;
	struct loop_timer wheel_timer;
	struct loop_hook hook;
	struct loop_hook look_hook;
	uint64_t hook_round; /* the last round whose hook has begun */
	struct wheel wheel;
	struct resp_server_options options;
	char *cipher; /* RESP_CIPHER_ROOM bytes to receive ciphertext in; only with tls */
	bool draining;

	struct resp_connection *connections;
	struct resp_connection *dirty, **dirty_end;
	struct resp_connection *held;
	struct resp_connection *flushing;
	uint32_t calls;  /* that are not replied to */
	uint64_t weight; /* of them */
	struct resp_entry *spare_entries;
	uint32_t spare_count;
	struct pool pool;
	struct buf replies; /* of one connection, before they are moved to its output */
	struct span *args;  /* of the command that is handled */
	uint32_t args_room;

	struct {
		uint64_t ns;      /* 0: none */
		uint64_t served;  /* hooks that had replies */
		uint32_t last;    /* connections that the last of them had replies for */
		uint32_t present; /* connections of the last two */
		uint32_t asking;  /* connections with calls */
		uint32_t undone;  /* calls that are not done */
		uint32_t before;  /* asking, when waiting began */
		uint32_t misses;  /* waits in a row that brought little */
		uint32_t rest;    /* rounds without waiting, for that */
		uint64_t until_ns;
	} patience;

	struct socket_batch *batch; /* NULL: each connection receives and sends for itself */
	struct histogram *reply_us;
	struct resp_counters counters;
};

/* One writer: no locked instruction needed. */
static inline void resp_count(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/* resp_server.c */
void resp_mark_dirty(struct resp_connection *connection);
void resp_hold(struct resp_connection *connection); /* until there are fewer calls */

/* resp_connection.c */
int resp_connection_new(struct resp_server *server, int fd, const struct sockaddr *address,
                        struct gauge_slot *slot, struct resp_connection **ret) must_check;
void resp_connection_close(struct resp_connection *connection); /* whatever is unsent */
void resp_connection_free(struct resp_connection *connection);  /* closed, without calls */
void resp_connection_drop_calls(struct resp_connection *connection);
void resp_connection_read(struct resp_connection *connection);
void resp_connection_received(struct resp_connection *connection, bool more);
bool resp_connection_reply(struct resp_connection *connection, uint64_t now_ns);
void resp_connection_flush(struct resp_connection *connection);
int resp_connection_register(struct resp_connection *connection) must_check;
bool resp_connection_is_idle(const struct resp_connection *connection);
int resp_connection_make_room(struct resp_connection *connection) must_check;

/* resp_socket.c */
bool resp_may_send(const struct resp_connection *connection);
bool resp_fill(struct resp_connection *connection); /* one recv; true: there may be more */
void resp_send(struct resp_connection *connection); /* all, if the kernel takes it */
/* Queues what a plain connection has to send; resp_send() does what is left. */
void resp_send_ahead(struct resp_connection *connection);
/* Queues one recv of a plain connection; its end calls resp_connection_received(). */
void resp_receive_together(struct resp_connection *connection);
bool resp_has_output(const struct resp_connection *connection);
void resp_break_off(struct resp_connection *connection);
