/* table: see table.h; the arrays are table_shard's. */
#include "store/local/table.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "store/local/table_shard.h"

/* Records between a prefetch and its use: enough to cover a miss in memory. */
#define BATCH_AHEAD 12

struct table {
	struct table_shard shards[TABLE_SHARDS];
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
	struct table *table = mem_zalloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_init(&table->shards[i], i);
	*ret_table = table;
	return 0;
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_free(&table->shards[i]);
	return mem_free(table);
}

uint32_t table_shard_of(const struct digest *digest)
{
	return (uint32_t)(digest->word[0] >> (64 - TABLE_SHARD_BITS));
}

static struct table_entry probe_of(const struct digest *digest)
{
	uint8_t tag = (uint8_t)digest->word[0];
	return (struct table_entry){
		.word = digest->word[1],
		.rest = digest->word[0] >> TABLE_TAG_BITS << (64 - REST_DIGEST_BITS),
		.last = tag == 0,
		.tag = tag ? tag : 1,
	};
}

static struct table_entry entry_of(const struct table_record *record)
{
	struct table_entry entry = probe_of(&record->digest);
	entry.rest |= (uint64_t)table_window_encode(record->window_s) << TABLE_FLAG_BITS |
	              record->flags;
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

void table_prefetch(const struct table *table, const struct digest *digest)
{
	const struct table_shard *shard = &table->shards[table_shard_of(digest)];
	struct table_entry probe = probe_of(digest);
	const struct table_bucket *home = &shard->buckets[table_shard_home(shard, &probe)];
	fetch(home);
	fetch(home + 1); /* where the overflow of one home in five is */
}

void table_prefetch_entry(const struct table *table, const struct digest *digest)
{
	const struct table_shard *shard = &table->shards[table_shard_of(digest)];
	struct table_entry probe = probe_of(digest);
	const struct table_bucket *home = &shard->buckets[table_shard_home(shard, &probe)];
	uint64_t mask = table_bucket_match(home, probe.tag);
	if (!mask)
		mask = table_bucket_match(home, 0);
	if (!mask)
		return;
	const uint8_t *body = home->bodies[__builtin_ctzll(mask) - 1];
	fetch(body);
	fetch(body + TABLE_BODY - 1);
}

bool table_find(const struct table *table, const struct digest *digest, uint64_t now_ms,
                struct table_hit *ret_hit)
{
	const struct table_shard *shard = &table->shards[table_shard_of(digest)];
	struct table_entry probe = probe_of(digest);
	struct table_spot spot;
	if (!table_shard_seek(shard, &probe, &spot))
		return false;
	struct table_entry entry = table_bucket_get(&shard->buckets[spot.bucket], spot.slot);
	uint64_t expiry_ms = table_entry_expiry_ms(&entry);
	if (expiry_ms <= now_ms)
		return false;
	ret_hit->ticket = table_entry_ticket(&entry);
	ret_hit->expiry_ms = expiry_ms;
	ret_hit->window_s = window_clamp_s(&entry);
	ret_hit->flags = (uint32_t)entry.rest & TABLE_FLAGS_ALL;
	return true;
}

int table_put(struct table *table, const struct table_record *record, uint64_t now_ms)
{
	CHECK(record->ticket != 0 && record->ticket >> TICKET_BITS == 0);
	CHECK((record->flags & ~TABLE_FLAGS_ALL) == 0);
	struct table_entry entry = entry_of(record);
	return table_shard_put(&table->shards[table_shard_of(&record->digest)], &entry, now_ms);
}

static bool in_range(const struct table_record *record, struct table_range range)
{
	uint32_t shard = table_shard_of(&record->digest);
	return shard >= range.first && shard < range.last;
}

int table_put_batch(struct table *table, const struct table_record *records, size_t count,
                    struct table_range range, uint64_t now_ms)
{
	for (size_t i = 0; i < count + 2 * BATCH_AHEAD; i++) {
		if (i < count && in_range(&records[i], range))
			table_prefetch(table, &records[i].digest);
		size_t entry = i - BATCH_AHEAD; /* wraps to more than count */
		if (entry < count && in_range(&records[entry], range))
			table_prefetch_entry(table, &records[entry].digest);
		size_t put = i - 2 * BATCH_AHEAD;
		if (put >= count || !in_range(&records[put], range))
			continue;
		const struct table_record *record = &records[put];
		/* As table_find() judges it: by the window as it is kept, rounded up. */
		uint64_t window_s = table_window_decode(table_window_encode(record->window_s));
		if (ticket_time_ms(record->ticket) + window_s * 1000 <= now_ms)
			continue;
		int error = table_put(table, record, now_ms);
		if (error)
			return error;
	}
	return 0;
}

bool table_remove(struct table *table, const struct digest *digest)
{
	struct table_shard *shard = &table->shards[table_shard_of(digest)];
	struct table_entry probe = probe_of(digest);
	struct table_spot spot;
	if (!table_shard_seek(shard, &probe, &spot))
		return false;
	table_shard_remove(shard, spot);
	return true;
}

bool table_flag(struct table *table, const struct digest *digest, uint32_t set, uint32_t clear)
{
	CHECK(((set | clear) & ~TABLE_FLAGS_ALL) == 0);
	struct table_shard *shard = &table->shards[table_shard_of(digest)];
	struct table_entry probe = probe_of(digest);
	struct table_spot spot;
	if (!table_shard_seek(shard, &probe, &spot))
		return false;
	struct table_bucket *bucket = &shard->buckets[spot.bucket];
	struct table_entry entry = table_bucket_get(bucket, spot.slot);
	entry.rest = (entry.rest & ~(uint64_t)clear) | set;
	table_bucket_set(bucket, spot.slot, &entry);
	return true;
}

/* One step of the sweep inside the current shard; false when the call has done
 * enough because a shard was rebuilt. */
static bool sweep_step(struct table *table, uint64_t now_ms, uint64_t *budget)
{
	struct table_shard *shard = &table->shards[table->sweep_shard];
	uint64_t looked = 1; /* an idle shard is not free either */
	bool ended = true;
	if (shard->sweep_bucket || table_shard_may_expire(shard, now_ms))
		ended = table_shard_sweep(shard, now_ms, *budget, &looked);
	*budget -= looked < *budget ? looked : *budget;
	if (!ended)
		return true;
	table->sweep_shard = (table->sweep_shard + 1) % TABLE_SHARDS;
	return !table_shard_shrink(shard);
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
	while (budget > 0 && sweep_step(table, now_ms, &budget)) {
		if (++steps >= TABLE_SHARDS && table->sweep_shard == start)
			break;
	}
	return expired_sum(table) - before;
}

int table_reserve_shards(struct table *table, uint64_t expected, struct table_range range)
{
	CHECK(range.first <= range.last && range.last <= TABLE_SHARDS);
	/* A shard's share of uniform digests is off by its square root; most
	 * have that in reserve, the others are rebuilt once. */
	uint64_t mean = expected / TABLE_SHARDS + 1;
	uint64_t root = 1;
	while (root * root < mean)
		root = root < 16 ? root + 1 : root + root / 16;
	for (uint32_t i = range.first; i < range.last; i++) {
		int error = table_shard_reserve(&table->shards[i], mean + root);
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
	struct table_stats stats = { .bytes = sizeof(*table) };
	for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
		const struct table_shard *shard = &table->shards[i];
		stats.claims += shard->count;
		stats.expired += shard->expired;
		stats.slots += (uint64_t)shard->bucket_count * TABLE_BUCKET_ENTRIES;
		stats.bytes += table_shard_bytes(shard);
		stats.rebuilds += shard->rebuilds;
	}
	*ret_stats = stats;
}

bool table_next(const struct table *table, struct table_cursor *cursor, uint64_t now_ms,
                struct table_record *ret_record)
{
	for (; cursor->shard < TABLE_SHARDS; cursor->shard++, cursor->slot = 0) {
		const struct table_shard *shard = &table->shards[cursor->shard];
		while (cursor->slot < shard->bucket_count * TABLE_BUCKET_ENTRIES) {
			const struct table_bucket *bucket =
				&shard->buckets[cursor->slot / TABLE_BUCKET_ENTRIES];
			uint32_t slot = cursor->slot++ % TABLE_BUCKET_ENTRIES + 1;
			if (bucket->line[slot] == 0)
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
	for (uint32_t i = 0; i < TABLE_SHARDS; i++)
		table_shard_check(&table->shards[i]);
}
