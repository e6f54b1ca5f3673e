/* worker: tasks run elsewhere, in order, and come back where they were given. */
#include "support/test.h"

#include <errno.h>
#include <pthread.h>

#include "base/error.h"
#include "sys/wake_event.h"
#include "sys/worker.h"

#define TASKS (WORKER_TASKS_MAX + 1)

struct errand {
	struct worker_task task;
	unsigned number;
	bool ran_elsewhere, back_here;
};

static struct errand errands[TASKS];
static struct worker_desk desk;
static struct wake_event bell;
static struct wake_event gate; /* the first errand waits here, if it is told to */
static bool first_waits;
static unsigned ran, back;
static pthread_t home;

static void ring(void *user)
{
	wake_event_set(user);
}

static void run(struct worker_task *task)
{
	struct errand *errand = container_of(task, struct errand, task);
	if (errand->number == 0 && first_waits)
		wake_event_wait(&gate, -1);
	errand->ran_elsewhere = !pthread_equal(pthread_self(), home);
	assert_int_equal(errand->number, ran++);
}

static void done(struct worker_task *task)
{
	struct errand *errand = container_of(task, struct errand, task);
	errand->back_here = pthread_equal(pthread_self(), home);
	assert_int_equal(errand->number, back++);
}

static struct worker *begin(bool waits)
{
	struct worker *worker = NULL;
	home = pthread_self();
	ran = back = 0;
	first_waits = waits;
	wake_event_init(&bell);
	wake_event_init(&gate);
	worker_desk_init(&desk, ring, &bell);
	assert_int_equal(worker_new("test", &worker), 0);
	for (unsigned i = 0; i < TASKS; i++)
		errands[i] = (struct errand){ .task = { .run = run, .done = done }, .number = i };
	return worker;
}

static void end(void)
{
	wake_event_destroy(&bell);
	wake_event_destroy(&gate);
}

static void tasks_run_elsewhere_in_order_and_come_back(void **state)
{
	(void)state;
	struct worker *worker = begin(false);
	for (unsigned i = 0; i < WORKER_TASKS_MAX; i++)
		assert_int_equal(worker_give(worker, &desk, &errands[i].task), 0);
	while (back < WORKER_TASKS_MAX) {
		wake_event_wait(&bell, -1);
		worker_collect(&desk);
	}
	for (unsigned i = 0; i < WORKER_TASKS_MAX; i++)
		assert_true(errands[i].ran_elsewhere && errands[i].back_here &&
		            !errands[i].task.skipped);
	worker_end(worker);
	end();
}

static void one_task_too_many_is_refused(void **state)
{
	(void)state;
	struct worker *worker = begin(true);
	for (unsigned i = 0; i < WORKER_TASKS_MAX; i++)
		assert_int_equal(worker_give(worker, &desk, &errands[i].task), 0);
	struct worker_task *last = &errands[WORKER_TASKS_MAX].task;
	assert_int_equal(worker_give(worker, &desk, last), ERR_BUSY);
	wake_event_set(&gate);
	while (back == 0) {
		wake_event_wait(&bell, -1);
		worker_collect(&desk);
	}
	assert_int_equal(worker_give(worker, &desk, last), 0);
	worker_end(worker);
	worker_collect(&desk);
	assert_int_equal(back, TASKS);
	end();
}

static void what_waits_at_the_end_comes_back_undone(void **state)
{
	(void)state;
	struct worker *worker = begin(true);
	wake_event_set(&gate);
	for (unsigned i = 0; i < WORKER_TASKS_MAX; i++)
		assert_int_equal(worker_give(worker, &desk, &errands[i].task), 0);
	worker_end(worker);
	worker_collect(&desk);
	assert_int_equal(back, WORKER_TASKS_MAX);
	for (unsigned i = 0; i < WORKER_TASKS_MAX; i++)
		assert_int_equal(errands[i].task.skipped, i >= ran);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_run_elsewhere_in_order_and_come_back),
		cmocka_unit_test(one_task_too_many_is_refused),
		cmocka_unit_test(what_waits_at_the_end_comes_back_undone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
