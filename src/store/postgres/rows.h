/*
 * rows: some rows of a table, found by their key.
 *
 * A row is the caller's struct; its first member is its key. Numbers are stored big-endian,
 * so the order of keys is the order of numbers.
 *
 * Room:      store/postgres. Threads: one owner.
 * Ownership: rows belong to the arena; rows_clear() keeps the memory of the list and its
 *            index, rows_free() frees it. A zeroed struct is empty.
 * Failure:   NULL: no memory.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "gate/claim.h"

#define ROW_KEY_LEN 16u

struct row_key {
	unsigned char bytes[ROW_KEY_LEN];
};

struct rows {
	void **at; /* in the order of rows_add(), until rows_sort() */
	uint32_t count, room;
	void **slots; /* 2 * room, by hash; NULL: free */
};

/* The 96 bits of a digest's key, then 32 bits: `kind`. */
struct row_key row_key_of_digest(const struct digest *digest, uint32_t kind);
struct row_key row_key_of_number(uint64_t number);

void *rows_find(const struct rows *rows, const struct row_key *key);
/* The existing row, or a new zeroed one. */
void *rows_add(struct rows *rows, const struct row_key *key, size_t size,
               struct arena *arena) must_check;
void rows_sort(struct rows *rows);
void rows_clear(struct rows *rows);
void rows_free(struct rows *rows);

/* Rows without an index. */
struct row_list {
	void **at;
	uint32_t count, room;
};

int row_list_add(struct row_list *list, void *row) must_check; /* -ENOMEM */
void row_list_free(struct row_list *list);
