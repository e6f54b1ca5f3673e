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
/*
 * The calling thread mostly waits, and works for some microseconds when it is woken:
 * it may begin at once then, also on a core that is busy with another thread. No more
 * of the core becomes its share. Does nothing where the kernel cannot (before 6.12).
 */
void thread_run_promptly(void);
/*
 * The opposite, or as it was again: nobody waits for what the calling thread does, so
 * who wakes it goes on first if they share a core, until it sleeps or its turn is over.
 * The share of the core stays the same. Does nothing to a thread with a policy that
 * somebody has chosen for it.
 */
void thread_run_behind(bool behind);

/* The calling thread runs while nobody else of its control group wants to. */
int thread_run_last(void) must_check;
/* From now on the thread, which runs, stays on that core. */
int thread_move(struct thread *thread, int cpu) must_check;

void thread_join(struct thread *thread); /* of one that did not start: nothing */

/* Instead of thread_join(), by anybody who must not wait: the thread ends when it
 * ends, and its struct must stay until then. */
void thread_leave(struct thread *thread);
