/*
 * awake: keeps a core from falling asleep while its thread waits for the disk.
 *
 * A virtual core that has nothing to do is given back to the host, and it takes tens of
 * microseconds to have it again: of a durable write of 145, some 25 to 50. So while the
 * owner sleeps in its write, a thread of the lowest kind turns on the spot on the same
 * core; whoever else of this control group wants to run there takes its place at once.
 * (Among control groups the kernel shares by their weights, whatever their threads are.)
 *
 * That costs time of the core which nobody wanted, and it is spent only where it is worth
 * it: while the owner is so busy that little is left, and waits so often that the rest is
 * not nothing; and where its rounds are shorter then. Whether they are, is seen by waiting
 * the other way now and then.
 *
 * Room:      sys. Threads: one owner; the helper's thread is started by the first wait
 *            that is worth it.
 * Ownership: awake_new() gives it, awake_free() takes it (accepts NULL). The helper, which
 *            may not get to run for long, ends in its own time.
 * Failure:   awake_new(): NULL, no memory. Without a thread, or if it may not be of the
 *            lowest kind, there is no help.
 * Time:      what the owner says, so that tests can say it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct awake;

struct awake_time {
	uint64_t now_ns; /* clock_monotonic_ns() */
	uint64_t cpu_ns; /* clock_thread_ns() of the owner */
};

struct awake *awake_new(struct awake_time at);
struct awake *awake_free(struct awake *awake);

/* The owner is about to wait; true: awake. */
bool awake_begin(struct awake *awake, struct awake_time at);
/* It has waited. */
void awake_end(struct awake *awake, uint64_t now_ns);
