/* journal_find: see journal_find.h. */
#include "store/local/journal_find.h"

#include <errno.h>

#include "gate/ticket.h"
#include "store/local/journal/catalog.h"
#include "store/local/journal/scan.h"
#include "store/local/journal/superblock.h"

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

/* -ENOMEM; any other error: it has not begun, or has just gone. */
static int read_header(const struct folder *folder, uint64_t number,
                       struct segment_header *ret_header)
{
	int fd;

	int r = segment_open_read(folder, number, &fd);
	if (r < 0)
		return r;
	r = segment_read_header(folder, fd, number, ret_header);
	folder->fs->methods->close(folder->fs, fd);
	return r;
}

/* As the next one's header tells; 0: it is the last. */
static int read_end(const struct folder *folder, uint64_t number, uint64_t *ret_end)
{
	struct segment_header next;

	int r = read_header(folder, number + 1, &next);
	*ret_end = r == 0 && next.previous == number ? next.previous_end : 0;
	return r == -ENOMEM ? r : 0;
}

static int look_in_segment(const struct folder *folder, uint64_t number, uint64_t ticket,
                           struct buf *ret_payload)
{
	struct error_text text = { "" };
	struct frame_header header;
	const unsigned char *body;
	struct scan scan;
	uint64_t offset, end;
	int found = FOUND_NOT;

	int r = read_end(folder, number, &end);
	if (r < 0)
		return r;
	r = scan_open(&scan, folder, number, end, &text);
	while (r == 0 && found == FOUND_NOT) {
		r = scan_next(&scan, &header, &body, &offset);
		if (r <= 0)
			break;
		found = look_in_frame(body, header.body_len, ticket, ret_payload);
		r = found < 0 ? found : 0;
	}
	scan_close(&scan);
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
		r = read_header(folder, segments->items[i - 1], &header);
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
