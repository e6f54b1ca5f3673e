/* loader: see loader.h. */
#include "store/local/loader.h"

#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/thread.h"

#define BATCHES 4u
#define BATCH_RECORDS 16384u

struct batch {
	struct table_record *records;
	uint32_t count;
};

struct loader {
	struct table *table;
	uint64_t now_ms;
	bool threaded;
	struct thread thread;
	struct batch batches[BATCHES];
	uint32_t filling; /* the owner's */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint32_t full; /* batches that wait for the thread */
	bool stop;
	int error;
};

static int put(struct loader *loader, const struct batch *batch)
{
	return table_put_batch(loader->table, batch->records, batch->count, TABLE_ALL,
	                       loader->now_ms);
}

static void run(void *user)
{
	struct loader *loader = user;
	uint32_t at = 0;

	pthread_mutex_lock(&loader->mutex);
	for (;;) {
		while (loader->full == 0 && !loader->stop)
			pthread_cond_wait(&loader->changed, &loader->mutex);
		if (loader->full == 0)
			break;
		pthread_mutex_unlock(&loader->mutex);
		int r = put(loader, &loader->batches[at]);
		pthread_mutex_lock(&loader->mutex);
		loader->batches[at].count = 0;
		at = (at + 1) % BATCHES;
		loader->full--;
		if (r < 0 && loader->error == 0)
			loader->error = r;
		pthread_cond_signal(&loader->changed);
	}
	pthread_mutex_unlock(&loader->mutex);
}

int loader_new(struct table *table, uint64_t now_ms, bool threaded, struct loader **ret_loader)
{
	struct loader *loader = mem_zalloc(1, sizeof(*loader));

	if (!loader)
		return -ENOMEM;
	loader->table = table;
	loader->now_ms = now_ms;
	loader->threaded = threaded;
	pthread_mutex_init(&loader->mutex, NULL);
	pthread_cond_init(&loader->changed, NULL);
	int r = 0;
	for (uint32_t i = 0; i < (threaded ? BATCHES : 1u) && r == 0; i++) {
		loader->batches[i].records = mem_zalloc(BATCH_RECORDS, sizeof(struct table_record));
		r = loader->batches[i].records ? 0 : -ENOMEM;
	}
	if (r == 0 && threaded)
		r = thread_start(&loader->thread, &(struct thread_options){ .name = "stile-loader",
		                                                            .cpu = THREAD_ANY_CPU,
		                                                            .run = run,
		                                                            .user = loader });
	if (r < 0) {
		loader_free(loader);
		return r;
	}
	*ret_loader = loader;
	return 0;
}

static void stop(struct loader *loader)
{
	pthread_mutex_lock(&loader->mutex);
	loader->stop = true;
	pthread_cond_signal(&loader->changed);
	pthread_mutex_unlock(&loader->mutex);
	thread_join(&loader->thread);
}

struct loader *loader_free(struct loader *loader)
{
	if (!loader)
		return NULL;
	stop(loader);
	for (uint32_t i = 0; i < BATCHES; i++)
		mem_free(loader->batches[i].records);
	pthread_cond_destroy(&loader->changed);
	pthread_mutex_destroy(&loader->mutex);
	return mem_free(loader);
}

/* A few claims touch a few shards; mapping all of them would cost more. */
int loader_reserve(struct loader *loader, uint64_t expected)
{
	if (expected < TABLE_SHARDS * UINT64_C(16))
		return 0;
	return table_reserve(loader->table, expected);
}

/* The batch being filled goes to the thread; the next one is empty. */
static int hand_over(struct loader *loader)
{
	pthread_mutex_lock(&loader->mutex);
	loader->full++;
	pthread_cond_signal(&loader->changed);
	while (loader->full == BATCHES)
		pthread_cond_wait(&loader->changed, &loader->mutex);
	int r = loader->error;
	pthread_mutex_unlock(&loader->mutex);
	loader->filling = (loader->filling + 1) % BATCHES;
	CHECK(loader->batches[loader->filling].count == 0);
	return r;
}

static int flush(struct loader *loader)
{
	struct batch *batch = &loader->batches[loader->filling];

	if (loader->threaded)
		return hand_over(loader);
	int r = put(loader, batch);
	batch->count = 0;
	return r;
}

int loader_add(struct loader *loader, const struct table_record *record)
{
	struct batch *batch = &loader->batches[loader->filling];

	batch->records[batch->count++] = *record;
	return batch->count == BATCH_RECORDS ? flush(loader) : 0;
}

int loader_finish(struct loader *loader)
{
	int r = flush(loader);

	if (loader->threaded) {
		stop(loader);
		r = loader->error;
	}
	return r;
}
