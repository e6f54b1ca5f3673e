/* table: see table.h; the arrays are table_shard's. */
#include "store/local/index/table.h"

#include <assert.h>
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/index/table_shard.h"

#define LOAD_FROM (16u * TABLE_SHARDS)

struct table {
	_Alignas(64) struct table_shard shards[TABLE_SHARDS];
	struct table_arena arena;
	uint64_t puts;   /* of the owner's thread, and one; see table_probe.absent */
	uint64_t now_ms; /* of the latest */
	uint32_t sweep_shard;
};

static_assert(TABLE_SHARDS == 1u << TABLE_SHARD_BITS, "shard numbers are left out of entries");
static_assert(TABLE_FLAGS_ALL == (1u << TABLE_FLAG_BITS) - 1, "flags fill their bits");

/* Of digest.word[0], between the shard's number and the tag. */
#define REST_DIGEST_BITS (64 - TABLE_SHARD_BITS - TABLE_TAG_BITS)
static_assert(REST_DIGEST_BITS + TABLE_WINDOW_BITS + TABLE_FLAG_BITS == 64, "rest is one word");
static_assert(TICKET_BITS + 1 == 7 * 8, "ticket and a bit are seven bytes");
static_assert(TABLE_EXPIRY_BITS + 2 + TABLE_CODE_BITS == TICKET_BITS, "a cell's fill them too");
static_assert(TABLE_PLACE_BITS == 32 + TABLE_KEPT_BITS + 2, "where the rest of a cell is");
static_assert(TABLE_CELLS_MAX == TABLE_BUCKET_ENTRIES, "one bucket at a time");

static int make(const struct table_watch *watch, struct table **ret_table)
{
	struct table *table = mem_aligned(_Alignof(struct table), sizeof(*table));
	if (!table)
		return -ENOMEM;
	*table = (struct table){ .puts = 1 };
	int error = table_arena_init(&table->arena);
	if (error) {
		mem_free(table);
		return error;
	}
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_init(&table->shards[i], &table->arena, i, watch != NULL);
	if (watch) {
		table->arena.gone = watch->gone;
		table->arena.gone_user = watch->user;
	}
	*ret_table = table;
	return 0;
}

int table_new(struct table **ret_table)
{
	return make(NULL, ret_table);
}

int table_new_of_cells(const struct table_watch *watch, struct table **ret_table)
{
	CHECK(watch->gone);
	return make(watch, ret_table);
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_free(&table->shards[i]);
	table_arena_free(&table->arena);
	return mem_free(table);
}

uint32_t table_shard_of(const struct digest *digest)
{
	return (uint32_t)(digest->word[0] >> (64 - TABLE_SHARD_BITS));
}

static inline uint8_t tag_of(const struct digest *digest)
{
	uint8_t tag = (uint8_t)digest->word[0];
	return (uint8_t)(tag + (tag == 0));
}

static inline int32_t hash_of(const struct digest *digest)
{
	uint64_t rest = digest->word[0] & (UINT64_MAX >> TABLE_SHARD_BITS);
	return table_hash(digest->word[1], rest | tag_of(digest));
}

static inline struct table_entry probe_of(const struct digest *digest)
{
	return (struct table_entry){
		.word = digest->word[1],
		.rest = digest->word[0] >> TABLE_TAG_BITS << (64 - REST_DIGEST_BITS),
		.last = (uint8_t)digest->word[0] == 0,
		.tag = tag_of(digest),
	};
}

static inline struct table_entry entry_of(const struct table_record *record)
{
	struct table_entry entry = probe_of(&record->digest);
	entry.rest |= (uint64_t)window_encode(record->window_s) << TABLE_FLAG_BITS | record->flags;
	entry.last |= record->ticket << 1;
	return entry;
}

static struct digest digest_of(uint32_t shard, const struct table_entry *entry)
{
	uint64_t tag = entry->last & 1 ? 0 : entry->tag;
	return (struct digest){ { (uint64_t)shard << (64 - TABLE_SHARD_BITS) |
		                          entry->rest >> (64 - REST_DIGEST_BITS) << TABLE_TAG_BITS |
		                          tag,
		                  entry->word } };
}

static uint32_t window_clamp_s(const struct table_entry *entry)
{
	uint64_t window_s = table_entry_window_s(entry);
	return window_s < UINT32_MAX ? (uint32_t)window_s : UINT32_MAX;
}

/* gcc takes a function that only prefetches for one without effect and drops
 * calls to it; the empty statement keeps them. */
static inline void fetch(const void *ptr)
{
	__builtin_prefetch(ptr);
	__asm__ volatile("");
}

static inline const struct table_shard *shard_of(const struct table *table,
                                                 const struct digest *digest)
{
	return &table->shards[digest->word[0] >> (64 - TABLE_SHARD_BITS)];
}

/* The bucket where the digest is, if it is anywhere. */
static inline struct table_bucket *bucket_of(const struct table_shard *shard,
                                             struct table_probe *probe)
{
	if (likely(probe->bucket && probe->version == shard->version))
		return probe->bucket;
	probe->bucket = table_shard_home(shard, hash_of(&probe->digest));
	probe->version = shard->version;
	return probe->bucket;
}

static void fetch_directory(const struct table *table, struct table_probe *probe)
{
	const struct table_shard *shard = shard_of(table, &probe->digest);
	probe->hash = hash_of(&probe->digest);
	probe->bucket = NULL;
	uint32_t guess = table_shard_guess(shard, probe->hash);
	fetch(&shard->floors[guess]);
	fetch(&table_shard_numbers(shard)[guess]);
}

/* The entry that may be it; else where it would be put. Of a full bucket one entry in four
 * looks like it, and is not. */
static void fetch_entry(const struct table *table, struct table_probe *probe)
{
	const struct table_shard *shard = shard_of(table, &probe->digest);
	const struct table_bucket *home = bucket_of(shard, probe);
	uint64_t same = table_bucket_match(home, tag_of(&probe->digest));
	uint64_t empty = table_bucket_match(home, 0);
	if (unlikely(!empty))
		table_shard_prefetch_room(shard, probe->hash, table->now_ms, same != 0);
	if (unlikely(!(same | empty)))
		return;
	const uint8_t *body = home->bodies[__builtin_ctzll(same ? same : empty)];
	fetch(body);
	fetch(body + TABLE_BODY - 1);
}

void table_fetch(const struct table *table, uint32_t step, struct table_probe *probes, size_t count)
{
	CHECK(step < TABLE_STEPS);
	for (size_t i = 0; i < count && step == 0; i++)
		fetch_directory(table, &probes[i]);
	for (size_t i = 0; i < count && step == 1; i++) {
		const struct table_shard *shard = shard_of(table, &probes[i].digest);
		probes[i].bucket = table_shard_home(shard, probes[i].hash);
		probes[i].version = shard->version;
	}
	/* One right after the other: each holds up what is behind it until its page is found. */
	for (size_t i = 0; i < count && step == 1; i++)
		fetch(probes[i].bucket);
	for (size_t i = 0; i < count && step == 2; i++)
		fetch_entry(table, &probes[i]);
}

static inline bool seek(const struct table *table, struct table_probe *probe,
                        struct table_spot *ret_spot)
{
	struct table_entry wanted = probe_of(&probe->digest);
	ret_spot->bucket = bucket_of(shard_of(table, &probe->digest), probe);
	bool found = table_bucket_seek(ret_spot->bucket, &wanted, &ret_spot->slot);
	probe->absent = found ? 0 : table->puts;
	return found;
}

bool table_find_probe(const struct table *table, struct table_probe *probe, uint64_t now_ms,
                      struct table_hit *ret_hit)
{
	struct table_spot spot;
	if (!seek(table, probe, &spot))
		return false;
	struct table_entry entry = table_bucket_get(spot.bucket, spot.slot);
	uint64_t expiry_ms = table_entry_expiry_ms(&entry);
	if (expiry_ms <= now_ms)
		return false;
	ret_hit->ticket = table_entry_ticket(&entry);
	ret_hit->expiry_ms = expiry_ms;
	ret_hit->window_s = window_clamp_s(&entry);
	ret_hit->check = (uint32_t)entry.word;
	ret_hit->flags = (uint32_t)entry.rest & TABLE_FLAGS_ALL;
	return true;
}

bool table_find(const struct table *table, const struct digest *digest, uint64_t now_ms,
                struct table_hit *ret_hit)
{
	struct table_probe probe = table_probe(digest);
	return table_find_probe(table, &probe, now_ms, ret_hit);
}

static inline int put_entry(struct table *table, struct table_probe *probe, bool absent,
                            const struct table_entry *entry, uint64_t now_ms)
{
	struct table_shard *shard = &table->shards[table_shard_of(&probe->digest)];
	struct table_spot spot = { .bucket = bucket_of(shard, probe) };
	if (!absent && table_bucket_seek(spot.bucket, entry, &spot.slot)) {
		table_shard_replace(shard, spot, entry);
		return 0;
	}
	return table_shard_add(shard, spot.bucket, entry, now_ms);
}

static inline int put(struct table *table, struct table_probe *probe, bool absent,
                      const struct table_record *record, uint64_t now_ms)
{
	CHECK(record->ticket != 0 && record->ticket >> TICKET_BITS == 0);
	CHECK((record->flags & ~TABLE_FLAGS_ALL) == 0);
	struct table_entry entry = entry_of(record);
	return put_entry(table, probe, absent, &entry, now_ms);
}

int table_put_probe(struct table *table, struct table_probe *probe,
                    const struct table_record *record, uint64_t now_ms)
{
	CHECK(probe->digest.word[0] == record->digest.word[0]);
	CHECK(probe->digest.word[1] == record->digest.word[1]);
	bool absent = probe->absent == table->puts;
	table->puts++;
	table->now_ms = now_ms;
	return put(table, probe, absent, record, now_ms);
}

int table_put(struct table *table, const struct table_record *record, uint64_t now_ms)
{
	struct table_probe probe = table_probe(&record->digest);
	return table_put_probe(table, &probe, record, now_ms);
}

/* --- cells ----------------------------------------------------------------- */

static struct table_entry entry_of_cell(const struct digest *digest, const struct table_cell *cell)
{
	CHECK(cell->place >> TABLE_PLACE_BITS == 0 && cell->code >> TABLE_CODE_BITS == 0);
	CHECK(cell->expiry_ms >> TABLE_EXPIRY_BITS == 0);
	struct table_entry entry = probe_of(digest);
	uint64_t middle = cell->place >> 32 & ((1u << TABLE_KEPT_BITS) - 1);
	uint64_t high = cell->place >> (32 + TABLE_KEPT_BITS);
	entry.word = entry.word >> 32 << 32 | (cell->place & UINT32_MAX);
	entry.rest |= middle;
	entry.last |= ((cell->expiry_ms << 2 | high) << TABLE_CODE_BITS | cell->code) << 1;
	return entry;
}

static struct table_cell cell_of(const struct table_entry *entry)
{
	uint64_t over_ms = table_entry_over_ms(entry);
	return (struct table_cell){ .expiry_ms = over_ms == UINT64_MAX ? 0 : over_ms,
		                    .place = table_entry_place(entry),
		                    .code = table_entry_code(entry) };
}

bool table_find_cell(const struct table *table, struct table_probe *probe,
                     struct table_cell *ret_cell)
{
	struct table_spot spot;
	if (!seek(table, probe, &spot))
		return false;
	struct table_entry entry = table_bucket_get(spot.bucket, spot.slot);
	*ret_cell = cell_of(&entry);
	return true;
}

int table_put_cell(struct table *table, struct table_probe *probe, const struct table_cell *cell,
                   uint64_t now_ms)
{
	CHECK(table->shards[0].cells);
	struct table_entry entry = entry_of_cell(&probe->digest, cell);
	bool absent = probe->absent == table->puts;
	table->puts++;
	table->now_ms = now_ms;
	return put_entry(table, probe, absent, &entry, now_ms);
}

bool table_scan_next(const struct table *table, struct table_scan *scan)
{
	scan->count = 0;
	if (scan->shard >= TABLE_SHARDS || scan->hash < 0 || scan->hash >= TABLE_HASH_END)
		return false;
	const struct table_shard *shard = &table->shards[scan->shard];
	uint32_t place = table_shard_place(shard, scan->hash);
	const struct table_bucket *bucket = table_shard_bucket(shard, place);
	uint64_t taken = ~table_bucket_match(bucket, 0);
	for (; taken; taken &= taken - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(taken);
		struct table_entry entry = table_bucket_get(bucket, slot);
		if (table_entry_hash(&entry) >= scan->hash)
			scan->cells[scan->count++] = cell_of(&entry);
	}
	bool last = place + 1 >= shard->bucket_count;
	scan->hash = last ? 0 : shard->floors[place + 1];
	scan->shard += last;
	return true;
}

/* --- bulk ------------------------------------------------------------------ */

/* Records that are on their way together. */
struct group {
	const struct table_record *records[TABLE_GROUP];
	struct table_probe probes[TABLE_GROUP];
	size_t count;
};

static int put_group(struct table *table, struct group *group, uint64_t now_ms)
{
	for (size_t i = 0; i < group->count; i++) {
		int error = put(table, &group->probes[i], false, group->records[i], now_ms);
		if (error)
			return error;
	}
	return 0;
}

int table_put_batch(struct table *table, const struct table_record *records, size_t count,
                    uint64_t now_ms)
{
	struct group groups[TABLE_STEPS + 1] = { 0 };
	uint32_t idle = 0;
	for (uint32_t turn = TABLE_STEPS; idle <= TABLE_STEPS; turn++) {
		struct group *group = &groups[turn % (TABLE_STEPS + 1)];
		group->count = 0;
		for (; count > 0 && group->count < TABLE_GROUP; count--, records++) {
			/* As table_find() judges it: by the window as it is kept, rounded up. */
			uint64_t window_s = window_decode(window_encode(records->window_s));
			if (ticket_time_ms(records->ticket) + window_s * 1000 <= now_ms)
				continue;
			group->records[group->count] = records;
			group->probes[group->count++] = table_probe(&records->digest);
		}
		for (uint32_t step = 0; step < TABLE_STEPS; step++) {
			struct group *at = &groups[(turn - step) % (TABLE_STEPS + 1)];
			table_fetch(table, step, at->probes, at->count);
		}
		int error = put_group(table, &groups[(turn + 1) % (TABLE_STEPS + 1)], now_ms);
		if (error)
			return error;
		idle += count == 0;
	}
	return 0;
}

bool table_remove(struct table *table, const struct digest *digest)
{
	struct table_probe probe = table_probe(digest);
	struct table_spot spot;
	if (!seek(table, &probe, &spot))
		return false;
	table_shard_remove(&table->shards[table_shard_of(digest)], spot);
	return true;
}

/* One step of the sweep inside the current shard. */
static void sweep_step(struct table *table, uint64_t now_ms, uint64_t *budget)
{
	struct table_shard *shard = &table->shards[table->sweep_shard];
	uint64_t looked = 1; /* an idle shard is not free either */
	bool ended = true;
	if (table_shard_may_sweep(shard, now_ms))
		ended = table_shard_sweep(shard, table->shards, now_ms, *budget, &looked);
	*budget -= looked < *budget ? looked : *budget;
	if (ended)
		table->sweep_shard = (table->sweep_shard + 1) % TABLE_SHARDS;
}

static uint64_t expired_sum(const struct table *table)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		sum += table->shards[i].expired;
	return sum;
}

uint64_t table_sweep(struct table *table, uint64_t now_ms, uint64_t budget)
{
	uint64_t before = expired_sum(table);
	uint32_t start = table->sweep_shard;
	uint32_t steps = 0;
	while (budget > 0) {
		sweep_step(table, now_ms, &budget);
		if (++steps >= TABLE_SHARDS && table->sweep_shard == start)
			break;
	}
	return expired_sum(table) - before;
}

int table_load_begin(struct table *table, uint64_t expected)
{
	int error = 0;
	/* Buckets in a thousand shards would be for nothing. */
	for (uint32_t i = 0; i < TABLE_SHARDS && expected >= LOAD_FROM && !error; i++)
		error = table_shard_reserve(&table->shards[i], expected / TABLE_SHARDS);
	return error;
}

void table_get_stats(const struct table *table, struct table_stats *ret_stats)
{
	struct table_stats stats = { .bytes = sizeof(*table) + table_arena_bytes(&table->arena) };
	for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
		const struct table_shard *shard = &table->shards[i];
		stats.claims += shard->count;
		stats.expired += shard->expired;
		stats.bytes += table_shard_bytes(shard);
		stats.rebuilds += shard->version;
	}
	stats.slots = (uint64_t)table->arena.count * TABLE_BUCKET_ENTRIES;
	*ret_stats = stats;
}

bool table_next(const struct table *table, struct table_cursor *cursor, uint64_t now_ms,
                struct table_record *ret_record)
{
	for (; cursor->shard < TABLE_SHARDS; cursor->shard++, cursor->slot = 0) {
		const struct table_shard *shard = &table->shards[cursor->shard];
		while (cursor->slot < shard->bucket_count * TABLE_BUCKET_ENTRIES) {
			const struct table_bucket *bucket =
				table_shard_bucket(shard, cursor->slot / TABLE_BUCKET_ENTRIES);
			uint32_t slot = cursor->slot++ % TABLE_BUCKET_ENTRIES;
			if (bucket->tags[slot] == 0)
				continue;
			struct table_entry entry = table_bucket_get(bucket, slot);
			if (table_entry_expiry_ms(&entry) <= now_ms)
				continue;
			*ret_record = (struct table_record){
				.digest = digest_of(cursor->shard, &entry),
				.ticket = table_entry_ticket(&entry),
				.window_s = window_clamp_s(&entry),
				.flags = (uint32_t)entry.rest & TABLE_FLAGS_ALL,
			};
			return true;
		}
	}
	return false;
}

void table_check(const struct table *table)
{
	uint32_t buckets = 0;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
		table_shard_check(&table->shards[i]);
		buckets += table->shards[i].capacity ? table->shards[i].bucket_count : 0;
	}
	CHECK(buckets == table->arena.count); /* so none is in two directories, or in none */
}

/* --- loading at a start ----------------------------------------------------------- */

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
