/* table_shard: see table_shard.h. */
#include "store/local/table_shard.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"

/*
 * Load and step. A shard is rebuilt when LIMIT_PERCENT of its slots are taken,
 * and then grows by 1/16 to 3/16: not all by the same, so that the shards do
 * not grow together. The mean load is about 0.86, which makes less than 29
 * bytes a claim. Buckets of 63 bear that; with 95 % a miss took twice as long.
 */
#define LIMIT_PERCENT 92u
#define BUCKETS_MAX (UINT32_C(1) << 26)

/* A shard with more entries than this shrinks only when three quarters of it
 * are free: moving them all at once would be a pause. */
#define SHRINK_FREELY 100000u

#define PENDING_MAX 512u
#define FILLS 8u

static_assert(sizeof(struct table_bucket) == TABLE_BUCKET_BYTES, "24 cache lines");

/* Read as a shard of one empty bucket, never written: limit 0 forces a rebuild. */
static struct table_bucket no_buckets[1];

void table_shard_init(struct table_shard *shard, uint32_t number)
{
	*shard = (struct table_shard){ .buckets = no_buckets, .bucket_count = 1, .number = number };
	shard->expiry_min_s = UINT32_MAX;
	shard->sweep_min_s = UINT32_MAX;
}

static bool has_memory(const struct table_shard *shard)
{
	return shard->buckets != no_buckets;
}

static size_t page_bytes(uint64_t buckets)
{
	return (buckets * TABLE_BUCKET_BYTES + MEM_PAGE - 1) / MEM_PAGE * MEM_PAGE;
}

/*
 * What is mapped for these: the next power of two, since moving a mapping costs
 * more than moving the entries of a small shard. Pages beyond the last bucket
 * are never touched, so they are addresses and not memory.
 */
static size_t map_bytes(uint64_t buckets)
{
	size_t bytes = MEM_PAGE;
	while (bytes < page_bytes(buckets))
		bytes *= 2;
	return bytes;
}

uint64_t table_shard_bytes(const struct table_shard *shard)
{
	return has_memory(shard) ? page_bytes(shard->bucket_count) : 0;
}

void table_shard_free(struct table_shard *shard)
{
	if (has_memory(shard))
		mem_unmap(shard->buckets, map_bytes(shard->bucket_count));
	table_shard_init(shard, shard->number);
}

/* Another fraction of 256 for every rebuild of every shard. */
static uint32_t jitter(const struct table_shard *shard)
{
	uint64_t x = shard->number + shard->rebuilds * UINT64_C(613);
	return (uint32_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static uint64_t buckets_least(uint64_t count)
{
	uint64_t per_hundred = TABLE_BUCKET_ENTRIES * LIMIT_PERCENT;
	return (count * 100 + per_hundred - 1) / per_hundred;
}

/* For `count` entries and from `sixteenths` to two more sixteenths in reserve,
 * as many as fit whole pages; small shards round the reserve down. */
static uint64_t buckets_for(const struct table_shard *shard, uint64_t count, uint32_t sixteenths)
{
	uint64_t reserve = count * (sixteenths * 128 + jitter(shard)) / 2048;
	size_t least = page_bytes(buckets_least(count));
	size_t bytes = buckets_least(count + reserve) * TABLE_BUCKET_BYTES / MEM_PAGE * MEM_PAGE;
	return (bytes > least ? bytes : least) / TABLE_BUCKET_BYTES;
}

static void set_buckets(struct table_shard *shard, struct table_bucket *buckets, uint32_t count)
{
	shard->buckets = buckets;
	shard->bucket_count = count;
	shard->limit = (uint32_t)((uint64_t)count * TABLE_BUCKET_ENTRIES * LIMIT_PERCENT / 100);
	shard->rebuilds++;
	shard->sweep_bucket = 0;
}

static uint32_t expiry_floor_s(const struct table_entry *entry)
{
	uint64_t seconds = (table_entry_expiry_ms(entry) - TICKET_EPOCH_MS) / 1000;
	return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

static void note_expiry(struct table_shard *shard, const struct table_entry *entry)
{
	uint32_t seconds = expiry_floor_s(entry);
	if (seconds < shard->expiry_min_s)
		shard->expiry_min_s = seconds;
	if (seconds < shard->sweep_min_s)
		shard->sweep_min_s = seconds;
}

bool table_shard_may_expire(const struct table_shard *shard, uint64_t now_ms)
{
	return TICKET_EPOCH_MS + shard->expiry_min_s * UINT64_C(1000) <= now_ms;
}

/* --- finding ----------------------------------------------------------------- */

static uint32_t bucket_after(const struct table_shard *shard, uint32_t bucket)
{
	return bucket + 1 < shard->bucket_count ? bucket + 1 : 0;
}

bool table_shard_seek_away(const struct table_shard *shard, const struct table_entry *probe,
                           uint32_t home, struct table_spot *ret_spot)
{
	uint32_t left = table_home_distance(&shard->buckets[home]);
	if (left == TABLE_DISTANCE_ANY)
		left = shard->bucket_count - 1;
	for (uint32_t bucket = home; left > 0; left--) {
		bucket = bucket_after(shard, bucket);
		if (table_bucket_seek(&shard->buckets[bucket], probe, &ret_spot->slot)) {
			ret_spot->bucket = bucket;
			return true;
		}
	}
	return false;
}

/* --- placing ----------------------------------------------------------------- */

static void home_add_away(struct table_bucket *home, uint32_t distance)
{
	uint32_t away = home->line[0] & 31u;
	uint32_t farthest = table_home_distance(home);
	if (distance > TABLE_DISTANCE_ANY)
		distance = TABLE_DISTANCE_ANY;
	if (away < 31)
		away++;
	if (distance > farthest)
		farthest = distance;
	home->line[0] = (uint8_t)(farthest << 5 | away);
}

static void home_subtract_away(struct table_bucket *home)
{
	uint32_t away = home->line[0] & 31u;
	CHECK(away > 0);
	if (away == 31)
		return; /* the true number is not known any more */
	home->line[0] = away == 1 ? 0 : (uint8_t)(home->line[0] - 1);
}

/* Into the first bucket with room of `tries` from home on; false if none has. */
static bool place(struct table_shard *shard, const struct table_entry *entry, uint32_t home,
                  uint32_t tries)
{
	uint32_t bucket = home;
	for (uint32_t distance = 0; distance < tries; distance++) {
		uint64_t empty = table_bucket_match(&shard->buckets[bucket], 0);
		if (likely(empty)) {
			uint32_t slot = (uint32_t)__builtin_ctzll(empty);
			table_bucket_set(&shard->buckets[bucket], slot, entry);
			if (unlikely(distance > 0))
				home_add_away(&shard->buckets[home], distance);
			return true;
		}
		bucket = bucket_after(shard, bucket);
	}
	return false;
}

/* --- growing and shrinking ---------------------------------------------------- */

/*
 * Entries that must wait while others are moved, and how far the buckets that
 * are being filled are full: asking their tags again right after writing one
 * would stall the processor for each entry.
 */
struct pending {
	uint32_t count;
	uint32_t filling[FILLS];
	uint32_t filled[FILLS]; /* slots 1 … filled are taken, the others empty */
	struct table_entry entries[PENDING_MAX];
};

/* In this bucket, if there is room. What is laid out anew has no gaps. */
static bool place_quickly(struct table_shard *shard, const struct table_entry *entry, uint32_t home,
                          struct pending *pending)
{
	uint32_t at = home % FILLS;
	if (unlikely(pending->filling[at] != home)) {
		uint64_t taken = ~table_bucket_match(&shard->buckets[home], 0) & ~UINT64_C(1);
		pending->filling[at] = home;
		pending->filled[at] = (uint32_t)__builtin_popcountll(taken);
	}
	if (unlikely(pending->filled[at] == TABLE_BUCKET_ENTRIES))
		return false;
	table_bucket_set(&shard->buckets[home], ++pending->filled[at], entry);
	return true;
}

/* Behind its home, which is full or not yet laid out, but not around the end. */
static bool place_away(struct table_shard *shard, const struct table_entry *entry, uint32_t home,
                       uint32_t from, struct pending *pending)
{
	for (uint32_t bucket = home < from ? from : home + 1; bucket < shard->bucket_count;
	     bucket++) {
		if (!place_quickly(shard, entry, bucket, pending))
			continue;
		home_add_away(&shard->buckets[home], bucket - home);
		return true;
	}
	return false;
}

/*
 * The entries of one bucket go to their new homes; all buckets from here up are
 * laid out anew already, and what homes tell has been cleared before. A home is
 * below only for an entry that was away from home near the bottom: it stays
 * away. An entry that would have to go around the end, to buckets that are yet
 * to be moved, waits. There are a few dozen of those; if they ever were too
 * many, going around is right too: they are moved again, and counted twice.
 */
static void move_up(struct table_shard *shard, uint32_t from, struct pending *pending)
{
	struct table_bucket old = shard->buckets[from];
	uint64_t taken = ~table_bucket_match(&old, 0) & ~UINT64_C(1);
	memset(shard->buckets[from].line + 1, 0, TABLE_BUCKET_ENTRIES);
	pending->filling[from % FILLS] = UINT32_MAX;
	for (; taken; taken &= taken - 1) {
		struct table_entry entry = table_bucket_get(&old, (uint32_t)__builtin_ctzll(taken));
		uint32_t home = table_shard_home(shard, &entry);
		if (home >= from && place_quickly(shard, &entry, home, pending))
			continue;
		if (place_away(shard, &entry, home, from, pending))
			continue;
		if (pending->count < PENDING_MAX) {
			pending->entries[pending->count++] = entry;
			continue;
		}
		bool placed = place(shard, &entry, home, shard->bucket_count);
		CHECK(placed);
		memset(pending->filling, 0xff, sizeof(pending->filling));
	}
}

static void move_all_up(struct table_shard *shard, uint32_t before)
{
	struct pending pending;
	pending.count = 0;
	memset(pending.filling, 0xff, sizeof(pending.filling));
	for (uint32_t i = 0; i < before; i++)
		shard->buckets[i].line[0] = 0;
	for (uint32_t from = before; from-- > 0;)
		move_up(shard, from, &pending);
	for (uint32_t i = 0; i < pending.count; i++) {
		const struct table_entry *entry = &pending.entries[i];
		bool placed = place(shard, entry, table_shard_home(shard, entry),
		                    shard->bucket_count);
		CHECK(placed);
	}
}

static int grow(struct table_shard *shard, uint64_t buckets)
{
	if (buckets > BUCKETS_MAX)
		return -ENOMEM;
	CHECK(buckets > shard->bucket_count || !has_memory(shard));
	uint32_t before = has_memory(shard) ? shard->bucket_count : 0;
	size_t bytes = map_bytes(buckets);
	void *ptr = shard->buckets;
	if (!before)
		ptr = mem_map(bytes);
	else if (bytes > map_bytes(before))
		ptr = mem_remap(shard->buckets, map_bytes(before), bytes);
	if (!ptr)
		return -ENOMEM;
	set_buckets(shard, ptr, (uint32_t)buckets);
	move_all_up(shard, before);
	return 0;
}

int table_shard_reserve(struct table_shard *shard, uint64_t count)
{
	uint64_t buckets = buckets_for(shard, count, 0);
	return buckets > shard->bucket_count ? grow(shard, buckets) : 0;
}

static void give_back_all(struct table_shard *shard)
{
	uint32_t rebuilds = shard->rebuilds;
	uint64_t expired = shard->expired;
	table_shard_free(shard);
	shard->rebuilds = rebuilds;
	shard->expired = expired;
}

/* Copies to pages of its own: in place, down is not as simple as up. Without
 * memory for that the shard stays as it is. */
static bool shrink_to(struct table_shard *shard, uint32_t buckets)
{
	struct table_bucket *old = shard->buckets;
	uint32_t old_count = shard->bucket_count;
	void *ptr = mem_map(map_bytes(buckets));
	if (!ptr)
		return false;
	set_buckets(shard, ptr, buckets);
	for (uint32_t i = 0; i < old_count; i++) {
		uint64_t taken = ~table_bucket_match(&old[i], 0) & ~UINT64_C(1);
		for (; taken; taken &= taken - 1) {
			struct table_entry entry =
				table_bucket_get(&old[i], (uint32_t)__builtin_ctzll(taken));
			bool placed = place(shard, &entry, table_shard_home(shard, &entry),
			                    buckets);
			CHECK(placed);
		}
	}
	mem_unmap(old, map_bytes(old_count));
	return true;
}

bool table_shard_shrink(struct table_shard *shard)
{
	if (!has_memory(shard))
		return false;
	if (shard->count == 0) {
		give_back_all(shard);
		return true;
	}
	if (shard->count > SHRINK_FREELY && shard->count > shard->limit / 4)
		return false;
	uint64_t buckets = buckets_for(shard, shard->count, 1);
	if (buckets + buckets / 8 >= shard->bucket_count)
		return false;
	return shrink_to(shard, (uint32_t)buckets);
}

/* Makes room for one more where there is none, first from the expired. */
static int make_room(struct table_shard *shard, uint64_t now_ms)
{
	if (table_shard_may_expire(shard, now_ms)) {
		uint64_t looked = 0;
		shard->sweep_bucket = 0;
		bool ended = table_shard_sweep(shard, now_ms, UINT64_MAX, &looked);
		CHECK(ended);
		if (shard->count < shard->limit - shard->limit / 16)
			return 0;
	}
	uint64_t buckets = buckets_for(shard, (uint64_t)shard->count + 1, 1);
	if (has_memory(shard) && buckets <= shard->bucket_count)
		buckets = page_bytes((uint64_t)shard->bucket_count + 1) / TABLE_BUCKET_BYTES;
	return grow(shard, buckets);
}

/* --- changing ------------------------------------------------------------------ */

static void replace(struct table_shard *shard, struct table_spot spot,
                    const struct table_entry *entry)
{
	struct table_bucket *bucket = &shard->buckets[spot.bucket];
	struct table_entry old = table_bucket_get(bucket, spot.slot);
	if (table_entry_ticket(&old) >= table_entry_ticket(entry))
		return;
	table_bucket_set(bucket, spot.slot, entry);
	note_expiry(shard, entry);
}

int table_shard_put(struct table_shard *shard, const struct table_entry *entry, uint64_t now_ms)
{
	struct table_spot spot;
	if (table_shard_seek(shard, entry, &spot)) {
		replace(shard, spot, entry);
		return 0;
	}
	if (unlikely(shard->count >= shard->limit)) {
		int error = make_room(shard, now_ms);
		if (error)
			return error;
	}
	bool placed = place(shard, entry, table_shard_home(shard, entry), shard->bucket_count);
	CHECK(placed);
	shard->count++;
	note_expiry(shard, entry);
	return 0;
}

static void vacate(struct table_shard *shard, struct table_spot spot,
                   const struct table_entry *entry)
{
	uint32_t home = table_shard_home(shard, entry);
	shard->buckets[spot.bucket].line[spot.slot] = 0;
	if (home != spot.bucket)
		home_subtract_away(&shard->buckets[home]);
	shard->count--;
}

void table_shard_remove(struct table_shard *shard, struct table_spot spot)
{
	CHECK(spot.bucket < shard->bucket_count);
	struct table_entry entry = table_bucket_get(&shard->buckets[spot.bucket], spot.slot);
	CHECK(entry.tag != 0);
	vacate(shard, spot, &entry);
}

static void sweep_bucket(struct table_shard *shard, uint32_t number, uint64_t now_ms)
{
	const struct table_bucket *bucket = &shard->buckets[number];
	uint64_t taken = ~table_bucket_match(bucket, 0) & ~UINT64_C(1);
	for (; taken; taken &= taken - 1) {
		struct table_spot spot = { number, (uint32_t)__builtin_ctzll(taken) };
		struct table_entry entry = table_bucket_get(bucket, spot.slot);
		if (table_entry_expiry_ms(&entry) <= now_ms) {
			vacate(shard, spot, &entry);
			shard->expired++;
			continue;
		}
		uint32_t seconds = expiry_floor_s(&entry);
		if (seconds < shard->sweep_min_s)
			shard->sweep_min_s = seconds;
	}
}

bool table_shard_sweep(struct table_shard *shard, uint64_t now_ms, uint64_t budget,
                       uint64_t *ret_looked)
{
	uint64_t looked = 0;
	uint32_t number = shard->sweep_bucket;
	if (number == 0)
		shard->sweep_min_s = UINT32_MAX;
	for (; number < shard->bucket_count && looked < budget; number++) {
		sweep_bucket(shard, number, now_ms);
		looked += TABLE_BUCKET_ENTRIES;
	}
	bool ended = number == shard->bucket_count;
	if (ended)
		shard->expiry_min_s = shard->sweep_min_s;
	shard->sweep_bucket = ended ? 0 : number;
	*ret_looked = looked;
	return ended;
}

/* --- checking ------------------------------------------------------------------- */

static uint32_t check_bucket(const struct table_shard *shard, uint32_t number)
{
	const struct table_bucket *bucket = &shard->buckets[number];
	uint32_t count = 0;
	for (uint32_t slot = 1; slot <= TABLE_BUCKET_ENTRIES; slot++) {
		if (bucket->line[slot] == 0)
			continue;
		struct table_entry entry = table_bucket_get(bucket, slot);
		struct table_spot spot;
		CHECK(table_entry_ticket(&entry) != 0);
		CHECK(table_shard_seek(shard, &entry, &spot)); /* 1 */
		CHECK(spot.bucket == number && spot.slot == slot);
		CHECK(expiry_floor_s(&entry) >= shard->expiry_min_s); /* 4 */
		count++;
	}
	return count;
}

void table_shard_check(const struct table_shard *shard)
{
	uint64_t away = 0;
	uint64_t told = 0;
	uint32_t count = 0;
	for (uint32_t i = 0; i < shard->bucket_count; i++) {
		count += check_bucket(shard, i);
		told += (shard->buckets[i].line[0] & 31u) == 31 ? UINT32_MAX
		                                                : shard->buckets[i].line[0] & 31u;
		for (uint32_t slot = 1; slot <= TABLE_BUCKET_ENTRIES; slot++) {
			struct table_entry entry = table_bucket_get(&shard->buckets[i], slot);
			away += entry.tag != 0 && table_shard_home(shard, &entry) != i;
		}
	}
	CHECK(told >= away);                                                                /* 2 */
	CHECK(count == shard->count && count < shard->bucket_count * TABLE_BUCKET_ENTRIES); /* 3 */
}
