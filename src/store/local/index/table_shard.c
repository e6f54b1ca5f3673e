/* table_shard: see table_shard.h. */
#include "store/local/index/table_shard.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- the arena --------------------------------------------------------------------- */

/* 96 GiB of addresses for more than three billion claims; where there are not so many,
 * half, and so on. */
#define LIMIT_MOST (UINT32_C(1) << 26)
#define LIMIT_LEAST (UINT32_C(1) << 16)

/* A process that may have only so many addresses needs as many for the rest, up to this. */
#define REST_MOST ((size_t)1 << 30)

#define STEP_BYTES ((size_t)2 << 20) /* the least that is committed at once */

static_assert(sizeof(struct table_bucket) == TABLE_BUCKET_BYTES, "24 cache lines");

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static size_t bytes_of(uint32_t buckets)
{
	return (size_t)buckets * TABLE_BUCKET_BYTES;
}

static size_t pages_of(uint32_t count)
{
	return round_up(bytes_of(count), MEM_PAGE);
}

/* NULL where these would be the last addresses that the process can have. */
static void *reserve(size_t bytes)
{
	size_t rest = bytes < REST_MOST ? bytes : REST_MOST;
	char *start = mem_reserve(bytes + rest);
	if (start)
		mem_unmap(start + bytes, rest);
	return start;
}

int table_arena_init(struct table_arena *arena)
{
	*arena = (struct table_arena){ .limit = LIMIT_MOST };
	for (; arena->limit >= LIMIT_LEAST; arena->limit /= 2) {
		/* Both parts are whole pages from LIMIT_LEAST up. */
		arena->reserved = bytes_of(arena->limit) + arena->limit * sizeof(uint16_t);
		arena->buckets = reserve(arena->reserved);
		if (arena->buckets)
			break;
	}
	if (!arena->buckets)
		return -ENOMEM;
	arena->owners = (uint16_t *)(void *)(arena->buckets + arena->limit);
	return 0;
}

void table_arena_free(struct table_arena *arena)
{
	if (!arena->buckets)
		return;
	mem_unmap(arena->buckets, arena->reserved);
	*arena = (struct table_arena){ 0 };
}

/* --- growing ------------------------------------------------------------- */

static int make_ready(struct table_arena *arena, uint32_t count)
{
	if (count > arena->limit)
		return -ENOMEM;
	char *start = (char *)arena->buckets;
	char *owners = (char *)arena->owners;
	size_t before = round_up(bytes_of(arena->ready), STEP_BYTES);
	size_t after = round_up(bytes_of(count) + before / 16, STEP_BYTES);
	if (after > bytes_of(arena->limit))
		after = bytes_of(arena->limit);
	uint32_t ready = (uint32_t)(after / TABLE_BUCKET_BYTES);
	size_t owners_after = round_up(ready * sizeof(uint16_t), MEM_PAGE);
	if (!mem_commit(start + before, after - before) || !mem_commit(owners, owners_after))
		return -ENOMEM;
	arena->ready = ready;
	return 0;
}

int table_arena_take(struct table_arena *arena, uint32_t shard, uint32_t count, uint32_t *ret_first)
{
	CHECK(count > 0 && shard <= UINT16_MAX);
	uint32_t first = arena->count;
	if (count > arena->limit - first)
		return -ENOMEM;
	if (first + count > arena->ready) {
		int error = make_ready(arena, first + count);
		if (error)
			return error;
	}
	/* The tags of buckets that were in use before are cleared; pages that are new
	 * are zero, and are better touched when they are filled. */
	for (uint32_t i = first; i < first + count && i < arena->high; i++)
		memset(arena->buckets[i].tags, 0, sizeof(arena->buckets[i].tags));
	if (first + count > arena->high)
		arena->high = first + count;
	for (uint32_t i = first; i < first + count; i++)
		arena->owners[i] = (uint16_t)shard;
	arena->count += count;
	*ret_first = first;
	return 0;
}

/* --- shrinking ----------------------------------------------------------- */

/* What is above the last bucket goes back when it is worth a call. */
static void give_back(struct table_arena *arena)
{
	size_t kept = pages_of(arena->count), touched = pages_of(arena->high);
	if (touched < kept + kept / 64 + 16 * (size_t)MEM_PAGE && arena->count > 0)
		return;
	mem_decommit((char *)arena->buckets + kept, touched - kept);
	/* The page of the last bucket is not new: others begin in it. */
	arena->high = (uint32_t)((kept + TABLE_BUCKET_BYTES - 1) / TABLE_BUCKET_BYTES);
}

bool table_arena_give(struct table_arena *arena, uint32_t number, uint32_t *ret_from,
                      uint32_t *ret_shard)
{
	CHECK(number < arena->count);
	uint32_t last = --arena->count;
	bool moved = number != last;
	if (moved) {
		arena->buckets[number] = arena->buckets[last];
		arena->owners[number] = arena->owners[last];
		*ret_from = last;
		*ret_shard = arena->owners[last];
	}
	give_back(arena);
	return moved;
}

uint64_t table_arena_bytes(const struct table_arena *arena)
{
	return pages_of(arena->high) + round_up(arena->count * sizeof(uint16_t), MEM_PAGE);
}

/* --- the shard --------------------------------------------------------------------- */

/*
 * When what happens. A full bucket and its emptier neighbour share what they
 * have if that leaves SHARE_FREE slots; else three become four. By simulation
 * that makes a mean load of 0.85, at most 28.7 bytes a claim with the directory,
 * and moves an entry 3.5 times while the table grows without end. Three become
 * two when that leaves two with MERGE_FREE slots: far from becoming three again.
 */
#define SHARE_FREE 7u
#define SPLIT_FROM 3u
#define MERGE_FREE 26u
#define RESERVE_PERCENT 90u

#define SPREAD_MAX (SPLIT_FROM + 1)
#define SPREAD_ENTRIES (SPLIT_FROM * TABLE_BUCKET_ENTRIES)
#define BINS 256u

static_assert(sizeof(struct table_shard) == 64, "one cache line");
static_assert(TABLE_BUCKET_ENTRIES == 64, "a mask has a bit for each");

/* Read as a shard of one empty bucket, never written: capacity 0 tells. */
static struct table_bucket no_buckets[1];
static _Alignas(64) int32_t no_floors[TABLE_FLOORS_LINE] = {
	0,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
	TABLE_FLOOR_NONE,
};

static void forget_memory(struct table_shard *shard)
{
	shard->floors = no_floors; /* its first is the number of the bucket too */
	shard->buckets = no_buckets;
	shard->bucket_count = 1;
	shard->capacity = 0;
	shard->version++;
}

void table_shard_init(struct table_shard *shard, struct table_arena *arena, uint32_t number,
                      bool cells)
{
	*shard = (struct table_shard){ .arena = arena, .number = (uint16_t)number, .cells = cells };
	forget_memory(shard);
	shard->expiry_min_s = UINT32_MAX;
	shard->sweep_min_s = UINT32_MAX;
}

static bool has_memory(const struct table_shard *shard)
{
	return shard->capacity > 0;
}

static size_t directory_bytes(uint32_t capacity)
{
	return (size_t)capacity * (sizeof(int32_t) + sizeof(uint32_t));
}

uint64_t table_shard_bytes(const struct table_shard *shard)
{
	return directory_bytes(shard->capacity);
}

void table_shard_free(struct table_shard *shard)
{
	if (has_memory(shard))
		mem_free(shard->floors);
	forget_memory(shard);
}

static uint32_t floor_s(uint64_t ms)
{
	uint64_t seconds = (ms - TICKET_EPOCH_MS) / 1000;
	return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

static inline uint64_t expiry_of_ms(const struct table_shard *shard,
                                    const struct table_entry *entry)
{
	return unlikely(shard->cells) ? table_entry_over_ms(entry) : table_entry_expiry_ms(entry);
}

static void note_expiry(struct table_shard *shard, const struct table_entry *entry)
{
	uint32_t seconds = floor_s(expiry_of_ms(shard, entry));
	if (seconds < shard->expiry_min_s)
		shard->expiry_min_s = seconds;
	if (seconds < shard->sweep_min_s)
		shard->sweep_min_s = seconds;
}

static bool may_expire(const struct table_shard *shard, uint64_t now_ms)
{
	return TICKET_EPOCH_MS + shard->expiry_min_s * UINT64_C(1000) <= now_ms;
}

bool table_shard_may_sweep(const struct table_shard *shard, uint64_t now_ms)
{
	if (!has_memory(shard))
		return false;
	if (shard->sweep_hash || may_expire(shard, now_ms) || shard->count == 0)
		return true;
	return shard->bucket_count > 1 && shard->count < shard->bucket_count * 24;
}

static uint32_t used(const struct table_bucket *bucket)
{
	return TABLE_BUCKET_ENTRIES - (uint32_t)__builtin_popcountll(table_bucket_match(bucket, 0));
}

static void prefetch_bucket(const struct table_bucket *bucket)
{
	for (uint32_t i = 0; i < TABLE_BUCKET_BYTES; i += 64)
		__builtin_prefetch((const char *)bucket + i);
}

void table_shard_prefetch_room(const struct table_shard *shard, int32_t hash, uint64_t now_ms,
                               bool may_be_there)
{
	bool purges = may_expire(shard, now_ms); /* then the neighbours are hardly needed */
	if (may_be_there && !purges)
		return;
	uint32_t place = table_shard_place(shard, hash);
	prefetch_bucket(table_shard_bucket(shard, place));
	if (purges)
		return;
	if (place > 0)
		prefetch_bucket(table_shard_bucket(shard, place - 1));
	if (place + 1 < shard->bucket_count)
		prefetch_bucket(table_shard_bucket(shard, place + 1));
}

/* --- the directory --------------------------------------------------------- */

/* Another block, so that a failure leaves the old one. */
static int directory_resize(struct table_shard *shard, uint32_t capacity)
{
	CHECK(capacity % TABLE_FLOORS_LINE == 0);
	int32_t *floors = mem_aligned(64, directory_bytes(capacity));
	if (!floors)
		return -ENOMEM;
	uint32_t kept = has_memory(shard) ? shard->bucket_count : 0;
	memcpy(floors, shard->floors, kept * sizeof(*floors));
	for (uint32_t i = kept; i < capacity; i++)
		floors[i] = TABLE_FLOOR_NONE;
	memcpy(floors + capacity, table_shard_numbers(shard), kept * sizeof(uint32_t));
	if (has_memory(shard))
		mem_free(shard->floors);
	shard->floors = floors;
	shard->capacity = capacity;
	return 0;
}

/* Room for one bucket more. */
static int directory_reserve(struct table_shard *shard, uint32_t count)
{
	if (count <= shard->capacity)
		return 0;
	uint32_t wanted = count + count / 8;
	return directory_resize(shard, (wanted + TABLE_FLOORS_LINE - 1) / TABLE_FLOORS_LINE *
	                                       TABLE_FLOORS_LINE);
}

static void directory_insert(struct table_shard *shard, uint32_t place, uint32_t number)
{
	uint32_t *numbers = table_shard_numbers(shard);
	uint32_t behind = shard->bucket_count - place;
	CHECK(shard->bucket_count < shard->capacity);
	memmove(shard->floors + place + 1, shard->floors + place, behind * sizeof(int32_t));
	memmove(numbers + place + 1, numbers + place, behind * sizeof(uint32_t));
	numbers[place] = number;
	shard->bucket_count++;
}

static void directory_remove(struct table_shard *shard, uint32_t place)
{
	uint32_t *numbers = table_shard_numbers(shard);
	uint32_t behind = shard->bucket_count - place - 1;
	memmove(shard->floors + place, shard->floors + place + 1, behind * sizeof(int32_t));
	memmove(numbers + place, numbers + place + 1, behind * sizeof(uint32_t));
	shard->bucket_count--;
	shard->floors[shard->bucket_count] = TABLE_FLOOR_NONE;
}

static int32_t floor_after(const struct table_shard *shard, uint32_t place)
{
	return place + 1 < shard->bucket_count ? shard->floors[place + 1] : TABLE_HASH_END;
}

/* `count` empty buckets at even distances. */
static int lay_out(struct table_shard *shard, uint32_t count)
{
	CHECK(!has_memory(shard) && count > 0);
	uint32_t first = 0;
	int error = directory_reserve(shard, count);
	if (!error)
		error = table_arena_take(shard->arena, shard->number, count, &first);
	if (error) {
		table_shard_free(shard);
		return error;
	}
	for (uint32_t i = 0; i < count; i++) {
		shard->floors[i] = (int32_t)((uint64_t)TABLE_HASH_END * i / count);
		table_shard_numbers(shard)[i] = first + i;
	}
	shard->buckets = shard->arena->buckets;
	shard->bucket_count = count;
	shard->version++;
	return 0;
}

int table_shard_reserve(struct table_shard *shard, uint64_t count)
{
	uint64_t per_hundred = TABLE_BUCKET_ENTRIES * RESERVE_PERCENT;
	uint64_t buckets = (count * 100 + per_hundred - 1) / per_hundred;
	if (has_memory(shard) || buckets == 0)
		return 0;
	return buckets < UINT32_MAX / 2 ? lay_out(shard, (uint32_t)buckets) : -ENOMEM;
}

/* --- spreading entries over buckets ------------------------------------------ */

/* The entries of some neighbours, and where the new ones are to begin. */
struct spread {
	uint32_t count;
	uint32_t parts;
	int32_t low; /* all hashes are in [low, high) */
	int32_t high;
	int32_t floors[SPREAD_MAX];
	int32_t hashes[SPREAD_ENTRIES];
	uint8_t part[SPREAD_ENTRIES];
	struct table_entry entries[SPREAD_ENTRIES];
};

static void gather(const struct table_shard *shard, uint32_t first, uint32_t buckets,
                   struct spread *spread)
{
	for (uint32_t i = 0; i < buckets; i++)
		prefetch_bucket(table_shard_bucket(shard, first + i));
	spread->count = 0;
	spread->low = shard->floors[first];
	spread->high = floor_after(shard, first + buckets - 1);
	for (uint32_t i = 0; i < buckets; i++) {
		const struct table_bucket *bucket = table_shard_bucket(shard, first + i);
		uint64_t taken = ~table_bucket_match(bucket, 0);
		for (; taken; taken &= taken - 1) {
			uint32_t slot = (uint32_t)__builtin_ctzll(taken);
			struct table_entry entry = table_bucket_get(bucket, slot);
			spread->hashes[spread->count] = table_entry_hash(&entry);
			spread->entries[spread->count++] = entry;
		}
	}
}

static uint8_t part_of(const struct spread *spread, int32_t hash)
{
	static_assert(SPREAD_MAX == 4, "one term for each floor but the first");
	return (uint8_t)((hash >= spread->floors[1]) + (hash >= spread->floors[2]) +
	                 (hash >= spread->floors[3]));
}

/* Equal parts but for what falls into one bin; hashes are nearly even. */
static void floors_by_bins(struct spread *spread)
{
	uint8_t bins[BINS] = { 0 };
	uint32_t width = (uint32_t)(spread->high - spread->low);
	uint32_t shift = 0;
	while ((width - 1) >> shift >= BINS)
		shift++;
	for (uint32_t i = 0; i < spread->count; i++)
		bins[(uint32_t)(spread->hashes[i] - spread->low) >> shift]++;
	uint32_t below = 0;
	uint32_t part = 1;
	for (uint32_t bin = 0; bin < BINS && part < spread->parts; bin++) {
		if (below * spread->parts >= spread->count * part)
			spread->floors[part++] = spread->low + (int32_t)(bin << shift);
		below += bins[bin];
	}
}

/* Few entries fit however they are parted. */
static void floors_evenly(struct spread *spread)
{
	uint64_t width = (uint64_t)(spread->high - spread->low);
	for (uint32_t part = 1; part < spread->parts; part++)
		spread->floors[part] = spread->low + (int32_t)(width * part / spread->parts);
}

static int by_value(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a;
	int32_t y = *(const int32_t *)b;
	return (x > y) - (x < y);
}

/* The same to the entry, for hashes that are not even. */
static void floors_by_order(struct spread *spread)
{
	int32_t sorted[SPREAD_ENTRIES];
	memcpy(sorted, spread->hashes, spread->count * sizeof(*sorted));
	qsort(sorted, spread->count, sizeof(*sorted), by_value);
	for (uint32_t part = 1; part < spread->parts; part++)
		spread->floors[part] = sorted[spread->count * part / spread->parts];
}

/* Gives each entry its part. True if the floors ascend, and every part has less
 * than a bucket's worth. */
static bool part_all(struct spread *spread)
{
	uint32_t counts[SPREAD_MAX + 1] = { 0 };
	for (uint32_t i = 0; i < spread->count; i++) {
		spread->part[i] = part_of(spread, spread->hashes[i]);
		counts[spread->part[i]]++;
	}
	for (uint32_t i = 0; i < spread->parts; i++) {
		if (counts[i] >= TABLE_BUCKET_ENTRIES)
			return false;
		if (i > 0 && spread->floors[i] <= spread->floors[i - 1])
			return false;
	}
	return true;
}

static bool choose_floors(struct spread *spread, uint32_t parts)
{
	CHECK(parts >= 1 && parts <= SPREAD_MAX);
	spread->parts = parts;
	for (uint32_t i = 0; i < SPREAD_MAX; i++)
		spread->floors[i] = TABLE_FLOOR_NONE;
	spread->floors[0] = spread->low;
	if (spread->count < TABLE_BUCKET_ENTRIES)
		floors_evenly(spread);
	else
		floors_by_bins(spread);
	if (likely(part_all(spread)))
		return true;
	if (spread->count < TABLE_BUCKET_ENTRIES)
		return false; /* no wider than a few hashes */
	floors_by_order(spread);
	return part_all(spread);
}

/* Into `parts` buckets, whose old entries all were gathered. */
static void lay_down(struct table_shard *shard, uint32_t first, const struct spread *spread)
{
	struct table_bucket *buckets[SPREAD_MAX];
	uint32_t filled[SPREAD_MAX] = { 0 };
	for (uint32_t part = 0; part < spread->parts; part++) {
		buckets[part] = table_shard_bucket(shard, first + part);
		memset(buckets[part]->tags, 0, sizeof(buckets[part]->tags));
		shard->floors[first + part] = spread->floors[part];
	}
	for (uint32_t i = 0; i < spread->count; i++) {
		uint32_t part = spread->part[i];
		table_bucket_set(buckets[part], filled[part]++, &spread->entries[i]);
	}
	shard->version++;
}

/* --- making room -------------------------------------------------------------- */

/* Of all slots, whatever is in them, and without a branch for each: which of them have
 * expired is as good as random. Bit n: slot n has; and the first time of the other `taken`. */
static inline uint64_t slots_over(const struct table_shard *shard,
                                  const struct table_bucket *bucket, uint64_t taken,
                                  uint64_t now_ms, uint64_t *ret_min_ms)
{
	uint64_t mask = 0;
	uint64_t min_ms = UINT64_MAX;
	for (uint32_t slot = 0; slot < TABLE_BUCKET_ENTRIES; slot++) {
		struct table_entry entry = table_bucket_get(bucket, slot);
		uint64_t expiry_ms = expiry_of_ms(shard, &entry);
		uint64_t over = expiry_ms <= now_ms;
		bool first = (taken >> slot & 1 & ~over) && expiry_ms < min_ms;
		mask |= over << slot;
		min_ms = first ? expiry_ms : min_ms;
	}
	*ret_min_ms = min_ms;
	return mask & taken;
}

/* Removes what has expired; how many, and what is the first to expire of the rest. */
static inline uint32_t purge(struct table_shard *shard, struct table_bucket *bucket,
                             uint64_t now_ms, uint32_t *ret_min_s)
{
	uint64_t taken = ~table_bucket_match(bucket, 0);
	uint64_t min_ms;
	uint64_t over = slots_over(shard, bucket, taken, now_ms, &min_ms);
	uint32_t purged = (uint32_t)__builtin_popcountll(over);
	for (; over; over &= over - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(over);
		if (unlikely(shard->cells)) {
			struct table_entry entry = table_bucket_get(bucket, slot);
			shard->arena->gone(shard->arena->gone_user, table_entry_place(&entry),
			                   table_entry_code(&entry));
		}
		bucket->tags[slot] = 0;
	}
	shard->count -= purged;
	shard->expired += purged;
	*ret_min_s = floor_s(min_ms);
	return purged;
}

/* Bit n: the hash of slot n is at least this. All slots are taken. */
static uint64_t slots_from(const struct table_bucket *bucket, int32_t floor)
{
	uint64_t mask = 0;
	for (uint32_t slot = 0; slot < TABLE_BUCKET_ENTRIES; slot++) {
		struct table_entry entry = table_bucket_get(bucket, slot);
		mask |= (uint64_t)(table_entry_hash(&entry) >= floor) << slot;
	}
	return mask;
}

/*
 * A full bucket gives half of what its neighbour, before or behind, has free.
 * Which entries these are is a guess, as hashes are nearly even; false if it was
 * bad, with nothing changed.
 */
static bool give_some(struct table_shard *shard, uint32_t place, bool before, uint32_t free)
{
	struct table_bucket *from = table_shard_bucket(shard, place);
	struct table_bucket *to = table_shard_bucket(shard, before ? place - 1 : place + 1);
	int32_t low = shard->floors[place];
	int32_t high = floor_after(shard, place);
	uint64_t width = (uint64_t)(high - low);
	int32_t share = (int32_t)(width * free / 2 / TABLE_BUCKET_ENTRIES);
	int32_t floor = before ? low + share : high - share;
	uint64_t moving = slots_from(from, floor);
	moving = before ? ~moving : moving;
	uint32_t count = (uint32_t)__builtin_popcountll(moving);
	if (count == 0 || count >= free || floor <= low || floor >= high)
		return false;
	for (; moving; moving &= moving - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(moving);
		struct table_entry entry = table_bucket_get(from, slot);
		uint64_t empty = table_bucket_match(to, 0);
		CHECK(empty != 0);
		table_bucket_set(to, (uint32_t)__builtin_ctzll(empty), &entry);
		from->tags[slot] = 0;
	}
	shard->floors[before ? place : place + 1] = floor;
	shard->version++;
	return true;
}

/* With the emptier neighbour; false if both are too full. */
static bool share(struct table_shard *shard, uint32_t place)
{
	uint32_t left = 0;
	uint32_t right = 0; /* free slots */
	prefetch_bucket(table_shard_bucket(shard, place));
	if (place > 0)
		left = TABLE_BUCKET_ENTRIES - used(table_shard_bucket(shard, place - 1));
	if (place + 1 < shard->bucket_count)
		right = TABLE_BUCKET_ENTRIES - used(table_shard_bucket(shard, place + 1));
	uint32_t free = left > right ? left : right;
	return free >= SHARE_FREE && give_some(shard, place, left > right, free);
}

/* Three become four, or as many as there are one more. */
static int split(struct table_shard *shard, uint32_t place)
{
	struct spread spread;
	uint32_t buckets = shard->bucket_count < SPLIT_FROM ? shard->bucket_count : SPLIT_FROM;
	uint32_t first = place > 0 ? place - 1 : 0;
	if (first + buckets > shard->bucket_count)
		first = shard->bucket_count - buckets;
	gather(shard, first, buckets, &spread);
	if (!choose_floors(&spread, buckets + 1))
		return -ENOMEM; /* 64 digests that agree in 40 mixed bits: not by chance */
	uint32_t number = 0;
	int error = directory_reserve(shard, shard->bucket_count + 1);
	if (!error)
		error = table_arena_take(shard->arena, shard->number, 1, &number);
	if (error)
		return error;
	directory_insert(shard, first + buckets, number);
	lay_down(shard, first, &spread);
	return 0;
}

/* This bucket is full. */
static int make_room(struct table_shard *shard, uint32_t place, uint64_t now_ms)
{
	uint32_t min_s = 0;
	if (may_expire(shard, now_ms) &&
	    purge(shard, table_shard_bucket(shard, place), now_ms, &min_s) > 0)
		return 0;
	return share(shard, place) ? 0 : split(shard, place);
}

/* --- changing ------------------------------------------------------------------ */

void table_shard_replace(struct table_shard *shard, struct table_spot spot,
                         const struct table_entry *entry)
{
	struct table_entry old = table_bucket_get(spot.bucket, spot.slot);
	if (!shard->cells && table_entry_ticket(&old) >= table_entry_ticket(entry))
		return;
	table_bucket_set(spot.bucket, spot.slot, entry);
	note_expiry(shard, entry);
}

/* The bucket for this hash, with room. */
static int find_room(struct table_shard *shard, int32_t hash, uint64_t now_ms,
                     struct table_bucket **ret_bucket)
{
	int error = has_memory(shard) ? 0 : lay_out(shard, 1);
	while (!error) {
		uint32_t place = table_shard_place(shard, hash);
		struct table_bucket *bucket = table_shard_bucket(shard, place);
		if (table_bucket_match(bucket, 0)) {
			*ret_bucket = bucket;
			return 0;
		}
		error = make_room(shard, place, now_ms);
	}
	return error;
}

int table_shard_add(struct table_shard *shard, struct table_bucket *home,
                    const struct table_entry *entry, uint64_t now_ms)
{
	uint64_t empty = table_bucket_match(home, 0);
	if (unlikely(!empty || !has_memory(shard))) {
		int error = find_room(shard, table_entry_hash(entry), now_ms, &home);
		if (error)
			return error;
		empty = table_bucket_match(home, 0);
	}
	table_bucket_set(home, (uint32_t)__builtin_ctzll(empty), entry);
	shard->count++;
	note_expiry(shard, entry);
	return 0;
}

void table_shard_remove(struct table_shard *shard, struct table_spot spot)
{
	CHECK(shard->count > 0 && has_memory(shard));
	CHECK(spot.bucket->tags[spot.slot] != 0);
	spot.bucket->tags[spot.slot] = 0;
	shard->count--;
}

/* --- sweeping ------------------------------------------------------------------- */

static void renumber(struct table_shard *shard, uint32_t from, uint32_t number)
{
	uint32_t *numbers = table_shard_numbers(shard);
	uint32_t place = 0;
	while (place < shard->bucket_count && numbers[place] != from)
		place++;
	CHECK(place < shard->bucket_count);
	numbers[place] = number;
	shard->version++;
}

static void give(struct table_shard *shard, struct table_shard *shards, uint32_t place)
{
	uint32_t number = table_shard_numbers(shard)[place];
	uint32_t from = 0;
	uint32_t owner = 0;
	directory_remove(shard, place);
	if (table_arena_give(shard->arena, number, &from, &owner))
		renumber(&shards[owner], from, number);
}

/* Of this bucket and the two before, which the sweep has seen, two are made. */
static void merge(struct table_shard *shard, struct table_shard *shards, uint32_t place)
{
	struct spread spread;
	uint32_t buckets = shard->bucket_count < 3 ? shard->bucket_count : 3;
	if (buckets < 2 || place + 1 < buckets)
		return;
	uint32_t first = place + 1 - buckets;
	uint32_t count = 0;
	for (uint32_t i = 0; i < buckets; i++)
		count += used(table_shard_bucket(shard, first + i));
	if (count + MERGE_FREE > (buckets - 1) * TABLE_BUCKET_ENTRIES)
		return;
	gather(shard, first, buckets, &spread);
	if (!choose_floors(&spread, buckets - 1))
		return;
	lay_down(shard, first, &spread);
	give(shard, shards, place);
	/* Of a directory that has become far too large; without memory for a smaller one, later. */
	uint32_t lines = (shard->bucket_count + shard->bucket_count / 8) / TABLE_FLOORS_LINE + 1;
	if (shard->capacity > 2 * lines * TABLE_FLOORS_LINE &&
	    directory_resize(shard, lines * TABLE_FLOORS_LINE) != 0)
		return;
}

static void end_sweep(struct table_shard *shard, struct table_shard *shards)
{
	shard->expiry_min_s = shard->sweep_min_s;
	shard->sweep_hash = 0;
	if (shard->count > 0)
		return;
	while (shard->bucket_count > 0)
		give(shard, shards, shard->bucket_count - 1);
	table_shard_free(shard);
}

bool table_shard_sweep(struct table_shard *shard, struct table_shard *shards, uint64_t now_ms,
                       uint64_t budget, uint64_t *ret_looked)
{
	uint64_t looked = 0;
	CHECK(has_memory(shard));
	if (shard->sweep_hash == 0)
		shard->sweep_min_s = UINT32_MAX;
	while (shard->sweep_hash < TABLE_HASH_END && looked < budget) {
		uint32_t min_s = 0;
		uint32_t place = table_shard_place(shard, shard->sweep_hash);
		if (place + 1 < shard->bucket_count)
			prefetch_bucket(table_shard_bucket(shard, place + 1));
		purge(shard, table_shard_bucket(shard, place), now_ms, &min_s);
		if (min_s < shard->sweep_min_s)
			shard->sweep_min_s = min_s;
		shard->sweep_hash = floor_after(shard, place);
		merge(shard, shards, place);
		looked += TABLE_BUCKET_ENTRIES;
	}
	*ret_looked = looked;
	bool ended = shard->sweep_hash >= TABLE_HASH_END;
	if (ended)
		end_sweep(shard, shards);
	return ended;
}

/* --- checking ------------------------------------------------------------------- */

static uint32_t check_bucket(const struct table_shard *shard, uint32_t place)
{
	const struct table_bucket *bucket = table_shard_bucket(shard, place);
	uint32_t count = 0;
	for (uint32_t slot = 0; slot < TABLE_BUCKET_ENTRIES; slot++) {
		if (bucket->tags[slot] == 0)
			continue;
		struct table_entry entry = table_bucket_get(bucket, slot);
		int32_t hash = table_entry_hash(&entry);
		uint32_t found = 0;
		CHECK(shard->cells || table_entry_ticket(&entry) != 0);
		CHECK(hash >= shard->floors[place] && hash < floor_after(shard, place)); /* 2 */
		CHECK(table_shard_home(shard, hash) == bucket);
		CHECK(table_bucket_seek(bucket, &entry, &found) && found == slot);
		CHECK(floor_s(expiry_of_ms(shard, &entry)) >= shard->expiry_min_s); /* 4 */
		count++;
	}
	return count;
}

void table_shard_check(const struct table_shard *shard)
{
	uint32_t count = 0;
	CHECK(shard->floors[0] == 0); /* 1 */
	for (uint32_t place = 1; place < shard->capacity; place++)
		CHECK(place < shard->bucket_count ? shard->floors[place - 1] < shard->floors[place]
		                                  : shard->floors[place] == TABLE_FLOOR_NONE);
	for (uint32_t place = 0; place < shard->bucket_count && has_memory(shard); place++) {
		uint32_t number = table_shard_numbers(shard)[place];
		CHECK(number < shard->arena->count);
		CHECK(shard->arena->owners[number] == shard->number); /* 5 */
		count += check_bucket(shard, place);
	}
	CHECK(count == shard->count); /* 3 */
}
