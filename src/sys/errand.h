/*
 * errand: a thread that does one thing at a time for its owner, beside it.
 *
 * Room:      sys. Threads: the owner calls everything here; a job runs on the errand's.
 * Ownership: the struct is the caller's, from errand_init() to errand_end(). What a job
 *            touches is the job's from errand_start() to errand_wait().
 * Failure:   errand_init(): -errno; nothing runs then.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/check.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

struct errand_job {
	void (*run)(void *user);
	void *user;
	/* NULL, or called on the errand's thread when errand_wait() would not wait. */
	void (*ended)(void *user);
	void *ended_user;
};

struct errand {
	struct thread thread;
	struct errand_job job;
	bool under_way; /* the owner's */
	atomic_bool wanted;
	atomic_bool done;
	atomic_bool stop;
	struct wake_event work;     /* the thread's */
	struct wake_event finished; /* the owner's */
};

int errand_init(struct errand *errand, const char *name) must_check;
void errand_end(struct errand *errand); /* nothing may be under way */

void errand_start(struct errand *errand, const struct errand_job *job);
/* Would errand_wait() return at once? */
bool errand_ended(struct errand *errand);
/* Waits for the job under way. */
void errand_wait(struct errand *errand);
