/*
 * resp: the door for handlers that are Redis clients.
 *
 * Keys with values that are kept until a time (STORE_CELL), with Redis' commands, replies and
 * errors. docs/redis-door.md lists the commands and the differences.
 *
 * A command is submitted to the store when it arrives and replied to when the store has
 * made it durable: everything that one round of the loop has read from all connections is
 * one commit. So a crash never takes back a command that was answered with OK.
 *
 * Errors of the store: OOM: it has no room; MISCONF: a write failed; both: nothing was
 * changed. LOADING: a shared store is unreachable or this one is closing; the command was
 * done wholly or not at all.
 *
 * Room:      door/resp.
 * Threads:   one door per io thread; all calls on that thread. They share struct
 *            resp_shared, which is read only except for its cursors.
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

/* Positions of scans that do not fit the 64 bits of a client's cursor; the least recently used
 * one is replaced first. */
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
	uint32_t password_count; /* 0: no password is needed; at most RESP_PASSWORDS_MAX */
	uint32_t max_value;      /* bytes, at most STORE_VALUE_MAX */
	uint32_t max_clients;    /* for INFO only */
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
	const struct resp_word *last; /* command, to find it again quickly */
	/* Of commands that wait for their EXEC, on all connections; beyond: OOM. */
	uint64_t queued_bytes, queued_bytes_max;
	/* Something was submitted after the store's last flush: it needs another one. */
	bool asked;
};

/* Where it listens: loop, address, joins, limits, gauge and tls of the options; the rest
 * is the door's. */
int resp_door_open(struct resp_door *door, struct resp_shared *shared, struct store *store,
                   const struct resp_server_options *where, struct error_text *ret_text) must_check;

/* After the store is closed. Accepts a door that was never opened. */
void resp_door_close(struct resp_door *door);
