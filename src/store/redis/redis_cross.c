/*
 * redis_cross: events whose claims are in several shards, and admits that are tried again.
 *
 * A script sees one shard. So a cross-shard admit takes its claims in three steps, under a
 * token of its own:
 *
 *   reserve   Each other shard reserves the claims that it has, all or none, for
 *             REDIS_CROSS_LEASE_MS, and answers what it knows of them.
 *   decide    The shard of the first claim, the home, decides with its own claims and those
 *             answers, and opens the ticket. It refuses when half of the lease has passed.
 *   confirm   The other shards hear the result: they record claims as taken, or free them.
 *
 * An admit that meets a claim that another has reserved frees its own reservations and tries
 * again later: no admit waits while it holds a reservation. The event is answered after the last step.
 *
 * When a gateway dies in between, its reservations expire. Between deciding and confirming the
 * home keeps a mark (P u id): if the event is sent again, since its sender had no answer, it is
 * a duplicate at the home, and its claims in the other shards are taken for the first one.
 *
 * A duplicate by a claim of another shard is answered as `duplicate`, also if `busy` was asked
 * for: the home does not know whether that ticket is open.
 */
#include "base/error.h"
#include "base/mem.h"
#include "codec/resp.h"
#include "store/redis/redis_internal.h"

#define ADMIT_TAKEN_AT 52u /* in the answer of an admit: claims taken, seen, and a bool: heals */

static void cross_free(struct redis_cross *cross)
{
	for (uint32_t i = 0; i < CLAIMS_MAX; i++) {
		buf_free(&cross->stored[i]);
		buf_free(&cross->aside_stored[i]);
	}
	mem_free(cross);
}

static void cross_finish(struct redis_store *redis, struct redis_cross *cross, int error)
{
	redis_complete(redis, &cross->admit->op, error);
	cross_free(cross);
}

/* NULL: no memory; then the admit is complete with `error`. */
static struct redis_cross *cross_new(struct redis_store *redis, struct store_admit *admit,
                                     int error)
{
	struct redis_cross *cross = mem_zalloc(1, sizeof(*cross));

	if (!cross) {
		redis_complete(redis, &admit->op, error);
		return NULL;
	}
	uint64_t token;
	memcpy(&token, redis->node, sizeof(token));
	token += ++redis->tokens;
	memcpy(cross->token, &token, sizeof(token));
	cross->admit = admit;
	cross->deadline_ms = loop_now_ms(redis->loop) + redis->login.timeout_ms;
	return cross;
}

/* ---- steps ---- */

/* Is claim i the first of a shard that is not the home? */
static bool is_first_of_other(const struct redis_cross *cross, uint32_t i)
{
	if (cross->shards[i] == cross->home)
		return false;
	for (uint32_t before = 0; before < i; before++)
		if (cross->shards[before] == cross->shards[i])
			return false;
	return true;
}

static void part_send(struct redis_store *redis, struct redis_cross *cross,
                      enum redis_part_kind kind, uint32_t shard)
{
	struct redis_part *part = redis_part_queue(redis, shard, kind,
	                                           kind == REDIS_PART_DECIDE ? &cross->admit->op
	                                                                     : NULL);

	if (!part) {
		cross->error = ERR_FULL;
		return;
	}
	part->cross = cross;
	part->shard = shard;
	cross->missing++;
}

static void reserve(struct redis_store *redis, struct redis_cross *cross)
{
	cross->ends_ms = UINT64_MAX;
	cross->again = false;
	cross->error = 0;
	for (uint32_t i = 0; i < cross->admit->claim_count; i++) {
		cross->reserved[i] = false;
		if (is_first_of_other(cross, i))
			part_send(redis, cross, REDIS_PART_RESERVE, cross->shards[i]);
	}
	if (cross->missing == 0)
		cross_finish(redis, cross, ERR_FULL);
}

/* To the other shards that have reserved something for it. */
static void confirm(struct redis_store *redis, struct redis_cross *cross)
{
	for (uint32_t i = 0; i < cross->admit->claim_count; i++)
		if (is_first_of_other(cross, i) && cross->reserved[i])
			part_send(redis, cross, REDIS_PART_CONFIRM, cross->shards[i]);
}

static void try_later(struct redis_store *redis, struct redis_cross *cross)
{
	uint64_t now_ms = loop_now_ms(redis->loop);
	uint64_t spread = ((uint64_t)(uintptr_t)cross >> 6 ^ redis->tokens * 7) % 16;

	if (now_ms >= cross->deadline_ms) {
		cross_finish(redis, cross, ERR_AWAY);
		return;
	}
	cross->retry_at_ms = now_ms + 2 + spread * (cross->tries < 4 ? cross->tries : 4);
	cross->tries++;
	cross->next = redis->retries;
	redis->retries = cross;
}

/* All answers of a step are there, and one was an error or a retry: frees what it reserved. */
static void step_back(struct redis_store *redis, struct redis_cross *cross)
{
	memset(cross->acts, REDIS_CROSS_NONE, sizeof(cross->acts));
	cross->ticket = 0;
	confirm(redis, cross);
	memset(cross->reserved, 0, sizeof(cross->reserved));
	if (cross->missing > 0)
		return; /* continues when they have answered */
	if (cross->again && cross->error == 0)
		try_later(redis, cross);
	else
		cross_finish(redis, cross, cross->error);
}

/* ---- answers ---- */

/* What a shard has of the claims that it reserved. */
static int reserved_read(struct redis_cross *cross, uint32_t shard, struct span reply)
{
	struct resp_reply whole;
	struct span text;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &whole))
		return ERR_INVALID;
	if (whole.kind == RESP_REPLY_NUMBER)
		return (int)whole.number;
	if (whole.kind != RESP_REPLY_ARRAY || !redis_text_next(reply, &at, &text) || text.len != 8)
		return ERR_INVALID;
	uint64_t ends_ms = big_u64(text.ptr) - REDIS_CROSS_LEASE_MS / 2;
	if (ends_ms < cross->ends_ms)
		cross->ends_ms = ends_ms;
	for (uint32_t i = 0; i < cross->admit->claim_count; i++) {
		struct span stored, aside;
		if (cross->shards[i] != shard)
			continue;
		if (!redis_text_next(reply, &at, &stored) || !redis_text_next(reply, &at, &aside))
			return ERR_INVALID;
		buf_clear(&cross->stored[i]);
		buf_clear(&cross->aside_stored[i]);
		buf_append_span(&cross->stored[i], stored);
		buf_append_span(&cross->aside_stored[i], aside);
		if (cross->stored[i].failed || cross->aside_stored[i].failed)
			return ERR_FULL;
		cross->reserved[i] = true;
	}
	return 0;
}

static void note_error(struct redis_cross *cross, int error)
{
	if (error == REDIS_RETRY)
		cross->again = true;
	else if (error < 0)
		cross->error = error;
}

/* What each claim of another shard is confirmed as. */
static void acts_choose(struct redis_cross *cross, struct span text)
{
	unsigned taken = (unsigned char)text.ptr[ADMIT_TAKEN_AT];
	unsigned seen = (unsigned char)text.ptr[ADMIT_TAKEN_AT + 1];
	bool heals = text.ptr[ADMIT_TAKEN_AT + 2] != 0;

	cross->ticket = heals ? cross->admit->ticket : cross->admit->own_ticket;
	for (uint32_t i = 0; i < cross->admit->claim_count; i++) {
		if (taken & 1u << i)
			cross->acts[i] = REDIS_CROSS_TAKEN;
		else if (taken & 16u << i)
			cross->acts[i] = REDIS_CROSS_ASIDE;
		else if (seen == i + 1)
			cross->acts[i] = REDIS_CROSS_SEEN;
		else if (seen == i + 5)
			cross->acts[i] = REDIS_CROSS_SEEN_CONFLICT;
		else if (heals && cross->stored[i].len == 0 && !cross->admit->claims[i].shadow)
			cross->acts[i] = REDIS_CROSS_TAKEN;
		else
			cross->acts[i] = REDIS_CROSS_NONE;
	}
}

static void home_answered(struct redis_store *redis, struct redis_cross *cross, int error,
                          struct span reply)
{
	struct span text;

	if (error == 0)
		error = redis_decode_admit(cross->admit, reply, &text);
	note_error(cross, error);
	if (error != 0) {
		step_back(redis, cross);
		return;
	}
	acts_choose(cross, text);
	confirm(redis, cross);
	if (cross->missing == 0)
		cross_finish(redis, cross, cross->error);
}

static void confirmed(struct redis_store *redis, struct redis_cross *cross, int error,
                      struct span reply)
{
	struct resp_reply value;
	size_t at = 0;

	note_error(cross, error);
	if (error == 0 && resp_reply_next(reply, &at, &value) && value.number > 0)
		cross->admit->seen = (uint64_t)value.number;
	if (cross->missing > 0)
		return;
	if (cross->again && cross->error == 0) {
		try_later(redis, cross);
		return;
	}
	struct redis_part *forget = NULL;
	if (cross->ticket != 0 && cross->error == 0)
		forget = redis_part_queue(redis, cross->home, REDIS_PART_FORGET, NULL);
	if (forget) /* without memory for it the mark expires later */
		forget->ticket = cross->ticket;
	cross_finish(redis, cross, cross->error);
}

void redis_cross_answered(struct redis_store *redis, const struct redis_part *part, int error,
                          struct span reply)
{
	struct redis_cross *cross = part->cross;

	CHECK(cross->missing > 0);
	cross->missing--;
	if (part->kind == REDIS_PART_CONFIRM) {
		confirmed(redis, cross, error, reply);
		return;
	}
	if (part->kind == REDIS_PART_DECIDE) {
		home_answered(redis, cross, error, reply);
		return;
	}
	note_error(cross, error < 0 ? error : reserved_read(cross, part->shard, reply));
	if (cross->missing > 0)
		return;
	if (!cross->again && cross->error == 0)
		part_send(redis, cross, REDIS_PART_DECIDE, cross->home);
	if (cross->missing == 0)
		step_back(redis, cross);
}

/* ---- beginning ---- */

bool redis_cross_begin(struct redis_store *redis, struct store_admit *admit)
{
	uint32_t home = admit->claim_count ? redis_shard_of_digest(redis, &admit->claims[0].digest)
	                                   : 0;
	bool several = false;

	CHECK(admit->claim_count <= CLAIMS_MAX);
	for (uint32_t i = 1; i < admit->claim_count; i++)
		several |= redis_shard_of_digest(redis, &admit->claims[i].digest) != home;
	if (!several)
		return false;
	struct redis_cross *cross = cross_new(redis, admit, ERR_FULL);
	if (!cross)
		return true;
	cross->home = home;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		cross->shards[i] = redis_shard_of_digest(redis, &admit->claims[i].digest);
	reserve(redis, cross);
	return true;
}

void redis_cross_retry(struct redis_store *redis, struct store_admit *admit)
{
	CHECK(admit->op.error == REDIS_RETRY);
	struct redis_cross *cross = cross_new(redis, admit, ERR_AWAY);
	if (!cross)
		return;
	cross->one_shard = true;
	try_later(redis, cross);
}

void redis_cross_poll(struct redis_store *redis)
{
	uint64_t now_ms = loop_now_ms(redis->loop);
	struct redis_cross *cross = redis->retries;

	redis->retries = NULL;
	for (struct redis_cross *next; cross; cross = next) {
		next = cross->next;
		if (now_ms < cross->retry_at_ms) {
			cross->next = redis->retries;
			redis->retries = cross;
		} else if (cross->one_shard) {
			redis_op_queue(redis, &cross->admit->op);
			cross_free(cross);
		} else {
			reserve(redis, cross);
		}
	}
}
