/*
 * newest: see newest.h. Maps with linear probing, as in tally.c, of which the keys
 * are digests.
 */
#include "store/local/index/newest.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "gate/window.h"

#define SHARD_BITS 14
#define SHARDS (1u << SHARD_BITS)
#define SLOTS_MIN 4u

/* Ticket 0 is an empty slot. */
struct entity {
	uint64_t key; /* digest.word[0] */
	uint64_t order;
	uint64_t ticket;
	uint32_t key_end; /* the upper half of digest.word[1] */
	uint32_t window;  /* as in window.h */
};

static_assert(sizeof(struct entity) == 32, "two in a cache line");

struct shard {
	struct entity *entities;
	uint32_t slots; /* a power of two, or 0 */
	uint32_t count;
};

struct newest {
	struct shard *shards; /* SHARDS of them; NULL before the first entity */
	uint64_t count;
	uint64_t slots; /* of all shards */
	uint32_t sweep_shard;
	uint32_t sweep_slot;
};

int newest_new(struct newest **ret_newest)
{
	struct newest *newest = mem_zalloc(1, sizeof(*newest));
	if (!newest)
		return -ENOMEM;
	*ret_newest = newest;
	return 0;
}

struct newest *newest_free(struct newest *newest)
{
	if (!newest)
		return NULL;
	for (uint32_t i = 0; newest->shards && i < SHARDS; i++)
		if (newest->shards[i].entities) /* few have any: see tally_free() */
			mem_free(newest->shards[i].entities);
	mem_free(newest->shards);
	return mem_free(newest);
}

static uint32_t key_end(const struct digest *digest)
{
	return (uint32_t)(digest->word[1] >> 32);
}

/* Digests are uniform; the product is for callers who count instead. */
static uint64_t spread(uint64_t key, uint32_t end)
{
	return (key ^ key >> 29 ^ end) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct shard *shard_at(const struct newest *newest, uint64_t spread_key)
{
	return &newest->shards[spread_key >> (64 - SHARD_BITS)];
}

static uint32_t home_at(const struct shard *shard, uint64_t spread_key)
{
	return (uint32_t)(spread_key >> 16) & (shard->slots - 1);
}

static uint64_t spread_entity(const struct entity *entity)
{
	return spread(entity->key, entity->key_end);
}

static bool same(const struct entity *a, const struct entity *b)
{
	return a->key == b->key && a->key_end == b->key_end;
}

/* Its slot, or the empty one where it would go. The shard has slots. */
static uint32_t seek(const struct shard *shard, const struct entity *wanted)
{
	CHECK(shard->count < shard->slots);
	uint32_t slot = home_at(shard, spread_entity(wanted));
	while (shard->entities[slot].ticket && !same(&shard->entities[slot], wanted))
		slot = (slot + 1) & (shard->slots - 1);
	return slot;
}

static struct entity entity_of(const struct digest *digest)
{
	return (struct entity){ .key = digest->word[0], .key_end = key_end(digest) };
}

static struct entity *find(const struct newest *newest, const struct digest *digest)
{
	struct entity wanted = entity_of(digest);
	if (!newest->shards)
		return NULL;
	const struct shard *shard = shard_at(newest, spread_entity(&wanted));
	if (shard->slots == 0)
		return NULL;
	struct entity *entity = &shard->entities[seek(shard, &wanted)];
	return entity->ticket ? entity : NULL;
}

void newest_prefetch(const struct newest *newest, const struct digest *digest)
{
	uint64_t at = spread(digest->word[0], key_end(digest));
	if (!newest->shards)
		return;
	const struct shard *shard = shard_at(newest, at);
	if (shard->slots > 0)
		__builtin_prefetch(&shard->entities[home_at(shard, at)]);
}

static uint64_t expiry_ms(const struct entity *entity)
{
	return ticket_time_ms(entity->ticket) + window_decode(entity->window) * 1000;
}

bool newest_find(const struct newest *newest, const struct digest *digest, uint64_t now_ms,
                 struct newest_record *ret_record)
{
	const struct entity *entity = find(newest, digest);
	if (!entity || expiry_ms(entity) <= now_ms)
		return false;
	*ret_record = (struct newest_record){ .digest = digest_with_check(*digest, 0),
		                              .order = entity->order,
		                              .ticket = entity->ticket,
		                              .window_s = window_kept_s(entity->window) };
	return true;
}

/* --- changing ------------------------------------------------------------------ */

static int resize(struct newest *newest, struct shard *shard, uint32_t slots)
{
	CHECK(shard->count < slots || slots == 0);
	struct shard next = { .slots = slots, .count = shard->count };
	if (slots > 0) {
		next.entities = mem_zalloc(slots, sizeof(*next.entities));
		if (!next.entities)
			return -ENOMEM;
	}
	for (uint32_t i = 0; slots > 0 && i < shard->slots; i++) {
		if (shard->entities[i].ticket)
			next.entities[seek(&next, &shard->entities[i])] = shard->entities[i];
	}
	mem_free(shard->entities);
	newest->slots += slots;
	newest->slots -= shard->slots;
	*shard = next;
	return 0;
}

/* From 1/2 to 3/4 of the slots, another for each shard: digests spread so evenly
 * that all shards would else grow at the same time. */
static uint32_t limit_of(const struct newest *newest, const struct shard *shard)
{
	uint32_t index = (uint32_t)(shard - newest->shards);
	uint64_t share = index * UINT32_C(2654435761) >> 16 & 0xffff;
	return shard->slots / 2 + (uint32_t)(shard->slots / 4 * share >> 16);
}

static int add(struct newest *newest, const struct entity *entity)
{
	if (!newest->shards)
		newest->shards = mem_zalloc(SHARDS, sizeof(struct shard));
	if (!newest->shards)
		return -ENOMEM;
	struct shard *shard = shard_at(newest, spread_entity(entity));
	if (shard->count + 1 > limit_of(newest, shard)) {
		int error = resize(newest, shard, shard->slots ? shard->slots * 2 : SLOTS_MIN);
		if (error)
			return error;
	}
	shard->entities[seek(shard, entity)] = *entity;
	shard->count++;
	newest->count++;
	return 0;
}

int newest_put(struct newest *newest, const struct newest_record *record)
{
	CHECK(record->ticket != 0);
	struct entity *old = find(newest, &record->digest);
	struct entity entity = entity_of(&record->digest);
	entity.order = record->order;
	entity.ticket = record->ticket;
	entity.window = window_encode(record->window_s);
	if (!old)
		return add(newest, &entity);
	if (entity.ticket > old->ticket)
		*old = entity;
	return 0;
}

/* Empties a slot and closes the gap in its run. */
static void vacate(struct newest *newest, struct shard *shard, uint32_t slot)
{
	uint32_t mask = shard->slots - 1;
	for (uint32_t next = (slot + 1) & mask; shard->entities[next].ticket;
	     next = (next + 1) & mask) {
		uint32_t home = home_at(shard, spread_entity(&shard->entities[next]));
		if (((next - home) & mask) >= ((next - slot) & mask)) {
			shard->entities[slot] = shard->entities[next];
			slot = next;
		}
	}
	shard->entities[slot] = (struct entity){ 0 };
	shard->count--;
	newest->count--;
}

bool newest_remove(struct newest *newest, const struct digest *digest)
{
	struct entity *entity = find(newest, digest);
	if (!entity)
		return false;
	struct shard *shard = shard_at(newest, spread_entity(entity));
	vacate(newest, shard, (uint32_t)(entity - shard->entities));
	return true;
}

/* --- expiry ----------------------------------------------------------------------- */

/* At the end of a shard: half the slots when an eighth would do. A failure
 * keeps what there is. */
static void shrink(struct newest *newest, struct shard *shard)
{
	if (shard->slots == 0 || shard->count > shard->slots / 8)
		return;
	if (shard->count == 0)
		(void)resize(newest, shard, 0);
	else if (shard->slots > SLOTS_MIN)
		(void)resize(newest, shard, shard->slots / 2);
}

uint64_t newest_sweep(struct newest *newest, uint64_t now_ms, uint64_t budget)
{
	uint64_t before = newest->count;
	uint32_t ended = 0;
	while (budget > 0 && ended < SHARDS && newest->slots > 0) {
		struct shard *shard = &newest->shards[newest->sweep_shard];
		budget--;
		if (newest->sweep_slot >= shard->slots) {
			shrink(newest, shard);
			newest->sweep_shard = (newest->sweep_shard + 1) % SHARDS;
			newest->sweep_slot = 0;
			ended++;
			continue;
		}
		/* What closes the gap stands in this slot then: look again. */
		const struct entity *entity = &shard->entities[newest->sweep_slot];
		if (entity->ticket && expiry_ms(entity) <= now_ms)
			vacate(newest, shard, newest->sweep_slot);
		else
			newest->sweep_slot++;
	}
	return before - newest->count;
}

uint64_t newest_count(const struct newest *newest)
{
	return newest->count;
}

uint64_t newest_slots(const struct newest *newest)
{
	return newest->slots;
}

uint64_t newest_bytes(const struct newest *newest)
{
	return sizeof(*newest) + (newest->shards ? SHARDS * sizeof(struct shard) : 0) +
	       newest->slots * sizeof(struct entity);
}

void newest_check(const struct newest *newest)
{
	uint64_t count = 0, slots = 0;
	for (uint32_t i = 0; newest->shards && i < SHARDS; i++) {
		const struct shard *shard = &newest->shards[i];
		slots += shard->slots;
		CHECK((shard->slots & (shard->slots - 1)) == 0);
		uint32_t here = 0;
		for (uint32_t slot = 0; slot < shard->slots; slot++) {
			const struct entity *entity = &shard->entities[slot];
			if (!entity->ticket)
				continue;
			here++;
			CHECK(shard_at(newest, spread_entity(entity)) == shard);
			CHECK(seek(shard, entity) == slot);
		}
		CHECK(here == shard->count);
		count += here;
	}
	CHECK(count == newest->count);
	CHECK(slots == newest->slots);
}
