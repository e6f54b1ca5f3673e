/* journal_walk: see journal_walk.h. */
#include "store/local/journal_walk.h"

#include <string.h>

#include "store/local/scan.h"

static int lock_folder(struct journal_walk *walk, struct error_text *text)
{
	int r = walk->fs->methods->lock_dir(walk->fs, walk->folder.path, &walk->lock_fd);
	if (r == -ENOENT)
		return error_fill(text, r, "%s: no data folder", walk->folder.path);
	if (r == ERR_BUSY)
		return error_fill(text, r, "%s is in use by another process", walk->folder.path);
	return r < 0 ? error_fill(text, r, "%s: %s", walk->folder.path, error_name(r)) : 0;
}

int journal_walk_open(struct journal_walk *walk, const struct journal_inspect_options *options,
                      struct error_text *text)
{
	*walk = (struct journal_walk){ .lock_fd = -1, .superblock.fd = -1 };
	walk->fs = options->fs ? options->fs : file_system_real();
	walk->folder = (struct folder){ .fs = walk->fs, .path = options->path };
	int r = lock_folder(walk, text);
	if (r < 0)
		return r;
	r = catalog_list(&walk->catalog, &walk->folder);
	if (r < 0)
		return error_fill(text, r, "%s: %s", options->path, error_name(r));
	r = superblock_read(&walk->superblock, &walk->folder, text);
	if (r == -ENOENT && (walk->catalog.segments.count || walk->catalog.claims.count))
		return error_fill(text, ERR_DAMAGED,
		                  "superblock is missing, but there are segments");
	if (r == -ENOENT)
		return error_fill(text, r, "%s: there is no data in it", options->path);
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

static int damage(const struct journal_visitor *visitor, const struct error_text *text, int error)
{
	return visitor->damage(visitor->user, text->text[0] ? text->text : error_name(error));
}

/* An event has a check of its own, by which it is served. */
static bool event_checks(const struct segment_header *segment, const unsigned char *body,
                         const struct entry *entry)
{
	if (entry->kind != ENTRY_EVENT || entry->event.flags & EVENT_NO_TICKET)
		return true;
	return entry->event.check ==
	       entry_event_check(body + entry->offset, entry->size, segment->epoch);
}

static int walk_frame(const struct journal_visitor *visitor, const struct scan *scan,
                      const struct frame_header *frame, const unsigned char *body, uint64_t offset)
{
	struct entry entry;
	uint32_t at = 0, count = 0;
	int r, got;

	while ((got = entry_next(body, frame->body_len, &at, &entry)) > 0) {
		if (!event_checks(&scan->header, body, &entry)) {
			scan_damaged(scan, offset + sizeof(*frame) + entry.offset,
			             "the event does not check");
			r = damage(visitor, scan->text, ERR_DAMAGED);
		} else {
			r = visitor->entry(visitor->user, &scan->header, frame, &entry);
		}
		if (r != 0)
			return r;
		count++;
	}
	if (got == 0 && count == frame->entry_count)
		return 0;
	scan_damaged(scan, offset, "an entry is not valid");
	return damage(visitor, scan->text, ERR_DAMAGED);
}

static int walk_end(const struct journal_walk *walk, const struct journal_visitor *visitor,
                    const struct scan *scan, const struct catalog_successor *successor)
{
	const struct superblock_slot *slot = &walk->superblock.slot;
	int r = 0;

	if (successor->end && scan->sequence != successor->sequence) {
		scan_damaged(scan, scan->at, "a frame is missing at the end");
		r = damage(visitor, scan->text, ERR_DAMAGED);
	} else if (scan->number == slot->durable_segment &&
	           (scan->at < slot->durable_end || scan->sequence < slot->durable_sequence)) {
		scan_damaged(scan, scan->at, "frames that were durable are not valid");
		r = damage(visitor, scan->text, ERR_DAMAGED);
	} else if (scan->torn) {
		r = visitor->torn(visitor->user, scan->number, scan->at);
	}
	if (r != 0)
		return r;
	return visitor->segment(visitor->user, &scan->header, scan->frames, scan->at);
}

static int walk_frames(const struct journal_walk *walk, const struct journal_visitor *visitor,
                       struct scan *scan, const struct catalog_successor *successor)
{
	struct frame_header frame;
	const unsigned char *body;
	uint64_t offset;
	int got;

	while ((got = scan_next(scan, &frame, &body, &offset)) > 0) {
		int r = walk_frame(visitor, scan, &frame, body, offset);
		if (r != 0)
			return r;
	}
	if (got < 0)
		return damage(visitor, scan->text, got);
	return walk_end(walk, visitor, scan, successor);
}

static int walk_segment(struct journal_walk *walk, const struct journal_visitor *visitor,
                        uint64_t number)
{
	struct catalog_successor successor;
	struct error_text text = { "" };
	struct scan scan;

	/* If the successor is damaged, its own turn will tell; this one is then
	 * read as far as it goes. */
	if (catalog_successor(&walk->catalog, &walk->folder, number, &successor, &text) < 0)
		successor = (struct catalog_successor){ 0 };
	text.text[0] = '\0';
	int r = scan_open(&scan, &walk->folder, number, successor.end, &text);
	if (r < 0)
		r = damage(visitor, &text, r);
	else
		r = walk_frames(walk, visitor, &scan, &successor);
	walk->bytes += scan.size;
	scan_close(&scan);
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

static int walk_claims(struct journal_walk *walk, const struct journal_visitor *visitor,
                       uint64_t number)
{
	struct claims_walk claims = { .visitor = visitor,
		                      .number = number,
		                      .alone = !catalog_has_segment(&walk->catalog, number) };
	struct claims_visitor each = { .each = each_records, .user = &claims };
	struct claims_summary summary = { 0 };
	struct error_text text = { "" };

	int r = claims_file_read(&walk->folder, number, &each, &summary, &text);
	walk->bytes += claims_file_bytes(summary.record_count);
	if (claims.result != 0)
		return claims.result;
	return r < 0 ? damage(visitor, &text, r) : 0;
}

int journal_walk_run(struct journal_walk *walk, const struct journal_visitor *visitor)
{
	struct catalog *catalog = &walk->catalog;
	struct error_text text = { "" };
	int r = 0;

	int found = catalog_range(catalog, &walk->folder, &walk->superblock.slot, &text);
	if (found < 0)
		r = damage(visitor, &text, found);
	for (uint64_t n = catalog->oldest; n <= catalog->last && r == 0; n++) {
		text.text[0] = '\0';
		if (catalog_check(catalog, n, &text) < 0)
			r = damage(visitor, &text, ERR_DAMAGED);
		if (r == 0 && catalog_has_claims(catalog, n))
			r = walk_claims(walk, visitor, n);
		if (r == 0 && catalog_has_segment(catalog, n))
			r = walk_segment(walk, visitor, n);
	}
	return r;
}
