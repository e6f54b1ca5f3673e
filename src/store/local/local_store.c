/* local_store: see local_store.h. */
#include "store/local/local_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "store/local/local_internal.h"

#define SEGMENT_BYTES_DEFAULT (64u << 20)
#define FRAME_BYTES_DEFAULT (8u << 20)
#define FRAME_BYTES_MIN (16u << 10)
#define OPEN_TICKETS_DEFAULT (16u << 20)
#define RETAIN_MS_DEFAULT (UINT64_C(7) * 24 * 60 * 60 * 1000)
#define RETAIN_BYTES_DEFAULT (UINT64_C(16) << 30)

/* How long what is not urgent may wait. */
#define LAZY_MS 1000
/* The clock's high-water mark is renewed even when nothing happens. */
#define IDLE_MARK_MS (10 * 60 * 1000)
/* Between attempts to get room on a disk that was full: doubled each time. */
#define RETRY_MS 500
#define RETRY_MS_MAX 4000
#define SEEN_FRAMES 4u /* in one tick */
/* Once around the index in about a minute at twenty ticks a second, and never more
 * than a fraction of a millisecond in one tick. */
#define DEAD_PER_TICK 4096u
#define SWEEP_PARTS 600
#define SWEEP_MIN 4096
#define SWEEP_MAX 262144

void local_log(const struct local_store *local, enum local_store_level level, const char *format,
               ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	if (!local->options.log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	local->options.log(local->options.log_user, level, text);
}

static void store_counter(atomic_uint_fast64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* An eighth must be free before it is told that there is room: a store that is just
 * full would tell it with every flush. */
static void tell_crowd(struct local_store *local, uint64_t open)
{
	uint64_t most = local->options.max_open_tickets;

	if (!local->crowded && open >= most) {
		local->crowded = true;
		local_log(
			local, LOCAL_STORE_ERROR,
			"too many open tickets; new events rejected: %llu tickets are open; release or drop dead, parked and held ones",
			(unsigned long long)open);
	} else if (local->crowded && open < most && open <= most - most / 8) {
		local->crowded = false;
		local_log(local, LOCAL_STORE_INFO,
		          "room for new tickets again: %llu tickets are open",
		          (unsigned long long)open);
	}
}

void local_publish(struct local_store *local)
{
	struct local_counters *counters = &local->counters;
	uint64_t open = open_tickets_count(local->tickets);
	bool room = open < local->options.max_open_tickets;

	store_counter(&counters->live_claims, local->live_claims);
	store_counter(&counters->open_tickets, open);
	store_counter(&counters->due_tickets, open_tickets_in(local->tickets, OPEN_TICKET_DUE));
	store_counter(&counters->held_tickets, open_tickets_in(local->tickets, OPEN_TICKET_HELD));
	store_counter(&counters->parked_tickets,
	              open_tickets_in(local->tickets, OPEN_TICKET_PARKED));
	store_counter(&counters->dead_tickets, open_tickets_in(local->tickets, OPEN_TICKET_DEAD));
	store_counter(&counters->caller_tickets, open_tickets_callers(local->tickets));
	store_counter(&counters->waits, local->waits.count);
	store_counter(&counters->live_entities, newest_count(local->newest));
	store_counter(&counters->live_cells, cells_count(local->cells));
	atomic_store_explicit(&counters->writable, local->journal.open && !local->full && room,
	                      memory_order_relaxed);
	if (unlikely(!room || local->crowded))
		tell_crowd(local, open);
}

static void publish_all(struct local_store *local)
{
	struct local_counters *counters = &local->counters;
	struct table_stats table;
	uint64_t bytes = 0, segments = 0;

	table_get_stats(local->table, &table);
	local->live_claims = table.claims;
	for (size_t i = 0; i < local->segments.count; i++) {
		const struct segment_info *item = &local->segments.items[i];
		bytes += item->segment_bytes + item->claims_bytes;
		segments += item->segment_bytes > 0;
	}
	store_counter(&counters->expired_claims, table.expired);
	store_counter(&counters->index_bytes,
	              table.bytes + cells_stats(local->cells).bytes + newest_bytes(local->newest) +
	                      tally_bytes(local->tally) + open_tickets_bytes(local->tickets));
	store_counter(&counters->journal_bytes, bytes);
	store_counter(&counters->segments, segments);
	store_counter(&counters->clock_held_ms, steady_clock_held_ms(&local->clock));
	local_publish(local);
}

int local_mark(struct local_store *local, const struct journal_position *position, uint32_t flags)
{
	struct steady_clock_state clock = steady_clock_save(&local->clock);
	struct superblock_slot slot = {
		.flags = flags | (local->has_cells ? SUPERBLOCK_CELLS : 0),
		.durable_segment = position->segment,
		.durable_end = position->end,
		.durable_sequence = position->sequence,
		.steady_ms = clock.steady_ms,
		.boot_ms = clock.boot_ms,
		.wall_ms = clock.wall_ms,
		.live_claims = local->live_claims,
		.last_ticket = local->last_ticket,
		.scan_from = local_scan_from(local, position->segment),
		.oldest = local->oldest,
		.live_cells = cells_count(local->cells),
	};

	memcpy(slot.boot_id, clock.boot_id, sizeof(slot.boot_id));
	int r = superblock_write(&local->superblock, &local->folder, &slot);
	if (r < 0) {
		atomic_fetch_add_explicit(&local->counters.io_errors, 1, memory_order_relaxed);
		local_log(local, LOCAL_STORE_ERROR, "superblock not written: %s", error_name(r));
		return r;
	}
	local->superblock_dirty = false;
	local->superblock_boot_ms = clock.boot_ms;
	return 0;
}

static int mark_position(void *user, const struct journal_position *position)
{
	return local_mark(user, position, 0);
}

static uint64_t scan_from(void *user, uint64_t current)
{
	return local_scan_from(user, current);
}

/* --- tick -------------------------------------------------------------- */

/* Once, not for each event; and when another segment can be had again. */
static void tell_room(struct local_store *local)
{
	int error = keeper_problem(local->keeper);

	if (local->refused && !local->told_full) {
		local->told_full = true;
		local_log(local, LOCAL_STORE_ERROR,
		          "no room for another segment; new events rejected: %s",
		          error_name(error < 0 ? error : ERR_FULL));
	} else if (local->told_full && !local->refused && !local->full && error == 0) {
		local->told_full = false;
		local_log(local, LOCAL_STORE_INFO, "room for segments again; new events accepted");
	}
	local->refused = false;
}

/* After the disk was full, or a segment could not be begun. */
static void tick_room(struct local_store *local, uint64_t boot_ms)
{
	if (local->journal.open && !local->full && !local->told_full) {
		local->retry_ms = 0;
		return;
	}
	bool due = local->options.keeper_inline ||
	           boot_ms - local->retry_boot_ms >= local->retry_ms;
	if (!due && !local->room_awaited)
		return;
	if (due) {
		local->retry_boot_ms = boot_ms;
		local->retry_ms = local->retry_ms ? local->retry_ms * 2 : RETRY_MS;
		if (local->retry_ms > RETRY_MS_MAX)
			local->retry_ms = RETRY_MS_MAX;
		journal_retry(&local->journal);
	}
	local->room_awaited = keeper_preparing(local->keeper);
	int r = journal_ready(&local->journal, local_now_ms(local), false);
	local->full = r < 0;
}

static uint64_t sweep_budget(uint64_t slots)
{
	uint64_t budget = slots / SWEEP_PARTS;

	return budget < SWEEP_MIN ? SWEEP_MIN : budget > SWEEP_MAX ? SWEEP_MAX : budget;
}

static void tick_lazy(struct local_store *local, uint64_t boot_ms)
{
	if (tally_dirty(local->tally) > 0 && boot_ms - local->seen_boot_ms >= LAZY_MS) {
		local_write_seen(local, SEEN_FRAMES);
		if (tally_dirty(local->tally) == 0)
			local->seen_boot_ms = boot_ms;
	}
	uint64_t age_ms = boot_ms - local->superblock_boot_ms;
	if (local->journal.durable.segment != 0 &&
	    ((local->superblock_dirty && age_ms >= LAZY_MS) || age_ms >= IDLE_MARK_MS)) {
		/* Also after a failure: not again before its time. */
		local->superblock_boot_ms = boot_ms;
		if (local_mark(local, &local->journal.durable, 0) < 0)
			local->superblock_dirty = true;
	}
}

/* What was delivered without a record of it will be delivered again. */
static void fail_deferred(struct local_store *local)
{
	struct store_op *op;

	while ((op = op_queue_take(&local->deferred))) {
		op->error = ERR_CLOSING;
		op->done(op);
	}
}

static void tick(struct store *store)
{
	struct local_store *local = local_of(store);

	CHECK(!local->flushing);
	local->flushing = true;
	struct error_text text;
	steady_clock_now(&local->clock);
	if (steady_clock_alarm(&local->clock, &text))
		local_log(local, LOCAL_STORE_WARNING, "%s", text.text);
	uint64_t boot_ms = local->clock.now.boot_ms;
	local_end_leases(local);
	/* First: no segment ends, and no event is carried, with outcomes in the frame. */
	local_commit(local);
	tick_room(local, boot_ms);
	tell_room(local);
	local_retry_settles(local);
	waits_expire(&local->waits, boot_ms);
	if (local->ending) {
		fail_deferred(local);
		waits_fail(&local->waits, ERR_CLOSING);
	}
	local_drop_dead(local, DEAD_PER_TICK);
	local_retain(local);
	uint64_t now_ms = local_now_ms(local);
	struct table_stats stats;
	table_get_stats(local->table, &stats);
	table_sweep(local->table, now_ms, sweep_budget(stats.slots));
	cells_sweep(local->cells, now_ms, sweep_budget(cells_stats(local->cells).slots));
	newest_sweep(local->newest, now_ms, sweep_budget(newest_slots(local->newest)));
	tally_sweep(local->tally, now_ms, SWEEP_MIN);
	tick_lazy(local, boot_ms);
	local->retry.waits = false;
	local_serve_takes(local);
	publish_all(local);
	local->flushing = false;
}

/* --- the rest of the contract ----------------------------------------- */

static void submit(struct store *store, struct store_op *op)
{
	CHECK(op->kind >= STORE_ADMIT && op->kind <= STORE_CELL_SCAN);
	CHECK(op->done);
	op_queue_put(&local_of(store)->queue, op);
}

static void end_waits(struct store *store)
{
	local_of(store)->ending = true;
}

static uint64_t load_counter(const atomic_uint_fast64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void stats(struct store *store, struct store_stats *ret_stats)
{
	const struct local_counters *counters = &local_of(store)->counters;

	*ret_stats = (struct store_stats){
		.live_claims = load_counter(&counters->live_claims),
		.live_entities = load_counter(&counters->live_entities),
		.live_cells = load_counter(&counters->live_cells),
		.expired_claims = load_counter(&counters->expired_claims),
		.index_bytes = load_counter(&counters->index_bytes),
		.open_tickets = load_counter(&counters->open_tickets),
		.caller_tickets = load_counter(&counters->caller_tickets),
		.due_tickets = load_counter(&counters->due_tickets),
		.held_tickets = load_counter(&counters->held_tickets),
		.parked_tickets = load_counter(&counters->parked_tickets),
		.dead_tickets = load_counter(&counters->dead_tickets),
		.waits = load_counter(&counters->waits),
		.commits = load_counter(&counters->commits),
		.commit_ops = load_counter(&counters->commit_ops),
		.journal_bytes = load_counter(&counters->journal_bytes),
		.written_bytes = load_counter(&counters->written_bytes),
		.segments = load_counter(&counters->segments),
		.clock_held_ms = load_counter(&counters->clock_held_ms),
		.io_errors = load_counter(&counters->io_errors),
		.writable = atomic_load_explicit(&counters->writable, memory_order_relaxed),
	};
}

/* Also for a store that is half open. */
static void destroy(struct local_store *local)
{
	struct file_system *fs = local->folder.fs;

	local->keeper = keeper_free(local->keeper);
	journal_close(&local->journal);
	local_close_windows(local, 0);
	buf_free(&local->cell_bytes);
	superblock_close(&local->superblock, &local->folder);
	segment_list_free(&local->segments);
	local->table = table_free(local->table);
	local->newest = newest_free(local->newest);
	local->cells = cells_free(local->cells);
	mem_free(local->undo.items);
	local->tally = tally_free(local->tally);
	local->tickets = open_tickets_free(local->tickets);
	leases_free(&local->leases);
	if (local->lock_fd >= 0)
		fs->methods->close(fs, local->lock_fd);
	mem_free(local->path);
	mem_free(local);
}

static void close_store(struct store *store)
{
	struct local_store *local = local_of(store);

	local_flush(store);
	local->flushing = true;
	steady_clock_now(&local->clock);
	local_commit(local);
	local_retry_settles(local);
	local_write_seen(local, UINT32_MAX);
	local_fail_takes(local, ERR_CLOSING);
	waits_fail(&local->waits, ERR_CLOSING);
	fail_deferred(local);
	/* After a failed write the segment is not open, and its end not exact (F9). */
	uint32_t flags = SUPERBLOCK_CLEAN | (local->journal.open ? SUPERBLOCK_OPEN_END : 0);
	if (local->journal.durable.segment != 0 &&
	    local_mark(local, &local->journal.durable, flags) < 0)
		local_log(local, LOCAL_STORE_WARNING,
		          "superblock not marked as closed; the next start recovers");
	destroy(local);
}

static const struct store_methods methods = {
	.submit = submit,
	.flush = local_flush,
	.tick = tick,
	.stats = stats,
	.end_waits = end_waits,
	.free = close_store,
};

/* --- open -------------------------------------------------------------- */

static void set_defaults(struct local_store_options *options)
{
	if (!options->fs)
		options->fs = file_system_real();
	if (!options->clock)
		options->clock = clock_system();
	if (!options->segment_bytes)
		options->segment_bytes = SEGMENT_BYTES_DEFAULT;
	if (!options->frame_bytes_max)
		options->frame_bytes_max = FRAME_BYTES_DEFAULT;
	if (options->frame_bytes_max > options->segment_bytes / 4)
		options->frame_bytes_max = options->segment_bytes / 4;
	options->frame_bytes_max = options->frame_bytes_max / FORMAT_BLOCK * FORMAT_BLOCK;
	if (!options->max_open_tickets)
		options->max_open_tickets = OPEN_TICKETS_DEFAULT;
	if (!options->retain_ms)
		options->retain_ms = RETAIN_MS_DEFAULT;
	if (!options->retain_bytes)
		options->retain_bytes = RETAIN_BYTES_DEFAULT;
	if (!options->dead_keep_ms)
		options->dead_keep_ms = STORE_DEAD_KEEP_MS;
}

static int check_options(const struct local_store_options *options, struct error_text *text)
{
	if (!options->path || !options->path[0])
		return error_fill(text, ERR_CONFIG, "no data folder given");
	if (options->segment_bytes % FORMAT_BLOCK ||
	    options->segment_bytes < LOCAL_STORE_SEGMENT_MIN ||
	    options->segment_bytes > LOCAL_STORE_SEGMENT_MAX)
		return error_fill(
			text, ERR_CONFIG,
			"a segment of %u bytes: expected a multiple of 4096 from 64 KiB to "
			"1 GiB",
			options->segment_bytes);
	if (options->frame_bytes_max < FRAME_BYTES_MIN)
		return error_fill(text, ERR_CONFIG,
		                  "frames of at most %u bytes: expected 16 KiB or more",
		                  options->frame_bytes_max);
	return 0;
}

/* The folder's own name must outlive a loss of power too. */
static int sync_parent(struct local_store *local)
{
	struct file_system *fs = local->folder.fs;
	cleanup_free char *parent = mem_strdup(local->path);

	if (!parent)
		return -ENOMEM;
	size_t len = strlen(parent);
	while (len > 1 && parent[len - 1] == '/')
		len--;
	while (len > 0 && parent[len - 1] != '/')
		len--;
	while (len > 1 && parent[len - 1] == '/')
		len--;
	parent[len] = '\0';
	return fs->methods->sync_dir(fs, len ? parent : ".");
}

static int take_folder(struct local_store *local, struct error_text *text)
{
	struct file_system *fs = local->folder.fs;

	int r = fs->methods->make_dir(fs, local->path);
	if (r == 0)
		r = sync_parent(local);
	if (r < 0)
		return r;
	r = fs->methods->lock_dir(fs, local->path, &local->lock_fd);
	if (r == ERR_BUSY)
		return error_fill(text, r, "in use by another process");
	return r < 0 ? error_fill(text, r, "lock: %s", error_name(r)) : 0;
}

static int make_parts(struct local_store *local)
{
	int r = table_new(&local->table);
	if (r == 0)
		r = newest_new(&local->newest);
	if (r == 0)
		r = cells_new(&local->cells);
	if (r == 0)
		r = tally_new(&local->tally);
	if (r == 0)
		r = open_tickets_new(local->options.max_open_tickets, &local->tickets);
	if (r == 0)
		r = keeper_new(&local->folder, local->options.keeper_inline, &local->keeper);
	if (r == 0)
		r = journal_init(&local->journal,
		                 &(struct journal_options){
					 .folder = &local->folder,
					 .keeper = local->keeper,
					 .segments = &local->segments,
					 .frame_max = local->options.frame_bytes_max,
					 .mark = mark_position,
					 .scan_from = scan_from,
					 .user = local });
	return r;
}

/* The segment that the last process left is mostly empty; its end is written in
 * the new one's header, so the rest can go. If it does not, nothing is lost. */
static void cut_previous(struct local_store *local)
{
	struct file_system *fs = local->folder.fs;
	uint64_t number = local->journal.durable.segment - 1;
	struct segment_info *item = segment_list_find(&local->segments, number);
	int fd;

	if (!local->journal.open || !item || !item->sealed || item->end >= item->segment_bytes)
		return;
	if (segment_open_write(&local->folder, number, &fd) < 0)
		return;
	if (fs->methods->truncate(fs, fd, item->end) == 0)
		item->segment_bytes = (uint32_t)item->end;
	fs->methods->close(fs, fd);
}

/* A clock so far ahead is wrong, and would be believed for ever once it was written down. */
static int check_clock(const struct local_store *local, struct error_text *text)
{
	uint64_t now_ms = local_now_ms(local);
	char time[TEXT_TIME_LEN];

	if (now_ms < TICKET_END_MS)
		return 0;
	text_time(time, now_ms);
	return error_fill(text, ERR_CONFIG,
	                  "the clock says %.*s, which is after the last possible ticket number",
	                  TEXT_TIME_LEN, time);
}

/* A full disk does not keep the store closed: what is there can be delivered. */
static int begin(struct local_store *local, const struct journal_end *end, struct error_text *text)
{
	if (local->options.accept_clock)
		steady_clock_accept_wall(&local->clock);
	steady_clock_now(&local->clock);
	int r = check_clock(local, text);
	if (r < 0)
		return r;
	local_drop_dead(local, UINT32_MAX);
	publish_all(local); /* the superblock's hint */
	r = end->exact ? journal_go_on(&local->journal, end) : 0;
	if (r < 0)
		local_log(local, LOCAL_STORE_WARNING, "last segment cannot be continued: %s",
		          error_name(r));
	r = journal_ready(&local->journal, local_now_ms(local), true);
	if (r == -ENOSPC || r == -EDQUOT) {
		local->full = local->told_full = true;
		local_log(local, LOCAL_STORE_ERROR,
		          "no room for a first segment; new events rejected: %s", error_name(r));
		r = 0;
	}
	if (r < 0)
		return error_fill(text, r, "a new segment: %s", error_name(r));
	if (local->journal.durable.segment != end->position.segment)
		cut_previous(local);
	publish_all(local);
	return 0;
}

static struct waits_legs legs_of(void *user, uint64_t event)
{
	return local_legs(user, event);
}

static int build(struct local_store *local, struct error_text *text)
{
	struct journal_end end;

	int r = take_folder(local, text);
	if (r < 0)
		return r;
	r = make_parts(local);
	if (r < 0)
		return r;
	r = local_recover(local, &end, text);
	if (r < 0)
		return r;
	waits_init(&local->waits, local->last_ticket, legs_of, local);
	return begin(local, &end, text);
}

int local_store_open(const struct local_store_options *options, struct store **ret_store,
                     struct error_text *ret_text)
{
	struct local_store *local = mem_zalloc(1, sizeof(*local));

	if (!local)
		return error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	local->options = *options;
	set_defaults(&local->options);
	local->store.methods = &methods;
	local->store.commit_us = &local->commit_us;
	local->store.commit_batch = &local->commit_batch;
	local->lock_fd = local->window.fd = local->superblock.fd = -1;
	for (uint32_t i = 0; i < CELL_WINDOWS; i++)
		local->cell_windows[i].fd = -1;
	local->journal.fd = local->journal.next_fd = -1;
	op_queue_init(&local->queue);
	op_queue_init(&local->batch.ops);
	op_queue_init(&local->ready);
	op_queue_init(&local->takes);
	op_queue_init(&local->reads);
	op_queue_init(&local->deferred);
	int r = check_options(&local->options, ret_text);
	if (r == 0) {
		local->path = mem_strdup(options->path);
		r = local->path ? 0 : error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	}
	local->folder = (struct folder){ .fs = local->options.fs,
		                         .path = local->path,
		                         .segment_bytes = local->options.segment_bytes };
	struct error_text text = { "" };
	if (r == 0) {
		r = build(local, &text);
		if (r < 0)
			error_fill(ret_text, r, "%s: %s", local->path,
			           text.text[0] ? text.text : error_name(r));
	}
	if (r < 0) {
		destroy(local);
		return r;
	}
	*ret_store = &local->store;
	return 0;
}

const unsigned char *local_store_key(const struct store *store)
{
	return local_of(store)->superblock.slot.key;
}

/* --- checking -------------------------------------------------------------------- */

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
 *   6. A ticket whose change is not durable has an item in the undo list.
 *
 * Threads: the owner's, between two calls of the store.
 */

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
	uint64_t saved = 0;

	open_tickets_check(local->tickets);
	leases_check(&local->leases);
	CHECK(local->durable_ticket <= local->last_ticket); /* 2 */
	while (open_tickets_next(local->tickets, ticket.ticket, &ticket)) {
		CHECK(ticket.ticket <= local->last_ticket); /* 2 */
		check_segment(local, ticket.segment);
		if (ticket.note_segment)
			check_segment(local, ticket.note_segment);
	}
	for (uint32_t i = 0; i < local->undo.count; i++)
		saved += local->undo.items[i].kind == UNDO_TICKET;
	CHECK(open_tickets_in(local->tickets, OPEN_TICKET_CHANGING) <= saved); /* 6 */
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
