/* journal_inspect: see journal_inspect.h. */
#include "store/local/journal_inspect.h"

#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "gate/letter.h"
#include "gate/ticket.h"
#include "gate/verdict.h"
#include "store/local/cells.h"
#include "store/local/index/open_tickets.h"
#include "store/local/journal_walk.h"
#include "store/local/replay.h"

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
	r = journal_walk_run(walk, &visitor);
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

	int r = journal_walk_open(&walk, options, &text);
	verify.now_ms = walk.now_ms;
	if (r == 0)
		r = verify_walk(&walk, &verify);
	journal_walk_close(&walk);
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
	int r = dump->line.failed ? -ENOMEM
	                          : dump->sink->line(dump->sink->user, buf_span(&dump->line));

	buf_clear(&dump->line);
	return r;
}

static void put_ticket(struct buf *line, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];

	ticket_text(ticket, text);
	buf_printf(line, "\"ticket\":\"%.*s\",\"at_ms\":%llu", TICKET_TEXT_LEN, text,
	           (unsigned long long)ticket_time_ms(ticket));
}

static void put_hex(struct buf *line, const struct digest *digest)
{
	char hex[2 * sizeof(*digest)];

	hex_encode(digest, sizeof(*digest), hex);
	buf_printf(line, "\"digest\":\"%.*s\"", (int)sizeof(hex), hex);
}

static void put_digest(struct buf *line, const struct digest *digest, uint32_t window_s)
{
	put_hex(line, digest);
	buf_printf(line, ",\"window_s\":%u", window_s);
}

static bool is_text(struct span bytes)
{
	for (size_t at = 0; at < bytes.len;) {
		size_t n = utf8_sequence(bytes.ptr + at, bytes.len - at);
		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

static void put_bytes(struct buf *line, const char *name, struct span bytes)
{
	buf_printf(line, ",\"%s\":", name);
	if (is_text(bytes)) {
		buf_append_json(line, bytes);
		return;
	}
	buf_append_char(line, '"');
	base64_append(line, bytes);
	buf_printf(line, "\",\"%s_encoding\":\"base64\"", name);
}

/* An object of its texts, by their names. */
static void put_letter(struct buf *line, struct span bytes)
{
	struct letter letter;
	bool first = true;

	if (letter_read(bytes, &letter) < 0) {
		buf_append_span(line, SPAN("null"));
		return;
	}
	buf_append_char(line, '{');
	for (int i = 0; i < LETTER_FIELD_COUNT; i++) {
		if (letter.texts[i].len == 0)
			continue;
		buf_printf(line, "%s\"%s\":", first ? "" : ",",
		           letter_field_name((enum letter_field)i));
		buf_append_json(line, letter.texts[i]);
		first = false;
	}
	buf_append_char(line, '}');
}

static void put_routing(struct buf *line, const struct entry *entry)
{
	buf_append_span(line, SPAN(",\"legs\":["));
	for (uint32_t i = 0; i < entry->leg_count; i++) {
		struct entry_leg leg = entry_leg_at(entry, i);
		buf_append_span(line, i ? SPAN(",{") : SPAN("{"));
		put_ticket(line, entry->event.ticket + i);
		buf_printf(line, ",\"sink\":%u,\"order\":\"%016llx\"}", leg.sink,
		           (unsigned long long)leg.order);
	}
	buf_printf(line, "],\"first_leg\":%u,\"letter\":", entry->first_leg);
	put_letter(line, entry->letter);
}

static void put_event(struct buf *line, const struct entry *entry)
{
	const struct entry_event *event = &entry->event;

	buf_append_span(line, SPAN("{\"kind\":\"event\","));
	put_ticket(line, event->ticket);
	buf_append_span(line, SPAN(",\"source\":"));
	buf_append_json(line, entry->source);
	buf_printf(line, ",\"flags\":%u,\"no_ticket\":%s,\"carried\":%s,\"held\":%s,\"claims\":[",
	           event->user_flags, event->flags & EVENT_NO_TICKET ? "true" : "false",
	           event->flags & EVENT_CARRIED ? "true" : "false",
	           event->flags & EVENT_HELD ? "true" : "false");
	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct entry_claim claim = entry_claim_at(entry, i);
		buf_append_span(line, i ? SPAN(",{") : SPAN("{"));
		put_digest(line, &claim.digest, claim.window_s);
		buf_append_char(line, '}');
	}
	buf_append_char(line, ']');
	if (event->kind == ENTRY_ROUTED)
		put_routing(line, entry);
	put_bytes(line, "payload", entry->payload);
}

static void put_note(struct buf *line, const struct entry *entry)
{
	static const char *const names[] = { "?",    "started", "failed",  "unknown",
		                             "dead", "parked",  "released" };
	const struct entry_note *note = &entry->note;

	buf_append_span(line, SPAN("{\"kind\":\"note\","));
	put_ticket(line, note->ticket);
	buf_printf(line,
	           ",\"mark\":\"%s\",\"attempt\":%u,\"status\":%u,\"noted_ms\":%llu,"
	           "\"due_ms\":%llu,\"text\":",
	           note->mark < ARRAY_LEN(names) ? names[note->mark] : "?", note->attempt,
	           note->status, (unsigned long long)note->at_ms, (unsigned long long)note->due_ms);
	buf_append_json(line, entry->payload);
}

static void put_settle(struct buf *line, const struct entry *entry)
{
	const struct entry_settle *settle = &entry->settle;

	buf_append_span(line, SPAN("{\"kind\":\"settle\","));
	put_ticket(line, settle->ticket);
	buf_printf(line, ",\"outcome\":\"%s\",\"attempt\":%u",
	           settle->outcome < OUTCOME_COUNT ? outcome_name(settle->outcome) : "?",
	           settle->attempt);
	if (entry->due_ms)
		buf_printf(line, ",\"due_ms\":%llu", (unsigned long long)entry->due_ms);
}

static void put_seen(struct buf *line, uint64_t ticket, uint64_t count, uint64_t last_ms)
{
	buf_append_span(line, SPAN("{\"kind\":\"seen\","));
	put_ticket(line, ticket);
	buf_printf(line, ",\"count\":%llu,\"last_ms\":%llu", (unsigned long long)count,
	           (unsigned long long)last_ms);
}

static void put_newest(struct buf *line, const struct entry_newest *newest)
{
	buf_append_span(line, SPAN("{\"kind\":\"newest\","));
	put_ticket(line, newest->ticket);
	buf_append_char(line, ',');
	put_digest(line, &newest->digest, newest->window_s);
	buf_printf(line, ",\"order\":%llu", (unsigned long long)newest->order);
}

static void put_cell(struct buf *line, const struct entry *entry)
{
	static const char *const acts[] = { "?", "put", "expire", "remove", "carried" };
	const struct entry_cell *cell = &entry->cell;
	struct digest digest = digest_with_check(cell->digest, 0);

	buf_printf(line, "{\"kind\":\"cell\",\"act\":\"%s\",",
	           cell->act < ARRAY_LEN(acts) ? acts[cell->act] : "?");
	put_hex(line, &digest);
	buf_printf(line, ",\"expiry_ms\":%llu", (unsigned long long)cell->expiry_ms);
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
	buf_append_span(line, SPAN("{\"kind\":\"claim\","));
	put_ticket(line, record->ticket);
	buf_append_char(line, ',');
	put_digest(line, &record->digest, record->window_s);
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
	buf_printf(line, ",\"segment\":%llu,\"sequence\":%llu}",
	           (unsigned long long)segment->number, (unsigned long long)frame->sequence);
	return put_line(dump);
}

static int dump_segment(void *user, const struct segment_header *header, uint64_t frames,
                        uint64_t end)
{
	struct dump *dump = user;

	buf_printf(&dump->line,
	           "{\"kind\":\"segment\",\"segment\":%llu,\"frames\":%llu,\"end\":%llu,"
	           "\"first_sequence\":%llu,\"scan_from\":%llu,\"began_ms\":%llu}",
	           (unsigned long long)header->number, (unsigned long long)frames,
	           (unsigned long long)end, (unsigned long long)header->first_sequence,
	           (unsigned long long)header->scan_from, (unsigned long long)header->steady_ms);
	return put_line(dump);
}

static int dump_records(void *user, uint64_t number, bool alone,
                        const struct claims_record *records, size_t count)
{
	struct dump *dump = user;
	int r = 0;

	for (size_t i = 0; i < count && alone && r == 0; i++) {
		put_record(&dump->line, &records[i]);
		buf_printf(&dump->line, ",\"segment\":%llu}", (unsigned long long)number);
		r = put_line(dump);
	}
	return r;
}

static int dump_torn(void *user, uint64_t number, uint64_t offset)
{
	struct dump *dump = user;

	buf_printf(&dump->line, "{\"kind\":\"torn\",\"segment\":%llu,\"offset\":%llu}",
	           (unsigned long long)number, (unsigned long long)offset);
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

	int r = journal_walk_open(&walk, options, &text);
	if (r == 0)
		r = journal_walk_run(&walk, &visitor);
	journal_walk_close(&walk);
	buf_free(&dump.line);
	if (r < 0)
		return tell_failed(options, r, &text, ret_text);
	if (r == 0 && dump.damage.text[0])
		return error_fill(ret_text, ERR_DAMAGED, "%s: %s", options->path, dump.damage.text);
	return r;
}
