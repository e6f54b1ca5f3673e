/*
 * trace_log: the bounded memory of decisions that `stile why` answers from, and
 * of the gaps that `stile advise` goes by.
 *
 * It stands beside the journal and owes nothing to it: a trace may be lost (the
 * last second when the machine loses power, more when the disk fails), which is
 * counted and told; it never delays a decision and is never an error to a
 * sender. What is read back is checked: wrong data never.
 *
 * Adding copies the trace into a block of memory, under a lock that nothing but
 * such copies holds: some 50 ns. Once a second, or when a block is full, the
 * log's own thread takes the blocks, feeds the gaps, makes tags and writes. The
 * oldest files leave when there are too many bytes.
 *
 * Rates:     events that passed are traced up to new_per_s, with a burst, and
 *            beyond that one in 2, 4, 8 … of them: those whose claim's digest
 *            ends in zero bits, so that both comings of an id are traced or
 *            neither. Suppressed ones likewise above suppressed_per_s, but
 *            simply every 2nd, 4th … Each trace says what it stands for.
 * Format:    trace_format.h
 * Room:      trace. Threads: add, wants, find, stats and gaps from any thread.
 *            find waits for the writer (at most a second, then ERR_BUSY), writes what
 *            waits in memory and reads from disk, up to TRACE_READS_MAX records: not
 *            for a thread that others wait for. With `no_thread` the caller's tick writes.
 * Ownership: trace_log_open() gives it, trace_log_free() takes it. The data
 *            folder must be locked by whoever opens the log for writing (the
 *            local store does that); a read-only log needs no lock and changes
 *            nothing, whether or not a gateway runs.
 * Failure:   of open: -errno with a text. Damage is skipped and told through
 *            `log`; only a folder that cannot be read or made is an error, and
 *            the gateway can do without traces.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "gate/gap.h"
#include "gate/trace.h"
#include "sys/file.h"

#define TRACE_READS_MAX 1000u  /* records read back for one question */
#define TRACE_SOURCES_MAX 256u /* whose gaps are kept; of others it is told that they are not */
#define TRACE_TICK_MS 1000

struct trace_log;

/* A zero (or NULL) in any field takes its default. */
struct trace_log_options {
	const char *path;          /* the data folder */
	struct file_system *fs;    /* default: the machine's */
	uint64_t disk_bytes;       /* default 64 MiB, at least 1 MiB */
	uint64_t memory_bytes;     /* of blocks and index; default 16 MiB, at least 1 MiB */
	uint32_t new_per_s;        /* default 50 */
	uint32_t new_burst;        /* default 20,000 */
	uint32_t suppressed_per_s; /* default 2,000 */
	uint32_t suppressed_burst; /* default 50,000 */
	bool no_new;               /* events that pass leave no trace, returns are not seen */
	bool read_only;
	bool no_thread; /* the caller ticks */
	/* What an operator should read: damage that was skipped, a disk that fails
	 * and works again. From any of the log's threads. */
	void (*log)(void *user, bool warning, const char *text);
	void *log_user;
};

int trace_log_open(const struct trace_log_options *options, struct trace_log **ret_log,
                   struct error_text *ret_text) must_check;

/* Writes what there is; accepts NULL, returns NULL. */
struct trace_log *trace_log_free(struct trace_log *log);

/* Would an event that passed with these claims leave a trace? Asked before the
 * trace is put together. Accepts a NULL log. */
bool trace_log_wants_new(const struct trace_log *log, const struct trace_claim *claims,
                         uint32_t count);

/* Would an event that was suppressed leave one? Ask once for each of them, before
 * the trace is put together, and add it if so. Accepts a NULL log. */
bool trace_log_wants_suppressed(struct trace_log *log);

/* Accepts a NULL log. Texts that are too long are cut. */
void trace_log_add(struct trace_log *log, const struct trace *trace);

/* What the thread does once a second; with `no_thread` it is the caller's. */
void trace_log_tick(struct trace_log *log);

/* One of id, ticket and key; or none: all. */
struct trace_query {
	struct span id;
	uint64_t ticket;    /* as its own or its original's */
	struct span key;    /* a whole key, joined by TRACE_PART_END, or one of its parts */
	struct span source; /* empty: all */
	uint64_t since_ms;
	uint32_t limit; /* 0: as many as can be read */
};

/* Newest first. `each` returns non-zero to end the search; the trace lives for
 * the call. Returns how many were found, or a negative error. */
int trace_log_find(struct trace_log *log, const struct trace_query *query,
                   int (*each)(void *user, const struct trace *trace), void *user) must_check;

/* The gaps of every source that has any; needs no lock. */
void trace_log_gaps(const struct trace_log *log,
                    void (*each)(void *user, struct span source, const struct gap *gap),
                    void *user);

struct trace_stats {
	uint64_t added;   /* since the start */
	uint64_t lost;    /* could not be kept: no memory, or the disk failed */
	uint64_t thinned; /* suppressed events above their rate */
	uint64_t records; /* that can be searched now */
	uint64_t disk_bytes;
	uint64_t index_bytes;
	uint64_t oldest_ms;     /* unix; 0: there is none */
	uint64_t damaged_bytes; /* skipped at the start */
	uint32_t new_sample;    /* one in 1 << new_sample that pass is traced now */
	uint32_t suppressed_sample;
};
void trace_log_stats(const struct trace_log *log, struct trace_stats *ret_stats);
