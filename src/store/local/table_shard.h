/*
 * table_shard: one flat array of claims, inside of table.
 *
 * An entry, 24 bytes:
 *
 *   key   64  the complement of digest.word[1]
 *   rest  54  digest.word[0] without its top 10 bits (the shard's number)
 *         10  window, low bits
 *   meta  55  ticket
 *          3  window, high bits
 *          6  flags
 *
 * So the whole digest is compared. An empty slot is all zero: a ticket never
 * is. A window is a small float of seconds: 8 bits of mantissa, 5 of exponent,
 * rounded up.
 *
 * Invariants (table_check() cites the numbers):
 *
 * 1. Entries stand in descending order of key. Since keys are complements that
 *    is the order of digest.word[1], and an empty slot, whose key reads as 0,
 *    ends a search by the same comparison that finds the place.
 * 2. An entry with ideal slot i stands at i or after, and all slots between
 *    are taken.
 * 3. The last slot is always empty: no search needs to ask for the end.
 * 4. count is the number of entries, and below slots.
 * 5. No entry expires before expiry_min_s.
 *
 * Room: store/local, only for table.c. Threads: one at a time per shard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "gate/claim.h"
#include "gate/ticket.h"

#define TABLE_SHARD_BITS 10
#define TABLE_META_BITS 9
#define TABLE_FLAG_BITS 6
#define TABLE_WINDOW_LOW_MASK ((UINT64_C(1) << TABLE_SHARD_BITS) - 1)

struct table_entry {
	uint64_t key;
	uint64_t rest;
	uint64_t meta;
};

struct table_shard {
	struct table_entry *entries;
	uint32_t slots;
	uint32_t range; /* ideal slots are below this; the rest takes the overflow */
	uint32_t count;
	uint32_t limit;        /* count at which the shard is rebuilt */
	uint32_t expiry_min_s; /* since TICKET_EPOCH_MS */
	uint32_t sweep_min_s;  /* the same, of what the running sweep has seen */
	uint32_t sweep_slot;   /* where the running sweep stands; 0 is none */
	uint32_t rebuilds;
	uint32_t number;
	uint64_t expired; /* ever removed for age */
};

static inline uint32_t table_window_encode(uint32_t window_s)
{
	if (window_s < 256)
		return window_s;
	uint32_t shift = (uint32_t)(23 - __builtin_clz(window_s)); /* leaves 256 … 511 */
	uint32_t mantissa = window_s >> shift;
	if ((mantissa << shift) != window_s)
		mantissa++; /* 512 carries into the exponent, as it should */
	return ((shift + 1) << 8) + (mantissa - 256);
}

static inline uint64_t table_window_decode(uint32_t code)
{
	uint32_t exponent = code >> 8;
	uint64_t mantissa = code & 255;
	return exponent ? (mantissa | 256) << (exponent - 1) : mantissa;
}

static inline uint64_t table_entry_ticket(const struct table_entry *entry)
{
	return entry->meta >> TABLE_META_BITS;
}

static inline uint64_t table_entry_window_s(const struct table_entry *entry)
{
	uint64_t high = (entry->meta >> TABLE_FLAG_BITS) & 7;
	return table_window_decode(
	        (uint32_t)(high << TABLE_SHARD_BITS | (entry->rest & TABLE_WINDOW_LOW_MASK)));
}

static inline uint64_t table_entry_expiry_ms(const struct table_entry *entry)
{
	return ticket_time_ms(table_entry_ticket(entry)) + table_entry_window_s(entry) * 1000;
}

static inline bool table_entry_same(const struct table_entry *a, const struct table_entry *b)
{
	return a->key == b->key && ((a->rest ^ b->rest) & ~TABLE_WINDOW_LOW_MASK) == 0;
}

static inline uint32_t table_shard_ideal(const struct table_shard *shard, uint64_t key)
{
	__extension__ typedef unsigned __int128 wide;
	return (uint32_t)(((wide)~key * shard->range) >> 64);
}

/*
 * Where the entry is (true), or where it would have to be put. The common miss
 * and hit leave the first loop once.
 */
static inline bool table_shard_seek(const struct table_shard *shard, const struct table_entry *probe,
                                    uint32_t *ret_slot)
{
	uint32_t slot = table_shard_ideal(shard, probe->key);
	const struct table_entry *entries = shard->entries;
	while (entries[slot].key > probe->key)
		slot++;
	while (entries[slot].key == probe->key && entries[slot].meta) {
		if (table_entry_same(&entries[slot], probe)) {
			*ret_slot = slot;
			return true;
		}
		slot++;
	}
	*ret_slot = slot;
	return false;
}

/* An empty shard without memory; also what free leaves. */
void table_shard_init(struct table_shard *shard, uint32_t number);
void table_shard_free(struct table_shard *shard);
uint64_t table_shard_bytes(const struct table_shard *shard);

/* Puts the entry, or replaces one with a lower ticket. 0 or -ENOMEM. */
int table_shard_put(struct table_shard *shard, const struct table_entry *entry,
                    uint64_t now_ms) must_check;
void table_shard_remove(struct table_shard *shard, uint32_t slot);

/* Room for `count` entries without a rebuild. */
int table_shard_reserve(struct table_shard *shard, uint64_t count) must_check;

/* Looks at about `budget` slots and removes the expired. True at the end of
 * the shard; the next call starts over. */
bool table_shard_sweep(struct table_shard *shard, uint64_t now_ms, uint64_t budget,
                       uint64_t *ret_looked);
bool table_shard_may_expire(const struct table_shard *shard, uint64_t now_ms);

/* Gives memory back if the shard has become sparse; true if it did. */
bool table_shard_shrink(struct table_shard *shard);

void table_shard_check(const struct table_shard *shard);
