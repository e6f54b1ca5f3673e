/*
 * commit: the flush of the local store. Everything that waits is decided in
 * order, appended to one frame, made durable by one write, and then completed.
 *
 * What is decided and not yet durable is in the index and in the undo list
 * (local_internal.h). If the write fails, fail_batch() undoes the list: the tickets
 * above durable_ticket are exactly those of the lost frame.
 *
 * With `lazy_outcomes` outcomes alone do not make a write worth its while: they
 * wait in the open frame for an event, for enough of their kind, or for the tick.
 * What rests on durable claims only is answered meanwhile.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/local/local_internal.h"

#define OUTCOMES_WORTH_A_WRITE 1024u
#define SEEN_PER_TURN 64u

/*
 * Operations whose claims are on their way through the table together.
 */
struct group {
	struct store_op *first;
	uint32_t op_count;
	uint32_t probe_count;
	struct table_probe probes[TABLE_GROUP + CLAIMS_MAX]; /* in the order of the claims */
	uint32_t cell_count;
	struct table_probe cells[TABLE_GROUP]; /* in the order of the operations */
};

static struct store_admit *admit_of(struct store_op *op)
{
	return container_of(op, struct store_admit, op);
}

static struct store_settle *settle_of(struct store_op *op)
{
	return container_of(op, struct store_settle, op);
}

static struct store_lookup *lookup_of(struct store_op *op)
{
	return container_of(op, struct store_lookup, op);
}

static struct store_cell *cell_of(struct store_op *op)
{
	return container_of(op, struct store_cell, op);
}

static struct store_release *release_of(struct store_op *op)
{
	return container_of(op, struct store_release, op);
}

static struct store_take *take_of(struct store_op *op)
{
	return container_of(op, struct store_take, op);
}

/* --- undo -------------------------------------------------------------- */

int local_undo_reserve(struct local_store *local, uint32_t count)
{
	struct undo_list *list = &local->undo;
	uint32_t room = list->room ? list->room : 64;

	CHECK(list->count <= list->room);
	if (likely(list->count + count <= list->room))
		return 0;
	while (room < list->count + count)
		room *= 2;
	struct undo *items = mem_realloc(list->items, room * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->room = room;
	return 0;
}

/* A lease that has ended since is not restored. */
static void put_back_ticket(struct local_store *local, struct open_ticket ticket)
{
	struct open_ticket now;

	bool found = open_tickets_find(local->tickets, ticket.ticket, &now);
	CHECK(found);
	if (ticket.state == OPEN_TICKET_LEASED && now.state == OPEN_TICKET_DUE)
		ticket.state = OPEN_TICKET_DUE;
	open_tickets_update(local->tickets, &ticket);
}

/* Cannot fail: the record that is removed first leaves room for the old one. */
static void undo_one(struct local_store *local, const struct undo *undo)
{
	int r = 0;

	switch (undo->kind) {
	case UNDO_EVENT: local_drop_event(local, undo->event); break;
	case UNDO_CLAIM:
		table_remove(local->table, &undo->claim.digest);
		r = table_put(local->table, &undo->claim, local_now_ms(local));
		break;
	case UNDO_ENTITY:
		newest_remove(local->newest, &undo->entity.digest);
		if (undo->entity.ticket)
			r = newest_put(local->newest, &undo->entity);
		break;
	case UNDO_TICKET: put_back_ticket(local, undo->ticket); break;
	case UNDO_CELL: local_undo_cell(local, &undo->cell); break;
	case UNDO_SEEN: tally_mark_dirty(local->tally, undo->seen); break;
	}
	CHECK(r == 0);
}

void local_undo_to(struct local_store *local, uint32_t count)
{
	CHECK(count <= local->undo.count);
	while (local->undo.count > count)
		undo_one(local, &local->undo.items[--local->undo.count]);
}

/* --- completing ------------------------------------------------------- */

static void complete(struct local_store *local, struct op_queue *queue)
{
	struct op_queue done = *queue;

	if (!done.first)
		return;
	op_queue_init(queue);
	for (struct store_op *op = done.first, *next; op; op = next) {
		next = op->next;
		if (op->kind == STORE_SETTLE && op->error == 0)
			local_settle_is_durable(local, settle_of(op));
		else if (op->kind == STORE_RELEASE && op->error == 0)
			local_release_is_durable(local, release_of(op));
		else if (op->kind == STORE_TAKE && op->error == 0)
			local_take_is_durable(local, take_of(op));
		op->done(op);
	}
}

/* Settles of a lost frame wait for the next one: the delivery has happened. */
void local_defer(struct local_store *local, struct store_settle *settle, int error)
{
	CHECK(local->flushing && settle->op.error == 0);
	if (local->deferred.count < DEFERRED_SETTLES_MAX) {
		op_queue_put(&local->deferred, &settle->op);
		return;
	}
	settle->op.error = error;
	settle->op.done(&settle->op);
}

static void decide_lookup(struct local_store *local, struct store_lookup *lookup)
{
	struct table_hit hit = { 0 };
	struct newest_record entity = { 0 };
	struct tally_entry tally;
	struct open_ticket ticket;
	bool newest = lookup->kind == CLAIM_NEWEST;

	lookup->open = lookup->held = false;
	lookup->taken =
		newest ? newest_find(local->newest, &lookup->digest, local_now_ms(local), &entity)
		       : table_find(local->table, &lookup->digest, local_now_ms(local), &hit);
	if (!lookup->taken)
		return;
	lookup->ticket = newest ? entity.ticket : hit.ticket;
	lookup->check = hit.check;
	lookup->order = entity.order;
	lookup->first_seen_ms = ticket_time_ms(lookup->ticket);
	lookup->open = local_legs(local, lookup->ticket).pending;
	lookup->held = open_tickets_find(local->tickets, lookup->ticket, &ticket) &&
	               local_state(&ticket) == STORE_STATE_HELD;
	lookup->seen = !newest && tally_get(local->tally, lookup->ticket, &tally) ? tally.count : 0;
}

/* A ticket whose frame is not written may still be taken back: it is not told. */
static void decide_held(struct local_store *local, struct store_held *held)
{
	uint64_t before = held->before;
	struct open_ticket ticket;

	held->count = 0;
	while (held->count < held->max &&
	       open_tickets_held_before(local->tickets, before, &ticket)) {
		before = open_ticket_event(&ticket); /* its other legs are reported with it */
		if (ticket.ticket <= local->durable_ticket)
			held->tickets[held->count++] = before;
	}
}

/* Without operations: the caller has taken them, to complete them. */
static void reset_batch(struct batch *batch)
{
	op_queue_init(&batch->ops);
	batch->events = 0;
	batch->seen_count = 0;
	if (batch->touches)
		memset(batch->touched, 0, sizeof(batch->touched));
	batch->touches = false;
}

/* The frame was lost. */
static void fail_batch(struct local_store *local, int io_error)
{
	int error = io_error == -ENOSPC || io_error == -EDQUOT ? ERR_FULL : ERR_POISONED;
	struct batch *batch = &local->batch;
	struct store_op *lost = batch->ops.first;

	reset_batch(batch);
	atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
	local_log(local, LOCAL_STORE_ERROR,
	          "journal write failed; continuing in the next segment: segment %llu: %s",
	          (unsigned long long)local->journal.durable.segment, error_name(io_error));
	local->frames_lost++;
	/* All is undone before any operation is answered. */
	local_undo_to(local, 0);
	for (struct store_op *op = lost; op; op = op->next) {
		struct table_probe probe;
		CHECK(op->error == 0); /* a failed one rests on no frame */
		switch (op->kind) {
		case STORE_ADMIT:
			admit_of(op)->verdict = admit_of(op)->would = VERDICT_NONE;
			admit_of(op)->own_ticket = 0;
			op->error = error;
			break;
		case STORE_LOOKUP: decide_lookup(local, lookup_of(op)); break;
		case STORE_CELL:
			if (cell_of(op)->act != STORE_CELL_GET) {
				op->error = error;
				break;
			}
			probe = cells_probe(&cell_of(op)->cell.digest);
			local_decide_cell(local, cell_of(op), &probe);
			break;
		case STORE_SETTLE: break;
		default: op->error = error; /* the ticket is as it was */
		}
	}
	for (struct store_op *op = lost, *next; op; op = next) {
		next = op->next;
		/* Who waits saw it leave, and it is as it was. */
		if (op->kind == STORE_RELEASE && local->waits.count > 0)
			waits_tell(&local->waits, release_of(op)->event);
		if (op->kind == STORE_SETTLE && op->error == 0)
			local_defer(local, settle_of(op), error);
		else
			op->done(op);
	}
}

/* Counts of duplicates are written with what is written anyway. */
static void add_seen(struct local_store *local)
{
	struct frame *frame = &local->journal.frame;
	struct batch *batch = &local->batch;
	struct tally_entry seen[SEEN_PER_TURN];

	if (tally_dirty(local->tally) == 0 || journal_in_reserve(&local->journal))
		return;
	while (batch->seen_count + SEEN_PER_TURN <= SEEN_PER_FRAME) {
		uint32_t fit = (frame->limit - frame->len) / (uint32_t)sizeof(struct entry_seen);
		uint32_t room = fit < SEEN_PER_TURN ? fit : SEEN_PER_TURN;
		if (local_undo_reserve(local, room) < 0)
			return;
		size_t n = tally_take_dirty(local->tally, seen, room);
		for (size_t i = 0; i < n; i++) {
			struct entry_seen entry = {
				.size = sizeof(struct entry_seen),
				.kind = ENTRY_SEEN,
				.ticket = seen[i].ticket,
				.count = seen[i].count,
				.last_ms = (uint64_t)seen[i].last_s * 1000,
				.expiry_ms = (uint64_t)seen[i].expiry_s * 1000,
			};
			local_undo_push(local, UNDO_SEEN)->seen = entry.ticket;
			frame_add_seen(frame, &entry);
			journal_note_seen(&local->journal, &entry);
		}
		batch->seen_count += (uint32_t)n;
		if (n < SEEN_PER_TURN)
			return;
	}
}

static int write_frame(struct local_store *local)
{
	struct steady_clock_state at = steady_clock_save(&local->clock);
	struct journal_times times = { at.steady_ms, at.wall_ms };
	struct local_counters *counters = &local->counters;
	uint32_t bytes;

	add_seen(local);
	uint64_t began_ns = clock_monotonic_ns();
	int r = journal_write(&local->journal, &times, &bytes);
	if (r < 0)
		return r;
	histogram_record(&local->commit_us, (clock_monotonic_ns() - began_ns) / 1000);
	histogram_record(&local->commit_batch, local->batch.ops.count);
	histogram_bump(&counters->commits, 1);
	histogram_bump(&counters->commit_ops, local->batch.ops.count);
	histogram_bump(&counters->written_bytes, bytes);
	local->durable_ticket = local->last_ticket;
	local->superblock_dirty = true;
	/* They are durable: what they replaced is not needed any more. */
	struct undo_list *undo = &local->undo;
	for (uint32_t i = 0; i < undo->count && local->has_cells; i++)
		if (undo->items[i].kind == UNDO_CELL && undo->items[i].cell.moved)
			cells_let_go(local->cells, undo->items[i].cell.old.segment);
	undo->count = 0;
	return 0;
}

void local_commit(struct local_store *local)
{
	CHECK(local->flushing);
	CHECK(local->undo.count == 0 || journal_pending(&local->journal)); /* its frame */
	int r = journal_pending(&local->journal) ? write_frame(local) : 0;

	if (r < 0) {
		fail_batch(local, r);
		return;
	}
	struct op_queue ops = local->batch.ops;
	reset_batch(&local->batch);
	complete(local, &ops);
}

/* Does the answer rest on what is not durable yet? */
static bool rests_on_frame(const struct local_store *local, struct store_op *op)
{
	if (op->error < 0)
		return false;
	switch (op->kind) {
	case STORE_ADMIT:
		return admit_of(op)->ticket > local->durable_ticket ||
		       admit_of(op)->own_ticket > local->durable_ticket;
	case STORE_LOOKUP:
		return lookup_of(op)->taken && lookup_of(op)->ticket > local->durable_ticket;
	case STORE_CELL: return local_cell_touched(local, &cell_of(op)->cell.digest);
	case STORE_HELD:
	case STORE_WAIT:
	case STORE_CELL_SCAN:
	case STORE_RENEW: return false;
	case STORE_SETTLE:
	case STORE_RELEASE:
	case STORE_NOTE:
	case STORE_READ:
	case STORE_SCAN: break;
	case STORE_TAKE: return take_of(op)->count > 0;
	}
	return true;
}

void local_write_seen(struct local_store *local, uint32_t max_frames)
{
	CHECK(local->flushing && local->batch.ops.count == 0);
	for (uint32_t i = 0; i < max_frames && tally_dirty(local->tally) > 0; i++) {
		int r = journal_reserve(&local->journal, sizeof(struct entry_seen), JOURNAL_NORMAL,
		                        local_now_ms(local));
		if (r < 0)
			return;
		if (r == 0)
			add_seen(local);
		uint64_t commits = atomic_load_explicit(&local->counters.commits,
		                                        memory_order_relaxed);
		local_commit(local);
		if (commits == atomic_load_explicit(&local->counters.commits, memory_order_relaxed))
			return;
	}
}

/* --- deciding --------------------------------------------------------- */

int local_reserve(struct local_store *local, uint32_t size, enum journal_room room)
{
	int r = journal_reserve(&local->journal, size, room, local_now_ms(local));

	CHECK(local->flushing);
	if (r == JOURNAL_COMMIT_FIRST) {
		local_commit(local);
		r = journal_reserve(&local->journal, size, room, local_now_ms(local));
	}
	CHECK(r <= 0);
	return r;
}

static uint32_t claims_of(struct store_op *op)
{
	/* Too many are refused when it is decided. */
	return op->kind == STORE_ADMIT && admit_of(op)->claim_count <= CLAIMS_MAX
	               ? admit_of(op)->claim_count
	               : 0;
}

/* `probes` are those of its claims, or that of the cell. */
static void decide(struct local_store *local, struct store_op *op, struct table_probe *probes)
{
	bool joins = true;

	op->error = 0;
	switch (op->kind) {
	case STORE_ADMIT: local_decide_admit(local, admit_of(op), probes); break;
	case STORE_SETTLE: joins = local_decide_settle(local, settle_of(op)); break;
	case STORE_LOOKUP: decide_lookup(local, lookup_of(op)); break;
	case STORE_HELD: decide_held(local, container_of(op, struct store_held, op)); break;
	case STORE_CELL: local_decide_cell(local, cell_of(op), probes); break;
	case STORE_CELL_SCAN:
		op->error = local_decide_cell_scan(local,
		                                   container_of(op, struct store_cell_scan, op));
		break;
	case STORE_RELEASE: op->error = local_decide_release(local, release_of(op)); break;
	case STORE_NOTE:
		op->error = local_decide_note(local, container_of(op, struct store_note, op));
		break;
	case STORE_RENEW:
		op->error = local_decide_renew(local, container_of(op, struct store_renew, op));
		break;
	case STORE_WAIT:
		joins = !waits_add(&local->waits, container_of(op, struct store_wait, op));
		break;
	case STORE_TAKE:
		joins = take_of(op)->ticket != 0;
		if (joins)
			op->error = local_decide_take(local, take_of(op));
		else
			op_queue_put(&local->takes, op);
		break;
	case STORE_READ:
	case STORE_SCAN:
		op_queue_put(&local->reads, op);
		joins = false;
		break;
	}
	if (joins)
		op_queue_put(rests_on_frame(local, op) ? &local->batch.ops : &local->ready, op);
}

/* Returns the operation behind the group. */
static struct store_op *gather(struct group *group, struct store_op *op)
{
	group->first = op;
	group->op_count = group->probe_count = group->cell_count = 0;
	for (; op && group->op_count < TABLE_GROUP && group->probe_count < TABLE_GROUP;
	     op = op->next, group->op_count++) {
		uint32_t count = claims_of(op);
		if (op->kind == STORE_CELL)
			group->cells[group->cell_count++] = cells_probe(&cell_of(op)->cell.digest);
		if (count > 0)
			__builtin_prefetch(&admit_of(op)->first_seen_ms, 1); /* the answer */
		for (uint32_t i = 0; i < count; i++) {
			const struct claim *claim = &admit_of(op)->claims[i];
			group->probes[group->probe_count++] = table_probe(&claim->digest);
		}
	}
	return op;
}

/* A group is decided when it has been through all steps of fetching. */
static void decide_all(struct local_store *local, struct store_op *op)
{
	struct group groups[TABLE_STEPS + 1];
	uint32_t turn = TABLE_STEPS, last = UINT32_MAX;

	for (uint32_t i = 0; i <= TABLE_STEPS; i++)
		groups[i].op_count = groups[i].probe_count = groups[i].cell_count = 0;
	for (; turn <= last; turn++) {
		op = gather(&groups[turn % (TABLE_STEPS + 1)], op);
		if (!op && last == UINT32_MAX)
			last = turn + TABLE_STEPS;
		for (uint32_t step = 0; step < TABLE_STEPS; step++) {
			struct group *at = &groups[(turn - step) % (TABLE_STEPS + 1)];
			table_fetch(local->table, step, at->probes, at->probe_count);
			if (at->cell_count > 0)
				cells_fetch(local->cells, step, at->cells, at->cell_count);
		}
		struct group *fetched = &groups[(turn + 1) % (TABLE_STEPS + 1)];
		struct table_probe *probes = fetched->probes, *cells = fetched->cells;
		struct store_op *next;
		for (struct store_op *at = fetched->first; fetched->op_count > 0; at = next) {
			uint32_t count = claims_of(at);
			next = at->next; /* the operation's owner may use it again */
			decide(local, at, at->kind == STORE_CELL ? cells++ : probes);
			probes += count;
			fetched->op_count--;
		}
	}
}

void local_retry_settles(struct local_store *local)
{
	struct op_queue waiting = local->deferred;

	CHECK(local->flushing && local->undo.count == 0);
	if (!waiting.first)
		return;
	op_queue_init(&local->deferred);
	decide_all(local, waiting.first);
	local_commit(local);
}

void local_flush(struct store *store)
{
	struct local_store *local = local_of(store);

	CHECK(!local->flushing);
	if (!local->queue.first)
		return;
	local->flushing = true;
	struct op_queue waiting = local->queue;
	op_queue_init(&local->queue);
	steady_clock_now(&local->clock);
	local_end_leases(local);
	if (waiting.first)
		decide_all(local, waiting.first);
	/* Lazy outcomes alone wait for company, unless somebody waits for an event's. */
	if (!local->options.lazy_outcomes || local->batch.events > 0 || local->ending ||
	    local->batch.ops.count >= OUTCOMES_WORTH_A_WRITE || local->waits.count > 0)
		local_commit(local);
	complete(local, &local->ready);
	local_serve_reads(local);
	local_serve_takes(local);
	local_publish(local);
	local->flushing = false;
}
