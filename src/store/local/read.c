/*
 * read: one open ticket as others see it, and what was noted of it.
 *
 * Reads and scans are served at the end of a flush, when what was decided with them is
 * on disk. A note that waits in the open frame is written first if its history is asked
 * for: what is not durable is not told.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "store/local/local_internal.h"

#define NOTE_BYTES_MAX (sizeof(struct entry_note) + STORE_TEXT_MAX)
#define HISTORY_MAX 256u /* notes; the oldest are left out */

enum store_state local_state(const struct open_ticket *ticket)
{
	uint8_t state = ticket->state == OPEN_TICKET_LEAVING ? ticket->was : ticket->state;

	switch ((enum open_ticket_state)state) {
	case OPEN_TICKET_DUE: return STORE_STATE_DUE;
	case OPEN_TICKET_LEASED:
	case OPEN_TICKET_CLOSING: return STORE_STATE_LEASED;
	case OPEN_TICKET_HELD: return STORE_STATE_HELD;
	case OPEN_TICKET_PARKED: return STORE_STATE_PARKED;
	case OPEN_TICKET_DEAD: return STORE_STATE_DEAD;
	case OPEN_TICKET_GONE:
	case OPEN_TICKET_LEAVING:
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
	return steady_clock_last(&local->clock) + (end_ms > boot_ms ? end_ms - boot_ms : 0);
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
	const struct shelf_item *item = shelf_find(&local->shelf, place.segment);
	if (from_disk &&
	    (!item || ret_entry->note.check != entry_note_check(bytes, place.len, item->epoch)))
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
	struct store_parts parts = { entry.source, entry.letter, entry.payload };
	struct store_item item = local_item(local, &ticket, &entry);
	r = store_item_append(&read->items, &item, &parts);
	if (r == 0 && read->history)
		r = append_history(local, ticket, &read->items);
	return r;
}

void local_serve_reads(struct local_store *local)
{
	struct op_queue waiting = local->reads;

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
