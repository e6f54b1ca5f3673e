/*
 * answer: JSON answers as text: members of an object by name, lists, tables.
 *
 * Texts are printed as they are in the JSON, escaped except for quotes and backslashes: no
 * byte of an event reaches the terminal as a control sequence.
 *
 * Room:    cli. Threads: pure, but for the output.
 * Failure: ERR_INVALID: the JSON is not of that shape.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

#define ANSWER_MEMBERS_MAX 20u

/* Some members of an object, in the order of their names. Empty: not there, or null. */
struct answer_members {
	struct span texts[ANSWER_MEMBERS_MAX];
};

int answer_read(struct span object, const char *const *names, size_t count,
                struct answer_members *ret_members) must_check;

/* Calls `each` for the elements of an array, until it returns other than 0, which is then
 * the result. No array at all has no elements. */
int answer_each(struct span array, void *user,
                int (*each)(void *user, struct span element, uint32_t index));

/* The text, as above. */
void answer_put(struct buf *out, struct span text);

#define ANSWER_COLUMNS_MAX 12u

struct answer_column {
	const char *title;
	const char *path; /* of the value in a row: "outcomes.done" */
};

struct answer_columns {
	const struct answer_column *list;
	uint32_t count;
};

/* The value at a path, as it is in the answer: a text without its quotes, which has no
 * control characters. Empty: it is missing, or null. ERR_INVALID: not JSON. */
int answer_value(struct span answer, const char *path, struct span *ret_value) must_check;

/* The elements of an array, each a row, under their titles if `titles`. Returns how many, or
 * an error. */
int answer_put_table(struct buf *out, struct span array, struct answer_columns columns,
                     bool titles);

/* Each element on a line of its own, as it is. Returns the same. */
int answer_put_lines(struct buf *out, struct span array);

/* Writes an answer as text; negative: it does not have the expected shape. */
typedef int answer_write_fn(struct span answer, struct buf *out);

/* Prints an answer on standard output, unchanged with `json`. Returns the exit code; errors
 * are printed on standard error. */
int answer_print(const char *command, struct span answer, bool json, answer_write_fn *write);
