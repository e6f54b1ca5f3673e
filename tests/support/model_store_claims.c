/* model_store_claims: see model_store_claims.h. */
#include "support/model_store_claims.h"

#include <errno.h>

#include "base/mem.h"
#include "gate/ticket.h"
#include "store/store.h"

#define BUCKETS_FIRST 1024u
#define SWEEP_BUCKETS 4096u

struct model_claims {
	struct taken_claim **buckets;
	size_t bucket_count; /* a power of two */
	size_t sweep_at;
	uint64_t live;     /* claims, */
	uint64_t entities; /* and entities */
	uint64_t expired;
	uint64_t bytes;
};

int model_claims_new(struct model_claims **ret_claims)
{
	struct model_claims *claims = mem_zalloc(1, sizeof(*claims));

	if (!claims)
		return -ENOMEM;
	claims->buckets = mem_zalloc(BUCKETS_FIRST, sizeof(struct taken_claim *));
	if (!claims->buckets) {
		mem_free(claims);
		return -ENOMEM;
	}
	claims->bucket_count = BUCKETS_FIRST;
	*ret_claims = claims;
	return 0;
}

static void event_drop(struct model_claims *claims, struct taken_event *event)
{
	CHECK(event->refs > 0);
	if (--event->refs == 0) {
		mem_free(event);
		claims->bytes -= sizeof(*event);
	}
}

static struct taken_claim **bucket_of(struct model_claims *claims, const struct digest *digest)
{
	return &claims->buckets[digest->word[0] & (claims->bucket_count - 1)];
}

static uint64_t *live_count(struct model_claims *claims, const struct taken_claim *taken)
{
	return taken->newest ? &claims->entities : &claims->live;
}

static void claim_drop(struct model_claims *claims, struct taken_claim **at)
{
	struct taken_claim *taken = *at;

	*at = taken->next;
	event_drop(claims, taken->event);
	--*live_count(claims, taken);
	mem_free(taken);
	claims->bytes -= sizeof(*taken);
	claims->expired++;
}

static void bucket_expire(struct model_claims *claims, struct taken_claim **at, uint64_t now_ms)
{
	while (*at) {
		if ((*at)->expires_ms <= now_ms)
			claim_drop(claims, at);
		else
			at = &(*at)->next;
	}
}

struct model_claims *model_claims_free(struct model_claims *claims)
{
	if (!claims)
		return NULL;
	for (size_t i = 0; i < claims->bucket_count; i++)
		bucket_expire(claims, &claims->buckets[i], UINT64_MAX);
	mem_free(claims->buckets);
	return mem_free(claims);
}

struct taken_claim *model_claims_find(struct model_claims *claims, const struct digest *digest,
                                      bool newest, uint64_t now_ms)
{
	struct taken_claim **at = bucket_of(claims, digest);

	bucket_expire(claims, at, now_ms);
	for (struct taken_claim *taken = *at; taken; taken = taken->next)
		if (taken->newest == newest && digest_same_key(&taken->digest, digest))
			return taken;
	return NULL;
}

/* A failed growth only makes the chains longer. */
static void buckets_grow(struct model_claims *claims)
{
	size_t old_count = claims->bucket_count;
	struct taken_claim **old = claims->buckets;
	struct taken_claim **grown = mem_zalloc(old_count * 2, sizeof(struct taken_claim *));

	if (!grown)
		return;
	claims->buckets = grown;
	claims->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct taken_claim *taken = old[i];
			struct taken_claim **at = bucket_of(claims, &taken->digest);
			old[i] = taken->next;
			taken->next = *at;
			*at = taken;
		}
	}
	mem_free(old);
	claims->bytes += old_count * sizeof(struct taken_claim *);
}

int model_claims_prepare(uint32_t count, struct taken_parts *ret_parts)
{
	CHECK(count <= CLAIMS_MAX);
	struct taken_parts parts = { .event = mem_zalloc(1, sizeof(struct taken_event)) };
	bool whole = parts.event != NULL;

	for (uint32_t i = 0; i < count && whole; i++) {
		parts.claims[i] = mem_zalloc(1, sizeof(struct taken_claim));
		whole = parts.claims[i] != NULL;
	}
	if (!whole) {
		model_claims_unprepare(&parts);
		return -ENOMEM;
	}
	*ret_parts = parts;
	return 0;
}

void model_claims_unprepare(struct taken_parts *parts)
{
	mem_free(parts->event);
	for (size_t i = 0; i < CLAIMS_MAX; i++)
		mem_free(parts->claims[i]);
}

/* Nine significant bits, rounded up, as the index of the local store keeps it
 * (local/table.h): all stores give the same verdicts. */
static uint64_t window_kept_s(uint64_t window_s)
{
	unsigned bits = 64u - (unsigned)__builtin_clzll(window_s | 1);
	unsigned shift = bits > 9 ? bits - 9 : 0;
	uint64_t below = (UINT64_C(1) << shift) - 1;

	return (window_s + below) & ~below;
}

/* A claim that changes hands is kept at least as long as it was going to be. */
static uint64_t window_after_s(const struct claim *claim, const struct taken_claim *taken,
                               uint64_t from_ms)
{
	uint64_t left_ms = taken->expires_ms - from_ms;
	uint64_t left_s = left_ms / 1000 + (left_ms % 1000 != 0);

	if (taken->expires_ms <= from_ms || left_s < claim->window_s)
		return claim->window_s;
	return left_s < UINT32_MAX ? left_s : UINT32_MAX;
}

/* A claim that nobody has: `*fresh` is used. */
static struct taken_claim *claim_add(struct model_claims *claims, struct taken_claim **fresh,
                                     const struct claim *claim)
{
	struct taken_claim **at = bucket_of(claims, &claim->digest);
	struct taken_claim *taken = TAKE(*fresh);

	taken->newest = claim->kind == CLAIM_NEWEST;
	taken->next = *at;
	*at = taken;
	claims->bytes += sizeof(*taken);
	++*live_count(claims, taken);
	return taken;
}

/* The event has the claim from now on, whoever had it; `fresh` is used if nobody
 * had. */
static void claim_put(struct model_claims *claims, struct taken_claim **fresh,
                      struct taken_event *event, const struct claim *claim, uint64_t now_ms)
{
	struct taken_claim *taken = model_claims_find(claims, &claim->digest,
	                                              claim->kind == CLAIM_NEWEST, now_ms);
	uint64_t from_ms = ticket_time_ms(event->ticket);
	uint64_t window_s = claim->window_s;

	event->refs++;
	if (taken) {
		window_s = window_after_s(claim, taken, from_ms);
		event_drop(claims, taken->event);
	} else {
		taken = claim_add(claims, fresh, claim);
	}
	taken->digest = claim->digest;
	taken->event = event;
	taken->order = claim->order;
	taken->expires_ms = from_ms + window_kept_s(window_s) * 1000;
}

void model_claims_put(struct model_claims *claims, struct taken_parts *parts, uint64_t ticket,
                      const struct claim *list, uint32_t count, uint64_t now_ms)
{
	struct taken_event *event = TAKE(parts->event);

	event->refs = 1; /* ours: without claims it is gone at the end */
	event->ticket = ticket;
	claims->bytes += sizeof(*event);
	for (uint32_t i = 0; i < count; i++)
		claim_put(claims, &parts->claims[i], event, &list[i], now_ms);
	event_drop(claims, event);
	if (claims->live + claims->entities > claims->bucket_count)
		buckets_grow(claims);
}

void model_claims_sweep(struct model_claims *claims, uint64_t now_ms)
{
	for (size_t i = 0; i < SWEEP_BUCKETS && i < claims->bucket_count; i++) {
		claims->sweep_at = (claims->sweep_at + 1) & (claims->bucket_count - 1);
		bucket_expire(claims, &claims->buckets[claims->sweep_at], now_ms);
	}
}

uint64_t model_claims_count(const struct model_claims *claims)
{
	return claims->live;
}

uint64_t model_claims_entities(const struct model_claims *claims)
{
	return claims->entities;
}

uint64_t model_claims_expired(const struct model_claims *claims)
{
	return claims->expired;
}

uint64_t model_claims_bytes(const struct model_claims *claims)
{
	return claims->bytes;
}
