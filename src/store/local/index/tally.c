/* tally: see tally.h. */
#include "store/local/index/tally.h"

#include <errno.h>

#include "base/map.h"
#include "base/mem.h"

#define BLOCK_TICKETS 1023u

/* Of the queue: so it grows without being moved. */
struct block {
	struct block *next;
	uint64_t tickets[BLOCK_TICKETS];
};

struct tally {
	struct map entries;
	/* Tickets that became dirty, in order: from `head` in the first block to
	 * `tail` in the last. Those that were removed or restored since are
	 * skipped when taken. */
	struct block *first;
	struct block *last;
	uint32_t head;
	uint32_t tail;
	uint64_t waiting;
};

int tally_new(struct tally **ret_tally)
{
	struct tally *tally = mem_zalloc(1, sizeof(*tally));
	if (!tally)
		return -ENOMEM;
	map_init(&tally->entries, sizeof(struct tally_entry), sizeof(uint64_t));
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
	map_free(&tally->entries);
	while (tally->first)
		drop_block(tally);
	return mem_free(tally);
}

static struct tally_entry *find(const struct tally *tally, uint64_t ticket)
{
	return map_find(&tally->entries, &ticket);
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
		uint64_t ticket = tally->first->tickets[tally->head++];
		tally->waiting--;
		if (tally->head == BLOCK_TICKETS)
			drop_block(tally);
		else if (tally->waiting == 0)
			tally->head = tally->tail = 0; /* the block stays for the next */
		struct tally_entry *entry = find(tally, ticket);
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
	struct tally_entry *entry = map_put(&tally->entries, &ticket);
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
	CHECK(from->ticket != 0);
	struct tally_entry *entry = map_put(&tally->entries, &from->ticket);
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
	return map_remove(&tally->entries, &ticket);
}

/* --- expiry ----------------------------------------------------------------------- */

static bool is_over(const void *item, void *user)
{
	const struct tally_entry *entry = item;
	const uint64_t *now_ms = user;
	return entry->expiry_s * UINT64_C(1000) <= *now_ms;
}

uint64_t tally_sweep(struct tally *tally, uint64_t now_ms, uint64_t budget)
{
	return map_sweep(&tally->entries, budget, is_over, &now_ms);
}

uint64_t tally_dirty(const struct tally *tally)
{
	return tally->waiting;
}

uint64_t tally_bytes(const struct tally *tally)
{
	uint64_t blocks = (tally->waiting + BLOCK_TICKETS - 1) / BLOCK_TICKETS;
	return sizeof(*tally) + blocks * sizeof(struct block) + map_bytes(&tally->entries);
}

void tally_check(const struct tally *tally)
{
	map_check(&tally->entries);
}
