/*
 * file: the I/O seam. All file access of stile goes through a struct file_system,
 * so that a test can fail, tear, drop or delay any call (tests/support/simfs.h).
 *
 * Room:    sys. Threads: the real one is safe from any thread.
 * Failure: 0 (or a count), -errno, or what is documented below. Reads and writes are
 *          whole: short ones are continued inside, a read past the end returns
 *          fewer bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

enum file_flags {
	FILE_READ = 1,
	FILE_WRITE = 2,
	FILE_CREATE = 4,     /* with FILE_WRITE: may exist */
	FILE_EXCLUSIVE = 8,  /* with FILE_CREATE: must not exist */
	FILE_DIRECT = 16,    /* O_DIRECT where the file system has it, else ignored */
	FILE_SYNC_DATA = 32, /* O_DSYNC: a write that returned is durable */
	FILE_REGULAR = 64,   /* a pipe, a device, a folder: ERR_KIND, without waiting for it */
};

/* Buffers, offsets and lengths of FILE_DIRECT access are multiples of this. */
#define FILE_BLOCK 4096u

struct file_system {
	const struct file_methods *methods;
};

struct file_methods {
	int (*open)(struct file_system *fs, const char *path, int flags, int *ret_fd);
	int (*close)(struct file_system *fs, int fd);
	/* A pipe, which has no offsets, is read from its current position. */
	int64_t (*read)(struct file_system *fs, int fd, void *ptr, size_t len, uint64_t offset);
	int (*write)(struct file_system *fs, int fd, const void *ptr, size_t len, uint64_t offset);
	int (*sync_data)(struct file_system *fs, int fd);
	int (*truncate)(struct file_system *fs, int fd, uint64_t size);
	int (*size)(struct file_system *fs, int fd, uint64_t *ret_size);
	int (*rename)(struct file_system *fs, const char *from, const char *to);
	int (*remove)(struct file_system *fs, const char *path);
	int (*make_dir)(struct file_system *fs, const char *path); /* 0 if it is there */
	int (*sync_dir)(struct file_system *fs, const char *path);
	/* Calls each(user, name) for every entry but . and ..; stops when it
	 * returns non-zero and returns that. */
	int (*list)(struct file_system *fs, const char *path,
	            int (*each)(void *user, const char *name), void *user);
	/* How many bytes new files in this folder may get, as far as the file system
	 * can tell: a quota may allow less. UINT64_MAX if it cannot. */
	int (*room)(struct file_system *fs, const char *path, uint64_t *ret_bytes);
	/* Exclusive lock on a folder, for the life of the descriptor; ERR_BUSY if
	 * held. It is the folder's own: no file in it can be removed to get in. */
	int (*lock_dir)(struct file_system *fs, const char *path, int *ret_fd);
};

/* All of a file of at most `max` bytes, with a NUL behind it: in memory that the
 * caller frees. ERR_TOO_LARGE if it has more. A pipe is read to its end, and blocks
 * until then. */
int file_read_whole(struct file_system *fs, const char *path, size_t max, char **ret_bytes,
                    size_t *ret_len) must_check;

/* The same for regular files only: ERR_KIND at once for anything else. A running gateway reads
 * files this way: it must not block. */
int file_read_regular(struct file_system *fs, const char *path, size_t max, char **ret_bytes,
                      size_t *ret_len) must_check;

/* Can it be read only once? False also if that is unknown. */
bool file_is_pipe(const char *path);

/* Is it readable by all users? False also if that is unknown. */
bool file_is_public(const char *path);

/* Is this open file the one at the path, or the other open one, and a regular one? False also
 * if that is unknown. */
bool file_is_at(int fd, const char *path);
bool file_is_same(int fd, int other);

/* The machine's files. */
struct file_system *file_system_real(void);
