/*
 * spool_store: see spool_store.h.
 *
 * The file, from top to bottom: opening a store that is unreachable at the start; keeping
 * admissions in the local store; passing operations on to the shared one; the breaker;
 * draining the spool; the store's methods.
 *
 * Draining: a take brings the oldest events of the local store. They are admitted to the
 * shared store together, in their order, and closed in the local one. What fails is tried
 * again before anything newer is taken. Unless a part of the store can be away while the
 * others are reachable (a cluster): what then fails is put aside for a while and read again
 * later, and others overtake it. It takes as long as the store waits for it to notice that a
 * part is away; meanwhile the next group is taken, up to DRAINS_MAX of them.
 */
#include "store/spool/spool_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/breaker.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/op_queue.h"
#include "store/spool/spool_record.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

#define CHUNK_CALLS 64u
#define ROUNDS_MAX 4u /* of one flush; then the owner is asked to flush again */
#define LOG_TEXT_MAX 256u
#define OPEN_EVERY_MS 1000u
#define DRAIN_MAX 128u   /* events that leave the spool together */
#define DRAINS_MAX 8u    /* such groups, if a part of the store can be away */
#define ASIDE_MAX 65536u /* events that such a part can leave undecided; more wait */
#define DRAIN_BYTES (4u << 20)
#define DRAIN_RETRY_MS 250u
#define DRAIN_ASIDE_MS 5000u
#define DRAIN_STUCK_MS 500u  /* without an answer for this long others are taken */
#define DRAIN_WINDOW_S 3600u /* of a claim whose window is over: for copies behind it */

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

/* What one node of a cluster fails while it is down is repeated again and again, so that it is
 * most of all calls; the other nodes continue. */
static const struct breaker_policy parts_policy = {
	.per_cent = 95,
	.calls = 50,
	.window_ms = 5000,
	.first_ms = 200,
	.max_ms = 2000,
	.probes = 1,
	.successes = 1,
};

/* An operation at the shared store, and the caller's done() and user until it is answered. */
struct spool_call {
	struct spool_call *next; /* free */
	struct spool *spool;
	struct store_op *op;
	void (*done)(struct store_op *op);
	void *user;
	uint32_t turn; /* of the breaker when it was submitted */
	bool marked;   /* an admit that has the mark as its last claim */
	struct digest mark;
};

struct spool_chunk {
	struct spool_chunk *next;
	struct spool_call calls[CHUNK_CALLS];
};

/* An admission on its way into the local store. */
struct spool_keep {
	struct spool *spool;
	struct store_admit *admit; /* the caller's */
	struct store_admit own;
	struct store_leg leg;
	struct buf record;
};

/*
 * The life of an entry:
 *
 *   IDLE ──► READY      a take brought it
 *   IDLE ──► READING    it was put aside; READING ──► READY, or aside again
 *   READY ──► ASKED     READY again if the store failed; IDLE if it is put aside
 *   ASKED ──► CLOSING   it was decided, or can never be decided (also from READY)
 *   CLOSING ──► IDLE    or DECIDED if the local store failed, which is closed again
 */
enum drain_state {
	DRAIN_IDLE = 0,
	DRAIN_READING, /* again after it was put aside, at the local store */
	DRAIN_READY,   /* to be admitted */
	DRAIN_ASKED,   /* at the shared store */
	DRAIN_DECIDED, /* to be closed once more */
	DRAIN_CLOSING, /* at the local store */
};

struct drain_entry {
	struct drain *drain;
	enum drain_state state;
	uint64_t ticket; /* the local store's */
	uint32_t attempt;
	uint32_t turn;
	struct store_parts parts; /* in the take's items */
	struct spool_record record;
	struct store_settle settle;
	struct store_read read;
};

/* An event whose part of the store is away. It stays leased in the local store. */
struct drain_aside {
	uint64_t ticket;
	uint64_t until_ms; /* boot */
	uint32_t attempt;
};

struct drain {
	struct spool *spool;
	struct store_take take;
	uint64_t taken_ms; /* boot */
	bool taking;
	uint32_t count; /* entries that are not idle */
	uint32_t asked;
	uint64_t asked_ms;
	uint64_t after_ms; /* not before */
	struct drain_entry *entries;
};

struct spool {
	struct store store;
	struct spool_store_options options;
	struct store *shared; /* NULL: not opened yet */
	struct store *local;
	const struct clock *clock;

	/* Only if the shared store is opened later. */
	struct thread opener;
	struct wake_event wake;
	atomic_bool closing;
	struct histogram commit_us, commit_batch;
	_Atomic(struct store *) opened; /* the shared store, for any thread */

	uint64_t now_ms; /* boot, of this flush or tick */
	uint64_t random;
	struct breaker breaker;
	uint64_t away_since_ms;
	struct store_lookup probe;
	uint32_t probe_turn;
	bool probing;

	struct spool_call *free_calls;
	struct spool_chunk *chunks;
	struct op_queue finished; /* without the store: done() at the next flush */
	struct op_queue held;     /* until the store is back */
	struct drain drains[DRAINS_MAX];
	uint32_t drain_count;
	struct drain again;        /* of what was put aside */
	struct drain_aside *aside; /* a ring of ASIDE_MAX; NULL: nothing was put aside yet */
	uint32_t aside_first, aside_count;
	uint64_t decided[VERDICT_COUNT]; /* since it was empty */
	bool dirty;                      /* an operation was submitted after the last flush */
	bool ending;                     /* nothing waits any more */

	atomic_bool away;
	atomic_uint_fast64_t away_times;
	atomic_uint_fast64_t waiting; /* in the spool, or on their way into it */
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

printf_like(3, 4) static void report(const struct spool *spool, enum spool_level level,
                                     const char *format, ...)
{
	char text[LOG_TEXT_MAX];
	va_list arguments;
	if (!spool->options.log)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	spool->options.log(spool->options.log_user, level, text);
}

/* ---- a store that is opened later ---- */

static void open_shared(void *user)
{
	struct spool *spool = user;
	const struct spool_store_options *options = &spool->options;
	uint32_t every_ms = options->open_every_ms ? options->open_every_ms : OPEN_EVERY_MS;
	struct error_text text = { "" };
	struct store *opened = NULL;
	int error = ERR_AWAY;

	while (error == ERR_AWAY && !atomic_load(&spool->closing)) {
		wake_event_wait(&spool->wake, (int)every_ms);
		if (!atomic_load(&spool->closing))
			error = options->open(options->open_user, &opened, &text);
	}
	if (error == 0) {
		/* Metrics point to these since the start; nothing was recorded yet. */
		opened->commit_us = &spool->commit_us;
		opened->commit_batch = &spool->commit_batch;
		atomic_store(&spool->opened, opened);
	} else if (error != ERR_AWAY) {
		options->refused(options->open_user, error, text.text);
	}
}

/* Also after it was opened: who waits for the end of a write waits for both stores. */
static void adopt_stores(struct spool *spool)
{
	if (!spool->shared)
		spool->shared = atomic_load(&spool->opened);
	struct store *stores[] = { spool->shared, spool->local };
	for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
		if (!stores[i] || stores[i]->written == spool->store.written)
			continue;
		stores[i]->written_user = spool->store.written_user;
		stores[i]->written = spool->store.written;
	}
}

/* ---- operations ---- */

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

static bool is_back(const struct spool *spool)
{
	return spool->breaker.state == BREAKER_CLOSED;
}

/* store: NULL: the shared one, which is not opened yet. */
static void submit_to(struct spool *spool, struct store *store, struct store_op *op)
{
	spool->dirty = true;
	if (store)
		store_submit(store, op);
	else
		finish(spool, op, ERR_AWAY);
}

static void judge(struct spool *spool, uint32_t turn, int error);

static struct spool_call *call_get(struct spool *spool)
{
	if (!spool->free_calls) {
		struct spool_chunk *chunk = mem_zalloc(1, sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->next = spool->chunks;
		spool->chunks = chunk;
		for (uint32_t i = 0; i < CHUNK_CALLS; i++) {
			chunk->calls[i].spool = spool;
			chunk->calls[i].next = spool->free_calls;
			spool->free_calls = &chunk->calls[i];
		}
	}
	struct spool_call *call = spool->free_calls;
	spool->free_calls = call->next;
	return call;
}

static void call_put(struct spool_call *call)
{
	call->op = NULL;
	call->next = call->spool->free_calls;
	call->spool->free_calls = call;
}

/* ---- into the spool ---- */

/* Has it a claim of its own that still proves, a day later, that it was admitted? */
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

/* With the mark that it was submitted with before, if it was. */
static void keep(struct spool *spool, struct store_admit *admit, const struct digest *mark)
{
	struct digest fresh;
	struct spool_keep *keep = NULL;
	int error = store_admit_check(admit);
	if (error == 0 && !mark) {
		error = make_mark(&fresh) == 0 ? 0 : ERR_FULL;
		mark = &fresh;
	}
	if (error == 0) {
		keep = mem_zalloc(1, sizeof(*keep));
		error = keep && spool_record_write(admit, mark, &keep->record) == 0 ? 0 : ERR_FULL;
	}
	if (error != 0) {
		if (keep)
			buf_free(&keep->record);
		mem_free(keep);
		finish(spool, &admit->op, error);
		return;
	}
	keep->spool = spool;
	keep->admit = admit;
	keep->leg = (struct store_leg){ .sink = SPOOL_SINK };
	keep->own = (struct store_admit){
		.op = { .kind = STORE_ADMIT, .done = kept, .user = keep },
		.source = admit->source,
		.legs = &keep->leg,
		.leg_count = 1,
		.payload = buf_span(&keep->record),
	};
	atomic_fetch_add(&spool->waiting, 1);
	submit_to(spool, spool->local, &keep->own.op);
}

/* ---- to the shared store ---- */

/* The store cannot be reached. Takes and outcomes wait until it is back. */
static void away(struct spool *spool, struct store_op *op, const struct digest *mark)
{
	bool waits = op->kind == STORE_SETTLE ||
	             (op->kind == STORE_TAKE &&
	              container_of(op, const struct store_take, op)->ticket == 0);
	if (op->kind == STORE_ADMIT && can_spool(spool, admit_of(op)) && !spool->ending)
		keep(spool, admit_of(op), mark);
	else if (waits && !spool->ending)
		op_queue_put(&spool->held, op);
	else
		finish(spool, op, ERR_AWAY);
}

static void passed(struct store_op *op)
{
	struct spool_call *call = op->user;
	struct spool *spool = call->spool;
	struct digest mark = call->mark;
	bool marked = call->marked;
	CHECK(call->op == op);
	op->done = call->done;
	op->user = call->user;
	if (marked)
		admit_of(op)->claim_count--;
	judge(spool, call->turn, op->error);
	call_put(call);
	if (unlikely(op->error == ERR_AWAY))
		away(spool, op, marked ? &mark : NULL);
	else
		op->done(op);
}

/* With a mark it can be recognized if the answer to its admission is lost. */
static int mark_admit(struct spool_call *call, struct store_admit *admit)
{
	if (!can_spool(call->spool, admit) || is_sure(admit))
		return 0;
	int error = make_mark(&call->mark);
	if (error != 0)
		return error;
	CHECK(admit->claim_count < CLAIMS_MAX);
	admit->claims[admit->claim_count++] = (struct claim){ .digest = call->mark,
		                                              .window_s = SPOOL_MARK_S };
	call->marked = true;
	return 0;
}

static void pass_on(struct spool *spool, struct store_op *op)
{
	struct spool_call *call = call_get(spool);
	if (!call) {
		finish(spool, op, ERR_FULL);
		return;
	}
	call->marked = false;
	if (op->kind == STORE_ADMIT && mark_admit(call, admit_of(op)) != 0) {
		call_put(call);
		finish(spool, op, ERR_FULL);
		return;
	}
	call->op = op;
	call->done = op->done;
	call->user = op->user;
	call->turn = breaker_begin(&spool->breaker);
	op->done = passed;
	op->user = call;
	submit_to(spool, spool->shared, op);
}

static void spool_submit(struct store *store, struct store_op *op)
{
	struct spool *spool = spool_of(store);
	CHECK(op->done);
	if (unlikely(!is_back(spool)))
		away(spool, op, NULL);
	else if (op->kind == STORE_ADMIT &&
	         unlikely(atomic_load_explicit(&spool->waiting, memory_order_relaxed) > 0) &&
	         can_spool(spool, admit_of(op))) /* behind those that were spooled before */
		keep(spool, admit_of(op), NULL);
	else
		pass_on(spool, op);
}

/* ---- the breaker ---- */

static void try_held(struct spool *spool)
{
	struct store_op *op = op_queue_take_all(&spool->held);
	while (op) {
		struct store_op *next = op->next;
		spool_submit(&spool->store, op);
		op = next;
	}
}

/* The shared store has answered an operation that was submitted in this turn. */
static void judge(struct spool *spool, uint32_t turn, int error)
{
	uint64_t random = spool->random; /* xorshift */
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	spool->random = random;
	struct breaker_end end = {
		.turn = turn,
		.says = error == ERR_AWAY      ? BREAKER_FAILURE
		        : error == ERR_CLOSING ? BREAKER_NOTHING
		                               : BREAKER_SUCCESS,
		.now_ms = spool->now_ms,
		.random = random,
	};
	bool was_away = atomic_load_explicit(&spool->away, memory_order_relaxed);
	if (!breaker_end(&spool->breaker, &end))
		return;
	if (is_back(spool)) {
		atomic_store(&spool->away, false);
		report(spool, SPOOL_INFO,
		       "shared store is reachable again: after %llu ms; %llu events wait in the spool",
		       (unsigned long long)(spool->now_ms - spool->away_since_ms),
		       (unsigned long long)atomic_load(&spool->waiting));
		try_held(spool);
	} else if (!was_away) {
		atomic_store(&spool->away, true);
		atomic_fetch_add(&spool->away_times, 1);
		spool->away_since_ms = spool->now_ms;
		report(spool, SPOOL_WARNING, "shared store is unreachable: %s",
		       spool->local ? "events with store_away: spool are spooled, others rejected"
		                    : "events are rejected until it is reachable again");
	}
}

static void probed(struct store_op *op)
{
	struct spool *spool = op->user;
	spool->probing = false;
	judge(spool, spool->probe_turn, op->error);
}

/* A lookup that any store answers without a write, of a claim that nobody has. */
static void probe(struct spool *spool)
{
	if (is_back(spool) || spool->probing || spool->ending ||
	    breaker_room(&spool->breaker, spool->now_ms) == 0)
		return;
	spool->probing = true;
	spool->probe_turn = breaker_begin(&spool->breaker);
	spool->probe = (struct store_lookup){
		.op = { .kind = STORE_LOOKUP, .done = probed, .user = spool },
		.kind = CLAIM_ONCE,
	};
	submit_to(spool, spool->shared, &spool->probe.op);
}

/* ---- draining: the end of an event ---- */

static int drain_make(struct spool *spool, struct drain *drain)
{
	drain->spool = spool;
	drain->entries = mem_zalloc(DRAIN_MAX, sizeof(*drain->entries));
	if (!drain->entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < DRAIN_MAX; i++)
		drain->entries[i].drain = drain;
	return 0;
}

static void drain_release(struct drain *drain)
{
	for (uint32_t i = 0; drain->entries && i < DRAIN_MAX; i++)
		buf_free(&drain->entries[i].read.items);
	drain->entries = mem_free(drain->entries);
	buf_free(&drain->take.items);
}

static void leave(struct drain_entry *entry)
{
	CHECK(entry->state != DRAIN_IDLE);
	entry->state = DRAIN_IDLE;
	entry->drain->count--;
}

static void closed(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->drain->spool;
	CHECK(entry->state == DRAIN_CLOSING);
	if (op->error != 0 && op->error != ERR_CLOSING) { /* it is decided: close it again */
		entry->state = DRAIN_DECIDED;
		entry->drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		return;
	}
	leave(entry);
	if (op->error != 0 || atomic_fetch_sub(&spool->waiting, 1) > 1)
		return;
	uint64_t *decided = spool->decided, all = 0;
	for (int i = 0; i < VERDICT_COUNT; i++)
		all += decided[i];
	report(spool, SPOOL_INFO,
	       "spool drained: of %" PRIu64 " events %" PRIu64 " were new, %" PRIu64
	       " duplicates, %" PRIu64 " stale, %" PRIu64 " conflicts",
	       all, decided[VERDICT_NEW], decided[VERDICT_DUPLICATE], decided[VERDICT_STALE],
	       decided[VERDICT_CONFLICT]);
	memset(decided, 0, sizeof(spool->decided));
}

static void close_entry(struct drain_entry *entry)
{
	CHECK(entry->state != DRAIN_IDLE);
	CHECK(entry->state != DRAIN_CLOSING);
	entry->state = DRAIN_CLOSING;
	entry->settle.op = (struct store_op){ .kind = STORE_SETTLE, .done = closed, .user = entry };
	entry->settle.ticket = entry->ticket;
	entry->settle.attempt = entry->attempt;
	submit_to(entry->drain->spool, entry->drain->spool->local, &entry->settle.op);
}

/* It can never be decided: kept in the local store for a person. */
static void give_up(struct drain_entry *entry, int error)
{
	char number[TICKET_TEXT_LEN];
	const char *why = error_name(error);
	ticket_text(entry->ticket, number);
	report(entry->drain->spool, SPOOL_ERROR,
	       "spooled event cannot be decided; kept in the spool as dead: %.*s: %s",
	       TICKET_TEXT_LEN, number, why);
	entry->settle.outcome = OUTCOME_DEAD;
	entry->settle.text = span_str(why);
	close_entry(entry);
}

/* ---- draining: events put aside ---- */

/* The part of the store that decides it is away, and others do not wait for it. False: there
 * is no room for it. */
static bool put_aside(struct drain_entry *entry)
{
	struct drain *drain = entry->drain;
	struct spool *spool = drain->spool;
	if (!spool->aside)
		spool->aside = mem_zalloc(ASIDE_MAX, sizeof(*spool->aside));
	if (!spool->aside || spool->aside_count == ASIDE_MAX)
		return false;
	spool->aside[(spool->aside_first + spool->aside_count++) % ASIDE_MAX] =
		(struct drain_aside){ .ticket = entry->ticket,
		                      .attempt = entry->attempt,
		                      .until_ms = spool->now_ms + DRAIN_ASIDE_MS };
	spool->again.take.now_ms = drain->take.now_ms;
	spool->again.taken_ms = drain->taken_ms;
	leave(entry);
	return true;
}

/* Ready to be admitted, or given up. */
static void receive(struct drain_entry *entry, const struct store_parts *parts)
{
	entry->state = DRAIN_READY;
	entry->settle = (struct store_settle){ .ticket = entry->ticket };
	entry->parts = *parts;
	int error = spool_record_read(parts->payload, &entry->record);
	if (error != 0)
		give_up(entry, error);
}

static void read_again(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	CHECK(entry->state == DRAIN_READING);
	entry->drain->spool->dirty = true;
	if (op->error != 0 ||
	    !store_item_next(buf_span(&entry->read.items), &offset, &item, &parts)) {
		bool aside = op->error != ERR_CLOSING && put_aside(entry);
		if (!aside) /* it stays in the local store until the next start */
			leave(entry);
		return;
	}
	receive(entry, &parts);
}

static void take_from_aside(struct drain *drain)
{
	struct spool *spool = drain->spool;
	for (uint32_t i = 0; i < DRAIN_MAX && spool->aside_count > 0; i++) {
		const struct drain_aside *aside = &spool->aside[spool->aside_first];
		struct drain_entry *entry = &drain->entries[i];
		if (aside->until_ms > spool->now_ms)
			return;
		spool->aside_first = (spool->aside_first + 1) % ASIDE_MAX;
		spool->aside_count--;
		drain->count++;
		entry->state = DRAIN_READING;
		entry->ticket = entry->read.ticket = aside->ticket;
		entry->attempt = aside->attempt;
		entry->read.op =
			(struct store_op){ .kind = STORE_READ, .done = read_again, .user = entry };
		submit_to(spool, spool->local, &entry->read.op);
	}
}

/* ---- draining: the decision ---- */

static void admitted(struct store_op *op)
{
	struct drain_entry *entry = op->user;
	struct spool *spool = entry->drain->spool;
	CHECK(entry->state == DRAIN_ASKED);
	CHECK(entry->drain->asked > 0);
	entry->drain->asked--;
	/* A part that is away, and is asked again and again, does not make the store away. */
	bool part = spool->options.in_parts && op->error == ERR_AWAY && !spool->ending;
	judge(spool, entry->turn, part ? ERR_CLOSING : op->error);
	if (part && put_aside(entry))
		return;
	switch (op->error) {
	case 0:
		spool->decided[entry->record.admit.verdict]++;
		entry->settle.outcome = OUTCOME_DONE;
		close_entry(entry);
		break;
	case ERR_CLOSING: leave(entry); break;
	case ERR_INVALID:
	case ERR_TOO_LARGE: give_up(entry, op->error); break;
	default:
		entry->state = DRAIN_READY;
		entry->drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		break;
	}
}

/* Windows count from when the event came. An event without room for the mark is recognized by
 * its own claims, which must last. */
static void age(struct store_admit *admit, uint64_t age_ms)
{
	uint64_t age_s = age_ms / 1000;
	uint32_t floor_s = admit->claim_count == CLAIMS_MAX ? SPOOL_SURE_S : DRAIN_WINDOW_S;
	for (uint32_t i = 0; i < admit->claim_count; i++) {
		struct claim *claim = &admit->claims[i];
		uint32_t least = claim->window_s < floor_s ? claim->window_s : floor_s;
		uint64_t left = claim->window_s > age_s ? claim->window_s - age_s : 0;
		claim->window_s = left > least ? (uint32_t)left : least;
	}
}

static void ask(struct drain_entry *entry)
{
	struct spool *spool = entry->drain->spool;
	struct store_admit *admit = &entry->record.admit;
	/* It may have waited here for long: read it again, with what is left of its windows. */
	uint64_t now_ms = entry->drain->take.now_ms + (spool->now_ms - entry->drain->taken_ms);
	uint64_t came_ms = ticket_time_ms(entry->ticket);
	CHECK(spool_record_read(entry->parts.payload, &entry->record) == 0);
	admit->source = entry->parts.source;
	age(admit, now_ms > came_ms ? now_ms - came_ms : 0);
	if (admit->claim_count < CLAIMS_MAX) /* else a claim lasts: see age() and is_sure() */
		admit->claims[admit->claim_count++] = (struct claim){ .digest = entry->record.mark,
			                                              .window_s = SPOOL_MARK_S };
	entry->state = DRAIN_ASKED;
	entry->turn = breaker_begin(&spool->breaker);
	entry->drain->asked++;
	entry->drain->asked_ms = spool->now_ms;
	admit->op = (struct store_op){ .kind = STORE_ADMIT, .done = admitted, .user = entry };
	submit_to(spool, spool->shared, &admit->op);
}

/* ---- draining: the oldest events ---- */

static void taken(struct store_op *op)
{
	struct drain *drain = op->user;
	struct spool *spool = drain->spool;
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	CHECK(drain->taking);
	drain->taking = false;
	drain->taken_ms = spool->now_ms;
	spool->dirty = true;
	if (op->error != 0) {
		drain->after_ms = spool->now_ms + DRAIN_RETRY_MS;
		return;
	}
	CHECK(drain->count == 0);
	CHECK(drain->take.count <= DRAIN_MAX);
	for (uint32_t i = 0; store_item_next(buf_span(&drain->take.items), &offset, &item, &parts);
	     i++) {
		struct drain_entry *entry = &drain->entries[i];
		entry->ticket = item.ticket;
		entry->attempt = item.attempt;
		drain->count++;
		receive(entry, &parts);
	}
}

static void begin_take(struct drain *drain)
{
	struct buf items = drain->take.items;
	drain->taking = true;
	drain->take = (struct store_take){
		.op = { .kind = STORE_TAKE, .done = taken, .user = drain },
		.sink = SPOOL_SINK,
		.max_items = DRAIN_MAX,
		.max_bytes = DRAIN_BYTES,
		.items = items,
	};
	submit_to(drain->spool, drain->spool->local, &drain->take.op);
}

static void drain_entries(struct drain *drain)
{
	bool asks = drain->asked == 0 && is_back(drain->spool);
	for (uint32_t i = 0; i < DRAIN_MAX; i++) {
		struct drain_entry *entry = &drain->entries[i];
		if (entry->state == DRAIN_DECIDED)
			close_entry(entry);
		else if (entry->state == DRAIN_READY && asks)
			ask(entry);
	}
}

/* Does what can be done now. The oldest events come first: only one drain takes, unless it is
 * stuck. */
static void drain_step(struct spool *spool)
{
	bool may_take = true;
	if (!spool->local || spool->ending)
		return;
	for (uint32_t d = 0; d < spool->drain_count; d++) {
		struct drain *drain = &spool->drains[d];
		bool any = atomic_load(&spool->waiting) > spool->aside_count;
		if (spool->now_ms < drain->after_ms)
			may_take = false;
		else if (drain->count > 0)
			drain_entries(drain);
		else if (may_take && any && !drain->taking)
			begin_take(drain);
		bool stuck = drain->asked > 0 && spool->now_ms - drain->asked_ms >= DRAIN_STUCK_MS;
		may_take = may_take && stuck;
	}
	struct drain *again = &spool->again;
	if (again->count > 0 && spool->now_ms >= again->after_ms)
		drain_entries(again);
	else if (again->count == 0 && spool->aside_count > 0 && is_back(spool))
		take_from_aside(again);
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

static void run(struct spool *spool)
{
	uint32_t round = 0;
	do {
		spool->dirty = false;
		if (spool->shared)
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
	adopt_stores(spool);
	spool->now_ms = clock_read(spool->clock).boot_ms;
	run(spool);
}

static bool spool_under_way(struct store *store)
{
	struct spool *spool = spool_of(store);
	return spool->dirty || (spool->shared && store_under_way(spool->shared)) ||
	       (spool->local && store_under_way(spool->local));
}

static void spool_tick(struct store *store)
{
	struct spool *spool = spool_of(store);
	adopt_stores(spool);
	spool->now_ms = clock_read(spool->clock).boot_ms;
	probe(spool);
	if (is_back(spool)) /* those that failed while most did not */
		try_held(spool);
	if (spool->shared)
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
	*ret_stats = (struct store_stats){ .writable = false };
	struct store *shared = atomic_load(&spool->opened);
	if (shared)
		store_stats(shared, ret_stats);
	ret_stats->away = atomic_load(&spool->away);
	ret_stats->away_times = atomic_load(&spool->away_times);
	ret_stats->spooled_events = atomic_load(&spool->waiting);
	if (ret_stats->away)
		ret_stats->writable = spool->options.ready_when_away && local.writable;
}

static void spool_end_waits(struct store *store)
{
	struct spool *spool = spool_of(store);
	adopt_stores(spool);
	spool->ending = true;
	if (spool->shared)
		store_end_waits(spool->shared);
	if (spool->local)
		store_end_waits(spool->local);
	release_held(spool);
}

static void spool_hurry(struct store *store)
{
	adopt_stores(spool_of(store));
	if (spool_of(store)->shared)
		store_hurry(spool_of(store)->shared);
}

static void memory_free(struct spool *spool)
{
	for (uint32_t d = 0; d < spool->drain_count; d++)
		drain_release(&spool->drains[d]);
	drain_release(&spool->again);
	mem_free(spool->aside);
	while (spool->chunks) {
		struct spool_chunk *next = spool->chunks->next;
		mem_free(spool->chunks);
		spool->chunks = next;
	}
	mem_free(spool);
}

static void spool_free(struct store *store)
{
	struct spool *spool = spool_of(store);
	spool->ending = true;
	spool->now_ms = clock_read(spool->clock).boot_ms;
	release_held(spool);
	if (!spool->options.shared) {
		atomic_store(&spool->closing, true);
		wake_event_set(&spool->wake);
		thread_join(&spool->opener);
		wake_event_destroy(&spool->wake);
		adopt_stores(spool);
	}
	/* What the shared store decides at its end is closed in the local one. */
	spool->shared = store_free(spool->shared);
	spool->local = store_free(spool->local);
	run_finished(spool);
	memory_free(spool);
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

static int opener_start(struct spool *spool)
{
	struct thread_options options = {
		.name = "late store", .cpu = THREAD_ANY_CPU, .run = open_shared, .user = spool
	};
	wake_event_init(&spool->wake);
	int error = thread_start(&spool->opener, &options);
	if (error != 0)
		wake_event_destroy(&spool->wake);
	return error;
}

int spool_store_open(const struct spool_store_options *options, struct store **ret_store)
{
	CHECK(options->shared || (options->open && options->refused));
	struct spool *spool = mem_zalloc(1, sizeof(*spool));
	if (!spool)
		return -ENOMEM;
	op_queue_init(&spool->finished);
	op_queue_init(&spool->held);
	spool->options = *options;
	spool->shared = options->shared;
	spool->local = options->local;
	spool->clock = options->clock ? options->clock : clock_system();
	spool->now_ms = clock_read(spool->clock).boot_ms;
	spool->store = (struct store){
		.methods = &spool_methods,
		.commit_us = spool->shared ? spool->shared->commit_us : &spool->commit_us,
		.commit_batch = spool->shared ? spool->shared->commit_batch : &spool->commit_batch,
	};
	breaker_init(&spool->breaker, options->in_parts ? &parts_policy : &whole_policy,
	             spool->now_ms);
	int error = hash_random(&spool->random, sizeof(spool->random));
	spool->random |= 1;
	if (spool->local) {
		spool->drain_count = options->in_parts ? DRAINS_MAX : 1;
		for (uint32_t d = 0; d < spool->drain_count && error == 0; d++)
			error = drain_make(spool, &spool->drains[d]);
		if (error == 0 && options->in_parts)
			error = drain_make(spool, &spool->again);
		atomic_store(&spool->waiting, count_waiting(spool->local));
	}
	atomic_store(&spool->opened, spool->shared);
	if (error == 0 && !spool->shared)
		error = opener_start(spool);
	if (error != 0) {
		memory_free(spool);
		return error;
	}
	*ret_store = &spool->store;
	return 0;
}
