/*
 * cells: where each cell of the local store is in the journal, and until when. Digest
 * in; expiry, segment and offset out, and a code if its value is one that comes often.
 * At most 29 bytes each (table.h).
 *
 * Beside that it counts, for each segment, the cells that stand there: a segment that
 * is needed by none can leave. What a change replaces is needed until the change is
 * durable; so nothing is given up by cells_put() and cells_remove(), but by
 * cells_let_go(). What is removed for age is given up at once.
 *
 * Places are kept without the upper bits of the segment's number: what is live may
 * be 33 million segments apart.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: cells_new() gives it, cells_free() takes it.
 * Failure:   -ENOMEM leaves all as it was. Nothing but putting can fail, and not the
 *            putting back of one that was replaced or removed last.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "store/local/index/table.h"
#include "store/local/journal/format.h"

/*
 * short_values: values that come often ("1", "OK", "PROCESSED"), each kept once under a
 * code, so that a cell with one needs no look at the journal.
 *
 * A value gets a code when it has come some times of late. Its users are counted; when
 * all codes are given, one without users goes to another value.
 *
 * Room:      store/local, only for cells. Threads: one owner.
 * Ownership: short_values_new() gives it, short_values_free() takes it.
 */

#define SHORT_VALUE_MAX 64u    /* bytes */
#define SHORT_VALUES_MAX 1023u /* codes: 1 … */

struct short_values;

int short_values_new(struct short_values **ret_values) must_check;
struct short_values *short_values_free(struct short_values *values); /* accepts NULL */

/* The code of a value, 0: it has none. The code is its own as long as it is held, and
 * until the next call. */
uint32_t short_values_code(struct short_values *values, struct span value);
struct span short_values_get(const struct short_values *values, uint32_t code);

/* One user more, one less; code 0: nothing. */
void short_values_hold(struct short_values *values, uint32_t code);
void short_values_drop(struct short_values *values, uint32_t code);

struct cells;

struct cell {
	uint64_t expiry_ms; /* 0: never */
	uint64_t segment;
	uint32_t offset;
	uint32_t code; /* 0: its value stands in the journal alone */
};

static inline bool cell_is_over(const struct cell *cell, uint64_t now_ms)
{
	return cell->expiry_ms != 0 && cell->expiry_ms <= now_ms;
}

static inline bool cell_same_place(const struct cell *a, const struct cell *b)
{
	return a->segment == b->segment && a->offset == b->offset;
}

int cells_new(struct cells **ret_cells) must_check;
struct cells *cells_free(struct cells *cells); /* accepts NULL, returns NULL */

/* A digest on its way: table.h. */
static inline struct table_probe cells_probe(const struct digest *digest)
{
	struct digest key = digest_with_check(*digest, 0);

	return table_probe(&key);
}
void cells_fetch(const struct cells *cells, uint32_t step, struct table_probe *probes,
                 size_t count);

/* Also one that is over. */
bool cells_find(const struct cells *cells, struct table_probe *probe,
                struct cell *ret_cell) must_check;

/* `old`: what is there now, or NULL. */
int cells_put(struct cells *cells, struct table_probe *probe, const struct cell *cell,
              const struct cell *old, uint64_t now_ms) must_check;
void cells_remove(struct cells *cells, const struct table_probe *probe, const struct cell *old);
/* A cell of this segment is not needed there any more. */
void cells_let_go(struct cells *cells, uint64_t segment);

/* The code for a value, for the next cells_put(); 0: it has none. */
uint32_t cells_code(struct cells *cells, struct span value);
struct span cells_value(const struct cells *cells, uint32_t code);

/* What entries of the journal say, in their order, when nothing has to be taken back. It
 * is done by cells_replay_end() at the latest. */
int cells_replay(struct cells *cells, const struct entry *entry, uint64_t segment,
                 uint32_t offset) must_check;
int cells_replay_end(struct cells *cells) must_check;
void cells_replay_begin(struct cells *cells, uint64_t now_ms, uint64_t expected);

/* The lowest segment in which cells stand; false: there are none. */
bool cells_oldest_segment(struct cells *cells, uint64_t *ret_segment) must_check;
uint64_t cells_in_segment(const struct cells *cells, uint64_t segment);

/* A walk that misses none that is there all the time; some cells at a time. */
struct cells_scan {
	struct table_scan at; /* zeroed: the beginning */
	struct cell cells[TABLE_CELLS_MAX];
	uint32_t count;
};
bool cells_scan_next(const struct cells *cells, struct cells_scan *scan) must_check;

uint64_t cells_count(const struct cells *cells); /* with those over but not yet swept */
void cells_sweep(struct cells *cells, uint64_t now_ms, uint64_t budget); /* as table_sweep() */
/* Checks every invariant; returns how many are counted in all segments. For tests. */
uint64_t cells_check(const struct cells *cells);
struct table_stats cells_stats(const struct cells *cells); /* of the table, but for bytes */
