/*
 * flat_claims: see flat_claims.h.
 *
 * A slot, 32 bytes:
 *
 *   key    the first word of the digest
 *   more   the next 32 bits of the digest above, the number's low 32 bits below
 *   value  what the kind remembers (check or order, 56 bits), the number's top 8
 *   time   48 bits of milliseconds, then which window: 1 …, 0 is an empty slot
 *
 * The rest of the digest is not compared: 96 bits are enough (claim.h).
 *
 * Invariants
 *   F1  Slots that are not empty are in the order of key, then of the digest's
 *       part of more.
 *   F2  No slot stands before its home; between home and slot none is empty.
 *   F3  Homes are below `count`; the TAIL behind takes what overflows.
 */
#include "store/memory/flat_claims.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define COUNT_MIN (UINT64_C(1) << 13)
#define COUNT_MAX UINT64_C(0xC0000000) /* homes are computed in 32 bits */
#define TAIL 4096u
#define TIME_MAX ((UINT64_C(1) << 48) - 1)
#define NUMBER_MAX ((UINT64_C(1) << 40) - 1)
#define VALUE_MAX ((UINT64_C(1) << 56) - 1)

/* Addresses for three billion claims; where so many are not to be had, half. */
#define RESERVE_MOST (UINT64_C(128) << 30)
#define RESERVE_LEAST (UINT64_C(1) << 30)

struct slot {
	uint64_t key;
	uint64_t more;
	uint64_t value;
	uint64_t time;
};

struct flat_claims {
	struct slot *slots;
	size_t reserved;  /* bytes of addresses … */
	size_t committed; /* … and of memory */
	uint64_t count;
	uint64_t used;
	uint64_t used_max;
	uint64_t forgotten;
	/* All that is a window before it may leave. */
	uint64_t horizon_ms;
	uint64_t least_ms;        /* of this run of events … */
	uint64_t least_before_ms; /* … and of the one before */
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

static bool slot_is_empty(const struct slot *slot)
{
	return (slot->time & 0xFFFF) == 0;
}

static uint64_t slot_window_ms(const struct flat_claims *claims, const struct slot *slot)
{
	return claims->windows_ms[slot->time & 0xFFFF];
}

static uint64_t home_of(const struct flat_claims *claims, uint64_t key)
{
	return (key >> 32) * claims->count >> 32;
}

static size_t bytes_of(uint64_t count)
{
	size_t bytes = (count + TAIL) * sizeof(struct slot);
	return (bytes + MEM_PAGE - 1) / MEM_PAGE * MEM_PAGE;
}

/* Memory for so many homes; zeroed where it is new. */
static int commit(struct flat_claims *claims, uint64_t count)
{
	size_t bytes = bytes_of(count);
	if (bytes <= claims->committed)
		return 0;
	char *start = (char *)claims->slots;
	if (count > COUNT_MAX || bytes > claims->reserved ||
	    !mem_commit(start + claims->committed, bytes - claims->committed))
		return -ENOMEM;
	if (bytes >= MEM_HUGE)
		mem_prefer_huge(start, bytes);
	claims->committed = bytes;
	return 0;
}

static void set_count(struct flat_claims *claims, uint64_t count)
{
	claims->count = count;
	claims->used_max = count / 4 * 3;
}

int flat_claims_new(struct flat_claims **ret_claims)
{
	struct flat_claims *claims = mem_zalloc(1, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	for (claims->reserved = RESERVE_MOST; !claims->slots; claims->reserved /= 2) {
		claims->slots = mem_reserve(claims->reserved);
		if (claims->slots || claims->reserved == RESERVE_LEAST)
			break;
	}
	if (!claims->slots || commit(claims, COUNT_MIN) != 0) {
		flat_claims_free(claims);
		return -ENOMEM;
	}
	set_count(claims, COUNT_MIN);
	claims->least_ms = TIME_MAX;
	*ret_claims = claims;
	return 0;
}

struct flat_claims *flat_claims_free(struct flat_claims *claims)
{
	if (claims)
		mem_unmap(claims->slots, claims->reserved);
	return mem_free(claims);
}

/* Before this key, as F1 has it. */
static bool is_less(const struct slot *slot, uint64_t key, uint64_t more)
{
	return slot->key < key || (slot->key == key && slot->more >> 32 < more >> 32);
}

static bool is_same(const struct slot *slot, uint64_t key, uint64_t more)
{
	return slot->key == key && slot->more >> 32 == more >> 32 && !slot_is_empty(slot);
}

/* Where the key is, or would be. */
static struct slot *seek(const struct flat_claims *claims, uint64_t key, uint64_t more)
{
	struct slot *slot = &claims->slots[home_of(claims, key)];
	while (!slot_is_empty(slot) && is_less(slot, key, more))
		slot++;
	return slot;
}

/* Makes room at a place that seek() found. */
static void push(struct flat_claims *claims, struct slot *slot)
{
	struct slot *end = slot;
	while (!slot_is_empty(end))
		end++;
	CHECK(end < claims->slots + claims->count + TAIL);
	memmove(slot + 1, slot, (size_t)(end - slot) * sizeof(*slot));
	claims->used++;
}

static bool has_left(const struct flat_claims *claims, const struct slot *slot)
{
	return slot_time_ms(slot) + slot_window_ms(claims, slot) <= claims->horizon_ms;
}

/* Moves what is live up against `end`, in its order; returns how many. */
static uint64_t pack(struct flat_claims *claims, struct slot *end)
{
	struct slot *to = end;
	for (struct slot *from = claims->slots + claims->count + TAIL; from-- > claims->slots;)
		if (!slot_is_empty(from) && !has_left(claims, from))
			*--to = *from;
	return (uint64_t)(end - to);
}

/* The other way round: from `from` to their places. It never overtakes itself: what
 * is still to come fits in behind. */
static void spread(struct flat_claims *claims, const struct slot *from, struct slot *end)
{
	struct slot *to = claims->slots;
	for (; from < end; from++) {
		struct slot moved = *from;
		struct slot *home = &claims->slots[home_of(claims, moved.key)];
		for (; to < home; to++)
			*to = (struct slot){ 0 };
		CHECK(to <= from);
		*to++ = moved;
	}
	memset(to, 0, (size_t)(end - to) * sizeof(*to));
}

static uint64_t count_live(const struct flat_claims *claims)
{
	uint64_t live = 0;
	for (uint64_t i = 0; i < claims->count + TAIL; i++)
		live += !slot_is_empty(&claims->slots[i]) && !has_left(claims, &claims->slots[i]);
	return live;
}

/* Half as much again, or, when enough of it has expired, the same or half. */
static uint64_t count_wanted(const struct flat_claims *claims, uint64_t live)
{
	if (live > claims->used_max / 3 * 2)
		return claims->count + claims->count / 2;
	if (live < claims->used_max / 8 && claims->count / 2 >= COUNT_MIN)
		return claims->count / 2;
	return claims->count;
}

static int sweep(struct flat_claims *claims)
{
	uint64_t old_count = claims->count;
	uint64_t live = count_live(claims);
	uint64_t count = count_wanted(claims, live);
	if (commit(claims, count) != 0)
		return -ENOMEM;
	uint64_t most = count > old_count ? count : old_count;
	struct slot *end = claims->slots + most + TAIL;
	uint64_t packed = pack(claims, end);
	CHECK(packed == live);
	set_count(claims, count);
	spread(claims, end - live, end);
	claims->forgotten += claims->used - live;
	claims->used = live;
	if (bytes_of(count) < claims->committed)
		mem_decommit((char *)claims->slots + bytes_of(count),
		             claims->committed - bytes_of(count));
	return 0;
}

/* Room for all claims of an event: by number, and in the tail (F3). */
static bool has_room(const struct flat_claims *claims)
{
	return claims->used + CLAIMS_MAX <= claims->used_max &&
	       slot_is_empty(&claims->slots[claims->count + TAIL - 1 - CLAIMS_MAX]);
}

void flat_claims_prefetch(const struct flat_claims *claims, const struct flat_event *event)
{
	for (uint32_t i = 0; i < event->claim_count; i++) {
		const struct slot *slot =
			&claims->slots[home_of(claims, event->claims[i].digest.word[0])];
		__builtin_prefetch(slot, 1);
		__builtin_prefetch(slot + 2, 1);
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

/* At the place that seek() found. */
static void put(struct flat_claims *claims, struct slot *slot, const struct claim *claim,
                const struct flat_event *event)
{
	struct slot what = slot_of(claim);
	uint64_t number = event->number < NUMBER_MAX ? event->number : NUMBER_MAX;
	uint64_t time_ms = event->time_ms < TIME_MAX ? event->time_ms : TIME_MAX;
	bool there = is_same(slot, what.key, what.more);
	/* An older event that passes cannot shorten what is remembered. */
	if (there && claim->kind == CLAIM_NEWEST && slot_time_ms(slot) > time_ms)
		time_ms = slot_time_ms(slot);
	if (!there)
		push(claims, slot);
	*slot = (struct slot){
		.key = what.key,
		.more = what.more >> 32 << 32 | (number & UINT32_MAX),
		.value = what.value << 8 | number >> 32,
		.time = time_ms << 16 | window_number(claims, claim->window_s),
	};
}

/* Does the slot that seek() found hold this claim at this time? */
static bool is_known(const struct flat_claims *claims, const struct slot *slot,
                     const struct claim *claim, uint64_t time_ms)
{
	uint64_t first_ms = slot_time_ms(slot);
	uint64_t window_ms = slot_window_ms(claims, slot);
	if (!is_same(slot, claim->digest.word[0], claim->digest.word[1]))
		return false;
	if (time_ms < first_ms)
		return claim->kind == CLAIM_NEWEST || first_ms - time_ms < window_ms;
	return time_ms - first_ms < window_ms;
}

/* What this claim alone says of the event. */
static enum verdict judge(const struct flat_claims *claims, const struct slot *slot,
                          const struct claim *claim, uint64_t time_ms)
{
	uint64_t value = slot->value >> 8;
	if (!is_known(claims, slot, claim, time_ms))
		return VERDICT_NEW;
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

static struct slot *seek_claim(const struct flat_claims *claims, const struct claim *claim)
{
	return seek(claims, claim->digest.word[0], claim->digest.word[1]);
}

/* The first time it is a conflict, then a duplicate of that. */
static struct flat_verdict answer_conflict(struct flat_claims *claims,
                                           const struct flat_event *event, uint32_t matched,
                                           const struct slot *first)
{
	struct claim aside = store_aside_claim(&event->claims[matched]);
	struct flat_verdict conflict = answer(VERDICT_CONFLICT, matched, first);
	struct slot *slot = seek_claim(claims, &aside);
	if (event->on_conflict == STORE_CONFLICT_REJECT)
		return conflict;
	if (is_known(claims, slot, &aside, event->time_ms))
		return answer(VERDICT_DUPLICATE, matched, slot);
	put(claims, slot, &aside, event);
	return conflict;
}

/* True: claim `i` drops the event. Else its bit is in `takes` if it is taken. */
static bool claim_drops(struct flat_claims *claims, const struct flat_event *event, uint32_t i,
                        struct flat_verdict *verdict, uint32_t *takes)
{
	const struct claim *claim = &event->claims[i];
	const struct slot *slot = seek_claim(claims, claim);
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
		*takes |= 1u << i;
		return false;
	}
	*verdict = conflict ? answer_conflict(claims, event, i, slot) : answer(found, i, slot);
	return true;
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
	struct flat_verdict verdict = { .verdict = VERDICT_NEW };
	uint32_t takes = 0;
	CHECK(event->claim_count <= CLAIMS_MAX);
	if (!has_room(claims) && sweep(claims) != 0)
		return -ENOMEM;
	note_time(claims, event->time_ms);
	for (uint32_t i = 0; i < event->claim_count; i++)
		if (claim_drops(claims, event, i, &verdict, &takes)) {
			*ret_verdict = verdict;
			return 0;
		}
	for (uint32_t i = 0; i < event->claim_count; i++)
		if (takes >> i & 1)
			put(claims, seek_claim(claims, &event->claims[i]), &event->claims[i],
			    event);
	verdict.passes = true;
	*ret_verdict = verdict;
	return 0;
}

struct flat_claims_stats flat_claims_get_stats(const struct flat_claims *claims)
{
	return (struct flat_claims_stats){
		.claims = claims->used,
		.forgotten = claims->forgotten,
		.bytes = bytes_of(claims->count) + sizeof(*claims),
	};
}
