/* writer: see writer.h. */
#include "store/local/writer.h"

#include <stdatomic.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/sleeper.h"
#include "sys/thread.h"

struct writer {
	struct file_system *fs;
	bool deferred;
	bool under_way; /* the owner's */
	bool asked;     /* the owner's; deferred: whether it has ended */
	struct thread thread;
	struct writer_job job;
	int error; /* of the job */
	atomic_bool wanted;
	atomic_bool done;
	atomic_bool stop;
	struct sleeper work;     /* the thread's */
	struct sleeper finished; /* the owner's */
};

static void write_job(struct writer *writer)
{
	const struct writer_job *job = &writer->job;

	writer->error = writer->fs->methods->write(writer->fs, job->fd, job->ptr, job->len,
	                                           job->offset);
	keeper_turn(job->keeper);
}

static void run(void *user)
{
	struct writer *writer = user;

	thread_run_promptly();
	while (!atomic_load(&writer->stop)) {
		if (!atomic_exchange(&writer->wanted, false)) {
			sleeper_sleep(&writer->work, -1);
			continue;
		}
		struct writer_job job = writer->job; /* the next may be put in its place */
		write_job(writer);
		atomic_store(&writer->done, true);
		sleeper_wake(&writer->finished);
		if (job.ended)
			job.ended(job.user);
	}
}

int writer_new(struct file_system *fs, bool deferred, struct writer **ret_writer)
{
	struct writer *writer = mem_zalloc(1, sizeof(*writer));
	int r = 0;

	if (!writer)
		return -ENOMEM;
	writer->fs = fs;
	writer->deferred = deferred;
	sleeper_init(&writer->work);
	sleeper_init(&writer->finished);
	if (!deferred)
		r = thread_start(&writer->thread, &(struct thread_options){ .name = "stile-writer",
		                                                            .cpu = THREAD_ANY_CPU,
		                                                            .run = run,
		                                                            .user = writer });
	if (r < 0) {
		writer_free(writer);
		return r;
	}
	*ret_writer = writer;
	return 0;
}

struct writer *writer_free(struct writer *writer)
{
	if (!writer)
		return NULL;
	CHECK(!writer->under_way);
	atomic_store(&writer->stop, true);
	sleeper_wake(&writer->work);
	thread_join(&writer->thread);
	return mem_free(writer);
}

void writer_start(struct writer *writer, const struct writer_job *job)
{
	CHECK(!writer->under_way);
	writer->under_way = true;
	writer->asked = false;
	writer->job = *job;
	if (writer->deferred)
		return;
	atomic_store(&writer->wanted, true);
	sleeper_wake(&writer->work);
}

bool writer_ended(struct writer *writer)
{
	CHECK(writer->under_way);
	if (!writer->deferred)
		return atomic_load(&writer->done);
	bool ended = writer->asked;
	writer->asked = true;
	return ended;
}

int writer_wait(struct writer *writer)
{
	CHECK(writer->under_way);
	if (writer->deferred)
		write_job(writer);
	else
		while (!atomic_exchange(&writer->done, false))
			sleeper_sleep(&writer->finished, -1);
	writer->under_way = false;
	return writer->error;
}
