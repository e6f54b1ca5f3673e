/* reader: see reader.h. */
#include "store/local/journal/reader.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define WINDOW_BYTES (4u << 20)

/* --- windows ---------------------------------------------------------------- */

int segment_window_open(struct segment_window *window, const struct folder *folder,
                        uint64_t segment)
{
	int fd;

	if (window->fd >= 0 && window->segment == segment)
		return 0;
	int r = segment_open_read(folder, segment, &fd);
	if (r < 0)
		return r;
	if (window->fd >= 0)
		folder->fs->methods->close(folder->fs, window->fd);
	window->fd = fd;
	window->segment = segment;
	window->filled = 0;
	return 0;
}

void segment_window_close(struct segment_window *window, const struct folder *folder)
{
	if (window->fd >= 0)
		folder->fs->methods->close(folder->fs, window->fd);
	mem_free(window->bytes);
	*window = (struct segment_window){ .fd = -1, .read = window->read };
}

/* What is there of it already stays, so that each byte is read once. */
int segment_window_fetch(struct segment_window *window, const struct folder *folder, uint64_t at,
                         size_t len, uint64_t until)
{
	uint64_t base = at / FORMAT_BLOCK * FORMAT_BLOCK, end = at + len > until ? at + len : until;
	size_t room = (size_t)(format_align(end, FORMAT_BLOCK) - base), kept = 0;

	CHECK(window->fd >= 0);
	if (segment_window_has(window, at, len))
		return 0;
	if (base >= window->base && base < window->base + window->filled)
		kept = (size_t)(window->base + window->filled - base);
	const unsigned char *from = kept ? window->bytes + (base - window->base) : NULL;
	if (room > window->room) {
		unsigned char *bytes = mem_aligned(FORMAT_BLOCK, room);
		if (!bytes)
			return -ENOMEM;
		if (kept)
			memcpy(bytes, from, kept);
		mem_free(window->bytes);
		window->bytes = bytes;
		window->room = room;
	} else if (kept) {
		memmove(window->bytes, from, kept);
	}
	window->base = base;
	window->filled = kept;
	int64_t n = folder->fs->methods->read(folder->fs, window->fd, window->bytes + kept,
	                                      room - kept, base + kept);
	if (n < 0)
		return (int)n;
	/* Only whole blocks count, so that the next read is aligned. */
	window->filled += (size_t)n / FORMAT_BLOCK * FORMAT_BLOCK;
	window->read += (uint64_t)n;
	return 0;
}

/* --- frames ----------------------------------------------------------------- */

bool reader_entry_valid(const unsigned char *bytes, const struct entry *entry, uint64_t epoch)
{
	switch (entry->kind) {
	case ENTRY_NOTE: return entry->note.check == entry_note_check(bytes, entry->size, epoch);
	case ENTRY_CELL:
		return digest_check(&entry->cell.digest) ==
		       entry_cell_check(bytes, entry->size, epoch);
	case ENTRY_EVENT:
		return entry->event.flags & EVENT_NO_TICKET ||
		       entry->event.check == entry_event_check(bytes, entry->size, epoch);
	default: return true;
	}
}

static const unsigned char *window_at(const struct reader *reader, uint64_t at)
{
	return reader->window.bytes + (at - reader->window.base);
}

int reader_damaged(const struct reader *reader, uint64_t offset, const char *what)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, reader->number, FILE_KIND_SEGMENT);
	return error_fill(reader->text, ERR_DAMAGED, "%s is damaged at offset %llu: %s", name,
	                  (unsigned long long)offset, what);
}

static int failed(const struct reader *reader, int error)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, reader->number, FILE_KIND_SEGMENT);
	return error_fill(reader->text, error, "%s: %s", name, error_name(error));
}

static int check_header(struct reader *reader, uint64_t end)
{
	struct file_system *fs = reader->folder->fs;

	int r = fs->methods->size(fs, reader->window.fd, &reader->size);
	if (r < 0)
		return failed(reader, r);
	if (reader->size < FORMAT_BLOCK)
		return reader_damaged(reader, reader->size, "the file is too short");
	r = segment_read_header(reader->folder, reader->window.fd, reader->number, &reader->header);
	if (r == ERR_VERSION)
		return error_fill(reader->text, r,
		                  "segment %llu has a format version that this binary does not "
		                  "know (it knows %u)",
		                  (unsigned long long)reader->number, FORMAT_VERSION);
	if (r == ERR_DAMAGED)
		return reader_damaged(reader, 0, "the header does not check");
	if (r < 0)
		return failed(reader, r);
	/* Once its end is known, a segment may have been cut to it. */
	if (end > reader->size || (end == 0 && reader->header.size > reader->size))
		return reader_damaged(reader, reader->size, "the file is too short");
	return 0;
}

int reader_open(struct reader *reader, const struct folder *folder, uint64_t number, uint64_t end,
                struct error_text *text)
{
	*reader = (struct reader){
		.folder = folder, .number = number, .text = text, .window = SEGMENT_WINDOW_CLOSED
	};

	int r = segment_window_open(&reader->window, folder, number);
	if (r < 0)
		return failed(reader, r);
	r = check_header(reader, end);
	if (r < 0)
		return r;
	reader->end_known = end != 0;
	reader->end = end ? end : reader->header.size;
	reader->at = FORMAT_BLOCK;
	reader->sequence = reader->header.first_sequence - 1;
	reader->steady_ms = reader->header.steady_ms;
	return 0;
}

void reader_close(struct reader *reader)
{
	segment_window_close(&reader->window, reader->folder);
}

/* Reads on as far as frames may be valid; behind the valid end only to judge the tail. */
static int fetch(struct reader *reader, uint64_t at, size_t len)
{
	uint64_t until = at + WINDOW_BYTES < reader->size ? at + WINDOW_BYTES : reader->size;

	CHECK(at % FORMAT_BLOCK == 0);
	if (at < reader->end && until > reader->end)
		until = reader->end;
	int r = segment_window_fetch(&reader->window, reader->folder, at, len, until);
	return r < 0 && r != -ENOMEM ? failed(reader, r) : r;
}

/* 1: there is a valid frame header at `at`. */
static int peek_header(struct reader *reader, uint64_t at, struct frame_header *ret_header)
{
	int r = fetch(reader, at, FORMAT_BLOCK);
	if (r < 0)
		return r;
	if (!segment_window_has(&reader->window, at, FORMAT_BLOCK))
		return 0;
	memcpy(ret_header, window_at(reader, at), sizeof(*ret_header));
	return frame_header_valid(ret_header, reader->header.epoch, reader->end - at);
}

/* Is the block at `at`, which was just looked at, there and zero? */
static bool block_blank(const struct reader *reader, uint64_t at)
{
	if (!segment_window_has(&reader->window, at, FORMAT_BLOCK))
		return false;
	const unsigned char *block = window_at(reader, at);
	return block[0] == 0 && memcmp(block, block + 1, FORMAT_BLOCK - 1) == 0;
}

/* Nothing more is valid at reader->at: is that the end, or damage? */
static int judge_tail(struct reader *reader, const char *what)
{
	struct frame_header header;

	if (reader->end_known)
		return reader_damaged(reader, reader->at, what);
	bool blank = reader->frames == 0 && block_blank(reader, reader->at);
	for (uint64_t at = reader->at + FORMAT_BLOCK; at + FORMAT_BLOCK <= reader->end;
	     at += FORMAT_BLOCK) {
		int r = peek_header(reader, at, &header);
		if (r < 0)
			return r;
		if (r > 0 && header.sequence > reader->sequence)
			return reader_damaged(reader, reader->at, what);
		blank = blank && block_blank(reader, at);
	}
	reader->blank = blank;
	reader->end = reader->at;
	reader->end_known = true;
	return 0;
}

int reader_next(struct reader *reader, struct frame_header *ret_header,
                const unsigned char **ret_body, uint64_t *ret_offset)
{
	struct frame_header header;

	CHECK(reader->window.fd >= 0);
	memset(&header, 0, sizeof(header)); /* looked at below even when none was read */
	if (reader->at >= reader->end)
		return reader->at == reader->end
		               ? 0
		               : reader_damaged(reader, reader->end, "a frame passes the end");
	int r = peek_header(reader, reader->at, &header);
	if (r < 0)
		return r;
	if (r == 0 || header.sequence != reader->sequence + 1) {
		/* A recycled segment has old frames there, or the inside of one: neither
		 * is worth a word. One of its own has two marks, of which one is enough:
		 * it may have been whole, and answered. */
		if (segment_window_has(&reader->window, reader->at, sizeof(header)))
			memcpy(&header, window_at(reader, reader->at), sizeof(header));
		bool next = header.magic == FRAME_MAGIC && header.sequence == reader->sequence + 1;
		reader->torn = next || header.epoch == reader->header.epoch;
		return judge_tail(reader, "no valid frame");
	}
	r = fetch(reader, reader->at, header.span);
	if (r < 0)
		return r;
	const unsigned char *frame = window_at(reader, reader->at);
	if (!segment_window_has(&reader->window, reader->at, header.span) ||
	    !frame_body_valid(&header, frame + sizeof(header))) {
		reader->torn = true;
		return judge_tail(reader, "the frame's body does not check");
	}
	*ret_header = header;
	*ret_body = frame + sizeof(header);
	*ret_offset = reader->at;
	reader->at += header.span;
	reader->sequence = header.sequence;
	reader->steady_ms = header.steady_ms;
	reader->frames++;
	return 1;
}
