/*
 * segment: the files of a data folder, one call for each durable step.
 *
 * A segment is prepared under the name spare.seg: filled with zeros (or an old
 * segment that was retired: its frames carry another epoch), synced, then
 * renamed to its number. It begins its life when its header is written.
 *
 * Format:  format.h
 * Threads: any; two threads never work on the same file.
 * Failure: -errno, ERR_DAMAGED or ERR_VERSION. Nothing is logged.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "store/local/journal/format.h"
#include "sys/file.h"

#define FOLDER_PATH_MAX 4096

struct folder {
	struct file_system *fs;
	const char *path;
	uint32_t segment_bytes;
	unsigned char id[FORMAT_ID_LEN];
};

/* -ENAMETOOLONG when it does not fit. */
int folder_file(const struct folder *folder, const char *name,
                char ret_path[static FOLDER_PATH_MAX]) must_check;
int folder_numbered(const struct folder *folder, uint64_t number, enum file_kind kind,
                    char ret_path[static FOLDER_PATH_MAX]) must_check;
int folder_open(const struct folder *folder, const char *name, int flags, int *ret_fd) must_check;
int folder_sync(const struct folder *folder) must_check;
int folder_remove(const struct folder *folder, const char *name); /* 0 if it is not there */

/* Writes zeros over all of a new spare.seg and syncs it. Leaves nothing on failure.
 * `pause` (NULL: none) is called after each piece with the bytes so far, so that
 * commits find the disk free in between. */
struct segment_pace {
	void (*pause)(void *user, uint32_t filled);
	void *user;
};
int segment_fill(const struct folder *folder, struct segment_pace pace) must_check;
/* spare.seg gets the number's name, durably. */
int segment_name_spare(const struct folder *folder, uint64_t number) must_check;
/* The number's file becomes spare.seg. */
int segment_make_spare(const struct folder *folder, uint64_t number) must_check;
int segment_remove(const struct folder *folder, uint64_t number, enum file_kind kind) must_check;

int segment_open_write(const struct folder *folder, uint64_t number, int *ret_fd) must_check;
int segment_open_read(const struct folder *folder, uint64_t number, int *ret_fd) must_check;

/* Seals and writes the header block; durable when it returns. */
int segment_write_header(const struct folder *folder, int fd,
                         struct segment_header *header) must_check;
/* ERR_DAMAGED also when the header is another folder's or another number's. */
int segment_read_header(const struct folder *folder, int fd, uint64_t number,
                        struct segment_header *ret_header) must_check;
