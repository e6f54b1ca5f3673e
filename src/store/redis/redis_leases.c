/* redis_leases: see redis_leases.h. */
#include "store/redis/redis_leases.h"

#include "base/check.h"
#include "base/mem.h"

#define ROOM_FIRST 256u

static uint32_t home(const struct redis_leases *leases, uint64_t ticket)
{
	return (uint32_t)(ticket * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (leases->room - 1);
}

static struct redis_lease *slot_of(struct redis_leases *leases, uint64_t ticket)
{
	uint32_t at = home(leases, ticket);

	while (leases->slots[at].ticket != 0 && leases->slots[at].ticket != ticket)
		at = (at + 1) & (leases->room - 1);
	return &leases->slots[at];
}

static bool grow(struct redis_leases *leases)
{
	struct redis_leases grown = { .room = leases->room ? leases->room * 2 : ROOM_FIRST };

	grown.slots = mem_zalloc(grown.room, sizeof(struct redis_lease));
	if (!grown.slots)
		return false;
	for (uint32_t i = 0; i < leases->room; i++)
		if (leases->slots[i].ticket != 0)
			*slot_of(&grown, leases->slots[i].ticket) = leases->slots[i];
	grown.count = leases->count;
	mem_free(leases->slots);
	*leases = grown;
	return true;
}

void redis_leases_put(struct redis_leases *leases, struct redis_lease lease)
{
	CHECK(lease.ticket != 0);
	if (leases->count * 2 >= leases->room && !grow(leases))
		return;
	struct redis_lease *slot = slot_of(leases, lease.ticket);
	leases->count += slot->ticket == 0;
	*slot = lease;
}

struct redis_lease *redis_leases_find(struct redis_leases *leases, uint64_t ticket)
{
	if (leases->count == 0 || ticket == 0)
		return NULL;
	struct redis_lease *slot = slot_of(leases, ticket);
	return slot->ticket ? slot : NULL;
}

/* Those behind it that could not stand where they belong move up. */
static void close_gap(struct redis_leases *leases, uint32_t gap)
{
	uint32_t mask = leases->room - 1;

	for (uint32_t at = (gap + 1) & mask; leases->slots[at].ticket != 0; at = (at + 1) & mask) {
		uint32_t wants = home(leases, leases->slots[at].ticket);
		if (((at - wants) & mask) >= ((at - gap) & mask)) {
			leases->slots[gap] = leases->slots[at];
			gap = at;
		}
	}
	leases->slots[gap] = (struct redis_lease){ 0 };
}

void redis_leases_remove(struct redis_leases *leases, uint64_t ticket)
{
	struct redis_lease *slot = redis_leases_find(leases, ticket);

	if (!slot)
		return;
	close_gap(leases, (uint32_t)(slot - leases->slots));
	leases->count--;
}

void redis_leases_sweep(struct redis_leases *leases, uint64_t now_ms)
{
	for (uint32_t i = 0; i < leases->room;) {
		const struct redis_lease *lease = &leases->slots[i];
		if (lease->ticket != 0 && lease->ends_ms != 0 && lease->ends_ms <= now_ms)
			redis_leases_remove(leases, lease->ticket); /* another may stand here now */
		else
			i++;
	}
}

void redis_leases_free(struct redis_leases *leases)
{
	mem_free(leases->slots);
	*leases = (struct redis_leases){ 0 };
}
