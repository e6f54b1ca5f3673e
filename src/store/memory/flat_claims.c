/*
 * flat_claims: see flat_claims.h.
 *
 * A slot, 32 bytes:
 *
 *   key    the first word of the digest; its top bits are the slot's place
 *   more   the next 32 bits of the digest above, the number's low 32 bits below
 *   value  what the kind remembers (check or order, 56 bits), the number's top 8
 *   time   48 bits of milliseconds, then which window: 1 …, 0 is an empty slot
 *
 * The rest of the digest is not compared: 96 bits are enough (claim.h).
 */
#include "store/memory/flat_claims.h"

#include "base/error.h"
#include "base/mem.h"

#define SLOTS_MIN (UINT64_C(1) << 13)
#define TIME_MAX ((UINT64_C(1) << 48) - 1)
#define NUMBER_MAX ((UINT64_C(1) << 40) - 1)
#define VALUE_MAX ((UINT64_C(1) << 56) - 1)

struct slot {
	uint64_t key;
	uint64_t more;
	uint64_t value;
	uint64_t time;
};

struct flat_claims {
	struct slot *slots;
	uint64_t mask; /* slots - 1 */
	unsigned shift;
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

/* Zeroed slots; NULL: no memory. */
static struct slot *map_slots(uint64_t count)
{
	struct slot *slots = mem_map(count * sizeof(*slots));
	if (slots && count * sizeof(*slots) >= MEM_HUGE)
		mem_prefer_huge(slots, count * sizeof(*slots));
	return slots;
}

static void set_slots(struct flat_claims *claims, struct slot *slots, uint64_t count)
{
	CHECK(count >= 2 && (count & (count - 1)) == 0);
	claims->slots = slots;
	claims->mask = count - 1;
	claims->shift = (unsigned)__builtin_clzll(count) + 1;
	claims->used_max = count / 8 * 5;
}

int flat_claims_new(struct flat_claims **ret_claims)
{
	struct flat_claims *claims = mem_zalloc(1, sizeof(*claims));
	struct slot *slots = map_slots(SLOTS_MIN);
	if (!claims || !slots) {
		mem_unmap(slots, SLOTS_MIN * sizeof(*slots));
		mem_free(claims);
		return -ENOMEM;
	}
	set_slots(claims, slots, SLOTS_MIN);
	claims->least_ms = TIME_MAX;
	*ret_claims = claims;
	return 0;
}

struct flat_claims *flat_claims_free(struct flat_claims *claims)
{
	if (claims)
		mem_unmap(claims->slots, (claims->mask + 1) * sizeof(struct slot));
	return mem_free(claims);
}

/* The slot of this key, or the empty one where it would be. */
static struct slot *find(const struct flat_claims *claims, uint64_t key, uint64_t more)
{
	for (uint64_t i = key >> claims->shift;; i++) {
		struct slot *slot = &claims->slots[i & claims->mask];
		if (slot_is_empty(slot) || (slot->key == key && slot->more >> 32 == more >> 32))
			return slot;
	}
}

static bool has_left(const struct flat_claims *claims, const struct slot *slot)
{
	return slot_time_ms(slot) + slot_window_ms(claims, slot) <= claims->horizon_ms;
}

static uint64_t count_live(const struct flat_claims *claims)
{
	uint64_t live = 0;
	for (uint64_t i = 0; i <= claims->mask; i++)
		live += !slot_is_empty(&claims->slots[i]) && !has_left(claims, &claims->slots[i]);
	return live;
}

/* Twice the size, or, when enough of it has expired, the same or half. */
static int sweep(struct flat_claims *claims)
{
	struct flat_claims old = *claims;
	uint64_t old_count = old.mask + 1;
	uint64_t live = count_live(claims);
	uint64_t count = live > old.used_max / 2 ? 2 * old_count : old_count;
	if (live < old.used_max / 8 && old_count > SLOTS_MIN)
		count = old_count / 2;
	struct slot *slots = map_slots(count);
	if (!slots)
		return -ENOMEM;
	set_slots(claims, slots, count);
	for (uint64_t i = 0; i < old_count; i++) {
		const struct slot *slot = &old.slots[i];
		if (!slot_is_empty(slot) && !has_left(&old, slot))
			*find(claims, slot->key, slot->more) = *slot;
	}
	claims->used = live;
	claims->forgotten += old.used - live;
	CHECK(claims->used <= claims->used_max);
	mem_unmap(old.slots, old_count * sizeof(struct slot));
	return 0;
}

void flat_claims_prefetch(const struct flat_claims *claims, const struct flat_event *event)
{
	for (uint32_t i = 0; i < event->claim_count; i++) {
		uint64_t at = event->claims[i].digest.word[0] >> claims->shift;
		__builtin_prefetch(&claims->slots[at], 1);
		__builtin_prefetch(&claims->slots[(at + 2) & claims->mask], 1);
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

/* All that a claim leaves in its slot. */
static void put(struct flat_claims *claims, struct slot *slot, const struct slot *what,
                const struct flat_event *event, uint64_t time_ms, uint64_t window)
{
	uint64_t number = event->number < NUMBER_MAX ? event->number : NUMBER_MAX;
	claims->used += slot_is_empty(slot);
	*slot = (struct slot){
		.key = what->key,
		.more = what->more >> 32 << 32 | (number & UINT32_MAX),
		.value = what->value << 8 | number >> 32,
		.time = (time_ms < TIME_MAX ? time_ms : TIME_MAX) << 16 | window,
	};
}

/* Key and value of a claim as a slot has them, but for the number. */
static struct slot slot_of(const struct claim *claim, uint32_t check)
{
	CHECK(claim->order <= VALUE_MAX);
	return (struct slot){
		.key = claim->digest.word[0],
		.more = claim->digest.word[1],
		.value = claim->kind == CLAIM_NEWEST ? claim->order : check,
	};
}

static bool is_known(const struct flat_claims *claims, const struct slot *slot,
                     const struct claim *claim, uint64_t time_ms)
{
	uint64_t first_ms = slot_time_ms(slot);
	uint64_t window_ms = slot_window_ms(claims, slot);
	if (slot_is_empty(slot))
		return false;
	if (time_ms < first_ms)
		return claim->kind == CLAIM_NEWEST || first_ms - time_ms < window_ms;
	return time_ms - first_ms < window_ms;
}

static enum verdict judge(const struct flat_claims *claims, const struct slot *slot,
                          const struct claim *claim, const struct flat_event *event)
{
	uint64_t value = slot->value >> 8;
	if (!is_known(claims, slot, claim, event->time_ms))
		return VERDICT_NONE;
	switch (claim->kind) {
	case CLAIM_NEWEST:
		if (claim->order < value || (claim->order == value && claim->equal_drops))
			return VERDICT_STALE;
		return VERDICT_NONE;
	case CLAIM_ONCE:
		if (value != 0 && event->check != 0 && value != event->check)
			return VERDICT_CONFLICT;
		return VERDICT_DUPLICATE;
	default: return VERDICT_DUPLICATE;
	}
}

/* A claim of its own: this key with this other content. */
static struct slot *find_conflict(const struct flat_claims *claims, const struct claim *claim,
                                  uint32_t check, struct slot *ret_what)
{
	struct slot what = slot_of(claim, check);
	what.key ^= (uint64_t)check * UINT64_C(0x9e3779b97f4a7c15);
	what.more ^= UINT64_C(0x5bd1e995) << 32;
	*ret_what = what;
	return find(claims, what.key, what.more);
}

/* The first time it is a conflict, then a duplicate of that. */
static void judge_conflict(struct flat_claims *claims, const struct claim *claim,
                           const struct flat_event *event, struct flat_verdict *verdict)
{
	struct slot what;
	struct slot *slot = find_conflict(claims, claim, event->check, &what);
	if (is_known(claims, slot, claim, event->time_ms)) {
		verdict->verdict = VERDICT_DUPLICATE;
		verdict->first = slot_number(slot);
		verdict->first_time_ms = slot_time_ms(slot);
		return;
	}
	put(claims, slot, &what, event, event->time_ms, window_number(claims, claim->window_s));
}

static void take(struct flat_claims *claims, const struct claim *claim,
                 const struct flat_event *event, bool over)
{
	struct slot what = slot_of(claim, event->check);
	struct slot *slot = find(claims, what.key, what.more);
	uint64_t time_ms = event->time_ms;
	if (is_known(claims, slot, claim, time_ms)) {
		/* Shadow: its first holder keeps it. */
		if (!over && judge(claims, slot, claim, event) != VERDICT_NONE)
			return;
		/* An older event that passes cannot shorten what is remembered. */
		if (claim->kind == CLAIM_NEWEST && slot_time_ms(slot) > time_ms)
			time_ms = slot_time_ms(slot);
	}
	put(claims, slot, &what, event, time_ms, window_number(claims, claim->window_s));
}

static void take_all(struct flat_claims *claims, const struct flat_event *event,
                     const struct flat_verdict *verdict)
{
	bool conflict = verdict->verdict == VERDICT_CONFLICT;
	for (uint32_t i = 0; i < event->claim_count; i++)
		take(claims, &event->claims[i], event, conflict && i == verdict->matched);
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

/* The first claim that drops the event; VERDICT_NONE: none does. */
static void judge_all(const struct flat_claims *claims, const struct flat_event *event,
                      struct flat_verdict *verdict)
{
	for (uint32_t i = 0; i < event->claim_count; i++) {
		const struct claim *claim = &event->claims[i];
		struct slot what = slot_of(claim, 0);
		const struct slot *slot = find(claims, what.key, what.more);
		enum verdict found = judge(claims, slot, claim, event);
		if (found == VERDICT_NONE)
			continue;
		if (claim->shadow) {
			if (verdict->would == VERDICT_NONE)
				verdict->would = found;
			continue;
		}
		verdict->verdict = found;
		verdict->matched = i;
		verdict->first = slot_number(slot);
		verdict->first_time_ms = slot_time_ms(slot);
		return;
	}
}

int flat_claims_decide(struct flat_claims *claims, const struct flat_event *event,
                       struct flat_verdict *ret_verdict)
{
	struct flat_verdict verdict = { .verdict = VERDICT_NONE };
	CHECK(event->claim_count <= CLAIMS_MAX);
	if (claims->used + CLAIMS_MAX > claims->used_max && sweep(claims) != 0)
		return -ENOMEM;
	note_time(claims, event->time_ms);
	judge_all(claims, event, &verdict);
	bool conflict = verdict.verdict == VERDICT_CONFLICT;
	verdict.passes = verdict.verdict == VERDICT_NONE || (conflict && event->conflict_passes);
	if (verdict.passes)
		take_all(claims, event, &verdict);
	else if (conflict)
		judge_conflict(claims, &event->claims[verdict.matched], event, &verdict);
	if (verdict.verdict == VERDICT_NONE)
		verdict.verdict = VERDICT_NEW;
	*ret_verdict = verdict;
	return 0;
}

struct flat_claims_stats flat_claims_get_stats(const struct flat_claims *claims)
{
	return (struct flat_claims_stats){
		.claims = claims->used,
		.forgotten = claims->forgotten,
		.bytes = (claims->mask + 1) * sizeof(struct slot) + sizeof(*claims),
	};
}
