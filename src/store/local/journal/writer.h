/*
 * writer: one durable write at a time, beside the owner.
 *
 * While a frame is on its way to the disk the owner has the next one put together.
 * A system call of a thread that sleeps in it, and no asynchronous interface: those
 * let a worker of the kernel end the write (it must flush the disk's cache after the
 * data), which then waits behind whoever is busy on its core. This thread asks to be
 * run as soon as it is woken.
 *
 * Room:      store/local. Threads: the owner calls everything here.
 * Ownership: writer_new() gives it, writer_free() takes it. The bytes of a write are
 *            the writer's from writer_start() to writer_wait().
 * Failure:   writer_new(): -errno. writer_wait() gives that of the write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "store/local/journal/keeper.h"
#include "sys/file.h"

struct writer;

struct writer_job {
	int fd;
	const void *ptr;
	size_t len;
	uint64_t offset;
	struct keeper *keeper; /* has its turn when the write has ended */
	/* NULL, or called on the writer's thread when writer_wait() would not wait. */
	void (*ended)(void *user);
	void *user;
};

/* `deferred`: no thread; the write is made by writer_wait(), and is said to have ended
 * when that is asked for the second time. For tests that must repeat exactly. */
int writer_new(struct file_system *fs, bool deferred, struct writer **ret_writer) must_check;
struct writer *writer_free(struct writer *writer); /* accepts NULL; nothing may be under way */

void writer_start(struct writer *writer, const struct writer_job *job);
/* Would writer_wait() return at once? */
bool writer_ended(struct writer *writer);
/* Waits for the write under way. */
int writer_wait(struct writer *writer) must_check;
