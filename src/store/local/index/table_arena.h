/*
 * table_arena: the memory of the table's buckets.
 *
 * All buckets of all shards are one dense array, known by their numbers: so
 * they fill huge pages, of which the processor needs one to find what would be
 * on 512 small ones, and no shard has slack of its own. Freeing a bucket moves
 * the last one into the hole; so the arena knows which shard a bucket belongs
 * to, and the shard is told.
 *
 * The array's addresses are reserved once and never change. Of a table
 * below 64 MiB the pages are small, so that memory comes in small steps. Beyond,
 * a helper makes huge pages ready ahead (table_pages.h), as much as a 32nd of
 * what is in use. Small pages, at the beginning or where it came too late, it makes
 * huge afterwards. So it does with those of a bulk load, all of which are small: there
 * everybody would wait for huge ones at once.
 *
 * Room:    store/local, only for table and table_shard.
 * Threads: table_arena_take() may be called by several at once; all else by one.
 * Failure: -ENOMEM, with nothing changed.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "store/local/index/table_pages.h"

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
	bool loading;    /* in bulk: the helper is not asked */
	size_t joined;   /* bytes from the start that may be in huge pages */
	size_t wanted;   /* bytes from the start that are in use or asked of the helper */
	size_t reserved; /* bytes of addresses, those of the owners included */
	pthread_mutex_t mutex;
	struct table_pages pages;
	/* Of a table of cells: this one is removed for age. */
	void (*gone)(void *user, uint64_t place, uint32_t code);
	void *gone_user;
};

int table_arena_init(struct table_arena *arena) must_check;
void table_arena_free(struct table_arena *arena); /* accepts a zeroed one */

/* `count` empty buckets in a row for this shard; the number of the first. */
int table_arena_take(struct table_arena *arena, uint32_t shard, uint32_t count,
                     uint32_t *ret_first) must_check;

/* A bulk load takes most of its buckets first, and has their pages ready before it fills
 * them: page by page that costs several times as much. */
void table_arena_load_begin(struct table_arena *arena);
void table_arena_touch(struct table_arena *arena);
void table_arena_load_end(struct table_arena *arena);

/* True if another bucket had to move to this number: from *ret_from, of *ret_shard. */
bool table_arena_give(struct table_arena *arena, uint32_t number, uint32_t *ret_from,
                      uint32_t *ret_shard) must_check;

uint64_t table_arena_bytes(const struct table_arena *arena);
