/*
 * gaps: the gaps of each source, for `stile advise`, and the file that keeps them.
 *
 * traces/gaps in the data folder, written when a new file of traces starts. After a start the
 * gaps are those of this file and of all traces in the files of traces from `from` on. So
 * they outlive the traces that they came from. All numbers are little-endian.
 *
 *   0   8  "stilegap"
 *   8   8  checksum of all bytes behind it (XXH3)
 *   16  8  from: number of the first file of traces whose gaps are not in here
 *   24     sources: 1 length of the name, 4 length of the gap, the name, the gap (gate/gap.h)
 *
 * Room:      trace. Threads: one writer; trace_log_gaps() from any thread meanwhile.
 * Ownership: a zeroed struct is empty; trace_gaps_free() ends it.
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
#include "trace/trace_log.h"

struct trace_source {
	uint8_t name_len;
	char name[TRACE_SOURCE_MAX];
	struct gap gap;
};

struct trace_gaps {
	/* Append-only; the count is published after the source. */
	struct trace_source *sources[TRACE_SOURCES_MAX];
	atomic_uint count;
	uint64_t from;       /* as in the file */
	uint64_t file_bytes; /* size of the file */
	bool left_out;       /* a source had no place; it was logged */
};

/* Counts a trace. True: the event had passed before, and its window had ended since;
 * `ret_before` is its earlier ticket. */
bool trace_gaps_add(struct trace_gaps *gaps, const struct trace *trace, uint64_t *ret_before);

/* 0, also when there is no file. ERR_DAMAGED, -ENOMEM, -errno: the gaps are empty. */
int trace_gaps_load(struct trace_gaps *gaps, struct file_system *fs, const char *folder) must_check;

/* Replaces the file, durably. After an error the earlier one is still there, and `from` is
 * as it was. */
int trace_gaps_save(struct trace_gaps *gaps, struct file_system *fs, const char *folder,
                    uint64_t from);

void trace_gaps_free(struct trace_gaps *gaps);
