/*
 * feed: short messages from many threads to one that may listen.
 *
 * Without a listener a message costs one load (check feed_heard() before formatting it).
 * Messages that the listener does not take in time are lost and counted: senders never wait.
 *
 * Room:      sys. Threads: feed_heard(), feed_say() any; the others the listener's.
 * Ownership: feed_new() gives it, feed_free() takes it; messages are copied.
 * Failure:   a message that does not fit is lost.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

#define FEED_BYTES_MAX (1u << 20) /* that wait to be taken */

struct feed {
	atomic_bool heard;    /* there is a listener */
	pthread_mutex_t lock; /* guards the members below */
	struct buf waiting;
	uint64_t lost;
	void (*wake)(void *user);
	void *user;
};

int feed_new(struct feed **ret_feed) must_check;
struct feed *feed_free(struct feed *feed); /* accepts NULL, returns NULL */

/* Accepts NULL: no listener. */
static inline bool feed_heard(const struct feed *feed)
{
	return feed && atomic_load_explicit(&feed->heard, memory_order_relaxed);
}

void feed_say(struct feed *feed, struct span message);

/* From now on messages are kept, and `wake` is called, on any thread, when one comes
 * after everything was taken. NULL: the listener is gone. */
void feed_listen(struct feed *feed, void (*wake)(void *user), void *user);

/* Swaps what waits for an empty `messages`; returns how many were lost since the last. */
uint64_t feed_take(struct feed *feed, struct buf *messages);
