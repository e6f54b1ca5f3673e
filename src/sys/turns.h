/*
 * turns: one thread at a time, in the order in which they came.
 *
 * A mutex may be had again by the thread that lets it go, before one that was woken by
 * that gets to run: where both share a core, and the first sleeps only while it holds the
 * mutex, the other would wait for long. Here whoever is next has it.
 *
 * Room:      sys. Threads: any.
 * Ownership: the struct is the caller's, who makes it with TURNS_INIT.
 * Failure:   none.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct turns {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t last; /* number of whoever came last */
	uint64_t now;  /* of whose turn it is, or will be */
};

#define TURNS_INIT                                                                                \
	{                                                                                         \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .now = 1 \
	}

/* Waits for all who came before. */
void turns_take(struct turns *turns);
void turns_give(struct turns *turns);
