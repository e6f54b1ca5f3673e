/* writer: see writer.h. */
#include "store/local/journal/writer.h"

#include "base/error.h"
#include "base/mem.h"
#include "sys/errand.h"

struct writer {
	struct file_system *fs;
	bool deferred;
	bool under_way;
	bool asked; /* deferred: whether it has ended */
	struct errand errand;
	struct writer_job job;
	int error; /* of the job */
};

static void write_job(void *user)
{
	struct writer *writer = user;
	const struct writer_job *job = &writer->job;

	writer->error = writer->fs->methods->write(writer->fs, job->fd, job->ptr, job->len,
	                                           job->offset);
	keeper_turn(job->keeper);
}

int writer_new(struct file_system *fs, bool deferred, struct writer **ret_writer)
{
	struct writer *writer = mem_zalloc(1, sizeof(*writer));

	if (!writer)
		return -ENOMEM;
	writer->fs = fs;
	writer->deferred = deferred;
	int r = deferred ? 0 : errand_init(&writer->errand, "stile-writer");
	if (r < 0) {
		mem_free(writer);
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
	if (!writer->deferred)
		errand_end(&writer->errand);
	return mem_free(writer);
}

void writer_start(struct writer *writer, const struct writer_job *job)
{
	CHECK(!writer->under_way);
	writer->under_way = true;
	writer->asked = false;
	writer->job = *job;
	if (!writer->deferred)
		errand_start(&writer->errand, &(struct errand_job){ .run = write_job,
		                                                    .user = writer,
		                                                    .ended = job->ended,
		                                                    .ended_user = job->user });
}

bool writer_ended(struct writer *writer)
{
	CHECK(writer->under_way);
	if (!writer->deferred)
		return errand_ended(&writer->errand);
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
		errand_wait(&writer->errand);
	writer->under_way = false;
	return writer->error;
}
