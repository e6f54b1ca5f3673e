/*
 * json_marks: where in a text the bytes are that end a run of plain ones in a string:
 * quotes, backslashes, control characters and all that is not ASCII.
 *
 * They are found ahead of need, a chunk at a time. Strings are short, and where one
 * ends decides where the next begins: who searches from there makes everything wait
 * for load, compare and count, again and again, and no branch foresees in which
 * block a string ends. A list of places has neither.
 *
 * The program is built for the oldest machines of an architecture and asks at run
 * time for more (json_level()).
 *
 * Room:      codec. Threads: one owner; json_level_max is set before there are any,
 *            by tests alone.
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
	uint32_t next; /* the first that was not asked for */
	uint32_t safe; /* before these, JSON_MARKS_AHEAD can be read, and as many bytes after
	                * each of them as JSON_MARKS_BEHIND */
	/* With room for what is written beyond the last. */
	uint16_t places[JSON_MARKS_CHUNK + JSON_MARKS_BLOCK];
};

/* The chunk that begins at p. At the end of the text there is one more mark. */
void json_marks_fill(struct json_marks *marks, const char *p, const char *end);

/* Was one asked for that is at p or after it? */
static inline bool json_marks_are_beyond(const struct json_marks *marks, const char *p)
{
	if (marks->next == 0)
		return marks->base > p;
	return marks->base + marks->places[marks->next - 1] >= p;
}

enum json_level {
	JSON_LEVEL_BASE = 0, /* what the compiler may use everywhere */
	JSON_LEVEL_AVX2,
	JSON_LEVEL_AVX512, /* with VBMI2 */
};

extern enum json_level json_level_max;

/* The highest that machine and json_level_max allow. */
enum json_level json_level(void);
