/*
 * files: the folder of a trace log. One side reads any of the files, at any time; the other
 * one, the writer, has the list of all and the gaps, appends to the last file and deletes the
 * oldest ones.
 *
 * A file grows to file_bytes, filter and trailer included. The filter of the last file is in
 * memory and is written when the file is full. A start reads the trailer of each full file
 * and all of a file without one: the last, or one that a crash or a failed write left. That
 * makes its filter again; a file that is not the last is then completed.
 *
 * Format:    records.h
 * Room:      trace; a part of trace_log.
 * Threads:   struct trace_files: the writer's. A view: one thread; any number of them.
 * Ownership: trace_files_open() fills a zeroed struct, trace_files_close() ends it.
 * Failure:   0 or -errno. Damage is skipped and logged, never an error. After a failed
 *            write or sync the file is closed as it is and the next one is begun.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "sys/file.h"
#include "trace/gaps.h"
#include "trace/records.h"

#define TRACE_PATH_MAX 4096
#define TRACE_FILE_BYTES_MAX (16u << 20)
/* There are 64 of them at 1 GiB. More only if the disk fails again and again. */
#define TRACE_FILES_MAX 256u

/* ---- reading: no lock, no shared state ---- */

/* One file, open to read. */
struct trace_view {
	struct file_system *fs;
	int fd;
	bool header_damaged;
	bool complete; /* there is a trailer: this one */
	uint64_t size;
	uint64_t epoch;
	struct trace_trailer trailer;
};

/* Appends the numbers of the files that are in the folder, the oldest first, as uint64_t. */
int trace_files_list(struct file_system *fs, const char *folder,
                     struct buf *ret_numbers) must_check;

/* -ENOENT: it was deleted. ERR_VERSION: of another format. */
int trace_view_open(struct trace_view *view, struct file_system *fs, const char *folder,
                    uint64_t number) must_check;
void trace_view_close(struct trace_view *view);

/* False: no record of the file has this term. */
bool trace_view_may_have(const struct trace_view *view, const struct trace_term *term);

/* Replaces `bytes` by the header and all records, and makes a reader of them. */
int trace_view_read(const struct trace_view *view, struct buf *bytes,
                    struct trace_reader *ret_reader) must_check;

/* ---- writing ---- */

struct trace_file {
	uint64_t number;
	uint64_t size;
	uint64_t record_count;
	uint64_t first_ms, last_ms; /* of its records; 0: it has none */
};

struct trace_files {
	struct file_system *fs;
	char *folder; /* …/traces */
	bool read_only;
	uint64_t file_bytes;                      /* the most of one file */
	uint64_t disk_bytes;                      /* the most of all files, with that of the gaps */
	struct trace_file files[TRACE_FILES_MAX]; /* oldest first */
	uint32_t count;
	uint64_t next_number;
	struct trace_gaps gaps;
	/* The last file. fd -1: the next record begins another. */
	int fd;
	struct trace_filter filter; /* with room for the trailer behind its blocks */
};

/* Creates or finds the folder, reads the files and the gaps, and logs what is damaged. Every field of the options that it uses is set. trace_files_close() is
 * due after an error as well. */
int trace_files_open(struct trace_files *files, const struct trace_log_options *options,
                     struct error_text *ret_text) must_check;
void trace_files_close(struct trace_files *files);

/* Updates the gaps, seals the records, appends them and makes them durable. An event that
 * returned after its window gets TRACE_RETURNED. What cannot be written is lost, but is
 * counted in the gaps. ret_written: how many are in files, also after an error. */
int trace_files_write(struct trace_files *files, unsigned char *records, size_t len,
                      uint64_t *ret_written) must_check;

uint64_t trace_files_bytes(const struct trace_files *files);
