/* inspect: see inspect.h. */
#include "store/local/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "codec/json_write.h"
#include "gate/metadata.h"
#include "gate/ticket.h"
#include "gate/verdict.h"
#include "store/local/cells.h"
#include "store/local/index/open_tickets.h"
#include "store/local/journal/claims_file.h"
#include "store/local/journal/format.h"
#include "store/local/journal/reader.h"
#include "store/local/journal/segment.h"
#include "store/local/journal/superblock.h"
#include "store/local/recovery.h"

/*
 * A walk goes through everything in a data folder, read-only, for verify and dump.
 *
 * Threads:   one owner.
 * Failure:   what a visitor returns if not 0; ERR_BUSY, -ENOENT, ERR_VERSION,
 *            -errno, with a text. What is found damaged is given to the visitor,
 *            and the walk continues.
 *
 * A start does not read everything (recovery.c): not a segment whose claims stand
 * in a good claims file or have expired, if no ticket of it is open. The walk
 * does, and tells apart what a start would refuse from what it would not see.
 */

struct journal_walk {
	struct folder folder;
	struct file_system *fs;
	int lock_fd;
	struct superblock superblock;
	struct catalog catalog;
	uint64_t now_ms; /* by the store's clock, as a start would have it */
	uint64_t bytes;  /* of all files read */
	struct error_text *text;
	struct error_text told; /* the last damage: it may be met twice */
};

enum journal_finding {
	JOURNAL_DAMAGE, /* a start refuses the folder */
	JOURNAL_LOST,   /* cannot be read, but a start does not need it */
	JOURNAL_MENDED, /* a start makes it good again */
};

struct journal_visitor {
	int (*segment)(void *user, const struct segment_header *header, uint64_t frames,
	               uint64_t end);
	int (*entry)(void *user, const struct segment_header *segment,
	             const struct frame_header *frame, const struct entry *entry);
	/* `alone`: the segment is gone, these are the only records of its claims. */
	int (*records)(void *user, uint64_t number, bool alone, const struct claims_record *records,
	               size_t count);
	int (*torn)(void *user, uint64_t number, uint64_t offset);
	int (*found)(void *user, enum journal_finding finding, const char *text);
	void *user;
};

/* --- the walk ---------------------------------------------------------------- */

static int walk_open(struct journal_walk *walk, const struct journal_inspect_options *options,
                     struct error_text *text)
{
	*walk = (struct journal_walk){ .lock_fd = -1, .superblock.fd = -1, .text = text };
	walk->fs = options->fs ? options->fs : file_system_real();
	walk->folder = (struct folder){ .fs = walk->fs, .path = options->path };
	int r = walk->fs->methods->lock_dir(walk->fs, walk->folder.path, &walk->lock_fd);
	if (r == -ENOENT)
		return error_fill(text, r, "no data folder");
	if (r == ERR_BUSY)
		return error_fill(text, r, "in use by another process");
	if (r < 0)
		return error_fill(text, r, "%s", error_name(r));
	r = catalog_list(&walk->catalog, &walk->folder);
	if (r < 0)
		return error_fill(text, r, "%s", error_name(r));
	r = superblock_read(&walk->superblock, &walk->folder, text);
	if (r == -ENOENT && (walk->catalog.segments.count || walk->catalog.claims.count))
		return error_fill(text, ERR_DAMAGED,
		                  "superblock is missing, but there are segments");
	if (r == -ENOENT)
		return error_fill(text, r, "there is no data in it");
	if (r < 0)
		return r;
	struct steady_clock_state state = superblock_clock(&walk->superblock.slot);
	struct steady_clock steady;
	steady_clock_start(&steady, options->clock ? options->clock : clock_system(), &state);
	walk->now_ms = steady_clock_now(&steady);
	return 0;
}

static void walk_close(struct journal_walk *walk)
{
	if (walk->lock_fd >= 0)
		walk->fs->methods->close(walk->fs, walk->lock_fd);
	walk->lock_fd = -1;
	superblock_close(&walk->superblock, &walk->folder);
	catalog_free(&walk->catalog);
}

static int tell(struct journal_walk *walk, const struct journal_visitor *visitor,
                enum journal_finding finding, const struct error_text *text)
{
	/* A bad header is met by the segment before it and in its own turn. */
	if (strcmp(walk->told.text, text->text) == 0)
		return 0;
	walk->told = *text;
	return visitor->found(visitor->user, finding, text->text);
}

static int tell_with(struct journal_walk *walk, const struct journal_visitor *visitor,
                     enum journal_finding finding, const struct error_text *text,
                     const char *comfort)
{
	struct error_text whole;

	error_fill(&whole, 0, "%s; %s", text->text, comfort);
	return tell(walk, visitor, finding, &whole);
}

/* What cannot be read and would have to be: damage is reported, and the walk continues.
 * Anything else ends it, as it ends a start. */
static int tell_needed(struct journal_walk *walk, const struct journal_visitor *visitor, int error,
                       const struct error_text *text)
{
	if (error == ERR_DAMAGED)
		return tell(walk, visitor, JOURNAL_DAMAGE, text);
	return error_fill(walk->text, error, "%s", text->text[0] ? text->text : error_name(error));
}

/* A segment being read. */
struct segment_walk {
	struct journal_walk *walk;
	const struct journal_visitor *visitor;
	struct reader reader;
	struct error_text text;
	struct catalog_successor successor;
	bool needed; /* a start reads it too */
};

/* Damage, of which the text tells, or another failure. */
static int tell_segment(struct segment_walk *on, int error)
{
	if (on->needed)
		return tell_needed(on->walk, on->visitor, error, &on->text);
	return tell_with(on->walk, on->visitor, JOURNAL_LOST, &on->text,
	                 "a start does not need it: no ticket of it is open, and its claims "
	                 "are elsewhere or have expired");
}

static int tell_damaged(struct segment_walk *on, uint64_t offset, const char *what)
{
	return tell_segment(on, reader_damaged(&on->reader, offset, what));
}

static int walk_frame(struct segment_walk *on, const struct frame_header *frame,
                      const unsigned char *body, uint64_t offset)
{
	const struct segment_header *segment = &on->reader.header;
	struct entry entry;
	uint32_t at = 0, count = 0;
	int r, got;

	while ((got = entry_next(body, frame->body_len, &at, &entry)) > 0) {
		if (!reader_entry_valid(body + entry.offset, &entry, segment->epoch)) {
			/* A start takes it; its ticket is parked when it is served. */
			reader_damaged(&on->reader, offset + sizeof(*frame) + entry.offset,
			               "the event does not check");
			r = tell_with(on->walk, on->visitor, JOURNAL_LOST, &on->text,
			              "if its ticket is open, it is parked");
		} else {
			r = on->visitor->entry(on->visitor->user, segment, frame, &entry);
		}
		if (r != 0)
			return r;
		count++;
	}
	if (got == 0 && count == frame->entry_count)
		return 0;
	return tell_damaged(on, offset, "an entry is not valid");
}

static int walk_end(struct segment_walk *on)
{
	const struct superblock_slot *slot = &on->walk->superblock.slot;
	const struct reader *reader = &on->reader;
	int r = 0;

	if (on->successor.end && reader->sequence != on->successor.sequence)
		r = tell_damaged(on, reader->at, "a frame is missing at the end");
	else if (reader->number == slot->durable_segment &&
	         (reader->at < slot->durable_end || reader->sequence < slot->durable_sequence))
		r = tell_damaged(on, reader->at, "frames that were durable are not valid");
	else if (reader->torn)
		r = on->visitor->torn(on->visitor->user, reader->number, reader->at);
	if (r != 0)
		return r;
	return on->visitor->segment(on->visitor->user, &reader->header, reader->frames, reader->at);
}

static int walk_frames(struct segment_walk *on)
{
	struct frame_header frame;
	const unsigned char *body;
	uint64_t offset;
	int got;

	while ((got = reader_next(&on->reader, &frame, &body, &offset)) > 0) {
		int r = walk_frame(on, &frame, body, offset);
		if (r != 0)
			return r;
	}
	return got < 0 ? tell_segment(on, got) : walk_end(on);
}

/* Where the segment ends, if its successor can tell; else it is read as far as it
 * goes. */
static int find_end(struct segment_walk *on, uint64_t number)
{
	const struct catalog *catalog = &on->walk->catalog;

	int r = catalog_successor(catalog, &on->walk->folder, number, &on->successor, &on->text);
	if (r < 0) {
		on->successor = (struct catalog_successor){ 0 };
		r = on->needed ? tell_needed(on->walk, on->visitor, r, &on->text) : 0;
		on->needed = false;
	} else if (number < catalog->scan_from && on->successor.expiry_ms &&
	           on->successor.expiry_ms <= on->walk->now_ms) {
		on->needed = false;
	}
	on->text.text[0] = '\0';
	return r;
}

static int walk_segment(struct journal_walk *walk, const struct journal_visitor *visitor,
                        uint64_t number, bool needed)
{
	struct segment_walk on = { .walk = walk, .visitor = visitor, .needed = needed };

	int r = find_end(&on, number);
	if (r != 0)
		return r;
	r = reader_open(&on.reader, &walk->folder, number, on.successor.end, &on.text);
	r = r < 0 ? tell_segment(&on, r) : walk_frames(&on);
	walk->bytes += on.reader.size;
	reader_close(&on.reader);
	return r;
}

struct claims_walk {
	const struct journal_visitor *visitor;
	uint64_t number;
	bool alone;
	int result;
};

static int each_records(void *user, const struct claims_record *records, size_t count)
{
	struct claims_walk *claims = user;

	claims->result = claims->visitor->records(claims->visitor->user, claims->number,
	                                          claims->alone, records, count);
	return claims->result;
}

/* A claims file that is not good is made again from its segment, if that is there
 * and sound; see read_number() and claims_file_good() of recovery.c. */
static int walk_claims(struct journal_walk *walk, const struct journal_visitor *visitor,
                       uint64_t number, bool *ret_needs_segment)
{
	bool has_segment = catalog_has_segment(&walk->catalog, number);
	bool read_first = number < walk->catalog.scan_from;
	struct claims_walk claims = { .visitor = visitor, .number = number, .alone = !has_segment };
	struct claims_visitor each = { .each = each_records, .user = &claims };
	struct claims_summary summary = { 0 };
	struct error_text text = { "" };

	int r = claims_file_read(&walk->folder, number, &each, &summary, &text);
	walk->bytes += claims_file_bytes(summary.record_count);
	*ret_needs_segment = r < 0 || !read_first;
	if (claims.result != 0)
		return claims.result;
	if (r == 0)
		return 0;
	if (!read_first || (r == ERR_DAMAGED && has_segment))
		return tell_with(walk, visitor, JOURNAL_MENDED, &text,
		                 "a start writes it again from its segment");
	return tell_needed(walk, visitor, r, &text);
}

static int walk_number(struct journal_walk *walk, const struct journal_visitor *visitor,
                       uint64_t number)
{
	struct error_text text = { "" };
	bool needs_segment = true;
	int r = 0;

	if (catalog_check(&walk->catalog, number, &text) < 0)
		r = tell(walk, visitor, JOURNAL_DAMAGE, &text);
	if (r == 0 && catalog_has_claims(&walk->catalog, number))
		r = walk_claims(walk, visitor, number, &needs_segment);
	if (r == 0 && catalog_has_segment(&walk->catalog, number))
		r = walk_segment(walk, visitor, number, needs_segment);
	return r;
}

static int walk_run(struct journal_walk *walk, const struct journal_visitor *visitor)
{
	struct catalog *catalog = &walk->catalog;
	struct error_text text = { "superblock: one of its two slots is not valid; the other is "
		                   "used, and both are written anew" };
	int r = 0;

	if (walk->superblock.one_slot_bad)
		r = tell(walk, visitor, JOURNAL_MENDED, &text);
	text.text[0] = '\0';
	int found = catalog_range(catalog, &walk->folder, &walk->superblock.slot, &text);
	if (found < 0 && r == 0)
		r = tell_needed(walk, visitor, found, &text);
	for (uint64_t n = catalog->oldest; n <= catalog->last && r == 0; n++)
		r = walk_number(walk, visitor, n);
	return r;
}

/* --- verify ------------------------------------------------------------ */

struct verify {
	const struct journal_verify_sink *sink;
	struct journal_report report;
	struct open_tickets *tickets;
	struct cells *cells;
	uint64_t scan_from;
	uint64_t now_ms;
};

static void count_claim(struct verify *verify, uint64_t ticket, uint32_t window_s)
{
	bool live = ticket_time_ms(ticket) + (uint64_t)window_s * 1000 > verify->now_ms;

	verify->report.claims++;
	verify->report.live_claims += live;
	verify->report.expired_claims += !live;
}

static int verify_segment(void *user, const struct segment_header *header, uint64_t frames,
                          uint64_t end)
{
	struct verify *verify = user;

	(void)header;
	(void)end;
	verify->report.segments++;
	verify->report.frames += frames;
	return 0;
}

static int verify_event(struct verify *verify, uint64_t number, const struct entry *entry)
{
	struct journal_report *report = &verify->report;
	uint64_t at_ms = ticket_time_ms(entry->event.ticket);

	if (!(entry->event.flags & EVENT_CARRIED)) {
		report->events++;
		if (report->first_event_ms == 0 || at_ms < report->first_event_ms)
			report->first_event_ms = at_ms;
		if (at_ms > report->last_event_ms)
			report->last_event_ms = at_ms;
	}
	report->payload_bytes += entry->payload.len;
	for (uint32_t i = 0; i < entry->event.claim_count; i++)
		count_claim(verify, entry->event.ticket, entry_claim_at(entry, i).window_s);
	if (entry->event.flags & EVENT_NO_TICKET || number < verify->scan_from)
		return 0;
	return replay_event(verify->tickets, entry,
	                    (struct replay_place){ (uint32_t)number, entry->offset });
}

/* As a start does: all from the superblock's `scan from` on, in order. The places are of
 * no use here. */
static int verify_cell(struct verify *verify, uint64_t number, const struct entry *entry)
{
	verify->report.cell_records++;
	if (number < verify->scan_from)
		return 0;
	return cells_replay(verify->cells, entry, number, entry->offset);
}

static int verify_entry(void *user, const struct segment_header *segment,
                        const struct frame_header *frame, const struct entry *entry)
{
	struct verify *verify = user;

	(void)frame;
	switch (entry->kind) {
	case ENTRY_ROUTED:
	case ENTRY_EVENT: return verify_event(verify, segment->number, entry);
	case ENTRY_SETTLE:
		verify->report.settles++;
		replay_settle(verify->tickets, entry);
		break;
	case ENTRY_NOTE:
		verify->report.notes++;
		replay_note(verify->tickets, &entry->note,
		            (struct replay_place){ (uint32_t)segment->number, entry->offset });
		break;
	case ENTRY_SEEN: verify->report.seen_records++; break;
	case ENTRY_NEWEST: verify->report.newest_records++; break;
	case ENTRY_CELL: return verify_cell(verify, segment->number, entry);
	}
	return 0;
}

static int verify_records(void *user, uint64_t number, bool alone,
                          const struct claims_record *records, size_t count)
{
	struct verify *verify = user;

	(void)number;
	for (size_t i = 0; i < count && alone; i++) {
		if (records[i].kind == CLAIMS_RECORD_CLAIM)
			count_claim(verify, records[i].ticket, records[i].window_s);
		else if (records[i].kind == CLAIMS_RECORD_NEWEST)
			verify->report.newest_records++;
		else
			verify->report.seen_records++;
	}
	return 0;
}

static int verify_torn(void *user, uint64_t number, uint64_t offset)
{
	struct verify *verify = user;

	verify->report.torn_tail = true;
	verify->report.torn_segment = number;
	verify->report.torn_offset = offset;
	return 0;
}

static int verify_found(void *user, enum journal_finding finding, const char *text)
{
	struct verify *verify = user;
	const struct journal_verify_sink *sink = verify->sink;

	if (finding == JOURNAL_DAMAGE) {
		verify->report.damages++;
		if (sink && sink->damage)
			sink->damage(sink->user, text);
	} else {
		verify->report.warnings++;
		if (sink && sink->warning)
			sink->warning(sink->user, text);
	}
	return 0;
}

static void report_folder(struct verify *verify, const struct journal_walk *walk)
{
	const struct superblock_slot *slot = &walk->superblock.slot;
	struct journal_report *report = &verify->report;

	report->version = slot->version;
	hex_encode(slot->folder_id, sizeof(slot->folder_id), report->folder_id);
	report->folder_id[2 * sizeof(slot->folder_id)] = '\0';
	report->clean = slot->flags & SUPERBLOCK_CLEAN;
	report->oldest = walk->catalog.oldest;
	report->last = walk->catalog.last;
	report->scan_from = walk->catalog.scan_from;
	report->claims_files = walk->catalog.claims.count;
	report->bytes = walk->bytes + 2ull * FORMAT_BLOCK;
	report->open_tickets = open_tickets_count(verify->tickets);
	report->held_tickets = open_tickets_in(verify->tickets, OPEN_TICKET_HELD);
	report->parked_tickets = open_tickets_in(verify->tickets, OPEN_TICKET_PARKED);
	report->dead_tickets = open_tickets_in(verify->tickets, OPEN_TICKET_DEAD);
	report->live_cells = cells_count(verify->cells);
}

static int verify_walk(struct journal_walk *walk, struct verify *verify)
{
	const struct journal_visitor visitor = { .segment = verify_segment,
		                                 .entry = verify_entry,
		                                 .records = verify_records,
		                                 .torn = verify_torn,
		                                 .found = verify_found,
		                                 .user = verify };

	int r = open_tickets_new(0, &verify->tickets);
	if (r == 0)
		r = cells_new(&verify->cells);
	if (r < 0)
		return r;
	cells_replay_begin(verify->cells, verify->now_ms, 0);
	/* The superblock's alone: the last header's may be higher, which only
	 * saves work. */
	verify->scan_from = walk->superblock.slot.scan_from;
	r = walk_run(walk, &visitor);
	if (r == 0)
		r = cells_replay_end(verify->cells);
	if (r == 0)
		report_folder(verify, walk);
	return r;
}

/* The texts name files; who reads them wants the folder too. */
static int tell_failed(const struct journal_inspect_options *options, int error,
                       const struct error_text *text, struct error_text *ret_text)
{
	return error_fill(ret_text, error, "%s: %s", options->path,
	                  text->text[0] ? text->text : error_name(error));
}

int journal_verify(const struct journal_inspect_options *options,
                   const struct journal_verify_sink *sink, struct journal_report *ret_report,
                   struct error_text *ret_text)
{
	struct verify verify = { .sink = sink };
	struct error_text text = { "" };
	struct journal_walk walk;

	int r = walk_open(&walk, options, &text);
	verify.now_ms = walk.now_ms;
	if (r == 0)
		r = verify_walk(&walk, &verify);
	walk_close(&walk);
	open_tickets_free(verify.tickets);
	cells_free(verify.cells);
	if (r < 0)
		return tell_failed(options, r, &text, ret_text);
	*ret_report = verify.report;
	if (verify.report.damages == 0)
		return 0;
	return error_fill(ret_text, ERR_DAMAGED, "%s is damaged in %llu place%s", options->path,
	                  (unsigned long long)verify.report.damages,
	                  verify.report.damages == 1 ? "" : "s");
}

/* --- dump -------------------------------------------------------------- */

struct dump {
	const struct journal_dump_sink *sink;
	struct buf line;
	struct error_text damage;
};

static int put_line(struct dump *dump)
{
	json_object_end(&dump->line);
	int r = dump->line.failed ? -ENOMEM
	                          : dump->sink->line(dump->sink->user, buf_span(&dump->line));

	buf_clear(&dump->line);
	return r;
}

static void put_kind(struct buf *line, const char *kind)
{
	json_object_begin(line, NULL);
	json_add_string(line, "kind", kind);
}

static void put_ticket(struct buf *line, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];

	ticket_text(ticket, text);
	json_add_text(line, "ticket", span_of(text, sizeof(text)));
	json_add_u64(line, "at_ms", ticket_time_ms(ticket));
}

static void put_digest(struct buf *line, const struct digest *digest)
{
	char hex[2 * sizeof(*digest)];

	hex_encode(digest, sizeof(*digest), hex);
	json_add_text(line, "digest", span_of(hex, sizeof(hex)));
}

/* Bytes that are no UTF-8 as base64, and a second member says so. */
static void put_bytes(struct buf *line, const char *name, struct span bytes)
{
	char encoding[32];
	size_t at = 0, n = 1;

	for (; at < bytes.len && n > 0; at += n)
		n = utf8_sequence(bytes.ptr + at, bytes.len - at);
	if (n > 0) {
		json_add_text(line, name, bytes);
		return;
	}
	json_add_base64(line, name, bytes);
	snprintf(encoding, sizeof(encoding), "%s_encoding", name);
	json_add_string(line, encoding, "base64");
}

static void put_routing(struct buf *line, const struct entry *entry)
{
	struct metadata metadata;

	json_array_begin(line, "legs");
	for (uint32_t i = 0; i < entry->leg_count; i++) {
		struct entry_leg leg = entry_leg_at(entry, i);
		char order[17];
		snprintf(order, sizeof(order), "%016llx", (unsigned long long)leg.order);
		json_object_begin(line, NULL);
		put_ticket(line, entry->event.ticket + i);
		json_add_u64(line, "sink", leg.sink);
		json_add_string(line, "order", order);
		json_object_end(line);
	}
	json_array_end(line);
	json_add_u64(line, "first_leg", entry->first_leg);
	if (metadata_read(entry->metadata, &metadata) < 0) {
		json_add_null(line, "letter");
		return;
	}
	json_object_begin(line, "letter");
	for (int i = 0; i < METADATA_FIELD_COUNT; i++)
		json_add_text_if(line, metadata_field_name((enum metadata_field)i),
		                 metadata.texts[i]);
	json_object_end(line);
}

static void put_event(struct buf *line, const struct entry *entry)
{
	const struct entry_event *event = &entry->event;

	put_kind(line, "event");
	put_ticket(line, event->ticket);
	json_add_text(line, "source", entry->source);
	json_add_u64(line, "flags", event->user_flags);
	json_add_bool(line, "no_ticket", event->flags & EVENT_NO_TICKET);
	json_add_bool(line, "carried", event->flags & EVENT_CARRIED);
	json_add_bool(line, "held", event->flags & EVENT_HELD);
	json_array_begin(line, "claims");
	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct entry_claim claim = entry_claim_at(entry, i);
		json_object_begin(line, NULL);
		put_digest(line, &claim.digest);
		json_add_u64(line, "window_s", claim.window_s);
		json_object_end(line);
	}
	json_array_end(line);
	if (event->kind == ENTRY_ROUTED)
		put_routing(line, entry);
	put_bytes(line, "payload", entry->payload);
}

static void put_note(struct buf *line, const struct entry *entry)
{
	static const char *const names[] = { "?",    "started", "failed",  "unknown",
		                             "dead", "parked",  "released" };
	const struct entry_note *note = &entry->note;

	put_kind(line, "note");
	put_ticket(line, note->ticket);
	json_add_string(line, "mark", note->mark < ARRAY_LEN(names) ? names[note->mark] : "?");
	json_add_u64(line, "attempt", note->attempt);
	json_add_u64(line, "status", note->status);
	json_add_u64(line, "noted_ms", note->at_ms);
	json_add_u64(line, "due_ms", note->due_ms);
	json_add_text(line, "text", entry->payload);
}

static void put_settle(struct buf *line, const struct entry *entry)
{
	const struct entry_settle *settle = &entry->settle;

	put_kind(line, "settle");
	put_ticket(line, settle->ticket);
	json_add_string(line, "outcome",
	                settle->outcome < OUTCOME_COUNT ? outcome_name(settle->outcome) : "?");
	json_add_u64(line, "attempt", settle->attempt);
	if (entry->due_ms)
		json_add_u64(line, "due_ms", entry->due_ms);
}

static void put_seen(struct buf *line, uint64_t ticket, uint64_t count, uint64_t last_ms)
{
	put_kind(line, "seen");
	put_ticket(line, ticket);
	json_add_u64(line, "count", count);
	json_add_u64(line, "last_ms", last_ms);
}

static void put_newest(struct buf *line, const struct entry_newest *newest)
{
	put_kind(line, "newest");
	put_ticket(line, newest->ticket);
	put_digest(line, &newest->digest);
	json_add_u64(line, "window_s", newest->window_s);
	json_add_u64(line, "order", newest->order);
}

static void put_cell(struct buf *line, const struct entry *entry)
{
	static const char *const acts[] = { "?", "put", "expire", "remove", "carried" };
	const struct entry_cell *cell = &entry->cell;
	struct digest digest = digest_with_check(cell->digest, 0);

	put_kind(line, "cell");
	json_add_string(line, "act", cell->act < ARRAY_LEN(acts) ? acts[cell->act] : "?");
	put_digest(line, &digest);
	json_add_u64(line, "expiry_ms", cell->expiry_ms);
	if (!entry_cell_puts(cell))
		return;
	put_bytes(line, "name", entry->source);
	put_bytes(line, "value", entry->payload);
}

static void put_record(struct buf *line, const struct claims_record *record)
{
	struct entry_newest newest;

	switch (record->kind) {
	case CLAIMS_RECORD_SEEN:
		put_seen(line, record->ticket, record->digest.word[0], record->digest.word[1]);
		return;
	case CLAIMS_RECORD_NEWEST:
		newest = entry_newest_of_record(record);
		put_newest(line, &newest);
		return;
	}
	put_kind(line, "claim");
	put_ticket(line, record->ticket);
	put_digest(line, &record->digest);
	json_add_u64(line, "window_s", record->window_s);
}

static int dump_entry(void *user, const struct segment_header *segment,
                      const struct frame_header *frame, const struct entry *entry)
{
	struct dump *dump = user;
	struct buf *line = &dump->line;

	switch (entry->kind) {
	case ENTRY_ROUTED:
	case ENTRY_EVENT: put_event(line, entry); break;
	case ENTRY_SETTLE: put_settle(line, entry); break;
	case ENTRY_NOTE: put_note(line, entry); break;
	case ENTRY_SEEN:
		put_seen(line, entry->seen.ticket, entry->seen.count, entry->seen.last_ms);
		break;
	case ENTRY_NEWEST: put_newest(line, &entry->newest); break;
	case ENTRY_CELL: put_cell(line, entry); break;
	}
	json_add_u64(line, "segment", segment->number);
	json_add_u64(line, "sequence", frame->sequence);
	return put_line(dump);
}

static int dump_segment(void *user, const struct segment_header *header, uint64_t frames,
                        uint64_t end)
{
	struct dump *dump = user;
	struct buf *line = &dump->line;

	put_kind(line, "segment");
	json_add_u64(line, "segment", header->number);
	json_add_u64(line, "frames", frames);
	json_add_u64(line, "end", end);
	json_add_u64(line, "first_sequence", header->first_sequence);
	json_add_u64(line, "scan_from", header->scan_from);
	json_add_u64(line, "began_ms", header->steady_ms);
	return put_line(dump);
}

static int dump_records(void *user, uint64_t number, bool alone,
                        const struct claims_record *records, size_t count)
{
	struct dump *dump = user;
	int r = 0;

	for (size_t i = 0; i < count && alone && r == 0; i++) {
		put_record(&dump->line, &records[i]);
		json_add_u64(&dump->line, "segment", number);
		r = put_line(dump);
	}
	return r;
}

static int dump_torn(void *user, uint64_t number, uint64_t offset)
{
	struct dump *dump = user;

	put_kind(&dump->line, "torn");
	json_add_u64(&dump->line, "segment", number);
	json_add_u64(&dump->line, "offset", offset);
	return put_line(dump);
}

/* What is sound is dumped all the same; the end tells of the first damage. */
static int dump_found(void *user, enum journal_finding finding, const char *text)
{
	struct dump *dump = user;

	if (finding != JOURNAL_MENDED && !dump->damage.text[0])
		error_fill(&dump->damage, ERR_DAMAGED, "%s", text);
	return 0;
}

int journal_dump(const struct journal_inspect_options *options,
                 const struct journal_dump_sink *sink, struct error_text *ret_text)
{
	struct dump dump = { .sink = sink };
	struct error_text text = { "" };
	const struct journal_visitor visitor = { .segment = dump_segment,
		                                 .entry = dump_entry,
		                                 .records = dump_records,
		                                 .torn = dump_torn,
		                                 .found = dump_found,
		                                 .user = &dump };
	struct journal_walk walk;

	int r = walk_open(&walk, options, &text);
	if (r == 0)
		r = walk_run(&walk, &visitor);
	walk_close(&walk);
	buf_free(&dump.line);
	if (r < 0)
		return tell_failed(options, r, &text, ret_text);
	if (r == 0 && dump.damage.text[0])
		return error_fill(ret_text, ERR_DAMAGED, "%s: %s", options->path, dump.damage.text);
	return r;
}

/* --- finding one event ------------------------------------------------------- */

/* A ticket's time may be a little ahead of the clock, so that its segment may seem
 * to have begun after it. */
#define SEGMENTS_MAX 2

enum { FOUND_NOT = 0, FOUND = 1, FOUND_PASSED = 2 /* it would have come before this */ };

static int look_in_frame(const unsigned char *body, uint32_t len, uint64_t ticket,
                         struct buf *ret_payload)
{
	struct entry entry;
	uint32_t offset = 0;
	int r;

	while ((r = entry_next(body, len, &offset, &entry)) == 1) {
		if (entry.kind != ENTRY_EVENT)
			continue;
		if (entry.event.ticket == ticket && !(entry.event.flags & EVENT_NO_TICKET)) {
			buf_append_span(ret_payload, entry.payload);
			return ret_payload->failed ? ret_payload->failed : FOUND;
		}
		if (entry.event.ticket > ticket && !(entry.event.flags & EVENT_CARRIED))
			return FOUND_PASSED;
	}
	return r;
}

/* As the next one's header tells; 0: it is the last. */
static int read_end(const struct folder *folder, uint64_t number, uint64_t *ret_end)
{
	struct segment_header next;

	int r = segment_header_of(folder, number + 1, &next);
	*ret_end = r == 0 && next.previous == number ? next.previous_end : 0;
	return r == -ENOMEM ? r : 0;
}

static int look_in_segment(const struct folder *folder, uint64_t number, uint64_t ticket,
                           struct buf *ret_payload)
{
	struct error_text text = { "" };
	struct frame_header header;
	const unsigned char *body;
	struct reader reader;
	uint64_t offset, end;
	int found = FOUND_NOT;

	int r = read_end(folder, number, &end);
	if (r < 0)
		return r;
	r = reader_open(&reader, folder, number, end, &text);
	while (r == 0 && found == FOUND_NOT) {
		r = reader_next(&reader, &header, &body, &offset);
		if (r <= 0)
			break;
		found = look_in_frame(body, header.body_len, ticket, ret_payload);
		r = found < 0 ? found : 0;
	}
	reader_close(&reader);
	return r < 0 ? r : found;
}

/* From the newest back to those that had begun by the ticket's time. */
static int look_in_segments(const struct folder *folder, const struct catalog_numbers *segments,
                            uint64_t ticket, struct buf *ret_payload)
{
	int r = FOUND_NOT;
	uint32_t tried = 0;

	for (size_t i = segments->count; i > 0 && tried < SEGMENTS_MAX && r != FOUND; i--) {
		struct segment_header header;
		r = segment_header_of(folder, segments->items[i - 1], &header);
		if (r == -ENOMEM)
			return r;
		if (r < 0 || header.steady_ms > ticket_time_ms(ticket))
			continue;
		tried++;
		r = look_in_segment(folder, segments->items[i - 1], ticket, ret_payload);
		if (r == -ENOMEM)
			return r;
	}
	return r == FOUND ? 0 : -ENOENT;
}

int journal_find_event(const struct journal_inspect_options *options, uint64_t ticket,
                       struct buf *ret_payload)
{
	struct folder folder = { .fs = options->fs ? options->fs : file_system_real(),
		                 .path = options->path };
	struct superblock superblock = { .fd = -1 };
	struct catalog catalog = { 0 };
	struct error_text text;

	int r = superblock_read(&superblock, &folder, &text);
	if (r == 0)
		r = catalog_list(&catalog, &folder);
	if (r == 0)
		r = look_in_segments(&folder, &catalog.segments, ticket, ret_payload);
	catalog_free(&catalog);
	superblock_close(&superblock, &folder);
	return r;
}
