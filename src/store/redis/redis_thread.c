/* redis_thread: the store's own thread, which brings operations to their shards. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/resp.h"
#include "gate/ticket.h"
#include "link/redis_client.h"
#include "store/redis/redis_internal.h"

#define GUARD_MS 1000u

/* ---- parts ---- */

struct redis_part *redis_part_get(struct redis_store *redis)
{
	struct redis_part *part = redis->free_parts;

	if (part)
		redis->free_parts = part->next;
	else
		part = mem_alloc(sizeof(*part));
	if (part)
		*part = (struct redis_part){ 0 };
	return part;
}

struct redis_part *redis_part_queue(struct redis_store *redis, uint32_t shard,
                                    enum redis_part_kind kind, struct store_op *op)
{
	struct redis_part *part = redis_part_get(redis);

	CHECK(shard < redis->shard_count);
	if (!part)
		return NULL;
	part->kind = kind;
	part->op = op;
	part_list_add(&redis->shards[shard].queue, part);
	return part;
}

/* ---- where an operation goes ---- */

_Static_assert(REDIS_SHARDS_MAX <= DIGEST_PLACES, "a place is in one shard");

uint32_t redis_shard_of_digest(const struct redis_store *redis, const struct digest *digest)
{
	return digest_place(digest) & (redis->shard_count - 1);
}

uint32_t redis_shard_of_ticket(const struct redis_store *redis, uint64_t ticket)
{
	return ticket_place(ticket) & (redis->shard_count - 1);
}

static uint32_t shard_of(struct redis_store *redis, const struct store_op *op)
{
	uint64_t ticket = 0;

	switch (op->kind) {
	case STORE_ADMIT: {
		const struct store_admit *admit = container_of(op, struct store_admit, op);
		return admit->claim_count > 0
		               ? redis_shard_of_digest(redis, &admit->claims[0].digest)
		               : redis->spread++ % redis->shard_count;
	}
	case STORE_LOOKUP:
		return redis_shard_of_digest(redis,
		                             &container_of(op, struct store_lookup, op)->digest);
	case STORE_CELL:
		return redis_shard_of_digest(redis,
		                             &container_of(op, struct store_cell, op)->cell.digest);
	case STORE_CELL_SCAN:
		return (uint32_t)container_of(op, struct store_cell_scan, op)->cursor.word[1] &
		       (redis->shard_count - 1);
	case STORE_SETTLE: ticket = container_of(op, struct store_settle, op)->ticket; break;
	case STORE_TAKE: ticket = container_of(op, struct store_take, op)->ticket; break;
	case STORE_RELEASE: ticket = container_of(op, struct store_release, op)->ticket; break;
	case STORE_NOTE: ticket = container_of(op, struct store_note, op)->ticket; break;
	case STORE_READ: ticket = container_of(op, struct store_read, op)->ticket; break;
	case STORE_RENEW: ticket = container_of(op, struct store_renew, op)->ticket; break;
	case STORE_SCAN:
	case STORE_HELD:
	case STORE_WAIT: break;
	}
	if (op->kind == (enum store_op_kind)REDIS_OP_ASK)
		ticket = container_of(op, struct redis_wait, ask)->ticket;
	return redis_shard_of_ticket(redis, ticket);
}

bool redis_answer_is_elsewhere(const struct redis_store *redis, const struct store_op *op)
{
	const struct store_settle *settle = container_of(op, const struct store_settle, op);

	return op->kind == STORE_SETTLE && settle->answer &&
	       redis_shard_of_digest(redis, &settle->answer->digest) !=
	               redis_shard_of_ticket(redis, settle->ticket);
}

/* ---- operations of all shards ---- */

/* Asks all shards; when all have answered, the operation is decoded and complete. */
static void gather_begin(struct redis_store *redis, struct store_op *op, enum redis_part_kind kind)
{
	struct redis_gather *gather =
		mem_zalloc(1, sizeof(*gather) + redis->shard_count * sizeof(gather->replies[0]));

	if (!gather) {
		redis_complete(redis, op, ERR_FULL);
		return;
	}
	for (uint32_t i = 0; i < redis->shard_count; i++) {
		struct redis_part *part = redis_part_queue(redis, i, kind, op);
		if (!part) {
			gather->error = ERR_FULL;
			continue;
		}
		part->ticket = redis->dead_keep_ms;
		part->shard = i;
		part->gather = gather;
		gather->missing++;
	}
	if (gather->missing == 0) {
		mem_free(gather);
		redis_complete(redis, op, ERR_FULL);
	}
}

void redis_gather_add(struct redis_store *redis, struct redis_part *part, int error,
                      struct span reply)
{
	struct redis_gather *gather = part->gather;
	struct store_op *op = part->op;
	struct buf *kept = &gather->replies[part->shard];

	CHECK(gather->missing > 0);
	if (error == 0)
		buf_append_span(kept, reply);
	if (error < 0 || kept->failed)
		gather->error = error < 0 ? error : kept->failed;
	if (--gather->missing > 0)
		return;
	error = part->kind == REDIS_PART_SWEEP
	                ? gather->error
	                : redis_decode_gathered(op, gather, redis->shard_count);
	for (uint32_t i = 0; i < redis->shard_count; i++)
		buf_free(&gather->replies[i]);
	mem_free(gather);
	redis_complete(redis, op, error);
}

/* ---- the guard ----
 *
 * Is the store still the one whose secret we use? A Redis that was emptied, or restarted without
 * its data, has lost that too, and the next gateway to start would make another: the same key
 * would then have two digests, and be new twice. So a gateway puts a lost secret back, and one
 * whose secret is not the store's decides nothing more. */

static void guard_answered(struct redis_call *call, int error, struct span reply);

static void guard_ask(struct redis_store *redis, bool puts)
{
	struct redis_call *call = &redis->guard_call;
	char name[REDIS_KEY_MAX];

	snprintf(name, sizeof(name), "%s:secret", redis->login.prefix);
	buf_clear(&call->arguments);
	resp_request_add(&call->arguments, puts ? SPAN("SETNX") : SPAN("GET"));
	resp_request_add(&call->arguments, span_str(name));
	if (puts)
		resp_request_add(&call->arguments, span_of(redis->key, sizeof(redis->key)));
	if (call->arguments.failed)
		return;
	call->slot = redis_slot_of(span_str(name));
	call->count = puts ? 3 : 2;
	call->writes = puts;
	call->done = guard_answered;
	call->user = redis;
	call->deadline_ms = loop_now_ms(redis->loop) + redis->login.timeout_ms;
	redis->guard_asks = true;
	redis_client_call(redis->client, call);
}

static void guard_answered(struct redis_call *call, int error, struct span reply)
{
	struct redis_store *redis = call->user;
	struct resp_reply value;
	size_t at = 0;

	redis->guard_asks = false;
	if (error || call->writes || !resp_reply_next(reply, &at, &value))
		return;
	if (value.kind == RESP_REPLY_TEXT) {
		bool foreign = !span_eq(value.text, span_of(redis->key, sizeof(redis->key)));
		if (foreign && !redis->foreign)
			log_error(
				"shared store was emptied or replaced: rejecting all requests until a restart");
		redis->foreign = foreign;
	} else if (value.kind == RESP_REPLY_NULL) {
		log_error("shared store lost its data: duplicates of earlier events pass as new");
		guard_ask(redis, true);
	}
}

static void guard_due(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, guard_timer);

	if (!redis->guard_asks && !redis->closing)
		guard_ask(redis, false);
	(void)!loop_timer_set(redis->loop, timer, GUARD_MS);
}

int redis_guard_begin(struct redis_store *redis)
{
	CHECK(!redis->thread.running);
	redis->guard_timer.due = guard_due;
	return loop_timer_set(redis->loop, &redis->guard_timer, GUARD_MS);
}

/* ---- in and out ---- */

void redis_complete(struct redis_store *redis, struct store_op *op, int error)
{
	op->error = error;
	op_queue_put(&redis->finished, op);
	redis->settled++;
}

void redis_op_queue(struct redis_store *redis, struct store_op *op)
{
	if (!redis_part_queue(redis, shard_of(redis, op), REDIS_PART_OP, op))
		redis_complete(redis, op, ERR_FULL);
}

static void op_receive(struct redis_store *redis, struct store_op *op)
{
	unsigned kind = op->kind;

	if (redis->foreign && (kind == STORE_ADMIT || kind == STORE_CELL || kind == STORE_LOOKUP)) {
		/* With another secret a digest means nothing in this store. */
		redis_complete(redis, op, ERR_AWAY);
	} else if (kind == REDIS_OP_CLOSE) {
		redis->closing = true;
		redis_leases_give_back(redis);
		gather_begin(redis, op, REDIS_PART_SWEEP);
	} else if (kind == REDIS_OP_SWEEP) {
		gather_begin(redis, op, REDIS_PART_SWEEP);
	} else if (kind == STORE_TAKE && container_of(op, struct store_take, op)->ticket == 0) {
		redis_takes_add(redis, container_of(op, struct store_take, op));
	} else if ((kind == STORE_SCAN || kind == STORE_HELD) && redis->shard_count > 1) {
		gather_begin(redis, op, REDIS_PART_GATHER);
	} else if (kind == STORE_ADMIT &&
	           redis_cross_begin(redis, container_of(op, struct store_admit, op))) {
		return;
	} else {
		redis_op_queue(redis, op);
	}
}

static void round_end(struct loop_hook *hook)
{
	struct redis_store *redis = container_of(hook, struct redis_store, hook);
	struct op_queue list;

	if (unlikely(atomic_load(&redis->hurry)) && !redis->hurried) {
		redis->hurried = true;
		redis_client_hurry(redis->client, loop_now_ms(redis->loop) + STORE_HURRY_MS);
	}
	op_queue_init(&list);
	pthread_mutex_lock(&redis->mutex);
	op_queue_move(&list, &redis->inbox);
	pthread_mutex_unlock(&redis->mutex);
	for (struct store_op *op = list.first, *next; op; op = next) {
		next = op->next;
		op_receive(redis, op);
	}
	for (uint32_t i = 0; i < redis->shard_count; i++)
		redis_shard_pump(&redis->shards[i], false);
	/* Then what is complete goes to the owner. */
	bool any = redis->finished.first != NULL;
	if (redis->settled == 0 && !any)
		return;
	pthread_mutex_lock(&redis->mutex);
	op_queue_move(&redis->outbox, &redis->finished);
	void (*written)(void *user) = redis->store.written;
	pthread_mutex_unlock(&redis->mutex);
	atomic_fetch_sub(&redis->pending, redis->settled);
	redis->settled = 0;
	wake_event_set(&redis->wake);
	if (any && written)
		written(redis->store.written_user);
}

void redis_thread_run(void *user)
{
	struct redis_store *redis = user;

	redis->hook.round = round_end;
	loop_hook_add(redis->loop, &redis->hook);
	loop_run(redis->loop);
	loop_hook_remove(redis->loop, &redis->hook);
}
