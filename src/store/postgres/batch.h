/*
 * batch: a sheet as a transaction: rows are read, decided on, and written back.
 *
 * Room:    store/postgres. Threads: the line's.
 * Failure: as line.h. BATCH_AGAIN: the transaction was rolled back; begin anew with a
 *          thorough sheet. BATCH_UNKNOWN: the connection was lost with COMMIT under way;
 *          line_was_committed() says what came of it.
 */
#pragma once

#include "store/postgres/line.h"
#include "store/postgres/sheet.h"

enum { BATCH_DONE = 0, BATCH_AGAIN = 1, BATCH_UNKNOWN = 2 };

struct batch_options {
	uint64_t clock; /* postgres_clock() */
	bool retain;    /* closed tickets are kept */
	bool notify;    /* tell other nodes that tickets are due */
	const char *channel;
};

extern const struct line_statement batch_statements[];

int batch_run(struct sheet *sheet, struct line *line,
              const struct batch_options *options) must_check;

/* A column of rows that are listed. */
static inline struct postgres_column batch_column(const struct row_list *list, size_t offset)
{
	return (struct postgres_column){ list->at, list->count, offset };
}

/* batch_write.c: sends what the sheet came to, and COMMIT. */
void batch_write(struct sheet *sheet, struct line *line, const struct batch_options *options);
