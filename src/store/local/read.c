/*
 * read: bytes of the journal, from the frames in memory or from their segment; one open
 * ticket with its history; scans of open tickets and of all events.
 *
 * Reads and scans are served at the end of a flush, when what was decided with them is
 * on disk. A note that waits in the open frame is written first if its history is asked
 * for: only what is durable is reported.
 *
 * What a scan cannot read is left out: reporting damage is the task of `journal verify`.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/journal/segment.h"
#include "store/local/local_internal.h"

#define EVENT_READ_AHEAD (256u << 10)

/* --- bytes of the journal ---------------------------------------------------- */

void local_close_windows(struct local_store *local, uint64_t segment)
{
	for (uint32_t i = 0; i < CELL_WINDOWS; i++)
		if (!segment || local->cell_windows[i].segment == segment)
			segment_window_close(&local->cell_windows[i], &local->folder);
	if (!segment || local->window.segment == segment)
		segment_window_close(&local->window, &local->folder);
}

/* The valid end of a segment: beyond it the bytes may still change. Of one that was not
 * read at the start only its file's end is known. */
uint64_t local_segment_end(const struct local_store *local, uint64_t segment)
{
	const struct segment_info *item = segment_list_find(&local->segments, segment);

	CHECK(segment <= local->journal.durable.segment);
	if (segment == local->journal.durable.segment)
		return local->journal.durable.end;
	if (!item)
		return 0;
	return item->end ? item->end : item->segment_bytes;
}

static int read_back(struct local_store *local, const struct reader_place *place,
                     const unsigned char **ret_bytes)
{
	struct segment_window *window = place->window ? place->window : &local->window;
	uint64_t limit = local_segment_end(local, place->segment);
	uint64_t until = (uint64_t)place->offset + place->ahead;

	int r = segment_window_open(window, &local->folder, place->segment);
	if (r < 0)
		return r;
	if (!segment_window_has(window, place->offset, place->len)) {
		if (format_align((uint64_t)place->offset + place->len, FORMAT_BLOCK) > limit)
			return ERR_DAMAGED;
		r = segment_window_fetch(window, &local->folder, place->offset, place->len,
		                         until < limit ? until : limit);
		if (r < 0)
			return r;
		if (!segment_window_has(window, place->offset, place->len))
			return ERR_DAMAGED;
	}
	*ret_bytes = window->bytes + (place->offset - window->base);
	return 0;
}

int local_read_bytes(struct local_store *local, struct reader_place place,
                     const unsigned char **ret_bytes, bool *ret_from_disk)
{
	const unsigned char *bytes = frame_cached(&local->journal.frame, place.segment,
	                                          place.offset, place.len);

	*ret_from_disk = bytes == NULL;
	if (!bytes)
		return read_back(local, &place, ret_bytes);
	*ret_bytes = bytes;
	return 0;
}

int local_read_event(struct local_store *local, const struct open_ticket *ticket,
                     struct entry *ret_entry)
{
	struct reader_place place = { ticket->segment, ticket->offset, ticket->length,
		                      EVENT_READ_AHEAD, NULL };
	const unsigned char *bytes;
	bool from_disk;

	CHECK(ticket->ticket <= local->durable_ticket);
	int r = local_read_bytes(local, place, &bytes, &from_disk);
	if (r < 0)
		return r;
	r = entry_parse(bytes, ticket->length, ret_entry);
	if (r < 0)
		return r;
	uint64_t leg = ticket->leg;
	if (ret_entry->kind != ENTRY_EVENT || leg < ret_entry->first_leg ||
	    leg >= ret_entry->first_leg + entry_ticket_count(ret_entry) ||
	    ret_entry->event.ticket + (leg - ret_entry->first_leg) != ticket->ticket)
		return ERR_DAMAGED;
	if (from_disk) {
		const struct segment_info *item = segment_list_find(&local->segments,
		                                                    ticket->segment);
		CHECK(item && item->epoch != 0);
		if (!reader_entry_valid(bytes, ret_entry, item->epoch))
			return ERR_DAMAGED;
	}
	return 0;
}

/* --- steps through the journal ------------------------------------------------ */

/*
 * A cursor steps through the segments of an open store, entry by entry, for scans and
 * for retention. Only what is durable is met.
 */

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
	CHECK(cursor->body_end != 0); /* at an entry */
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
	struct segment_info *item = segment_list_find(&local->segments, segment);
	const struct segment_info *next = segment_list_find(&local->segments, segment + 1);
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
	const struct segment_info *item = segment_list_find(&local->segments, cursor->segment);
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

enum cursor_step cursor_look(struct local_store *local, struct journal_cursor *cursor,
                             struct entry_head *ret_head)
{
	const struct segment_info *item = segment_list_find(&local->segments, cursor->segment);
	const unsigned char *bytes;
	bool from_disk;

	const struct journal_position *durable = &local->journal.durable;
	if (cursor->segment > durable->segment ||
	    (cursor->segment == durable->segment && cursor->at >= durable->end))
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

/* --- one ticket --------------------------------------------------------------- */

#define NOTE_BYTES_MAX (sizeof(struct entry_note) + STORE_TEXT_MAX)
#define HISTORY_MAX 256u /* notes; the oldest are left out */

enum store_state local_state(const struct open_ticket *ticket)
{
	uint8_t state = ticket->state == OPEN_TICKET_CHANGING ? ticket->was : ticket->state;

	switch ((enum open_ticket_state)state) {
	case OPEN_TICKET_DUE: return STORE_STATE_DUE;
	case OPEN_TICKET_LEASED: return STORE_STATE_LEASED;
	case OPEN_TICKET_HELD: return STORE_STATE_HELD;
	case OPEN_TICKET_PARKED: return STORE_STATE_PARKED;
	case OPEN_TICKET_DEAD: return STORE_STATE_DEAD;
	case OPEN_TICKET_GONE:
	case OPEN_TICKET_CHANGING:
	case OPEN_TICKET_STATES: break;
	}
	return STORE_STATE_CLOSED;
}

/* When its lease ends, by the store's clock, or when it is due. */
static uint64_t due_ms(const struct local_store *local, const struct open_ticket *ticket)
{
	uint64_t end_ms = ticket->state == OPEN_TICKET_LEASED
	                          ? leases_end(&local->leases, ticket->ticket)
	                          : 0;
	uint64_t boot_ms = local->clock.now.boot_ms;

	if (end_ms == 0)
		return ticket->due_ms;
	return local_now_ms(local) + (end_ms > boot_ms ? end_ms - boot_ms : 0);
}

struct store_item local_item(const struct local_store *local, const struct open_ticket *ticket,
                             const struct entry *entry)
{
	return (struct store_item){
		.ticket = ticket->ticket,
		.event = open_ticket_event(ticket),
		.order = ticket->order,
		.due_ms = due_ms(local, ticket),
		.sink = ticket->sink,
		.attempt = ticket->attempt,
		.flags = entry ? entry->event.user_flags : 0,
		.state = (uint8_t)local_state(ticket),
		.last = ticket->last,
		.status = ticket->status,
		.bare = !entry,
	};
}

/* At the place that the ticket names; its length is not known before. */
int local_read_note(struct local_store *local, const struct open_ticket *ticket,
                    struct entry *ret_entry)
{
	struct reader_place place = { ticket->note_segment, ticket->note_offset,
		                      sizeof(struct entry_note), FORMAT_BLOCK, NULL };
	const unsigned char *bytes;
	struct entry_head head;
	bool from_disk;

	CHECK(ticket->note_segment != 0);
	int r = local_read_bytes(local, place, &bytes, &from_disk);
	if (r < 0)
		return r;
	memcpy(&head, bytes, sizeof(head));
	if (head.kind != ENTRY_NOTE || head.size < sizeof(struct entry_note) ||
	    head.size > NOTE_BYTES_MAX)
		return ERR_DAMAGED;
	place.len = head.size;
	r = local_read_bytes(local, place, &bytes, &from_disk);
	if (r < 0)
		return r;
	r = entry_parse(bytes, place.len, ret_entry);
	if (r < 0)
		return r;
	if (ret_entry->kind != ENTRY_NOTE)
		return ERR_DAMAGED;
	const struct segment_info *item = segment_list_find(&local->segments, place.segment);
	if (from_disk && (!item || !reader_entry_valid(bytes, ret_entry, item->epoch)))
		return ERR_DAMAGED;
	return ret_entry->note.ticket == ticket->ticket ? 0 : ERR_DAMAGED;
}

static int append_history(struct local_store *local, struct open_ticket ticket, struct buf *items)
{
	struct entry entry;

	for (uint32_t i = 0; i < HISTORY_MAX && ticket.note_segment != 0; i++) {
		int r = local_read_note(local, &ticket, &entry);
		if (r < 0)
			return r;
		const struct entry_note *note = &entry.note;
		r = store_history_append(items,
		                         (struct store_history){ .at_ms = note->at_ms,
		                                                 .due_ms = note->due_ms,
		                                                 .attempt = note->attempt,
		                                                 .mark = note->mark,
		                                                 .status = note->status },
		                         entry.payload);
		if (r < 0)
			return r;
		ticket.note_segment = note->before_segment;
		ticket.note_offset = note->before_offset;
	}
	return 0;
}

bool local_note_waits(const struct local_store *local, const struct open_ticket *ticket)
{
	return ticket->note_segment == local->journal.durable.segment &&
	       ticket->note_offset >= local->journal.durable.end;
}

static int read_ticket(struct local_store *local, struct store_read *read)
{
	struct open_ticket ticket;
	struct entry entry;

	buf_clear(&read->items);
	bool found = open_tickets_find(local->tickets, read->ticket, &ticket);
	if (found && read->history && local_note_waits(local, &ticket)) {
		local_commit(local);
		found = open_tickets_find(local->tickets, read->ticket, &ticket);
	}
	if (!found || ticket.ticket > local->durable_ticket)
		return -ENOENT;
	int r = local_read_event(local, &ticket, &entry);
	if (r < 0)
		return r;
	struct store_parts parts = { entry.source, entry.metadata, entry.payload };
	struct store_item item = local_item(local, &ticket, &entry);
	r = store_item_append(&read->items, &item, &parts);
	if (r == 0 && read->history)
		r = append_history(local, ticket, &read->items);
	return r;
}

void local_serve_reads(struct local_store *local)
{
	struct op_queue waiting = local->reads;

	CHECK(local->flushing);
	op_queue_init(&local->reads);
	for (struct store_op *op = waiting.first, *next; op; op = next) {
		next = op->next;
		if (op->kind == STORE_READ) {
			op->error = read_ticket(local, container_of(op, struct store_read, op));
		} else {
			struct store_scan *scan = container_of(op, struct store_scan, op);
			op->error = scan->all ? local_scan_events(local, scan)
			                      : local_scan_tickets(local, scan);
		}
		op->done(op);
	}
}

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
 */

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
	if (walk->at.segment >= walk->local->segments.first)
		return;
	/* From the beginning, or what was there has left meanwhile. */
	walk->at = (struct journal_cursor){ .segment = walk->local->segments.first,
		                            .at = FORMAT_BLOCK };
	walk->leg = 0;
}

/* --- events ------------------------------------------------------------------ */

/* Is the segment still there in which this ticket was given? */
static bool first_place_kept(const struct local_store *local, uint64_t ticket)
{
	for (size_t i = 0; i < local->segments.count; i++) {
		const struct segment_info *item = &local->segments.items[i];
		bool current = local->segments.first + i == local->journal.durable.segment;
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

static bool wants_item(const struct store_scan *scan, const struct store_item *item)
{
	return (scan->states == 0 || scan->states & 1u << item->state) &&
	       (scan->sink == 0 || scan->sink == item->sink) && item->ticket >= scan->from &&
	       (scan->to == 0 || item->ticket <= scan->to);
}

/* False: the piece is full. */
static bool put_event(struct walk *walk, const struct entry *entry)
{
	struct store_parts parts = { entry->source, entry->metadata, entry->payload };
	uint32_t *leg = &walk->leg;

	if (entry->event.flags & EVENT_NO_TICKET)
		return true;
	for (; *leg < entry_ticket_count(entry); (*leg)++) {
		struct store_item item;
		if (!leg_item(walk, entry, *leg, &item) || !wants_item(walk->scan, &item))
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
	    (!from_disk || reader_entry_valid(bytes, &entry, walk->at.epoch)) &&
	    !put_event(walk, &entry))
		return false;
	walk->leg = 0;
	cursor_pass(&walk->at, head);
	return true;
}

/* False: the piece is full, or all was seen. */
static bool step(struct walk *walk)
{
	struct entry_head head;

	/* Has the segment nothing that is asked for? */
	const struct segment_info *item = segment_list_find(&walk->local->segments,
	                                                    walk->at.segment);
	bool sealed = walk->at.segment < walk->local->journal.durable.segment;
	if (item && sealed && item->max_ticket != 0 && item->max_ticket < walk->scan->from) {
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
	uint64_t read_before = local->window.read;

	CHECK(local->flushing);
	walk_begin(&walk, &scan->cursor);
	buf_clear(&scan->items);
	scan->count = 0;
	scan->end = false;
	for (uint32_t i = 0; i < LOOK_ENTRIES; i++)
		if (local->window.read - read_before >= SCAN_READ_BYTES || !step(&walk))
			break;
	scan->cursor = (struct store_cursor){ { walk.at.segment << 32 | walk.at.at,
		                                (uint64_t)walk.at.body_end << 8 | walk.leg } };
	return walk.error;
}

/* --- open tickets ------------------------------------------------------------ */

/*
 * scan_tickets: the open tickets in the order of their numbers, a piece at a time.
 *
 * The cursor is the number to go on with. A piece ends when it is full, after so many
 * tickets were looked at, or after so many bytes were read from disk.
 */

#define LOOK_TICKETS 4096u

bool local_scan_put(struct store_scan *scan, struct store_item item, struct store_parts parts,
                    int *ret_error)
{
	if (!scan->with_payload) {
		parts.payload = SPAN_EMPTY;
		item.bare = true;
	}
	size_t len = sizeof(item) + parts.source.len + parts.metadata.len + parts.payload.len;
	if (scan->count == scan->max_items ||
	    (scan->count > 0 && scan->items.len + len > scan->max_bytes))
		return false;
	*ret_error = store_item_append(&scan->items, &item, &parts);
	scan->count += *ret_error == 0;
	return *ret_error == 0;
}

/* One that cannot be read is told without its parts. False: the piece ends before it. */
static bool put_ticket(struct local_store *local, struct store_scan *scan,
                       const struct open_ticket *ticket, int *ret_error)
{
	struct store_parts parts = { 0 };
	struct entry entry;

	if (scan->count == scan->max_items)
		return false;
	if (scan->items_only)
		return local_scan_put(scan, local_item(local, ticket, NULL), parts, ret_error);
	int r = local_read_event(local, ticket, &entry);
	if (r < 0 && r != ERR_DAMAGED) {
		*ret_error = r;
		return false;
	}
	if (r == 0)
		parts = (struct store_parts){ entry.source, entry.metadata, entry.payload };
	return local_scan_put(scan, local_item(local, ticket, r == 0 ? &entry : NULL), parts,
	                      ret_error);
}

int local_scan_tickets(struct local_store *local, struct store_scan *scan)
{
	uint64_t from = scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from;
	uint64_t to = scan->to && scan->to < local->durable_ticket ? scan->to
	                                                           : local->durable_ticket;
	uint64_t read_before = local->window.read;
	struct open_ticket ticket;
	int error = 0;

	CHECK(local->flushing);
	buf_clear(&scan->items);
	scan->count = 0;
	scan->end = false;
	for (uint32_t looks = 0; error == 0; looks++) {
		bool any = from <= to &&
		           open_tickets_next(local->tickets, from ? from - 1 : 0, &ticket) &&
		           ticket.ticket <= to;
		scan->end = !any;
		if (!any || looks == LOOK_TICKETS ||
		    local->window.read - read_before >= SCAN_READ_BYTES)
			break;
		if ((scan->states == 0 || scan->states & 1u << local_state(&ticket)) &&
		    (scan->sink == 0 || scan->sink == ticket.sink) &&
		    !put_ticket(local, scan, &ticket, &error))
			break;
		from = ticket.ticket + 1;
	}
	scan->cursor.word[0] = scan->end ? UINT64_MAX : from;
	return error;
}
