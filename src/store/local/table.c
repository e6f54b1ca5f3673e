/* table: see table.h; the arrays are table_shard's. */
#include "store/local/table.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "store/local/table_shard.h"

/* Records between a prefetch and its use: enough to cover a miss in memory. */
#define BATCH_AHEAD 12

/*
 * Where a digest's bucket was. An admit asks four times: two steps of prefetch,
 * a find and a put. The answer holds while the shard has the same version.
 */
struct memo {
	struct digest digest;
	struct table_bucket *bucket; /* NULL: empty */
	uint32_t version;
	bool absent; /* the digest was not in the table, and was not put since */
};

#define MEMOS 256u /* several times what a pipeline has under way */

struct table {
	_Alignas(64) struct table_shard shards[TABLE_SHARDS];
	struct table_arena arena;
	struct memo *memos; /* MEMOS of them, of the owner's thread */
	uint32_t sweep_shard;
};

static_assert(TABLE_SHARDS == 1u << TABLE_SHARD_BITS, "shard numbers are left out of entries");
static_assert(TABLE_FLAGS_ALL == (1u << TABLE_FLAG_BITS) - 1, "flags fill their bits");

/* Of digest.word[0], between the shard's number and the tag. */
#define REST_DIGEST_BITS (64 - TABLE_SHARD_BITS - TABLE_TAG_BITS)
static_assert(REST_DIGEST_BITS + TABLE_WINDOW_BITS + TABLE_FLAG_BITS == 64, "rest is one word");
static_assert(TICKET_BITS + 1 == 7 * 8, "ticket and a bit are seven bytes");

int table_new(struct table **ret_table)
{
	struct table *table = mem_aligned(_Alignof(struct table), sizeof(*table));
	if (!table)
		return -ENOMEM;
	*table = (struct table){ .memos = mem_zalloc(MEMOS, sizeof(struct memo)) };
	int error = table->memos ? table_arena_init(&table->arena) : -ENOMEM;
	if (error) {
		mem_free(table->memos);
		mem_free(table);
		return error;
	}
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_init(&table->shards[i], &table->arena, i);
	*ret_table = table;
	return 0;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_free(&table->shards[i]);
	table_arena_free(&table->arena);
	mem_free(table->memos);
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

static struct table_record record_of(uint32_t shard, const struct table_entry *entry)
{
	return (struct table_record){
		.digest = digest_of(shard, entry),
		.ticket = table_entry_ticket(entry),
		.window_s = window_clamp_s(entry),
		.flags = (uint32_t)entry->rest & TABLE_FLAGS_ALL,
	};
}

/* gcc takes a function that only prefetches for one without effect and drops
 * calls to it; the empty statement keeps them. */
static inline void fetch(const void *ptr)
{
	__builtin_prefetch(ptr);
	__asm__ volatile("");
}

static inline struct memo *memo_make(const struct table_shard *shard, struct memo *memos,
                                     const struct digest *digest)
{
	struct memo *memo = &memos[(digest->word[1] >> 32) % MEMOS];
	memo->digest = *digest;
	memo->bucket = table_shard_home(shard, hash_of(digest));
	memo->version = shard->version;
	memo->absent = false;
	return memo;
}

/* Tells the bucket where the digest is, if it is anywhere. */
static inline struct memo *memo_of(const struct table_shard *shard, struct memo *memos,
                                   const struct digest *digest)
{
	struct memo *memo = &memos[(digest->word[1] >> 32) % MEMOS];
	if (likely(digest_same_key(&memo->digest, digest) && memo->version == shard->version &&
	           memo->bucket))
		return memo;
	return memo_make(shard, memos, digest);
}

static inline const struct table_shard *shard_of(const struct table *table,
                                                 const struct digest *digest)
{
	return &table->shards[digest->word[0] >> (64 - TABLE_SHARD_BITS)];
}

static inline void prefetch_directory(const struct table *table, const struct digest *digest)
{
	const struct table_shard *shard = shard_of(table, digest);
	uint32_t guess = table_shard_guess(shard, hash_of(digest));
	fetch(&shard->floors[guess]);
	fetch(&table_shard_numbers(shard)[guess]);
}

static inline void prefetch_home(const struct table *table, struct memo *memos,
                                 const struct digest *digest)
{
	fetch(memo_make(shard_of(table, digest), memos, digest)->bucket);
}

/* The entry that may be it; else where it would be put. */
static inline void prefetch_body(const struct table *table, struct memo *memos,
                                 const struct digest *digest)
{
	const struct table_shard *shard = shard_of(table, digest);
	const struct table_bucket *home = memo_of(shard, memos, digest)->bucket;
	uint64_t same = table_bucket_match(home, tag_of(digest));
	uint64_t empty = table_bucket_match(home, 0);
	if (unlikely(!(same | empty))) {
		table_shard_prefetch_room(shard, hash_of(digest));
		return;
	}
	const uint8_t *body = home->bodies[__builtin_ctzll(same ? same : empty)];
	fetch(body);
	fetch(body + TABLE_BODY - 1);
}

void table_prefetch(const struct table *table, const struct digest *digest)
{
	prefetch_directory(table, digest);
}

void table_prefetch_home(const struct table *table, const struct digest *digest)
{
	prefetch_home(table, table->memos, digest);
}

void table_prefetch_entry(const struct table *table, const struct digest *digest)
{
	prefetch_body(table, table->memos, digest);
}

static inline bool seek(const struct table *table, const struct digest *digest,
                        struct table_spot *ret_spot)
{
	struct table_entry probe = probe_of(digest);
	struct memo *memo = memo_of(shard_of(table, digest), table->memos, digest);
	ret_spot->bucket = memo->bucket;
	bool found = table_bucket_seek(memo->bucket, &probe, &ret_spot->slot);
	memo->absent = !found;
	return found;
}

bool table_find(const struct table *table, const struct digest *digest, uint64_t now_ms,
                struct table_hit *ret_hit)
{
	struct table_spot spot;
	if (!seek(table, digest, &spot))
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

static inline int put(struct table *table, struct memo *memos, const struct table_record *record,
                      uint64_t now_ms)
{
	CHECK(record->ticket != 0 && record->ticket >> TICKET_BITS == 0);
	CHECK((record->flags & ~TABLE_FLAGS_ALL) == 0);
	struct table_entry entry = entry_of(record);
	struct table_shard *shard = &table->shards[table_shard_of(&record->digest)];
	struct memo *memo = memo_of(shard, memos, &record->digest);
	struct table_spot spot = { .bucket = memo->bucket };
	if (!memo->absent && table_bucket_seek(memo->bucket, &entry, &spot.slot)) {
		table_shard_replace(shard, spot, &entry);
		return 0;
	}
	memo->absent = false;
	return table_shard_add(shard, memo->bucket, &entry, now_ms);
}

int table_put(struct table *table, const struct table_record *record, uint64_t now_ms)
{
	return put(table, table->memos, record, now_ms);
}

static bool in_range(const struct table_record *record, struct table_range range)
{
	uint32_t shard = table_shard_of(&record->digest);
	return shard >= range.first && shard < range.last;
}

int table_put_batch(struct table *table, const struct table_record *records, size_t count,
                    struct table_range range, uint64_t now_ms)
{
	struct memo memos[MEMOS] = { 0 }; /* there may be two threads */
	for (size_t i = 0; i < count + 3 * BATCH_AHEAD; i++) {
		size_t home = i - BATCH_AHEAD; /* wraps to more than count */
		size_t body = i - 2 * BATCH_AHEAD;
		size_t now = i - 3 * BATCH_AHEAD;
		if (i < count && in_range(&records[i], range))
			prefetch_directory(table, &records[i].digest);
		if (home < count && in_range(&records[home], range))
			prefetch_home(table, memos, &records[home].digest);
		if (body < count && in_range(&records[body], range))
			prefetch_body(table, memos, &records[body].digest);
		if (now >= count || !in_range(&records[now], range))
			continue;
		const struct table_record *record = &records[now];
		/* As table_find() judges it: by the window as it is kept, rounded up. */
		uint64_t window_s = window_decode(window_encode(record->window_s));
		if (ticket_time_ms(record->ticket) + window_s * 1000 <= now_ms)
			continue;
		int error = put(table, memos, record, now_ms);
		if (error)
			return error;
	}
	return 0;
}

bool table_remove(struct table *table, const struct digest *digest)
{
	struct table_spot spot;
	if (!seek(table, digest, &spot))
		return false;
	table_shard_remove(&table->shards[table_shard_of(digest)], spot);
	return true;
}

bool table_flag(struct table *table, const struct digest *digest, uint32_t set, uint32_t clear)
{
	CHECK(((set | clear) & ~TABLE_FLAGS_ALL) == 0);
	struct table_spot spot;
	if (!seek(table, digest, &spot))
		return false;
	struct table_entry entry = table_bucket_get(spot.bucket, spot.slot);
	entry.rest = (entry.rest & ~(uint64_t)clear) | set;
	table_bucket_set(spot.bucket, spot.slot, &entry);
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

int table_reserve_shards(struct table *table, uint64_t expected, struct table_range range)
{
	CHECK(range.first <= range.last && range.last <= TABLE_SHARDS);
	for (uint32_t i = range.first; i < range.last; i++) {
		int error = table_shard_reserve(&table->shards[i], expected / TABLE_SHARDS);
		if (error)
			return error;
	}
	return 0;
}

int table_reserve(struct table *table, uint64_t expected)
{
	return table_reserve_shards(table, expected, TABLE_ALL);
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
			*ret_record = record_of(cursor->shard, &entry);
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
