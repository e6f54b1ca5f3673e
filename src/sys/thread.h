/*
 * thread: a named thread that no signal reaches.
 *
 * Signals stay with the main thread: every other thread starts with all of them
 * blocked (but for the ones a fault raises), so none of its calls is cut short.
 *
 * Room:      sys. Threads: start and join from one thread.
 * Ownership: the struct is the caller's and must stay until thread_join().
 * Failure:   -errno; nothing runs then.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/check.h"

struct thread {
	pthread_t id;
	bool running;
	void (*run)(void *user);
	void *user;
	char name[16]; /* what ps and gdb show; the kernel keeps 15 characters */
};

struct thread_options {
	const char *name;
	int cpu; /* THREAD_ANY_CPU, or the one to stay on */
	void (*run)(void *user);
	void *user;
};

#define THREAD_ANY_CPU (-1)

int thread_start(struct thread *thread, const struct thread_options *options) must_check;
void thread_join(struct thread *thread); /* of one that did not start: nothing */

/* Instead of thread_join(), by anybody who must not wait: the thread ends when it
 * ends, and its struct must stay until then. */
void thread_leave(struct thread *thread);
