/*
 * batch: a sheet as a transaction: rows are read, decided on, and written back.
 *
 * Room:    store/postgres. Threads: the line's.
 * Failure: as line.h. BATCH_AGAIN: the transaction was rolled back; begin anew with a
 *          thorough sheet. BATCH_UNKNOWN: the connection was lost with COMMIT under way;
 *          line_was_committed() says what came of it. BATCH_OLD: batch_run_all() was rolled
 *          back, since a claim was there already; batch_run() decides what that means.
 */
#pragma once

#include "store/postgres/line.h"
#include "store/postgres/sheet.h"

enum { BATCH_DONE = 0, BATCH_AGAIN = 1, BATCH_UNKNOWN = 2, BATCH_OLD = 3 };

struct batch_options {
	uint64_t clock; /* postgres_clock() */
	bool retain;    /* closed tickets are kept */
	bool notify;    /* tell other nodes that tickets are due */
	const char *channel;
};

extern const struct line_statement batch_statements[];

int batch_run(struct sheet *sheet, struct line *line,
              const struct batch_options *options) must_check;

/* As if all of a plain sheet were new (sheet_is_plain()): in one statement, and one round
 * trip. */
int batch_run_all(struct sheet *sheet, struct line *line,
                  const struct batch_options *options) must_check;
/* It was committed, and nothing else was heard of it. */
void batch_all_committed(struct sheet *sheet, const struct line *line);

/* A column of rows that are listed. */
static inline struct postgres_column batch_column(const struct row_list *list, size_t offset)
{
	return (struct postgres_column){ list->at, list->count, offset };
}

/* batch_write.c: sends all of batch_run_all(). */
void batch_write_all(struct sheet *sheet, struct line *line, const struct batch_options *options);
/* Sends what the sheet came to, and COMMIT. */
void batch_write(struct sheet *sheet, struct line *line, const struct batch_options *options);
