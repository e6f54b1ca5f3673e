/*
 * flat_claims: see flat_claims.h.
 *
 * A slot, 32 bytes:
 *
 *   key    the first word of the digest
 *   more   the next 32 bits of the digest above, the number's low 32 bits below
 *   value  what the kind remembers (check or order, 56 bits), the number's top 8
 *   time   48 bits of milliseconds, then which window: 1 …, 0 is none
 *
 * The rest of the digest is not compared: 96 bits are enough (claim.h).
 *
 * Slot 0 is nobody's.
 *
 * A bucket of the index, 64 bytes: sixteen entries of 32 bits, 0 is none.
 *
 *   tag    8 bits of the key, which tell most others apart; below
 *   place  24 bits: 1 + the number of the slot, or of the group of slots that it is
 *          in, where there are too many of them
 *
 * A group has 2^shift slots; shift is 0 for 16 million claims, and then each doubling
 * adds one: who finds a tag looks at all of the group.
 *
 * Invariants
 *   F1  Each of the slots 1 … used has one entry in the index.
 *   F2  A bucket's entries are its first ones; an entry stands in its home, or in the
 *       first bucket behind that has room, counted in a circle. So who comes to a
 *       bucket with a place to spare need not go on.
 *   F3  At most eleven of sixteen entries are taken.
 */
#include "cli/filter/flat_claims.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/error.h"
#include "base/mem.h"

#define BUCKET_ENTRIES 16u
#define BUCKET_USED 11u  /* on average at most */
#define BUCKETS_PAGE 64u /* an index has whole pages */
#define BUCKETS_MIN 1024u
#define USED_MAX UINT64_C(0xC0000000)
#ifndef FLAT_CLAIMS_PLACE_BITS
#define FLAT_CLAIMS_PLACE_BITS 24 /* less: tests, of groups */
#endif
#define PLACES_MAX ((UINT64_C(1) << FLAT_CLAIMS_PLACE_BITS) - 1)
#define AHEAD 16u /* slots whose buckets are fetched ahead */
#define TIME_MAX ((UINT64_C(1) << 48) - 1)
#define NUMBER_MAX ((UINT64_C(1) << 40) - 1)
#define VALUE_MAX ((UINT64_C(1) << 56) - 1)

/* Addresses for three billion claims; where so many are not to be had, half. */
#define RESERVE_MOST (UINT64_C(128) << 30)
#define RESERVE_LEAST (UINT64_C(1) << 30)
#define COMMIT_STEP ((size_t)256 << 10)

struct slot {
	uint64_t key;
	uint64_t more;
	uint64_t value;
	uint64_t time;
};

struct bucket {
	uint32_t entries[BUCKET_ENTRIES];
};

struct index {
	struct bucket *buckets;
	uint64_t count;
	unsigned shift;
};

struct flat_claims {
	struct slot *slots;
	size_t reserved;  /* bytes of addresses … */
	size_t committed; /* … and of memory */
	struct index index;
	uint64_t used;
	uint64_t used_max; /* of this index */
	uint64_t forgotten;
	/* All that is a window before it may leave. */
	uint64_t horizon_ms;
	uint64_t least_ms;        /* of this run of events … */
	uint64_t least_before_ms; /* … and of the one before */
	uint64_t leaves_ms;       /* until then nothing leaves */
	uint32_t noted;           /* events in this run */
	uint32_t window_count;
	uint64_t windows_ms[FLAT_CLAIMS_WINDOWS_MAX + 1]; /* from 1 */
};

static uint64_t slot_time_ms(const struct slot *slot)
{
	return slot->time >> 16;
}

static uint64_t slot_number(const struct slot *slot)
{
	return (slot->more & UINT32_MAX) | (slot->value & 0xFF) << 32;
}

static uint64_t slot_window_ms(const struct flat_claims *claims, const struct slot *slot)
{
	return claims->windows_ms[slot->time & 0xFFFF];
}

static bool is_same(const struct slot *slot, uint64_t key, uint64_t more)
{
	return slot->key == key && (slot->more ^ more) >> 32 == 0 && (slot->time & 0xFFFF) != 0;
}

/* ---- the index ---- */

static inline uint32_t tag_of(uint64_t key)
{
	return key & 0xFF;
}

static inline struct bucket *home_of(const struct index *index, uint64_t key)
{
	return &index->buckets[(key >> 32) * index->count >> 32];
}

static inline struct bucket *bucket_after(const struct index *index, struct bucket *bucket)
{
	return ++bucket == index->buckets + index->count ? index->buckets : bucket;
}

static inline bool is_full(const struct bucket *bucket)
{
	return bucket->entries[BUCKET_ENTRIES - 1] != 0;
}

/* A bit for each entry that is `value` as far as `mask` goes. */
static inline uint32_t find_entries(const struct bucket *bucket, uint32_t mask, uint32_t value)
{
#if defined(__SSE2__)
	const __m128i *at = (const __m128i *)(const void *)bucket->entries;
	__m128i masks = _mm_set1_epi32((int)mask);
	__m128i values = _mm_set1_epi32((int)value);
	__m128i four[4];
	for (int i = 0; i < 4; i++)
		four[i] = _mm_cmpeq_epi32(_mm_and_si128(_mm_loadu_si128(at + i), masks), values);
	__m128i low = _mm_packs_epi32(four[0], four[1]);
	__m128i high = _mm_packs_epi32(four[2], four[3]);
	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
	uint32_t found = 0;
	for (uint32_t i = 0; i < BUCKET_ENTRIES; i++)
		found |= (uint32_t)((bucket->entries[i] & mask) == value) << i;
	return found;
#endif
}

/* Those that may be the key's. */
static inline uint32_t find_tag(const struct bucket *bucket, uint64_t key)
{
	uint32_t found = find_entries(bucket, 0xFF, tag_of(key));
	return unlikely(tag_of(key) == 0) ? found & ~find_entries(bucket, UINT32_MAX, 0) : found;
}

/* The first slot of an entry's group. */
static inline uint64_t slot_of_entry(const struct index *index, uint32_t entry)
{
	return (uint64_t)((entry >> 8) - 1) << index->shift;
}

static size_t index_bytes(uint64_t count)
{
	return count * sizeof(struct bucket);
}

static int index_new(uint64_t count, struct index *ret_index)
{
	CHECK(index_bytes(count) % MEM_PAGE == 0);
	size_t bytes = index_bytes(count);
	struct bucket *buckets = mem_reserve(bytes);
	if (!buckets)
		return -ENOMEM;
	if (!mem_commit(buckets, bytes)) {
		mem_unmap(buckets, bytes);
		return -ENOMEM;
	}
	mem_populate(buckets, bytes);
	*ret_index = (struct index){ buckets, count, 0 };
	while ((count * BUCKET_USED >> ret_index->shift) + 1 > PLACES_MAX)
		ret_index->shift++;
	return 0;
}

static void index_free(struct index *index)
{
	mem_unmap(index->buckets, index_bytes(index->count));
	*index = (struct index){ NULL, 0, 0 };
}

/* From its home to where there is room. */
static void index_add(const struct index *index, uint64_t key, uint64_t slot)
{
	struct bucket *bucket = home_of(index, key);
	while (is_full(bucket))
		bucket = bucket_after(index, bucket);
	uint32_t i = (uint32_t)__builtin_ctz(find_entries(bucket, UINT32_MAX, 0));
	bucket->entries[i] = (uint32_t)((slot >> index->shift) + 1) << 8 | tag_of(key);
}

/* ---- slots ---- */

/* Memory for so many slots beside that of nobody. */
static int commit(struct flat_claims *claims, uint64_t used)
{
	size_t bytes = (used + 1) * sizeof(struct slot);
	char *start = (char *)claims->slots;
	if (bytes <= claims->committed)
		return 0;
	size_t more = COMMIT_STEP;
	if (more > claims->reserved - claims->committed)
		more = claims->reserved - claims->committed;
	if (used > USED_MAX || bytes > claims->committed + more ||
	    !mem_commit(start + claims->committed, more))
		return -ENOMEM;
	mem_populate(start + claims->committed, more);
	claims->committed += more;
	return 0;
}

static void set_index(struct flat_claims *claims, const struct index *index)
{
	index_free(&claims->index);
	claims->index = *index;
	claims->used_max = index->count * BUCKET_USED;
}

int flat_claims_new(struct flat_claims **ret_claims)
{
	struct flat_claims *claims = mem_zalloc(1, sizeof(*claims));
	struct index index;
	if (!claims)
		return -ENOMEM;
	for (claims->reserved = RESERVE_MOST; !claims->slots; claims->reserved /= 2) {
		claims->slots = mem_reserve(claims->reserved);
		if (claims->slots || claims->reserved == RESERVE_LEAST)
			break;
	}
	if (!claims->slots || commit(claims, CLAIMS_MAX) != 0 ||
	    index_new(BUCKETS_MIN, &index) != 0) {
		flat_claims_free(claims);
		return -ENOMEM;
	}
	set_index(claims, &index);
	claims->least_ms = TIME_MAX;
	claims->leaves_ms = UINT64_MAX;
	*ret_claims = claims;
	return 0;
}

struct flat_claims *flat_claims_free(struct flat_claims *claims)
{
	if (claims) {
		mem_unmap(claims->slots, claims->reserved);
		index_free(&claims->index);
	}
	return mem_free(claims);
}

/* ---- sweeping ---- */

static uint64_t leaves_ms(const struct flat_claims *claims, const struct slot *slot)
{
	return slot_time_ms(slot) + slot_window_ms(claims, slot);
}

static uint64_t count_live(const struct flat_claims *claims)
{
	uint64_t live = 0;
	if (claims->horizon_ms < claims->leaves_ms)
		return claims->used;
	for (uint64_t i = 1; i <= claims->used; i++)
		live += leaves_ms(claims, &claims->slots[i]) > claims->horizon_ms;
	return live;
}

/* Moves what is live together. */
static void pack(struct flat_claims *claims)
{
	struct slot *to = &claims->slots[1];
	claims->leaves_ms = UINT64_MAX;
	for (uint64_t i = 1; i <= claims->used; i++) {
		const struct slot *from = &claims->slots[i];
		uint64_t leaves = leaves_ms(claims, from);
		if (leaves <= claims->horizon_ms)
			continue;
		if (leaves < claims->leaves_ms)
			claims->leaves_ms = leaves;
		*to++ = *from;
	}
	claims->used = (uint64_t)(to - claims->slots) - 1;
}

static void index_all(const struct flat_claims *claims, const struct index *index)
{
	for (uint64_t i = 1; i <= claims->used; i++) {
		uint64_t ahead = i + AHEAD <= claims->used ? i + AHEAD : i;
		__builtin_prefetch(home_of(index, claims->slots[ahead].key), 1);
		index_add(index, claims->slots[i].key, i);
	}
}

/* Twice as many; where some have expired half as many again, as many or half. */
static uint64_t buckets_wanted(const struct flat_claims *claims, uint64_t live)
{
	uint64_t count = claims->index.count;
	if (live == claims->used)
		return count * 2;
	if (live > claims->used_max / 3 * 2)
		return (count + count / 2 + BUCKETS_PAGE - 1) / BUCKETS_PAGE * BUCKETS_PAGE;
	if (live < claims->used_max / 8 && count / 2 >= BUCKETS_MIN)
		return count / 2 / BUCKETS_PAGE * BUCKETS_PAGE;
	return count;
}

static int sweep(struct flat_claims *claims)
{
	struct index index;
	uint64_t live = count_live(claims);
	if (index_new(buckets_wanted(claims, live), &index) != 0)
		return -ENOMEM;
	if (live < claims->used) {
		claims->forgotten += claims->used - live;
		pack(claims);
		CHECK(claims->used == live);
	}
	index_all(claims, &index);
	set_index(claims, &index);
	return 0;
}

void flat_claims_expect(struct flat_claims *claims, uint64_t count)
{
	struct index index;
	count = count < FLAT_CLAIMS_EXPECTED_MAX ? count : FLAT_CLAIMS_EXPECTED_MAX;
	uint64_t buckets = (count / BUCKET_USED / BUCKETS_MIN + 1) * BUCKETS_MIN;
	if (buckets <= claims->index.count || index_new(buckets, &index) != 0)
		return;
	index_all(claims, &index);
	set_index(claims, &index);
}

/* Room for all claims of an event. */
static int make_room(struct flat_claims *claims)
{
	if (unlikely(claims->used + CLAIMS_MAX > claims->used_max) && sweep(claims) != 0)
		return -ENOMEM;
	return commit(claims, claims->used + CLAIMS_MAX);
}

/* ---- decisions ---- */

void flat_claims_prefetch(const struct flat_claims *claims, const struct flat_event *event)
{
	for (uint32_t i = 0; i < event->claim_count; i++)
		__builtin_prefetch(home_of(&claims->index, event->claims[i].digest.word[0]), 1);
}

void flat_claims_prefetch_known(const struct flat_claims *claims, const struct flat_event *event)
{
	for (uint32_t i = 0; i < event->claim_count; i++) {
		uint64_t key = event->claims[i].digest.word[0];
		const struct bucket *bucket = home_of(&claims->index, key);
		uint32_t found = find_tag(bucket, key);
		if (!found)
			continue;
		uint32_t entry = bucket->entries[__builtin_ctz(found)];
		__builtin_prefetch(&claims->slots[slot_of_entry(&claims->index, entry)], 1);
	}
}

/* The claim's slot among those from `first` up to before `end`, or NULL. */
static inline struct slot *seek_slots(const struct flat_claims *claims, uint64_t first,
                                      uint64_t end, const struct claim *claim)
{
	if (end > claims->used + 1)
		end = claims->used + 1;
	for (uint64_t i = first; i < end; i++)
		if (is_same(&claims->slots[i], claim->digest.word[0], claim->digest.word[1]))
			return &claims->slots[i];
	return NULL;
}

static inline struct slot *seek_group(const struct flat_claims *claims, uint32_t entry,
                                      const struct claim *claim)
{
	uint64_t first = slot_of_entry(&claims->index, entry);
	return seek_slots(claims, first, first + (UINT64_C(1) << claims->index.shift), claim);
}

/* The claim's slot, or NULL. */
static struct slot *seek(const struct flat_claims *claims, const struct claim *claim)
{
	uint64_t key = claim->digest.word[0];
	struct bucket *bucket = home_of(&claims->index, key);
	for (;;) {
		uint32_t found = find_tag(bucket, key);
		for (; found; found &= found - 1) {
			uint32_t entry = bucket->entries[__builtin_ctz(found)];
			struct slot *slot = seek_group(claims, entry, claim);
			if (slot)
				return slot;
		}
		if (likely(!is_full(bucket)))
			return NULL;
		bucket = bucket_after(&claims->index, bucket);
	}
}

static uint64_t window_number(struct flat_claims *claims, uint32_t window_s)
{
	uint64_t ms = (uint64_t)window_s * 1000;
	for (uint32_t i = 1; i <= claims->window_count; i++)
		if (claims->windows_ms[i] == ms)
			return i;
	/* A recipe has far fewer; late expiry would only cost memory. */
	if (claims->window_count == FLAT_CLAIMS_WINDOWS_MAX)
		return FLAT_CLAIMS_WINDOWS_MAX;
	claims->windows_ms[++claims->window_count] = ms;
	return claims->window_count;
}

/* Key and value of a claim as a slot has them, but for the number. */
static struct slot slot_of(const struct claim *claim)
{
	CHECK(claim->order <= VALUE_MAX);
	return (struct slot){
		.key = claim->digest.word[0],
		.more = claim->digest.word[1],
		.value = claim->kind == CLAIM_NEWEST ? claim->order : digest_check(&claim->digest),
	};
}

/* Into the slot that seek() finds, or a new one. */
static void put(struct flat_claims *claims, const struct claim *claim, struct slot *slot,
                const struct flat_event *event)
{
	struct slot what = slot_of(claim);
	uint64_t number = event->number < NUMBER_MAX ? event->number : NUMBER_MAX;
	uint64_t time_ms = event->time_ms < TIME_MAX ? event->time_ms : TIME_MAX;
	/* An older event that passes cannot shorten what is remembered. */
	if (slot && claim->kind == CLAIM_NEWEST && slot_time_ms(slot) > time_ms)
		time_ms = slot_time_ms(slot);
	if (!slot) {
		CHECK(claims->used < claims->used_max);
		slot = &claims->slots[++claims->used];
		index_add(&claims->index, what.key, claims->used);
	}
	*slot = (struct slot){
		.key = what.key,
		.more = what.more >> 32 << 32 | (number & UINT32_MAX),
		.value = what.value << 8 | number >> 32,
		.time = time_ms << 16 | window_number(claims, claim->window_s),
	};
	uint64_t leaves = leaves_ms(claims, slot);
	if (leaves < claims->leaves_ms)
		claims->leaves_ms = leaves;
}

/* Does the slot that seek() found, if it did, hold the claim at this time? */
static bool is_known(const struct flat_claims *claims, const struct slot *slot,
                     const struct claim *claim, uint64_t time_ms)
{
	if (!slot)
		return false;
	uint64_t first_ms = slot_time_ms(slot);
	uint64_t window_ms = slot_window_ms(claims, slot);
	if (time_ms < first_ms)
		return claim->kind == CLAIM_NEWEST || first_ms - time_ms < window_ms;
	return time_ms - first_ms < window_ms;
}

/* What this claim alone says of the event. */
static enum verdict judge(const struct flat_claims *claims, const struct slot *slot,
                          const struct claim *claim, uint64_t time_ms)
{
	if (!is_known(claims, slot, claim, time_ms))
		return VERDICT_NEW;
	uint64_t value = slot->value >> 8;
	if (claim->kind == CLAIM_NEWEST) {
		bool stale = claim->order < value || (claim->order == value && claim->equal_drops);
		return stale ? VERDICT_STALE : VERDICT_NEW;
	}
	return store_conflicts(claim, (uint32_t)value) ? VERDICT_CONFLICT : VERDICT_DUPLICATE;
}

static struct flat_verdict answer(enum verdict verdict, uint32_t matched, const struct slot *slot)
{
	return (struct flat_verdict){
		.verdict = verdict,
		.matched = matched,
		.first = slot_number(slot),
		.first_time_ms = slot_time_ms(slot),
	};
}

/* The first time it is a conflict, then a duplicate of that. */
static struct flat_verdict answer_conflict(struct flat_claims *claims,
                                           const struct flat_event *event, uint32_t matched,
                                           const struct slot *first)
{
	struct claim aside = store_aside_claim(&event->claims[matched]);
	struct flat_verdict conflict = answer(VERDICT_CONFLICT, matched, first);
	struct slot *slot = seek(claims, &aside);
	if (event->on_conflict == STORE_CONFLICT_REJECT)
		return conflict;
	if (is_known(claims, slot, &aside, event->time_ms))
		return answer(VERDICT_DUPLICATE, matched, slot);
	put(claims, &aside, slot, event);
	return conflict;
}

/* What an event that passes will take: a bit for each claim, and their slots. */
struct taking {
	uint32_t bits;
	struct slot *slots[CLAIMS_MAX];
};

/* True: claim `i` drops the event. Else its bit is in `taking` if it is taken. */
static bool claim_drops(struct flat_claims *claims, const struct flat_event *event, uint32_t i,
                        struct flat_verdict *verdict, struct taking *taking)
{
	const struct claim *claim = &event->claims[i];
	struct slot *slot = seek(claims, claim);
	taking->slots[i] = slot;
	enum verdict found = judge(claims, slot, claim, event->time_ms);
	bool conflict = found == VERDICT_CONFLICT;
	if (found != VERDICT_NEW && claim->shadow) {
		/* Its first holder keeps it. */
		if (verdict->would == VERDICT_NONE)
			verdict->would = found;
		return false;
	}
	if (found == VERDICT_NEW || (conflict && event->on_conflict == STORE_CONFLICT_PASS)) {
		enum verdict would = verdict->would;
		if (conflict && verdict->verdict == VERDICT_NEW)
			*verdict = answer(found, i, slot);
		verdict->would = would;
		taking->bits |= 1u << i;
		return false;
	}
	*verdict = conflict ? answer_conflict(claims, event, i, slot) : answer(found, i, slot);
	return true;
}

static void take_claims(struct flat_claims *claims, const struct flat_event *event,
                        const struct taking *taking)
{
	uint64_t before = claims->used;
	for (uint32_t i = 0; i < event->claim_count; i++) {
		struct slot *slot = taking->slots[i];
		if (!(taking->bits >> i & 1))
			continue;
		/* One that was not there may be by now, if the event claims it twice. */
		if (!slot)
			slot = seek_slots(claims, before + 1, claims->used + 1, &event->claims[i]);
		put(claims, &event->claims[i], slot, event);
	}
}

static void note_time(struct flat_claims *claims, uint64_t time_ms)
{
	if (time_ms < claims->least_ms)
		claims->least_ms = time_ms;
	if (++claims->noted < FLAT_CLAIMS_RECENT)
		return;
	claims->horizon_ms = claims->least_ms < claims->least_before_ms ? claims->least_ms
	                                                                : claims->least_before_ms;
	claims->least_before_ms = claims->least_ms;
	claims->least_ms = TIME_MAX;
	claims->noted = 0;
}

int flat_claims_decide(struct flat_claims *claims, const struct flat_event *event,
                       struct flat_verdict *ret_verdict)
{
	struct taking taking;
	taking.bits = 0;
	CHECK(event->claim_count <= CLAIMS_MAX);
	if (make_room(claims) != 0)
		return -ENOMEM;
	note_time(claims, event->time_ms);
	/* Written where it stays: to copy what was written in pieces a moment ago makes the
	 * processor wait for each of them (17 ns in all). */
	*ret_verdict = (struct flat_verdict){ .verdict = VERDICT_NEW };
	for (uint32_t i = 0; i < event->claim_count; i++)
		if (claim_drops(claims, event, i, ret_verdict, &taking))
			return 0;
	take_claims(claims, event, &taking);
	ret_verdict->passes = true;
	return 0;
}

struct flat_claims_stats flat_claims_get_stats(const struct flat_claims *claims)
{
	return (struct flat_claims_stats){
		.claims = claims->used,
		.forgotten = claims->forgotten,
		.bytes = claims->committed + index_bytes(claims->index.count) + sizeof(*claims),
	};
}
