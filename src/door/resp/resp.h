/*
 * resp: the door for handlers that talk to Redis.
 *
 * Keys with values that are kept until a time (STORE_CELL), under the commands that
 * Redis has for them, with its replies and its errors. docs/redis-door.md tells which,
 * and what differs.
 *
 * A command is submitted to the store when it arrives and replied to when the store has
 * made it durable: what a round has read from all connections is one commit. So an OK
 * is never said of what a crash could take back.
 *
 * Errors of the store: OOM: it has no room; MISCONF: a write failed; both: nothing was
 * changed. LOADING: a shared store is away or this one is closing; the command was done
 * wholly or not at all.
 *
 * Room:      door.
 * Threads:   one door per io thread; all calls on that thread. What they share is in
 *            struct resp_shared, which is read only but for its cursors.
 * Ownership: borrows store and shared, which must outlive it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "gate/digest.h"
#include "net/resp/resp_server.h"
#include "store/store.h"

#define RESP_PASSWORDS_MAX 5u
#define RESP_THREADS_MAX 64u
#define RESP_KEY_MAX STORE_NAME_MAX
#define RESP_CURSORS_MAX 256u
#define RESP_RUN_ID_LEN 40u
#define RESP_QUEUED_BYTES_ALL (256u << 20)

/* Places of scans that do not fit the 64 bits that clients have for them; the one that
 * was not used for longest goes first. */
struct resp_cursors {
	pthread_mutex_t lock;
	uint64_t last;
	struct {
		uint64_t id, used;
		struct store_cursor cursor;
	} slots[RESP_CURSORS_MAX];
};

struct resp_options {
	const unsigned char *key; /* DIGEST_KEY_LEN bytes: the store's */
	struct span scope;        /* of the cells' digests; at most DIGEST_SOURCE_MAX bytes */
	const struct span *passwords;
	uint32_t password_count; /* 0: everybody is let in; else at most RESP_PASSWORDS_MAX */
	uint32_t max_value;      /* bytes, at most STORE_VALUE_MAX */
	uint32_t max_clients;    /* only told */
	const char *version;     /* of stile */
	uint64_t started_ms;     /* unix */
};

struct resp_guesses;

struct resp_shared {
	struct resp_options options;
	struct digest_scope scope;
	char run_id[RESP_RUN_ID_LEN];
	struct resp_cursors cursors;
	struct resp_guesses *guesses;
	_Atomic(const struct resp_counters *) counters[RESP_THREADS_MAX];
	atomic_uint thread_count;
};

/* 0, ERR_INVALID or ERR_TOO_LARGE for a scope that is none, -errno. */
int resp_shared_new(const struct resp_options *options, struct resp_shared **ret_shared) must_check;
struct resp_shared *resp_shared_free(struct resp_shared *shared);

struct resp_word;

struct resp_door {
	struct store *store; /* this thread's: the store itself or a port */
	struct resp_shared *shared;
	struct resp_server *server; /* set by resp_door_open() */
	struct resp_counters *counters;
	const struct resp_word *last; /* that was asked for */
	/* Of commands that wait for their EXEC, on all connections; beyond: OOM. */
	uint64_t queued_bytes, queued_bytes_max;
	/* More was submitted since the store's flush: it wants another one. */
	bool asked;
};

/* Where it listens: loop, address, joins, limits, gauge and tls of the options; the rest
 * is the door's. */
int resp_door_open(struct resp_door *door, struct resp_shared *shared, struct store *store,
                   const struct resp_server_options *where, struct error_text *ret_text) must_check;

/* After the store is closed. Accepts a door that was never opened. */
void resp_door_close(struct resp_door *door);
