/*
 * read_ahead: reads the next piece of a file while its owner looks at the one before.
 *
 * Recovery reads whole segments past the page cache, so nobody else reads ahead for it:
 * without this the disk rests while frames are checked, and the other way round.
 *
 * Room:      store/local. Threads: one owner; the reading is an errand's.
 * Ownership: read_ahead_new() gives it, read_ahead_free() takes it (accepts NULL).
 * Failure:   read_ahead_new(): -errno. What goes wrong with a piece is told to who asks
 *            for it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "sys/file.h"

#define READ_AHEAD_PIECE (1u << 20)

struct read_ahead;

int read_ahead_new(struct file_system *fs, struct read_ahead **ret_ahead) must_check;
struct read_ahead *read_ahead_free(struct read_ahead *ahead);

/* As file_system's read, at whole blocks. `next`: so many bytes behind these, at most a piece,
 * are asked for next; 0: nothing, and the file may be closed. */
int64_t read_ahead_read(struct read_ahead *ahead, int fd, void *ptr, size_t len, uint64_t offset,
                        size_t next) must_check;

/* What was asked for is not wanted: the file may be closed. */
void read_ahead_drop(struct read_ahead *ahead);
