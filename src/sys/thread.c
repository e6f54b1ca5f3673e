/* thread: see thread.h. */
#include "sys/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static void *enter(void *argument)
{
	struct thread *thread = argument;
	pthread_setname_np(pthread_self(), thread->name);
	thread->run(thread->user);
	return NULL;
}

int thread_start(struct thread *thread, const struct thread_options *options)
{
	CHECK(options->run);
	*thread = (struct thread){ .run = options->run, .user = options->user };
	snprintf(thread->name, sizeof(thread->name), "%s", options->name);

	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	if (options->cpu != THREAD_ANY_CPU) {
		cpu_set_t set;
		CPU_ZERO(&set);
		error = options->cpu < 0 || options->cpu >= CPU_SETSIZE ? EINVAL : 0;
		if (error == 0) {
			CPU_SET((size_t)options->cpu, &set);
			error = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
		}
		if (error) {
			pthread_attr_destroy(&attributes);
			return -error;
		}
	}
	sigset_t blocked, before;
	sigfillset(&blocked);
	/* Blocked, these would kill without the handler that a sanitizer or a
	 * crash report has installed. */
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	sigdelset(&blocked, SIGABRT);
	sigdelset(&blocked, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	error = pthread_create(&thread->id, &attributes, enter, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	thread->running = error == 0;
	return -error;
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
