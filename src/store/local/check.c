/*
 * check: do all parts of a local store agree with themselves, and with each other? For
 * tests: it looks at everything, so it is slow.
 *
 *   1. Each part keeps its own invariants.
 *   2. Nothing is open, and nothing is durable, under a number that was not given yet.
 *   3. What tickets and cells need stands in a segment that is there.
 *   4. The cells that are counted by segment are those of the index, and those that must
 *      come back if a frame is lost.
 *   5. When no frame is built or written, there is nothing to undo.
 *   6. A ticket that closes, or leaves its state, has an operation that waits for that.
 *
 * Threads: the owner's, between two calls of the store.
 */
#include "store/local/local_internal.h"

static void check_queue(const struct op_queue *queue)
{
	struct store_op *const *at = &queue->first;
	uint32_t count = 0;

	for (; *at; at = &(*at)->next)
		count++;
	CHECK(count == queue->count);
	CHECK(queue->last == at);
}

static void check_segment(const struct local_store *local, uint64_t segment)
{
	CHECK(segment >= local->oldest && segment <= local->journal.durable.segment); /* 3 */
}

static void check_tickets(const struct local_store *local)
{
	struct open_ticket ticket = { 0 };
	uint64_t waiting = (uint64_t)local->batch.ops.count + local->deferred.count;
	uint64_t changing = open_tickets_in(local->tickets, OPEN_TICKET_CLOSING) +
	                    open_tickets_in(local->tickets, OPEN_TICKET_LEAVING);

	open_tickets_check(local->tickets);
	leases_check(&local->leases);
	CHECK(local->durable_ticket <= local->last_ticket); /* 2 */
	while (open_tickets_next(local->tickets, ticket.ticket, &ticket)) {
		CHECK(ticket.ticket <= local->last_ticket); /* 2 */
		check_segment(local, ticket.segment);
		if (ticket.note_segment)
			check_segment(local, ticket.note_segment);
	}
	CHECK(changing == 0 || waiting > 0); /* 6 */
}

static void check_cells(const struct local_store *local)
{
	uint64_t counted = cells_check(local->cells), there = 0, replaced = 0;

	for (uint32_t i = 0; i < local->undo.count; i++) {
		const struct undo *undo = &local->undo.items[i];
		replaced += undo->kind == UNDO_CELL && undo->cell.moved;
	}
	CHECK(counted == cells_count(local->cells) + replaced); /* 4 */
	for (uint64_t n = local->oldest; n <= local->journal.durable.segment; n++)
		there += cells_in_segment(local->cells, n);
	CHECK(there == counted); /* 3 */
}

void local_store_check(const struct store *store)
{
	if (store->methods->flush != local_flush)
		return;
	const struct local_store *local = local_of(store);
	CHECK(!local->flushing);
	table_check(local->table);
	newest_check(local->newest);
	tally_check(local->tally);
	check_tickets(local);
	check_cells(local);
	check_queue(&local->queue);
	check_queue(&local->batch.ops);
	check_queue(&local->takes);
	check_queue(&local->deferred);
	CHECK(local->ready.count == 0 && local->reads.count == 0);
	waits_check(&local->waits);
	if (!journal_pending(&local->journal))
		CHECK(local->undo.count == 0); /* 5 */
}
