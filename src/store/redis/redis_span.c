/*
 * redis_span: an event whose claims are in several shards.
 *
 * A script sees one shard. So the claims are taken in three steps, under a token of the
 * event:
 *
 *   1  Each other shard reserves those that it has, all or none, for REDIS_SPAN_LEASE_MS, and
 *      says what is there (P).
 *   2  The shard of the first claim, the home, decides with its own claims and what the
 *      others said, and opens the ticket (A). It refuses when half of the lease is over.
 *   3  The others are told what came of it: claims are taken, or given free (Q).
 *
 * Whoever meets a claim that somebody else has reserved tries again later, giving back what
 * it had: nobody waits with something in hand. The event is answered after the last step.
 *
 * When a gateway dies between, reservations end by themselves. Between 2 and 3 the home
 * keeps a mark (P u id): an event that then comes again, since its sender had no answer, is a
 * duplicate there, and its claims of the other shards are taken for the first one.
 *
 * A duplicate of an event by a claim of another shard is told as that, also if `busy` was
 * asked for: whether its ticket is open the home does not know.
 */
#include "base/error.h"
#include "base/mem.h"
#include "codec/resp_reply.h"
#include "store/redis/redis_internal.h"

#define ADMIT_TAKEN_AT 52u /* in the answer of an admit: what it took, met, heals */

static void span_free(struct redis_span *span)
{
	for (uint32_t i = 0; i < CLAIMS_MAX; i++) {
		buf_free(&span->met[i]);
		buf_free(&span->aside_met[i]);
	}
	mem_free(span);
}

static void span_finish(struct redis_store *redis, struct redis_span *span, int error)
{
	redis_complete(redis, &span->admit->op, error);
	span_free(span);
}

static struct redis_span *span_new(struct redis_store *redis, struct store_admit *admit)
{
	struct redis_span *span = mem_zalloc(1, sizeof(*span));

	if (!span)
		return NULL;
	uint64_t token;
	memcpy(&token, redis->node, sizeof(token));
	token += ++redis->spanned;
	memcpy(span->token, &token, sizeof(token));
	span->admit = admit;
	span->deadline_ms = loop_now_ms(redis->loop) + redis->login.timeout_ms;
	return span;
}

/* ---- steps ---- */

/* Is claim i the first of a shard that is not the home? */
static bool is_first_of_other(const struct redis_span *span, uint32_t i)
{
	if (span->shards[i] == span->home)
		return false;
	for (uint32_t before = 0; before < i; before++)
		if (span->shards[before] == span->shards[i])
			return false;
	return true;
}

static void part_send(struct redis_store *redis, struct redis_span *span, char letter,
                      uint32_t shard)
{
	struct redis_part *part = redis_part_get(redis);

	if (!part) {
		span->error = ERR_FULL;
		return;
	}
	part->letter = letter;
	part->span = span;
	part->attempt = shard;
	part->op = letter ? NULL : &span->admit->op;
	span->missing++;
	redis_part_queue(redis, shard, part);
}

static void reserve(struct redis_store *redis, struct redis_span *span)
{
	span->ends_ms = UINT64_MAX;
	span->again = false;
	span->error = 0;
	for (uint32_t i = 0; i < span->admit->claim_count; i++) {
		span->reserved[i] = false;
		if (is_first_of_other(span, i))
			part_send(redis, span, 'P', span->shards[i]);
	}
}

/* Tells the other shards; those that have reserved nothing for it need not know. */
static void tell(struct redis_store *redis, struct redis_span *span)
{
	for (uint32_t i = 0; i < span->admit->claim_count; i++)
		if (is_first_of_other(span, i) && span->reserved[i])
			part_send(redis, span, 'Q', span->shards[i]);
}

static void try_later(struct redis_store *redis, struct redis_span *span)
{
	uint64_t now_ms = loop_now_ms(redis->loop);
	uint64_t spread = ((uint64_t)(uintptr_t)span >> 6 ^ redis->spanned * 7) % 16;

	if (now_ms >= span->deadline_ms) {
		span_finish(redis, span, ERR_AWAY);
		return;
	}
	span->retry_at_ms = now_ms + 2 + spread * (span->tries < 4 ? span->tries : 4);
	span->tries++;
	span->next = redis->spans;
	redis->spans = span;
}

/* All answers of a step are there, and something was in the way. */
static void step_back(struct redis_store *redis, struct redis_span *span)
{
	memset(span->acts, REDIS_SPAN_NONE, sizeof(span->acts));
	span->ticket = 0;
	tell(redis, span);
	memset(span->reserved, 0, sizeof(span->reserved));
	if (span->missing > 0)
		return; /* goes on when they are told */
	if (span->again && span->error == 0)
		try_later(redis, span);
	else
		span_finish(redis, span, span->error);
}

/* ---- answers ---- */

static bool text_next(struct span reply, size_t *at, struct span *ret_text)
{
	struct resp_reply value;

	if (!resp_reply_next(reply, at, &value) || value.kind != RESP_REPLY_TEXT)
		return false;
	*ret_text = value.text;
	return true;
}

/* What a shard has of the claims that it reserved. */
static int reserved_read(struct redis_span *span, uint32_t shard, struct span reply)
{
	struct resp_reply whole;
	struct span text;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &whole))
		return ERR_INVALID;
	if (whole.kind == RESP_REPLY_NUMBER)
		return (int)whole.number;
	if (whole.kind != RESP_REPLY_ARRAY || !text_next(reply, &at, &text) || text.len != 8)
		return ERR_INVALID;
	uint64_t ends_ms = big_u64(text.ptr) - REDIS_SPAN_LEASE_MS / 2;
	if (ends_ms < span->ends_ms)
		span->ends_ms = ends_ms;
	for (uint32_t i = 0; i < span->admit->claim_count; i++) {
		struct span met, aside;
		if (span->shards[i] != shard)
			continue;
		if (!text_next(reply, &at, &met) || !text_next(reply, &at, &aside))
			return ERR_INVALID;
		buf_clear(&span->met[i]);
		buf_clear(&span->aside_met[i]);
		buf_append_span(&span->met[i], met);
		buf_append_span(&span->aside_met[i], aside);
		if (span->met[i].failed || span->aside_met[i].failed)
			return ERR_FULL;
		span->reserved[i] = true;
	}
	return 0;
}

static void note_trouble(struct redis_span *span, int error)
{
	if (error == REDIS_RETRY)
		span->again = true;
	else if (error < 0)
		span->error = error;
}

static void reserve_answered(struct redis_store *redis, struct redis_span *span, uint32_t shard,
                             int error, struct span reply)
{
	note_trouble(span, error < 0 ? error : reserved_read(span, shard, reply));
	if (span->missing > 0)
		return;
	if (!span->again && span->error == 0)
		part_send(redis, span, '\0', span->home);
	if (span->missing == 0)
		step_back(redis, span);
}

/* What each claim of another shard is to be told. */
static void acts_choose(struct redis_span *span, struct span text)
{
	unsigned taken = (unsigned char)text.ptr[ADMIT_TAKEN_AT];
	unsigned met = (unsigned char)text.ptr[ADMIT_TAKEN_AT + 1];
	bool heals = text.ptr[ADMIT_TAKEN_AT + 2] != 0;

	span->ticket = heals ? span->admit->ticket : span->admit->own_ticket;
	for (uint32_t i = 0; i < span->admit->claim_count; i++) {
		if (taken & 1u << i)
			span->acts[i] = REDIS_SPAN_TAKEN;
		else if (taken & 16u << i)
			span->acts[i] = REDIS_SPAN_ASIDE;
		else if (met == i + 1)
			span->acts[i] = REDIS_SPAN_MET;
		else if (met == i + 5)
			span->acts[i] = REDIS_SPAN_MET_CONFLICT;
		else if (heals && span->met[i].len == 0 && !span->admit->claims[i].shadow)
			span->acts[i] = REDIS_SPAN_TAKEN;
		else
			span->acts[i] = REDIS_SPAN_NONE;
	}
}

static void home_answered(struct redis_store *redis, struct redis_span *span, int error,
                          struct span reply)
{
	struct resp_reply value = { 0 };
	size_t at = 0;

	if (error == 0 && !resp_reply_next(reply, &at, &value))
		error = ERR_INVALID;
	if (error == 0 && value.kind == RESP_REPLY_NUMBER)
		error = value.number < 0 ? (int)value.number : ERR_INVALID;
	if (error == 0 && (value.kind != RESP_REPLY_TEXT || value.text.len < ADMIT_TAKEN_AT + 3))
		error = ERR_INVALID;
	note_trouble(span, error);
	if (error != 0) {
		step_back(redis, span);
		return;
	}
	redis_decode_admit(span->admit, value.text);
	acts_choose(span, value.text);
	tell(redis, span);
	if (span->missing == 0)
		span_finish(redis, span, span->error);
}

/* The home need not remember any more that the others are to be told. */
static void home_forget(struct redis_store *redis, const struct redis_span *span)
{
	struct redis_part *part = redis_part_get(redis);

	if (!part)
		return; /* it forgets by itself, later */
	part->letter = 'V';
	part->ticket = span->ticket;
	redis_part_queue(redis, span->home, part);
}

static void told(struct redis_store *redis, struct redis_span *span, int error, struct span reply)
{
	struct resp_reply value;
	size_t at = 0;

	note_trouble(span, error);
	if (error == 0 && resp_reply_next(reply, &at, &value) && value.number > 0)
		span->admit->seen = (uint64_t)value.number;
	if (span->missing > 0)
		return;
	if (span->again && span->error == 0) {
		try_later(redis, span);
		return;
	}
	if (span->ticket != 0 && span->error == 0)
		home_forget(redis, span);
	span_finish(redis, span, span->error);
}

void redis_span_answered(struct redis_store *redis, const struct redis_part *part, int error,
                         struct span reply)
{
	struct redis_span *span = part->span;

	CHECK(span->missing > 0);
	span->missing--;
	if (part->letter == 'P')
		reserve_answered(redis, span, part->attempt, error, reply);
	else if (part->letter == 'Q')
		told(redis, span, error, reply);
	else
		home_answered(redis, span, error, reply);
}

/* ---- beginning ---- */

bool redis_span_begin(struct redis_store *redis, struct store_admit *admit)
{
	uint32_t home = admit->claim_count ? redis_shard_of_digest(redis, &admit->claims[0].digest)
	                                   : 0;
	bool spans = false;

	for (uint32_t i = 1; i < admit->claim_count; i++)
		spans |= redis_shard_of_digest(redis, &admit->claims[i].digest) != home;
	if (!spans)
		return false;
	struct redis_span *span = span_new(redis, admit);
	if (!span) {
		redis_complete(redis, &admit->op, ERR_FULL);
		return true;
	}
	span->home = home;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		span->shards[i] = redis_shard_of_digest(redis, &admit->claims[i].digest);
	reserve(redis, span);
	if (span->missing == 0)
		span_finish(redis, span, ERR_FULL);
	return true;
}

void redis_span_again(struct redis_store *redis, struct store_admit *admit)
{
	struct redis_span *span = span_new(redis, admit);

	if (!span) {
		redis_complete(redis, &admit->op, ERR_AWAY);
		return;
	}
	span->simple = true;
	try_later(redis, span);
}

void redis_spans_look(struct redis_store *redis)
{
	uint64_t now_ms = loop_now_ms(redis->loop);
	struct redis_span *span = redis->spans;

	redis->spans = NULL;
	for (struct redis_span *next; span; span = next) {
		next = span->next;
		if (now_ms < span->retry_at_ms) {
			span->next = redis->spans;
			redis->spans = span;
		} else if (span->simple) {
			redis_op_queue(redis, &span->admit->op);
			span_free(span);
		} else {
			reserve(redis, span);
			if (span->missing == 0)
				span_finish(redis, span, ERR_FULL);
		}
	}
}
