/* reader: see reader.h. */
#include "store/local/journal/reader.h"

#include <string.h>

#include "base/mem.h"

int scan_damaged(const struct scan *scan, uint64_t offset, const char *what)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, scan->number, FILE_KIND_SEGMENT);
	return error_fill(scan->text, ERR_DAMAGED, "%s is damaged at offset %llu: %s", name,
	                  (unsigned long long)offset, what);
}

static int failed(const struct scan *scan, int error)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, scan->number, FILE_KIND_SEGMENT);
	return error_fill(scan->text, error, "%s: %s", name, error_name(error));
}

static int check_header(struct scan *scan, uint64_t end)
{
	struct file_system *fs = scan->folder->fs;

	int r = fs->methods->size(fs, scan->fd, &scan->size);
	if (r < 0)
		return failed(scan, r);
	if (scan->size < FORMAT_BLOCK)
		return scan_damaged(scan, scan->size, "the file is too short");
	r = segment_read_header(scan->folder, scan->fd, scan->number, &scan->header);
	if (r == ERR_VERSION)
		return error_fill(scan->text, r,
		                  "segment %llu has a format version that this binary does not "
		                  "know (it knows %u)",
		                  (unsigned long long)scan->number, FORMAT_VERSION);
	if (r == ERR_DAMAGED)
		return scan_damaged(scan, 0, "the header does not check");
	if (r < 0)
		return failed(scan, r);
	/* Once its end is known, a segment may have been cut to it. */
	if (end > scan->size || (end == 0 && scan->header.size > scan->size))
		return scan_damaged(scan, scan->size, "the file is too short");
	return 0;
}

int scan_open(struct scan *scan, const struct folder *folder, uint64_t number, uint64_t end,
              struct error_text *text)
{
	*scan = (struct scan){ .folder = folder, .number = number, .text = text, .fd = -1 };

	int r = segment_open_read(folder, number, &scan->fd);
	if (r < 0)
		return failed(scan, r);
	r = check_header(scan, end);
	if (r < 0)
		return r;
	scan->end_known = end != 0;
	scan->end = end ? end : scan->header.size;
	scan->at = FORMAT_BLOCK;
	scan->sequence = scan->header.first_sequence - 1;
	scan->steady_ms = scan->header.steady_ms;
	scan->room = scan->size < SCAN_WINDOW_BYTES ? scan->size : SCAN_WINDOW_BYTES;
	scan->room = format_align(scan->room, FORMAT_BLOCK);
	scan->window = mem_aligned(FORMAT_BLOCK, scan->room);
	return scan->window ? 0 : -ENOMEM;
}

void scan_close(struct scan *scan)
{
	if (scan->fd >= 0)
		scan->folder->fs->methods->close(scan->folder->fs, scan->fd);
	scan->fd = -1;
	scan->window = mem_free(scan->window);
}

static int grow(struct scan *scan, size_t len)
{
	size_t room = format_align(len, FORMAT_BLOCK);
	unsigned char *window = mem_aligned(FORMAT_BLOCK, room);

	if (!window)
		return -ENOMEM;
	memcpy(window, scan->window, scan->filled);
	mem_free(scan->window);
	scan->window = window;
	scan->room = room;
	return 0;
}

/* Up to the valid end, or on from there if it is passed. */
static uint64_t left_from(const struct scan *scan, uint64_t from)
{
	return from < scan->end ? format_align(scan->end - from, FORMAT_BLOCK) : UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Makes [at, at + len) stand in the window; fewer bytes only at the file's end. */
static int fetch(struct scan *scan, uint64_t at, size_t len)
{
	CHECK(at % FORMAT_BLOCK == 0);
	if (at >= scan->base && at + len <= scan->base + scan->filled)
		return 0;
	size_t kept = 0;
	if (at >= scan->base && at < scan->base + scan->filled) {
		kept = (size_t)(scan->base + scan->filled - at);
		memmove(scan->window, scan->window + (at - scan->base), kept);
	}
	scan->base = at;
	scan->filled = kept;
	if (len > scan->room) {
		int r = grow(scan, len);
		if (r < 0)
			return r;
	}
	uint64_t from = at + kept;
	if (from >= scan->size)
		return 0;
	int64_t n = scan->folder->fs->methods->read(scan->folder->fs, scan->fd, scan->window + kept,
	                                            least(scan->room - kept, left_from(scan, from)),
	                                            from);
	if (n < 0)
		return failed(scan, (int)n);
	/* Only whole blocks count, so that the next read is aligned. */
	scan->filled += (size_t)n / FORMAT_BLOCK * FORMAT_BLOCK;
	return 0;
}

/* 1: there is a valid frame header at `at`. */
static int peek_header(struct scan *scan, uint64_t at, struct frame_header *ret_header)
{
	int r = fetch(scan, at, FORMAT_BLOCK);
	if (r < 0)
		return r;
	if (scan->base + scan->filled < at + FORMAT_BLOCK)
		return 0;
	memcpy(ret_header, scan->window + (at - scan->base), sizeof(*ret_header));
	return frame_header_valid(ret_header, scan->header.epoch, scan->end - at);
}

static bool all_zero(const unsigned char *ptr, size_t len)
{
	return len == 0 || (ptr[0] == 0 && memcmp(ptr, ptr + 1, len - 1) == 0);
}

/* Is the block at `at`, which was just looked at, there and zero? */
static bool block_blank(const struct scan *scan, uint64_t at)
{
	return at + FORMAT_BLOCK <= scan->base + scan->filled &&
	       all_zero(scan->window + (at - scan->base), FORMAT_BLOCK);
}

/* Nothing more is valid at scan->at: is that the end, or damage? */
static int judge_tail(struct scan *scan, const char *what)
{
	struct frame_header header;

	if (scan->end_known)
		return scan_damaged(scan, scan->at, what);
	bool blank = scan->frames == 0 && block_blank(scan, scan->at);
	for (uint64_t at = scan->at + FORMAT_BLOCK; at + FORMAT_BLOCK <= scan->end;
	     at += FORMAT_BLOCK) {
		int r = peek_header(scan, at, &header);
		if (r < 0)
			return r;
		if (r > 0 && header.sequence > scan->sequence)
			return scan_damaged(scan, scan->at, what);
		blank = blank && block_blank(scan, at);
	}
	scan->blank = blank;
	scan->end = scan->at;
	scan->end_known = true;
	return 0;
}

int scan_next(struct scan *scan, struct frame_header *ret_header, const unsigned char **ret_body,
              uint64_t *ret_offset)
{
	struct frame_header header;

	memset(&header, 0, sizeof(header)); /* looked at below even when none was read */
	if (scan->at >= scan->end)
		return scan->at == scan->end
		               ? 0
		               : scan_damaged(scan, scan->end, "a frame passes the end");
	int r = peek_header(scan, scan->at, &header);
	if (r < 0)
		return r;
	if (r == 0 || header.sequence != scan->sequence + 1) {
		/* A recycled segment has old frames there, or the inside of one: neither
		 * is worth a word. One of its own has two marks, of which one is enough:
		 * it may have been whole, and answered. */
		if (scan->base + scan->filled > scan->at)
			memcpy(&header, scan->window + (scan->at - scan->base), sizeof(header));
		bool next = header.magic == FRAME_MAGIC && header.sequence == scan->sequence + 1;
		scan->torn = next || header.epoch == scan->header.epoch;
		return judge_tail(scan, "no valid frame");
	}
	r = fetch(scan, scan->at, header.span);
	if (r < 0)
		return r;
	const unsigned char *frame = scan->window + (scan->at - scan->base);
	if (scan->base + scan->filled < scan->at + header.span ||
	    !frame_body_valid(&header, frame + sizeof(header))) {
		scan->torn = true;
		return judge_tail(scan, "the frame's body does not check");
	}
	*ret_header = header;
	*ret_body = frame + sizeof(header);
	*ret_offset = scan->at;
	scan->at += header.span;
	scan->sequence = header.sequence;
	scan->steady_ms = header.steady_ms;
	scan->frames++;
	return 1;
}
