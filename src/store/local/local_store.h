/*
 * local_store: the store in a folder of this machine. An append-only journal
 * makes decisions durable, an index in memory makes them fast.
 *
 * Format:    format.h, docs/journal.md
 * Room:      store. Only serve/ and tests name this header.
 * Threads:   store.h's rule: one owner thread. A segment thread (keeper.h) prepares and
 *            retires segments; with keeper_inline there is none.
 *            local_store_key() and stats are for any thread.
 * Ownership: local_store_open() gives a struct store, store_free() takes it
 *            and everything it holds, the lock on the folder too.
 * Failure:   open refuses with a text that names file and offset:
 *            ERR_BUSY     another process has the folder,
 *            ERR_DAMAGED  bytes that were durable are not what was written,
 *            ERR_VERSION  a format this binary does not know,
 *            ERR_CONFIG   options make no sense together, or -errno.
 *            Later: ERR_FULL (no room now; resumes by itself when there is),
 *            ERR_POISONED (the write failed; the next one goes elsewhere).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/store.h"
#include "sys/clock.h"
#include "sys/file.h"

#define LOCAL_STORE_KEY_LEN 16

#define LOCAL_STORE_SEGMENT_MIN (64u << 10)
#define LOCAL_STORE_SEGMENT_MAX (1u << 30)

enum local_store_level {
	LOCAL_STORE_INFO,
	LOCAL_STORE_WARNING,
	LOCAL_STORE_ERROR,
};

/* A zero (or NULL) in any field takes its default. */
struct local_store_options {
	const char *path;          /* the data folder; made if it is not there */
	struct file_system *fs;    /* default: the machine's */
	const struct clock *clock; /* default: the machine's */
	uint32_t segment_bytes;    /* default 64 MiB; a multiple of 4096, 64 KiB … 1 GiB */
	uint32_t frame_bytes_max;  /* default 8 MiB, at most a quarter of a segment; an
	                               * event that does not fit is ERR_TOO_LARGE */
	uint32_t max_open_tickets; /* default 16 Mi; beyond it admits get ERR_FULL */
	uint64_t retain_ms;        /* default 7 d: settled payloads are kept this long, */
	uint64_t retain_bytes;     /* default 16 GiB: and no more than this */
	uint64_t dead_keep_ms;     /* default 30 d: dead letters are kept this long */
	bool keeper_inline;        /* no thread: its work runs inside flush and tick */
	bool lazy_outcomes;        /* settles complete with the next event's write, or the
	                               * tick's: an event costs one write, not two */
	bool accept_clock;         /* trust the wall clock once, as an operator says */
	/* What an operator should read (a torn tail, a held clock, a full disk).
	 * Called on the owner thread, during open too. The text is a fixed message, or a
	 * fixed message and details behind the first ": ". */
	void (*log)(void *user, enum local_store_level level, const char *text);
	void *log_user;
};

/*
 * Recovers what the folder holds (or makes a new one), and continues in its last
 * segment or begins the next.
 * Copies the options. On failure *ret_store is untouched and `ret_text`, which
 * may be NULL, says why.
 */
int local_store_open(const struct local_store_options *options, struct store **ret_store,
                     struct error_text *ret_text) must_check;

/* Checks every invariant of a local store, between two calls of it (slow; for tests). Does
 * nothing with a store of another kind. */
void local_store_check(const struct store *store);

/* The secret under which claims are digested: random when the folder was made,
 * constant ever after. Lives as long as the store. */
const unsigned char *local_store_key(const struct store *store);
