/*
 * take: leases of the local store. Payloads come from the frames that are still
 * in memory, else from the segment, a window at a time: neighbours in the
 * journal are neighbours in the queue.
 *
 * What is read back is checked before it is served. A damaged event is reported
 * and stays leased (parked) until the next start; the others go on. An event that
 * cannot be read (no descriptor, no memory, an I/O error) is tried again with
 * each tick; an error that lasts, and is not for want of anything, parks it too.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_internal.h"

/* --- due tickets of a sink ---------------------------------------------------- */

#define READ_TRIES 40u /* two seconds of ticks */

static bool is_for_want(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EINTR ||
	       error == -EAGAIN;
}

/* Tells whether to park it; if not, takes wait for the next tick. */
static bool read_failed(struct local_store *local, const struct open_ticket *ticket, int error)
{
	struct read_retry *retry = &local->retry;

	if (error == ERR_DAMAGED)
		return true;
	if (retry->ticket != ticket->ticket) {
		retry->ticket = ticket->ticket;
		retry->tries = 0;
		atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
		local_log(local, LOCAL_STORE_WARNING,
		          "stored event cannot be read for delivery; trying again: %s",
		          error_name(error));
	}
	retry->tries += !is_for_want(error);
	if (retry->tries >= READ_TRIES)
		return true;
	retry->waits = true;
	return false;
}

/* As it will be taken. */
static bool append_item(struct local_store *local, struct store_take *take,
                        const struct open_ticket *ticket, const struct entry *entry)
{
	struct store_item item = local_item(local, ticket, entry);
	struct store_parts parts = { 0 };

	item.attempt = store_attempt_next(item.attempt);
	item.state = STORE_STATE_LEASED;
	if (entry)
		parts = (struct store_parts){ entry->source, entry->metadata, entry->payload };
	return store_item_append(&take->items, &item, &parts) == 0;
}

/* The event of the ticket, if it is wanted: 1, or 0: the take ends here, or
 * ERR_DAMAGED: this one is left out. */
static int fetch_item(struct local_store *local, const struct store_take *take,
                      const struct open_ticket *ticket, struct entry *entry)
{
	size_t len = take->without_payload ? sizeof(struct store_item) : ticket->length;

	if (take->count > 0 && take->items.len + len > take->max_bytes)
		return 0;
	if (take->without_payload)
		return 1;
	int r = local_read_event(local, ticket, entry);
	if (r == 0)
		return 1;
	if (!read_failed(local, ticket, r))
		return 0;
	/* The ticket stays leased: nobody has its attempt, so nobody can settle it. */
	char name[FORMAT_NAME_MAX];
	const struct open_ticket *parked = open_tickets_take(local->tickets, ticket->sink);
	CHECK(parked == ticket);
	format_name(name, ticket->segment, FILE_KIND_SEGMENT);
	atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
	local_log(local, LOCAL_STORE_ERROR, "event cannot be read; parked: %s at offset %u: %s",
	          name, ticket->offset, error_name(r));
	return ERR_DAMAGED;
}

/* Gathers what is due; 0 if nothing could be given now. */
static uint32_t fill_take(struct local_store *local, struct store_take *take)
{
	const struct open_ticket *ticket, *taken;
	struct entry entry;
	int r;

	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = local_now_ms(local);
	while (take->count < take->max_items &&
	       (ticket = open_tickets_peek(local->tickets, take->sink)) &&
	       (!take->lease_ms || leases_reserve(&local->leases, ticket->ticket) == 0)) {
		/* Its frame is not written, or one that leased it since: what is lost with that
		 * must not be with somebody. */
		if (ticket->ticket > local->durable_ticket || local_note_waits(local, ticket))
			break;
		r = fetch_item(local, take, ticket, &entry);
		if (r < 0)
			continue;
		if (r == 0 ||
		    !append_item(local, take, ticket, take->without_payload ? NULL : &entry))
			break;
		taken = open_tickets_take(local->tickets, take->sink);
		CHECK(taken == ticket);
		if (unlikely(take->lease_ms | local->leases.count))
			local_set_lease(local, ticket->ticket, take->lease_ms);
		take->count++;
	}
	return take->count;
}

void local_serve_takes(struct local_store *local)
{
	struct op_queue waiting = local->takes;

	CHECK(local->flushing);
	if (!waiting.first || open_tickets_in(local->tickets, OPEN_TICKET_DUE) == 0)
		return;
	op_queue_init(&local->takes);
	for (struct store_op *op = waiting.first, *next; op; op = next) {
		struct store_take *take = container_of(op, struct store_take, op);
		next = op->next;
		if (local->retry.waits || fill_take(local, take) == 0) {
			op_queue_put(&local->takes, op);
			continue;
		}
		op->error = 0;
		op->done(op); /* may submit the next take, for the next flush */
	}
}

void local_fail_takes(struct local_store *local, int error)
{
	struct store_op *op;

	CHECK(error < 0 && local->batch.ops.count == 0);
	while ((op = op_queue_take(&local->takes))) {
		op->error = error;
		op->done(op);
	}
}

/* --- one ticket --------------------------------------------------------------- */

/*
 * The caller that claimed a ticket leases it, from its admission on or when it is due
 * again. Leases that have an end are ended here.
 *
 * That the attempt has started is noted in the frame that gives it out, so its number
 * is never given again, not even after a crash. The end of a lease is not written down:
 * leases end with the process at the latest.
 */

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

	CHECK(local->flushing);
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
	       ret_ticket->due_ms <= local_now_ms(local);
}

/* All that may fail, before anything changes. The item's parts are read when it is
 * durable, into memory that is there. */
static int prepare(struct local_store *local, struct store_take *take,
                   const struct open_ticket *ticket)
{
	size_t parts_len = take->without_payload ? 0 : ticket->length;

	if (local_undo_reserve(local, 1) < 0 ||
	    leases_reserve(&local->leases, ticket->ticket) < 0 ||
	    buf_reserve(&take->items, sizeof(struct store_item) + parts_len) < 0)
		return ERR_FULL;
	return local_reserve(local, LOCAL_START_SIZE, JOURNAL_NORMAL);
}

int local_decide_take(struct local_store *local, struct store_take *take)
{
	struct open_ticket ticket;

	CHECK(local->flushing && take->ticket != 0);
	buf_clear(&take->items);
	take->count = 0;
	take->now_ms = local_now_ms(local);
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

	CHECK(take->count == 0 || take->ticket <= local->durable_ticket);
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
	parts = (struct store_parts){ entry.source, entry.metadata, entry.payload };
	take->op.error = store_item_append(&take->items, &item, &parts);
}

/* While outcomes wait for room on the disk, no lease ends: they have happened. */
void local_end_leases(struct local_store *local)
{
	uint64_t boot_ms = local->clock.now.boot_ms, over;
	struct open_ticket ticket;

	CHECK(local->flushing);
	if (likely(local->leases.count == 0) || local->deferred.first)
		return;
	for (uint32_t i = 0; i < ENDS_MAX && leases_over(&local->leases, boot_ms, &over); i++) {
		bool is_open = open_tickets_find(local->tickets, over, &ticket);
		bool closes = is_open && ticket.state == OPEN_TICKET_CHANGING;
		local_set_lease(local, over, closes ? CLOSING_MS : 0);
		if (!is_open || ticket.state != OPEN_TICKET_LEASED)
			continue;
		ticket.state = OPEN_TICKET_DUE;
		open_tickets_update(local->tickets, &ticket);
	}
}
