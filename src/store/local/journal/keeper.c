/* keeper: see keeper.h. */
#include "store/local/journal/keeper.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/journal/reader.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

enum prepare_state { PREPARE_IDLE, PREPARE_WANTED, PREPARE_READY, PREPARE_FAILED };

#define NAP_NS 3000000
#define TURN_MS 3 /* at most, after that */

struct job_queue {
	struct keeper_job *first;
	struct keeper_job **last;
};

struct keeper {
	const struct folder *folder;
	bool run_inline;
	bool spare_ready;          /* the keeper's own: spare.seg is whole */
	atomic_uint_fast64_t used; /* of the current segment, bytes */
	struct wake_event turn;    /* woken when the journal leaves the disk alone */
	struct thread thread;
	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t work;
	pthread_cond_t ready;
	bool stop;
	bool awaited; /* the owner stands still for the next segment */
	enum prepare_state prepare;
	uint64_t number;
	int fd;
	int error; /* of the last attempt */
	struct job_queue waiting;
	struct job_queue finished;
};

static void queue_init(struct job_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void queue_put(struct job_queue *queue, struct keeper_job *job)
{
	job->next = NULL;
	*queue->last = job;
	queue->last = &job->next;
}

static struct keeper_job *queue_take(struct job_queue *queue)
{
	struct keeper_job *job = queue->first;

	if (job) {
		queue->first = job->next;
		if (!queue->first)
			queue->last = &queue->first;
	}
	return job;
}

struct keeper_job *keeper_job_new(enum keeper_job_kind kind, uint64_t number)
{
	struct keeper_job *job = mem_zalloc(1, sizeof(*job));

	if (job) {
		job->kind = kind;
		job->number = number;
	}
	return job;
}

struct keeper_job *keeper_job_free(struct keeper_job *job)
{
	if (job)
		claims_list_free(&job->list);
	return mem_free(job);
}

void keeper_note_used(struct keeper *keeper, uint64_t bytes)
{
	atomic_store_explicit(&keeper->used, bytes, memory_order_relaxed);
}

/* With seven eighths of the current segment used the next one is to be ready. */
static bool is_late(struct keeper *keeper, uint64_t filled)
{
	uint64_t used = atomic_load_explicit(&keeper->used, memory_order_relaxed);

	return filled < used + used / 7;
}

void keeper_turn(struct keeper *keeper)
{
	wake_event_set(&keeper->turn);
}

/* Zeros written in one go would stand before every commit for tens of
 * milliseconds (docs/internals/journal.md has the p99 without and with naps). A piece
 * of them begins when a write of the journal has ended, since the disk has time
 * until the next one. Nobody naps while the owner waits, or soon would. */
static void nap(void *user, uint32_t filled)
{
	struct keeper *keeper = user;

	pthread_mutex_lock(&keeper->mutex);
	bool hurry = keeper->awaited || keeper->stop;
	pthread_mutex_unlock(&keeper->mutex);
	if (hurry || is_late(keeper, filled))
		return;
	nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	wake_event_wait(&keeper->turn, 0); /* forgets writes that have ended meanwhile */
	wake_event_wait(&keeper->turn, TURN_MS);
}

static int prepare_segment(struct keeper *keeper, uint64_t number, int *ret_fd)
{
	if (!keeper->spare_ready) {
		struct segment_pace pace = { .pause = keeper->run_inline ? NULL : nap,
			                     .user = keeper };
		int r = segment_fill(keeper->folder, pace);
		if (r < 0)
			return r;
		keeper->spare_ready = true;
	}
	/* After a failed rename the spare's state is not known: begin anew. */
	keeper->spare_ready = false;
	int r = segment_name_spare(keeper->folder, number);
	if (r < 0)
		return r;
	return segment_open_write(keeper->folder, number, ret_fd);
}

static void add_event(struct keeper_job *job, const struct entry *entry)
{
	uint32_t longest_s = entry_longest_window_s(entry);

	for (uint32_t i = 0; i < entry->event.claim_count; i++) {
		struct entry_claim claim = entry_claim_at(entry, i);
		struct claims_record record = {
			.digest = claim.digest,
			.ticket = entry->event.ticket,
			.window_s = claim.window_s,
			.kind = CLAIMS_RECORD_CLAIM,
			.flags = (uint16_t)window_flags(longest_s, claim.window_s),
		};
		claims_list_add(&job->list, &record, job->records_max);
	}
}

static int gather(struct keeper *keeper, struct keeper_job *job)
{
	struct frame_header header;
	const unsigned char *body;
	uint64_t offset;
	struct reader reader;

	claims_list_free(&job->list);
	int r = reader_open(&reader, keeper->folder, job->number, job->segment_end, NULL);
	while (r >= 0 && (r = reader_next(&reader, &header, &body, &offset)) > 0) {
		struct entry entry;
		uint32_t at = 0;
		while ((r = entry_next(body, header.body_len, &at, &entry)) > 0) {
			if (entry.kind == ENTRY_EVENT)
				add_event(job, &entry);
			if (entry.kind != ENTRY_SEEN && entry.kind != ENTRY_NEWEST)
				continue;
			struct claims_record record =
				entry.kind == ENTRY_SEEN ? claims_record_of_seen(&entry.seen)
							 : claims_record_of_newest(&entry.newest);
			claims_list_add(&job->list, &record, job->records_max);
		}
	}
	reader_close(&reader);
	return r;
}

/* What the segment's header says of the one before must outlive the segment. */
static int copy_header(struct keeper *keeper, struct keeper_job *job)
{
	struct segment_header header;

	int r = segment_header_of(keeper->folder, job->number, &header);
	if (r < 0)
		return r;
	job->summary.previous_end = header.previous_end;
	job->summary.previous_sequence = header.previous_sequence;
	job->summary.previous_expiry_ms = header.previous_expiry_ms;
	return 0;
}

static int write_claims(struct keeper *keeper, struct keeper_job *job)
{
	int r = copy_header(keeper, job);
	if (r < 0)
		return r;
	if (job->list.dropped) {
		r = gather(keeper, job);
		if (r < 0)
			return r;
	}
	if (job->list.dropped) {
		job->dense = true;
		return 0;
	}
	job->summary.record_count = job->list.count;
	return claims_file_write(keeper->folder, &job->summary, &job->list);
}

static int retire(struct keeper *keeper, struct keeper_job *job)
{
	int r = 0;

	if (job->retire_segment && job->reuse && !keeper->spare_ready) {
		r = segment_make_spare(keeper->folder, job->number);
		keeper->spare_ready = r == 0;
	} else if (job->retire_segment) {
		r = segment_remove(keeper->folder, job->number, FILE_KIND_SEGMENT);
	}
	if (job->retire_claims) {
		int removed = segment_remove(keeper->folder, job->number, FILE_KIND_CLAIMS);
		if (r == 0)
			r = removed;
	}
	int synced = folder_sync(keeper->folder);
	return r < 0 ? r : synced;
}

static void run_job(struct keeper *keeper, struct keeper_job *job)
{
	job->error = job->kind == KEEPER_CLAIMS ? write_claims(keeper, job) : retire(keeper, job);
}

/* With the mutex held, which is let go meanwhile. */
static void do_prepare(struct keeper *keeper)
{
	uint64_t number = keeper->number;
	int fd = -1;

	pthread_mutex_unlock(&keeper->mutex);
	int r = prepare_segment(keeper, number, &fd);
	pthread_mutex_lock(&keeper->mutex);
	keeper->fd = fd;
	keeper->error = r;
	keeper->prepare = r < 0 ? PREPARE_FAILED : PREPARE_READY;
	pthread_cond_signal(&keeper->ready);
}

static void do_job(struct keeper *keeper)
{
	struct keeper_job *job = queue_take(&keeper->waiting);

	pthread_mutex_unlock(&keeper->mutex);
	run_job(keeper, job);
	pthread_mutex_lock(&keeper->mutex);
	queue_put(&keeper->finished, job);
}

static void run(void *user)
{
	struct keeper *keeper = user;

	pthread_mutex_lock(&keeper->mutex);
	while (!keeper->stop) {
		if (keeper->prepare == PREPARE_WANTED)
			do_prepare(keeper);
		else if (keeper->waiting.first)
			do_job(keeper);
		else
			pthread_cond_wait(&keeper->work, &keeper->mutex);
	}
	pthread_mutex_unlock(&keeper->mutex);
}

int keeper_new(const struct folder *folder, bool run_inline, struct keeper **ret_keeper)
{
	struct keeper *keeper = mem_zalloc(1, sizeof(*keeper));

	if (!keeper)
		return -ENOMEM;
	keeper->folder = folder;
	keeper->run_inline = run_inline;
	keeper->fd = -1;
	queue_init(&keeper->waiting);
	queue_init(&keeper->finished);
	wake_event_init(&keeper->turn);
	pthread_mutex_init(&keeper->mutex, NULL);
	pthread_cond_init(&keeper->work, NULL);
	pthread_cond_init(&keeper->ready, NULL);
	if (!run_inline) {
		int r = thread_start(&keeper->thread,
		                     &(struct thread_options){ .name = "stile-keeper",
		                                               .cpu = THREAD_ANY_CPU,
		                                               .run = run,
		                                               .user = keeper });
		if (r < 0) {
			keeper_free(keeper);
			return r;
		}
	}
	*ret_keeper = keeper;
	return 0;
}

struct keeper *keeper_free(struct keeper *keeper)
{
	struct keeper_job *job;

	if (!keeper)
		return NULL;
	pthread_mutex_lock(&keeper->mutex);
	keeper->stop = true;
	wake_event_set(&keeper->turn);
	pthread_cond_signal(&keeper->work);
	pthread_mutex_unlock(&keeper->mutex);
	thread_join(&keeper->thread);
	while ((job = queue_take(&keeper->waiting)) || (job = queue_take(&keeper->finished)))
		keeper_job_free(job);
	if (keeper->fd >= 0)
		keeper->folder->fs->methods->close(keeper->folder->fs, keeper->fd);
	pthread_cond_destroy(&keeper->ready);
	pthread_cond_destroy(&keeper->work);
	pthread_mutex_destroy(&keeper->mutex);
	return mem_free(keeper);
}

void keeper_want(struct keeper *keeper, uint64_t number)
{
	pthread_mutex_lock(&keeper->mutex);
	if (keeper->prepare == PREPARE_IDLE || keeper->prepare == PREPARE_FAILED) {
		keeper->prepare = PREPARE_WANTED;
		keeper->number = number;
		if (keeper->run_inline)
			do_prepare(keeper);
		else
			pthread_cond_signal(&keeper->work);
	}
	CHECK(keeper->number == number);
	pthread_mutex_unlock(&keeper->mutex);
}

int keeper_get(struct keeper *keeper, uint64_t number, bool wait, int *ret_fd)
{
	int r = -EAGAIN;

	pthread_mutex_lock(&keeper->mutex);
	keeper->awaited = wait;
	if (wait)
		wake_event_set(&keeper->turn);
	while (wait && keeper->prepare == PREPARE_WANTED && keeper->error == 0)
		pthread_cond_wait(&keeper->ready, &keeper->mutex);
	keeper->awaited = false;
	if (keeper->prepare == PREPARE_READY) {
		CHECK(keeper->number == number);
		*ret_fd = keeper->fd;
		keeper->fd = -1;
		keeper->prepare = PREPARE_IDLE;
		r = 0;
	} else if (keeper->error < 0) {
		r = keeper->error;
	}
	pthread_mutex_unlock(&keeper->mutex);
	return r;
}

bool keeper_preparing(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->mutex);
	bool preparing = keeper->prepare == PREPARE_WANTED;
	pthread_mutex_unlock(&keeper->mutex);
	return preparing;
}

int keeper_problem(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->mutex);
	int error = keeper->error;
	pthread_mutex_unlock(&keeper->mutex);
	return error;
}

void keeper_post(struct keeper *keeper, struct keeper_job *job)
{
	if (keeper->run_inline)
		run_job(keeper, job);
	pthread_mutex_lock(&keeper->mutex);
	queue_put(keeper->run_inline ? &keeper->finished : &keeper->waiting, job);
	pthread_cond_signal(&keeper->work);
	pthread_mutex_unlock(&keeper->mutex);
}

struct keeper_job *keeper_collect(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->mutex);
	struct keeper_job *job = queue_take(&keeper->finished);
	pthread_mutex_unlock(&keeper->mutex);
	return job;
}
