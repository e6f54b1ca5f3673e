/* thread: see thread.h. */
#include "sys/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *enter(void *argument)
{
	struct thread *thread = argument;
	pthread_setname_np(pthread_self(), thread->name);
	thread->run(thread->user);
	return NULL;
}

static void most_signals(sigset_t *ret_set)
{
	sigfillset(ret_set);
	/* Blocked, these would kill without the handler that a sanitizer or a
	 * crash report has installed. */
	sigdelset(ret_set, SIGSEGV);
	sigdelset(ret_set, SIGBUS);
	sigdelset(ret_set, SIGFPE);
	sigdelset(ret_set, SIGILL);
	sigdelset(ret_set, SIGABRT);
	sigdelset(ret_set, SIGTRAP);
}

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return set;
}

static int init_attributes(pthread_attr_t *attributes, int cpu)
{
	int error = pthread_attr_init(attributes);
	if (error || cpu == THREAD_ANY_CPU)
		return -error;
	if (cpu < 0 || cpu >= CPU_SETSIZE) {
		pthread_attr_destroy(attributes);
		return -EINVAL;
	}
	cpu_set_t set = only(cpu);
	error = pthread_attr_setaffinity_np(attributes, sizeof(set), &set);
	if (error)
		pthread_attr_destroy(attributes);
	return -error;
}

int thread_start(struct thread *thread, const struct thread_options *options)
{
	CHECK(options->run);
	*thread = (struct thread){ .run = options->run, .user = options->user };
	snprintf(thread->name, sizeof(thread->name), "%s", options->name);

	pthread_attr_t attributes;
	int error = init_attributes(&attributes, options->cpu);
	if (error)
		return error;
	sigset_t blocked, before;
	most_signals(&blocked);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	error = pthread_create(&thread->id, &attributes, enter, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	thread->running = error == 0;
	return -error;
}

/* As in linux/sched/types.h, which does not go together with sched.h. */
struct schedule {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* with the ordinary policy: how long it wants to run at a time */
	uint64_t deadline_ns;
	uint64_t period_ns;
};

#define PROMPT_NS 100000

void thread_run_promptly(void)
{
	struct schedule schedule = { .size = sizeof(schedule) };

	if (syscall(SYS_sched_getattr, 0, &schedule, sizeof(schedule), 0) < 0 ||
	    schedule.policy != SCHED_OTHER)
		return;
	schedule.runtime_ns = PROMPT_NS;
	syscall(SYS_sched_setattr, 0, &schedule, 0);
}

/* The kernel lets no thread of SCHED_BATCH push another aside when it is woken. */
void thread_run_behind(bool behind)
{
	int policy = behind ? SCHED_OTHER : SCHED_BATCH;

	if (sched_getscheduler(0) == policy)
		sched_setscheduler(0, behind ? SCHED_BATCH : SCHED_OTHER,
		                   &(struct sched_param){ 0 });
}

int thread_run_last(void)
{
	return sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }) ? -errno : 0;
}

int thread_move(struct thread *thread, int cpu)
{
	CHECK(thread->running);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return -EINVAL;
	cpu_set_t set = only(cpu);
	return -pthread_setaffinity_np(thread->id, sizeof(set), &set);
}

void thread_join(struct thread *thread)
{
	if (!thread->running)
		return;
	int error = pthread_join(thread->id, NULL);
	CHECK(error == 0);
	thread->running = false;
}

void thread_leave(struct thread *thread)
{
	if (!thread->running)
		return;
	int error = pthread_detach(thread->id);
	CHECK(error == 0);
	thread->running = false;
}
