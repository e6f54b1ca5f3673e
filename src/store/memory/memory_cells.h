/*
 * memory_cells: the cells of the memory store, in a chained hash. Written to be
 * obviously right.
 *
 * Room:      store/memory. Threads: one owner.
 * Ownership: memory_cells_new() gives it, memory_cells_free() takes it.
 * Failure:   ERR_FULL: there is no memory, and nothing was changed.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/store.h"

struct memory_cells;
struct memory_cell;

int memory_cells_new(struct memory_cells **ret_cells) must_check;
struct memory_cells *memory_cells_free(struct memory_cells *cells); /* accepts NULL */

/* Each is the operation of store.h. */
int memory_cells_do(struct memory_cells *cells, struct store_cell *cell, uint64_t now_ms);
int memory_cells_scan(struct memory_cells *cells, struct store_cell_scan *scan, uint64_t now_ms);

/* All that a PUT of this needs; then putting it cannot fail. */
int memory_cells_prepare(const struct store_cell_value *value,
                         struct memory_cell **ret_fresh) must_check;
struct memory_cell *memory_cells_unprepare(struct memory_cell *fresh); /* accepts NULL */
void memory_cells_put(struct memory_cells *cells, struct memory_cell *fresh,
                      const struct store_cell_value *value, uint64_t now_ms);

/* Forgets what is over in some of the buckets. */
void memory_cells_sweep(struct memory_cells *cells, uint64_t now_ms);

uint64_t memory_cells_count(const struct memory_cells *cells);
uint64_t memory_cells_bytes(const struct memory_cells *cells);
