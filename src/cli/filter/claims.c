/*
 * claims: see claims.h.
 *
 * Claims are slots in an array, in the order in which they were taken; an index with
 * linear probing finds them. A new claim costs one random access, to the index. Expired
 * claims are removed when the index is full: only then is it made anew.
 *
 * A slot, 32 bytes:
 *
 *   key    the first word of the digest
 *   more   the next 32 bits of the digest above, the number's low 32 bits below
 *   value  check or order of the claim (56 bits), then the number's top 8 bits
 *   time   48 bits of milliseconds, then which window (from 0)
 *
 * The rest of the digest is not compared: 96 bits are enough (claim.h).
 *
 * An entry of the index, 8 bytes: the low 32 bits of the key, then the number of the
 * slot, from 1. 0 is a free entry.
 *
 * Invariants
 *   C1  Each slot has one entry: at its home or behind it, counted in a circle, with no
 *       free entry between.
 *   C2  At most two thirds of the entries are used; a new index is one third full, unless
 *       it has the smallest size.
 */
#include "cli/filter/claims.h"

#include "base/error.h"
#include "base/mem.h"

#define INDEX_MIN 4096u
#define INDEX_PAGE (MEM_PAGE / sizeof(uint64_t))
#define SLOTS_STEP 1024u
#define AHEAD 16u         /* slots whose entries are fetched early */
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
	uint64_t used;
	uint64_t room; /* slots that have memory */
	uint64_t *index;
	uint64_t count; /* of entries; below 1 << 32 */
	uint64_t forgotten;
	uint64_t horizon_ms;      /* claims that end before it may be forgotten */
	uint64_t least_ms;        /* earliest time of the present run of events … */
	uint64_t least_before_ms; /* … and of the run before */
	uint32_t run;             /* events in the present run */
	uint32_t window_count;
	uint64_t windows_ms[WINDOWS_MAX];
};

static uint64_t slot_time_ms(const struct slot *slot)
{
	return slot->time >> 16;
}

static uint64_t slot_window_ms(const struct filter_claims *claims, const struct slot *slot)
{
	return claims->windows_ms[slot->time & 0xFFFF];
}

/* ---- the table ---- */

static uint64_t home_of(const struct filter_claims *claims, uint64_t key)
{
	return (key >> 32) * claims->count >> 32;
}

/* The claim's slot, or NULL. */
static struct slot *find(const struct filter_claims *claims, const struct claim *claim)
{
	uint64_t key = claim->digest.word[0];
	uint64_t more = claim->digest.word[1];
	for (uint64_t i = home_of(claims, key); claims->index[i] != 0;) {
		if ((claims->index[i] ^ key << 32) >> 32 == 0) {
			struct slot *slot = &claims->slots[(claims->index[i] & UINT32_MAX) - 1];
			if (slot->key == key && (slot->more ^ more) >> 32 == 0)
				return slot;
		}
		i = i + 1 < claims->count ? i + 1 : 0;
	}
	return NULL;
}

static void add_entry(struct filter_claims *claims, uint64_t number)
{
	uint64_t key = claims->slots[number].key;
	uint64_t i = home_of(claims, key);
	while (claims->index[i] != 0)
		i = i + 1 < claims->count ? i + 1 : 0;
	claims->index[i] = key << 32 | (number + 1);
}

static bool is_live(const struct filter_claims *claims, const struct slot *slot)
{
	return slot_time_ms(slot) + slot_window_ms(claims, slot) > claims->horizon_ms;
}

/* Removes the expired claims, and makes an index for three times those that are left. */
static int renew_index(struct filter_claims *claims)
{
	uint64_t live = 0;
	for (uint64_t i = 0; i < claims->used; i++)
		live += is_live(claims, &claims->slots[i]);
	uint64_t count = (live * 3 / INDEX_PAGE + 1) * INDEX_PAGE;
	count = count > INDEX_MIN ? count : INDEX_MIN;
	uint64_t *index = count <= UINT32_MAX ? mem_map(count * sizeof(*index)) : NULL;
	if (!index)
		return -ENOMEM;
	mem_unmap(claims->index, claims->count * sizeof(*index));
	claims->index = index;
	claims->count = count;
	uint64_t to = 0;
	for (uint64_t i = 0; i < claims->used; i++) {
		uint64_t ahead = i + AHEAD < claims->used ? i + AHEAD : i;
		__builtin_prefetch(&index[home_of(claims, claims->slots[ahead].key)], 1);
		if (!is_live(claims, &claims->slots[i]))
			continue;
		claims->slots[to] = claims->slots[i];
		add_entry(claims, to++);
	}
	CHECK(to == live);
	claims->forgotten += claims->used - live;
	claims->used = live;
	return 0;
}

/* For all claims of an event. */
static int make_room(struct filter_claims *claims)
{
	uint64_t wanted = claims->used + CLAIMS_MAX;
	if (wanted > claims->count / 3 * 2 && renew_index(claims) != 0)
		return -ENOMEM;
	if (wanted <= claims->room)
		return 0;
	uint64_t room = claims->room + claims->room / 8 + SLOTS_STEP;
	struct slot *slots = mem_realloc(claims->slots, room * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	claims->slots = slots;
	claims->room = room;
	return 0;
}

int filter_claims_new(struct filter_claims **ret_claims)
{
	struct filter_claims *claims = mem_zalloc(1, sizeof(*claims));
	if (!claims || make_room(claims) != 0) {
		filter_claims_free(claims);
		return -ENOMEM;
	}
	claims->least_ms = TIME_MAX;
	*ret_claims = claims;
	return 0;
}

struct filter_claims *filter_claims_free(struct filter_claims *claims)
{
	if (claims) {
		mem_free(claims->slots);
		mem_unmap(claims->index, claims->count * sizeof(*claims->index));
	}
	return mem_free(claims);
}

struct filter_claims_stats filter_claims_get_stats(const struct filter_claims *claims)
{
	return (struct filter_claims_stats){
		.claims = claims->used,
		.forgotten = claims->forgotten,
		.bytes = claims->room * sizeof(struct slot) +
		         claims->count * sizeof(*claims->index) + sizeof(*claims),
	};
}

/* ---- decisions ---- */

static uint64_t window_number(struct filter_claims *claims, uint32_t window_s)
{
	uint64_t ms = (uint64_t)window_s * 1000;
	for (uint32_t i = 0; i < claims->window_count; i++)
		if (claims->windows_ms[i] == ms)
			return i;
	if (claims->window_count < WINDOWS_MAX)
		claims->windows_ms[claims->window_count++] = ms;
	return claims->window_count - 1;
}

static void take(struct filter_claims *claims, const struct claim *claim,
                 const struct filter_event *event)
{
	struct slot *slot = find(claims, claim);
	uint64_t number = event->number < NUMBER_MAX ? event->number : NUMBER_MAX;
	uint64_t time_ms = event->time_ms < TIME_MAX ? event->time_ms : TIME_MAX;
	uint64_t value = digest_check(&claim->digest);
	if (claim->kind == CLAIM_NEWEST) {
		value = claim->order;
		/* An older event that passes does not shorten how long it is remembered. */
		if (slot && slot_time_ms(slot) > time_ms)
			time_ms = slot_time_ms(slot);
	}
	CHECK(value <= VALUE_MAX);
	bool added = slot == NULL;
	if (added) {
		CHECK(claims->used < claims->room);
		slot = &claims->slots[claims->used++];
	}
	*slot = (struct slot){
		.key = claim->digest.word[0],
		.more = claim->digest.word[1] >> 32 << 32 | (number & UINT32_MAX),
		.value = value << 8 | number >> 32,
		.time = time_ms << 16 | window_number(claims, claim->window_s),
	};
	if (added)
		add_entry(claims, claims->used - 1);
}

/* What this claim alone says of an event of this time. */
static enum verdict judge(const struct filter_claims *claims, const struct slot *slot,
                          const struct claim *claim, uint64_t time_ms)
{
	if (!slot)
		return VERDICT_NEW;
	uint64_t first_ms = slot_time_ms(slot);
	bool earlier = time_ms < first_ms;
	bool newest = claim->kind == CLAIM_NEWEST;
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
	const struct slot *slot = find(claims, &aside);
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
	if (make_room(claims) != 0)
		return -ENOMEM;
	note_time(claims, event->time_ms);
	/* Large tables are not in the caches: wait for all claims at once. */
	for (uint32_t i = 0; i < event->claim_count; i++)
		__builtin_prefetch(&claims->index[home_of(claims, event->claims[i].digest.word[0])],
		                   1);
	struct filter_verdict verdict = { .verdict = VERDICT_NEW };
	enum verdict would = VERDICT_NONE;
	uint32_t takes = 0; /* a bit for each claim */
	for (uint32_t i = 0; i < event->claim_count; i++) {
		const struct claim *claim = &event->claims[i];
		const struct slot *slot = find(claims, claim);
		enum verdict found = judge(claims, slot, claim, event->time_ms);
		bool conflict = found == VERDICT_CONFLICT;
		if (found == VERDICT_NEW) {
			takes |= 1u << i;
		} else if (claim->shadow) { /* its holder keeps it */
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
