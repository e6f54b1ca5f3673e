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
#include <sys/uio.h>

#include "base/check.h"
#include "base/span.h"

#define STREAM_PARTS_MAX 1024 /* of one write */

/* As many bytes as are there, at most `len`; 0 at the end. */
int64_t stream_read(int fd, void *ptr, size_t len) must_check;

/* All parts, in their order; at most STREAM_PARTS_MAX. They are used up: what they
 * hold afterwards means nothing. */
int stream_write(int fd, struct iovec *parts, int count) must_check;
int stream_write_span(int fd, struct span bytes) must_check;

/* How many bytes will come, as it looks now; 0: nobody knows. */
uint64_t stream_size(int fd);

bool stream_is_terminal(int fd);

/* From now on a reader that has gone is an error of the write (-EPIPE), not the
 * end of the process. */
void stream_ignore_broken_pipes(void);
