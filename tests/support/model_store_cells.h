/*
 * model_store_cells: the cells of the model store, in a chained hash. Written to be
 * obviously right.
 *
 * Room:      tests. Threads: one owner.
 * Ownership: model_cells_new() gives it, model_cells_free() takes it.
 * Failure:   ERR_FULL: there is no memory, and nothing was changed.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/store.h"

struct model_cells;
struct model_cell;

int model_cells_new(struct model_cells **ret_cells) must_check;
struct model_cells *model_cells_free(struct model_cells *cells); /* accepts NULL */

/* Each is the operation of store.h. */
int model_cells_do(struct model_cells *cells, struct store_cell *cell, uint64_t now_ms);
int model_cells_scan(struct model_cells *cells, struct store_cell_scan *scan, uint64_t now_ms);

/* All that a PUT of this needs; then putting it cannot fail. */
int model_cells_prepare(const struct store_cell_value *value,
                        struct model_cell **ret_fresh) must_check;
struct model_cell *model_cells_unprepare(struct model_cell *fresh); /* accepts NULL */
void model_cells_put(struct model_cells *cells, struct model_cell *fresh,
                     const struct store_cell_value *value, uint64_t now_ms);

/* Forgets what is over in some of the buckets. */
void model_cells_sweep(struct model_cells *cells, uint64_t now_ms);

uint64_t model_cells_count(const struct model_cells *cells);
uint64_t model_cells_bytes(const struct model_cells *cells);
