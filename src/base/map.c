/*
 * map: see map.h.
 *
 * Invariants (map_check()):
 * 1. An item is in the shard of its hash, and no slot between its home and its own is empty.
 * 2. A shard has a power of two of slots, or none, and always an empty one if it has any.
 * 3. `count` and `slots` are the sums over all shards.
 */
#include "base/map.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define SHARD_BITS 12   /* of a large map */
#define SPLIT_COUNT 512 /* items at which it is one */
#define SLOTS_MIN 4u

struct map_shard {
	char *items;
	uint32_t slots;
	uint32_t count;
};

void map_init(struct map *map, uint32_t item_bytes, uint32_t key_bytes)
{
	CHECK(key_bytes == 8 || key_bytes == 12);
	CHECK(item_bytes >= key_bytes && item_bytes % 4 == 0);
	*map = (struct map){ .item_bytes = item_bytes, .key_bytes = key_bytes };
}

static uint32_t shard_count(const struct map *map)
{
	return map->shards ? 1u << map->shard_bits : 0;
}

void map_free(struct map *map)
{
	for (uint32_t i = 0; i < shard_count(map); i++)
		if (map->shards[i].items) /* most of a small map's are not there */
			mem_free(map->shards[i].items);
	mem_free(map->shards);
	*map = (struct map){ .item_bytes = map->item_bytes, .key_bytes = map->key_bytes };
}

/* ---- places ---- */

/* Keys are digests or counted numbers: the high bits of a product with an odd number are
 * spread either way, and no client can choose a key. */
static uint64_t hash_of(const struct map *map, const void *key)
{
	uint64_t word;
	uint32_t end = 0;

	memcpy(&word, key, sizeof(word));
	if (map->key_bytes == 12)
		memcpy(&end, (const char *)key + 8, sizeof(end));
	return (word ^ word >> 29 ^ end) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct map_shard *shard_of(const struct map *map, uint64_t hash)
{
	return &map->shards[map->shard_bits ? hash >> (64 - map->shard_bits) : 0];
}

static uint32_t home_of(const struct map_shard *shard, uint64_t hash)
{
	return (uint32_t)(hash >> 16) & (shard->slots - 1);
}

static char *item_at(const struct map *map, const struct map_shard *shard, uint32_t slot)
{
	return shard->items + (size_t)slot * map->item_bytes;
}

static bool is_empty(const struct map *map, const char *item)
{
	uint64_t word;
	uint32_t end = 0;

	memcpy(&word, item, sizeof(word));
	if (map->key_bytes == 12)
		memcpy(&end, item + 8, sizeof(end));
	return word == 0 && end == 0;
}

/* The slot of this key, or the empty one where it belongs. The shard has slots. */
static uint32_t seek(const struct map *map, const struct map_shard *shard, const void *key,
                     uint64_t hash)
{
	CHECK(shard->count < shard->slots); /* 2 */
	uint32_t slot = home_of(shard, hash);
	for (;;) {
		const char *item = item_at(map, shard, slot);
		if (is_empty(map, item) || memcmp(item, key, map->key_bytes) == 0)
			return slot;
		slot = (slot + 1) & (shard->slots - 1);
	}
}

void *map_find(const struct map *map, const void *key)
{
	if (map->count == 0)
		return NULL;
	uint64_t hash = hash_of(map, key);
	const struct map_shard *shard = shard_of(map, hash);
	if (shard->slots == 0)
		return NULL;
	char *item = item_at(map, shard, seek(map, shard, key, hash));
	return is_empty(map, item) ? NULL : item;
}

/* ---- growing and shrinking ---- */

static int resize(struct map *map, struct map_shard *shard, uint32_t slots)
{
	CHECK(shard->count < slots || slots == 0);
	struct map_shard next = { .slots = slots, .count = shard->count };
	if (slots > 0) {
		next.items = mem_zalloc(slots, map->item_bytes);
		if (!next.items)
			return -ENOMEM;
	}
	for (uint32_t i = 0; slots > 0 && i < shard->slots; i++) {
		const char *item = item_at(map, shard, i);
		if (!is_empty(map, item))
			memcpy(item_at(map, &next, seek(map, &next, item, hash_of(map, item))),
			       item, map->item_bytes);
	}
	mem_free(shard->items);
	map->slots += slots;
	map->slots -= shard->slots;
	*shard = next;
	return 0;
}

/* From 1/2 to 3/4 of the slots, another for each shard: hashes are so even that all shards
 * would grow at the same time otherwise. */
static uint32_t limit_of(const struct map *map, const struct map_shard *shard)
{
	uint32_t index = (uint32_t)(shard - map->shards);
	uint64_t share = index * UINT32_C(2654435761) >> 16 & 0xffff;

	return shard->slots / 2 + (uint32_t)(shard->slots / 4 * share >> 16);
}

/* The one shard of a small map becomes many. The only step that moves all items; there are
 * SPLIT_COUNT of them. */
static int split(struct map *map)
{
	struct map large;

	map_init(&large, map->item_bytes, map->key_bytes);
	large.shard_bits = SHARD_BITS;
	large.shards = mem_zalloc(1u << SHARD_BITS, sizeof(*large.shards));
	if (!large.shards)
		return -ENOMEM;
	for (uint32_t i = 0; i < map->shards->slots; i++) {
		const char *item = item_at(map, map->shards, i);
		if (is_empty(map, item))
			continue;
		void *copy = map_put(&large, item);
		if (!copy) {
			map_free(&large);
			return -ENOMEM;
		}
		memcpy(copy, item, map->item_bytes);
	}
	map_free(map);
	*map = large;
	return 0;
}

int map_reserve(struct map *map, const void *key)
{
	int r = 0;

	if (!map->shards) {
		map->shards = mem_zalloc(1, sizeof(*map->shards));
		r = map->shards ? 0 : -ENOMEM;
	} else if (map->shard_bits == 0 && map->count == SPLIT_COUNT) {
		r = split(map);
	}
	if (!(r == 0))
		return r;
	struct map_shard *shard = shard_of(map, hash_of(map, key));
	if (shard->count + 1 <= limit_of(map, shard))
		return 0;
	return resize(map, shard, shard->slots ? shard->slots * 2 : SLOTS_MIN);
}

void *map_put(struct map *map, const void *key)
{
	CHECK(!is_empty(map, key));
	void *old = map_find(map, key);
	if (old)
		return old;
	if (map_reserve(map, key) != 0)
		return NULL;
	uint64_t hash = hash_of(map, key);
	struct map_shard *shard = shard_of(map, hash);
	char *item = item_at(map, shard, seek(map, shard, key, hash));
	memcpy(item, key, map->key_bytes);
	shard->count++;
	map->count++;
	return item;
}

/* Empties a slot and closes the gap in its run. */
static void vacate(struct map *map, struct map_shard *shard, uint32_t slot)
{
	uint32_t mask = shard->slots - 1;

	for (uint32_t next = (slot + 1) & mask; !is_empty(map, item_at(map, shard, next));
	     next = (next + 1) & mask) {
		const char *item = item_at(map, shard, next);
		uint32_t home = home_of(shard, hash_of(map, item));
		if (((next - home) & mask) < ((next - slot) & mask))
			continue;
		memcpy(item_at(map, shard, slot), item, map->item_bytes);
		slot = next;
	}
	memset(item_at(map, shard, slot), 0, map->item_bytes);
	shard->count--;
	map->count--;
}

bool map_remove(struct map *map, const void *key)
{
	const char *item = map_find(map, key);

	if (!item)
		return false;
	struct map_shard *shard = shard_of(map, hash_of(map, key));
	vacate(map, shard, (uint32_t)((size_t)(item - shard->items) / map->item_bytes));
	return true;
}

uint64_t map_sweep(struct map *map, uint64_t budget, bool (*over)(const void *item, void *user),
                   void *user)
{
	uint64_t before = map->count;
	uint32_t ended = 0, shards = shard_count(map);

	for (; budget > 0 && ended < shards && map->slots > 0; budget--) {
		struct map_shard *shard = &map->shards[map->sweep_shard % shards];
		if (map->sweep_slot >= shard->slots) {
			/* The end of a shard: halve it when an eighth of its slots would do. A
			 * failure keeps what there is. */
			if (shard->count == 0 && shard->slots > 0)
				(void)resize(map, shard, 0);
			else if (shard->count <= shard->slots / 8 && shard->slots > SLOTS_MIN)
				(void)resize(map, shard, shard->slots / 2);
			map->sweep_shard = (map->sweep_shard + 1) % shards;
			map->sweep_slot = 0;
			ended++;
			continue;
		}
		/* Another item may have moved into this slot: look again. */
		const char *item = item_at(map, shard, map->sweep_slot);
		if (!is_empty(map, item) && over(item, user))
			vacate(map, shard, map->sweep_slot);
		else
			map->sweep_slot++;
	}
	return before - map->count;
}

uint64_t map_bytes(const struct map *map)
{
	return shard_count(map) * sizeof(struct map_shard) + map->slots * map->item_bytes;
}

void map_check(const struct map *map)
{
	uint64_t count = 0, slots = 0;

	for (uint32_t i = 0; i < shard_count(map); i++) {
		const struct map_shard *shard = &map->shards[i];
		uint32_t here = 0;
		slots += shard->slots;
		CHECK((shard->slots & (shard->slots - 1)) == 0); /* 2 */
		for (uint32_t slot = 0; slot < shard->slots; slot++) {
			const char *item = item_at(map, shard, slot);
			if (is_empty(map, item))
				continue;
			here++;
			uint64_t hash = hash_of(map, item);
			CHECK(shard_of(map, hash) == shard);         /* 1 */
			CHECK(seek(map, shard, item, hash) == slot); /* 1 */
		}
		CHECK(here == shard->count && (here < shard->slots || here == 0)); /* 2 */
		count += here;
	}
	CHECK(count == map->count && slots == map->slots); /* 3 */
}
