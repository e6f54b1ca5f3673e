/*
 * line_parts: the lines of a chain of events as parts for writev().
 *
 * A large event that is one line already stays where it lies: to copy it costs more
 * than one part more. What has to be made (line ends, envelopes, text that is no JSON,
 * events with line breaks) and what is small stands in memory of its own.
 *
 * Room:      sink. Threads: one owner.
 * Ownership: a member of its owner, all zero at first; line_parts_free() frees what it
 *            holds. The events' bytes are borrowed until the next begin.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "sink/outlet.h"

#define LINE_PARTS_MAX 2052u /* of 1,024 events, and some */

struct line_parts {
	struct buf own;
	size_t len;  /* of all */
	size_t left; /* not written yet */
	uint32_t count;
	uint32_t first; /* not wholly written */
	struct iovec parts[LINE_PARTS_MAX];
};

struct line_form {
	bool envelope; /* see outlet_append_event() */
	bool together; /* copy all, into one part */
	bool torn;     /* an end of a line comes first */
	size_t enough; /* bytes, after which no other begins */
};

void line_parts_free(struct line_parts *parts);

/* Instead of what was there: the lines from `first` on, until there is enough or no room
 * for more; each one's `own` is then where its line ends. Returns the first that has
 * none. An event that finds no memory has no part of a line. */
struct outlet_attempt *line_parts_fill(struct line_parts *parts, struct outlet_attempt *first,
                                       const struct line_form *form);

/* What is left to write: the parts, at most `max` of them. */
const struct iovec *line_parts_left(const struct line_parts *parts, uint32_t max, int *ret_count);

/* So many bytes of what is left are written. */
void line_parts_written(struct line_parts *parts, size_t len);
