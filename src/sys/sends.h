/*
 * sends: many sends on sockets in one system call, by io_uring.
 *
 * A round of the loop that answers a hundred connections would make a hundred
 * system calls. Here they are queued and given to the kernel at once. Nothing is
 * left under way: every send is tried once, without waiting, and is over when
 * sends_run() returns, just as with send(MSG_DONTWAIT).
 *
 * By the kernel's own interface and not by liburing: one operation and three
 * system calls are all that is used, and a program that may do without io_uring
 * should not need a library for it.
 *
 * Room:      sys. Threads: one at a time.
 * Ownership: sends_new() gives it, sends_free() takes it. Queued bytes are the
 *            caller's and stay where they are until sends_run().
 * Failure:   sends_new() says -ENOSYS or -EPERM where the kernel is too old or a
 *            policy (seccomp, kernel.io_uring_disabled) forbids it: the caller
 *            then uses send(). After that nothing fails but single sends.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/check.h"

#define SENDS_MAX 256u /* queued at a time; sends_add() beyond it runs those before */

struct sends;

/* How a send ended: bytes taken, maybe fewer than asked, or a negative errno.
 * One that the kernel did not come to is reported with -EAGAIN. */
typedef void sends_done(void *user, ssize_t result);

int sends_new(sends_done *done, struct sends **ret_sends) must_check;
struct sends *sends_free(struct sends *sends);

void sends_add(struct sends *sends, int fd, const void *bytes, size_t len, void *user);
void sends_run(struct sends *sends);
