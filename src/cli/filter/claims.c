/*
 * claims: see claims.h.
 *
 * The table is an array of slots with linear probing. It grows, and forgets expired
 * claims, only by a copy into a new table; so no slot is ever emptied. A slot, 32 bytes:
 *
 *   key    the first word of the digest
 *   more   the next 32 bits of the digest above, the number's low 32 bits below
 *   value  check or order of the claim (56 bits), then the number's top 8 bits
 *   time   48 bits of milliseconds, then which window: 1 …, or 0 for a free slot
 *
 * The rest of the digest is not compared: 96 bits are enough (claim.h).
 *
 * Invariants
 *   C1  A claim is in its home or behind it, counted in a circle, with no free slot
 *       between.
 *   C2  At most three quarters of the slots are used; a new table is half full, unless
 *       it has the smallest size.
 */
#include "cli/filter/claims.h"

#include "base/error.h"
#include "base/mem.h"

#define SLOTS_MIN 4096u
#define SLOTS_PAGE (MEM_PAGE / sizeof(struct slot))
#define WINDOWS_MAX 1024u /* different ones; a recipe has far fewer */
#define TIME_MAX ((UINT64_C(1) << 48) - 1)
#define NUMBER_MAX ((UINT64_C(1) << 40) - 1)
#define VALUE_MAX ((UINT64_C(1) << 56) - 1)

struct slot {
	uint64_t key;
	uint64_t more;
	uint64_t value;
	uint64_t time;
};

struct filter_claims {
	struct slot *slots;
	uint64_t count; /* of slots; below 1 << 32 */
	uint64_t used;
	uint64_t forgotten;
	uint64_t horizon_ms;      /* claims that end before it may be forgotten */
	uint64_t least_ms;        /* earliest time of the present run of events … */
	uint64_t least_before_ms; /* … and of the run before */
	uint32_t run;             /* events in the present run */
	uint32_t window_count;
	uint64_t windows_ms[WINDOWS_MAX + 1]; /* from 1 */
};

static bool is_free(const struct slot *slot)
{
	return (slot->time & 0xFFFF) == 0;
}

static uint64_t slot_time_ms(const struct slot *slot)
{
	return slot->time >> 16;
}

static uint64_t slot_window_ms(const struct filter_claims *claims, const struct slot *slot)
{
	return claims->windows_ms[slot->time & 0xFFFF];
}

/* ---- the table ---- */

/* The slot of the key, or the free one where it belongs. Homes are in the order of the
 * keys, so that a copy of the table writes forwards too. */
static struct slot *find(struct slot *slots, uint64_t count, uint64_t key, uint64_t more)
{
	struct slot *slot = &slots[(key >> 32) * count >> 32];
	while (!is_free(slot) && (slot->key != key || (slot->more ^ more) >> 32 != 0))
		if (++slot == slots + count)
			slot = slots;
	return slot;
}

static struct slot *find_claim(const struct filter_claims *claims, const struct claim *claim)
{
	const uint64_t *word = claim->digest.word;
	return find(claims->slots, claims->count, word[0], word[1]);
}

static bool is_live(const struct filter_claims *claims, const struct slot *slot)
{
	return !is_free(slot) &&
	       slot_time_ms(slot) + slot_window_ms(claims, slot) > claims->horizon_ms;
}

/* A table that is half full of the claims that are not expired. */
static int resize(struct filter_claims *claims)
{
	const struct slot *end = claims->slots + claims->count;
	uint64_t live = 0;
	for (const struct slot *slot = claims->slots; slot < end; slot++)
		live += is_live(claims, slot);
	uint64_t count = (live * 2 / SLOTS_PAGE + 1) * SLOTS_PAGE;
	count = count > SLOTS_MIN ? count : SLOTS_MIN;
	struct slot *slots = count <= UINT32_MAX ? mem_map(count * sizeof(*slots)) : NULL;
	if (!slots)
		return -ENOMEM;
	for (const struct slot *slot = claims->slots; slot < end; slot++)
		if (is_live(claims, slot))
			*find(slots, count, slot->key, slot->more) = *slot;
	mem_unmap(claims->slots, claims->count * sizeof(*slots));
	claims->slots = slots;
	claims->count = count;
	claims->forgotten += claims->used - live;
	claims->used = live;
	return 0;
}

int filter_claims_new(struct filter_claims **ret_claims)
{
	struct filter_claims *claims = mem_zalloc(1, sizeof(*claims));
	if (!claims || resize(claims) != 0) {
		filter_claims_free(claims);
		return -ENOMEM;
	}
	claims->least_ms = TIME_MAX;
	*ret_claims = claims;
	return 0;
}

struct filter_claims *filter_claims_free(struct filter_claims *claims)
{
	if (claims)
		mem_unmap(claims->slots, claims->count * sizeof(struct slot));
	return mem_free(claims);
}

struct filter_claims_stats filter_claims_get_stats(const struct filter_claims *claims)
{
	return (struct filter_claims_stats){
		.claims = claims->used,
		.forgotten = claims->forgotten,
		.bytes = claims->count * sizeof(struct slot) + sizeof(*claims),
	};
}

/* ---- decisions ---- */

static uint64_t window_number(struct filter_claims *claims, uint32_t window_s)
{
	uint64_t ms = (uint64_t)window_s * 1000;
	for (uint32_t i = 1; i <= claims->window_count; i++)
		if (claims->windows_ms[i] == ms)
			return i;
	if (claims->window_count < WINDOWS_MAX)
		claims->windows_ms[++claims->window_count] = ms;
	return claims->window_count;
}

static void take(struct filter_claims *claims, const struct claim *claim,
                 const struct filter_event *event)
{
	struct slot *slot = find_claim(claims, claim);
	uint64_t number = event->number < NUMBER_MAX ? event->number : NUMBER_MAX;
	uint64_t time_ms = event->time_ms < TIME_MAX ? event->time_ms : TIME_MAX;
	uint64_t value = digest_check(&claim->digest);
	if (claim->kind == CLAIM_NEWEST) {
		value = claim->order;
		/* An older event that passes does not shorten how long it is remembered. */
		if (!is_free(slot) && slot_time_ms(slot) > time_ms)
			time_ms = slot_time_ms(slot);
	}
	CHECK(value <= VALUE_MAX);
	CHECK(claims->used < claims->count);
	claims->used += is_free(slot);
	*slot = (struct slot){
		.key = claim->digest.word[0],
		.more = claim->digest.word[1] >> 32 << 32 | (number & UINT32_MAX),
		.value = value << 8 | number >> 32,
		.time = time_ms << 16 | window_number(claims, claim->window_s),
	};
}

/* What this claim alone says of an event of this time. */
static enum verdict judge(const struct filter_claims *claims, const struct slot *slot,
                          const struct claim *claim, uint64_t time_ms)
{
	uint64_t first_ms = slot_time_ms(slot);
	bool earlier = time_ms < first_ms;
	bool newest = claim->kind == CLAIM_NEWEST;
	if (is_free(slot))
		return VERDICT_NEW;
	uint64_t apart_ms = earlier ? first_ms - time_ms : time_ms - first_ms;
	if (!(newest && earlier) && apart_ms >= slot_window_ms(claims, slot))
		return VERDICT_NEW;
	uint64_t value = slot->value >> 8;
	if (newest) {
		bool stale = claim->order < value || (claim->order == value && claim->equal_drops);
		return stale ? VERDICT_STALE : VERDICT_NEW;
	}
	return store_conflicts(claim, (uint32_t)value) ? VERDICT_CONFLICT : VERDICT_DUPLICATE;
}

static struct filter_verdict answer(enum verdict verdict, uint32_t matched, const struct slot *slot)
{
	return (struct filter_verdict){
		.verdict = verdict,
		.matched = matched,
		.first = (slot->more & UINT32_MAX) | (slot->value & 0xFF) << 32,
		.first_time_ms = slot_time_ms(slot),
	};
}

/* Other content under a known key that does not pass: a conflict the first time, then a
 * duplicate of that, if the source keeps the first. */
static struct filter_verdict answer_conflict(struct filter_claims *claims,
                                             const struct filter_event *event, uint32_t matched,
                                             const struct slot *first)
{
	struct filter_verdict conflict = answer(VERDICT_CONFLICT, matched, first);
	if (event->on_conflict == STORE_CONFLICT_REJECT)
		return conflict;
	struct claim aside = store_aside_claim(&event->claims[matched]);
	const struct slot *slot = find_claim(claims, &aside);
	if (judge(claims, slot, &aside, event->time_ms) != VERDICT_NEW)
		return answer(VERDICT_DUPLICATE, matched, slot);
	take(claims, &aside, event);
	return conflict;
}

static void note_time(struct filter_claims *claims, uint64_t time_ms)
{
	if (time_ms < claims->least_ms)
		claims->least_ms = time_ms;
	if (++claims->run < FILTER_CLAIMS_RECENT)
		return;
	claims->horizon_ms = claims->least_ms < claims->least_before_ms ? claims->least_ms
	                                                                : claims->least_before_ms;
	claims->least_before_ms = claims->least_ms;
	claims->least_ms = TIME_MAX;
	claims->run = 0;
}

int filter_claims_decide(struct filter_claims *claims, const struct filter_event *event,
                         struct filter_verdict *ret_verdict)
{
	CHECK(event->claim_count <= CLAIMS_MAX);
	if (claims->used + CLAIMS_MAX > claims->count / 4 * 3 && resize(claims) != 0)
		return -ENOMEM;
	note_time(claims, event->time_ms);
	struct filter_verdict verdict = { .verdict = VERDICT_NEW };
	enum verdict would = VERDICT_NONE;
	uint32_t takes = 0; /* a bit for each claim */
	for (uint32_t i = 0; i < event->claim_count; i++) {
		const struct claim *claim = &event->claims[i];
		const struct slot *slot = find_claim(claims, claim);
		enum verdict found = judge(claims, slot, claim, event->time_ms);
		bool conflict = found == VERDICT_CONFLICT;
		if (found == VERDICT_NEW) {
			takes |= 1u << i;
		} else if (claim->shadow) { /* whoever holds it keeps it */
			would = would == VERDICT_NONE ? found : would;
		} else if (conflict && event->on_conflict == STORE_CONFLICT_PASS) {
			if (verdict.verdict == VERDICT_NEW)
				verdict = answer(found, i, slot);
			takes |= 1u << i;
		} else {
			*ret_verdict = conflict ? answer_conflict(claims, event, i, slot)
			                        : answer(found, i, slot);
			return 0;
		}
	}
	for (uint32_t i = 0; i < event->claim_count; i++)
		if (takes >> i & 1)
			take(claims, &event->claims[i], event);
	verdict.would = would;
	verdict.passes = true;
	*ret_verdict = verdict;
	return 0;
}
