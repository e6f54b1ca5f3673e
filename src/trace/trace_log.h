/*
 * trace_log: the bounded memory of decisions that `stile why` answers from, and of the gaps
 * that `stile advise` judges windows by.
 *
 * It stands beside the journal and is independent of it. A trace may be lost (the last second
 * when the machine loses power, more when the disk fails); lost traces are counted and
 * logged. Writing never delays a decision and never fails a request. What is read back is
 * checked: a trace may be missing, it is never wrong.
 *
 * Adding:    copies the trace into a buffer in memory, under a lock that is only held for
 *            such copies. Once a second, or when the buffer is half full, the log's thread
 *            exchanges the buffer for an empty one, updates the gaps and appends to the
 *            newest file (files.h). At the limit of disk_bytes it deletes the oldest files.
 * Finding:   reads the files, the newest first. It opens them by itself and takes no lock,
 *            so a question never delays the writer. A full file ends with a filter
 *            (records.h): a question reads only the files that may have what it asks for.
 * Sampling:  events that passed are traced up to new_per_s, with a burst, and beyond that one
 *            in 2, 4, 8 … of them: those whose claim's digest ends in zero bits, so that both
 *            arrivals of an id are traced or neither. Suppressed events likewise above
 *            suppressed_per_s, but simply every 2nd, 4th …. Each trace says how many it
 *            stands for.
 * Room:      trace. Threads: add, wants, find, stats and gaps from any thread. find first
 *            waits until the writer has written what was added before (at most
 *            TRACE_WAIT_MS, then ERR_BUSY) and then reads from disk: not for a thread that
 *            others wait for. With `no_thread` all calls come from one thread; find writes
 *            by itself.
 * Ownership: trace_log_open() gives it, trace_log_free() takes it. The caller of open for
 *            writing holds the lock on the data folder (the local store takes it); a
 *            read-only log needs no lock and changes nothing, whether or not a gateway runs.
 * Failure:   of open: -errno with a text. Damage is skipped and logged, as is a disk that
 *            fails and works again; only a folder that cannot be read or created is an error.
 *            The gateway works without traces.
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

#define TRACE_FOUND_MAX 1000u  /* traces that are found for one term of a question */
#define TRACE_TERMS_MAX 128u   /* of one question */
#define TRACE_SOURCES_MAX 256u /* whose gaps are kept; one more is reported */
#define TRACE_TICK_MS 1000
#define TRACE_WAIT_MS 3000

struct trace_log;

/* A zero (or NULL) in any field takes its default. */
struct trace_log_options {
	const char *path;          /* the data folder */
	struct file_system *fs;    /* default: the machine's */
	uint64_t disk_bytes;       /* default 64 MiB, at least 1 MiB */
	uint32_t new_per_s;        /* default 50 */
	uint32_t new_burst;        /* default 20,000 */
	uint32_t suppressed_per_s; /* default 2,000 */
	uint32_t suppressed_burst; /* default 50,000 */
	bool no_new;               /* no traces of events that passed; returns are not seen */
	bool read_only;
	bool no_thread; /* the caller ticks */
};

int trace_log_open(const struct trace_log_options *options, struct trace_log **ret_log,
                   struct error_text *ret_text) must_check;

/* Writes what is still in memory; accepts NULL, returns NULL. */
struct trace_log *trace_log_free(struct trace_log *log);

/* Would an event that passed with these claims leave a trace? Ask before making the
 * trace. Accepts a NULL log. */
bool trace_log_wants_new(const struct trace_log *log, const struct trace_claim *claims,
                         uint32_t count);

/* Would an event that was suppressed leave one? Ask once for each of them, before making
 * the trace, and add it if so. Accepts a NULL log. */
bool trace_log_wants_suppressed(struct trace_log *log);

/* Accepts a NULL log. Texts that are too long are cut. */
void trace_log_add(struct trace_log *log, const struct trace *trace);

/* What the thread does once a second. Only with `no_thread`. */
void trace_log_tick(struct trace_log *log);

enum trace_term_kind {
	TRACE_TERM_ID = 1,
	TRACE_TERM_TICKET, /* as its own or its original's */
	TRACE_TERM_KEY,    /* a whole key, joined by TRACE_PART_END, or one of its parts */
	TRACE_TERM_ENTITY,
	TRACE_TERM_CORRELATION,
};

struct trace_term {
	enum trace_term_kind kind;
	struct span text;
	uint64_t ticket; /* TRACE_TERM_TICKET */
};

/* The traces that have at least one of the terms; without terms: all. */
struct trace_query {
	const struct trace_term *terms;
	uint32_t term_count; /* at most TRACE_TERMS_MAX */
	uint32_t limit;      /* for each term; 0, or more than TRACE_FOUND_MAX: that many */
	struct span source;  /* empty: all */
	uint64_t since_ms;
};

/* Reads the files once, the newest traces first; a file that cannot be read is skipped.
 * `each` is called for each trace and each term that it has (`term` is an index; 0 without
 * terms), and returns non-zero to end the search; the trace lives for the call. Memory: one
 * file at a time. Returns the number of calls, or a negative error. */
int trace_log_find(struct trace_log *log, const struct trace_query *query,
                   int (*each)(void *user, uint32_t term, const struct trace *trace),
                   void *user) must_check;

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
	uint64_t oldest_ms;  /* unix; 0: there is none */
	uint32_t new_sample; /* of events that pass, one in 1 << new_sample is traced now */
	uint32_t suppressed_sample;
};
void trace_log_stats(const struct trace_log *log, struct trace_stats *ret_stats);
