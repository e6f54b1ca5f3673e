/* segment: see segment.h. */
#include "store/local/journal/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/journal/claims_file.h"

/* --- segment --------------------------------------------------------------- */

#define SPARE_NAME "spare.seg"
#define FILL_BYTES (1u << 20)

int folder_file(const struct folder *folder, const char *name,
                char ret_path[static FOLDER_PATH_MAX])
{
	int n = snprintf(ret_path, FOLDER_PATH_MAX, "%s/%s", folder->path, name);

	return n > 0 && n < FOLDER_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int folder_numbered(const struct folder *folder, uint64_t number, enum file_kind kind,
                    char ret_path[static FOLDER_PATH_MAX])
{
	char name[FORMAT_NAME_MAX];

	format_name(name, number, kind);
	return folder_file(folder, name, ret_path);
}

int folder_open(const struct folder *folder, const char *name, int flags, int *ret_fd)
{
	char path[FOLDER_PATH_MAX];

	int r = folder_file(folder, name, path);
	if (r < 0)
		return r;
	return folder->fs->methods->open(folder->fs, path, flags | FILE_REGULAR, ret_fd);
}

int folder_sync(const struct folder *folder)
{
	return folder->fs->methods->sync_dir(folder->fs, folder->path);
}

int folder_remove(const struct folder *folder, const char *name)
{
	char path[FOLDER_PATH_MAX];

	int r = folder_file(folder, name, path);
	if (r < 0)
		return r;
	r = folder->fs->methods->remove(folder->fs, path);
	return r == -ENOENT ? 0 : r;
}

static int fill_zeros(const struct folder *folder, int fd, struct segment_pace pace)
{
	uint32_t chunk = folder->segment_bytes < FILL_BYTES ? folder->segment_bytes : FILL_BYTES;
	cleanup_free unsigned char *zeros = mem_aligned(FORMAT_BLOCK, chunk);
	int r = 0;

	if (!zeros)
		return -ENOMEM;
	memset(zeros, 0, chunk);
	for (uint32_t at = 0; at < folder->segment_bytes && r == 0; at += chunk) {
		uint32_t left = folder->segment_bytes - at;
		r = folder->fs->methods->write(folder->fs, fd, zeros, left < chunk ? left : chunk,
		                               at);
		if (pace.pause)
			pace.pause(pace.user, at + chunk);
	}
	return r < 0 ? r : folder->fs->methods->sync_data(folder->fs, fd);
}

int segment_fill(const struct folder *folder, struct segment_pace pace)
{
	int fd;

	CHECK(folder->segment_bytes % FORMAT_BLOCK == 0);
	int r = folder_remove(folder, SPARE_NAME);
	if (r < 0)
		return r;
	/* Finding out by writing would fill the disk with zeros again and again. */
	uint64_t bytes;
	if (folder->fs->methods->room(folder->fs, folder->path, &bytes) == 0 &&
	    bytes < folder->segment_bytes)
		return -ENOSPC;
	r = folder_open(folder, SPARE_NAME, FILE_READ | FILE_WRITE | FILE_CREATE | FILE_DIRECT,
	                &fd);
	if (r < 0)
		return r;
	r = fill_zeros(folder, fd, pace);
	int closed = folder->fs->methods->close(folder->fs, fd);
	if (r == 0)
		r = closed;
	if (r < 0)
		folder_remove(folder, SPARE_NAME);
	return r;
}

int segment_name_spare(const struct folder *folder, uint64_t number)
{
	char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];

	int r = folder_file(folder, SPARE_NAME, from);
	if (r == 0)
		r = folder_numbered(folder, number, FILE_KIND_SEGMENT, to);
	if (r == 0)
		r = folder->fs->methods->rename(folder->fs, from, to);
	return r < 0 ? r : folder_sync(folder);
}

int segment_make_spare(const struct folder *folder, uint64_t number)
{
	char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];

	int r = folder_numbered(folder, number, FILE_KIND_SEGMENT, from);
	if (r == 0)
		r = folder_file(folder, SPARE_NAME, to);
	return r < 0 ? r : folder->fs->methods->rename(folder->fs, from, to);
}

int segment_remove(const struct folder *folder, uint64_t number, enum file_kind kind)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, number, kind);
	return folder_remove(folder, name);
}

static int open_number(const struct folder *folder, uint64_t number, int flags, int *ret_fd)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, number, FILE_KIND_SEGMENT);
	return folder_open(folder, name, flags, ret_fd);
}

int segment_open_write(const struct folder *folder, uint64_t number, int *ret_fd)
{
	return open_number(folder, number, FILE_READ | FILE_WRITE | FILE_DIRECT | FILE_SYNC_DATA,
	                   ret_fd);
}

int segment_open_read(const struct folder *folder, uint64_t number, int *ret_fd)
{
	return open_number(folder, number, FILE_READ | FILE_DIRECT, ret_fd);
}

int segment_write_header(const struct folder *folder, int fd, struct segment_header *header)
{
	cleanup_free unsigned char *block = mem_aligned(FORMAT_BLOCK, FORMAT_BLOCK);

	CHECK(header->number > header->previous);
	CHECK(header->epoch != 0);
	CHECK(header->number != 0);
	if (!block)
		return -ENOMEM;
	segment_header_seal(header);
	memset(block, 0, FORMAT_BLOCK);
	memcpy(block, header, sizeof(*header));
	return folder->fs->methods->write(folder->fs, fd, block, FORMAT_BLOCK, 0);
}

int segment_read_header(const struct folder *folder, int fd, uint64_t number,
                        struct segment_header *ret_header)
{
	cleanup_free unsigned char *block = mem_aligned(FORMAT_BLOCK, FORMAT_BLOCK);
	struct segment_header header;

	if (!block)
		return -ENOMEM;
	int64_t n = folder->fs->methods->read(folder->fs, fd, block, FORMAT_BLOCK, 0);
	if (n < 0)
		return (int)n;
	if (n < (int64_t)FORMAT_BLOCK)
		return ERR_DAMAGED;
	memcpy(&header, block, sizeof(header));
	int r = segment_header_check(&header);
	if (r < 0)
		return r;
	if (header.number != number || header.epoch == 0 ||
	    memcmp(header.folder_id, folder->id, FORMAT_ID_LEN) != 0)
		return ERR_DAMAGED;
	*ret_header = header;
	return 0;
}

int segment_header_of(const struct folder *folder, uint64_t number,
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

/* --- the list of segments --------------------------------------------------- */

int segment_list_add(struct segment_list *list, uint64_t number, const struct segment_info *item)
{
	CHECK(list->count == 0 || number == segment_list_end(list));
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct segment_info *items = mem_realloc(list->items, room * sizeof(*items));
		if (!items)
			return -ENOMEM;
		list->items = items;
		list->room = room;
	}
	if (list->count == 0)
		list->first = number;
	list->items[list->count++] = *item;
	return 0;
}

struct segment_info *segment_list_find(const struct segment_list *list, uint64_t number)
{
	if (number < list->first || number >= segment_list_end(list))
		return NULL;
	return &list->items[number - list->first];
}

void segment_list_drop_first(struct segment_list *list)
{
	CHECK(list->count > 0);
	list->count--;
	list->first++;
	memmove(list->items, list->items + 1, list->count * sizeof(*list->items));
}

void segment_list_free(struct segment_list *list)
{
	mem_free(list->items);
	*list = (struct segment_list){ 0 };
}

/* --- the files of a folder --------------------------------------------------- */

static int numbers_add(struct catalog_numbers *numbers, uint64_t number)
{
	if (numbers->count == numbers->room) {
		size_t room = numbers->room ? numbers->room * 2 : 64;
		uint64_t *items = mem_realloc(numbers->items, room * sizeof(*items));
		if (!items)
			return -ENOMEM;
		numbers->items = items;
		numbers->room = room;
	}
	numbers->items[numbers->count++] = number;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static bool numbers_have(const struct catalog_numbers *numbers, uint64_t number)
{
	return numbers->count > 0 &&
	       bsearch(&number, numbers->items, numbers->count, sizeof(number), compare) != NULL;
}

static void numbers_sort(struct catalog_numbers *numbers)
{
	if (numbers->count)
		qsort(numbers->items, numbers->count, sizeof(numbers->items[0]), compare);
}

static int list_each(void *user, const char *name)
{
	struct catalog *catalog = user;
	uint64_t number;

	switch (format_name_parse(name, &number)) {
	case FILE_KIND_SEGMENT: return numbers_add(&catalog->segments, number);
	case FILE_KIND_CLAIMS: return numbers_add(&catalog->claims, number);
	case FILE_KIND_LEFTOVER:
	case FILE_KIND_OTHER: break;
	}
	return 0;
}

int catalog_list(struct catalog *catalog, const struct folder *folder)
{
	*catalog = (struct catalog){ 0 };

	int r = folder->fs->methods->list(folder->fs, folder->path, list_each, catalog);
	numbers_sort(&catalog->segments);
	numbers_sort(&catalog->claims);
	return r;
}

void catalog_free(struct catalog *catalog)
{
	mem_free(catalog->segments.items);
	mem_free(catalog->claims.items);
	mem_free(catalog->unused.items);
	mem_free(catalog->unsure.items);
	*catalog = (struct catalog){ 0 };
}

bool catalog_has_segment(const struct catalog *catalog, uint64_t number)
{
	return numbers_have(&catalog->segments, number);
}

bool catalog_has_claims(const struct catalog *catalog, uint64_t number)
{
	return numbers_have(&catalog->claims, number);
}

static int fail(struct error_text *text, int error, uint64_t number, const char *what)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, number, FILE_KIND_SEGMENT);
	if (error == ERR_DAMAGED)
		return error_fill(text, error, "%s is damaged at offset 0: %s", name, what);
	return error_fill(text, error, "%s: %s", name, error_name(error));
}

static int missing(struct error_text *text, uint64_t number)
{
	char name[FORMAT_NAME_MAX];

	format_name(name, number, FILE_KIND_SEGMENT);
	return error_fill(text, ERR_DAMAGED, "%s is missing (offset 0)", name);
}

/* A segment that was prepared and never begun has no valid header. */
static int find_last(struct catalog *catalog, const struct folder *folder, uint64_t durable,
                     struct error_text *text)
{
	struct catalog_numbers *segments = &catalog->segments;
	struct segment_header header;

	while (segments->count > 0) {
		uint64_t number = segments->items[segments->count - 1];
		int r = segment_header_of(folder, number, &header);
		if (r == 0 || number <= durable)
			break;
		if (r != ERR_DAMAGED)
			return fail(text, r, number, "");
		r = numbers_add(&catalog->unused, number);
		if (r < 0)
			return r;
		segments->count--;
	}
	catalog->last = segments->count ? segments->items[segments->count - 1] : 0;
	return catalog->last < durable ? missing(text, durable) : 0;
}

static int set_unsure_aside(struct catalog *catalog)
{
	struct catalog_numbers *claims = &catalog->claims;

	while (claims->count > 0 && claims->items[claims->count - 1] >= catalog->last) {
		int r = numbers_add(&catalog->unsure, claims->items[claims->count - 1]);
		if (r < 0)
			return r;
		claims->count--;
	}
	return 0;
}

int catalog_range(struct catalog *catalog, const struct folder *folder,
                  const struct superblock_slot *slot, struct error_text *text)
{
	struct segment_header header;

	catalog->oldest = slot->oldest;
	catalog->scan_from = slot->scan_from;
	int r = find_last(catalog, folder, slot->durable_segment, text);
	if (r < 0)
		return r;
	if (catalog->last == 0)
		return 0;
	r = set_unsure_aside(catalog);
	if (r < 0)
		return r;
	/* A bad header is reported, with its place, when the segment is read. */
	r = segment_header_of(folder, catalog->last, &header);
	if (r == 0 && header.scan_from > catalog->scan_from)
		catalog->scan_from = header.scan_from;
	if (catalog->scan_from > catalog->last)
		catalog->scan_from = catalog->last;
	return 0;
}

int catalog_check(const struct catalog *catalog, uint64_t number, struct error_text *text)
{
	if (catalog_has_segment(catalog, number))
		return 0;
	if (number < catalog->scan_from && catalog_has_claims(catalog, number))
		return 0;
	return missing(text, number);
}

int catalog_successor(const struct catalog *catalog, const struct folder *folder, uint64_t number,
                      struct catalog_successor *ret_successor, struct error_text *text)
{
	*ret_successor = (struct catalog_successor){ 0 };
	if (number == catalog->last)
		return 0;
	return catalog_successor_read(folder, number, catalog_has_segment(catalog, number + 1),
	                              ret_successor, text);
}

int catalog_successor_read(const struct folder *folder, uint64_t number, bool has_segment,
                           struct catalog_successor *ret_successor, struct error_text *text)
{
	struct claims_summary summary;
	struct segment_header header;

	if (!has_segment) {
		int r = claims_file_summary(folder, number + 1, &summary, text);
		if (r < 0)
			return r;
		*ret_successor =
			(struct catalog_successor){ .end = summary.previous_end,
			                            .sequence = summary.previous_sequence,
			                            .expiry_ms = summary.previous_expiry_ms };
		return 0;
	}
	int r = segment_header_of(folder, number + 1, &header);
	if (r < 0)
		return fail(text, r, number + 1, "the header does not check");
	if (header.previous != number || header.previous_end < FORMAT_BLOCK)
		return fail(text, ERR_DAMAGED, number + 1,
		            "the header does not follow the segment before");
	*ret_successor = (struct catalog_successor){ .end = header.previous_end,
		                                     .sequence = header.previous_sequence,
		                                     .expiry_ms = header.previous_expiry_ms,
		                                     .sealed_ms = header.steady_ms };
	return 0;
}
