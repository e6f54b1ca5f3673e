/*
 * take_one: leases of one ticket by whoever claimed it, from its admission on or when it
 * is due again, and the ends of leases that have one.
 *
 * That the attempt has started is noted in the frame that gives it out, so its number
 * is never given again, not even after a crash. The end of a lease is not written down:
 * leases end with the process at the latest.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "store/local/local_internal.h"

#define ENDS_MAX 4096u   /* in one call */
#define CLOSING_MS 1000u /* an outcome on its way to the disk is looked at again */

void local_set_lease(struct local_store *local, uint64_t ticket, uint32_t lease_ms)
{
	leases_set(&local->leases, ticket, lease_ms ? local->clock.now.boot_ms + lease_ms : 0);
}

int local_decide_renew(struct local_store *local, const struct store_renew *renew)
{
	struct open_ticket ticket;
	uint32_t lease_ms;

	int r = local_find_leased(local, renew->ticket, renew->attempt, &ticket);
	if (r == 0 && !store_renew_lease(renew, local->clock.now.steady_ms, &lease_ms))
		r = ERR_FENCED;
	if (r == 0 && lease_ms && leases_reserve(&local->leases, renew->ticket) < 0)
		r = ERR_FULL;
	if (r == 0)
		local_set_lease(local, renew->ticket, lease_ms);
	return r;
}

static void start(struct local_store *local, struct open_ticket *ticket, uint32_t lease_ms)
{
	CHECK(ticket->state == OPEN_TICKET_DUE);
	ticket->attempt = (uint16_t)store_attempt_next(ticket->attempt);
	ticket->state = OPEN_TICKET_LEASED;
	local_append_note(local, ticket,
	                  (struct entry_note){ .mark = STORE_MARK_STARTED,
	                                       .attempt = ticket->attempt },
	                  SPAN_EMPTY);
	open_tickets_update(local->tickets, ticket);
	local_set_lease(local, ticket->ticket, lease_ms);
}

void local_start(struct local_store *local, uint64_t ticket, uint32_t lease_ms)
{
	struct open_ticket found;

	bool is_open = open_tickets_find(local->tickets, ticket, &found);
	CHECK(is_open);
	start(local, &found, lease_ms);
}

static bool find_due(const struct local_store *local, const struct store_take *take,
                     struct open_ticket *ret_ticket)
{
	return open_tickets_find(local->tickets, take->ticket, ret_ticket) &&
	       ret_ticket->state == OPEN_TICKET_DUE && ret_ticket->sink == take->sink &&
	       ret_ticket->due_ms <= steady_clock_last(&local->clock);
}

/* All that may fail, before anything changes. The item's parts are read when it is
 * durable, into memory that is there. */
static int prepare(struct local_store *local, struct store_take *take,
                   const struct open_ticket *ticket)
{
	size_t parts_len = take->without_payload ? 0 : ticket->length;

	if (local_undo_reserve(&local->undo, 1) < 0 ||
	    leases_reserve(&local->leases, ticket->ticket) < 0 ||
	    buf_reserve(&take->items, sizeof(struct store_item) + parts_len) < 0)
		return ERR_FULL;
	return local_reserve(local, LOCAL_START_SIZE, JOURNAL_NORMAL);
}

int local_decide_take(struct local_store *local, struct store_take *take)
{
	struct open_ticket ticket;

	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = steady_clock_last(&local->clock);
	if (!find_due(local, take, &ticket))
		return 0;
	int r = prepare(local, take, &ticket);
	/* A frame may have been lost meanwhile, with what it said of this ticket. */
	if (r < 0 || !find_due(local, take, &ticket))
		return r;
	struct store_item item = local_item(local, &ticket, NULL);
	local_save_ticket(local, &ticket);
	start(local, &ticket, take->lease_ms);
	item.attempt = ticket.attempt;
	item.state = STORE_STATE_LEASED;
	r = store_item_append(&take->items, &item, &(struct store_parts){ 0 });
	CHECK(r == 0);
	take->count = 1;
	local->batch.events++; /* somebody waits to begin */
	return 0;
}

/* An event that cannot be read stays leased, until that is over. */
void local_take_is_durable(struct local_store *local, struct store_take *take)
{
	struct store_parts parts;
	struct store_item item;
	struct open_ticket ticket;
	struct entry entry;
	size_t at = 0;

	if (take->count == 0 || take->without_payload)
		return;
	bool told = store_item_next(buf_span(&take->items), &at, &item, &parts);
	CHECK(told);
	bool is_open = open_tickets_find(local->tickets, take->ticket, &ticket);
	CHECK(is_open);
	take->op.error = local_read_event(local, &ticket, &entry);
	buf_clear(&take->items);
	if (take->op.error < 0) {
		take->count = 0;
		return;
	}
	item.flags = entry.event.user_flags;
	item.bare = false;
	parts = (struct store_parts){ entry.source, entry.letter, entry.payload };
	take->op.error = store_item_append(&take->items, &item, &parts);
}

/* While outcomes wait for room on the disk, no lease ends: they have happened. */
void local_end_leases(struct local_store *local)
{
	uint64_t boot_ms = local->clock.now.boot_ms, over;
	struct open_ticket ticket;

	if (likely(local->leases.count == 0) || local->deferred.first)
		return;
	for (uint32_t i = 0; i < ENDS_MAX && leases_over(&local->leases, boot_ms, &over); i++) {
		bool is_open = open_tickets_find(local->tickets, over, &ticket);
		bool closes = is_open && ticket.state == OPEN_TICKET_CLOSING;
		local_set_lease(local, over, closes ? CLOSING_MS : 0);
		if (!is_open || ticket.state != OPEN_TICKET_LEASED)
			continue;
		ticket.state = OPEN_TICKET_DUE;
		open_tickets_update(local->tickets, &ticket);
	}
}
