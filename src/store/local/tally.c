/* tally: see tally.h. */
#include "store/local/tally.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define SHARD_BITS 6
#define SHARDS (1u << SHARD_BITS)
#define SLOTS_MIN 16u

/* A map with linear probing, at most 3/4 full; ticket 0 is an empty slot. */
struct shard {
	struct tally_entry *entries;
	uint32_t slots; /* a power of two, or 0 */
	uint32_t count;
};

struct tally {
	struct shard shards[SHARDS];
	uint64_t count;
	/* Tickets that became dirty, in order: queue[head … tail). Those that
	 * were removed or restored since are skipped when taken. */
	uint64_t *queue;
	size_t head;
	size_t tail;
	size_t room;
	uint32_t sweep_shard;
	uint32_t sweep_slot;
};

int tally_new(struct tally **ret_tally)
{
	struct tally *tally = mem_zalloc(1, sizeof(*tally));
	if (!tally)
		return -ENOMEM;
	*ret_tally = tally;
	return 0;
}

struct tally *tally_free(struct tally *tally)
{
	if (!tally)
		return NULL;
	for (uint32_t i = 0; i < SHARDS; i++)
		mem_free(tally->shards[i].entries);
	mem_free(tally->queue);
	return mem_free(tally);
}

/* Tickets are consecutive; the high bits of a product with an odd number are
 * spread, and nobody outside chooses a ticket. */
static uint64_t spread(uint64_t ticket)
{
	ticket ^= ticket >> 31;
	return ticket * UINT64_C(0x9e3779b97f4a7c15);
}

static struct shard *shard_of(const struct tally *tally, uint64_t ticket)
{
	return (struct shard *)&tally->shards[spread(ticket) >> (64 - SHARD_BITS)];
}

static uint32_t home_of(const struct shard *shard, uint64_t ticket)
{
	return (uint32_t)(spread(ticket) >> 16) & (shard->slots - 1);
}

/* Its slot, or the empty one where it would go. The shard has slots. */
static uint32_t seek(const struct shard *shard, uint64_t ticket)
{
	CHECK(shard->count < shard->slots);
	uint32_t slot = home_of(shard, ticket);
	while (shard->entries[slot].ticket && shard->entries[slot].ticket != ticket)
		slot = (slot + 1) & (shard->slots - 1);
	return slot;
}

static struct tally_entry *find(const struct tally *tally, uint64_t ticket)
{
	const struct shard *shard = shard_of(tally, ticket);
	if (shard->slots == 0)
		return NULL;
	struct tally_entry *entry = &shard->entries[seek(shard, ticket)];
	return entry->ticket ? entry : NULL;
}

static int resize(struct shard *shard, uint32_t slots)
{
	CHECK(shard->count < slots || slots == 0);
	struct shard next = { .slots = slots, .count = shard->count };
	if (slots > 0) {
		next.entries = mem_zalloc(slots, sizeof(*next.entries));
		if (!next.entries)
			return -ENOMEM;
	}
	for (uint32_t i = 0; slots > 0 && i < shard->slots; i++) {
		if (shard->entries[i].ticket)
			next.entries[seek(&next, shard->entries[i].ticket)] = shard->entries[i];
	}
	mem_free(shard->entries);
	*shard = next;
	return 0;
}

static struct tally_entry *find_or_make(struct tally *tally, uint64_t ticket)
{
	CHECK(ticket != 0);
	struct tally_entry *entry = find(tally, ticket);
	if (entry)
		return entry;
	struct shard *shard = shard_of(tally, ticket);
	if (shard->count + 1 > shard->slots / 4 * 3) {
		if (resize(shard, shard->slots ? shard->slots * 2 : SLOTS_MIN) != 0)
			return NULL;
	}
	entry = &shard->entries[seek(shard, ticket)];
	*entry = (struct tally_entry){ .ticket = ticket };
	shard->count++;
	tally->count++;
	return entry;
}

/* Empties a slot and closes the gap in its run. */
static void vacate(struct tally *tally, struct shard *shard, uint32_t slot)
{
	uint32_t mask = shard->slots - 1;
	for (uint32_t next = (slot + 1) & mask; shard->entries[next].ticket;
	     next = (next + 1) & mask) {
		uint32_t home = home_of(shard, shard->entries[next].ticket);
		if (((next - home) & mask) >= ((next - slot) & mask)) {
			shard->entries[slot] = shard->entries[next];
			slot = next;
		}
	}
	shard->entries[slot] = (struct tally_entry){ 0 };
	shard->count--;
	tally->count--;
}

/* --- what waits to be written ------------------------------------------------ */

static int queue_reserve(struct tally *tally)
{
	if (tally->tail < tally->room)
		return 0;
	if (tally->head > tally->room / 2) {
		memmove(tally->queue, tally->queue + tally->head,
		        (tally->tail - tally->head) * sizeof(*tally->queue));
		tally->tail -= tally->head;
		tally->head = 0;
		return 0;
	}
	size_t room = tally->room ? tally->room * 2 : 64;
	uint64_t *queue = mem_realloc(tally->queue, room * sizeof(*queue));
	if (!queue)
		return -ENOMEM;
	tally->queue = queue;
	tally->room = room;
	return 0;
}

/* Without memory for the queue the entry stays clean, and tries again with its
 * next change: only the count on disk is late. */
static void mark(struct tally *tally, struct tally_entry *entry)
{
	if (entry->dirty || queue_reserve(tally) != 0)
		return;
	entry->dirty = 1;
	tally->queue[tally->tail++] = entry->ticket;
}

size_t tally_take_dirty(struct tally *tally, struct tally_entry *ret_entries, size_t max)
{
	size_t taken = 0;
	while (taken < max && tally->head < tally->tail) {
		struct tally_entry *entry = find(tally, tally->queue[tally->head++]);
		if (!entry || !entry->dirty)
			continue;
		entry->dirty = 0;
		ret_entries[taken++] = *entry;
	}
	if (tally->head == tally->tail) {
		tally->head = tally->tail = 0;
		if (tally->room > 65536) {
			tally->queue = mem_free(tally->queue);
			tally->room = 0;
		}
	}
	return taken;
}

bool tally_mark_dirty(struct tally *tally, uint64_t ticket)
{
	struct tally_entry *entry = find(tally, ticket);
	if (entry)
		mark(tally, entry);
	return entry != NULL;
}

/* --- counting ------------------------------------------------------------------ */

static uint32_t seconds(uint64_t ms)
{
	uint64_t s = ms / 1000;
	return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

static void raise_to(uint32_t *value, uint32_t other)
{
	if (other > *value)
		*value = other;
}

int tally_add(struct tally *tally, uint64_t ticket, uint64_t now_ms, uint64_t expiry_ms,
              uint32_t *ret_count)
{
	struct tally_entry *entry = find_or_make(tally, ticket);
	if (!entry)
		return -ENOMEM;
	if (entry->count < UINT32_MAX)
		entry->count++;
	raise_to(&entry->last_s, seconds(now_ms));
	raise_to(&entry->expiry_s, seconds(expiry_ms + 999));
	mark(tally, entry);
	*ret_count = entry->count;
	return 0;
}

void tally_undo(struct tally *tally, uint64_t ticket)
{
	struct tally_entry *entry = find(tally, ticket);
	CHECK(entry && entry->count > 0);
	if (--entry->count == 0)
		tally_remove(tally, ticket);
}

int tally_restore(struct tally *tally, const struct tally_entry *from)
{
	struct tally_entry *entry = find_or_make(tally, from->ticket);
	if (!entry)
		return -ENOMEM;
	raise_to(&entry->count, from->count);
	raise_to(&entry->last_s, from->last_s);
	raise_to(&entry->expiry_s, from->expiry_s);
	return 0;
}

bool tally_get(const struct tally *tally, uint64_t ticket, struct tally_entry *ret_entry)
{
	const struct tally_entry *entry = find(tally, ticket);
	if (entry)
		*ret_entry = *entry;
	return entry != NULL;
}

bool tally_remove(struct tally *tally, uint64_t ticket)
{
	struct shard *shard = shard_of(tally, ticket);
	if (shard->slots == 0)
		return false;
	uint32_t slot = seek(shard, ticket);
	if (shard->entries[slot].ticket == 0)
		return false;
	vacate(tally, shard, slot);
	return true;
}

/* --- expiry ----------------------------------------------------------------------- */

/* At the end of a shard: half the slots when an eighth would do. A failure
 * keeps what there is. */
static void shrink(struct shard *shard)
{
	if (shard->slots == 0 || shard->count > shard->slots / 8)
		return;
	if (shard->count == 0)
		(void)resize(shard, 0);
	else if (shard->slots > SLOTS_MIN)
		(void)resize(shard, shard->slots / 2);
}

uint64_t tally_sweep(struct tally *tally, uint64_t now_ms, uint64_t budget)
{
	uint64_t before = tally->count;
	uint32_t ended = 0;
	while (budget > 0 && ended < SHARDS) {
		struct shard *shard = &tally->shards[tally->sweep_shard];
		if (tally->sweep_slot >= shard->slots) {
			shrink(shard);
			tally->sweep_shard = (tally->sweep_shard + 1) % SHARDS;
			tally->sweep_slot = 0;
			ended++;
			continue;
		}
		/* What closes the gap stands in this slot then: look again. */
		const struct tally_entry *entry = &shard->entries[tally->sweep_slot];
		if (entry->ticket && entry->expiry_s * UINT64_C(1000) <= now_ms)
			vacate(tally, shard, tally->sweep_slot);
		else
			tally->sweep_slot++;
		budget--;
	}
	return before - tally->count;
}

uint64_t tally_count(const struct tally *tally)
{
	return tally->count;
}

uint64_t tally_dirty(const struct tally *tally)
{
	return tally->tail - tally->head;
}

uint64_t tally_bytes(const struct tally *tally)
{
	uint64_t bytes = sizeof(*tally) + tally->room * sizeof(*tally->queue);
	for (uint32_t i = 0; i < SHARDS; i++)
		bytes += tally->shards[i].slots * sizeof(struct tally_entry);
	return bytes;
}

void tally_check(const struct tally *tally)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < SHARDS; i++) {
		const struct shard *shard = &tally->shards[i];
		CHECK((shard->slots & (shard->slots - 1)) == 0);
		uint32_t here = 0;
		for (uint32_t slot = 0; slot < shard->slots; slot++) {
			const struct tally_entry *entry = &shard->entries[slot];
			if (!entry->ticket)
				continue;
			here++;
			CHECK(shard_of(tally, entry->ticket) == shard);
			CHECK(seek(shard, entry->ticket) == slot);
		}
		CHECK(here == shard->count);
		count += here;
	}
	CHECK(count == tally->count);
}
