/*
 * stream: bytes in a row, from and to descriptors that have no offsets: pipes,
 * terminals, and files that are read once from their start.
 *
 * Room:    sys. Threads: any; a descriptor has one reader and one writer.
 * Failure: -errno. Interrupted calls are repeated, and a descriptor that does not
 *          block is waited for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

/* As many bytes as are there, at most `len`; 0 at the end. */
int64_t stream_read(int fd, void *ptr, size_t len) must_check;

/* All bytes. */
int stream_write(int fd, struct span bytes) must_check;

bool stream_is_terminal(int fd);

/* From now on a reader that has gone is an error of the write (-EPIPE), not the
 * end of the process. */
void stream_ignore_broken_pipes(void);
