/*
 * carry_cells: moves the cells that still stand in a segment to the end of the journal,
 * so that a start need not read the segment any more, and it can leave.
 *
 * The segment is read from one end to the other, a piece with each tick. A cell stands
 * there if the index says so: all others have been replaced, moved, removed, or are over.
 * The copy has the expiry of the index. New places count only once the frame is on disk; a
 * failed frame changes nothing, and the piece is done again.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/local_internal.h"

#define CARRY_CELLS 512u
#define CARRY_BYTES (1u << 20)
#define LOOK_ENTRIES 16384u
#define READ_BYTES (1u << 20)
#define WALKS 4u /* until what could not be read is taken for damaged */

struct moved {
	struct digest digest;
	struct cell from;
	struct cell to;
};

struct carry {
	struct local_store *local;
	struct journal_cursor at;
	uint32_t count;
	uint32_t bytes;
	struct moved moved[CARRY_CELLS];
};

/* Appends it. 0; 1: not now; ERR_DAMAGED. */
static int copy(struct carry *carry, const struct entry_head *head, const struct cell *cell)
{
	struct local_store *local = carry->local;
	const unsigned char *bytes;
	struct entry entry;
	bool from_disk;

	/* First: what it makes room with may stand where the bytes are. */
	if (journal_reserve(&local->journal, head->size, JOURNAL_NORMAL,
	                    steady_clock_last(&local->clock)) != 0)
		return 1;
	if (!cursor_read(local, &carry->at, head->size, &bytes, &from_disk))
		return 1;
	if (entry_parse(bytes, head->size, &entry) < 0 || entry.kind != ENTRY_CELL ||
	    digest_check(&entry.cell.digest) !=
	            entry_cell_check(bytes, head->size, carry->at.epoch))
		return ERR_DAMAGED;
	struct moved *moved = &carry->moved[carry->count++];
	moved->digest = entry.cell.digest;
	moved->from = moved->to = *cell;
	moved->to.segment = local->journal.durable.segment;
	moved->to.offset = frame_add_cell(&local->journal.frame,
	                                  &(struct frame_cell){ .digest = entry.cell.digest,
	                                                        .act = CELL_CARRIED,
	                                                        .expiry_ms = cell->expiry_ms,
	                                                        .name = entry.source,
	                                                        .value = entry.payload });
	carry->bytes += head->size;
	return 0;
}

/* Does this entry hold, and until when? */
static bool stands_here(struct carry *carry, const struct entry_head *head, struct cell *ret_cell)
{
	struct local_store *local = carry->local;
	const unsigned char *bytes;
	struct entry_cell cell;
	bool from_disk;

	if (head->kind != ENTRY_CELL || head->size < sizeof(cell) ||
	    !cursor_read(local, &carry->at, sizeof(cell), &bytes, &from_disk))
		return false;
	memcpy(&cell, bytes, sizeof(cell));
	struct table_probe probe = cells_probe(&cell.digest);
	if (!cells_find(local->cells, &probe, ret_cell) || ret_cell->segment != carry->at.segment ||
	    ret_cell->offset != carry->at.at)
		return false;
	if (!cell_is_over(ret_cell, steady_clock_last(&local->clock)))
		return true;
	cells_remove(local->cells, &probe, ret_cell);
	cells_let_go(local->cells, ret_cell->segment);
	return false;
}

/* A piece of the segment: 0, 1: it was not read to its end, ERR_DAMAGED. */
static int read_piece(struct carry *carry, uint64_t segment)
{
	struct local_store *local = carry->local;
	uint64_t read_before = local->reader.bytes;

	for (uint32_t i = 0; i < LOOK_ENTRIES; i++) {
		struct entry_head head;
		struct cell cell;
		if (carry->count == CARRY_CELLS || carry->bytes >= CARRY_BYTES ||
		    local->reader.bytes - read_before >= READ_BYTES)
			return 1;
		enum cursor_step step = cursor_look(local, &carry->at, &head);
		if (step == CURSOR_END || carry->at.segment != segment)
			return 0;
		if (step == CURSOR_MOVED)
			continue;
		int r = stands_here(carry, &head, &cell) ? copy(carry, &head, &cell) : 0;
		if (r != 0)
			return r;
		cursor_pass(&carry->at, &head);
	}
	return 1;
}

/* True: all are where they were copied to. */
static bool move_all(struct carry *carry)
{
	struct local_store *local = carry->local;
	uint64_t before = local->journal.durable.sequence;

	local_commit(local);
	if (carry->count > 0 && local->journal.durable.sequence == before)
		return false;
	for (uint32_t i = 0; i < carry->count; i++) {
		const struct moved *moved = &carry->moved[i];
		struct table_probe probe = cells_probe(&moved->digest);
		if (cells_put(local->cells, &probe, &moved->to, &moved->from, 0) < 0)
			return false; /* both places have it; the old one stays needed */
		cells_let_go(local->cells, moved->from.segment);
	}
	local->journal.item.events += carry->count;
	return true;
}

/* A whole walk has met all that stand there, but for what could not be read. */
static void end_walk(struct local_store *local, uint64_t segment, bool damaged)
{
	local->carrying.segment = 0;
	if (!damaged && cells_in_segment(local->cells, segment) == 0)
		local->carry_walks = 0;
	else if (damaged || ++local->carry_walks >= WALKS)
		local_tell_stays(local, segment);
}

void local_carry_cells(struct local_store *local, uint64_t segment)
{
	struct carry carry; /* filled as far as it is used */

	CHECK(local->undo.count == 0); /* the index is what is on disk */
	carry.local = local;
	carry.count = carry.bytes = 0;
	carry.at = local->carrying;
	if (carry.at.segment != segment)
		carry.at = (struct journal_cursor){ .segment = segment, .at = FORMAT_BLOCK };
	int r = read_piece(&carry, segment);
	if (!move_all(&carry))
		return;
	local->carrying = carry.at;
	if (r != 1)
		end_walk(local, segment, r == ERR_DAMAGED);
}
