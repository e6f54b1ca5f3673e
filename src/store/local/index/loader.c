/* loader: see loader.h. */
#include "store/local/index/loader.h"

#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/thread.h"

/* Few enough that the ends of all of them stay in the TLB while gathering, and
 * enough that the shards of one fit the cache while putting. */
#define PARTS 256u
#define CHUNK_RECORDS 4096u
/* From so many claims on the index no longer fits the caches. */
#define GATHER_FROM 500000u
#define CHUNKS_MORE 32u

struct chunk {
	struct chunk *next;
	uint32_t count;
	struct table_record records[CHUNK_RECORDS];
};

/* Side by side and apart from the chunks: looking up an end touches no page of
 * its own. */
struct part {
	struct chunk *chunk;
	uint32_t count;
	uint32_t limit; /* when it is handed over */
};

struct loader {
	struct loader_options options;
	struct thread thread;
	uint32_t parts;        /* PARTS, or 1: not gathered */
	struct part *filling;  /* one for each part; the owner's */
	struct chunk *memory;  /* all chunks */
	pthread_mutex_t mutex; /* guards what follows */
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

static int put(const struct loader *loader, const struct chunk *chunk)
{
	return table_put_batch(loader->options.table, chunk->records, chunk->count, TABLE_ALL,
	                       loader->options.now_ms);
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

	loader->filling = mem_zalloc(loader->parts, sizeof(struct part));
	loader->memory = mem_alloc(count * sizeof(struct chunk));
	if (!loader->filling || !loader->memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		push(&loader->free, &loader->memory[i]);
	for (uint32_t i = 0; i < loader->parts; i++) {
		loader->filling[i].chunk = pop(&loader->free);
		/* Digests are even, so all parts would be full at once, and the two
		 * threads would wait for each other in turn. */
		loader->filling[i].limit = CHUNK_RECORDS / loader->parts * (i + 1);
	}
	return 0;
}

int loader_new(const struct loader_options *options, struct loader **ret_loader)
{
	struct loader *loader = mem_zalloc(1, sizeof(*loader));
	bool gather = options->threaded && options->expected >= GATHER_FROM;

	if (!loader)
		return -ENOMEM;
	loader->options = *options;
	loader->parts = gather ? PARTS : 1;
	pthread_mutex_init(&loader->mutex, NULL);
	pthread_cond_init(&loader->changed, NULL);
	int r = make_chunks(loader);
	if (r == 0)
		r = table_load_begin(options->table, options->expected);
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
static int hand_over(struct loader *loader, struct part *part)
{
	part->chunk->count = part->count;
	part->count = 0;
	part->limit = CHUNK_RECORDS;
	if (!loader->options.threaded)
		return put(loader, part->chunk);
	pthread_mutex_lock(&loader->mutex);
	push(&loader->full, part->chunk);
	pthread_cond_signal(&loader->changed);
	while (!(part->chunk = pop(&loader->free)))
		pthread_cond_wait(&loader->changed, &loader->mutex);
	int r = loader->error;
	pthread_mutex_unlock(&loader->mutex);
	return r;
}

int loader_add(struct loader *loader, struct digest digest, uint64_t ticket, uint32_t window_s,
               uint32_t flags)
{
	uint32_t at = loader->parts > 1 ? table_shard_of(&digest) / (TABLE_SHARDS / PARTS) : 0;
	struct part *part = &loader->filling[at];
	struct table_record *record = &part->chunk->records[part->count++];

	record->digest.word[0] = digest.word[0];
	record->digest.word[1] = digest.word[1];
	record->ticket = ticket;
	record->window_s = window_s;
	record->flags = flags;
	return part->count == part->limit ? hand_over(loader, part) : 0;
}

int loader_finish(struct loader *loader)
{
	int r = 0;

	for (uint32_t i = 0; i < loader->parts && r == 0; i++)
		if (loader->filling[i].count > 0)
			r = hand_over(loader, &loader->filling[i]);
	if (loader->options.threaded) {
		stop(loader);
		r = loader->error;
	}
	return r;
}
