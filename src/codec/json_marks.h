/*
 * json_marks: the places in a text of all bytes that may end a string: quotes,
 * backslashes, control characters and everything that is not ASCII.
 *
 * They are found ahead, a chunk at a time. Strings are short, and a scanner that
 * searches for the end of each one waits for a load, a compare and a count every time,
 * after a branch that cannot be predicted. Reading a list of positions does not.
 *
 * Uses SSE2, which every x86-64 has; elsewhere words of eight bytes.
 *
 * Room:      codec. Threads: one owner.
 * Ownership: all memory is the caller's; the text must stay.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

#define JSON_MARKS_BLOCK 64
#define JSON_MARKS_CHUNK 2048u
#define JSON_MARKS_AHEAD 6u
#define JSON_MARKS_BEHIND 32u

struct json_marks {
	const char *base;  /* where the chunk begins … */
	const char *until; /* … and where it ends */
	uint32_t count;
	uint32_t next; /* the first that is not consumed */
	uint32_t safe; /* before these, JSON_MARKS_AHEAD can be read, and as many bytes after
	                * each of them as JSON_MARKS_BEHIND */
	/* With room for what is written beyond the last. */
	uint16_t places[JSON_MARKS_CHUNK + JSON_MARKS_BLOCK];
};

/* The chunk that begins at p. At the end of the text there is one more mark. */
void json_marks_fill(struct json_marks *marks, const char *p, const char *end);

/* Was a mark at p or after it consumed already? */
static inline bool json_marks_are_beyond(const struct json_marks *marks, const char *p)
{
	if (marks->next == 0)
		return marks->base > p;
	return marks->base + marks->places[marks->next - 1] >= p;
}
