/*
 * recovery: from the files of a folder to the index in memory.
 *
 *   1. The superblock tells where to begin and how far the journal was durable.
 *   2. The files are listed; what is left of work that a crash cut short goes.
 *   3. Numbers below `scan from` give their claims: from the claims file, or
 *      from the segment itself. Segments from there on are read in full, in
 *      order: claims, open tickets, settles, cells, counts of duplicates.
 *   4. The last segment's tail is blank, old, torn (said, and left behind) or damaged
 *      (refused); see reader.h. So is everything that should be there and is not.
 *
 * Nothing is written but removals, so a crash in recovery changes nothing.
 *
 * Threads: the owner's.
 */
#include <string.h>

#include "base/error.h"
#include "gate/ticket.h"
#include "gate/verdict.h"
#include "store/local/index/table.h"
#include "store/local/journal/reader.h"
#include "store/local/journal/segment.h"
#include "store/local/local_internal.h"
#include "store/local/recovery.h"
#include "store/store.h"

/* --- what an entry says of open tickets ------------------------------------------ */

static uint16_t cut_attempt(uint32_t attempt)
{
	return (uint16_t)(attempt < STORE_ATTEMPT_MAX ? attempt : STORE_ATTEMPT_MAX);
}

int replay_event(struct open_tickets *tickets, const struct entry *entry, struct replay_place place)
{
	const struct entry_event *event = &entry->event;

	for (uint32_t i = 0; i < entry_ticket_count(entry); i++) {
		struct entry_leg leg = entry_leg_at(entry, i);
		struct open_ticket ticket = {
			.ticket = event->ticket + i,
			.order = leg.order,
			.segment = place.segment,
			.offset = place.offset,
			.length = entry->size,
			.sink = leg.sink,
			.attempt = event->attempt,
			.state = event->flags & EVENT_HELD ? OPEN_TICKET_HELD : OPEN_TICKET_DUE,
			.leg = (uint8_t)(entry->first_leg + i),
		};
		int r = open_tickets_insert(tickets, &ticket);
		if (r < 0)
			return r;
	}
	return 0;
}

void replay_settle(struct open_tickets *tickets, const struct entry *entry)
{
	const struct entry_settle *settle = &entry->settle;
	struct open_ticket ticket;

	if (!open_tickets_find(tickets, settle->ticket, &ticket))
		return;
	if (settle->outcome != OUTCOME_RELEASED) {
		open_tickets_drop(tickets, settle->ticket);
		return;
	}
	ticket.state = OPEN_TICKET_DUE;
	ticket.attempt = cut_attempt(settle->attempt);
	ticket.due_ms = entry->due_ms;
	open_tickets_update(tickets, &ticket);
}

uint64_t replay_due_ms(const struct entry_note *note, uint64_t before)
{
	switch ((enum store_mark)note->mark) {
	case STORE_MARK_DEAD:
	case STORE_MARK_PARKED: return note->at_ms;
	case STORE_MARK_STARTED: return before;
	case STORE_MARK_FAILED:
	case STORE_MARK_UNKNOWN:
	case STORE_MARK_RELEASED:
	case STORE_MARK_NONE: break;
	}
	return note->due_ms;
}

void replay_note(struct open_tickets *tickets, const struct entry_note *note,
                 struct replay_place place)
{
	struct open_ticket ticket;

	if (!open_tickets_find(tickets, note->ticket, &ticket))
		return;
	ticket.state = note->mark == STORE_MARK_DEAD     ? OPEN_TICKET_DEAD
	               : note->mark == STORE_MARK_PARKED ? OPEN_TICKET_PARKED
	                                                 : OPEN_TICKET_DUE;
	ticket.attempt = cut_attempt(note->attempt);
	ticket.due_ms = replay_due_ms(note, ticket.due_ms);
	ticket.last = note->mark;
	ticket.status = note->status;
	ticket.note_segment = place.segment;
	ticket.note_offset = place.offset;
	open_tickets_update(tickets, &ticket);
}

_Static_assert(CLAIMS_RECORD_FLAGS == TABLE_FLAGS_ALL, "the index keeps all flags of a record");

struct recovery {
	struct local_store *local;
	struct error_text *text;
	struct catalog catalog;
	struct loader *loader;
	uint64_t now_ms;
	uint64_t steady_ms; /* the latest that was written */
	uint64_t max_ticket;
	/* of the number being read */
	struct segment_info item;
	uint64_t record_count;
	uint64_t number;
	bool with_tickets;
	bool claims_bad; /* its claims file was looked at, and is not believed */
	struct journal_end end;
};

/* --- the superblock and the files -------------------------------------- */

static int open_superblock(struct recovery *recovery)
{
	struct local_store *local = recovery->local;

	int r = superblock_open(&local->superblock, &local->folder, recovery->text);
	if (r == -ENOENT) {
		if (recovery->catalog.segments.count || recovery->catalog.claims.count)
			return error_fill(recovery->text, ERR_DAMAGED,
			                  "superblock is missing, but there are segments");
		r = superblock_create(&local->superblock, &local->folder);
		if (r < 0)
			return error_fill(recovery->text, r, "superblock: %s", error_name(r));
	} else if (r < 0) {
		return r;
	}
	if (local->superblock.one_slot_bad)
		local_log(local, LOCAL_STORE_WARNING,
		          "superblock slot is damaged; using the other one");
	return 0;
}

static int remove_one(const struct recovery *recovery, const char *name)
{
	int r = folder_remove(&recovery->local->folder, name);

	return r < 0 ? error_fill(recovery->text, r, "%s cannot be removed: %s", name,
	                          error_name(r))
	             : 0;
}

static int remove_all(const struct recovery *recovery, const struct catalog_numbers *numbers,
                      enum file_kind kind, uint64_t below)
{
	char name[FORMAT_NAME_MAX];
	int r = 0;

	for (size_t i = 0; i < numbers->count && r == 0; i++) {
		if (numbers->items[i] >= below)
			continue;
		format_name(name, numbers->items[i], kind);
		r = remove_one(recovery, name);
	}
	return r;
}

/* Files of work that a crash cut short. */
static int remove_leftovers(struct recovery *recovery)
{
	const struct catalog *catalog = &recovery->catalog;

	int r = remove_one(recovery, "lock"); /* earlier builds locked a file */
	if (r == 0)
		r = remove_one(recovery, "spare.seg");
	if (r == 0)
		r = remove_all(recovery, &catalog->unused, FILE_KIND_SEGMENT, UINT64_MAX);
	if (r == 0)
		r = remove_all(recovery, &catalog->unsure, FILE_KIND_CLAIMS, UINT64_MAX);
	if (r == 0)
		r = remove_all(recovery, &catalog->segments, FILE_KIND_SEGMENT, catalog->oldest);
	if (r == 0)
		r = remove_all(recovery, &catalog->claims, FILE_KIND_CLAIMS, catalog->oldest);
	/* What is seen must stay seen, also after the next loss of power. */
	if (r < 0)
		return r;
	r = folder_sync(&recovery->local->folder);
	return r < 0 ? error_fill(recovery->text, r, "the folder cannot be synced: %s",
	                          error_name(r))
	             : 0;
}

/* --- entries ---------------------------------------------------------- */

static int take_claim(struct recovery *recovery, struct digest digest, uint64_t ticket,
                      uint32_t window_s, uint32_t flags)
{
	uint64_t expiry_ms = window_end_ms(ticket, window_s);

	if (expiry_ms > recovery->item.max_expiry_ms)
		recovery->item.max_expiry_ms = expiry_ms;
	recovery->record_count++;
	return loader_add(recovery->loader, digest, ticket, window_s, flags);
}

static int take_newest(struct recovery *recovery, const struct entry_newest *newest)
{
	uint64_t expiry_ms = window_end_ms(newest->ticket, newest->window_s);
	struct newest_record record = { .digest = newest->digest,
		                        .order = newest->order,
		                        .ticket = newest->ticket,
		                        .window_s = newest->window_s };

	recovery->record_count++;
	if (expiry_ms > recovery->item.max_expiry_ms)
		recovery->item.max_expiry_ms = expiry_ms;
	if (expiry_ms <= recovery->now_ms)
		return 0;
	return newest_put(recovery->local->newest, &record);
}

static int take_seen(struct recovery *recovery, const struct tally_entry *entry)
{
	uint64_t expiry_ms = (uint64_t)entry->expiry_s * 1000;

	recovery->record_count++;
	if (expiry_ms > recovery->item.max_expiry_ms)
		recovery->item.max_expiry_ms = expiry_ms;
	if (expiry_ms <= recovery->now_ms)
		return 0;
	return tally_restore(recovery->local->tally, entry);
}

static uint32_t seconds(uint64_t ms)
{
	return ms / 1000 < UINT32_MAX ? (uint32_t)(ms / 1000) : UINT32_MAX;
}

static uint32_t cut_count(uint64_t count)
{
	return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static struct replay_place place_of(const struct recovery *recovery, const struct entry *entry,
                                    uint64_t body_offset)
{
	return (struct replay_place){ .segment = (uint32_t)recovery->number,
		                      .offset = (uint32_t)body_offset + entry->offset };
}

static int take_event(struct recovery *recovery, const struct entry *entry, uint64_t body_offset)
{
	const struct entry_event *event = &entry->event;

	uint32_t longest_s = entry_longest_window_s(entry);

	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct entry_claim claim = entry_claim_at(entry, i);
		int r = take_claim(recovery, claim.digest, event->ticket, claim.window_s,
		                   window_flags(longest_s, claim.window_s));
		if (r < 0)
			return r;
	}
	uint32_t tickets = entry_ticket_count(entry);
	if (event->ticket + tickets - 1 > recovery->item.max_ticket)
		recovery->item.max_ticket = event->ticket + tickets - 1;
	if (event->flags & EVENT_NO_TICKET)
		return 0;
	recovery->item.events += tickets;
	if (!recovery->with_tickets)
		return 0;
	return replay_event(recovery->local->tickets, entry,
	                    place_of(recovery, entry, body_offset));
}

static int take_entry(struct recovery *recovery, const struct entry *entry, uint64_t body_offset)
{
	struct open_tickets *tickets = recovery->local->tickets;

	switch (entry->kind) {
	case ENTRY_ROUTED:
	case ENTRY_EVENT: return take_event(recovery, entry, body_offset);
	case ENTRY_SETTLE:
		if (recovery->with_tickets)
			replay_settle(tickets, entry);
		return 0;
	case ENTRY_NOTE:
		if (recovery->with_tickets)
			replay_note(tickets, &entry->note, place_of(recovery, entry, body_offset));
		return 0;
	case ENTRY_SEEN:
		return take_seen(recovery, &(struct tally_entry){
						   .ticket = entry->seen.ticket,
						   .count = cut_count(entry->seen.count),
						   .last_s = seconds(entry->seen.last_ms),
						   .expiry_s = seconds(entry->seen.expiry_ms) });
	case ENTRY_NEWEST: return take_newest(recovery, &entry->newest);
	case ENTRY_CELL:
		if (!recovery->with_tickets)
			return 0;
		recovery->item.events += entry_cell_puts(&entry->cell);
		return cells_replay(recovery->local->cells, entry, recovery->number,
		                    (uint32_t)body_offset + entry->offset);
	}
	return ERR_DAMAGED;
}

/* --- segments --------------------------------------------------------- */

static int read_frames(struct recovery *recovery, struct reader *reader)
{
	struct frame_header header;
	const unsigned char *body;
	uint64_t offset;
	int r;

	while ((r = reader_next(reader, &header, &body, &offset)) > 0) {
		struct entry entry;
		uint32_t at = 0, count = 0;
		while ((r = entry_next(body, header.body_len, &at, &entry)) > 0) {
			r = take_entry(recovery, &entry, offset + sizeof(header));
			if (r < 0)
				break;
			count++;
		}
		if (r == ERR_DAMAGED || (r == 0 && count != header.entry_count))
			return reader_damaged(reader, offset, "an entry is not valid");
		if (r < 0)
			return error_fill(recovery->text, r, "recovery: %s", error_name(r));
	}
	return r;
}

static void begin_number(struct recovery *recovery, uint64_t number)
{
	recovery->item = (struct segment_info){ .sealed = true };
	recovery->record_count = 0;
	recovery->number = number;
	recovery->with_tickets = number >= recovery->catalog.scan_from;
	recovery->claims_bad = false;
}

static int end_number(struct recovery *recovery)
{
	struct local_store *local = recovery->local;

	if (recovery->item.max_ticket > recovery->max_ticket)
		recovery->max_ticket = recovery->item.max_ticket;
	int r = segment_list_add(&local->segments, recovery->number, &recovery->item);
	return r < 0 ? error_fill(recovery->text, r, "recovery: %s", error_name(r)) : 0;
}

/* The superblock said that this much was durable. */
static int check_durable(const struct recovery *recovery, const struct reader *reader)
{
	const struct superblock_slot *slot = &recovery->local->superblock.slot;

	if (slot->durable_segment != reader->number)
		return 0;
	if (reader->at < slot->durable_end || reader->sequence < slot->durable_sequence)
		return reader_damaged(reader, reader->at, "frames that were durable are not valid");
	return 0;
}

static void tell_torn(const struct recovery *recovery, const struct reader *reader)
{
	char name[FORMAT_NAME_MAX];

	if (!reader->torn)
		return;
	format_name(name, reader->number, FILE_KIND_SEGMENT);
	local_log(recovery->local, LOCAL_STORE_WARNING,
	          "incomplete write ignored: %s ends at offset %llu", name,
	          (unsigned long long)reader->at);
}

static void tell_claims_bad(struct recovery *recovery, struct error_text *text)
{
	recovery->claims_bad = true;
	local_log(recovery->local, LOCAL_STORE_WARNING,
	          "claims file is damaged; its claims are read from the journal segment: %s",
	          text->text);
	text->text[0] = '\0';
}

static int skip_records(void *user, const struct claims_record *records, size_t count)
{
	(void)user;
	(void)records;
	(void)count;
	return 0;
}

/*
 * Does the claims file have what the segment has? It will be the only copy when
 * the segment leaves, so its name alone proves nothing. One that is not believed
 * goes, and is made again: the segment was read whole just now.
 */
static bool claims_file_good(struct recovery *recovery)
{
	const struct folder *folder = &recovery->local->folder;
	const struct claims_visitor visitor = { .each = skip_records };
	struct claims_summary summary;
	struct error_text text = { "" };

	if (!catalog_has_claims(&recovery->catalog, recovery->number))
		return false;
	if (!recovery->claims_bad) {
		int r = claims_file_read(folder, recovery->number, &visitor, &summary, &text);
		if (r == 0 && summary.record_count == recovery->record_count)
			return true;
		if (!text.text[0])
			error_fill(&text, r, "the claims file of number %llu: %s",
			           (unsigned long long)recovery->number,
			           r == 0 ? "not complete" : error_name(r));
		tell_claims_bad(recovery, &text);
	}
	char name[FORMAT_NAME_MAX];
	format_name(name, recovery->number, FILE_KIND_CLAIMS);
	folder_remove(folder, name); /* if it stays, the new one takes its name */
	return false;
}

static void note_segment(struct recovery *recovery, const struct reader *reader,
                         const struct catalog_successor *successor)
{
	struct segment_info *item = &recovery->item;

	item->epoch = reader->header.epoch;
	item->end = reader->at;
	item->segment_bytes = (uint32_t)reader->size;
	item->sealed_ms = successor->sealed_ms ? successor->sealed_ms : reader->steady_ms;
	item->dense = recovery->record_count * sizeof(struct claims_record) > item->end / 4;
	item->has_claims_file = claims_file_good(recovery);
	if (item->has_claims_file)
		item->claims_bytes = claims_file_bytes(recovery->record_count);
	if (reader->steady_ms > recovery->steady_ms)
		recovery->steady_ms = reader->steady_ms;
}

/* Can the last segment be gone on with (F9)? After a slot was lost the other one
 * may be older than what was written since. */
static bool end_exact(const struct recovery *recovery, const struct reader *reader)
{
	const struct superblock *superblock = &recovery->local->superblock;
	const struct superblock_slot *slot = &superblock->slot;

	if (reader->header.size != recovery->local->folder.segment_bytes)
		return false;
	if (reader->blank)
		return true;
	return (slot->flags & SUPERBLOCK_OPEN_END) && !superblock->one_slot_bad && !reader->torn &&
	       slot->durable_segment == reader->number && slot->durable_end == reader->at &&
	       slot->durable_sequence == reader->sequence;
}

static int take_frames(struct recovery *recovery, const struct catalog_successor *successor,
                       struct reader *reader)
{
	int r = read_frames(recovery, reader);
	if (r < 0)
		return r;
	if (successor->end && reader->sequence != successor->sequence)
		return reader_damaged(reader, reader->at, "a frame is missing at the end");
	r = check_durable(recovery, reader);
	if (r < 0)
		return r;
	tell_torn(recovery, reader);
	note_segment(recovery, reader, successor);
	if (recovery->number == recovery->catalog.last)
		recovery->end = (struct journal_end){
			.position = { .segment = reader->number,
			              .end = reader->at,
			              .sequence = reader->sequence },
			.exact = end_exact(recovery, reader),
			.item = recovery->item,
			.claim_count = recovery->record_count,
		};
	return 0;
}

static int read_segment(struct recovery *recovery, const struct catalog_successor *successor)
{
	struct reader reader;

	int r = reader_open(&reader, &recovery->local->folder, recovery->number, successor->end,
	                    recovery->text);
	/* A process that was killed may have left its last write in the cache of
	 * the disk: what is read here must be durable before it counts. */
	if (r == 0 && recovery->number == recovery->catalog.last)
		r = reader.folder->fs->methods->sync_data(reader.folder->fs, reader.window.fd);
	if (r == 0)
		r = take_frames(recovery, successor, &reader);
	reader_close(&reader);
	return r;
}

static int take_record(struct recovery *recovery, const struct claims_record *record)
{
	switch (record->kind) {
	case CLAIMS_RECORD_CLAIM:
		if (record->flags & ~TABLE_FLAGS_ALL)
			return ERR_DAMAGED;
		return take_claim(recovery, record->digest, record->ticket, record->window_s,
		                  record->flags);
	case CLAIMS_RECORD_SEEN:
		return take_seen(recovery,
		                 &(struct tally_entry){
					 .ticket = record->ticket,
					 .count = cut_count(record->digest.word[0]),
					 .last_s = seconds(record->digest.word[1]),
					 .expiry_s = seconds(ticket_time_ms(record->ticket) +
		                                             (uint64_t)record->window_s * 1000) });
	case CLAIMS_RECORD_NEWEST:
		if (record->flags >> WINDOW_BITS)
			return ERR_DAMAGED;
		struct entry_newest newest = entry_newest_of_record(record);
		return take_newest(recovery, &newest);
	}
	return ERR_DAMAGED;
}

static int each_record(void *user, const struct claims_record *records, size_t count)
{
	struct recovery *recovery = user;

	for (size_t i = 0; i < count; i++) {
		int r = format_ticket_valid(records[i].ticket) ? take_record(recovery, &records[i])
		                                               : ERR_DAMAGED;
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_claims(struct recovery *recovery)
{
	const struct claims_visitor visitor = { .each = each_record, .user = recovery };
	struct segment_info *item = &recovery->item;
	struct claims_summary summary;

	int r = claims_file_read(&recovery->local->folder, recovery->number, &visitor, &summary,
	                         recovery->text);
	if (r < 0)
		return r;
	item->has_claims_file = true;
	item->claims_bytes = claims_file_bytes(summary.record_count);
	item->sealed_ms = summary.sealed_ms;
	item->max_expiry_ms = summary.max_expiry_ms;
	item->max_ticket = summary.max_ticket;
	if (catalog_has_segment(&recovery->catalog, recovery->number))
		item->segment_bytes = recovery->local->folder.segment_bytes;
	return 0;
}

static int read_number(struct recovery *recovery, uint64_t number)
{
	bool has_segment = catalog_has_segment(&recovery->catalog, number);
	struct catalog_successor successor;
	int r = ERR_DAMAGED;

	begin_number(recovery, number);
	if (number < recovery->catalog.scan_from &&
	    catalog_has_claims(&recovery->catalog, number)) {
		r = read_claims(recovery);
		if (r != ERR_DAMAGED || !has_segment)
			return r < 0 ? r : end_number(recovery);
		begin_number(recovery, number);
		tell_claims_bad(recovery, recovery->text);
	}
	r = catalog_successor(&recovery->catalog, &recovery->local->folder, number, &successor,
	                      recovery->text);
	if (r < 0)
		return r;
	if (number < recovery->catalog.scan_from && successor.expiry_ms &&
	    successor.expiry_ms <= recovery->now_ms) {
		recovery->item.dense = true;
		recovery->item.max_expiry_ms = successor.expiry_ms;
		recovery->item.segment_bytes = recovery->local->folder.segment_bytes;
		recovery->item.end = successor.end;
		recovery->item.sealed_ms = successor.sealed_ms;
		return end_number(recovery);
	}
	r = read_segment(recovery, &successor);
	return r < 0 ? r : end_number(recovery);
}

/* --- the clock -------------------------------------------------------- */

/* Time as the superblock has it, and never before the last frame's. */
static void start_clock(struct recovery *recovery)
{
	struct local_store *local = recovery->local;
	struct steady_clock_state state = superblock_clock(&local->superblock.slot);
	bool same_boot = memcmp(state.boot_id, local->options.clock->boot_id,
	                        sizeof(state.boot_id)) == 0;

	/* A superblock without a time is that of a folder just made (nothing was
	 * answered yet): that is no reboot, and the time since boot did not pass. */
	if (!same_boot && state.steady_ms && recovery->steady_ms > state.steady_ms)
		state.steady_ms = recovery->steady_ms;
	steady_clock_start(&local->clock, local->options.clock, &state);
	if (steady_clock_now(&local->clock) < recovery->steady_ms)
		local->clock.now.steady_ms = recovery->steady_ms;
	recovery->now_ms = steady_clock_last(&local->clock);
}

/* --- all together ----------------------------------------------------- */

static int load(struct recovery *recovery)
{
	struct local_store *local = recovery->local;

	int r = loader_new(&(struct loader_options){ .table = local->table,
	                                             .now_ms = recovery->now_ms,
	                                             .expected =
	                                                     local->superblock.slot.live_claims },
	                   &recovery->loader);
	if (r < 0)
		return error_fill(recovery->text, r, "recovery: %s", error_name(r));
	cells_replay_begin(local->cells, recovery->now_ms, local->superblock.slot.live_cells);
	for (uint64_t n = recovery->catalog.oldest; n <= recovery->catalog.last; n++) {
		r = read_number(recovery, n);
		if (r < 0)
			return r;
	}
	r = cells_replay_end(local->cells);
	if (r == 0)
		r = loader_finish(recovery->loader);
	return r < 0 ? error_fill(recovery->text, r, "recovery: %s", error_name(r)) : 0;
}

static int recover(struct recovery *recovery)
{
	struct local_store *local = recovery->local;
	const struct superblock_slot *slot = &local->superblock.slot;
	struct catalog *catalog = &recovery->catalog;

	int r = catalog_list(catalog, &local->folder);
	if (r == 0)
		r = open_superblock(recovery);
	if (r == 0)
		r = catalog_range(catalog, &local->folder, slot, recovery->text);
	for (uint64_t n = catalog->oldest; n <= catalog->last && r == 0; n++) /* F6 */
		r = catalog_check(catalog, n, recovery->text);
	if (r == 0)
		r = remove_leftovers(recovery);
	if (r < 0)
		return r;
	start_clock(recovery);
	r = load(recovery);
	if (r < 0)
		return r;
	start_clock(recovery);
	local->last_ticket = recovery->max_ticket > slot->last_ticket ? recovery->max_ticket
	                                                              : slot->last_ticket;
	local->durable_ticket = local->last_ticket;
	local->oldest = catalog->oldest;
	local->has_cells = slot->flags & SUPERBLOCK_CELLS;
	journal_resume(&local->journal, &recovery->end);
	return 0;
}

int local_recover(struct local_store *local, struct journal_end *ret_end, struct error_text *text)
{
	struct recovery recovery = { .local = local, .text = text };

	int r = recover(&recovery);
	loader_free(recovery.loader);
	catalog_free(&recovery.catalog);
	if (r == 0)
		*ret_end = recovery.end;
	return r;
}
