/* loader: see loader.h. */
#include "store/local/index/loader.h"

#include "base/error.h"
#include "base/mem.h"

/* Few enough that the ends of all of them stay in the TLB while gathering, and
 * enough that the shards of one fit the cache while putting. */
#define PARTS 256u
#define CHUNK_RECORDS 4096u
/* From here on the index no longer fits the caches. */
#define GATHER_FROM 500000u

struct loader {
	struct loader_options options;
	uint32_t parts;               /* PARTS, or 1: not gathered */
	uint32_t *counts;             /* of the records of each part */
	struct table_record *records; /* CHUNK_RECORDS for each part */
};

int loader_new(const struct loader_options *options, struct loader **ret_loader)
{
	struct loader *loader = mem_zalloc(1, sizeof(*loader));

	if (!loader)
		return -ENOMEM;
	loader->options = *options;
	loader->parts = options->expected >= GATHER_FROM ? PARTS : 1;
	loader->counts = mem_zalloc(loader->parts, sizeof(*loader->counts));
	loader->records = mem_alloc((size_t)loader->parts * CHUNK_RECORDS *
	                            sizeof(*loader->records));
	int r = loader->counts && loader->records
	                ? table_load_begin(options->table, options->expected)
	                : -ENOMEM;
	if (r < 0) {
		loader_free(loader);
		return r;
	}
	*ret_loader = loader;
	return 0;
}

struct loader *loader_free(struct loader *loader)
{
	if (!loader)
		return NULL;
	mem_free(loader->counts);
	mem_free(loader->records);
	return mem_free(loader);
}

/* The order of chunks does not matter: the higher ticket stays. */
static int put_part(struct loader *loader, uint32_t part)
{
	uint32_t count = loader->counts[part];

	loader->counts[part] = 0;
	return table_put_batch(loader->options.table,
	                       loader->records + (size_t)part * CHUNK_RECORDS, count,
	                       loader->options.now_ms);
}

int loader_add(struct loader *loader, struct digest digest, uint64_t ticket, uint32_t window_s,
               uint32_t flags)
{
	uint32_t part = loader->parts > 1 ? table_shard_of(&digest) / (TABLE_SHARDS / PARTS) : 0;
	struct table_record *record =
		&loader->records[(size_t)part * CHUNK_RECORDS + loader->counts[part]++];

	record->digest.word[0] = digest.word[0];
	record->digest.word[1] = digest.word[1];
	record->ticket = ticket;
	record->window_s = window_s;
	record->flags = flags;
	return loader->counts[part] == CHUNK_RECORDS ? put_part(loader, part) : 0;
}

int loader_finish(struct loader *loader)
{
	int r = 0;

	for (uint32_t i = 0; i < loader->parts && r == 0; i++)
		r = put_part(loader, i);
	return r;
}
