/*
 * scan_events: every event of the journal that had a ticket, also those that are
 * closed, in the order in which they were written, a piece at a time.
 *
 * The cursor is a place in the journal: segment and offset of the next entry, where its
 * frame's body ends (0: the next is a frame's header), and the leg to go on with. What
 * cannot be read is left out: to tell of damage is the affair of `journal verify`.
 *
 * An open ticket is told at the place where its event is now. Of a closed one a copy
 * that was carried is left out while the first place is still there.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/local_internal.h"

#define LOOK_ENTRIES 16384u
#define READ_AHEAD (64u << 10)

struct place {
	uint64_t segment;
	uint32_t at;
	uint32_t body_end; /* 0: at a frame */
	uint32_t leg;
};

struct walk {
	struct local_store *local;
	struct store_scan *scan;
	struct place place;
	uint64_t epoch; /* of the segment; 0: not known yet */
	int error;
};

static struct place place_of(const struct local_store *local, const struct store_cursor *cursor)
{
	struct place place = { .segment = cursor->word[0] >> 32,
		               .at = (uint32_t)cursor->word[0],
		               .body_end = (uint32_t)(cursor->word[1] >> 8),
		               .leg = (uint32_t)(cursor->word[1] & 0xff) };

	/* From the beginning, or what was there has left meanwhile. */
	if (place.segment < local->shelf.first)
		place = (struct place){ .segment = local->shelf.first, .at = FORMAT_BLOCK };
	return place;
}

static struct store_cursor cursor_of(const struct place *place)
{
	return (struct store_cursor){ { place->segment << 32 | place->at,
		                        (uint64_t)place->body_end << 8 | place->leg } };
}

static void next_segment(struct walk *walk)
{
	walk->place = (struct place){ .segment = walk->place.segment + 1, .at = FORMAT_BLOCK };
	walk->epoch = 0;
}

static void next_frame(struct walk *walk, uint32_t body_end)
{
	walk->place.at = (uint32_t)format_align(body_end, FORMAT_BLOCK);
	walk->place.body_end = 0;
	walk->place.leg = 0;
}

static bool read_at(struct walk *walk, uint32_t len, const unsigned char **ret_bytes,
                    bool *ret_from_disk)
{
	struct reader_place place = { walk->place.segment, walk->place.at, len, READ_AHEAD };

	if ((uint64_t)place.offset + len > local_segment_end(walk->local, place.segment))
		return false;
	return local_read_bytes(walk->local, place, ret_bytes, ret_from_disk) == 0;
}

/* Of a segment that no start since had to read: its header tells. */
static bool learn_epoch(struct walk *walk)
{
	const struct shelf_item *item = shelf_find(&walk->local->shelf, walk->place.segment);
	struct segment_header header;
	const unsigned char *bytes;
	bool from_disk;

	CHECK(item);
	walk->epoch = item->epoch;
	if (walk->epoch != 0)
		return true;
	struct place at = walk->place;
	walk->place.at = 0;
	bool got = read_at(walk, sizeof(header), &bytes, &from_disk);
	walk->place = at;
	if (!got)
		return false;
	memcpy(&header, bytes, sizeof(header));
	if (segment_header_check(&header) < 0 || header.number != walk->place.segment)
		return false;
	walk->epoch = header.epoch;
	return true;
}

/* --- events ------------------------------------------------------------------ */

/* Is the segment still there in which this ticket was given? */
static bool first_place_kept(const struct local_store *local, uint64_t ticket)
{
	for (size_t i = 0; i < local->shelf.count; i++) {
		const struct shelf_item *item = &local->shelf.items[i];
		bool current = local->shelf.first + i == local->journal.durable.segment;
		if (item->max_ticket >= ticket || current)
			return item->segment_bytes > 0;
	}
	return false;
}

/* The leg as it is to be told; false: not here. */
static bool leg_item(const struct walk *walk, const struct entry *entry, uint32_t i,
                     struct store_item *ret_item)
{
	const struct local_store *local = walk->local;
	uint64_t number = entry->event.ticket + i;
	struct open_ticket ticket;

	if (open_tickets_find(local->tickets, number, &ticket)) {
		*ret_item = local_item(local, &ticket, entry);
		return ticket.segment == walk->place.segment && ticket.offset == walk->place.at;
	}
	struct entry_leg leg = entry_leg_at(entry, i);
	*ret_item = (struct store_item){ .ticket = number,
		                         .event = entry->event.ticket - entry->first_leg,
		                         .order = leg.order,
		                         .sink = leg.sink,
		                         .attempt = entry->event.attempt,
		                         .flags = entry->event.user_flags,
		                         .state = STORE_STATE_CLOSED };
	return !(entry->event.flags & EVENT_CARRIED) || !first_place_kept(local, number);
}

static bool wanted(const struct store_scan *scan, const struct store_item *item)
{
	return (scan->states == 0 || scan->states & 1u << item->state) &&
	       (scan->sink == 0 || scan->sink == item->sink) && item->ticket >= scan->from &&
	       (scan->to == 0 || item->ticket <= scan->to);
}

/* False: the piece is full. */
static bool put_event(struct walk *walk, const struct entry *entry)
{
	struct store_parts parts = { entry->source, entry->letter, entry->payload };
	uint32_t *leg = &walk->place.leg;

	if (entry->event.flags & EVENT_NO_TICKET)
		return true;
	for (; *leg < entry_ticket_count(entry); (*leg)++) {
		struct store_item item;
		if (!leg_item(walk, entry, *leg, &item) || !wanted(walk->scan, &item))
			continue;
		if (!local_scan_put(walk->scan, item, parts, &walk->error))
			return false;
	}
	return true;
}

/* False: the piece is full, and ends before this entry. */
static bool step_entry(struct walk *walk)
{
	const unsigned char *bytes;
	struct entry_head head = { 0 };
	struct entry entry;
	bool from_disk;
	uint32_t body_end = walk->place.body_end;

	if (body_end - walk->place.at >= sizeof(head) &&
	    read_at(walk, sizeof(head), &bytes, &from_disk))
		memcpy(&head, bytes, sizeof(head));
	if (head.size < sizeof(head) || head.size > body_end - walk->place.at) {
		next_frame(walk, body_end);
		return true;
	}
	if ((head.kind == ENTRY_EVENT || head.kind == ENTRY_ROUTED) &&
	    read_at(walk, head.size, &bytes, &from_disk) &&
	    entry_parse(bytes, head.size, &entry) == 0 &&
	    (!from_disk || entry.event.flags & EVENT_NO_TICKET ||
	     entry.event.check == entry_event_check(bytes, head.size, walk->epoch)) &&
	    !put_event(walk, &entry))
		return false;
	walk->place.leg = 0;
	walk->place.at += (uint32_t)format_align(head.size, 8);
	if (walk->place.at >= body_end)
		next_frame(walk, body_end);
	return true;
}

static void step_frame(struct walk *walk)
{
	struct frame_header header;
	const unsigned char *bytes;
	bool from_disk;

	uint64_t end = local_segment_end(walk->local, walk->place.segment);
	if (!read_at(walk, sizeof(header), &bytes, &from_disk)) {
		next_segment(walk);
		return;
	}
	memcpy(&header, bytes, sizeof(header));
	if (!frame_header_valid(&header, walk->epoch, end - walk->place.at)) {
		next_segment(walk);
		return;
	}
	walk->place.body_end = walk->place.at + (uint32_t)sizeof(header) + header.body_len;
	walk->place.at += (uint32_t)sizeof(header);
}

/* Has the segment nothing that is asked for? */
static bool skips(const struct walk *walk, const struct shelf_item *item)
{
	bool sealed = walk->place.segment < walk->local->journal.durable.segment;

	return item->segment_bytes == 0 ||
	       (sealed && item->max_ticket != 0 && item->max_ticket < walk->scan->from);
}

static bool at_end(const struct walk *walk)
{
	const struct journal_position *durable = &walk->local->journal.durable;

	return walk->place.segment > durable->segment ||
	       (walk->place.segment == durable->segment && walk->place.at >= durable->end);
}

/* False: the piece is full. */
static bool step(struct walk *walk)
{
	const struct shelf_item *item = shelf_find(&walk->local->shelf, walk->place.segment);

	if (!item || skips(walk, item) || (walk->epoch == 0 && !learn_epoch(walk)))
		next_segment(walk);
	else if (walk->place.body_end == 0)
		step_frame(walk);
	else
		return step_entry(walk);
	return true;
}

int local_scan_events(struct local_store *local, struct store_scan *scan)
{
	struct walk walk = { .local = local,
		             .scan = scan,
		             .place = place_of(local, &scan->cursor) };
	uint64_t read_before = local->reader.bytes;

	buf_clear(&scan->items);
	scan->count = 0;
	for (uint32_t i = 0; i < LOOK_ENTRIES && !at_end(&walk); i++)
		if (local->reader.bytes - read_before >= SCAN_READ_BYTES || !step(&walk))
			break;
	scan->end = at_end(&walk);
	scan->cursor = cursor_of(&walk.place);
	return walk.error;
}
