/*
 * table_arena: the memory of the table's buckets.
 *
 * All buckets of all shards are one dense array, known by their numbers: so no shard has
 * slack of its own. Freeing a bucket moves the last one into the hole; so the arena knows
 * which shard a bucket belongs to, and the shard learns of the move.
 *
 * The array's addresses are reserved once and never change. Memory is committed in small
 * steps, and given back when the array shrinks.
 *
 * Room:    store/local, only for table and table_shard.
 * Threads: one owner.
 * Failure: -ENOMEM, with nothing changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#define TABLE_BUCKET_ENTRIES 64u
#define TABLE_BODY 23u
#define TABLE_BUCKET_BYTES 1536u

/* See table_shard.h. */
struct table_bucket {
	_Alignas(64) uint8_t tags[TABLE_BUCKET_ENTRIES];
	uint8_t bodies[TABLE_BUCKET_ENTRIES][TABLE_BODY];
};

struct table_arena {
	struct table_bucket *buckets;
	uint16_t *owners; /* of each bucket: the number of its shard */
	uint32_t count;
	uint32_t high;   /* those above were not in use since their pages are new */
	uint32_t limit;  /* as many have addresses */
	uint32_t ready;  /* as many have memory */
	size_t reserved; /* bytes of addresses, those of the owners included */
	/* Of a table of cells: this one is removed for age. */
	void (*gone)(void *user, uint64_t place, uint32_t code);
	void *gone_user;
};

int table_arena_init(struct table_arena *arena) must_check;
void table_arena_free(struct table_arena *arena); /* accepts a zeroed one */

/* `count` empty buckets in a row for this shard; the number of the first. */
int table_arena_take(struct table_arena *arena, uint32_t shard, uint32_t count,
                     uint32_t *ret_first) must_check;

/* True if another bucket had to move to this number: from *ret_from, of *ret_shard. */
bool table_arena_give(struct table_arena *arena, uint32_t number, uint32_t *ret_from,
                      uint32_t *ret_shard) must_check;

uint64_t table_arena_bytes(const struct table_arena *arena);
