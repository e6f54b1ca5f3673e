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
#include "base/error.h"
#include "store/local/local_internal.h"

#define LOOK_ENTRIES 16384u

struct walk {
	struct local_store *local;
	struct store_scan *scan;
	struct journal_cursor at;
	uint32_t leg;
	int error;
};

static void walk_begin(struct walk *walk, const struct store_cursor *cursor)
{
	walk->at = (struct journal_cursor){ .segment = cursor->word[0] >> 32,
		                            .at = (uint32_t)cursor->word[0],
		                            .body_end = (uint32_t)(cursor->word[1] >> 8) };
	walk->leg = (uint32_t)(cursor->word[1] & 0xff);
	if (walk->at.segment >= walk->local->shelf.first)
		return;
	/* From the beginning, or what was there has left meanwhile. */
	walk->at = (struct journal_cursor){ .segment = walk->local->shelf.first,
		                            .at = FORMAT_BLOCK };
	walk->leg = 0;
}

static struct store_cursor cursor_of(const struct walk *walk)
{
	return (struct store_cursor){ { walk->at.segment << 32 | walk->at.at,
		                        (uint64_t)walk->at.body_end << 8 | walk->leg } };
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
		return ticket.segment == walk->at.segment && ticket.offset == walk->at.at;
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
	uint32_t *leg = &walk->leg;

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
static bool step_entry(struct walk *walk, const struct entry_head *head)
{
	const unsigned char *bytes;
	struct entry entry;
	bool from_disk;

	if ((head->kind == ENTRY_EVENT || head->kind == ENTRY_ROUTED) &&
	    cursor_read(walk->local, &walk->at, head->size, &bytes, &from_disk) &&
	    entry_parse(bytes, head->size, &entry) == 0 &&
	    (!from_disk || entry.event.flags & EVENT_NO_TICKET ||
	     entry.event.check == entry_event_check(bytes, head->size, walk->at.epoch)) &&
	    !put_event(walk, &entry))
		return false;
	walk->leg = 0;
	cursor_pass(&walk->at, head);
	return true;
}

/* Has the segment nothing that is asked for? */
static bool skips(const struct walk *walk)
{
	const struct shelf_item *item = shelf_find(&walk->local->shelf, walk->at.segment);
	bool sealed = walk->at.segment < walk->local->journal.durable.segment;

	return item && sealed && item->max_ticket != 0 && item->max_ticket < walk->scan->from;
}

/* False: the piece is full, or all was seen. */
static bool step(struct walk *walk)
{
	struct entry_head head;

	if (skips(walk)) {
		cursor_next_segment(&walk->at);
		return true;
	}
	switch (cursor_look(walk->local, &walk->at, &head)) {
	case CURSOR_END: walk->scan->end = true; return false;
	case CURSOR_MOVED: return true;
	case CURSOR_ENTRY: break;
	}
	return step_entry(walk, &head);
}

int local_scan_events(struct local_store *local, struct store_scan *scan)
{
	struct walk walk = { .local = local, .scan = scan };
	uint64_t read_before = local->reader.bytes;

	walk_begin(&walk, &scan->cursor);
	buf_clear(&scan->items);
	scan->count = 0;
	scan->end = false;
	for (uint32_t i = 0; i < LOOK_ENTRIES; i++)
		if (local->reader.bytes - read_before >= SCAN_READ_BYTES || !step(&walk))
			break;
	scan->cursor = cursor_of(&walk);
	return walk.error;
}
