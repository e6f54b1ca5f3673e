/*
 * fair_lock: a lock that is granted in the order of the requests, with a time limit.
 *
 * An ordinary mutex can be taken again by the thread that releases it, before the
 * thread that the release woke gets to run. Where both share a core, and the first
 * sleeps only while it holds the mutex, the other would wait for a long time.
 *
 * It is for work that is better done by one thread after the other, but need not be:
 * after the limit a thread proceeds without the lock.
 *
 * Room:      sys. Threads: any.
 * Ownership: the struct is the caller's, initialised with FAIR_LOCK_INIT.
 * Failure:   none.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct fair_lock_waiter;

struct fair_lock {
	pthread_mutex_t mutex; /* guards the members below */
	bool taken;
	struct fair_lock_waiter *first; /* in the order of their requests */
	uint32_t waiting;               /* number of waiters */
};

/* clang-format off */
#define FAIR_LOCK_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER }
/* clang-format on */

/* False: not granted within the limit. */
bool fair_lock_take(struct fair_lock *lock, int limit_ms) must_check;
/* Only by the holder. Grants the lock to the next waiter. */
void fair_lock_release(struct fair_lock *lock);
