/*
 * retention: which files may leave the folder, and what must happen before.
 *
 * A segment leaves when it is older than retain_ms, or when the segments kept
 * for settled payloads alone pass retain_bytes; and when
 *   - it holds no open ticket and no live cell, and lies below the durable `scan
 *     from` (the few that are left are carried forward: their events and cells are
 *     appended again), and
 *   - its claims have expired, or a claims file has them (F8).
 * A number leaves as a whole, the lowest first (F6), when its claims have
 * expired too. The superblock that no longer needs a file is durable before the
 * keeper takes the file away.
 *
 * Threads: the owner's. Work per call is bounded: one slice of carrying, one
 * superblock.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/local_internal.h"
#include "store/local/recovery.h"

/* --- moving cells -------------------------------------------------------------- */

/*
 * carry_cells: moves the cells that still stand in a segment to the end of the journal,
 * so that a start need not read the segment any more, and it can leave.
 *
 * The segment is read from one end to the other, a piece with each tick. A cell stands
 * there if the index says so: all others have been replaced, moved, removed, or are over.
 * The copy has the expiry of the index. New places count only once the frame is on disk; a
 * failed frame changes nothing, and the piece is done again.
 */

#define CARRY_CELLS 512u
#define CARRY_BYTES (1u << 20)
#define LOOK_ENTRIES 16384u
#define READ_BYTES (1u << 20)
#define WALKS 4u /* until what could not be read is taken for damaged */

struct moved {
	struct digest digest;
	struct cell from;
	struct cell to;
};

struct carry {
	struct local_store *local;
	struct journal_cursor at;
	uint32_t count;
	uint32_t bytes;
	struct moved moved[CARRY_CELLS];
};

/* Appends it. 0; 1: not now; ERR_DAMAGED. */
static int copy(struct carry *carry, const struct entry_head *head, const struct cell *cell)
{
	struct local_store *local = carry->local;
	const unsigned char *bytes;
	struct entry entry;
	bool from_disk;

	/* First: what it makes room with may stand where the bytes are. */
	if (journal_reserve(&local->journal, head->size, JOURNAL_NORMAL, local_now_ms(local)) != 0)
		return 1;
	if (!cursor_read(local, &carry->at, head->size, &bytes, &from_disk))
		return 1;
	if (entry_parse(bytes, head->size, &entry) < 0 || entry.kind != ENTRY_CELL ||
	    !reader_entry_valid(bytes, &entry, carry->at.epoch))
		return ERR_DAMAGED;
	struct moved *moved = &carry->moved[carry->count++];
	moved->digest = entry.cell.digest;
	moved->from = moved->to = *cell;
	moved->to.segment = local->journal.durable.segment;
	moved->to.offset = frame_add_cell(&local->journal.frame,
	                                  &(struct frame_cell){ .digest = entry.cell.digest,
	                                                        .act = CELL_CARRIED,
	                                                        .expiry_ms = cell->expiry_ms,
	                                                        .name = entry.source,
	                                                        .value = entry.payload });
	carry->bytes += head->size;
	return 0;
}

/* Does this entry hold, and until when? */
static bool stands_here(struct carry *carry, const struct entry_head *head, struct cell *ret_cell)
{
	struct local_store *local = carry->local;
	const unsigned char *bytes;
	struct entry_cell cell;
	bool from_disk;

	if (head->kind != ENTRY_CELL || head->size < sizeof(cell) ||
	    !cursor_read(local, &carry->at, sizeof(cell), &bytes, &from_disk))
		return false;
	memcpy(&cell, bytes, sizeof(cell));
	struct table_probe probe = cells_probe(&cell.digest);
	if (!cells_find(local->cells, &probe, ret_cell) || ret_cell->segment != carry->at.segment ||
	    ret_cell->offset != carry->at.at)
		return false;
	if (!cell_is_over(ret_cell, local_now_ms(local)))
		return true;
	cells_remove(local->cells, &probe, ret_cell);
	cells_let_go(local->cells, ret_cell->segment);
	return false;
}

/* A piece of the segment: 0, 1: it was not read to its end, ERR_DAMAGED. */
static int read_piece(struct carry *carry, uint64_t segment)
{
	struct local_store *local = carry->local;
	uint64_t read_before = local->window.read;

	for (uint32_t i = 0; i < LOOK_ENTRIES; i++) {
		struct entry_head head;
		struct cell cell;
		if (carry->count == CARRY_CELLS || carry->bytes >= CARRY_BYTES ||
		    local->window.read - read_before >= READ_BYTES)
			return 1;
		enum cursor_step step = cursor_look(local, &carry->at, &head);
		if (step == CURSOR_END || carry->at.segment != segment)
			return 0;
		if (step == CURSOR_MOVED)
			continue;
		int r = stands_here(carry, &head, &cell) ? copy(carry, &head, &cell) : 0;
		if (r != 0)
			return r;
		cursor_pass(&carry->at, &head);
	}
	return 1;
}

/* True: all are where they were copied to. */
static bool move_all(struct carry *carry)
{
	struct local_store *local = carry->local;
	uint64_t before = local->journal.durable.sequence;

	local_commit(local);
	if (carry->count > 0 && local->journal.durable.sequence == before)
		return false;
	for (uint32_t i = 0; i < carry->count; i++) {
		const struct moved *moved = &carry->moved[i];
		struct table_probe probe = cells_probe(&moved->digest);
		if (cells_put(local->cells, &probe, &moved->to, &moved->from, 0) < 0)
			return false; /* both places have it; the old one stays needed */
		cells_let_go(local->cells, moved->from.segment);
	}
	local->journal.item.events += carry->count;
	return true;
}

void local_carry_cells(struct local_store *local, uint64_t segment)
{
	struct carry carry; /* filled as far as it is used */

	CHECK(local->undo.count == 0); /* the index is what is on disk */
	carry.local = local;
	carry.count = carry.bytes = 0;
	carry.at = local->carrying;
	if (carry.at.segment != segment)
		carry.at = (struct journal_cursor){ .segment = segment, .at = FORMAT_BLOCK };
	int r = read_piece(&carry, segment);
	if (!move_all(&carry))
		return;
	local->carrying = carry.at;
	if (r != 1) {
		/* A whole walk has met all that stand there, but for what could not be read. */
		local->carrying.segment = 0;
		if (r != ERR_DAMAGED && cells_in_segment(local->cells, segment) == 0)
			local->carry_walks = 0;
		else if (r == ERR_DAMAGED || ++local->carry_walks >= WALKS)
			local_tell_stays(local, segment);
	}
}

/* --- segments and tickets ------------------------------------------------------- */

/* Between attempts at a claims file that could not be written: doubled. */
#define CLAIMS_WAIT_MS 10000u
#define CLAIMS_WAIT_MS_MAX 600000u

#define CARRY_EVENTS 64u
#define CARRY_BYTES (1u << 20)

/* A start reads all from the oldest cell on. From so many segments on the few that are
 * left in old ones are carried though these stay for their payloads. */
#define CARRY_EARLY_SEGMENTS 16u

uint64_t local_scan_from(const struct local_store *local, uint64_t current)
{
	uint64_t from = current, cells;
	uint32_t tickets;

	if (open_tickets_oldest_segment(local->tickets, &tickets) && tickets < from)
		from = tickets;
	if (cells_oldest_segment(local->cells, &cells) && cells < from)
		from = cells;
	return from;
}

static void collect_finished(struct local_store *local)
{
	struct keeper_job *job;

	while ((job = keeper_collect(local->keeper))) {
		struct segment_info *item = segment_list_find(&local->segments, job->number);
		if (job->error < 0) {
			atomic_fetch_add_explicit(&local->counters.io_errors, 1,
			                          memory_order_relaxed);
			local_log(
				local, LOCAL_STORE_WARNING, "%s: segment %llu: %s",
				job->kind == KEEPER_CLAIMS
					? "claims file not written"
					: "journal segment not removed; it keeps using disk space",
				(unsigned long long)job->number, error_name(job->error));
		}
		if (item && job->kind == KEEPER_CLAIMS) {
			item->busy = false;
			item->dense |= job->dense;
			if (job->error < 0) {
				/* Reading the whole segment again with each tick would keep the keeper from
				 * what is needed sooner. */
				item->wait_ms = item->wait_ms ? item->wait_ms * 2 : CLAIMS_WAIT_MS;
				if (item->wait_ms > CLAIMS_WAIT_MS_MAX)
					item->wait_ms = CLAIMS_WAIT_MS_MAX;
				item->retry_boot_ms = local->clock.now.boot_ms + item->wait_ms;
			}
			if (job->error == 0 && !job->dense) {
				item->has_claims_file = true;
				item->claims_bytes = claims_file_bytes(job->list.count);
			}
		}
		keeper_job_free(job);
	}
}

/* A claims file that is missing (no memory, no room, a crash) is made again. Not
 * that of the last number: its end is not fixed before there is a next (F3). */
static void post_claims(struct local_store *local)
{
	for (size_t i = 0; i + 1 < local->segments.count; i++) {
		struct segment_info *item = &local->segments.items[i];
		if (!item->sealed || item->dense || item->has_claims_file ||
		    item->segment_bytes == 0)
			continue;
		if (item->busy)
			return;
		if (local->clock.now.boot_ms < item->retry_boot_ms)
			continue;
		struct keeper_job *job = keeper_job_new(KEEPER_CLAIMS, local->segments.first + i);
		if (!job)
			return;
		job->list.dropped = true;
		job->summary = (struct claims_summary){ .number = job->number,
			                                .max_expiry_ms = item->max_expiry_ms,
			                                .max_ticket = item->max_ticket,
			                                .sealed_ms = item->sealed_ms };
		job->segment_end = item->end;
		job->records_max = local->journal.claims_max;
		item->busy = true;
		keeper_post(local->keeper, job);
		return;
	}
}

static bool claims_kept(const struct segment_info *item, uint64_t now_ms)
{
	return item->has_claims_file || item->max_expiry_ms <= now_ms;
}

/* Of a segment with so many events and cells, `live` of which are needed: bytes of these,
 * about. */
static uint64_t bytes_of(const struct segment_info *item, uint64_t live)
{
	return item->events > live ? item->end * live / item->events : live > 0 ? item->end : 0;
}

/* The last note of a ticket, copied: what it stands in is needed for the event. */
struct carried_note {
	struct entry_note note;
	char text[STORE_TEXT_MAX];
	struct span span; /* of the text */
};

static int copy_note(struct local_store *local, const struct open_ticket *ticket,
                     struct carried_note *ret_copy)
{
	struct entry entry;

	*ret_copy = (struct carried_note){ .note = { 0 } };
	if (ticket->note_segment == 0)
		return 0;
	int r = local_read_note(local, ticket, &entry);
	if (r < 0)
		return r;
	ret_copy->note = entry.note;
	ret_copy->note.before_segment = ret_copy->note.before_offset = 0;
	if (entry.payload.len)
		memcpy(ret_copy->text, entry.payload.ptr, entry.payload.len);
	ret_copy->span = span_of(ret_copy->text, entry.payload.len);
	return 0;
}

/* The last attempt that a start would know of. A lease ends with the process, unless it
 * was noted that the attempt had started. */
static uint32_t attempt_used(const struct open_ticket *ticket, const struct entry_note *note)
{
	uint32_t before = ticket->attempt - (ticket->state == OPEN_TICKET_LEASED ? 1u : 0u);

	return note->attempt > before ? note->attempt : before;
}

/* The event, the note, and what neither of them tells: all in one frame (F10). */
static void append_carried(struct local_store *local, struct open_ticket *ticket,
                           const struct entry *event, struct carried_note *copy)
{
	struct frame *frame = &local->journal.frame;
	struct store_settle settle = { .ticket = ticket->ticket,
		                       .attempt = attempt_used(ticket, &copy->note),
		                       .outcome = OUTCOME_RELEASED,
		                       .due_ms = ticket->due_ms };
	bool aside = ticket->state != OPEN_TICKET_DUE && ticket->state != OPEN_TICKET_LEASED;
	bool told = aside || (copy->note.attempt == settle.attempt &&
	                      replay_due_ms(&copy->note, 0) == ticket->due_ms);

	ticket->offset = frame_add_carried(
		frame, event,
		&(struct frame_carried){ .ticket = ticket->ticket,
	                                 .attempt = (uint16_t)settle.attempt,
	                                 .flags = ticket->state == OPEN_TICKET_HELD ? EVENT_HELD
	                                                                            : 0,
	                                 .leg = ticket->leg });
	ticket->segment = (uint32_t)local->journal.durable.segment;
	ticket->length = frame_carried_size(event);
	if (ticket->note_segment) {
		ticket->note_segment = ticket->segment;
		ticket->note_offset = frame_add_note(frame, &copy->note, copy->span);
	}
	if (ticket->note_segment ? !told : ticket->due_ms != 0) /* else the event tells */
		frame_add_settle(frame, &settle);
}

static int carry_one(struct local_store *local, struct open_ticket *ticket)
{
	struct carried_note copy;
	struct entry entry;

	int r = copy_note(local, ticket, &copy);
	if (r == 0)
		r = local_read_event(local, ticket, &entry);
	if (r < 0)
		return r;
	uint32_t size = (uint32_t)(format_align(frame_carried_size(&entry), 8) +
	                           format_align(frame_note_size(copy.span), 8) +
	                           sizeof(struct entry_settle_due));
	r = journal_reserve(&local->journal, size, JOURNAL_NORMAL, local_now_ms(local));
	if (r != 0)
		return r;
	append_carried(local, ticket, &entry, &copy);
	return 0;
}

void local_tell_stays(struct local_store *local, uint64_t segment)
{
	struct segment_info *item = segment_list_find(&local->segments, segment);

	CHECK(item && !item->stays);
	item->stays = true;
	local_log(
		local, LOCAL_STORE_ERROR,
		"segment has damaged data; it stays on disk with all later segments: segment %llu",
		(unsigned long long)segment);
}

/*
 * Appends the events of open tickets in `segment` again. Their new places count
 * only once the frame is on disk; a failed frame changes nothing.
 */
static void carry_slice(struct local_store *local, uint64_t segment)
{
	struct open_ticket moved[CARRY_EVENTS], ticket;
	uint32_t count = 0, bytes = 0;
	uint64_t after = 0;

	while (count < CARRY_EVENTS && bytes < CARRY_BYTES &&
	       open_tickets_next_before(local->tickets, after, (uint32_t)segment, &ticket)) {
		after = ticket.ticket;
		if (ticket.segment != segment)
			continue;
		int r = carry_one(local, &ticket);
		if (r == ERR_DAMAGED)
			local_tell_stays(local, segment);
		if (r != 0)
			break;
		moved[count++] = ticket;
		bytes += ticket.length;
	}
	uint64_t before = local->journal.durable.sequence;
	local_commit(local);
	if (local->journal.durable.sequence == before)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (open_tickets_relocate(local->tickets, &moved[i]) < 0)
			return; /* both places hold the event; the old one stays needed */
	local->journal.item.events += count;
}

struct leaving {
	uint64_t scan_from; /* what will be durable */
	uint64_t now_ms;
	uint64_t kept; /* bytes kept for settled payloads */
	bool early;    /* carried, though nothing would leave by that */
};

static bool too_old(const struct local_store *local, const struct segment_info *item,
                    const struct leaving *leaving)
{
	return leaving->kept > local->options.retain_bytes || item->end == FORMAT_BLOCK ||
	       item->sealed_ms + local->options.retain_ms <= leaving->now_ms;
}

static bool segment_leaves(const struct local_store *local, uint64_t number,
                           const struct leaving *leaving)
{
	const struct segment_info *item = segment_list_find(&local->segments, number);

	return item->sealed && !item->busy && item->segment_bytes > 0 &&
	       number < leaving->scan_from && claims_kept(item, leaving->now_ms) &&
	       too_old(local, item, leaving);
}

static void post_retire(struct local_store *local, uint64_t number, const struct segment_info *item,
                        bool claims)
{
	struct keeper_job *job = keeper_job_new(KEEPER_RETIRE, number);

	/* Without memory the file stays until the next start clears it away. */
	if (!job)
		return;
	job->retire_segment = item->segment_bytes > 0;
	local_close_windows(local, number);
	job->reuse = item->epoch != 0 && item->segment_bytes == local->folder.segment_bytes;
	job->retire_claims = claims;
	keeper_post(local->keeper, job);
}

/* What would leave, given this scan_from? Only looks. */
static bool anything_leaves(const struct local_store *local, const struct leaving *leaving)
{
	const struct segment_info *item = segment_list_find(&local->segments,
	                                                    local->segments.first);
	if (item && item->sealed && !item->busy && item->max_expiry_ms <= leaving->now_ms &&
	    local->segments.first < leaving->scan_from &&
	    (item->segment_bytes == 0 || too_old(local, item, leaving)))
		return true;
	for (size_t i = 0; i < local->segments.count; i++)
		if (segment_leaves(local, local->segments.first + i, leaving))
			return true;
	return false;
}

static void drop_segments(struct local_store *local, struct leaving *leaving)
{
	for (size_t i = 0; i < local->segments.count; i++) {
		uint64_t number = local->segments.first + i;
		struct segment_info *item = &local->segments.items[i];
		if (!segment_leaves(local, number, leaving) || !item->has_claims_file)
			continue;
		post_retire(local, number, item, false);
		leaving->kept -= item->segment_bytes;
		item->segment_bytes = 0;
	}
}

/* The lowest number that is still needed after the numbers at the front left. */
static uint64_t oldest_needed(struct local_store *local, struct leaving leaving)
{
	uint64_t first = local->segments.first;
	uint64_t oldest = first;

	for (size_t i = 0; i < local->segments.count; i++) {
		const struct segment_info *item = &local->segments.items[i];
		if (!item->sealed || item->busy || item->max_expiry_ms > leaving.now_ms ||
		    first + i >= leaving.scan_from ||
		    (item->segment_bytes > 0 && !too_old(local, item, &leaving)))
			break;
		leaving.kept -= item->segment_bytes < leaving.kept ? item->segment_bytes
		                                                   : leaving.kept;
		oldest = first + i + 1;
	}
	return oldest;
}

static bool may_be_carried(const struct local_store *local, const struct segment_info *item,
                           const struct leaving *leaving)
{
	return item->sealed && !item->busy && !item->stays &&
	       (leaving->early ||
	        (too_old(local, item, leaving) && claims_kept(item, leaving->now_ms)));
}

static uint64_t live_in(const struct local_store *local, uint64_t number)
{
	return open_tickets_in_segment(local->tickets, (uint32_t)number) +
	       cells_in_segment(local->cells, number);
}

/*
 * Carrying pays when few are left, or when what is left holds much behind it: nothing
 * above the oldest open ticket's or cell's segment can leave. So it is looked for a run of
 * segments from there on of which a quarter at most would have to be written again. A
 * run that is mostly open is live data.
 */
static bool worth_carrying(const struct local_store *local, uint64_t oldest,
                           const struct leaving *leaving)
{
	uint64_t bytes = 0, open = 0;

	if (live_in(local, oldest) <= 4)
		return true;
	for (uint64_t n = oldest; n < segment_list_end(&local->segments); n++) {
		const struct segment_info *item = segment_list_find(&local->segments, n);
		if (!may_be_carried(local, item, leaving))
			return false;
		bytes += item->end;
		open += bytes_of(item, live_in(local, n));
		if (open * 4 <= bytes)
			return true;
	}
	return false;
}

static void retire(struct local_store *local, struct leaving *leaving)
{
	uint64_t oldest = oldest_needed(local, *leaving);

	/* F8: durable before anything goes, in both slots. */
	local->oldest = oldest;
	while (leaving->scan_from > local->superblock.scan_from ||
	       oldest > local->superblock.oldest) {
		int r = local_mark(local, &local->journal.durable, 0);
		if (r < 0)
			return;
	}
	while (local->segments.count > 0 && local->segments.first < oldest) {
		struct segment_info item = local->segments.items[0];
		/* Also one that is not believed. */
		post_retire(local, local->segments.first, &item, true);
		leaving->kept -= item.segment_bytes < leaving->kept ? item.segment_bytes
		                                                    : leaving->kept;
		segment_list_drop_first(&local->segments);
	}
	drop_segments(local, leaving);
}

static void carry(struct local_store *local, const struct leaving *leaving)
{
	uint32_t oldest;

	if (!open_tickets_oldest_segment(local->tickets, &oldest))
		return;
	const struct segment_info *item = segment_list_find(&local->segments, oldest);
	if (item && may_be_carried(local, item, leaving) && worth_carrying(local, oldest, leaving))
		carry_slice(local, oldest);
}

static void carry_cells(struct local_store *local, const struct leaving *leaving)
{
	struct leaving wanted = *leaving;
	uint64_t oldest;

	if (!cells_oldest_segment(local->cells, &oldest))
		return;
	const struct segment_info *item = segment_list_find(&local->segments, oldest);
	wanted.early = local->journal.durable.segment - oldest >= CARRY_EARLY_SEGMENTS;
	if (item && may_be_carried(local, item, &wanted) && worth_carrying(local, oldest, &wanted))
		local_carry_cells(local, oldest);
}

void local_retain(struct local_store *local)
{
	uint64_t now_ms = local_now_ms(local);
	/* Bytes of segments that stay for nothing but settled payloads. */
	uint64_t kept = 0;
	for (size_t i = 0; i < local->segments.count; i++) {
		const struct segment_info *item = &local->segments.items[i];
		uint64_t cells = cells_in_segment(local->cells, local->segments.first + i);
		if (item->sealed && claims_kept(item, now_ms))
			kept += item->segment_bytes - (cells ? bytes_of(item, cells) : 0);
	}
	struct leaving leaving = { .now_ms = now_ms, .kept = kept };

	CHECK(local->flushing && local->undo.count == 0); /* the index is what is on disk */
	collect_finished(local);
	post_claims(local);
	collect_finished(local);
	if (local->segments.count == 0)
		return;
	carry(local, &leaving);
	carry_cells(local, &leaving);
	leaving.scan_from = local_scan_from(local, local->journal.durable.segment);
	if (anything_leaves(local, &leaving))
		retire(local, &leaving);
}
