/*
 * redis_batch: a shard's calls of the script, one at a time. Everything that waits for the shard
 * goes into the next call, up to what the server should do at a stretch.
 */
#include "base/error.h"
#include "base/log.h"
#include "codec/resp.h"
#include "store/redis/redis_internal.h"
#include "sys/clock.h"

#define COUNTS_PARTS 8u
#define COUNTS_MS 20u
#define LINGER_LEAST 16u
#define BATCH_PARTS 1024u
#define BATCH_BYTES (1u << 20)

/* In the last element of an answer. */
enum room { ROOM_NONE = 1, ROOM_UNKNOWN = 2 };

/* ---- sending ---- */

/* Decisions in a row become one operation of the script. Takes join unless there are only
 * decisions: those make no ticket due. */
static void parts_choose(struct redis_shard *shard, bool poll)
{
	size_t bytes = 0;
	bool decided = false;

	while (shard->queue.head && shard->under_way.count < BATCH_PARTS && bytes < BATCH_BYTES) {
		struct redis_part *part = part_list_cut(&shard->queue);
		const struct store_op *op = part->op;
		part->only_decides = false;
		if (op && op->kind == STORE_ADMIT) {
			const struct store_admit *admit = container_of(op, struct store_admit, op);
			bytes += admit->payload.len;
			part->only_decides = part->kind == REDIS_PART_OP && admit->no_ticket;
		} else if (op && op->kind == STORE_CELL) {
			bytes += container_of(op, struct store_cell, op)->cell.value.len;
		} else if (op && op->kind == STORE_SETTLE) {
			const struct store_settle *settle = container_of(op, struct store_settle,
			                                                 op);
			bytes += settle->answer ? settle->answer->value.len : 0;
		}
		part->follows = decided && part->only_decides;
		decided = part->only_decides;
		poll |= !decided;
		part_list_add(&shard->under_way, part);
	}
	redis_takes_choose(shard, poll);
}

static void add_key(struct buf *out, const struct redis_shard *shard, const char *name)
{
	struct span parts[] = { span_str(shard->prefix), span_str(name) };

	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
}

static void answered(struct redis_call *call, int error, struct span reply);
static void queue_give_up(struct redis_shard *shard);

/* If a failover forgot a lease, another gateway would get it under the same attempt number. */
static bool has_taken(const struct redis_call *call, struct span reply)
{
	const struct redis_shard *shard = call->user;
	struct resp_reply value;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &value) || value.kind != RESP_REPLY_ARRAY)
		return false;
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next) {
		size_t items = at;
		if (part->kind == REDIS_PART_TAKE && resp_reply_next(reply, &items, &value) &&
		    value.kind == RESP_REPLY_ARRAY && value.number > 1)
			return true;
		resp_reply_skip(reply, &at);
	}
	return false;
}

static void batch_send(struct redis_shard *shard)
{
	const struct redis_store *redis = shard->redis;
	struct redis_call *call = &shard->call;
	struct buf *out = &call->arguments;
	uint64_t now_ms = loop_now_ms(redis->loop);

	CHECK(!shard->busy);
	buf_clear(out);
	/* The script gives back what an unanswered batch before this one leased. */
	call->writes = shard->heard != shard->batch;
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next)
		call->writes |= redis_part_writes(part);
	shard->batch++;
	call->wrote = has_taken;
	resp_request_add(out, SPAN("2"));
	add_key(out, shard, "m");
	add_key(out, shard, "!");
	/* The counts cost as much as some events: a large batch asks only if they are old. */
	bool counts = shard->under_way.count < COUNTS_PARTS || redis->fake_clock ||
	              now_ms >= shard->counted_ms + COUNTS_MS;
	uint64_t fake_ms = redis->fake_clock ? atomic_load(&redis->now_ms) : 0;
	uint64_t words[3] = { __builtin_bswap64(fake_ms), __builtin_bswap64(shard->batch),
		              __builtin_bswap64(shard->heard) };
	uint32_t halves[2] = { __builtin_bswap32(shard->number),
		               __builtin_bswap32(redis_ticket_step(redis)) };
	char head[33];
	memcpy(head, words, 24);
	memcpy(head + 24, halves, 8);
	head[32] = (char)((redis->fake_clock ? 1 : 0) | (call->writes ? 2 : 0) | (counts ? 4 : 0));
	resp_request_add(out, span_of(head, sizeof(head)));
	resp_request_add(out, span_of(redis->node, sizeof(redis->node)));
	call->count = 5;
	shard->answers = 0;
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next) {
		call->count += redis_encode(shard, part, out);
		shard->answers += !part->follows;
	}
	call->script = true;
	call->done = answered;
	call->user = shard;
	bool hurries = (redis->closing || redis->hurried) &&
	               redis->login.timeout_ms > STORE_HURRY_MS;
	call->deadline_ms = now_ms + (hurries ? STORE_HURRY_MS : redis->login.timeout_ms);
	shard->busy = true;
	shard->began_ns = clock_monotonic_ns();
	if (out->failed)
		answered(call, ERR_FULL, SPAN_EMPTY);
	else
		redis_client_call(redis->client, call);
}

void redis_linger_end(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, linger_timer);

	CHECK(redis->linger_timed);
	redis->linger_timed = false;
	for (uint32_t i = 0; i < redis->shard_count; i++)
		redis->shards[i].linger = 0; /* the end of the round sends what waits */
}

void redis_shard_pump(struct redis_shard *shard, bool poll)
{
	uint32_t queued = shard->queue.count;

	if (shard->busy || (!poll && queued > 0 && queued < shard->linger - shard->linger / 4))
		return;
	if (shard->redis->closing && shard->silent) { /* its leases end by themselves */
		queue_give_up(shard);
		return;
	}
	parts_choose(shard, poll);
	if (shard->under_way.count == 0)
		return;
	shard->linger = 0;
	batch_send(shard);
}

/* ---- answers ---- */

static void op_answered(struct redis_shard *shard, const struct redis_part *part, int error,
                        struct span reply)
{
	struct redis_store *redis = shard->redis;
	struct store_op *op = part->op;

	if (error == 0)
		error = redis_decode(shard, part, reply);
	op->error = error;
	redis_lease_follow(redis, op);
	if (part->kind == REDIS_PART_TAKE) {
		redis_take_answered(redis, part->taker, error);
	} else if (error == REDIS_RETRY && op->kind == STORE_ADMIT) {
		redis_cross_retry(redis, container_of(op, struct store_admit, op));
	} else if (error == 0 && redis_answer_is_elsewhere(redis, op)) {
		/* The outcome is recorded; now the answer that later callers get. */
		const struct store_settle *settle = container_of(op, struct store_settle, op);
		if (!redis_part_queue(redis, redis_shard_of_digest(redis, &settle->answer->digest),
		                      REDIS_PART_ANSWER, op))
			redis_complete(redis, op, 0);
	} else {
		redis_complete(redis, op, error);
	}
}

static void part_answered(struct redis_shard *shard, struct redis_part *part, int error,
                          struct span reply)
{
	struct redis_store *redis = shard->redis;
	const struct redis_lease *lease;
	struct resp_reply value;
	size_t at = 0;

	switch (part->kind) {
	case REDIS_PART_OP:
	case REDIS_PART_TAKE: op_answered(shard, part, error, reply); break;
	case REDIS_PART_GATHER:
	case REDIS_PART_SWEEP: redis_gather_add(redis, part, error, reply); break;
	case REDIS_PART_ANSWER: redis_complete(redis, part->op, error); break;
	case REDIS_PART_RESERVE:
	case REDIS_PART_DECIDE:
	case REDIS_PART_CONFIRM: redis_cross_answered(redis, part, error, reply); break;
	case REDIS_PART_RENEW: /* of the store's own */
		lease = error == 0 ? map_find(&redis->leases, &part->ticket) : NULL;
		if (lease && lease->attempt == part->attempt &&
		    resp_reply_next(reply, &at, &value) && value.number == ERR_FENCED)
			map_remove(&redis->leases, &part->ticket);
		break;
	case REDIS_PART_GIVE_BACK:
	case REDIS_PART_FORGET: break;
	}
	part->next = redis->free_parts;
	redis->free_parts = part;
}

/* One log line for all shards, when it begins and when it ends. */
static void trouble_set(struct redis_shard *shard, enum redis_trouble trouble, struct span answer)
{
	uint32_t *troubles = shard->redis->troubles;
	enum redis_trouble old = shard->trouble;

	if (trouble == old)
		return;
	shard->trouble = trouble;
	bool begins = trouble != REDIS_FINE && troubles[trouble]++ == 0;
	if (begins && trouble == REDIS_FULL)
		log_warn("redis is full: events are rejected, due events are still delivered");
	else if (begins)
		log_error("redis rejected a batch", log_span("answer", answer));
	if (old != REDIS_FINE && --troubles[old] == 0)
		log_info(old == REDIS_FULL ? "redis has room again"
		                           : "redis accepts batches again");
}

/* The last element of an answer. */
static void counts_read(struct redis_shard *shard, struct span reply, size_t at)
{
	_Atomic uint64_t *counts[] = {
		&shard->last,   &shard->open, &shard->leased, &shard->held,
		&shard->parked, &shard->dead, &shard->keys,   &shard->callers
	};
	struct resp_reply value;

	if (!resp_reply_next(reply, &at, &value) || value.text.len < 1)
		return;
	if (value.text.ptr[0] != ROOM_UNKNOWN)
		trouble_set(shard, value.text.ptr[0] == ROOM_NONE ? REDIS_FULL : REDIS_FINE,
		            SPAN_EMPTY);
	if (value.text.len != 1 + 8 * ARRAY_LEN(counts))
		return;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		atomic_store_explicit(counts[i], big_u64(value.text.ptr + 1 + 8 * i),
		                      memory_order_relaxed);
	atomic_store_explicit(&shard->node, shard->call.node, memory_order_relaxed);
	shard->counted_ms = loop_now_ms(shard->redis->loop);
}

/* After a batch that was not answered in time: else the queue would wait as long again. */
static void queue_give_up(struct redis_shard *shard)
{
	struct redis_part *part = shard->queue.head;

	part_list_init(&shard->queue);
	while (part) {
		struct redis_part *next = part->next;
		part_answered(shard, part, ERR_AWAY, SPAN_EMPTY);
		part = next;
	}
}

static void answered(struct redis_call *call, int error, struct span reply)
{
	struct redis_shard *shard = call->user;
	struct redis_store *redis = shard->redis;
	struct part_list parts = shard->under_way;
	struct resp_reply value = { 0 };
	size_t at = 0;

	CHECK(shard->busy);
	part_list_init(&shard->under_way);
	shard->silent = error == ERR_AWAY;
	if (error == 0) {
		shard->heard = shard->batch;
		if (!resp_reply_next(reply, &at, &value)) {
			error = ERR_INVALID;
		} else if (value.kind != RESP_REPLY_ARRAY ||
		           value.number != (int64_t)shard->answers + 1) {
			bool full = resp_reply_says(&value, SPAN("OOM"));
			error = full ? ERR_FULL : ERR_AWAY;
			atomic_fetch_add_explicit(&redis->io_errors, 1, memory_order_relaxed);
			trouble_set(shard, full ? REDIS_FULL : REDIS_REFUSES, value.text);
		}
	}
	if (error == 0 && call->writes) {
		uint64_t took_ns = clock_monotonic_ns() - shard->began_ns;
		histogram_record(redis->store.commit_us, took_ns / 1000);
		histogram_record(redis->store.commit_batch, parts.count);
		atomic_fetch_add_explicit(&redis->commits, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&redis->commit_ops, parts.count, memory_order_relaxed);
	}
	for (struct redis_part *part = parts.head, *next; part; part = next) {
		size_t from = at;
		next = part->next;
		if (error == 0 && !part->follows)
			resp_reply_skip(reply, &at);
		if (error == 0 && !next)
			counts_read(shard, reply, at);
		part_answered(shard, part, error, span_of(reply.ptr + from, at - from));
	}
	if (shard->silent)
		queue_give_up(shard);
	shard->busy = false;
	/*
	 * Senders that were answered together soon send more. The few operations that were queued
	 * while their batch was under way would be a batch of their own, which costs the server as
	 * much as a full one: so they wait for the others, a millisecond at most.
	 */
	if (error == 0) {
		bool waits = parts.count >= LINGER_LEAST && !redis->closing;
		/* All shards share the timer; it is not put off. */
		if (waits && !redis->linger_timed)
			redis->linger_timed = loop_timer_set(redis->loop, &redis->linger_timer,
			                                     1) == 0;
		waits &= redis->linger_timed;
		shard->linger = waits ? parts.count + shard->queue.count : 0;
	}
	redis_shard_pump(shard, false);
}
