/*
 * file_outlet: each event as one line of JSON at the end of a file.
 *
 * A line is as stdout_outlet.h describes it. An event is DONE when its line is whole and, with
 * `sync`, on disk: one fdatasync() for each batch, and one of the folder when a file
 * is new there.
 *
 * Files
 *   `path` may have {date} in the file's own name: the day in UTC, 2026-01-31. The file
 *   is created with mode 0640; its folder must exist. Others may rename (logrotate) or
 *   truncate it: each batch checks whether the open file is still the one at the path.
 *
 * Rotation
 *   A file that would grow beyond `rotate_bytes`, or that has lines of an earlier period
 *   of `rotate_ms` (periods count from 1970 in UTC: an hour begins with the hour), is
 *   renamed to PATH.20260131T235959.999Z before the next line. Of files with such
 *   names, and with {date} also of those of earlier days, the newest `keep` stay.
 *
 * Incomplete lines
 *   A write that fails half way is cut back to the last whole line, if nobody else has
 *   written after it. A file that ends inside a line (a crash, or another writer) gets a
 *   line end first. A sync that fails may have written any part: the batch is cut off, or
 *   if that fails it is UNKNOWN.
 *
 * After a crash an event whose line was written but whose outcome was not yet recorded
 * is written again.
 *
 * Room:    sink. Threads: its lane's; interrupt() from any.
 * Failure: ERR_CONFIG and a text; -ENOMEM. Files are opened with the first event: one that
 *          cannot be opened makes attempts NOT_SENT.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sink/outlet.h"
#include "sys/clock.h"

struct file_outlet_options {
	struct span path;
	bool envelope;
	bool no_sync;
	uint64_t rotate_bytes;     /* 0: no matter how large */
	uint64_t rotate_ms;        /* 0: no matter how old */
	uint32_t keep;             /* 0: all */
	const struct clock *clock; /* NULL: the system's */
};

int file_outlet_new(const struct file_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text) must_check;

/* Would file_outlet_new() accept them? */
int file_outlet_check(const struct file_outlet_options *options,
                      struct error_text *ret_text) must_check;
