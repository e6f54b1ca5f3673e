/*
 * postgres_args: parameters of a prepared statement in PostgreSQL's binary form: numbers,
 * bytes, and arrays of them, one a column of many rows.
 *
 * Columns are read from rows of the caller's, of which it gives pointers, and where the
 * value stands in each.
 *
 * Room:      link. Threads: one owner.
 * Ownership: a zeroed struct is empty; postgres_args_free() takes its memory. Values are
 *            copied.
 * Failure:   sticks in `bytes`: postgres_send_prepared() then returns false.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define POSTGRES_ARGS_MAX 24u
#define POSTGRES_KEY_LEN 16u /* of a uuid */

struct postgres_args {
	struct buf bytes;
	uint32_t count;
	size_t starts[POSTGRES_ARGS_MAX];
	size_t ends[POSTGRES_ARGS_MAX];
};

/* The column of an array: in each of `rows`, at `offset`. */
struct postgres_column {
	void *const *rows;
	size_t count;
	size_t offset;
};

void postgres_args_clear(struct postgres_args *args);
void postgres_args_free(struct postgres_args *args);

void postgres_args_u64(struct postgres_args *args, uint64_t value);      /* bigint */
void postgres_args_bytes(struct postgres_args *args, struct span value); /* bytea, text */
void postgres_args_key(struct postgres_args *args,
                       const unsigned char key[static POSTGRES_KEY_LEN]); /* uuid */

void postgres_args_u64s(struct postgres_args *args, struct postgres_column column);  /* bigint[] */
void postgres_args_keys(struct postgres_args *args, struct postgres_column column);  /* uuid[] */
void postgres_args_spans(struct postgres_args *args, struct postgres_column column); /* bytea[] */
