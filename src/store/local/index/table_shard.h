/*
 * table_shard: the claims of one shard, in buckets, inside of table.
 *
 * A claim is to cost few cache lines though the table is nearly full. So a
 * bucket holds 64 entries and opens with one line that tells which of them are
 * worth a look:
 *
 *   offset 0    64  tags: 8 bits of the digest, 0 is an empty slot
 *   offset 64   64  bodies of 23 bytes:
 *                   8  digest.word[1]: 32 bits of key, 32 of content check
 *                   8  46 bits of digest.word[0] (its top 10 are the shard's
 *                      number, its low 8 the tag), 13 of window, 5 of flags
 *                   7  55 bits of ticket, 1: the tag was 0 and is written as 1
 *
 * So the whole key is compared, and the check is given back (gate/claim.h). A
 * window is kept as in window.h.
 *
 * In a table of cells the same bodies hold, in the place of check, window, flags and
 * ticket, 105 bits in all: 52 of place, 43 of expiry (unix ms; 0 is never), 10 of code.
 *
 * Buckets are in the order of the hashes of their entries (30 bits of the
 * mixed digest), like the leaves of a tree; the directory has the lowest hash
 * and the number of each. Hashes are uniform, so an entry's bucket is within a
 * few places of hash times buckets. A full bucket gives to a neighbour with
 * room; if there is none, three buckets become four. The sweep makes two of
 * three that are sparse. So every change of size touches four buckets at most,
 * and no bucket but the right one is ever asked.
 *
 * Invariants (table_shard_check() cites the numbers):
 *
 * 1. floors ascend from 0, and are FLOOR_NONE behind the last bucket.
 * 2. An entry's hash is at least its bucket's floor and below the next one.
 * 3. count is the number of entries.
 * 4. No entry expires before expiry_min_s.
 * 5. Every bucket of the directory belongs to this shard in the arena.
 *
 * Room: store/local, only for table.c. Threads: one at a time per shard.
 */
#pragma once

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "gate/claim.h"
#include "gate/ticket.h"
#include "gate/window.h"
#include "store/local/index/table.h"

/*
 * table_arena: the memory of the table's buckets.
 *
 * All buckets of all shards are one dense array, known by their numbers: so no shard has
 * slack of its own. Freeing a bucket moves the last one into the hole; so the arena knows
 * which shard a bucket belongs to, and the shard learns of the move.
 *
 * The array's addresses are reserved once and never change. Memory is committed in small
 * steps, and given back when the array shrinks.
 *
 * Room:    store/local, only for table and table_shard.
 * Threads: one owner.
 * Failure: -ENOMEM, with nothing changed.
 */

#define TABLE_BUCKET_ENTRIES 64u
#define TABLE_BODY 23u
#define TABLE_BUCKET_BYTES 1536u

/* See table_shard.h. */
struct table_bucket {
	_Alignas(64) uint8_t tags[TABLE_BUCKET_ENTRIES];
	uint8_t bodies[TABLE_BUCKET_ENTRIES][TABLE_BODY];
};

struct table_arena {
	struct table_bucket *buckets;
	uint16_t *owners; /* of each bucket: the number of its shard */
	uint32_t count;
	uint32_t high;   /* those above were not in use since their pages are new */
	uint32_t limit;  /* as many have addresses */
	uint32_t ready;  /* as many have memory */
	size_t reserved; /* bytes of addresses, those of the owners included */
	/* Of a table of cells: this one is removed for age. */
	void (*gone)(void *user, uint64_t place, uint32_t code);
	void *gone_user;
};

int table_arena_init(struct table_arena *arena) must_check;
void table_arena_free(struct table_arena *arena); /* accepts a zeroed one */

/* `count` empty buckets in a row for this shard; the number of the first. */
int table_arena_take(struct table_arena *arena, uint32_t shard, uint32_t count,
                     uint32_t *ret_first) must_check;

/* True if another bucket had to move to this number: from *ret_from, of *ret_shard. */
bool table_arena_give(struct table_arena *arena, uint32_t number, uint32_t *ret_from,
                      uint32_t *ret_shard) must_check;

uint64_t table_arena_bytes(const struct table_arena *arena);

#ifdef __SSE2__
#endif

#define TABLE_SHARD_BITS 10
#define TABLE_TAG_BITS 8
#define TABLE_WINDOW_BITS WINDOW_BITS
#define TABLE_FLAG_BITS 5
#define TABLE_HASH_BITS 30
#define TABLE_HASH_END (INT32_C(1) << TABLE_HASH_BITS)
#define TABLE_FLOOR_NONE INT32_MAX
#define TABLE_FLOORS_LINE 16u                                 /* floors in a cache line */
#define TABLE_KEPT_BITS (TABLE_WINDOW_BITS + TABLE_FLAG_BITS) /* of `rest`, not the key's */

/* An entry as it is worked with. */
struct table_entry {
	uint64_t word; /* digest.word[1]; of a cell 32 bits of key, 32 of place */
	uint64_t rest; /* 46 bits of digest.word[0]; window, flags, or 18 bits of place */
	uint64_t last; /* ticket, or expiry, 2 bits of place, code; and the bit for tag 0 */
	uint8_t tag;
};

struct table_shard {
	int32_t *floors; /* `capacity` of them, then as many bucket numbers */
	struct table_bucket *buckets;
	struct table_arena *arena;
	uint32_t bucket_count;
	uint32_t capacity; /* of the directory, whole lines; 0: no memory at all */
	uint32_t count;
	uint32_t expiry_min_s; /* since TICKET_EPOCH_MS */
	uint32_t sweep_min_s;  /* the same, of what the running sweep has seen */
	int32_t sweep_hash;    /* lower ones were seen by the running sweep; 0 is none */
	uint16_t number;
	bool cells;       /* else claims */
	uint32_t version; /* another one when an entry may have another bucket */
	uint64_t expired; /* ever removed for age */
};

/* Where an entry is. */
struct table_spot {
	struct table_bucket *bucket;
	uint32_t slot;
};

static inline uint64_t table_entry_ticket(const struct table_entry *entry)
{
	return entry->last >> 1;
}

static inline uint64_t table_entry_window_s(const struct table_entry *entry)
{
	uint32_t code = (uint32_t)(entry->rest >> TABLE_FLAG_BITS);
	return window_decode(code & ((1u << TABLE_WINDOW_BITS) - 1));
}

static inline uint64_t table_entry_expiry_ms(const struct table_entry *entry)
{
	return ticket_time_ms(table_entry_ticket(entry)) + table_entry_window_s(entry) * 1000;
}

/* Of a cell. */
static inline uint64_t table_entry_over_ms(const struct table_entry *entry)
{
	uint64_t expiry_ms = entry->last >> (1 + 2 + TABLE_CODE_BITS);
	return expiry_ms ? expiry_ms : UINT64_MAX;
}

static inline uint64_t table_entry_place(const struct table_entry *entry)
{
	uint64_t middle = entry->rest & ((1u << TABLE_KEPT_BITS) - 1);
	uint64_t high = entry->last >> (1 + TABLE_CODE_BITS) & 3;
	return (entry->word & UINT32_MAX) | middle << 32 | high << (32 + TABLE_KEPT_BITS);
}

static inline uint32_t table_entry_code(const struct table_entry *entry)
{
	return (uint32_t)(entry->last >> 1) & ((1u << TABLE_CODE_BITS) - 1);
}

static inline bool table_entry_same(const struct table_entry *a, const struct table_entry *b)
{
	return (a->word ^ b->word) >> 32 == 0 && (a->rest ^ b->rest) >> TABLE_KEPT_BITS == 0 &&
	       ((a->last ^ b->last) & 1) == 0;
}

/* Of the key in word[1], and word[0] without the shard's number and with a tag of 1 for 0.
 * Digests are uniform; the products are for callers who count instead. */
static inline int32_t table_hash(uint64_t word, uint64_t rest)
{
	uint64_t mixed = ((word >> 32) + rest * UINT64_C(0xd1342543de82ef95)) *
	                 UINT64_C(0x9e3779b97f4a7c15);
	return (int32_t)(mixed >> (64 - TABLE_HASH_BITS));
}

static inline int32_t table_entry_hash(const struct table_entry *entry)
{
	uint64_t rest = entry->rest >> TABLE_KEPT_BITS << TABLE_TAG_BITS;
	return table_hash(entry->word, rest | entry->tag);
}

static inline struct table_entry table_bucket_get(const struct table_bucket *bucket, uint32_t slot)
{
	const uint8_t *body = bucket->bodies[slot];
	struct table_entry entry;
	memcpy(&entry.word, body, 8);
	memcpy(&entry.rest, body + 8, 8);
	memcpy(&entry.last, body + 15, 8); /* the first byte is the end of rest */
	entry.last >>= 8;
	entry.tag = bucket->tags[slot];
	return entry;
}

static inline void table_bucket_set(struct table_bucket *bucket, uint32_t slot,
                                    const struct table_entry *entry)
{
	uint8_t *body = bucket->bodies[slot];
	uint64_t last = entry->last << 8 | entry->rest >> 56;
	memcpy(body, &entry->word, 8);
	memcpy(body + 8, &entry->rest, 8);
	memcpy(body + 15, &last, 8);
	bucket->tags[slot] = entry->tag;
}

#ifdef __SSE2__
static inline uint64_t table_tags_match(const uint8_t *tags, __m128i wanted)
{
	__m128i found = _mm_load_si128((const __m128i *)(const void *)tags);
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(found, wanted));
}
#endif

/* Bit n: slot n has this tag (0: is empty). Written out: compilers do not unroll at -O2. */
static inline uint64_t table_bucket_match(const struct table_bucket *bucket, uint8_t tag)
{
#ifdef __SSE2__
	__m128i wanted = _mm_set1_epi8((char)tag);
	return table_tags_match(bucket->tags, wanted) |
	       table_tags_match(bucket->tags + 16, wanted) << 16 |
	       table_tags_match(bucket->tags + 32, wanted) << 32 |
	       table_tags_match(bucket->tags + 48, wanted) << 48;
#else
	uint64_t mask = 0;
	for (int i = 0; i < 64; i++)
		mask |= (uint64_t)(bucket->tags[i] == tag) << i;
	return mask;
#endif
}

#ifdef __SSE2__
/* Minus one in each part that is above. */
static inline __m128i table_floors_above(const int32_t *floors, __m128i wanted)
{
	return _mm_cmpgt_epi32(_mm_load_si128((const __m128i *)(const void *)floors), wanted);
}
#endif

/* How many floors of this line are at most the hash. */
static inline uint32_t table_floors_rank(const int32_t *line, int32_t hash)
{
#ifdef __SSE2__
	__m128i wanted = _mm_set1_epi32(hash);
	__m128i above = _mm_add_epi32(_mm_add_epi32(table_floors_above(line, wanted),
	                                            table_floors_above(line + 4, wanted)),
	                              _mm_add_epi32(table_floors_above(line + 8, wanted),
	                                            table_floors_above(line + 12, wanted)));
	above = _mm_add_epi32(above, _mm_shuffle_epi32(above, 0x4e));
	above = _mm_add_epi32(above, _mm_shuffle_epi32(above, 0xb1));
	return TABLE_FLOORS_LINE + (uint32_t)_mm_cvtsi128_si32(above);
#else
	uint32_t rank = 0;
	for (uint32_t i = 0; i < TABLE_FLOORS_LINE; i++)
		rank += line[i] <= hash;
	return rank;
#endif
}

/* Where it is likely to be. */
static inline uint32_t table_shard_guess(const struct table_shard *shard, int32_t hash)
{
	return (uint32_t)(((uint64_t)(uint32_t)hash * shard->bucket_count) >> TABLE_HASH_BITS);
}

/* The place in the directory of the bucket for this hash. */
static inline uint32_t table_shard_place(const struct table_shard *shard, int32_t hash)
{
	const int32_t *floors = shard->floors;
	uint32_t line = table_shard_guess(shard, hash) / TABLE_FLOORS_LINE * TABLE_FLOORS_LINE;
	while (unlikely(floors[line] > hash))
		line -= TABLE_FLOORS_LINE; /* ends: the first floor is 0 */
	uint32_t rank = table_floors_rank(floors + line, hash);
	/* The next line is asked only if it must be: it was not fetched. */
	while (unlikely(rank == TABLE_FLOORS_LINE) &&
	       line + TABLE_FLOORS_LINE < shard->bucket_count &&
	       floors[line + TABLE_FLOORS_LINE] <= hash) {
		line += TABLE_FLOORS_LINE;
		rank = table_floors_rank(floors + line, hash);
	}
	return line + rank - 1;
}

static inline uint32_t *table_shard_numbers(const struct table_shard *shard)
{
	return (uint32_t *)(shard->floors + shard->capacity);
}

static inline struct table_bucket *table_shard_bucket(const struct table_shard *shard,
                                                      uint32_t place)
{
	return &shard->buckets[table_shard_numbers(shard)[place]];
}

static inline struct table_bucket *table_shard_home(const struct table_shard *shard, int32_t hash)
{
	return table_shard_bucket(shard, table_shard_place(shard, hash));
}

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

/* Starts to fetch what a put at about now_ms will touch that finds its bucket full.
 * `may_be_there`: then it needs no room, so only what is likely to be needed. */
void table_shard_prefetch_room(const struct table_shard *shard, int32_t hash, uint64_t now_ms,
                               bool may_be_there);

/* An empty shard without memory. */
void table_shard_init(struct table_shard *shard, struct table_arena *arena, uint32_t number,
                      bool cells);
/* The buckets go with the arena. */
void table_shard_free(struct table_shard *shard);
uint64_t table_shard_bytes(const struct table_shard *shard);

/* Adds an entry that is not there. 0 or -ENOMEM. */
int table_shard_add(struct table_shard *shard, struct table_bucket *home,
                    const struct table_entry *entry, uint64_t now_ms) must_check;
/* The entry takes the place of this one; of claims only if its ticket is higher. */
void table_shard_replace(struct table_shard *shard, struct table_spot spot,
                         const struct table_entry *entry);
void table_shard_remove(struct table_shard *shard, struct table_spot spot);

/* Buckets for about `count` entries, if the shard is empty. */
int table_shard_reserve(struct table_shard *shard, uint64_t count) must_check;

/*
 * Looks at about `budget` slots, removes the expired and gives memory back,
 * which may give other numbers to buckets of other shards, of `shards`. True at
 * the end of the shard; the next call starts over.
 */
bool table_shard_sweep(struct table_shard *shard, struct table_shard *shards, uint64_t now_ms,
                       uint64_t budget, uint64_t *ret_looked);
/* Something may have expired, or few of the slots are taken. */
bool table_shard_may_sweep(const struct table_shard *shard, uint64_t now_ms);

void table_shard_check(const struct table_shard *shard);
