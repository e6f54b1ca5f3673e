/* cells: see cells.h. */
#include "store/local/cells.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* --- short values ---------------------------------------------------------- */

#define HEADS 2048u
#define GUESSES 1024u
#define OFTEN 8u /* a value that came so often is likely to come again */

struct value {
	char bytes[SHORT_VALUE_MAX];
	uint64_t users;
	uint32_t hash;
	uint16_t next; /* in its chain; 0 is the end */
	uint8_t len;
};

/* What came last with this hash, and how often in a row. */
struct guess {
	uint32_t hash;
	uint32_t count;
};

struct short_values {
	uint64_t seed;
	uint32_t given; /* codes up to this one */
	uint32_t hand;  /* where the search for one without users resumes */
	uint16_t heads[HEADS];
	struct guess guesses[GUESSES];
	struct value values[SHORT_VALUES_MAX + 1];
};

int short_values_new(struct short_values **ret_values)
{
	struct short_values *values = mem_zalloc(1, sizeof(*values));

	if (!values)
		return -ENOMEM;
	int r = hash_random(&values->seed, sizeof(values->seed));
	if (r < 0) {
		mem_free(values);
		return r;
	}
	*ret_values = values;
	return 0;
}

struct short_values *short_values_free(struct short_values *values)
{
	return mem_free(values);
}

static uint32_t find(const struct short_values *values, struct span value, uint32_t hash)
{
	uint32_t code = values->heads[hash % HEADS];

	for (; code; code = values->values[code].next) {
		const struct value *at = &values->values[code];
		if (at->hash == hash && span_eq(span_of(at->bytes, at->len), value))
			break;
	}
	return code;
}

static bool comes_often(struct short_values *values, uint32_t hash)
{
	struct guess *guess = &values->guesses[hash / HEADS % GUESSES];

	if (guess->hash != hash)
		*guess = (struct guess){ .hash = hash };
	return ++guess->count >= OFTEN;
}

/* 0: all have users, as far as was looked. */
static uint32_t free_code(struct short_values *values)
{
	if (values->given < SHORT_VALUES_MAX)
		return ++values->given;
	for (uint32_t i = 0; i < 16; i++) {
		values->hand = values->hand % SHORT_VALUES_MAX + 1;
		if (values->values[values->hand].users == 0) {
			uint16_t *at = &values->heads[values->values[values->hand].hash % HEADS];
			while (*at != values->hand)
				at = &values->values[*at].next;
			*at = values->values[values->hand].next;
			return values->hand;
		}
	}
	return 0;
}

uint32_t short_values_code(struct short_values *values, struct span value)
{
	if (value.len > SHORT_VALUE_MAX)
		return 0;
	uint32_t hash = (uint32_t)hash_checksum64(value.ptr, value.len, values->seed);
	uint32_t code = find(values, value, hash);
	if (code || !comes_often(values, hash))
		return code;
	code = free_code(values);
	if (code == 0)
		return 0;
	struct value *given = &values->values[code];
	uint16_t *head = &values->heads[hash % HEADS];
	*given = (struct value){ .hash = hash, .len = (uint8_t)value.len, .next = *head };
	if (value.len)
		memcpy(given->bytes, value.ptr, value.len);
	*head = (uint16_t)code;
	return code;
}

struct span short_values_get(const struct short_values *values, uint32_t code)
{
	CHECK(code > 0 && code <= values->given);
	return span_of(values->values[code].bytes, values->values[code].len);
}

void short_values_hold(struct short_values *values, uint32_t code)
{
	values->values[code].users += code != 0;
}

void short_values_drop(struct short_values *values, uint32_t code)
{
	CHECK(code == 0 || values->values[code].users > 0);
	values->values[code].users -= code != 0;
}

/* --- cells ----------------------------------------------------------------- */

#define OFFSET_BITS 27 /* in units of 8, up to 1 GiB */
#define SEGMENT_BITS (TABLE_PLACE_BITS - OFFSET_BITS)
#define SEGMENT_SPAN (UINT64_C(1) << SEGMENT_BITS)
#define REPLAY_GROUP 64u

static_assert(SHORT_VALUES_MAX == (1u << TABLE_CODE_BITS) - 1, "a code fits its bits");

/* What an entry of the journal says, on its way. */
struct change {
	enum entry_cell_act act;
	struct cell cell;
};

struct cells {
	struct table *table;
	struct short_values *values;
	uint64_t count;
	/* How many stand in segment first + i. */
	uint32_t *counts;
	uint64_t first;
	size_t segments, room;
	/* replaying */
	uint64_t now_ms;
	uint32_t waiting;
	struct change changes[REPLAY_GROUP];
	struct table_probe probes[REPLAY_GROUP];
};

/* --- places ------------------------------------------------------------- */

static uint64_t place_of(const struct cell *cell)
{
	CHECK(cell->offset % 8 == 0 && cell->offset >> 3 >> OFFSET_BITS == 0);
	return (cell->segment & (SEGMENT_SPAN - 1)) << OFFSET_BITS | cell->offset / 8;
}

/* The one number with these lower bits that may be live. */
static uint64_t segment_of(const struct cells *cells, uint64_t place)
{
	uint64_t low = place >> OFFSET_BITS;

	return cells->first + ((low - cells->first) & (SEGMENT_SPAN - 1));
}

static struct cell cell_of(const struct cells *cells, const struct table_cell *cell)
{
	uint32_t offset = (uint32_t)(cell->place & ((1u << OFFSET_BITS) - 1)) * 8;

	return (struct cell){ .expiry_ms = cell->expiry_ms,
		              .segment = segment_of(cells, cell->place),
		              .offset = offset,
		              .code = cell->code };
}

/* --- segments ------------------------------------------------------------ */

static int counts_grow(struct cells *cells, size_t wanted)
{
	if (wanted <= cells->room)
		return 0;
	size_t room = wanted + wanted / 2 + 64;
	uint32_t *counts = mem_realloc(cells->counts, room * sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	cells->counts = counts;
	cells->room = room;
	return 0;
}

/* A number in front only after all of it had been removed for age. */
static int segment_reserve(struct cells *cells, uint64_t segment)
{
	if (likely(segment >= cells->first && segment - cells->first < cells->segments))
		return 0;
	if (cells->segments == 0)
		cells->first = segment;
	uint64_t before = segment < cells->first ? cells->first - segment : 0;
	uint64_t wanted = before ? cells->segments + before : segment - cells->first + 1;
	CHECK(wanted < SEGMENT_SPAN);
	int r = counts_grow(cells, (size_t)wanted);
	if (r < 0)
		return r;
	memmove(cells->counts + before, cells->counts, cells->segments * sizeof(*cells->counts));
	memset(cells->counts, 0, before * sizeof(*cells->counts));
	if (!before)
		memset(cells->counts + cells->segments, 0,
		       (wanted - cells->segments) * sizeof(*cells->counts));
	cells->first -= before;
	cells->segments = (size_t)wanted;
	return 0;
}

void cells_let_go(struct cells *cells, uint64_t segment)
{
	CHECK(segment >= cells->first && segment - cells->first < cells->segments);
	CHECK(cells->counts[segment - cells->first] > 0);
	cells->counts[segment - cells->first]--;
}

uint64_t cells_in_segment(const struct cells *cells, uint64_t segment)
{
	if (segment < cells->first || segment - cells->first >= cells->segments)
		return 0;
	return cells->counts[segment - cells->first];
}

bool cells_oldest_segment(struct cells *cells, uint64_t *ret_segment)
{
	size_t empty = 0;

	while (empty < cells->segments && cells->counts[empty] == 0)
		empty++;
	if (empty > 0)
		memmove(cells->counts, cells->counts + empty,
		        (cells->segments - empty) * sizeof(*cells->counts));
	cells->first += empty;
	cells->segments -= empty;
	*ret_segment = cells->first;
	return cells->segments > 0;
}

/* --- the index ------------------------------------------------------------ */

static void gone(void *user, uint64_t place, uint32_t code)
{
	struct cells *cells = user;

	cells->count--;
	short_values_drop(cells->values, code);
	cells_let_go(cells, segment_of(cells, place));
}

int cells_new(struct cells **ret_cells)
{
	struct cells *cells = mem_zalloc(1, sizeof(*cells));

	if (!cells)
		return -ENOMEM;
	int r = table_new_of_cells(&(struct table_watch){ .gone = gone, .user = cells },
	                           &cells->table);
	if (r == 0)
		r = short_values_new(&cells->values);
	if (r < 0) {
		cells_free(cells);
		return r;
	}
	*ret_cells = cells;
	return 0;
}

struct cells *cells_free(struct cells *cells)
{
	if (!cells)
		return NULL;
	table_free(cells->table);
	short_values_free(cells->values);
	mem_free(cells->counts);
	return mem_free(cells);
}

void cells_fetch(const struct cells *cells, uint32_t step, struct table_probe *probes, size_t count)
{
	table_fetch(cells->table, step, probes, count);
}

bool cells_find(const struct cells *cells, struct table_probe *probe, struct cell *ret_cell)
{
	struct table_cell found;

	if (!table_find_cell(cells->table, probe, &found))
		return false;
	*ret_cell = cell_of(cells, &found);
	return true;
}

int cells_put(struct cells *cells, struct table_probe *probe, const struct cell *cell,
              const struct cell *old, uint64_t now_ms)
{
	int r = segment_reserve(cells, cell->segment);
	if (r == 0)
		r = table_put_cell(cells->table, probe,
		                   &(struct table_cell){ .expiry_ms = cell->expiry_ms,
		                                         .place = place_of(cell),
		                                         .code = cell->code },
		                   now_ms);
	if (r < 0)
		return r;
	short_values_hold(cells->values, cell->code);
	cells->count += !old;
	if (old)
		short_values_drop(cells->values, old->code);
	if (!old || !cell_same_place(cell, old))
		cells->counts[cell->segment - cells->first]++;
	return 0;
}

void cells_remove(struct cells *cells, const struct table_probe *probe, const struct cell *old)
{
	bool was_there = table_remove(cells->table, &probe->digest);

	CHECK(was_there && cells->count > 0);
	cells->count--;
	short_values_drop(cells->values, old->code);
}

uint32_t cells_code(struct cells *cells, struct span value)
{
	return short_values_code(cells->values, value);
}

struct span cells_value(const struct cells *cells, uint32_t code)
{
	return short_values_get(cells->values, code);
}

/* --- from the journal -------------------------------------------------------- */

void cells_replay_begin(struct cells *cells, uint64_t now_ms, uint64_t expected)
{
	cells->now_ms = now_ms;
	/* Without memory for all at once there may still be enough for each. */
	(void)!table_load_begin(cells->table, expected);
}

static int replay_put(struct cells *cells, struct table_probe *probe, const struct cell *cell,
                      const struct cell *old)
{
	int r = cells_put(cells, probe, cell, old, cells->now_ms);
	if (r == 0 && old && !cell_same_place(cell, old))
		cells_let_go(cells, old->segment);
	return r;
}

static int apply(struct cells *cells, const struct change *change, struct table_probe *probe)
{
	struct cell old, cell = change->cell;
	bool found = cells_find(cells, probe, &old);

	if (change->act == CELL_EXPIRE) {
		if (!found)
			return 0;
		cell = old;
		cell.expiry_ms = change->cell.expiry_ms;
	}
	if (change->act != CELL_REMOVE && !cell_is_over(&cell, cells->now_ms)) /* F11 */
		return replay_put(cells, probe, &cell, found ? &old : NULL);
	if (!found)
		return 0;
	cells_remove(cells, probe, &old);
	cells_let_go(cells, old.segment);
	return 0;
}

static int apply_waiting(struct cells *cells)
{
	int r = 0;

	for (uint32_t step = 0; step < TABLE_STEPS; step++)
		table_fetch(cells->table, step, cells->probes, cells->waiting);
	for (uint32_t i = 0; i < cells->waiting; i++) {
		if (r == 0)
			r = apply(cells, &cells->changes[i], &cells->probes[i]);
		short_values_drop(cells->values, cells->changes[i].cell.code);
	}
	cells->waiting = 0;
	return r;
}

int cells_replay_end(struct cells *cells)
{
	return apply_waiting(cells);
}

int cells_replay(struct cells *cells, const struct entry *entry, uint64_t segment, uint32_t offset)
{
	struct change *change = &cells->changes[cells->waiting];

	*change = (struct change){
		.act = entry->cell.act,
		.cell = { .expiry_ms = entry->cell.expiry_ms, .segment = segment, .offset = offset }
	};
	if (entry_cell_puts(&entry->cell))
		change->cell.code = short_values_code(cells->values, entry->payload);
	short_values_hold(cells->values, change->cell.code); /* while it waits */
	cells->probes[cells->waiting++] = cells_probe(&entry->cell.digest);
	return cells->waiting == REPLAY_GROUP ? apply_waiting(cells) : 0;
}

/* --- all of them --------------------------------------------------------------- */

bool cells_scan_next(const struct cells *cells, struct cells_scan *scan)
{
	if (!table_scan_next(cells->table, &scan->at))
		return false;
	scan->count = scan->at.count;
	for (uint32_t i = 0; i < scan->count; i++)
		scan->cells[i] = cell_of(cells, &scan->at.cells[i]);
	return true;
}

uint64_t cells_count(const struct cells *cells)
{
	return cells->count;
}

void cells_sweep(struct cells *cells, uint64_t now_ms, uint64_t budget)
{
	table_sweep(cells->table, now_ms, budget);
}

struct table_stats cells_stats(const struct cells *cells)
{
	struct table_stats stats;

	table_get_stats(cells->table, &stats);
	stats.bytes += sizeof(*cells) + cells->room * sizeof(*cells->counts);
	return stats;
}

uint64_t cells_check(const struct cells *cells)
{
	struct table_scan scan = { 0 };
	uint64_t found = 0, counted = 0;

	table_check(cells->table);
	while (table_scan_next(cells->table, &scan)) {
		found += scan.count;
		for (uint32_t i = 0; i < scan.count; i++) {
			uint64_t segment = segment_of(cells, scan.cells[i].place);
			CHECK(segment - cells->first < cells->segments);
			CHECK(cells->counts[segment - cells->first] > 0);
		}
	}
	CHECK(found == cells->count);
	for (size_t i = 0; i < cells->segments; i++)
		counted += cells->counts[i];
	return counted;
}
