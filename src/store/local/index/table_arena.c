/* table_arena: see table_arena.h. */
#include "store/local/index/table_arena.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* 96 GiB of addresses for more than three billion claims; where so many are not
 * to be had, half, and so on. */
#define LIMIT_MOST (UINT32_C(1) << 26)
#define LIMIT_LEAST (UINT32_C(1) << 16)

/* A process that may have only so many addresses needs as many for the rest, up to this. */
#define REST_MOST ((size_t)1 << 30)

#define STEP_BYTES ((size_t)MEM_HUGE) /* memory is made ready by so much at least */

/* From here on the helper is ahead by a 32nd of what is in use: a huge page at
 * least, and two hundredths of a second at full rate. */
#define AHEAD_FROM ((size_t)64 << 20)
#define AHEAD_PART 32

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
	pthread_mutex_init(&arena->mutex, NULL);
	table_pages_init(&arena->pages, (char *)arena->buckets);
	return 0;
}

void table_arena_free(struct table_arena *arena)
{
	if (!arena->buckets)
		return;
	table_pages_end(&arena->pages);
	mem_unmap(arena->buckets, arena->reserved);
	pthread_mutex_destroy(&arena->mutex);
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

/*
 * What is below this bucket was touched, and may be in huge pages: the kernel joins it
 * in its own time. Not before: who touches a huge page for the first time waits up to
 * milliseconds where a host has to find the memory.
 */
static void join_pages(struct table_arena *arena, uint32_t bucket)
{
	size_t full = bytes_of(bucket) / MEM_HUGE * MEM_HUGE;
	if (full <= arena->joined)
		return;
	mem_prefer_huge((char *)arena->buckets + arena->joined, full - arena->joined);
	arena->joined = full;
}

/* Asks for what comes next when half of the lead is used up. */
static void ask_ahead(struct table_arena *arena)
{
	size_t used = bytes_of(arena->count);
	size_t ready = bytes_of(arena->ready) / MEM_HUGE * MEM_HUGE;
	size_t lead = used / AHEAD_PART;
	if (used < AHEAD_FROM || used + lead / 2 < arena->wanted)
		return;
	size_t from = round_up(used > arena->wanted ? used : arena->wanted, MEM_HUGE);
	size_t to = round_up(used + lead, MEM_HUGE);
	to = to < ready ? to : ready;
	if (to <= from)
		return;
	table_pages_want(&arena->pages, (char *)arena->buckets + from, to - from);
	arena->wanted = to;
}

/* The tags of buckets that were in use before are cleared; pages that are new
 * are zero, and are better touched by whoever fills them. */
static void clear_used(struct table_arena *arena, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end && i < arena->high; i++)
		memset(arena->buckets[i].tags, 0, sizeof(arena->buckets[i].tags));
	if (end > arena->high) {
		if (!arena->loading)
			join_pages(arena, first);
		arena->high = end;
	}
}

static int take(struct table_arena *arena, uint32_t shard, uint32_t count, uint32_t *ret_first)
{
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
	if (!arena->loading)
		ask_ahead(arena);
	*ret_first = first;
	return 0;
}

int table_arena_take(struct table_arena *arena, uint32_t shard, uint32_t count, uint32_t *ret_first)
{
	CHECK(count > 0 && shard <= UINT16_MAX);
	pthread_mutex_lock(&arena->mutex);
	int error = take(arena, shard, count, ret_first);
	pthread_mutex_unlock(&arena->mutex);
	return error;
}

/* --- a bulk load ---------------------------------------------------------- */

void table_arena_load_begin(struct table_arena *arena)
{
	arena->loading = true;
}

void table_arena_touch(struct table_arena *arena)
{
	size_t size = arena->loading ? pages_of(arena->count) : 0;

	/* In steps: each holds a lock of the process, which others want for their memory. */
	for (size_t at = 0; at < size; at += STEP_BYTES)
		mem_populate((char *)arena->buckets + at,
		             size - at < STEP_BYTES ? size - at : STEP_BYTES);
}

void table_arena_load_end(struct table_arena *arena)
{
	size_t used = bytes_of(arena->count);

	if (!arena->loading)
		return;
	arena->loading = false;
	join_pages(arena, arena->count);
	ask_ahead(arena);
	/* Nothing to be had ahead: it has the rest to do all the same. */
	if (used >= AHEAD_FROM && arena->wanted < used)
		table_pages_want(&arena->pages, (char *)arena->buckets + used / MEM_HUGE * MEM_HUGE,
		                 0);
}

/* --- shrinking ----------------------------------------------------------- */

static size_t resident_bytes(const struct table_arena *arena)
{
	size_t touched = pages_of(arena->high);
	return touched > arena->wanted ? touched : arena->wanted;
}

/* What is above the last bucket goes back when it is worth a call. (If the helper
 * is just touching some of it, that stays, and is used next.) */
static void give_back(struct table_arena *arena)
{
	size_t kept = pages_of(arena->count);
	if (pages_of(arena->high) < kept + kept / 64 + 16 * (size_t)MEM_PAGE && arena->count > 0)
		return;
	table_pages_cut(&arena->pages, (char *)arena->buckets + round_up(kept, MEM_HUGE));
	mem_decommit((char *)arena->buckets + kept, resident_bytes(arena) - kept);
	if (arena->wanted > kept)
		arena->wanted = kept;
	/* The page of the last bucket is not new: others begin in it. */
	arena->high = (uint32_t)((kept + TABLE_BUCKET_BYTES - 1) / TABLE_BUCKET_BYTES);
	if (arena->joined > kept)
		arena->joined = kept / MEM_HUGE * MEM_HUGE;
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
	return resident_bytes(arena) + round_up(arena->count * sizeof(uint16_t), MEM_PAGE);
}
