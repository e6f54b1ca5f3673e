/*
 * redis_takes: takes by sink, which wait until a shard has tickets for them, and the leases of
 * those tickets.
 *
 * A new take asks one shard after the other. If none has a ticket it waits: from then on it
 * joins every batch that may make a ticket due, and asks one shard after the other on a timer,
 * since another gateway may have admitted an event.
 */
#include "base/error.h"
#include "base/mem.h"
#include "store/redis/redis_internal.h"

/* ---- takes ---- */

void redis_takes_add(struct redis_store *redis, struct store_take *take)
{
	struct redis_taker *taker = mem_zalloc(1, sizeof(*taker)), **at = &redis->takers;

	CHECK(take->ticket == 0); /* a take of one ticket waits for nothing */
	if (!taker) {
		redis_complete(redis, &take->op, ERR_FULL);
		return;
	}
	taker->take = take;
	taker->asked_from = redis->spread++ % redis->shard_count;
	while (*at)
		at = &(*at)->next;
	*at = taker;
}

static void taker_finish(struct redis_store *redis, struct redis_taker *taker, int error)
{
	struct redis_taker **at = &redis->takers;

	while (*at != taker)
		at = &(*at)->next;
	*at = taker->next;
	redis_complete(redis, &taker->take->op, error);
	if (taker->waits)
		redis->settled--; /* no flush was waiting for it any more */
	mem_free(taker);
}

void redis_takes_choose(struct redis_shard *shard, bool poll)
{
	CHECK(!shard->busy);
	for (struct redis_taker *taker = shard->redis->takers; taker; taker = taker->next) {
		uint32_t next = (taker->asked_from + taker->asked) % shard->redis->shard_count;
		/* A new take first lets the shard do what was submitted before it. */
		if (taker->under_way || shard->redis->closing ||
		    !(taker->waits ? poll : next == shard->number && !shard->queue.head))
			continue;
		struct redis_part *part = redis_part_get(shard->redis);
		if (!part)
			continue;
		part->kind = REDIS_PART_TAKE;
		part->op = &taker->take->op;
		part->taker = taker;
		taker->under_way = true;
		part_list_add(&shard->under_way, part);
	}
}

void redis_take_answered(struct redis_store *redis, struct redis_taker *taker, int error)
{
	CHECK(taker->under_way);
	taker->under_way = false;
	if (error < 0 && !taker->waits) {
		taker_finish(redis, taker, error);
	} else if (error == 0 && taker->take->count > 0) {
		taker_finish(redis, taker, 0);
	} else if (!taker->waits && ++taker->asked == redis->shard_count) {
		taker->waits = true;
		redis->settled++;
	}
}

void redis_takes_fail(struct redis_store *redis, int error)
{
	while (redis->takers) {
		buf_clear(&redis->takers->take->items);
		redis->takers->take->count = 0;
		taker_finish(redis, redis->takers, error);
	}
}

static void poll_due(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, poll_timer);
	uint32_t every_ms = REDIS_STORE_POLL_MS / redis->shard_count;

	redis_cross_poll(redis);
	if (redis->takers)
		redis_shard_pump(&redis->shards[redis->poll_shard++ % redis->shard_count], true);
	(void)!loop_timer_set(redis->loop, timer, every_ms > 2 ? every_ms : 2);
}

/* ---- leases ---- */

static void lease_queue(struct redis_store *redis, const struct redis_lease *lease,
                        enum redis_part_kind kind)
{
	struct redis_part *part =
		redis_part_queue(redis, redis_shard_of_ticket(redis, lease->ticket), kind, NULL);

	if (!part)
		return;
	part->ticket = lease->ticket;
	part->attempt = lease->attempt;
}

void redis_lease_put(struct redis_store *redis, struct redis_lease lease)
{
	CHECK(lease.ticket != 0);
	struct redis_lease *known = map_put(&redis->leases, &lease.ticket);
	if (known)
		*known = lease;
}

/* Renews it, unless the caller does. True: it has ended. */
static bool lease_renew(const void *item, void *user)
{
	const struct redis_lease *lease = item;
	struct redis_store *redis = user;

	if (lease->ends_ms == 0)
		lease_queue(redis, lease, REDIS_PART_RENEW);
	return lease->ends_ms != 0 && lease->ends_ms <= loop_now_ms(redis->loop);
}

static void lease_due(struct loop_timer *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, lease_timer);

	map_sweep(&redis->leases, UINT64_MAX, lease_renew, redis);
	(void)!loop_timer_set(redis->loop, timer, REDIS_LEASE_MS / 3);
}

static bool lease_give_back(const void *item, void *user)
{
	lease_queue(user, item, REDIS_PART_GIVE_BACK);
	return true;
}

void redis_leases_give_back(struct redis_store *redis)
{
	CHECK(redis->closing);
	map_sweep(&redis->leases, UINT64_MAX, lease_give_back, redis);
}

void redis_lease_follow(struct redis_store *redis, const struct store_op *op)
{
	const struct store_settle *settle = container_of(op, const struct store_settle, op);
	const struct store_note *note = container_of(op, const struct store_note, op);
	const struct store_renew *renew = container_of(op, const struct store_renew, op);
	uint64_t ticket;
	uint32_t attempt;

	switch (op->kind) {
	case STORE_SETTLE: ticket = settle->ticket, attempt = settle->attempt; break;
	case STORE_NOTE: ticket = note->ticket, attempt = note->attempt; break;
	case STORE_RENEW: ticket = renew->ticket, attempt = renew->attempt; break;
	default: return;
	}
	struct redis_lease *lease = ticket ? map_find(&redis->leases, &ticket) : NULL;
	bool ours = lease && lease->attempt == attempt;
	if (ours && (op->error == ERR_FENCED || (op->error == 0 && op->kind == STORE_SETTLE))) {
		map_remove(&redis->leases, &ticket);
	} else if (op->error == 0 && op->kind == STORE_NOTE) {
		if (ours && note->mark != STORE_MARK_STARTED)
			lease->attempt = store_attempt_next(attempt);
	} else if (op->error == 0 && op->kind == STORE_RENEW) {
		if (renew->lease_ms == 0) /* without an end: the store renews it */
			redis_lease_put(redis, (struct redis_lease){ .ticket = ticket,
			                                             .attempt = attempt });
		else if (ours)
			lease->ends_ms = loop_now_ms(redis->loop) + renew->lease_ms;
	}
}

int redis_takes_begin(struct redis_store *redis)
{
	CHECK(!redis->thread.running);
	redis->poll_timer.due = poll_due;
	redis->lease_timer.due = lease_due;
	redis->linger_timer.due = redis_linger_end;
	int r = loop_timer_set(redis->loop, &redis->poll_timer, REDIS_STORE_POLL_MS);
	if (r == 0 && !redis->fake_clock)
		r = loop_timer_set(redis->loop, &redis->lease_timer, REDIS_LEASE_MS / 3);
	return r;
}
