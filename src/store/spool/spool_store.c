/* spool_store: see spool_store.h. */
#include "store/spool/spool_store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/spool/spool_internal.h"

#define CHUNK_LETTERS 64u
#define ROUNDS_MAX 4u /* of one flush; the owner is asked for another then */
#define SAY_MAX 256u

static const struct breaker_policy whole_policy = {
	.failures = 5,
	.per_cent = 60,
	.calls = 20,
	.window_ms = 5000,
	.first_ms = 200,
	.max_ms = 2000,
	.probes = 1,
	.successes = 1,
};

/* What one node of a cluster fails while it is down is asked again and again, so that it is
 * most of what there is: the others go on. */
static const struct breaker_policy parts_policy = {
	.per_cent = 95,
	.calls = 50,
	.window_ms = 5000,
	.first_ms = 200,
	.max_ms = 2000,
	.probes = 1,
	.successes = 1,
};

struct spool_chunk {
	struct spool_chunk *next;
	struct spool_letter letters[CHUNK_LETTERS];
};

/* An admission on its way into the local store. */
struct spool_keep {
	struct spool *spool;
	struct store_admit *admit; /* the caller's */
	struct store_admit own;
	struct store_leg leg;
	struct buf record;
};

static struct spool *spool_of(struct store *store)
{
	return container_of(store, struct spool, store);
}

static struct store_admit *admit_of(struct store_op *op)
{
	CHECK(op->kind == STORE_ADMIT);
	return container_of(op, struct store_admit, op);
}

void spool_say(const struct spool *spool, enum spool_level level, const char *format, ...)
{
	char text[SAY_MAX];
	va_list arguments;
	if (!spool->log)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	spool->log(spool->log_user, level, text);
}

void spool_submit_to(struct spool *spool, struct store *store, struct store_op *op)
{
	spool->dirty = true;
	store_submit(store, op);
}

/* ---- queues and letters ---- */

/* done() comes with the next flush: submitting only queues. */
static void finish(struct spool *spool, struct store_op *op, int error)
{
	op->error = error;
	op_queue_put(&spool->finished, op);
	spool->dirty = true;
}

static void run_finished(struct spool *spool)
{
	while (spool->finished.first) {
		struct store_op *op = op_queue_take_all(&spool->finished);
		while (op) {
			struct store_op *next = op->next;
			op->done(op);
			op = next;
		}
	}
}

static struct spool_letter *letter_get(struct spool *spool)
{
	if (!spool->free_letters) {
		struct spool_chunk *chunk = mem_zalloc(1, sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->next = spool->chunks;
		spool->chunks = chunk;
		for (uint32_t i = 0; i < CHUNK_LETTERS; i++) {
			chunk->letters[i].spool = spool;
			chunk->letters[i].next = spool->free_letters;
			spool->free_letters = &chunk->letters[i];
		}
	}
	struct spool_letter *letter = spool->free_letters;
	spool->free_letters = letter->next;
	return letter;
}

static void letter_put(struct spool_letter *letter)
{
	letter->op = NULL;
	letter->next = letter->spool->free_letters;
	letter->spool->free_letters = letter;
}

/* ---- into the spool ---- */

/* Has it a claim of its own that tells, a day later, that it was admitted? */
static bool is_sure(const struct store_admit *admit)
{
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		const struct claim *claim = &admit->claims[i];
		if (claim->kind != CLAIM_NEWEST && !claim->shadow &&
		    claim->window_s >= SPOOL_SURE_S)
			return true;
	}
	return false;
}

static bool can_spool(const struct spool *spool, const struct store_admit *admit)
{
	return spool->local && admit->spool && (is_sure(admit) || admit->claim_count < CLAIMS_MAX);
}

static int make_mark(struct digest *ret_mark)
{
	uint64_t words[2];
	int error = hash_random(words, sizeof(words));
	if (error == 0)
		*ret_mark = digest_with_check((struct digest){ { words[0], words[1] } }, 0);
	return error;
}

static void kept(struct store_op *op)
{
	struct spool_keep *keep = op->user;
	struct spool *spool = keep->spool;
	struct store_admit *admit = keep->admit;
	admit->verdict = VERDICT_SPOOLED;
	admit->would = VERDICT_NONE;
	admit->ticket = admit->own_ticket = keep->own.ticket;
	admit->first_seen_ms = keep->own.first_seen_ms;
	admit->decided_ms = keep->own.decided_ms;
	admit->matched = 0;
	admit->seen = admit->order = 0;
	if (op->error != 0)
		atomic_fetch_sub(&spool->waiting, 1);
	finish(spool, &admit->op, op->error);
	buf_free(&keep->record);
	mem_free(keep);
}

static int keep_begin(struct spool *spool, struct store_admit *admit, const struct digest *mark)
{
	struct spool_keep *keep = mem_zalloc(1, sizeof(*keep));
	if (!keep)
		return ERR_FULL;
	keep->spool = spool;
	keep->admit = admit;
	keep->leg = (struct store_leg){ .sink = SPOOL_SINK };
	keep->own = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = kept, .user = keep },
		.source = admit->source,
		.legs = &keep->leg,
		.leg_count = 1,
	};
	if (spool_record_write(admit, mark, &keep->record) != 0) {
		buf_free(&keep->record);
		mem_free(keep);
		return ERR_FULL;
	}
	keep->own.payload = buf_span(&keep->record);
	atomic_fetch_add(&spool->waiting, 1);
	spool_submit_to(spool, spool->local, &keep->own.op);
	return 0;
}

/* With the mark that it went with before, if it did. */
static void keep(struct spool *spool, struct store_admit *admit, const struct digest *mark)
{
	struct digest fresh;
	int error = store_admit_check(admit);
	if (error == 0 && !mark) {
		error = make_mark(&fresh) == 0 ? 0 : ERR_FULL;
		mark = &fresh;
	}
	if (error == 0)
		error = keep_begin(spool, admit, mark);
	if (error != 0)
		finish(spool, &admit->op, error);
}

/* ---- to the shared store ---- */

/* Takes and outcomes are not told that the store is away. */
static bool waits(const struct store_op *op)
{
	if (op->kind == STORE_TAKE)
		return container_of(op, const struct store_take, op)->ticket == 0;
	return op->kind == STORE_SETTLE;
}

static void away(struct spool *spool, struct store_op *op, const struct digest *mark)
{
	if (op->kind == STORE_ADMIT && can_spool(spool, admit_of(op)) && !spool->ending)
		keep(spool, admit_of(op), mark);
	else if (waits(op) && !spool->ending)
		op_queue_put(&spool->held, op);
	else
		finish(spool, op, ERR_AWAY);
}

static void passed(struct store_op *op)
{
	struct spool_letter *letter = op->user;
	struct spool *spool = letter->spool;
	struct digest mark = letter->mark;
	bool marked = letter->marked;
	op->done = letter->done;
	op->user = letter->user;
	if (marked)
		admit_of(op)->claim_count--;
	spool_judge(spool, letter->turn, op->error);
	letter_put(letter);
	if (unlikely(op->error == ERR_AWAY))
		away(spool, op, marked ? &mark : NULL);
	else
		op->done(op);
}

/* So that it can be told from others if nobody hears of its decision. */
static int mark_admit(struct spool_letter *letter, struct store_admit *admit)
{
	if (!can_spool(letter->spool, admit) || is_sure(admit))
		return 0;
	int error = make_mark(&letter->mark);
	if (error != 0)
		return error;
	CHECK(admit->claim_count < CLAIMS_MAX);
	admit->claims[admit->claim_count++] = (struct claim){ .digest = letter->mark,
		                                              .window_s = SPOOL_MARK_S };
	letter->marked = true;
	return 0;
}

static void pass_on(struct spool *spool, struct store_op *op)
{
	struct spool_letter *letter = letter_get(spool);
	if (!letter) {
		finish(spool, op, ERR_FULL);
		return;
	}
	letter->marked = false;
	if (op->kind == STORE_ADMIT && mark_admit(letter, admit_of(op)) != 0) {
		letter_put(letter);
		finish(spool, op, ERR_FULL);
		return;
	}
	letter->op = op;
	letter->done = op->done;
	letter->user = op->user;
	letter->turn = breaker_begin(&spool->breaker);
	op->done = passed;
	op->user = letter;
	spool_submit_to(spool, spool->shared, op);
}

/* What may be spooled goes behind what is. */
static bool is_behind(const struct spool *spool, struct store_op *op)
{
	return op->kind == STORE_ADMIT && can_spool(spool, admit_of(op)) &&
	       atomic_load_explicit(&spool->waiting, memory_order_relaxed) > 0;
}

static void spool_submit(struct store *store, struct store_op *op)
{
	struct spool *spool = spool_of(store);
	CHECK(op->done);
	if (unlikely(!spool_is_back(spool)))
		away(spool, op, NULL);
	else if (unlikely(is_behind(spool, op)))
		keep(spool, admit_of(op), NULL);
	else
		pass_on(spool, op);
}

/* ---- is it there? ---- */

static uint64_t next_random(struct spool *spool)
{
	spool->random ^= spool->random << 13;
	spool->random ^= spool->random >> 7;
	spool->random ^= spool->random << 17;
	return spool->random;
}

static void say_away(struct spool *spool)
{
	atomic_store(&spool->away, true);
	atomic_fetch_add(&spool->away_times, 1);
	spool->away_since_ms = spool->now_ms;
	spool_say(spool, SPOOL_WARNING, "the shared store is away; %s",
	          spool->local ? "events of sources that may are spooled, others are refused"
	                       : "events are refused until it is back");
}

static void try_held(struct spool *spool)
{
	struct store_op *op = op_queue_take_all(&spool->held);
	while (op) {
		struct store_op *next = op->next;
		spool_submit(&spool->store, op);
		op = next;
	}
}

static void say_back(struct spool *spool)
{
	atomic_store(&spool->away, false);
	spool_say(spool, SPOOL_INFO,
	          "the shared store is back after %llu ms; %llu events wait in the spool",
	          (unsigned long long)(spool->now_ms - spool->away_since_ms),
	          (unsigned long long)atomic_load(&spool->waiting));
	try_held(spool);
}

void spool_judge(struct spool *spool, uint32_t turn, int error)
{
	struct breaker_end end = {
		.turn = turn,
		.says = error == ERR_AWAY      ? BREAKER_FAILURE
		        : error == ERR_CLOSING ? BREAKER_NOTHING
		                               : BREAKER_SUCCESS,
		.now_ms = spool->now_ms,
		.random = next_random(spool),
	};
	bool was_away = atomic_load_explicit(&spool->away, memory_order_relaxed);
	if (!breaker_end(&spool->breaker, &end))
		return;
	if (spool_is_back(spool))
		say_back(spool);
	else if (!was_away)
		say_away(spool);
}

static void probed(struct store_op *op)
{
	struct spool *spool = op->user;
	spool->probing = false;
	spool_judge(spool, spool->probe_turn, op->error);
}

/* A question that any store answers without a write: who holds the claim of nobody? */
static void probe(struct spool *spool)
{
	if (spool_is_back(spool) || spool->probing || spool->ending ||
	    breaker_room(&spool->breaker, spool->now_ms) == 0)
		return;
	spool->probing = true;
	spool->probe_turn = breaker_begin(&spool->breaker);
	spool->probe = (struct store_lookup){
		.op = { .kind = STORE_LOOKUP, .done = probed, .user = spool },
		.kind = CLAIM_ONCE,
	};
	spool_submit_to(spool, spool->shared, &spool->probe.op);
}

/* ---- the store's methods ---- */

/* Takes that waited at the shared store end with the store; the port ends its own. */
static void release_held(struct spool *spool)
{
	struct store_op *op = op_queue_take_all(&spool->held);
	while (op) {
		struct store_op *next = op->next;
		finish(spool, op, ERR_CLOSING);
		op = next;
	}
}

/* An owner that is told when a write has ended is told of both. */
static void hand_on_written(struct spool *spool)
{
	struct store *stores[] = { spool->shared, spool->local };
	for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
		if (!stores[i] || stores[i]->written == spool->store.written)
			continue;
		stores[i]->written_user = spool->store.written_user;
		stores[i]->written = spool->store.written;
	}
}

static void run(struct spool *spool)
{
	uint32_t round = 0;
	do {
		spool->dirty = false;
		store_flush(spool->shared);
		drain_step(spool);
		if (spool->local)
			store_flush(spool->local);
		drain_step(spool);
		run_finished(spool);
	} while (spool->dirty && ++round < ROUNDS_MAX);
	if (spool->dirty && spool->store.written)
		spool->store.written(spool->store.written_user);
}

static void spool_flush(struct store *store)
{
	struct spool *spool = spool_of(store);
	hand_on_written(spool);
	spool->now_ms = clock_read(spool->clock).boot_ms;
	run(spool);
}

static bool spool_under_way(struct store *store)
{
	struct spool *spool = spool_of(store);
	return spool->dirty || store_under_way(spool->shared) ||
	       (spool->local && store_under_way(spool->local));
}

static void spool_tick(struct store *store)
{
	struct spool *spool = spool_of(store);
	hand_on_written(spool);
	spool->now_ms = clock_read(spool->clock).boot_ms;
	probe(spool);
	if (spool_is_back(spool)) /* one that failed while most did not */
		try_held(spool);
	store_tick(spool->shared);
	if (spool->local)
		store_tick(spool->local);
	drain_step(spool);
	if (spool->dirty)
		run(spool);
}

static void spool_stats(struct store *store, struct store_stats *ret_stats)
{
	struct spool *spool = spool_of(store);
	struct store_stats local = { .writable = false };
	if (spool->local)
		store_stats(spool->local, &local);
	store_stats(spool->shared, ret_stats);
	ret_stats->away = atomic_load(&spool->away);
	ret_stats->away_times = atomic_load(&spool->away_times);
	ret_stats->spooled_events = atomic_load(&spool->waiting);
	if (ret_stats->away)
		ret_stats->writable = spool->ready_when_away && local.writable;
}

static void spool_end_waits(struct store *store)
{
	struct spool *spool = spool_of(store);
	spool->ending = true;
	store_end_waits(spool->shared);
	if (spool->local)
		store_end_waits(spool->local);
	release_held(spool);
}

static void spool_hurry(struct store *store)
{
	store_hurry(spool_of(store)->shared);
}

static void spool_free(struct store *store)
{
	struct spool *spool = spool_of(store);
	spool->ending = true;
	spool->now_ms = clock_read(spool->clock).boot_ms;
	release_held(spool);
	/* What the shared store decides at its end is closed in the local one. */
	spool->shared = store_free(spool->shared);
	spool->local = store_free(spool->local);
	run_finished(spool);
	drain_free(spool);
	while (spool->chunks) {
		struct spool_chunk *next = spool->chunks->next;
		mem_free(spool->chunks);
		spool->chunks = next;
	}
	mem_free(spool);
}

static const struct store_methods spool_methods = {
	.submit = spool_submit,
	.flush = spool_flush,
	.under_way = spool_under_way,
	.tick = spool_tick,
	.stats = spool_stats,
	.end_waits = spool_end_waits,
	.hurry = spool_hurry,
	.free = spool_free,
};

/* What an earlier process left. */
static uint64_t count_waiting(struct store *local)
{
	struct store_stats stats;
	store_stats(local, &stats);
	uint64_t aside = stats.dead_tickets + stats.parked_tickets + stats.held_tickets;
	return stats.open_tickets > aside ? stats.open_tickets - aside : 0;
}

static int open_inner(struct spool *spool, const struct spool_store_options *options)
{
	spool->in_parts = options->in_parts;
	int error = hash_random(&spool->random, sizeof(spool->random));
	if (error == 0 && options->local)
		error = drain_init(spool);
	if (error != 0)
		return error;
	spool->random |= 1;
	spool->shared = options->shared;
	spool->local = options->local;
	spool->clock = options->clock ? options->clock : clock_system();
	spool->ready_when_away = options->ready_when_away;
	spool->log = options->log;
	spool->log_user = options->log_user;
	spool->now_ms = clock_read(spool->clock).boot_ms;
	breaker_init(&spool->breaker, options->in_parts ? &parts_policy : &whole_policy,
	             spool->now_ms);
	if (spool->local)
		atomic_store(&spool->waiting, count_waiting(spool->local));
	return 0;
}

int spool_store_open(const struct spool_store_options *options, struct store **ret_store)
{
	CHECK(options->shared);
	struct spool *spool = mem_zalloc(1, sizeof(*spool));
	if (!spool)
		return -ENOMEM;
	op_queue_init(&spool->finished);
	op_queue_init(&spool->held);
	int error = open_inner(spool, options);
	if (error != 0) {
		drain_free(spool);
		mem_free(spool);
		return error;
	}
	spool->store.methods = &spool_methods;
	spool->store.commit_us = spool->shared->commit_us;
	spool->store.commit_batch = spool->shared->commit_batch;
	*ret_store = &spool->store;
	return 0;
}
