/* newest: see newest.h. */
#include "store/local/index/newest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "gate/window.h"

#define KEY_BYTES 12u

struct entity {
	uint64_t key;     /* digest.word[0] */
	uint32_t key_end; /* the upper half of digest.word[1] */
	uint32_t window;  /* as in window.h */
	uint64_t order;
	uint64_t ticket;
};

static_assert(sizeof(struct entity) == 32, "two in a cache line");

struct newest {
	struct map entities;
};

int newest_new(struct newest **ret_newest)
{
	struct newest *newest = mem_zalloc(1, sizeof(*newest));
	if (!newest)
		return -ENOMEM;
	map_init(&newest->entities, sizeof(struct entity), KEY_BYTES);
	*ret_newest = newest;
	return 0;
}

struct newest *newest_free(struct newest *newest)
{
	if (!newest)
		return NULL;
	map_free(&newest->entities);
	return mem_free(newest);
}

/* A key of zero would be an empty slot: any other value serves as well. */
static struct entity entity_of(const struct digest *digest)
{
	struct entity entity = { .key = digest->word[0],
		                 .key_end = (uint32_t)(digest->word[1] >> 32) };
	if (entity.key == 0 && entity.key_end == 0)
		entity.key = UINT64_C(0x5b1ce2a7d4f08e63);
	return entity;
}

static uint64_t expiry_ms(const struct entity *entity)
{
	return ticket_time_ms(entity->ticket) + window_decode(entity->window) * 1000;
}

bool newest_find(const struct newest *newest, const struct digest *digest, uint64_t now_ms,
                 struct newest_record *ret_record)
{
	struct entity wanted = entity_of(digest);
	const struct entity *entity = map_find(&newest->entities, &wanted);
	if (!entity || expiry_ms(entity) <= now_ms)
		return false;
	*ret_record = (struct newest_record){ .digest = digest_with_check(*digest, 0),
		                              .order = entity->order,
		                              .ticket = entity->ticket,
		                              .window_s = window_kept_s(entity->window) };
	return true;
}

int newest_put(struct newest *newest, const struct newest_record *record)
{
	CHECK(record->ticket != 0);
	struct entity entity = entity_of(&record->digest);
	struct entity *own = map_put(&newest->entities, &entity);
	if (!own)
		return -ENOMEM;
	entity.order = record->order;
	entity.ticket = record->ticket;
	entity.window = window_encode(record->window_s);
	if (entity.ticket > own->ticket) /* that of a new one is 0 */
		*own = entity;
	return 0;
}

bool newest_remove(struct newest *newest, const struct digest *digest)
{
	struct entity entity = entity_of(digest);
	return map_remove(&newest->entities, &entity);
}

static bool is_over(const void *item, void *user)
{
	const uint64_t *now_ms = user;
	return expiry_ms(item) <= *now_ms;
}

uint64_t newest_sweep(struct newest *newest, uint64_t now_ms, uint64_t budget)
{
	return map_sweep(&newest->entities, budget, is_over, &now_ms);
}

uint64_t newest_count(const struct newest *newest)
{
	return newest->entities.count;
}

uint64_t newest_slots(const struct newest *newest)
{
	return newest->entities.slots;
}

uint64_t newest_bytes(const struct newest *newest)
{
	return sizeof(*newest) + map_bytes(&newest->entities);
}

void newest_check(const struct newest *newest)
{
	map_check(&newest->entities);
}
