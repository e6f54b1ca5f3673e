/* tally: see tally.h. */
#include "store/local/index/tally.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* So many that one of them grows in a fraction of a millisecond even with a
 * hundred million tickets in all. */
#define SHARD_BITS 14
#define SHARDS (1u << SHARD_BITS)
#define SLOTS_MIN 4u
#define BLOCK_TICKETS 1023u

/* A map with linear probing, at most 3/4 full; ticket 0 is an empty slot. */
struct shard {
	struct tally_entry *entries;
	uint32_t slots; /* a power of two, or 0 */
	uint32_t count;
};

/* Of the queue: so it grows without being moved. */
struct block {
	struct block *next;
	uint64_t tickets[BLOCK_TICKETS];
};

struct tally {
	struct shard shards[SHARDS];
	uint64_t count;
	uint64_t slots; /* of all shards */
	/* Tickets that became dirty, in order: from `head` in the first block to
	 * `tail` in the last. Those that were removed or restored since are
	 * skipped when taken. */
	struct block *first;
	struct block *last;
	uint32_t head;
	uint32_t tail;
	uint64_t waiting;
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

static void drop_block(struct tally *tally)
{
	struct block *block = tally->first;
	tally->first = block->next;
	if (!tally->first)
		tally->last = NULL;
	tally->head = 0;
	mem_free(block);
}

struct tally *tally_free(struct tally *tally)
{
	if (!tally)
		return NULL;
	/* Few have any: thousands of calls for nothing were a third of the time of
	 * tests that open a store again and again. */
	for (uint32_t i = 0; tally->slots > 0 && i < SHARDS; i++)
		if (tally->shards[i].entries)
			mem_free(tally->shards[i].entries);
	while (tally->first)
		drop_block(tally);
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

static int resize(struct tally *tally, struct shard *shard, uint32_t slots)
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
	tally->slots += slots;
	tally->slots -= shard->slots;
	*shard = next;
	return 0;
}

/* From 1/2 to 3/4 of the slots, another for each shard: tickets spread so evenly
 * that all shards would else grow at the same time. */
static uint32_t limit_of(const struct tally *tally, const struct shard *shard)
{
	uint32_t index = (uint32_t)(shard - tally->shards);
	uint64_t share = index * UINT32_C(2654435761) >> 16 & 0xffff;
	return shard->slots / 2 + (uint32_t)(shard->slots / 4 * share >> 16);
}

static struct tally_entry *find_or_make(struct tally *tally, uint64_t ticket)
{
	CHECK(ticket != 0);
	struct tally_entry *entry = find(tally, ticket);
	if (entry)
		return entry;
	struct shard *shard = shard_of(tally, ticket);
	if (shard->count + 1 > limit_of(tally, shard)) {
		if (resize(tally, shard, shard->slots ? shard->slots * 2 : SLOTS_MIN) != 0)
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
	if (tally->last && tally->tail < BLOCK_TICKETS)
		return 0;
	struct block *block = mem_alloc(sizeof(*block));
	if (!block)
		return -ENOMEM;
	block->next = NULL;
	if (tally->last)
		tally->last->next = block;
	else
		tally->first = block;
	tally->last = block;
	tally->tail = 0;
	return 0;
}

/* The oldest ticket that waits; there is one. */
static uint64_t queue_take(struct tally *tally)
{
	CHECK(tally->waiting > 0);
	uint64_t ticket = tally->first->tickets[tally->head++];
	tally->waiting--;
	if (tally->head == BLOCK_TICKETS)
		drop_block(tally);
	else if (tally->waiting == 0)
		tally->head = tally->tail = 0; /* the block stays for the next */
	return ticket;
}

/* Without memory for the queue the entry stays clean, and tries again with its
 * next change: only the count on disk is late. */
static void mark(struct tally *tally, struct tally_entry *entry)
{
	if (entry->dirty || queue_reserve(tally) != 0)
		return;
	entry->dirty = 1;
	tally->last->tickets[tally->tail++] = entry->ticket;
	tally->waiting++;
}

size_t tally_take_dirty(struct tally *tally, struct tally_entry *ret_entries, size_t max)
{
	size_t taken = 0;
	while (taken < max && tally->waiting > 0) {
		struct tally_entry *entry = find(tally, queue_take(tally));
		if (!entry || !entry->dirty)
			continue;
		entry->dirty = 0;
		ret_entries[taken++] = *entry;
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
static void shrink(struct tally *tally, struct shard *shard)
{
	if (shard->slots == 0 || shard->count > shard->slots / 8)
		return;
	if (shard->count == 0)
		(void)resize(tally, shard, 0);
	else if (shard->slots > SLOTS_MIN)
		(void)resize(tally, shard, shard->slots / 2);
}

uint64_t tally_sweep(struct tally *tally, uint64_t now_ms, uint64_t budget)
{
	uint64_t before = tally->count;
	uint32_t ended = 0;
	while (budget > 0 && ended < SHARDS) {
		struct shard *shard = &tally->shards[tally->sweep_shard];
		if (tally->sweep_slot >= shard->slots) {
			shrink(tally, shard);
			tally->sweep_shard = (tally->sweep_shard + 1) % SHARDS;
			tally->sweep_slot = 0;
			ended++;
			budget--; /* most are empty when there are few tickets */
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

uint64_t tally_dirty(const struct tally *tally)
{
	return tally->waiting;
}

uint64_t tally_bytes(const struct tally *tally)
{
	uint64_t blocks = (tally->waiting + BLOCK_TICKETS - 1) / BLOCK_TICKETS;
	return sizeof(*tally) + blocks * sizeof(struct block) +
	       tally->slots * sizeof(struct tally_entry);
}

void tally_check(const struct tally *tally)
{
	uint64_t count = 0, slots = 0;
	for (uint32_t i = 0; i < SHARDS; i++) {
		const struct shard *shard = &tally->shards[i];
		slots += shard->slots;
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
	CHECK(slots == tally->slots);
}
