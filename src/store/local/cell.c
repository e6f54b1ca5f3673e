/*
 * cell: what becomes of a cell in the local store (store.h has the rules), and taking
 * that back when its frame was lost.
 *
 * A change stands in the index as soon as it is decided, so that what follows in the same
 * batch meets it; what it replaced goes to the undo list. An operation that met a cell
 * whose last change is not on disk waits for that frame, too: which they are is kept as
 * bits of their digests (batch.touched).
 *
 * A value is read where it is: in the frames that are still in memory, else from its
 * segment. The kernel keeps what is read often; values that many cells have are codes.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/local_internal.h"

/* The decision rested on a frame that was lost meanwhile: it is made again. */
#define DECIDE_AGAIN 1

#define READ_BYTES FORMAT_BLOCK
#define SCAN_BUCKETS 1024u
#define SCAN_NAMES 256u /* each may have to be read from disk */

/* --- what is not durable ------------------------------------------------------ */

static uint32_t touch_bit(const struct digest *digest)
{
	return (uint32_t)(digest->word[0] >> 8) % TOUCHED_BITS;
}

bool local_cell_touched(const struct local_store *local, const struct digest *digest)
{
	uint32_t bit = touch_bit(digest);

	return local->batch.touches && local->batch.touched[bit / 64] >> bit % 64 & 1;
}

void local_undo_cell(struct local_store *local, const struct undo_cell *undo)
{
	struct table_probe probe = cells_probe(&undo->digest);
	struct cell lost, old = undo->old;
	bool found = cells_find(local->cells, &probe, &lost);

	CHECK(undo->there || !undo->moved);
	if (!undo->there) {
		if (!found)
			return;
		cells_remove(local->cells, &probe, &lost);
		cells_let_go(local->cells, lost.segment);
		return;
	}
	old.code = 0; /* it may be another value's by now */
	int r = cells_put(local->cells, &probe, &old, found ? &lost : NULL, 0);
	CHECK(r == 0); /* it fits where it was */
	if (found && !cell_same_place(&lost, &old))
		cells_let_go(local->cells, lost.segment);
	/* Putting counts it once more if its place is another than what was there. */
	if (undo->moved)
		cells_let_go(local->cells, old.segment);
}

/* --- reading -------------------------------------------------------------------- */

/* Also of the frame being built: its answer waits for that. */
static int read_bytes(struct local_store *local, struct reader_place place,
                      const unsigned char **ret_bytes, bool *ret_from_disk)
{
	*ret_from_disk = false;
	*ret_bytes = frame_building(&local->journal.frame, place.segment, place.offset, place.len);
	return *ret_bytes ? 0 : local_read_bytes(local, place, ret_bytes, ret_from_disk);
}

/* The entry that put it; the spans stay until the next read or frame. */
static int read_cell(struct local_store *local, const struct cell *cell, struct entry *ret_entry)
{
	struct reader_place place = { cell->segment, cell->offset, sizeof(struct entry_cell),
		                      READ_BYTES,
		                      &local->cell_windows[cell->segment % CELL_WINDOWS] };
	const unsigned char *bytes;
	struct entry_head head;
	bool from_disk;

	int r = read_bytes(local, place, &bytes, &from_disk);
	if (r < 0)
		return r;
	memcpy(&head, bytes, sizeof(head));
	if (head.kind != ENTRY_CELL || head.size < sizeof(struct entry_cell) ||
	    head.size > sizeof(struct entry_cell) + STORE_NAME_MAX + STORE_VALUE_MAX)
		return ERR_DAMAGED;
	place.len = head.size;
	r = read_bytes(local, place, &bytes, &from_disk);
	if (r < 0)
		return r;
	r = entry_parse(bytes, place.len, ret_entry);
	if (r < 0)
		return r;
	if (ret_entry->kind != ENTRY_CELL || !entry_cell_puts(&ret_entry->cell))
		return ERR_DAMAGED;
	if (!from_disk)
		return 0;
	const struct segment_info *item = segment_list_find(&local->segments, cell->segment);
	bool valid = item && item->epoch != 0 && reader_entry_valid(bytes, ret_entry, item->epoch);
	return valid ? 0 : ERR_DAMAGED;
}

static void tell_damaged(struct local_store *local, const struct cell *cell, int error)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, cell->segment, FILE_KIND_SEGMENT);
	atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
	local_log(local, LOCAL_STORE_ERROR, "value of a key cannot be read: %s at offset %u: %s",
	          name, cell->offset, error_name(error));
}

static int append_value(struct local_store *local, const struct cell *cell, struct buf *value)
{
	struct span bytes;
	struct entry entry;

	if (cell->code) {
		bytes = cells_value(local->cells, cell->code);
	} else {
		int r = read_cell(local, cell, &entry);
		if (r < 0) {
			tell_damaged(local, cell, r);
			return r;
		}
		bytes = entry.payload;
	}
	if (buf_reserve(value, bytes.len) < 0)
		return ERR_FULL;
	buf_append_span(value, bytes);
	return 0;
}

/* --- changing -------------------------------------------------------------------- */

static int change_index(struct local_store *local, struct table_probe *probe,
                        const struct cell *old, const struct frame_cell *what)
{
	struct cell cell = { .expiry_ms = what->expiry_ms,
		             .segment = local->journal.durable.segment,
		             .offset = journal_next_offset(&local->journal) };

	CHECK(old || what->act == CELL_PUT);
	if (what->act == CELL_REMOVE) {
		cells_remove(local->cells, probe, old);
		return 0;
	}
	if (what->act == CELL_EXPIRE) {
		cell = *old;
		cell.expiry_ms = what->expiry_ms;
	} else {
		cell.code = cells_code(local->cells, what->value);
	}
	return cells_put(local->cells, probe, &cell, old, local_now_ms(local)) < 0 ? ERR_FULL : 0;
}

/* There is room in the frame and in the undo list. */
static int change(struct local_store *local, struct table_probe *probe, const struct cell *old,
                  const struct frame_cell *what)
{
	int r = change_index(local, probe, old, what);
	if (r < 0)
		return r;
	struct undo *undo = local_undo_push(local, UNDO_CELL);
	undo->cell = (struct undo_cell){ .digest = probe->digest,
		                         .there = old != NULL,
		                         .moved = old && what->act != CELL_EXPIRE };
	if (old)
		undo->cell.old = *old;
	frame_add_cell(&local->journal.frame, what);
	uint32_t bit = touch_bit(&probe->digest);
	local->batch.touched[bit / 64] |= UINT64_C(1) << bit % 64;
	local->batch.touches = true;
	local->journal.item.events += what->act == CELL_PUT;
	local->batch.events++;
	return 0;
}

/* F12 */
static int mark_cells(struct local_store *local)
{
	if (likely(local->has_cells))
		return 0;
	local->has_cells = true;
	if (local_mark(local, &local->journal.durable, 0) == 0)
		return 0;
	local->has_cells = false;
	return ERR_POISONED;
}

static int write_change(struct local_store *local, struct table_probe *probe,
                        const struct cell *old, const struct frame_cell *what)
{
	uint64_t lost = local->frames_lost;

	if (local_undo_reserve(local, 1) < 0)
		return ERR_FULL;
	int r = local_reserve(local, frame_cell_size(what), JOURNAL_NORMAL);
	local->full = r == ERR_FULL;
	local->refused |= local->full;
	if (unlikely(local->frames_lost != lost))
		return DECIDE_AGAIN;
	if (r == 0)
		r = mark_cells(local);
	return r < 0 ? r : change(local, probe, old, what);
}

/* --- deciding ----------------------------------------------------------------------- */

/* A cell that lasts longer is written whole (F11): a copy, since room is made for it
 * where it may stand now. */
static int plan_longer(struct local_store *local, const struct cell *old, struct frame_cell *what)
{
	struct buf *bytes = &local->cell_bytes;
	struct entry entry;

	int r = read_cell(local, old, &entry);
	if (r < 0) {
		tell_damaged(local, old, r);
		return r;
	}
	size_t name_len = entry.source.len, value_len = entry.payload.len;
	buf_clear(bytes);
	if (buf_reserve(bytes, name_len + value_len) < 0)
		return ERR_FULL;
	buf_append_span(bytes, entry.source);
	buf_append_span(bytes, entry.payload);
	what->act = CELL_PUT;
	what->name = span_of(bytes->ptr, name_len);
	what->value = span_of(bytes->ptr + name_len, value_len);
	return 0;
}

/* 1: what is to be written; 0: nothing is, and *ret_changed tells whether it is done. */
static int plan(struct local_store *local, const struct store_cell *cell, const struct cell *old,
                struct frame_cell *what, bool *ret_changed)
{
	const struct store_cell_value *value = &cell->cell;
	bool puts = cell->act == STORE_CELL_PUT;

	*ret_changed = false;
	if (cell->act == STORE_CELL_GET || (!puts && !cell->found) ||
	    (puts && !store_when_holds(cell->when, cell->found)))
		return 0;
	*what = (struct frame_cell){ .digest = value->digest, .act = CELL_REMOVE };
	if (cell->act == STORE_CELL_REMOVE) {
		*ret_changed = true;
		return 1;
	}
	what->expiry_ms = store_cell_expiry(value, cell->now_ms, cell->expiry_ms);
	if (!puts && !store_when_moves(cell->when, cell->expiry_ms, what->expiry_ms))
		return 0;
	*ret_changed = true;
	if (what->expiry_ms != 0 && what->expiry_ms <= cell->now_ms) { /* is over at once */
		what->expiry_ms = 0;
		return cell->found;
	}
	if (puts) {
		what->act = CELL_PUT;
		what->name = value->name;
		what->value = value->value;
		return 1;
	}
	if (what->expiry_ms == cell->expiry_ms)
		return 0;
	what->act = CELL_EXPIRE;
	bool longer = cell->expiry_ms != 0 &&
	              (what->expiry_ms == 0 || what->expiry_ms > cell->expiry_ms);
	int r = longer ? plan_longer(local, old, what) : 0;
	return r < 0 ? r : 1;
}

static int decide(struct local_store *local, struct store_cell *cell, struct table_probe *probe)
{
	struct frame_cell what;
	struct cell old;

	bool there = cells_find(local->cells, probe, &old);
	buf_clear(&cell->value);
	cell->now_ms = local_now_ms(local);
	cell->found = there && !cell_is_over(&old, cell->now_ms);
	cell->changed = false;
	cell->expiry_ms = cell->found ? old.expiry_ms : 0;
	int r = cell->found && cell->want_value ? append_value(local, &old, &cell->value) : 0;
	bool changed = false;
	if (r == 0)
		r = plan(local, cell, there ? &old : NULL, &what, &changed);
	if (r > 0)
		r = write_change(local, probe, there ? &old : NULL, &what);
	cell->changed = changed && r == 0;
	return r;
}

void local_decide_cell(struct local_store *local, struct store_cell *cell,
                       struct table_probe *probe)
{
	int r = store_cell_check(cell);

	CHECK(local->flushing);
	if (r == 0)
		r = decide(local, cell, probe);
	/* There is no second frame to lose: the room for this one is found anew. */
	if (unlikely(r == DECIDE_AGAIN))
		r = decide(local, cell, probe);
	CHECK(r <= 0);
	cell->op.error = r;
}

/* --- answers ------------------------------------------------------------------------ */

uint32_t local_answer_size(const struct store_settle *settle, uint32_t size)
{
	const struct store_cell_value *answer = settle->answer;

	if (likely(!answer))
		return size;
	return (uint32_t)(format_align(size, 8) + sizeof(struct entry_cell) + answer->name.len +
	                  answer->value.len);
}

int local_put_answer(struct local_store *local, const struct store_settle *settle)
{
	const struct store_cell_value *answer = settle->answer;

	if (likely(!answer))
		return 0;
	int r = mark_cells(local);
	if (r < 0)
		return r;
	struct table_probe probe = cells_probe(&answer->digest);
	struct frame_cell what;
	struct cell old;
	struct store_cell put = { .act = STORE_CELL_PUT,
		                  .cell = *answer,
		                  .now_ms = local_now_ms(local) };
	bool changed, there = cells_find(local->cells, &probe, &old);
	put.found = there && !cell_is_over(&old, put.now_ms);
	put.expiry_ms = put.found ? old.expiry_ms : 0;
	r = plan(local, &put, there ? &old : NULL, &what, &changed);
	local->batch.events++; /* somebody waits for it, also if there is nothing to put */
	return r > 0 ? change(local, &probe, there ? &old : NULL, &what) : r;
}

/* --- scans ---------------------------------------------------------------------------- */

static int tell_names(struct local_store *local, const struct cells_scan *at,
                      struct store_cell_scan *scan)
{
	for (uint32_t i = 0; i < at->count; i++) {
		struct entry entry;
		if (cell_is_over(&at->cells[i], local_now_ms(local)))
			continue;
		int r = read_cell(local, &at->cells[i], &entry);
		if (r == ERR_DAMAGED) { /* the others are reported */
			tell_damaged(local, &at->cells[i], r);
			continue;
		}
		if (r == 0 && store_name_append(&scan->names, entry.source) < 0)
			r = ERR_FULL;
		if (r < 0)
			return r;
		scan->count++;
	}
	return 0;
}

int local_decide_cell_scan(struct local_store *local, struct store_cell_scan *scan)
{
	struct cells_scan at = { .at = { .shard = (uint32_t)(scan->cursor.word[0] >> 32),
		                         .hash = (int32_t)(scan->cursor.word[0] & INT32_MAX) } };
	uint32_t most = scan->max_names < SCAN_NAMES ? scan->max_names : SCAN_NAMES;

	CHECK(local->flushing);
	buf_clear(&scan->names);
	scan->count = 0;
	scan->end = false;
	for (uint32_t i = 0; i < SCAN_BUCKETS && !scan->end; i++) {
		if (scan->count > 0 && scan->count >= most)
			break;
		scan->end = !cells_scan_next(local->cells, &at);
		int r = scan->end ? 0 : tell_names(local, &at, scan);
		if (r < 0)
			return r;
	}
	scan->cursor.word[0] = (uint64_t)at.at.shard << 32 | (uint32_t)at.at.hash;
	return 0;
}
