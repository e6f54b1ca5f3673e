/*
 * answer: rows of a JSON answer as people read them.
 *
 * Room:    cli. Threads: pure, but for the output.
 * Failure: ERR_INVALID: the answer is not of that shape.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/span.h"

#define ANSWER_COLUMNS_MAX 12u

struct answer_column {
	const char *title;
	const char *path; /* of the value in a row: "outcomes.done" */
};

struct answer_columns {
	const struct answer_column *list;
	uint32_t count;
};

/* The value at a path, as it stands in the answer: a text without its quotes, which has
 * no control characters. Empty: it is not there, or null. ERR_INVALID: not JSON. */
int answer_value(struct span answer, const char *path, struct span *ret_value) must_check;

/* Prints the elements of an array, each a row, under their titles if `titles`. Returns how
 * many, or an error. */
int answer_print_table(struct span array, struct answer_columns columns, bool titles, FILE *out);

/* Prints each element on a line of its own, as it is. */
int answer_print_lines(struct span array, FILE *out);
