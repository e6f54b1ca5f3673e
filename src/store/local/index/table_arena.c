/* table_arena: see table_arena.h. */
#include "store/local/index/table_arena.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

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

/* The tags of buckets that were in use before are cleared; pages that are new
 * are zero, and are better touched by whoever fills them. */
static void clear_used(struct table_arena *arena, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end && i < arena->high; i++)
		memset(arena->buckets[i].tags, 0, sizeof(arena->buckets[i].tags));
	if (end > arena->high)
		arena->high = end;
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
	clear_used(arena, first, first + count);
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
