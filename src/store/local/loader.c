/* loader: see loader.h. */
#include "store/local/loader.h"

#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/thread.h"

#define CHUNK_RECORDS 2048u
/* From so many claims on the index no longer fits the caches. */
#define GATHER_FROM 500000u
/* Below this, reserving maps a thousand shards for nothing. */
#define RESERVE_FROM (16u * TABLE_SHARDS)
#define CHUNKS_MORE 16u

struct chunk {
	struct chunk *next;
	uint32_t count;
	struct table_record records[CHUNK_RECORDS];
};

struct loader {
	struct loader_options options;
	struct thread thread;
	uint32_t parts;             /* TABLE_SHARDS, or 1: not gathered */
	struct chunk **filling;     /* one for each part; the owner's */
	struct chunk *memory;       /* all chunks */
	pthread_mutex_t mutex;      /* guards what follows */
	pthread_cond_t changed;
	struct chunk *free;
	struct chunk *full;
	bool stop;
	int error;
};

static struct chunk *pop(struct chunk **list)
{
	struct chunk *chunk = *list;

	if (chunk)
		*list = chunk->next;
	return chunk;
}

static void push(struct chunk **list, struct chunk *chunk)
{
	chunk->next = *list;
	*list = chunk;
}

static int put(const struct loader *loader, struct chunk *chunk)
{
	int r = table_put_batch(loader->options.table, chunk->records, chunk->count, TABLE_ALL,
	                        loader->options.now_ms);

	chunk->count = 0;
	return r;
}

/* The order of chunks does not matter: the higher ticket stays. */
static void run(void *user)
{
	struct loader *loader = user;

	pthread_mutex_lock(&loader->mutex);
	for (;;) {
		struct chunk *chunk = pop(&loader->full);
		if (!chunk && loader->stop)
			break;
		if (!chunk) {
			pthread_cond_wait(&loader->changed, &loader->mutex);
			continue;
		}
		pthread_mutex_unlock(&loader->mutex);
		int r = put(loader, chunk);
		pthread_mutex_lock(&loader->mutex);
		push(&loader->free, chunk);
		if (r < 0 && loader->error == 0)
			loader->error = r;
		pthread_cond_signal(&loader->changed);
	}
	pthread_mutex_unlock(&loader->mutex);
}

static int make_chunks(struct loader *loader)
{
	uint32_t count = loader->parts + (loader->options.threaded ? CHUNKS_MORE : 0);

	loader->filling = mem_zalloc(loader->parts, sizeof(struct chunk *));
	loader->memory = mem_alloc(count * sizeof(struct chunk));
	if (!loader->filling || !loader->memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		loader->memory[i].count = 0;
		push(&loader->free, &loader->memory[i]);
	}
	for (uint32_t i = 0; i < loader->parts; i++)
		loader->filling[i] = pop(&loader->free);
	return 0;
}

int loader_new(const struct loader_options *options, struct loader **ret_loader)
{
	struct loader *loader = mem_zalloc(1, sizeof(*loader));
	bool gather = options->threaded && options->expected >= GATHER_FROM;

	if (!loader)
		return -ENOMEM;
	loader->options = *options;
	loader->parts = gather ? TABLE_SHARDS : 1;
	pthread_mutex_init(&loader->mutex, NULL);
	pthread_cond_init(&loader->changed, NULL);
	int r = make_chunks(loader);
	if (r == 0 && options->expected >= RESERVE_FROM)
		r = table_reserve(options->table, options->expected);
	if (r == 0 && options->threaded)
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
	mem_free(loader->filling);
	mem_free(loader->memory);
	pthread_cond_destroy(&loader->changed);
	pthread_mutex_destroy(&loader->mutex);
	return mem_free(loader);
}

/* A part's chunk goes to the thread, an empty one takes its place. */
static int hand_over(struct loader *loader, uint32_t part)
{
	if (!loader->options.threaded)
		return put(loader, loader->filling[part]);
	pthread_mutex_lock(&loader->mutex);
	push(&loader->full, loader->filling[part]);
	pthread_cond_signal(&loader->changed);
	while (!(loader->filling[part] = pop(&loader->free)))
		pthread_cond_wait(&loader->changed, &loader->mutex);
	int r = loader->error;
	pthread_mutex_unlock(&loader->mutex);
	CHECK(loader->filling[part]->count == 0);
	return r;
}

int loader_add(struct loader *loader, const struct table_record *record)
{
	uint32_t part = loader->parts > 1 ? table_shard_of(&record->digest) : 0;
	struct chunk *chunk = loader->filling[part];

	chunk->records[chunk->count++] = *record;
	return chunk->count == CHUNK_RECORDS ? hand_over(loader, part) : 0;
}

int loader_finish(struct loader *loader)
{
	int r = 0;

	for (uint32_t i = 0; i < loader->parts && r == 0; i++)
		if (loader->filling[i]->count > 0)
			r = hand_over(loader, i);
	if (loader->options.threaded) {
		stop(loader);
		r = loader->error;
	}
	return r;
}
