/*
 * redis_batch: a shard's calls of the script, one at a time. All that waits goes in one, as
 * far as it is not too much for the server to do at a stretch.
 */
#include "base/error.h"
#include "base/log.h"
#include "codec/resp_reply.h"
#include "store/redis/redis_internal.h"
#include "sys/clock.h"

#define COUNTS_PARTS 8u
#define COUNTS_MS 20u
#define CROWD_LEAST 16u

/* Of the last element of an answer. */
enum room { ROOM_NONE = 1, ROOM_UNKNOWN = 2 };

/* ---- sending ---- */

static size_t part_bytes(const struct redis_part *part)
{
	if (part->op && part->op->kind == STORE_ADMIT)
		return container_of(part->op, struct store_admit, op)->payload.len;
	if (part->op && part->op->kind == STORE_CELL)
		return container_of(part->op, struct store_cell, op)->cell.value.len;
	if (part->op && part->op->kind == STORE_SETTLE) {
		const struct store_settle *settle = container_of(part->op, struct store_settle, op);
		return settle->answer ? settle->answer->value.len : 0;
	}
	return 0;
}

/* After which a take may have something: not after decisions alone. */
static bool makes_due(const struct redis_shard *shard)
{
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next)
		if (!part->decides)
			return true;
	return false;
}

static void parts_choose(struct redis_shard *shard, bool poll)
{
	size_t bytes = 0;

	while (shard->queue.head && shard->under_way.count < REDIS_BATCH_PARTS &&
	       bytes < REDIS_BATCH_BYTES) {
		bytes += part_bytes(shard->queue.head);
		part_list_add(&shard->under_way, part_list_cut(&shard->queue));
	}
	redis_decisions_find(shard);
	redis_takes_choose(shard, poll || makes_due(shard));
	redis_parcels_choose(shard);
}

static bool parts_write(const struct redis_shard *shard)
{
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next)
		if (redis_part_writes(part))
			return true;
	return false;
}

static void add_key(struct buf *out, const struct redis_shard *shard, const char *name)
{
	struct span parts[] = { span_str(shard->place), span_str(name) };

	resp_request_add_parts(out, parts, ARRAY_LEN(parts));
}

/* They cost as much as some events do: a large batch has them if they are old. */
static bool counts_wanted(const struct redis_shard *shard)
{
	return shard->under_way.count < COUNTS_PARTS || shard->redis->fake_clock ||
	       loop_now_ms(shard->redis->loop) >= shard->counted_ms + COUNTS_MS;
}

static void add_batch(struct buf *out, const struct redis_shard *shard, bool writes)
{
	const struct redis_store *redis = shard->redis;
	uint64_t now_ms = redis->fake_clock ? atomic_load(&redis->now_ms) : 0;
	uint32_t step = redis_ticket_step(redis);
	char head[33];
	uint64_t words[3] = { __builtin_bswap64(now_ms), __builtin_bswap64(shard->batch),
		              __builtin_bswap64(shard->heard) };
	uint32_t halves[2] = { __builtin_bswap32(shard->number), __builtin_bswap32(step) };

	memcpy(head, words, 24);
	memcpy(head + 24, halves, 8);
	head[32] = (char)((redis->fake_clock ? 1 : 0) | (writes ? 2 : 0) |
	                  (counts_wanted(shard) ? 4 : 0));
	resp_request_add(out, span_of(head, sizeof(head)));
	resp_request_add(out, span_of(redis->node, sizeof(redis->node)));
}

static void answered(struct redis_call *call, int error, struct span reply);
static void queue_give_up(struct redis_shard *shard);

/* A lease that a failover forgets would be given to another under the same number. */
static bool has_taken(const struct redis_call *call, struct span reply)
{
	const struct redis_shard *shard = call->user;
	struct resp_reply value;
	size_t at = 0;

	if (!resp_reply_next(reply, &at, &value) || value.kind != RESP_REPLY_ARRAY)
		return false;
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next) {
		size_t items = at;
		if (part->taker && resp_reply_next(reply, &items, &value) &&
		    value.kind == RESP_REPLY_ARRAY && value.number > 1)
			return true;
		resp_reply_skip(reply, &at);
	}
	return false;
}

static uint32_t patience_ms(const struct redis_store *redis)
{
	bool ends = redis->closing || redis->hurried;

	return ends && redis->login.timeout_ms > STORE_HURRY_MS ? STORE_HURRY_MS
	                                                        : redis->login.timeout_ms;
}

static void batch_send(struct redis_shard *shard)
{
	const struct redis_store *redis = shard->redis;
	struct redis_call *call = &shard->call;
	struct buf *out = &call->arguments;

	buf_clear(out);
	/* What one before has taken, of which nobody heard, is given back. */
	call->writes = parts_write(shard) || shard->heard != shard->batch;
	shard->batch++;
	call->wrote = has_taken;
	resp_request_add(out, SPAN("2"));
	add_key(out, shard, "m");
	add_key(out, shard, "!");
	add_batch(out, shard, call->writes);
	call->count = 5 + redis_encode_offers(shard, out);
	shard->answers = shard->offer_count;
	for (const struct redis_part *part = shard->under_way.head; part; part = part->next) {
		call->count += redis_encode(shard, part, out);
		shard->answers += !part->follows;
	}
	call->script = true;
	call->done = answered;
	call->user = shard;
	call->deadline_ms = loop_now_ms(redis->loop) + patience_ms(redis);
	shard->busy = true;
	shard->began_ns = clock_monotonic_ns();
	if (out->failed)
		answered(call, ERR_FULL, SPAN_EMPTY);
	else
		redis_client_call(redis->client, call);
}

/*
 * Many senders that were answered together soon have more to say. The few who came while
 * their batch was under way would be a batch of their own, which costs the server as much
 * as one of all: they wait for the others, a millisecond at most.
 */
static void crowd_begin(struct redis_shard *shard, uint32_t answered)
{
	struct redis_store *redis = shard->redis;

	shard->crowd = 0;
	if (answered < CROWD_LEAST || redis->closing)
		return;
	/* The timer of another shard does as well, and is not put off. */
	if (!redis->crowd_timed)
		redis->crowd_timed = loop_timer_set(redis->loop, &redis->crowd_timer, 1) == 0;
	if (redis->crowd_timed)
		shard->crowd = answered + shard->queue.count;
}

static bool crowd_is_missing(const struct redis_shard *shard)
{
	return shard->queue.count > 0 && shard->queue.count < shard->crowd - shard->crowd / 4;
}

void redis_crowd_over(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, crowd_timer);

	redis->crowd_timed = false;
	for (uint32_t i = 0; i < redis->shard_count; i++)
		redis->shards[i].crowd = 0; /* the round's end sends what waits */
}

void redis_shard_pump(struct redis_shard *shard, bool poll)
{
	if (shard->busy || (!poll && crowd_is_missing(shard)))
		return;
	if (shard->redis->closing && shard->silent) { /* leases that are not given back end */
		queue_give_up(shard);
		return;
	}
	parts_choose(shard, poll);
	if (shard->under_way.count == 0)
		return;
	shard->crowd = 0;
	batch_send(shard);
}

/* ---- answers ---- */

/* A renewal of the store's own. */
static void own_answered(struct redis_store *redis, const struct redis_part *part, int error,
                         struct span reply)
{
	struct redis_lease *lease = redis_leases_find(&redis->leases, part->ticket);
	struct resp_reply value;
	size_t at = 0;

	if (error < 0 || part->letter != 'E' || !lease || lease->attempt != part->attempt ||
	    !resp_reply_next(reply, &at, &value))
		return;
	if (value.number == ERR_FENCED)
		redis_leases_remove(&redis->leases, part->ticket);
}

/* The outcome stands; now what later callers are told. */
static void answer_queue(struct redis_store *redis, struct store_settle *settle)
{
	struct redis_part *part = redis_part_get(redis);

	if (!part) {
		redis_complete(redis, &settle->op, 0);
		return;
	}
	part->letter = 'C';
	part->op = &settle->op;
	redis_part_queue(redis, redis_shard_of_digest(redis, &settle->answer->digest), part);
}

/* One that an operation of store.h is. */
static int part_decode(struct redis_shard *shard, struct redis_part *part, struct span reply)
{
	if (redis_part_is_grouped(part))
		return redis_group_decode(shard, part, reply);
	part->has_some = part->taker && part->offer && shard->offers[part->offer - 1].taken;
	return redis_decode(shard->redis, part, reply);
}

static void part_answered(struct redis_shard *shard, struct redis_part *part, int error,
                          struct span reply)
{
	struct redis_store *redis = shard->redis;
	struct store_op *op = part->op;

	if (part->gather) {
		redis_gather_add(redis, part, error, reply);
	} else if (part->span) {
		redis_span_answered(redis, part, error, reply);
	} else if (part->letter == 'C') {
		redis_complete(redis, op, error);
	} else if (!op) {
		own_answered(redis, part, error, reply);
	} else {
		if (error == 0)
			error = part_decode(shard, part, reply);
		op->error = error;
		redis_lease_follow(redis, op);
		if (part->taker)
			redis_take_answered(redis, part->taker, error);
		else if (error == REDIS_RETRY && op->kind == STORE_ADMIT)
			redis_span_again(redis, container_of(op, struct store_admit, op));
		else if (error == 0 && redis_answer_is_elsewhere(redis, op))
			answer_queue(redis, container_of(op, struct store_settle, op));
		else
			redis_complete(redis, op, error);
	}
	redis_part_put(redis, part);
}

static void trouble_begins(enum redis_trouble trouble, struct span answer)
{
	if (trouble == REDIS_FULL)
		log_warn("redis is full: events are refused, what is open is delivered");
	else
		log_error("redis refused a batch", log_span("answer", answer));
}

/* One line for all shards, when it begins and when it is over. */
static void trouble_set(struct redis_shard *shard, enum redis_trouble trouble, struct span answer)
{
	uint32_t *troubles = shard->redis->troubles;
	enum redis_trouble old = shard->trouble;

	if (trouble == old)
		return;
	shard->trouble = trouble;
	if (trouble != REDIS_FINE && troubles[trouble]++ == 0)
		trouble_begins(trouble, answer);
	if (old != REDIS_FINE && --troubles[old] == 0)
		log_info(old == REDIS_FULL ? "redis has room again" : "redis takes batches again");
}

/* What stands behind the answers of all operations. */
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

/* What the server says of the whole batch. */
static int batch_error(struct redis_shard *shard, const struct resp_reply *value)
{
	bool full = resp_reply_says(value, SPAN("OOM"));

	if (value->kind == RESP_REPLY_ARRAY && value->number == (int64_t)shard->answers + 1)
		return 0;
	atomic_fetch_add_explicit(&shard->redis->io_errors, 1, memory_order_relaxed);
	trouble_set(shard, full ? REDIS_FULL : REDIS_REFUSES, value->text);
	return full ? ERR_FULL : ERR_AWAY;
}

static void batch_count(struct redis_shard *shard, uint32_t parts)
{
	struct redis_store *redis = shard->redis;
	uint64_t took_us = (clock_monotonic_ns() - shard->began_ns) / 1000;

	if (!shard->call.writes)
		return;
	histogram_record(redis->store.commit_us, took_us);
	histogram_record(redis->store.commit_batch, parts);
	atomic_fetch_add_explicit(&redis->commits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&redis->commit_ops, parts, memory_order_relaxed);
}

/* Behind a batch that was not answered in time: else it would wait as long once more. */
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
	struct part_list parts = shard->under_way;
	struct resp_reply value = { 0 };
	size_t at = 0;

	part_list_init(&shard->under_way);
	shard->silent = error == ERR_AWAY;
	if (error == 0) {
		shard->heard = shard->batch;
		error = resp_reply_next(reply, &at, &value) ? batch_error(shard, &value)
		                                            : ERR_INVALID;
	}
	if (error == 0)
		error = redis_offers_answered(shard, reply, &at);
	if (error == 0)
		batch_count(shard, parts.count);
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
	if (error == 0)
		crowd_begin(shard, parts.count);
	redis_shard_pump(shard, false);
}
