/*
 * reader: the one way to read a segment's file. A window holds a part of the file; a
 * reader goes through it frame by frame, each checked as a whole. Recovery, the segment
 * thread and the tools use readers; an open store reads single entries by windows.
 *
 * If the valid end is known (the next segment's header tells it), everything up
 * to there must be valid. If not, this is the last segment: the first frame
 * that is not valid ends it: a torn tail, or nothing of this segment's, unless
 * a later frame of the same epoch stands behind it, which is damage.
 *
 * Format:  format.h
 * Threads: one owner.
 * Failure: ERR_DAMAGED, ERR_VERSION, ERR_KIND, -errno; a reader's text names file and
 *          offset. After a failure of a reader only reader_close().
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/segment.h"

/* `filled` bytes of the file, from offset `base` on. */
struct segment_window {
	uint64_t segment;
	int fd; /* -1: closed */
	unsigned char *bytes;
	size_t room;
	uint64_t base;
	size_t filled;
	uint64_t read; /* bytes from the file, since it was made */
};

#define SEGMENT_WINDOW_CLOSED ((struct segment_window){ .fd = -1 })

/* Nothing happens if it has this segment open; else the one before is closed. */
int segment_window_open(struct segment_window *window, const struct folder *folder,
                        uint64_t segment) must_check;
void segment_window_close(struct segment_window *window, const struct folder *folder);
/* [at, at + len) stands in the window, and what follows up to `until`, if it had to be
 * read; less only at the end of the file. */
int segment_window_fetch(struct segment_window *window, const struct folder *folder, uint64_t at,
                         size_t len, uint64_t until) must_check;

static inline bool segment_window_has(const struct segment_window *window, uint64_t at, size_t len)
{
	return at >= window->base && at + len <= window->base + window->filled;
}

struct reader {
	const struct folder *folder;
	uint64_t number;
	struct segment_header header;
	struct error_text *text;
	uint64_t size;
	uint64_t end; /* the valid end; of the file if it is not known */
	bool end_known;
	bool torn;         /* behind the end a frame was cut short */
	bool blank;        /* all behind the header is zero; known with the end */
	uint64_t at;       /* of the next frame; the valid end, once all is read */
	uint64_t sequence; /* of the last frame; before the first: of the one before it */
	uint64_t steady_ms;
	uint64_t frames;
	struct segment_window window;
};

/* Opens and checks the header. `end` 0: not known. */
int reader_open(struct reader *reader, const struct folder *folder, uint64_t number, uint64_t end,
                struct error_text *text) must_check;
void reader_close(struct reader *reader); /* also after a failed open */

/* 1: a frame; ret_body stays until the next call. 0: the end. */
int reader_next(struct reader *reader, struct frame_header *ret_header,
                const unsigned char **ret_body, uint64_t *ret_offset) must_check;

/* A text with file and offset. */
int reader_damaged(const struct reader *reader, uint64_t offset, const char *what);

/* Does an entry with a check of its own (an event with a ticket, a note, a cell) have the
 * right one? Others are checked with their frame only. */
bool reader_entry_valid(const unsigned char *bytes, const struct entry *entry, uint64_t epoch);
