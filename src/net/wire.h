/*
 * wire: one accepted connection as bytes, plain or TLS: receiving, sending, stalling,
 * lingering, the end; and what all wires of a server share, their host.
 *
 * A server embeds a wire_host, and a wire in each of its connections. Its struct wire_kind
 * handles the bytes of its protocol. The output of all wires of a round is sent from the
 * host's round hook, in one system call where possible.
 *
 * Invariants:
 *  S1 A wire is freed only by the round hook (or with its host), so no function
 *     frees a wire that its caller still uses.
 *  S2 Beyond WIRE_OPEN no byte that arrives is processed.
 *  S3 The input from in_at on is not yet part of anything; it may be moved, the bytes
 *     before it never.
 *
 * Room:      net. Threads: that of the loop.
 * Ownership: the kind makes and frees the memory around a wire. The host owns
 *            descriptors, inputs, outputs and TLS sessions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "net/gauge.h"
#include "net/listener.h"
#include "net/tls/tls_session.h"
#include "net/wheel.h"
#include "sys/loop.h"
#include "sys/socket_batch.h"

#define WIRE_LINGER_BYTES (1024 * 1024)       /* that are thrown away unread at an end */
#define WIRE_CIPHER_ROOM (16u * 1024u + 512u) /* a largest record of TLS */

struct wire_host;

/* The life of a wire goes down this list, never up. */
enum wire_life {
	WIRE_OPEN = 0,
	WIRE_LAST,      /* S2: answers are still to be written */
	WIRE_CLOSING,   /* the last answer is written: it is sent, then the wire is closed */
	WIRE_LINGERING, /* all is sent; what still comes is thrown away for a while */
	WIRE_BROKEN,    /* no memory, or an error of the peer: closed at the next chance */
};

struct wire {
	struct loop_handler handler; /* fd is -1 when closed */
	struct socket_call sending, receiving;
	struct wire_host *host;
	struct wire *dirty_next;
	struct wire *next, **prev; /* all of the host */
	struct gauge_slot *slot;
	struct wheel_entry timeout;

	struct input *input;
	uint32_t in_at, in_len;
	struct outgoing out;     /* in clear */
	struct tls_session *tls; /* NULL: plain */
	uint32_t lingered;       /* bytes thrown away while lingering */
	uint64_t stalled_ms;     /* when the kernel first took no more; 0: all was sent since */
	uint64_t stalled_bytes;  /* sent since then */

	enum wire_life life;
	bool dirty;      /* in the host's list */
	bool registered; /* in the loop */
	bool hangup;     /* the peer has ended its side, or an error waits */
	bool eof;        /* and we have read all of it */
	bool paused;     /* too much unanswered or unsent: nothing is read */
	bool read_due;   /* bytes wait in the kernel, and no edge will report them again */
	bool stalled;    /* the kernel takes no more: wait until it is writable */
	bool refused;    /* input was left unread: linger */
	bool greeted;    /* the TLS handshake is done and counted */
};

/* What a server makes of its wires. */
struct wire_kind {
	/* A connection; the host sets its wire. NULL: there is no memory. */
	struct wire *(*make)(struct wire_host *host, int fd, const struct sockaddr *address,
	                     struct tls_session *tls);
	void (*begun)(struct wire *wire);    /* it is in the host's lists */
	int (*make_room)(struct wire *wire); /* in the input, behind in_len */
	void (*process)(struct wire *wire);  /* bytes arrived, or it is resumed */
	bool (*must_pause)(const struct wire *wire);
	void (*set_deadline)(struct wire *wire);   /* for what it is doing now */
	void (*rest)(struct wire *wire);           /* all is sent, and there is nothing to do */
	bool (*is_asked)(const struct wire *wire); /* the peer waits for our answer */
	bool (*is_idle)(const struct wire *wire);  /* may be closed by a drain */
	void (*expired)(struct wire *wire);        /* its deadline has passed */
	/* Closed and in no list: to be freed, unless something still needs it. */
	void (*release)(struct wire *wire);

	/* The rest may be NULL. */
	void (*greeted)(struct wire *wire); /* the TLS handshake is done */
	void (*stalled)(struct wire *wire); /* its deadline is that of sending now */
	void (*closed)(struct wire *wire);
	/* Before the output of a round is sent, of the wires from `first` on by
	 * dirty_next; and after. */
	void (*round)(struct wire_host *host, struct wire *first);
	void (*round_ends)(struct wire_host *host);
};

struct wire_host {
	/* The server's, set before wire_host_init(). Also the acceptor's gauge, limits
	 * and refused(), and of the pool what limits it. */
	const struct wire_kind *kind;
	struct loop *loop;
	struct tls *tls; /* NULL: plain */
	struct wire_counters *counters;
	uint32_t send_ms;   /* a peer that reads nothing for this long is dropped, … */
	uint32_t send_rate; /* … and one that reads fewer bytes a second; not 0 */
	uint64_t tick_ms;   /* time-outs are late by that at most */
	struct acceptor acceptor;
	struct pool pool;
	/* the host's */
	struct wheel wheel;
	struct loop_timer wheel_timer;
	struct loop_hook hook, look_hook;
	uint64_t hook_round;        /* the last round whose hook has begun */
	char *cipher;               /* to receive ciphertext in; only with TLS */
	struct socket_batch *batch; /* NULL: each wire receives and sends for itself */
	bool draining;
	struct wire *wires; /* all, with closed ones that something still needs */
	struct wire *dirty, **dirty_end;
	struct wire *flushing;
};

void wire_host_init(struct wire_host *host); /* cannot fail; close undoes it */
/* `joins`: as http_server_options.joins. */
int wire_host_open(struct wire_host *host, const char *address, const struct wire_host *joins,
                   struct error_text *ret_text) must_check;
void wire_host_close(struct wire_host *host); /* every wire is closed and released */
int wire_host_batch(struct wire_host *host) must_check;
/* Accepts no more; idle wires are closed. */
void wire_host_drain(struct wire_host *host);
void wire_host_cut(struct wire_host *host); /* drained, and every wire closed */
bool wire_host_drained(const struct wire_host *host);
/* One too many: sends the text if that does not block, and closes the descriptor. */
void wire_turn_away(struct wire_host *host, int fd, struct span text);

void wire_mark_dirty(struct wire *wire); /* the round hook will see it */
void wire_break_off(struct wire *wire);  /* it is closed at the next chance */
void wire_close(struct wire *wire);      /* at once, whatever is unsent */
void wire_unlink(struct wire *wire);     /* from the host's list, before it is freed */
void wire_set_timeout(struct wire *wire, uint64_t deadline_ms); /* or WHEEL_NEVER */
bool wire_has_output(const struct wire *wire);

static inline void wire_advance(struct wire *wire, enum wire_life life)
{
	if (wire->life < life)
		wire->life = life;
}
