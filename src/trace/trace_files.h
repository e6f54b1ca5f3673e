/*
 * trace_files: the files of a trace log: finding, reading, appending, letting
 * the oldest go.
 *
 * Format:    trace_format.h
 * Room:      trace; a part of trace_log.
 * Threads:   one at a time (trace_log's shelf lock), but for trace_files_sync().
 * Ownership: trace_files_open() fills a zeroed struct, trace_files_close() ends it.
 * Failure:   0 or -errno. What is damaged is skipped and told, never an error:
 *            a trace is worth less than a start. After a failed write the file
 *            is left as it is and the next block begins another.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/span.h"
#include "sys/file.h"
#include "trace/trace_format.h"
#include "trace/trace_index.h"

#define TRACE_PATH_MAX 4096

struct trace_file {
	uint64_t number;
	uint64_t epoch;
	uint64_t size;              /* up to the end of its last good block */
	uint64_t kept;              /* of these: gaps, which do not count for its limit */
	uint64_t sequence;          /* of that block */
	uint64_t first_ms, last_ms; /* of its traces; 0: it has none */
	struct trace_index index;
};

/* A window on one file. */
struct trace_window {
	int fd; /* -1: none */
	uint64_t number;
	unsigned char *bytes; /* TRACE_BLOCK_BYTES */
	uint64_t base;
	size_t filled;
};

struct trace_files {
	struct file_system *fs;
	char *folder; /* …/traces */
	bool read_only;
	uint64_t file_bytes;      /* a file is full at this size */
	uint64_t disk_bytes;      /* all files together */
	uint64_t seed;            /* of tags */
	struct trace_file *files; /* oldest first */
	size_t count, room;
	uint64_t next_number;
	int fd;         /* of the last file, to append; -1: the next block begins another */
	uint64_t dirty; /* from this number on files are written, not synced; 0: none */
	struct trace_window window;
	/* told once, after open */
	uint64_t damaged_bytes, torn_bytes;
	uint64_t foreign_files;    /* of a format that this binary does not know */
	struct error_text problem; /* the first thing that was wrong */
};

/* What open finds, in the order in which it was written. ERR_DAMAGED: the block
 * is not what it says; it is skipped. */
struct trace_files_visitor {
	int (*gaps)(void *user, struct span body);
	void (*traces)(void *user, struct span body); /* checked records */
	void *user;
};

struct trace_files_options {
	struct file_system *fs;
	const char *path; /* the data folder */
	uint64_t file_bytes;
	uint64_t disk_bytes;
	bool read_only;
};

int trace_files_open(struct trace_files *files, const struct trace_files_options *options,
                     const struct trace_files_visitor *visitor,
                     struct error_text *ret_text) must_check;
void trace_files_close(struct trace_files *files);

/* Is there a file that takes a block of this length? */
bool trace_files_has_room(const struct trace_files *files, uint32_t body_len);

/* Begins a file, after the oldest left if there are too many bytes. */
int trace_files_begin(struct trace_files *files, uint64_t now_ms) must_check;

/* Lets the oldest files go until all fit the limit; never the last. */
int trace_files_shrink(struct trace_files *files);
int trace_files_remove_oldest(struct trace_files *files) must_check;

/* Writes a block to the last file; there must be one. `block` has TRACE_ALIGN
 * bytes for the header, then the body, and room up to the next multiple of
 * TRACE_ALIGN. Traces are indexed, too. */
struct trace_files_block {
	unsigned char *bytes;
	enum trace_block_kind kind;
	uint32_t body_len;
	uint32_t count;
	uint64_t first_ms, last_ms;
};
int trace_files_append(struct trace_files *files, const struct trace_files_block *block) must_check;

/* The record, read back and checked; its texts live until the next call. */
int trace_files_read(struct trace_files *files, const struct trace_file *file, size_t record,
                     struct trace *ret_trace) must_check;
void trace_files_end_reads(struct trace_files *files); /* closes what reads left open */

/* Bytes on disk, and of the index. */
uint64_t trace_files_bytes(const struct trace_files *files);
uint64_t trace_files_index_bytes(const struct trace_files *files);

/* The file of this number is not written on. */
void trace_files_abandon(struct trace_files *files, uint64_t number);

/* Makes a file durable. From any thread, without the lock: it opens the file
 * for itself. A file that is gone is no error. */
int trace_files_sync(struct file_system *fs, const char *folder, uint64_t number) must_check;
