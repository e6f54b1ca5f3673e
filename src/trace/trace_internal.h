/*
 * trace_internal: the parts of a trace log, for the files that make it up.
 *
 *   trace_log.c     open, free, add: the side of the doors
 *   trace_writer.c  from blocks of memory to gaps, files and index
 *   trace_find.c    questions
 *
 * Two locks. `hot` guards the block being filled, the full ones that wait and
 * the free ones: it is held for a copy, never for I/O. `shelf` guards the files
 * and the index: the writer and the searches hold it, also while they read and
 * write. Nothing takes `shelf` while it holds `hot`. A sync is done without
 * either, on a descriptor of its own.
 *
 * Room: trace; a part of trace_log.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "sys/thread.h"
#include "sys/wake_event.h"
#include "trace/trace_files.h"
#include "trace/trace_log.h"
#include "trace/trace_sampler.h"

struct trace_block {
	struct trace_block *next;
	uint32_t len; /* of the body */
	uint32_t count;
	uint64_t first_ms, last_ms;
	unsigned char bytes[TRACE_BLOCK_BYTES]; /* room for the header, then the body */
};

struct trace_source {
	uint8_t name_len;
	char name[TRACE_SOURCE_MAX];
	struct gap gap;
};

struct trace_log {
	struct trace_log_options options;
	/* hot */
	pthread_mutex_t hot;
	struct trace_block *open; /* NULL: no free one */
	struct trace_block *full, **full_end;
	struct trace_block *free;
	struct trace_sampler passed, suppressed;
	/* shelf */
	pthread_mutex_t shelf;
	struct trace_files files;
	uint64_t index_bytes_max;
	bool failing;     /* told, and not yet told that it works again */
	bool overcrowded; /* told: there are more sources than gaps can be kept of */
	/* Append-only; the count is published after the source. */
	struct trace_source *sources[TRACE_SOURCES_MAX];
	atomic_uint source_count;
	/* counters */
	atomic_uint_fast64_t added, lost, thinned, records, disk_bytes, index_bytes, oldest_ms;
	uint64_t damaged_bytes;
	/* the writer */
	struct wake_event wake;
	struct thread thread;
	atomic_bool ending;
	bool has_wake;
};

/* With the hot lock: a free block, emptied; NULL: there is none. */
struct trace_block *trace_take_free(struct trace_log *log);

/* What open finds in the files, see trace_files_visitor. */
void trace_loaded_records(void *user, struct span body);
int trace_loaded_gaps(void *user, struct span body);

/* With the shelf's lock: everything that waits in memory goes to the files. */
void trace_drain(struct trace_log *log);
void trace_count(struct trace_log *log); /* what the files hold, for the stats */

void trace_tell(struct trace_log *log, bool warning, const char *text);
