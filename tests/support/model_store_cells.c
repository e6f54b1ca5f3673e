/*
 * model_store_cells: see model_store_cells.h.
 *
 * The buckets only ever double, and a cell of bucket i then is in i or i + their old
 * number. So a scan that goes up through the buckets misses none.
 */
#include "support/model_store_cells.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define BUCKETS_FIRST 64u
#define SWEEP_BUCKETS 4096u
#define SCAN_BUCKETS 4096u

struct model_cell {
	struct model_cell *next;
	struct digest digest;
	uint64_t expiry_ms; /* 0: never */
	uint32_t name_len, value_len;
	char bytes[]; /* name, value */
};

struct model_cells {
	struct model_cell **buckets;
	size_t bucket_count; /* a power of two */
	size_t sweep_at;
	uint64_t count, bytes;
};

static size_t cell_size(size_t name_len, size_t value_len)
{
	return sizeof(struct model_cell) + name_len + value_len;
}

static struct span value_of(const struct model_cell *cell)
{
	return span_of(cell->bytes + cell->name_len, cell->value_len);
}

static bool is_over(const struct model_cell *cell, uint64_t now_ms)
{
	return cell->expiry_ms != 0 && cell->expiry_ms <= now_ms;
}

static struct model_cell **bucket_of(struct model_cells *cells, const struct digest *digest)
{
	return &cells->buckets[digest->word[0] & (cells->bucket_count - 1)];
}

static void drop(struct model_cells *cells, struct model_cell **at)
{
	struct model_cell *cell = *at;

	*at = cell->next;
	CHECK(cells->count > 0);
	cells->count--;
	cells->bytes -= cell_size(cell->name_len, cell->value_len);
	mem_free(cell);
}

static void bucket_expire(struct model_cells *cells, struct model_cell **at, uint64_t now_ms)
{
	while (*at) {
		if (is_over(*at, now_ms))
			drop(cells, at);
		else
			at = &(*at)->next;
	}
}

/* What points to the cell, or to NULL at the end of its bucket. */
static struct model_cell **find(struct model_cells *cells, const struct digest *digest,
                                uint64_t now_ms)
{
	struct model_cell **at = bucket_of(cells, digest);

	bucket_expire(cells, at, now_ms);
	while (*at && !digest_same_key(&(*at)->digest, digest))
		at = &(*at)->next;
	return at;
}

/* A failed growth only makes the chains longer. */
static void grow(struct model_cells *cells)
{
	size_t old_count = cells->bucket_count;
	struct model_cell **old = cells->buckets;
	struct model_cell **grown = mem_zalloc(old_count * 2, sizeof(*grown));

	if (!grown)
		return;
	cells->buckets = grown;
	cells->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct model_cell *cell = old[i];
			struct model_cell **at = bucket_of(cells, &cell->digest);
			old[i] = cell->next;
			cell->next = *at;
			*at = cell;
		}
	}
	mem_free(old);
}

int model_cells_prepare(const struct store_cell_value *value, struct model_cell **ret_fresh)
{
	struct model_cell *fresh = mem_alloc(cell_size(value->name.len, value->value.len));

	if (!fresh)
		return ERR_FULL;
	*fresh = (struct model_cell){ .digest = value->digest,
		                      .name_len = (uint32_t)value->name.len,
		                      .value_len = (uint32_t)value->value.len };
	if (value->name.len)
		memcpy(fresh->bytes, value->name.ptr, value->name.len);
	if (value->value.len)
		memcpy(fresh->bytes + fresh->name_len, value->value.ptr, value->value.len);
	*ret_fresh = fresh;
	return 0;
}

struct model_cell *model_cells_unprepare(struct model_cell *fresh)
{
	return mem_free(fresh);
}

/* As a time: no expiry is later than any. */
static uint64_t never_is_last(uint64_t expiry_ms)
{
	return expiry_ms ? expiry_ms : UINT64_MAX;
}

/* When the cell is over once this is done; 0: never. */
static uint64_t expiry_of(const struct store_cell_value *value, uint64_t now_ms, uint64_t old_ms)
{
	uint64_t end_ms = 0;

	if (value->keep_expiry)
		return old_ms;
	if (value->ttl_ms) {
		end_ms = value->ttl_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + value->ttl_ms;
	} else if (value->expiry_ms) {
		uint64_t wall_ms = value->wall_ms;
		bool set_back = wall_ms && now_ms > wall_ms && now_ms - wall_ms > STORE_AHEAD_MS;
		bool ahead = value->expiry_ms > wall_ms && value->expiry_ms < STORE_EXPIRY_MAX_MS;
		end_ms = value->expiry_ms;
		if (set_back && ahead) /* what counts is the time that is left */
			end_ms = now_ms + (value->expiry_ms - wall_ms);
	}
	return end_ms > STORE_EXPIRY_MAX_MS ? STORE_EXPIRY_MAX_MS : end_ms;
}

static bool may_put(enum store_when when, bool found)
{
	return when == STORE_IF_ABSENT ? !found : when == STORE_IF_PRESENT ? found : true;
}

static bool may_move(enum store_when when, uint64_t old_ms, uint64_t new_ms)
{
	bool later = never_is_last(new_ms) > never_is_last(old_ms);
	bool earlier = never_is_last(new_ms) < never_is_last(old_ms);

	switch (when) {
	case STORE_IF_TIMELESS: return old_ms == 0;
	case STORE_IF_TIMED: return old_ms != 0;
	case STORE_IF_LATER: return later;
	case STORE_IF_EARLIER: return earlier;
	case STORE_IF_TIMED_EARLIER: return old_ms != 0 && earlier;
	case STORE_ALWAYS:
	case STORE_IF_ABSENT:
	case STORE_IF_PRESENT: return true;
	}
	return false;
}

void model_cells_put(struct model_cells *cells, struct model_cell *fresh,
                     const struct store_cell_value *value, uint64_t now_ms)
{
	struct model_cell **at = find(cells, &value->digest, now_ms);

	fresh->expiry_ms = expiry_of(value, now_ms, *at ? (*at)->expiry_ms : 0);
	if (*at)
		drop(cells, at);
	fresh->next = *at;
	*at = fresh;
	cells->count++;
	cells->bytes += cell_size(fresh->name_len, fresh->value_len);
	if (cells->count > cells->bucket_count)
		grow(cells);
}

static int put(struct model_cells *cells, struct store_cell *cell)
{
	struct model_cell *fresh;

	if (!may_put(cell->when, cell->found))
		return 0;
	int error = model_cells_prepare(&cell->cell, &fresh);
	if (error < 0)
		return error;
	model_cells_put(cells, fresh, &cell->cell, cell->now_ms);
	cell->changed = true;
	return 0;
}

/* What there is before anything changes. */
static int tell(struct store_cell *cell, const struct model_cell *there)
{
	buf_clear(&cell->value);
	cell->found = there != NULL;
	cell->changed = false;
	cell->expiry_ms = there ? there->expiry_ms : 0;
	if (!there || !cell->want_value)
		return 0;
	if (buf_reserve(&cell->value, there->value_len) < 0)
		return ERR_FULL;
	buf_append_span(&cell->value, value_of(there));
	return 0;
}

int model_cells_do(struct model_cells *cells, struct store_cell *cell, uint64_t now_ms)
{
	int error = store_cell_check(cell);
	if (error < 0)
		return error;
	struct model_cell **at = find(cells, &cell->cell.digest, now_ms);
	cell->now_ms = now_ms;
	error = tell(cell, *at);
	if (error < 0)
		return error;
	if (cell->act == STORE_CELL_PUT)
		return put(cells, cell);
	if (cell->act == STORE_CELL_GET || !*at)
		return 0;
	if (cell->act == STORE_CELL_EXPIRE) {
		uint64_t new_ms = expiry_of(&cell->cell, now_ms, (*at)->expiry_ms);
		if (!may_move(cell->when, (*at)->expiry_ms, new_ms))
			return 0;
		(*at)->expiry_ms = new_ms;
	}
	cell->changed = true;
	if (cell->act == STORE_CELL_REMOVE || is_over(*at, now_ms))
		drop(cells, at);
	return 0;
}

static int bucket_tell(const struct model_cell *cell, struct store_cell_scan *scan)
{
	for (; cell; cell = cell->next) {
		if (store_name_append(&scan->names, span_of(cell->bytes, cell->name_len)) < 0)
			return ERR_FULL;
		scan->count++;
	}
	return 0;
}

int model_cells_scan(struct model_cells *cells, struct store_cell_scan *scan, uint64_t now_ms)
{
	uint64_t *at = &scan->cursor.word[0], first = *at;

	buf_clear(&scan->names);
	scan->count = 0;
	for (; *at < cells->bucket_count && *at - first < SCAN_BUCKETS; ++*at) {
		struct model_cell **bucket = &cells->buckets[*at];
		if (scan->count > 0 && scan->count >= scan->max_names)
			break;
		bucket_expire(cells, bucket, now_ms);
		int error = bucket_tell(*bucket, scan);
		if (error < 0)
			return error;
	}
	scan->end = *at >= cells->bucket_count;
	return 0;
}

void model_cells_sweep(struct model_cells *cells, uint64_t now_ms)
{
	for (size_t i = 0; i < SWEEP_BUCKETS && i < cells->bucket_count; i++) {
		cells->sweep_at = (cells->sweep_at + 1) & (cells->bucket_count - 1);
		bucket_expire(cells, &cells->buckets[cells->sweep_at], now_ms);
	}
}

uint64_t model_cells_count(const struct model_cells *cells)
{
	return cells->count;
}

uint64_t model_cells_bytes(const struct model_cells *cells)
{
	return cells->bytes + cells->bucket_count * sizeof(struct model_cell *);
}

int model_cells_new(struct model_cells **ret_cells)
{
	struct model_cells *cells = mem_zalloc(1, sizeof(*cells));

	if (!cells)
		return -ENOMEM;
	cells->bucket_count = BUCKETS_FIRST;
	cells->buckets = mem_zalloc(cells->bucket_count, sizeof(struct model_cell *));
	if (!cells->buckets) {
		mem_free(cells);
		return -ENOMEM;
	}
	*ret_cells = cells;
	return 0;
}

struct model_cells *model_cells_free(struct model_cells *cells)
{
	if (!cells)
		return NULL;
	for (size_t i = 0; i < cells->bucket_count; i++)
		while (cells->buckets[i])
			drop(cells, &cells->buckets[i]);
	mem_free(cells->buckets);
	return mem_free(cells);
}
