/*
 * map: a hash map of items of one size that grows in small steps.
 *
 * An item begins with its key, 8 or 12 bytes that are not all zero; an item whose key is
 * zero is an empty slot. Open addressing with linear probing. A large map is split into
 * 4,096 small ones, each of which grows by itself and not at the same time as its
 * neighbours: so no call takes more than a fraction of a millisecond, even with 100
 * million items.
 *
 * Items move: a pointer to one is valid until the next map_put(), map_remove() or
 * map_sweep().
 *
 * Room:      base. Threads: one owner.
 * Ownership: a member of its owner; map_free() takes what it holds.
 * Failure:   map_put() gives NULL without memory and changes nothing. It cannot fail for
 *            a key that map_reserve() was called for, or that was just removed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

struct map_shard;

struct map {
	uint32_t item_bytes, key_bytes;
	struct map_shard *shards; /* NULL before the first item */
	uint32_t shard_bits;      /* 0: one shard */
	uint32_t sweep_shard, sweep_slot;
	uint64_t count;
	uint64_t slots; /* of all shards */
};

/* item_bytes: a multiple of 4, at least key_bytes, which is 8 or 12. */
void map_init(struct map *map, uint32_t item_bytes, uint32_t key_bytes);
void map_free(struct map *map); /* empty and usable afterwards */

void *map_find(const struct map *map, const void *key); /* NULL: not found */
/* Room for an item with this key: the next map_put() of it cannot fail. */
int map_reserve(struct map *map, const void *key) must_check;
/* The item with this key; a new one is zero after its key. */
void *map_put(struct map *map, const void *key) must_check;
bool map_remove(struct map *map, const void *key); /* false: it was not there */

/* Looks at about `budget` slots, where the sweep before ended, removes what is `over`, and
 * gives memory back. Returns how many were removed. */
uint64_t map_sweep(struct map *map, uint64_t budget, bool (*over)(const void *item, void *user),
                   void *user);

uint64_t map_bytes(const struct map *map); /* on the heap */
void map_check(const struct map *map);     /* every invariant; for tests */
