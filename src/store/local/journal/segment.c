/* segment: see segment.h. */
#include "store/local/journal/segment.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

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

/* Finding out by writing would fill the disk with zeros again and again. */
static bool has_room(const struct folder *folder)
{
	uint64_t bytes;

	return folder->fs->methods->room(folder->fs, folder->path, &bytes) < 0 ||
	       bytes >= folder->segment_bytes;
}

int segment_fill(const struct folder *folder, struct segment_pace pace)
{
	int fd;

	CHECK(folder->segment_bytes % FORMAT_BLOCK == 0);
	int r = folder_remove(folder, SPARE_NAME);
	if (r < 0)
		return r;
	if (!has_room(folder))
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
