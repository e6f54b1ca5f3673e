/*
 * scan_tickets: the open tickets in the order of their numbers, a piece at a time.
 *
 * The cursor is the number to go on with. A piece ends when it is full, after so many
 * tickets were looked at, or after so many bytes were read from disk.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "store/local/local_internal.h"

#define LOOK_TICKETS 4096u

bool local_scan_put(struct store_scan *scan, struct store_item item, struct store_parts parts,
                    int *ret_error)
{
	if (!scan->with_payload) {
		parts.payload = SPAN_EMPTY;
		item.bare = true;
	}
	size_t len = sizeof(item) + parts.source.len + parts.letter.len + parts.payload.len;
	if (scan->count == scan->max_items ||
	    (scan->count > 0 && scan->items.len + len > scan->max_bytes))
		return false;
	*ret_error = store_item_append(&scan->items, &item, &parts);
	scan->count += *ret_error == 0;
	return *ret_error == 0;
}

static bool wanted(const struct store_scan *scan, const struct open_ticket *ticket)
{
	return (scan->states == 0 || scan->states & 1u << local_state(ticket)) &&
	       (scan->sink == 0 || scan->sink == ticket->sink);
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
		parts = (struct store_parts){ entry.source, entry.letter, entry.payload };
	return local_scan_put(scan, local_item(local, ticket, r == 0 ? &entry : NULL), parts,
	                      ret_error);
}

int local_scan_tickets(struct local_store *local, struct store_scan *scan)
{
	uint64_t from = scan->cursor.word[0] > scan->from ? scan->cursor.word[0] : scan->from;
	uint64_t to = scan->to && scan->to < local->durable_ticket ? scan->to
	                                                           : local->durable_ticket;
	uint64_t read_before = local->reader.bytes;
	struct open_ticket ticket;
	int error = 0;

	buf_clear(&scan->items);
	scan->count = 0;
	scan->end = false;
	for (uint32_t looks = 0; error == 0; looks++) {
		bool any = from <= to &&
		           open_tickets_next(local->tickets, from ? from - 1 : 0, &ticket) &&
		           ticket.ticket <= to;
		scan->end = !any;
		if (!any || looks == LOOK_TICKETS ||
		    local->reader.bytes - read_before >= SCAN_READ_BYTES)
			break;
		if (wanted(scan, &ticket) && !put_ticket(local, scan, &ticket, &error))
			break;
		from = ticket.ticket + 1;
	}
	scan->cursor.word[0] = scan->end ? UINT64_MAX : from;
	return error;
}
