/* errand: see errand.h. */
#include "sys/errand.h"

static void run(void *user)
{
	struct errand *errand = user;

	while (!atomic_load(&errand->stop)) {
		if (!atomic_exchange(&errand->wanted, false)) {
			wake_event_wait(&errand->work, -1);
			continue;
		}
		struct errand_job job = errand->job; /* the next may be put in its place */
		job.run(job.user);
		atomic_store(&errand->done, true);
		wake_event_set(&errand->finished);
		if (job.ended)
			job.ended(job.ended_user);
	}
}

int errand_init(struct errand *errand, const char *name)
{
	*errand = (struct errand){ .under_way = false };
	wake_event_init(&errand->work);
	wake_event_init(&errand->finished);
	return thread_start(&errand->thread, &(struct thread_options){ .name = name,
	                                                               .cpu = THREAD_ANY_CPU,
	                                                               .run = run,
	                                                               .user = errand });
}

void errand_end(struct errand *errand)
{
	CHECK(!errand->under_way);
	atomic_store(&errand->stop, true);
	wake_event_set(&errand->work);
	thread_join(&errand->thread);
}

void errand_start(struct errand *errand, const struct errand_job *job)
{
	CHECK(!errand->under_way);
	errand->under_way = true;
	errand->job = *job;
	atomic_store(&errand->wanted, true);
	wake_event_set(&errand->work);
}

bool errand_ended(struct errand *errand)
{
	CHECK(errand->under_way);
	return atomic_load(&errand->done);
}

void errand_wait(struct errand *errand)
{
	CHECK(errand->under_way);
	while (!atomic_exchange(&errand->done, false))
		wake_event_wait(&errand->finished, -1);
	errand->under_way = false;
}
