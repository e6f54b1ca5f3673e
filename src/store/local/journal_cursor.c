/*
 * journal_cursor: steps through the segments of an open store, entry by entry, for
 * scans and for carrying. Only what is durable is met. What cannot be read is left out:
 * to tell of damage is the affair of `journal verify`.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "store/local/journal/catalog.h"
#include "store/local/local_internal.h"

#define READ_AHEAD (64u << 10)

void cursor_next_segment(struct journal_cursor *cursor)
{
	*cursor = (struct journal_cursor){ .segment = cursor->segment + 1, .at = FORMAT_BLOCK };
}

static void next_frame(struct journal_cursor *cursor)
{
	cursor->at = (uint32_t)format_align(cursor->body_end, FORMAT_BLOCK);
	cursor->body_end = 0;
}

void cursor_pass(struct journal_cursor *cursor, const struct entry_head *head)
{
	cursor->at += (uint32_t)format_align(head->size, 8);
	if (cursor->at >= cursor->body_end)
		next_frame(cursor);
}

bool cursor_read(struct local_store *local, const struct journal_cursor *cursor, uint32_t len,
                 const unsigned char **ret_bytes, bool *ret_from_disk)
{
	struct reader_place place = { cursor->segment, cursor->at, len, READ_AHEAD, NULL };

	if ((uint64_t)place.offset + len > local_segment_end(local, place.segment))
		return false;
	return local_read_bytes(local, place, ret_bytes, ret_from_disk) == 0;
}

/* What stands behind it was refused. */
static bool learn_end(struct local_store *local, uint64_t segment)
{
	struct shelf_item *item = shelf_find(&local->shelf, segment);
	const struct shelf_item *next = shelf_find(&local->shelf, segment + 1);
	struct catalog_successor successor;
	struct error_text text;

	CHECK(item);
	if (item->end != 0 || segment == local->journal.durable.segment)
		return true;
	if (!next || catalog_successor_read(&local->folder, segment, next->segment_bytes > 0,
	                                    &successor, &text) < 0)
		return false;
	item->end = successor.end;
	return true;
}

/* Of a segment that no start since had to read: its header tells. */
static bool learn_epoch(struct local_store *local, struct journal_cursor *cursor)
{
	const struct shelf_item *item = shelf_find(&local->shelf, cursor->segment);
	struct journal_cursor start = { .segment = cursor->segment };
	struct segment_header header;
	const unsigned char *bytes;
	bool from_disk;

	CHECK(item);
	cursor->epoch = item->epoch;
	if (cursor->epoch != 0)
		return true;
	if (!cursor_read(local, &start, sizeof(header), &bytes, &from_disk))
		return false;
	memcpy(&header, bytes, sizeof(header));
	if (segment_header_check(&header) < 0 || header.number != cursor->segment)
		return false;
	cursor->epoch = header.epoch;
	return true;
}

static void enter_frame(struct local_store *local, struct journal_cursor *cursor)
{
	uint64_t end = local_segment_end(local, cursor->segment);
	struct frame_header header;
	const unsigned char *bytes;
	bool from_disk;

	if (!cursor_read(local, cursor, sizeof(header), &bytes, &from_disk)) {
		cursor_next_segment(cursor);
		return;
	}
	memcpy(&header, bytes, sizeof(header));
	if (!frame_header_valid(&header, cursor->epoch, end - cursor->at)) {
		cursor_next_segment(cursor);
		return;
	}
	cursor->body_end = cursor->at + (uint32_t)sizeof(header) + header.body_len;
	cursor->at += (uint32_t)sizeof(header);
}

static bool at_end(const struct local_store *local, const struct journal_cursor *cursor)
{
	const struct journal_position *durable = &local->journal.durable;

	return cursor->segment > durable->segment ||
	       (cursor->segment == durable->segment && cursor->at >= durable->end);
}

enum cursor_step cursor_look(struct local_store *local, struct journal_cursor *cursor,
                             struct entry_head *ret_head)
{
	const struct shelf_item *item = shelf_find(&local->shelf, cursor->segment);
	const unsigned char *bytes;
	bool from_disk;

	if (at_end(local, cursor))
		return CURSOR_END;
	if (!item || item->segment_bytes == 0 ||
	    (cursor->epoch == 0 &&
	     (!learn_end(local, cursor->segment) || !learn_epoch(local, cursor)))) {
		cursor_next_segment(cursor);
		return CURSOR_MOVED;
	}
	if (cursor->body_end == 0) {
		enter_frame(local, cursor);
		return CURSOR_MOVED;
	}
	*ret_head = (struct entry_head){ 0 };
	if (cursor->body_end - cursor->at >= sizeof(*ret_head) &&
	    cursor_read(local, cursor, sizeof(*ret_head), &bytes, &from_disk))
		memcpy(ret_head, bytes, sizeof(*ret_head));
	if (ret_head->size >= sizeof(*ret_head) && ret_head->size <= cursor->body_end - cursor->at)
		return CURSOR_ENTRY;
	next_frame(cursor);
	return CURSOR_MOVED;
}
