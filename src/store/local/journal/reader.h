/*
 * reader: reads the frames of one segment in order, each checked as a whole.
 *
 * If the valid end is known (the next segment's header tells it), everything up
 * to there must be valid. If not, this is the last segment: the first frame
 * that is not valid ends it: a torn tail, or nothing of this segment's, unless
 * a later frame of the same epoch stands behind it, which is damage.
 *
 * Format:  format.h
 * Threads: one owner.
 * Failure: ERR_DAMAGED, ERR_VERSION, ERR_KIND, -errno, with file and offset in the text.
 *          After a failure only scan_close().
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "store/local/journal/segment.h"

struct scan {
	const struct folder *folder;
	uint64_t number;
	struct segment_header header;
	struct error_text *text;
	int fd;
	uint64_t size;
	uint64_t end; /* the valid end; of the file if it is not known */
	bool end_known;
	bool torn;         /* behind the end a frame was cut short */
	bool blank;        /* all behind the header is zero; known with the end */
	uint64_t at;       /* of the next frame; the valid end, once all is read */
	uint64_t sequence; /* of the last frame; before the first: of the one before it */
	uint64_t steady_ms;
	uint64_t frames;
	/* the window: `filled` bytes from offset `base` of the file */
	unsigned char *window;
	size_t room;
	uint64_t base;
	size_t filled;
};

#define SCAN_WINDOW_BYTES (4u << 20)

/* Opens and checks the header. `end` 0: not known. */
int scan_open(struct scan *scan, const struct folder *folder, uint64_t number, uint64_t end,
              struct error_text *text) must_check;
void scan_close(struct scan *scan); /* also after a failed open */

/* 1: a frame; ret_body stays until the next call. 0: the end. */
int scan_next(struct scan *scan, struct frame_header *ret_header, const unsigned char **ret_body,
              uint64_t *ret_offset) must_check;

/* A text with file and offset. */
int scan_damaged(const struct scan *scan, uint64_t offset, const char *what);
