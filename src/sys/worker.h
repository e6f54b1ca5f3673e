/*
 * worker: a thread that runs slow tasks for others, one after the other, and returns each task
 * to the thread that gave it.
 *
 *   worker_give() ──► run(), on the worker's thread ──► worker_collect() ──► done()
 *
 * Room:      sys. Threads: worker_give() and worker_collect() on the desk's own
 *            thread; worker_end() when no other thread gives any more.
 * Ownership: a task is the caller's memory, and the worker's from give to done(),
 *            which may free it. A desk outlives the worker.
 * Bounds:    WORKER_TASKS_MAX for each desk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "sys/mailbox.h"

#define WORKER_TASKS_MAX 16u

struct worker;

/* Where one thread gets its tasks back. */
struct worker_desk {
	struct mailbox finished;
	void (*wake)(void *user); /* on the worker's thread: there is something to collect */
	void *user;
	uint32_t given; /* and not yet collected */
};

struct worker_task {
	struct mailbox_node node;
	struct worker_desk *desk;
	bool skipped; /* the worker ended first: run() was not called */
	void (*run)(struct worker_task *task);
	void (*done)(struct worker_task *task);
};

int worker_new(const char *name, struct worker **ret_worker) must_check;
/* Ends after the task at hand; what waits comes back as skipped. Accepts NULL,
 * returns NULL. */
struct worker *worker_end(struct worker *worker);

void worker_desk_init(struct worker_desk *desk, void (*wake)(void *user), void *user);

/* ERR_BUSY: too many of this desk are waiting; nothing was taken. */
int worker_give(struct worker *worker, struct worker_desk *desk,
                struct worker_task *task) must_check;

/* Calls done() of all that came back. */
void worker_collect(struct worker_desk *desk);
