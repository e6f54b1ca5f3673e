/* worker: see worker.h. */
#include "sys/worker.h"

#include <stdatomic.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

struct worker {
	struct mailbox waiting;
	struct wake_event wake;
	struct thread thread;
	atomic_bool ending;
};

static struct worker_task *task_of(struct mailbox_node *node)
{
	return container_of(node, struct worker_task, node);
}

/* Runs all waiting tasks; at the end the remaining ones are returned as skipped. */
static void work_off(struct worker *worker)
{
	struct mailbox_node *node = mailbox_take(&worker->waiting), *next;

	for (; node; node = next) {
		struct worker_task *task = task_of(node);
		next = node->next;
		task->skipped = atomic_load(&worker->ending);
		if (!task->skipped)
			task->run(task);
		struct worker_desk *desk = task->desk;
		struct mailbox_chain chain = { NULL, NULL };

		mailbox_chain_add(&chain, &task->node);
		mailbox_post(&desk->finished, &chain);
		desk->wake(desk->user);
	}
}

static void work(void *user)
{
	struct worker *worker = user;

	while (!atomic_load(&worker->ending)) {
		wake_event_wait(&worker->wake, -1);
		work_off(worker);
	}
}

int worker_new(const char *name, struct worker **ret_worker)
{
	struct worker *worker = mem_zalloc(1, sizeof(*worker));
	struct thread_options options = { .name = name, .cpu = THREAD_ANY_CPU, .run = work };

	if (!worker)
		return -ENOMEM;
	mailbox_init(&worker->waiting);
	wake_event_init(&worker->wake);
	options.user = worker;
	int r = thread_start(&worker->thread, &options);
	if (r < 0) {
		wake_event_destroy(&worker->wake);
		mem_free(worker);
		return r;
	}
	*ret_worker = worker;
	return 0;
}

struct worker *worker_end(struct worker *worker)
{
	if (!worker)
		return NULL;
	atomic_store(&worker->ending, true);
	wake_event_set(&worker->wake);
	thread_join(&worker->thread);
	work_off(worker);
	wake_event_destroy(&worker->wake);
	return mem_free(worker);
}

void worker_desk_init(struct worker_desk *desk, void (*wake)(void *user), void *user)
{
	*desk = (struct worker_desk){ .wake = wake, .user = user };
	mailbox_init(&desk->finished);
}

int worker_give(struct worker *worker, struct worker_desk *desk, struct worker_task *task)
{
	struct mailbox_chain chain = { NULL, NULL };

	CHECK(task->run && task->done);
	if (desk->given == WORKER_TASKS_MAX)
		return ERR_BUSY;
	desk->given++;
	task->desk = desk;
	mailbox_chain_add(&chain, &task->node);
	mailbox_post(&worker->waiting, &chain);
	wake_event_set(&worker->wake);
	return 0;
}

void worker_collect(struct worker_desk *desk)
{
	struct mailbox_node *node = mailbox_take(&desk->finished), *next;

	for (; node; node = next) {
		struct worker_task *task = task_of(node);
		next = node->next;
		CHECK(desk->given > 0);
		desk->given--;
		task->done(task);
	}
}
