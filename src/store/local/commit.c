/*
 * commit: the flush of the local store. Everything that waits is decided in
 * order, appended to one frame, made durable by one write, and then completed.
 *
 * Until the write returned, what was decided stands in the index already (so
 * that a later operation of the same batch meets it), but nobody was told. If
 * the write fails, local_commit() takes it back: the tickets above
 * durable_ticket are exactly those of the lost frame.
 *
 * Threads: the owner's.
 */
#include "base/error.h"
#include "gate/ticket.h"
#include "store/local/local_internal.h"

/*
 * Operations whose claims are on their way through the table together.
 */
struct group {
	struct store_op *first;
	uint32_t op_count;
	uint32_t probe_count;
	struct table_probe probes[TABLE_GROUP + CLAIMS_MAX]; /* in the order of the claims */
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

static uint64_t now_of(const struct local_store *local)
{
	return steady_clock_last(&local->clock);
}

/* --- completing ------------------------------------------------------- */

static void settle_is_durable(struct local_store *local, const struct store_settle *settle)
{
	if (settle->outcome == OUTCOME_RELEASED) {
		bool closing = open_tickets_unsettle(local->tickets, settle->ticket);
		CHECK(closing);
		int r = open_tickets_release(local->tickets, settle->ticket, settle->attempt);
		CHECK(r == 0);
	} else {
		bool dropped = open_tickets_drop(local->tickets, settle->ticket);
		CHECK(dropped);
	}
}

static void complete_batch(struct local_store *local)
{
	struct op_queue done = local->batch;

	if (!done.first)
		return;
	op_queue_init(&local->batch);
	for (struct store_op *op = done.first, *next; op; op = next) {
		next = op->next;
		if (op->kind == STORE_SETTLE && op->error == 0)
			settle_is_durable(local, settle_of(op));
		op->done(op);
	}
}

static void undo_admit(struct local_store *local, struct store_admit *admit)
{
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (table_remove(local->table, &admit->claims[i].digest))
			local->live_claims--;
	if (!admit->no_ticket)
		open_tickets_drop(local->tickets, admit->ticket);
}

/* The frame was not written: what rested on it was not decided. */
static void undo_op(struct local_store *local, struct store_op *op, int error)
{
	if (op->error < 0)
		return;
	if (op->kind == STORE_ADMIT) {
		struct store_admit *admit = admit_of(op);
		if (admit->ticket <= local->durable_ticket)
			return;
		if (admit->verdict == VERDICT_NEW)
			undo_admit(local, admit);
		else
			tally_remove(local->tally, admit->ticket);
		admit->verdict = VERDICT_NONE;
		op->error = error;
	} else if (op->kind == STORE_LOOKUP) {
		struct store_lookup *lookup = lookup_of(op);
		if (lookup->taken && lookup->ticket > local->durable_ticket)
			lookup->taken = lookup->open = false;
	}
}

/* Settles of a lost frame wait for the next one: the delivery has happened. */
static void defer_settle(struct local_store *local, struct store_settle *settle, int error)
{
	bool closing = open_tickets_unsettle(local->tickets, settle->ticket);

	CHECK(closing);
	if (local->deferred.count < DEFERRED_SETTLES_MAX) {
		op_queue_put(&local->deferred, &settle->op);
		return;
	}
	settle->op.error = error;
	settle->op.done(&settle->op);
}

static void fail_batch(struct local_store *local, int io_error)
{
	int error = io_error == -ENOSPC || io_error == -EDQUOT ? ERR_FULL : ERR_POISONED;
	struct op_queue lost = local->batch;

	atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
	local_log(local, LOCAL_STORE_ERROR,
	          "write to segment %llu failed: %s; going on in the next",
	          (unsigned long long)local->journal.durable.segment, error_name(io_error));
	op_queue_init(&local->batch);
	for (uint32_t i = 0; i < local->seen_count; i++)
		tally_mark_dirty(local->tally, local->seen[i].ticket);
	local->seen_count = 0;
	/* All is taken back before anyone is told. */
	for (struct store_op *op = lost.first; op; op = op->next)
		undo_op(local, op, error);
	for (struct store_op *op = lost.first, *next; op; op = next) {
		next = op->next;
		if (op->kind == STORE_SETTLE && op->error == 0)
			defer_settle(local, settle_of(op), error);
		else
			op->done(op);
	}
}

static struct entry_seen entry_of_seen(const struct tally_entry *seen)
{
	return (struct entry_seen){
		.size = sizeof(struct entry_seen),
		.kind = ENTRY_SEEN,
		.ticket = seen->ticket,
		.count = seen->count,
		.last_ms = (uint64_t)seen->last_s * 1000,
		.expiry_ms = (uint64_t)seen->expiry_s * 1000,
	};
}

/* Counts of duplicates ride along with what is written anyway. */
static void add_seen(struct local_store *local)
{
	uint32_t room = SEEN_PER_FRAME - local->seen_count;
	struct frame *frame = &local->journal.frame;
	uint32_t fit = (frame->limit - frame->len) / (uint32_t)sizeof(struct entry_seen);

	if (tally_dirty(local->tally) == 0 || journal_in_reserve(&local->journal))
		return;
	struct tally_entry *seen = local->seen + local->seen_count;
	size_t n = tally_take_dirty(local->tally, seen, room < fit ? room : fit);
	for (size_t i = 0; i < n; i++) {
		struct entry_seen entry = entry_of_seen(&seen[i]);
		frame_add_seen(frame, &entry);
		journal_note_seen(&local->journal, &entry);
	}
	local->seen_count += (uint32_t)n;
}

static void count_commit(struct local_store *local, uint32_t bytes, uint64_t ns)
{
	struct local_counters *counters = &local->counters;

	histogram_record(&local->commit_us, ns / 1000);
	histogram_record(&local->commit_batch, local->batch.count);
	histogram_bump(&counters->commits, 1);
	histogram_bump(&counters->commit_ops, local->batch.count);
	histogram_bump(&counters->written_bytes, bytes);
}

void local_commit(struct local_store *local)
{
	uint32_t bytes = 0;

	if (journal_pending(&local->journal)) {
		struct steady_clock_state at = steady_clock_save(&local->clock);
		add_seen(local);
		uint64_t began_ns = clock_monotonic_ns();
		int r = journal_commit(&local->journal,
		                       &(struct journal_times){ at.steady_ms, at.wall_ms }, &bytes);
		if (r < 0) {
			fail_batch(local, r);
			return;
		}
		count_commit(local, bytes, clock_monotonic_ns() - began_ns);
		local->durable_ticket = local->last_ticket;
		local->superblock_dirty = true;
		local->seen_count = 0;
	}
	complete_batch(local);
}

void local_write_seen(struct local_store *local, uint32_t max_frames)
{
	for (uint32_t i = 0; i < max_frames && tally_dirty(local->tally) > 0; i++) {
		int r = journal_reserve(&local->journal, sizeof(struct entry_seen), JOURNAL_NORMAL,
		                        now_of(local));
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

/* Room for the entry, after writing what is there if need be. */
static int reserve(struct local_store *local, uint32_t size, enum journal_room room)
{
	int r = journal_reserve(&local->journal, size, room, now_of(local));

	if (r == JOURNAL_COMMIT_FIRST) {
		local_commit(local);
		r = journal_reserve(&local->journal, size, room, now_of(local));
		CHECK(r <= 0);
	}
	return r;
}

static void answer_duplicate(struct local_store *local, struct store_admit *admit, uint32_t matched,
                             const struct table_hit *hit)
{
	uint32_t count = 1;

	/* A count that could not be kept changes no verdict. */
	if (tally_add(local->tally, hit->ticket, now_of(local), tally_expiry_ms(hit), &count) < 0)
		count = 1;
	admit->verdict = VERDICT_DUPLICATE;
	admit->matched = matched;
	admit->ticket = hit->ticket;
	admit->first_seen_ms = ticket_time_ms(hit->ticket);
	admit->seen = count;
}

static int insert_ticket(struct local_store *local, struct store_admit *admit, uint64_t ticket)
{
	struct open_ticket open = {
		.ticket = ticket,
		.segment = (uint32_t)local->journal.durable.segment,
		.offset = journal_next_offset(&local->journal),
		.length = frame_event_size(admit),
	};

	int r = open_tickets_reserve(local->tickets, 1);
	return r < 0 ? r : open_tickets_insert(local->tickets, &open);
}

static uint32_t longest_window_s(const struct store_admit *admit)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (admit->claims[i].window_s > longest)
			longest = admit->claims[i].window_s;
	return longest;
}

static int put_claims(struct local_store *local, struct store_admit *admit,
                      struct table_probe *probes)
{
	uint32_t longest_s = longest_window_s(admit);

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		uint32_t window_s = admit->claims[i].window_s;
		struct table_record record = { .digest = admit->claims[i].digest,
			                       .ticket = admit->ticket,
			                       .window_s = window_s,
			                       .flags = window_flags(longest_s, window_s) };
		int r = table_put_probe(local->table, &probes[i], &record, now_of(local));
		if (r < 0) {
			/* Claims of this event that were put have this ticket; what
			 * they replaced had expired. */
			while (i-- > 0)
				table_remove(local->table, &admit->claims[i].digest);
			return r;
		}
	}
	local->live_claims += admit->claim_count;
	return 0;
}

static void note_claims(struct local_store *local, const struct store_admit *admit)
{
	uint64_t from_ms = ticket_time_ms(admit->ticket);
	uint32_t longest_s = longest_window_s(admit);

	for (uint32_t i = 0; i < admit->claim_count; i++) {
		uint32_t window_s = admit->claims[i].window_s;
		struct claims_record record = { .digest = admit->claims[i].digest,
			                        .ticket = admit->ticket,
			                        .window_s = window_s,
			                        .kind = CLAIMS_RECORD_CLAIM,
			                        .flags = (uint16_t)window_flags(longest_s,
			                                                        window_s) };
		/* The index rounds windows up by less than 1/256. */
		uint64_t most_ms = (uint64_t)window_s * 1000 + (uint64_t)window_s * 1000 / 256 + 1;
		journal_note_claim(&local->journal, &record, from_ms + most_ms);
	}
}

static int answer_new(struct local_store *local, struct store_admit *admit,
                      struct table_probe *probes)
{
	int r = reserve(local, frame_event_size(admit), JOURNAL_NORMAL);
	local->full = r == ERR_FULL;
	if (r < 0)
		return r;
	admit->ticket = ticket_next(local->last_ticket, now_of(local));
	if (!admit->no_ticket) {
		r = insert_ticket(local, admit, admit->ticket);
		if (r < 0)
			return ERR_FULL;
	}
	r = put_claims(local, admit, probes);
	if (r < 0) {
		if (!admit->no_ticket)
			open_tickets_drop(local->tickets, admit->ticket);
		return ERR_FULL;
	}
	frame_add_event(&local->journal.frame, admit, admit->ticket);
	note_claims(local, admit);
	local->journal.item.events += !admit->no_ticket;
	local->last_ticket = admit->ticket;
	admit->verdict = VERDICT_NEW;
	admit->matched = 0;
	admit->first_seen_ms = ticket_time_ms(admit->ticket);
	admit->seen = 0;
	return 0;
}

static void decide_admit(struct local_store *local, struct store_admit *admit,
                         struct table_probe *probes)
{
	struct table_hit hit;

	CHECK(admit->claim_count >= 1 && admit->claim_count <= CLAIMS_MAX);
	CHECK(admit->source.len <= STORE_SOURCE_MAX);
	admit->verdict = VERDICT_NONE;
	admit->ticket = 0;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		if (table_find_probe(local->table, &probes[i], now_of(local), &hit)) {
			answer_duplicate(local, admit, i, &hit);
			return;
		}
	}
	if (admit->payload.len > STORE_PAYLOAD_MAX)
		admit->op.error = ERR_TOO_LARGE;
	else
		admit->op.error = answer_new(local, admit, probes);
}

static int outcome_check(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_DONE:
	case OUTCOME_DEAD:
	case OUTCOME_RELEASED: return 0;
	case OUTCOME_NONE:
	case OUTCOME_UNKNOWN: break;
	}
	return ERR_INVALID;
}

/* False: it waits in `deferred`, and does not join the batch. */
static bool decide_settle(struct local_store *local, struct store_settle *settle)
{
	int r = outcome_check(settle->outcome);
	if (r == 0)
		r = open_tickets_settle(local->tickets, settle->ticket, settle->attempt);
	settle->op.error = r;
	if (r < 0)
		return true;
	r = reserve(local, sizeof(struct entry_settle), JOURNAL_URGENT);
	if (r < 0) {
		defer_settle(local, settle, ERR_FULL);
		return false;
	}
	frame_add_settle(&local->journal.frame, settle);
	return true;
}

static void decide_lookup(struct local_store *local, struct store_lookup *lookup)
{
	struct table_hit hit;
	struct tally_entry tally;
	struct open_ticket ticket;

	lookup->open = false;
	lookup->taken = table_find(local->table, &lookup->digest, now_of(local), &hit);
	if (!lookup->taken)
		return;
	lookup->ticket = hit.ticket;
	lookup->first_seen_ms = ticket_time_ms(hit.ticket);
	lookup->open = open_tickets_find(local->tickets, hit.ticket, &ticket);
	lookup->seen = tally_get(local->tally, hit.ticket, &tally) ? tally.count : 0;
}

static uint32_t claims_of(struct store_op *op)
{
	return op->kind == STORE_ADMIT ? admit_of(op)->claim_count : 0;
}

/* `probes` are those of its claims. */
static void decide(struct local_store *local, struct store_op *op, struct table_probe *probes)
{
	bool joins = true;

	op->error = 0;
	switch (op->kind) {
	case STORE_ADMIT: decide_admit(local, admit_of(op), probes); break;
	case STORE_SETTLE: joins = decide_settle(local, settle_of(op)); break;
	case STORE_LOOKUP: decide_lookup(local, lookup_of(op)); break;
	case STORE_TAKE:
		op_queue_put(&local->takes, op);
		joins = false;
		break;
	}
	if (joins)
		op_queue_put(&local->batch, op);
}

/* Returns the operation behind the group. */
static struct store_op *gather(struct group *group, struct store_op *op)
{
	group->first = op;
	group->op_count = group->probe_count = 0;
	for (; op && group->op_count < TABLE_GROUP && group->probe_count < TABLE_GROUP;
	     op = op->next, group->op_count++) {
		uint32_t count = claims_of(op);
		CHECK(count <= CLAIMS_MAX);
		if (count > 0)
			__builtin_prefetch(&admit_of(op)->first_seen_ms, 1); /* the answer */
		for (uint32_t i = 0; i < count; i++)
			group->probes[group->probe_count++] = table_probe(
				&admit_of(op)->claims[i].digest);
	}
	return op;
}

static void decide_group(struct local_store *local, struct group *group)
{
	struct table_probe *probes = group->probes;
	struct store_op *op = group->first, *next;

	for (; group->op_count > 0; group->op_count--, op = next) {
		uint32_t count = claims_of(op);
		next = op->next; /* whoever is done with it may use it again */
		decide(local, op, probes);
		probes += count;
	}
}

/* A group is decided when it has been through all steps of fetching. */
static void decide_all(struct local_store *local, struct store_op *op)
{
	struct group groups[TABLE_STEPS + 1];
	uint32_t turn = TABLE_STEPS, last = UINT32_MAX;

	for (uint32_t i = 0; i <= TABLE_STEPS; i++)
		groups[i].op_count = groups[i].probe_count = 0;
	for (; turn <= last; turn++) {
		op = gather(&groups[turn % (TABLE_STEPS + 1)], op);
		if (!op && last == UINT32_MAX)
			last = turn + TABLE_STEPS;
		for (uint32_t step = 0; step < TABLE_STEPS; step++) {
			struct group *at = &groups[(turn - step) % (TABLE_STEPS + 1)];
			table_fetch(local->table, step, at->probes, at->probe_count);
		}
		decide_group(local, &groups[(turn + 1) % (TABLE_STEPS + 1)]);
	}
}

void local_retry_settles(struct local_store *local)
{
	struct op_queue waiting = local->deferred;

	if (!waiting.first)
		return;
	op_queue_init(&local->deferred);
	decide_all(local, waiting.first);
	local_commit(local);
}

void local_flush(struct store *store)
{
	struct local_store *local = local_of(store);
	struct op_queue waiting = local->queue;

	CHECK(!local->flushing);
	if (!waiting.first)
		return;
	local->flushing = true;
	op_queue_init(&local->queue);
	steady_clock_now(&local->clock);
	decide_all(local, waiting.first);
	local_commit(local);
	local_serve_takes(local);
	local_publish(local);
	local->flushing = false;
}
