/*
 * table_shard: the claims of one shard, in buckets, inside of table.
 *
 * A claim is to cost few cache lines though the table is nearly full. So a
 * bucket holds 63 entries and opens with one line that tells which of them are
 * worth a look:
 *
 *   offset 0     1  how many entries at home here live in a later bucket (low
 *                   five bits, 31 is "31 or more, for ever"), and how far away
 *                   the farthest is (high three bits, 7 is "7 or more")
 *   offset 1    63  tags: 8 bits of the digest, 0 is an empty slot
 *   offset 64   63  bodies of 23 bytes:
 *                   8  digest.word[1]
 *                   8  46 bits of digest.word[0] (its top 10 are the shard's
 *                      number, its low 8 the tag), 13 of window, 5 of flags
 *                   7  55 bits of ticket, 1: the tag was 0 and is written as 1
 *   offset 1513 23  unused
 *
 * So the whole digest is compared. A window is a small float of seconds: 8 bits
 * of mantissa, 5 of exponent, rounded up.
 *
 * An entry's home is its hash times the number of buckets; when that is full it
 * goes to the next bucket with room. Homes keep the order of the hashes, so
 * growing moves entries only upwards and is done in place.
 *
 * Invariants (table_shard_check() cites the numbers):
 *
 * 1. An entry's bucket is at most as far from its home as the home tells.
 * 2. A home tells of at least as many entries away as there are.
 * 3. count is the number of entries, and below the number of slots.
 * 4. No entry expires before expiry_min_s.
 *
 * Room: store/local, only for table.c. Threads: one at a time per shard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/check.h"
#include "gate/claim.h"
#include "gate/ticket.h"

#define TABLE_SHARD_BITS 10
#define TABLE_TAG_BITS 8
#define TABLE_WINDOW_BITS 13
#define TABLE_FLAG_BITS 5
#define TABLE_BUCKET_ENTRIES 63u
#define TABLE_BODY 23u
#define TABLE_BUCKET_BYTES 1536u

struct table_bucket {
	_Alignas(64) uint8_t line[64]; /* away, then the tags */
	uint8_t bodies[TABLE_BUCKET_ENTRIES][TABLE_BODY];
	uint8_t unused[23];
};

/* An entry as it is worked with. */
struct table_entry {
	uint64_t word; /* digest.word[1] */
	uint64_t rest; /* 46 bits of digest.word[0], window, flags */
	uint64_t last; /* ticket, and the bit for tag 0 */
	uint8_t tag;
};

struct table_shard {
	struct table_bucket *buckets;
	uint32_t bucket_count;
	uint32_t count;
	uint32_t limit;        /* count at which the shard is rebuilt */
	uint32_t expiry_min_s; /* since TICKET_EPOCH_MS */
	uint32_t sweep_min_s;  /* the same, of what the running sweep has seen */
	uint32_t sweep_bucket; /* where the running sweep stands; 0 is none */
	uint32_t rebuilds;
	uint32_t number;
	uint64_t expired; /* ever removed for age */
};

/* Where an entry is. */
struct table_spot {
	uint32_t bucket;
	uint32_t slot; /* 1 … 63: its byte in the line */
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
	return entry->last >> 1;
}

static inline uint64_t table_entry_window_s(const struct table_entry *entry)
{
	uint32_t code = (uint32_t)(entry->rest >> TABLE_FLAG_BITS);
	return table_window_decode(code & ((1u << TABLE_WINDOW_BITS) - 1));
}

static inline uint64_t table_entry_expiry_ms(const struct table_entry *entry)
{
	return ticket_time_ms(table_entry_ticket(entry)) + table_entry_window_s(entry) * 1000;
}

static inline bool table_entry_same(const struct table_entry *a, const struct table_entry *b)
{
	return a->word == b->word &&
	       (a->rest ^ b->rest) >> (TABLE_WINDOW_BITS + TABLE_FLAG_BITS) == 0 &&
	       ((a->last ^ b->last) & 1) == 0;
}

static inline struct table_entry table_bucket_get(const struct table_bucket *bucket, uint32_t slot)
{
	const uint8_t *body = bucket->bodies[slot - 1];
	struct table_entry entry;
	memcpy(&entry.word, body, 8);
	memcpy(&entry.rest, body + 8, 8);
	memcpy(&entry.last, body + 15, 8); /* the first byte is the end of rest */
	entry.last >>= 8;
	entry.tag = bucket->line[slot];
	return entry;
}

static inline void table_bucket_set(struct table_bucket *bucket, uint32_t slot,
                                    const struct table_entry *entry)
{
	uint8_t *body = bucket->bodies[slot - 1];
	uint64_t last = entry->last << 8 | entry->rest >> 56;
	memcpy(body, &entry->word, 8);
	memcpy(body + 8, &entry->rest, 8);
	memcpy(body + 15, &last, 8);
	bucket->line[slot] = entry->tag;
}

/* Bit n: slot n has this tag (0: is empty). Bit 0 is never set. */
static inline uint64_t table_bucket_match(const struct table_bucket *bucket, uint8_t tag)
{
	uint64_t mask = 0;
#ifdef __SSE2__
	__m128i wanted = _mm_set1_epi8((char)tag);
	for (int i = 0; i < 4; i++) {
		__m128i tags = _mm_load_si128(
			(const __m128i *)(const void *)(bucket->line + i * 16));
		uint32_t bits = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted));
		mask |= (uint64_t)bits << (i * 16);
	}
#else
	for (int i = 0; i < 64; i++)
		mask |= (uint64_t)(bucket->line[i] == tag) << i;
#endif
	return mask & ~UINT64_C(1);
}

/* Digests are uniform; the product is for callers who count instead. */
static inline uint32_t table_shard_home(const struct table_shard *shard,
                                        const struct table_entry *entry)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t rest = entry->rest >> (TABLE_WINDOW_BITS + TABLE_FLAG_BITS);
	uint64_t hash = (entry->word ^ rest << TABLE_TAG_BITS ^ entry->tag) *
	                UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(((wide)hash * shard->bucket_count) >> 64);
}

static inline uint32_t table_home_distance(const struct table_bucket *home)
{
	return home->line[0] >> 5;
}

#define TABLE_DISTANCE_ANY 7u

bool table_shard_seek_away(const struct table_shard *shard, const struct table_entry *probe,
                           uint32_t home, struct table_spot *ret_spot);

static inline bool table_bucket_seek(const struct table_bucket *bucket,
                                     const struct table_entry *probe, uint32_t *ret_slot)
{
	uint64_t mask = table_bucket_match(bucket, probe->tag);
	for (; mask; mask &= mask - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(mask);
		struct table_entry entry = table_bucket_get(bucket, slot);
		if (likely(table_entry_same(&entry, probe))) {
			*ret_slot = slot;
			return true;
		}
	}
	return false;
}

static inline bool table_shard_seek(const struct table_shard *shard,
                                    const struct table_entry *probe, struct table_spot *ret_spot)
{
	uint32_t home = table_shard_home(shard, probe);
	const struct table_bucket *bucket = &shard->buckets[home];
	if (table_bucket_seek(bucket, probe, &ret_spot->slot)) {
		ret_spot->bucket = home;
		return true;
	}
	if (likely(bucket->line[0] == 0))
		return false;
	return table_shard_seek_away(shard, probe, home, ret_spot);
}

/* An empty shard without memory; also what free leaves. */
void table_shard_init(struct table_shard *shard, uint32_t number);
void table_shard_free(struct table_shard *shard);
uint64_t table_shard_bytes(const struct table_shard *shard);

/* Puts the entry, or replaces one with a lower ticket. 0 or -ENOMEM. */
int table_shard_put(struct table_shard *shard, const struct table_entry *entry,
                    uint64_t now_ms) must_check;
void table_shard_remove(struct table_shard *shard, struct table_spot spot);

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
