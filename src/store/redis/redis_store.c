/* redis_store: the owner's side of the store. */
#include "store/redis/redis_store.h"

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/redis_internal.h"

#define SWEEP_MS 1000u

static struct redis_store *redis_of(struct store *store)
{
	return container_of(store, struct redis_store, store);
}

/* ---- to the thread, and back ---- */

static void post(struct redis_store *redis, struct store_op *op, struct op_queue *chain)
{
	atomic_fetch_add(&redis->pending, 1);
	op_queue_put(chain, op);
}

static void hand_over(struct redis_store *redis, struct op_queue *chain)
{
	if (!chain->first)
		return;
	pthread_mutex_lock(&redis->mutex);
	op_queue_move(&redis->inbox, chain);
	pthread_mutex_unlock(&redis->mutex);
	loop_wake(redis->loop);
}

static void post_one(struct redis_store *redis, struct store_op *op)
{
	struct op_queue chain;

	op_queue_init(&chain);
	post(redis, op, &chain);
	hand_over(redis, &chain);
}

static void settle_down(struct redis_store *redis)
{
	while (atomic_load(&redis->pending) > 0)
		wake_event_wait(&redis->wake, -1);
}

/* ---- waits ---- */

static void wait_end(struct redis_store *redis, struct redis_wait *slot, int error)
{
	struct store_wait *wait = slot->wait;

	/* With a question under way the slot is free when that is answered. */
	slot->state = slot->state == REDIS_WAIT_ASKED ? REDIS_WAIT_OVER : REDIS_WAIT_FREE;
	redis->wait_count--;
	atomic_store_explicit(&redis->wait_stat, redis->wait_count, memory_order_relaxed);
	wait->op.error = error;
	wait->op.done(&wait->op);
}

static void wait_answered(struct redis_store *redis, struct redis_wait *slot)
{
	struct store_wait *wait = slot->wait;
	uint32_t bits = slot->bits;

	if (slot->state == REDIS_WAIT_OVER) {
		slot->state = REDIS_WAIT_FREE;
		return;
	}
	slot->state = REDIS_WAIT_IDLE;
	if (slot->ask.error < 0)
		return; /* it is asked again */
	wait->was_open |= (bits & (REDIS_EVENT_PENDING | REDIS_EVENT_PARKED | REDIS_EVENT_DEAD)) !=
	                  0;
	if (bits & REDIS_EVENT_PENDING)
		return;
	if (bits & REDIS_EVENT_PARKED)
		wait->outcome = OUTCOME_UNKNOWN;
	else if (bits & (REDIS_EVENT_DEAD | REDIS_EVENT_DROPPED))
		wait->outcome = OUTCOME_DEAD;
	else
		wait->outcome = wait->was_open || wait->ticket > redis->floor ? OUTCOME_DONE
		                                                              : OUTCOME_NONE;
	wait_end(redis, slot, 0);
}

static void wait_ask(struct redis_store *redis, struct redis_wait *slot, struct op_queue *chain)
{
	CHECK(slot->state == REDIS_WAIT_IDLE);
	slot->state = REDIS_WAIT_ASKED;
	slot->ask = (struct store_op){ .kind = (enum store_op_kind)REDIS_OP_ASK };
	post(redis, &slot->ask, chain);
}

/* False: there is no room for it. */
static bool wait_begin(struct redis_store *redis, struct store_wait *wait, struct op_queue *chain)
{
	struct redis_wait *slot = NULL;

	if (!redis->waits)
		redis->waits = mem_zalloc(STORE_WAITS_MAX, sizeof(struct redis_wait));
	uint32_t looks = redis->waits && redis->wait_count < STORE_WAITS_MAX ? STORE_WAITS_MAX : 0;
	for (uint32_t i = 0; i < looks && !slot; i++) {
		slot = &redis->waits[(redis->wait_count + i) % STORE_WAITS_MAX];
		if (slot->state != REDIS_WAIT_FREE)
			slot = NULL;
	}
	wait->was_open = false;
	wait->outcome = OUTCOME_NONE;
	wait->op.error = ERR_FULL;
	if (!slot)
		return false;
	*slot = (struct redis_wait){ .wait = wait,
		                     .ticket = wait->ticket,
		                     .state = REDIS_WAIT_IDLE };
	redis->wait_count++;
	atomic_store_explicit(&redis->wait_stat, redis->wait_count, memory_order_relaxed);
	wait_ask(redis, slot, chain);
	return true;
}

/* Asks for some of the waits, the next time for the next ones. */
static void waits_ask(struct redis_store *redis, struct op_queue *chain)
{
	uint32_t asked = 0;

	for (uint32_t i = 0;
	     i < STORE_WAITS_MAX && redis->wait_count > 0 && asked < REDIS_WAITS_POLL; i++) {
		struct redis_wait *slot = &redis->waits[redis->wait_at++ % STORE_WAITS_MAX];
		if (slot->state != REDIS_WAIT_IDLE)
			continue;
		wait_ask(redis, slot, chain);
		asked++;
	}
}

static void waits_end(struct redis_store *redis, uint64_t boot_ms, int error)
{
	for (uint32_t i = 0; i < STORE_WAITS_MAX && redis->wait_count > 0; i++) {
		struct redis_wait *slot = &redis->waits[i];
		bool waits = slot->state == REDIS_WAIT_IDLE || slot->state == REDIS_WAIT_ASKED;
		if (waits && (error < 0 || store_wait_is_over(slot->wait, boot_ms)))
			wait_end(redis, slot, error);
	}
}

/* ---- flush ---- */

static void outbox_take(struct redis_store *redis)
{
	struct op_queue list;

	op_queue_init(&list);
	pthread_mutex_lock(&redis->mutex);
	op_queue_move(&list, &redis->outbox);
	pthread_mutex_unlock(&redis->mutex);
	for (struct store_op *op = list.first, *next; op; op = next) {
		unsigned kind = op->kind;
		next = op->next;
		if (kind == REDIS_OP_ASK)
			wait_answered(redis, container_of(op, struct redis_wait, ask));
		else if (kind == REDIS_OP_SWEEP)
			redis->sweeping = false;
		else if (kind != REDIS_OP_CLOSE)
			op->done(op);
	}
}

/* Errors that need no server. */
static int op_check(const struct store_op *op)
{
	switch (op->kind) {
	case STORE_ADMIT: return store_admit_check(container_of(op, struct store_admit, op));
	case STORE_CELL: return store_cell_check(container_of(op, struct store_cell, op));
	case STORE_NOTE:
		return store_mark_valid(container_of(op, struct store_note, op)->mark)
		               ? 0
		               : ERR_INVALID;
	case STORE_SETTLE: {
		const struct store_settle *settle = container_of(op, struct store_settle, op);
		if (!store_outcome_valid(settle->outcome))
			return ERR_INVALID;
		return settle->answer ? store_cell_value_check(settle->answer) : 0;
	}
	default: return 0;
	}
}

static void submit(struct store *store, struct store_op *op)
{
	CHECK(op->done);
	op_queue_put(&redis_of(store)->queue, op);
}

/* Returns CLOCK_BOOTTIME. */
static uint64_t clock_look(struct redis_store *redis)
{
	struct clock_reading now = clock_read(&redis->clock);

	if (now.wall_ms > atomic_load(&redis->now_ms))
		atomic_store(&redis->now_ms, now.wall_ms);
	return now.boot_ms;
}

static void flush(struct store *store)
{
	struct redis_store *redis = redis_of(store);
	struct op_queue chain, refused; /* `refused` have an error already */
	bool ends = false;

	op_queue_init(&chain);
	op_queue_init(&refused);
	clock_look(redis);
	for (struct store_op *op = redis->queue.first, *next; op; op = next) {
		next = op->next;
		ends |= op->kind == STORE_SETTLE || op->kind == STORE_RELEASE;
		int error = op_check(op);
		if (op->kind == STORE_WAIT) {
			if (!wait_begin(redis, container_of(op, struct store_wait, op), &chain))
				op_queue_put(&refused, op);
		} else if (error < 0) {
			op->error = error;
			op_queue_put(&refused, op);
		} else {
			post(redis, op, &chain);
		}
	}
	op_queue_init(&redis->queue);
	if (ends)
		waits_ask(redis, &chain);
	hand_over(redis, &chain);
	if (!store->written)
		settle_down(redis);
	outbox_take(redis);
	for (struct store_op *op = refused.first, *next; op; op = next) {
		next = op->next;
		op->done(op);
	}
}

static bool under_way(struct store *store)
{
	struct redis_store *redis = redis_of(store);

	if (atomic_load(&redis->pending) > 0)
		return true;
	/* Operations that are no longer pending are in the outbox. */
	pthread_mutex_lock(&redis->mutex);
	bool waits = redis->outbox.first != NULL;
	pthread_mutex_unlock(&redis->mutex);
	return waits;
}

static void sweep_begin(struct redis_store *redis)
{
	redis->sweeping = true;
	redis->sweep = (struct store_op){ .kind = (enum store_op_kind)REDIS_OP_SWEEP };
	post_one(redis, &redis->sweep);
}

static void tick(struct store *store)
{
	struct redis_store *redis = redis_of(store);
	uint64_t boot_ms = clock_look(redis);
	struct op_queue chain;

	op_queue_init(&chain);
	if (!redis->sweeping && (redis->fake_clock || boot_ms >= redis->swept_ms + SWEEP_MS)) {
		redis->swept_ms = boot_ms;
		sweep_begin(redis);
	}
	if (boot_ms >= redis->polled_ms + REDIS_WAITS_POLL_MS) {
		redis->polled_ms = boot_ms;
		waits_ask(redis, &chain);
		hand_over(redis, &chain);
	}
	if (redis->fake_clock) /* a test that expects the results at once */
		settle_down(redis);
	outbox_take(redis);
	waits_end(redis, boot_ms, redis->ending ? ERR_CLOSING : 0);
}

static void end_waits(struct store *store)
{
	redis_of(store)->ending = true;
}

static void hurry(struct store *store)
{
	struct redis_store *redis = redis_of(store);

	atomic_store(&redis->hurry, true);
	loop_wake(redis->loop);
}

static uint64_t get(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void stats(struct store *store, struct store_stats *ret_stats)
{
	struct redis_store *redis = redis_of(store);
	struct store_stats sum = { .waits = get(&redis->wait_stat),
		                   .commits = get(&redis->commits),
		                   .commit_ops = get(&redis->commit_ops),
		                   .io_errors = get(&redis->io_errors),
		                   .writable = true };
	uint64_t leased = 0, keys = 0;

	for (uint32_t i = 0; i < redis->shard_count; i++) {
		struct redis_shard *shard = &redis->shards[i];
		/* Keys are those of a server: counted once even if several shards are on it. */
		uint32_t node = atomic_load_explicit(&shard->node, memory_order_relaxed);
		uint32_t before = 0;
		while (before < i && atomic_load_explicit(&redis->shards[before].node,
		                                          memory_order_relaxed) != node)
			before++;
		if (before == i)
			keys += get(&shard->keys);
		sum.open_tickets += get(&shard->open);
		sum.held_tickets += get(&shard->held);
		sum.parked_tickets += get(&shard->parked);
		sum.dead_tickets += get(&shard->dead);
		sum.caller_tickets += get(&shard->callers);
		leased += get(&shard->leased);
	}
	uint64_t others = leased + sum.held_tickets + sum.parked_tickets + sum.dead_tickets;
	sum.due_tickets = sum.open_tickets > others ? sum.open_tickets - others : 0;
	sum.live_claims = sum.live_cells = keys > sum.open_tickets ? keys - sum.open_tickets : 0;
	*ret_stats = sum;
}

/* ---- the end ---- */

static void memory_free(struct redis_store *redis)
{
	for (uint32_t i = 0; i < redis->shard_count; i++) {
		CHECK(!redis->shards[i].queue.head && !redis->shards[i].under_way.head);
		redis_call_free(&redis->shards[i].call);
	}
	redis_call_free(&redis->guard_call);
	for (struct redis_part *part = redis->free_parts, *next; part; part = next) {
		next = part->next;
		mem_free(part);
	}
	map_free(&redis->leases);
	mem_free(redis->shards);
	mem_free(redis->waits);
	loop_free(redis->loop);
	wake_event_destroy(&redis->wake);
	pthread_mutex_destroy(&redis->mutex);
	mem_free(redis);
}

/* The thread has ended: the owner takes over what it had. */
static void thread_leftovers(struct redis_store *redis)
{
	loop_timer_clear(redis->loop, &redis->poll_timer);
	loop_timer_clear(redis->loop, &redis->lease_timer);
	loop_timer_clear(redis->loop, &redis->linger_timer);
	loop_timer_clear(redis->loop, &redis->guard_timer);
	redis_takes_fail(redis, ERR_CLOSING);
	redis->client = redis_client_free(redis->client);
	pthread_mutex_lock(&redis->mutex);
	op_queue_move(&redis->outbox, &redis->finished);
	pthread_mutex_unlock(&redis->mutex);
}

static void free_store(struct store *store)
{
	struct redis_store *redis = redis_of(store);

	pthread_mutex_lock(&redis->mutex);
	store->written = NULL;
	pthread_mutex_unlock(&redis->mutex);
	if (redis->queue.first)
		flush(store);
	settle_down(redis);
	redis->close = (struct store_op){ .kind = (enum store_op_kind)REDIS_OP_CLOSE };
	post_one(redis, &redis->close);
	settle_down(redis);
	loop_stop(redis->loop);
	thread_join(&redis->thread);
	thread_leftovers(redis);
	outbox_take(redis);
	waits_end(redis, 0, ERR_CLOSING);
	CHECK(!redis->queue.first); /* a closing store accepts nothing */
	memory_free(redis);
}

static const struct store_methods redis_methods = {
	.submit = submit,
	.flush = flush,
	.under_way = under_way,
	.tick = tick,
	.stats = stats,
	.end_waits = end_waits,
	.hurry = hurry,
	.free = free_store,
};

const unsigned char *redis_store_key(const struct store *store)
{
	CHECK(store->methods == &redis_methods);
	return container_of(store, const struct redis_store, store)->key;
}

/* ---- the beginning ---- */

int redis_store_open(const struct redis_store_options *options, struct store **ret_store,
                     struct error_text *ret_text)
{
	struct redis_store *redis = mem_zalloc(1, sizeof(*redis));

	if (!redis)
		return error_fill(ret_text, -ENOMEM, "no memory for the store");
	map_init(&redis->leases, sizeof(struct redis_lease), sizeof(uint64_t));
	redis->store.methods = &redis_methods;
	redis->store.commit_us = &redis->commit_us;
	redis->store.commit_batch = &redis->commit_batch;
	redis->fake_clock = options->clock != NULL;
	redis->clock = options->clock ? *options->clock : *clock_system();
	redis->dead_keep_ms = options->dead_keep_ms ? options->dead_keep_ms : STORE_DEAD_KEEP_MS;
	op_queue_init(&redis->queue);
	op_queue_init(&redis->inbox);
	op_queue_init(&redis->outbox);
	op_queue_init(&redis->finished);
	wake_event_init(&redis->wake);
	pthread_mutex_init(&redis->mutex, NULL);
	int r = redis_login_read(span_str(options->url), &redis->login, ret_text);
	if (r == 0)
		r = redis_connect(redis, ret_text);
	if (r < 0) {
		memory_free(redis);
		return r;
	}
	struct thread_options thread = {
		.name = "redis", .cpu = THREAD_ANY_CPU, .run = redis_thread_run, .user = redis
	};
	r = redis_takes_begin(redis);
	if (r == 0)
		r = redis_guard_begin(redis);
	clock_look(redis);
	if (r == 0)
		r = thread_start(&redis->thread, &thread);
	if (r == 0) {
		/* The first sweep brings the counts, and the last ticket number: this process
		 * knows the outcome of later tickets. */
		sweep_begin(redis);
		settle_down(redis);
		outbox_take(redis);
		for (uint32_t i = 0; i < redis->shard_count; i++)
			if (get(&redis->shards[i].last) > redis->floor)
				redis->floor = get(&redis->shards[i].last);
		r = redis->sweep.error;
	}
	if (r < 0) {
		error_fill(ret_text, r, "the store's Redis refused the first batch: %s",
		           error_name(r));
		if (redis->thread.running) {
			free_store(&redis->store);
		} else {
			thread_leftovers(redis);
			memory_free(redis);
		}
		return r;
	}
	*ret_store = &redis->store;
	return 0;
}
