/* journal_walk: see journal_walk.h. */
#include "store/local/journal_walk.h"

#include <string.h>

#include "store/local/journal/scan.h"

static int lock_folder(struct journal_walk *walk, struct error_text *text)
{
	int r = walk->fs->methods->lock_dir(walk->fs, walk->folder.path, &walk->lock_fd);
	if (r == -ENOENT)
		return error_fill(text, r, "no data folder");
	if (r == ERR_BUSY)
		return error_fill(text, r, "in use by another process");
	return r < 0 ? error_fill(text, r, "%s", error_name(r)) : 0;
}

static void start_clock(struct journal_walk *walk, const struct clock *clock)
{
	struct steady_clock_state state = superblock_clock(&walk->superblock.slot);
	struct steady_clock steady;

	steady_clock_start(&steady, clock, &state);
	walk->now_ms = steady_clock_now(&steady);
}

int journal_walk_open(struct journal_walk *walk, const struct journal_inspect_options *options,
                      struct error_text *text)
{
	*walk = (struct journal_walk){ .lock_fd = -1, .superblock.fd = -1, .text = text };
	walk->fs = options->fs ? options->fs : file_system_real();
	walk->folder = (struct folder){ .fs = walk->fs, .path = options->path };
	int r = lock_folder(walk, text);
	if (r < 0)
		return r;
	r = catalog_list(&walk->catalog, &walk->folder);
	if (r < 0)
		return error_fill(text, r, "%s", error_name(r));
	r = superblock_read(&walk->superblock, &walk->folder, text);
	if (r == -ENOENT && (walk->catalog.segments.count || walk->catalog.claims.count))
		return error_fill(text, ERR_DAMAGED,
		                  "superblock is missing, but there are segments");
	if (r == -ENOENT)
		return error_fill(text, r, "there is no data in it");
	if (r == 0)
		start_clock(walk, options->clock ? options->clock : clock_system());
	return r;
}

void journal_walk_close(struct journal_walk *walk)
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

/* What cannot be read and would have to be: damage is told, and the walk goes on.
 * Anything else ends it, as it ends a start. */
static int tell_needed(struct journal_walk *walk, const struct journal_visitor *visitor, int error,
                       const struct error_text *text)
{
	if (error == ERR_DAMAGED)
		return tell(walk, visitor, JOURNAL_DAMAGE, text);
	return error_fill(walk->text, error, "%s", text->text[0] ? text->text : error_name(error));
}

/* An event has a check of its own, by which it is served. */
static bool event_checks(const struct segment_header *segment, const unsigned char *body,
                         const struct entry *entry)
{
	if (entry->kind == ENTRY_NOTE)
		return entry->note.check ==
		       entry_note_check(body + entry->offset, entry->size, segment->epoch);
	if (entry->kind == ENTRY_CELL)
		return digest_check(&entry->cell.digest) ==
		       entry_cell_check(body + entry->offset, entry->size, segment->epoch);
	if (entry->kind != ENTRY_EVENT || entry->event.flags & EVENT_NO_TICKET)
		return true;
	return entry->event.check ==
	       entry_event_check(body + entry->offset, entry->size, segment->epoch);
}

/* A segment being read. */
struct segment_walk {
	struct journal_walk *walk;
	const struct journal_visitor *visitor;
	struct scan scan;
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
	return tell_segment(on, scan_damaged(&on->scan, offset, what));
}

static int walk_frame(struct segment_walk *on, const struct frame_header *frame,
                      const unsigned char *body, uint64_t offset)
{
	const struct segment_header *segment = &on->scan.header;
	struct entry entry;
	uint32_t at = 0, count = 0;
	int r, got;

	while ((got = entry_next(body, frame->body_len, &at, &entry)) > 0) {
		if (!event_checks(segment, body, &entry)) {
			/* A start takes it; its ticket is parked when it is served. */
			scan_damaged(&on->scan, offset + sizeof(*frame) + entry.offset,
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
	const struct scan *scan = &on->scan;
	int r = 0;

	if (on->successor.end && scan->sequence != on->successor.sequence)
		r = tell_damaged(on, scan->at, "a frame is missing at the end");
	else if (scan->number == slot->durable_segment &&
	         (scan->at < slot->durable_end || scan->sequence < slot->durable_sequence))
		r = tell_damaged(on, scan->at, "frames that were durable are not valid");
	else if (scan->torn)
		r = on->visitor->torn(on->visitor->user, scan->number, scan->at);
	if (r != 0)
		return r;
	return on->visitor->segment(on->visitor->user, &scan->header, scan->frames, scan->at);
}

static int walk_frames(struct segment_walk *on)
{
	struct frame_header frame;
	const unsigned char *body;
	uint64_t offset;
	int got;

	while ((got = scan_next(&on->scan, &frame, &body, &offset)) > 0) {
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
	r = scan_open(&on.scan, &walk->folder, number, on.successor.end, &on.text);
	r = r < 0 ? tell_segment(&on, r) : walk_frames(&on);
	walk->bytes += on.scan.size;
	scan_close(&on.scan);
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
		                 "a start makes it again from its segment");
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

int journal_walk_run(struct journal_walk *walk, const struct journal_visitor *visitor)
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
