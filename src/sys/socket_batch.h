/*
 * socket_batch: many sends or receives on sockets in one system call, by io_uring.
 *
 * A round of the loop that answers a hundred connections would make a hundred
 * system calls. Here they are queued and given to the kernel at once. Nothing is
 * left under way: every call is tried once, without waiting, and is over when
 * socket_batch_run() returns, just as with MSG_DONTWAIT.
 *
 * By the kernel's own interface and not by liburing: two operations and two
 * system calls are all that is used, and a program that may do without io_uring
 * should not need a library for it.
 *
 * Room:      sys. Threads: one at a time.
 * Ownership: socket_batch_new() gives it, socket_batch_free() takes it. Queued
 *            calls and their bytes are the caller's and stay where they are
 *            until they are done.
 * Failure:   socket_batch_new() says -ENOSYS or -EPERM where the kernel is too
 *            old or a policy (seccomp, kernel.io_uring_disabled) forbids it: the
 *            caller then uses send() and recv(). After that nothing fails but
 *            single calls.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/check.h"

#define SOCKET_BATCH_MAX 256u

struct socket_batch;

/* Embedded in the caller's struct. */
struct socket_call {
	/* Bytes sent or received, or a negative errno; -EAGAIN also for a call that
	 * the kernel did not come to. May queue no calls. */
	void (*done)(struct socket_call *call, ssize_t result);
};

int socket_batch_new(struct socket_batch **ret_batch) must_check;
struct socket_batch *socket_batch_free(struct socket_batch *batch);

/* With SOCKET_BATCH_MAX in the queue, those are run first. */
void socket_batch_send(struct socket_batch *batch, struct socket_call *call, int fd,
                       const void *bytes, size_t len);
void socket_batch_recv(struct socket_batch *batch, struct socket_call *call, int fd, void *out,
                       size_t room);
uint32_t socket_batch_queued(const struct socket_batch *batch);
void socket_batch_run(struct socket_batch *batch);
