/*
 * memory_store: see memory_store.h.
 *
 * Claims hang in a chained hash, entities (claims of kind newest) among them; each
 * points to the event that took it, or moved it on last. An event lives while a
 * claim of it does. Open tickets: memory_tickets.h. Cells: memory_cells.h.
 */
#include "store/memory/memory_store.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/memory/memory_cells.h"
#include "store/memory/memory_tickets.h"
#include "store/waits.h"

#define MAX_OPEN_DEFAULT (16u << 20)
#define BUCKETS_FIRST 1024u
#define SWEEP_BUCKETS 4096u

struct event {
	uint64_t ticket;
	uint64_t seen;
	uint32_t refs;
};

struct taken {
	struct taken *next;
	struct event *event;
	struct digest digest;
	uint64_t expires_ms;
	bool newest;    /* an entity, */
	uint64_t order; /* and how far it is */
};

struct op_list {
	struct store_op *head;
	struct store_op **tail;
};

struct memory_store {
	struct store store;
	struct clock clock;
	uint64_t now_ms, boot_ms;
	uint64_t last_ticket;
	struct op_list queue;
	struct op_list takes;

	struct taken **buckets;
	size_t bucket_count; /* a power of two */
	size_t sweep_at;

	struct memory_tickets *tickets;
	struct memory_cells *cells;
	struct waits waits;
	uint32_t max_open;
	uint64_t dead_keep_ms;
	bool ending;

	_Atomic uint64_t live_claims, live_entities, expired_claims;
	_Atomic uint64_t tickets_in[STORE_STATE_CLOSED + 1], open_tickets, callers, ticket_bytes,
		wait_count;
	_Atomic uint64_t live_cells, cell_bytes;
	_Atomic uint64_t commits, commit_ops, bytes;
	struct histogram commit_us, commit_batch;
};

static struct memory_store *memory_of(struct store *store)
{
	return container_of(store, struct memory_store, store);
}

/* The owner alone writes; others may read at any time. */
static void count_add(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
	atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

static void count_set(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static uint64_t count_get(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void op_list_init(struct op_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}

static void op_list_add(struct op_list *list, struct store_op *op)
{
	op->next = NULL;
	*list->tail = op;
	list->tail = &op->next;
}

/* done() may submit again, so the list is left before it is walked. */
static void op_list_finish(struct op_list *list)
{
	struct store_op *op = list->head;

	op_list_init(list);
	while (op) {
		struct store_op *next = op->next;
		op->done(op);
		op = next;
	}
}

static void read_clock(struct memory_store *memory)
{
	struct clock_reading now = clock_read(&memory->clock);

	if (now.wall_ms > memory->now_ms)
		memory->now_ms = now.wall_ms;
	memory->boot_ms = now.boot_ms;
	memory_tickets_set_time(memory->tickets, memory->now_ms, now.boot_ms);
	memory_tickets_end_leases(memory->tickets);
}

/* ---- claims ---- */

static void event_drop(struct memory_store *memory, struct event *event)
{
	CHECK(event->refs > 0);
	if (--event->refs == 0) {
		mem_free(event);
		count_add(&memory->bytes, -(uint64_t)sizeof(*event));
	}
}

static struct taken **bucket_of(struct memory_store *memory, const struct digest *digest)
{
	return &memory->buckets[digest->word[0] & (memory->bucket_count - 1)];
}

static _Atomic uint64_t *live_count(struct memory_store *memory, const struct taken *taken)
{
	return taken->newest ? &memory->live_entities : &memory->live_claims;
}

static void taken_drop(struct memory_store *memory, struct taken **at)
{
	struct taken *taken = *at;

	*at = taken->next;
	event_drop(memory, taken->event);
	count_add(live_count(memory, taken), -UINT64_C(1));
	mem_free(taken);
	count_add(&memory->bytes, -(uint64_t)sizeof(*taken));
	count_add(&memory->expired_claims, 1);
}

static void bucket_expire(struct memory_store *memory, struct taken **at)
{
	while (*at) {
		if ((*at)->expires_ms <= memory->now_ms)
			taken_drop(memory, at);
		else
			at = &(*at)->next;
	}
}

static struct taken *claim_find(struct memory_store *memory, const struct digest *digest,
                                bool newest)
{
	struct taken **at = bucket_of(memory, digest);

	bucket_expire(memory, at);
	for (struct taken *taken = *at; taken; taken = taken->next)
		if (taken->newest == newest && digest_same_key(&taken->digest, digest))
			return taken;
	return NULL;
}

/* A failed growth only makes the chains longer. */
static void buckets_grow(struct memory_store *memory)
{
	size_t old_count = memory->bucket_count;
	struct taken **old = memory->buckets;
	struct taken **grown = mem_zalloc(old_count * 2, sizeof(struct taken *));

	if (!grown)
		return;
	memory->buckets = grown;
	memory->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct taken *taken = old[i];
			struct taken **at = bucket_of(memory, &taken->digest);
			old[i] = taken->next;
			taken->next = *at;
			*at = taken;
		}
	}
	mem_free(old);
	count_add(&memory->bytes, old_count * sizeof(struct taken *));
}

/* Nine significant bits, rounded up, as the index of the local store keeps it
 * (local/table.h): all stores give the same verdicts. */
static uint64_t window_kept_s(uint32_t window_s)
{
	unsigned bits = 32u - (unsigned)__builtin_clz(window_s | 1);
	unsigned shift = bits > 9 ? bits - 9 : 0;
	uint64_t below = (UINT64_C(1) << shift) - 1;

	return (window_s + below) & ~below;
}

/* The event has the claim from now on, whoever had it; `fresh` is used if nobody
 * had. */
static void claim_put(struct memory_store *memory, struct taken **fresh, struct event *event,
                      const struct claim *claim)
{
	bool newest = claim->kind == CLAIM_NEWEST;
	struct taken *taken = claim_find(memory, &claim->digest, newest);
	uint64_t now_ms = ticket_time_ms(event->ticket);
	uint32_t window_s = claim->window_s;

	event->refs++;
	if (taken) {
		window_s = store_window_s(window_s, taken->expires_ms, now_ms);
		event_drop(memory, taken->event);
	} else {
		struct taken **at = bucket_of(memory, &claim->digest);
		taken = *fresh;
		*fresh = NULL;
		taken->newest = newest;
		taken->next = *at;
		*at = taken;
		count_add(&memory->bytes, sizeof(*taken));
		count_add(live_count(memory, taken), 1);
	}
	taken->digest = claim->digest;
	taken->event = event;
	taken->order = claim->order;
	taken->expires_ms = now_ms + window_kept_s(window_s) * 1000;
}

/* ---- operations ---- */

/* All that a new event needs, allocated before anything is changed. */
struct parts {
	struct event *event;
	struct taken *taken[CLAIMS_MAX];
	struct ticket_body *body;
};

static void parts_free(struct parts *parts)
{
	mem_free(parts->event);
	memory_tickets_unprepare(parts->body);
	for (size_t i = 0; i < CLAIMS_MAX; i++)
		mem_free(parts->taken[i]);
}

static int parts_alloc(struct memory_store *memory, const struct store_admit *admit,
                       uint32_t claims, struct parts *ret_parts)
{
	struct parts parts = { .event = mem_zalloc(1, sizeof(struct event)) };
	bool whole = parts.event != NULL;

	for (uint32_t i = 0; i < claims && whole; i++) {
		parts.taken[i] = mem_zalloc(1, sizeof(struct taken));
		whole = parts.taken[i] != NULL;
	}
	if (whole && !admit->no_ticket)
		whole = memory_tickets_open_count(memory->tickets) + store_leg_count(admit) <=
		                memory->max_open &&
		        memory_tickets_prepare(memory->tickets, admit, &parts.body) == 0;
	if (!whole) {
		parts_free(&parts);
		return ERR_FULL;
	}
	*ret_parts = parts;
	return 0;
}

/* The claims that an event takes, which may be fewer than it came with. */
struct taking {
	struct claim claims[CLAIMS_MAX];
	uint32_t count;
	bool held; /* its ticket */
};

/* Gives the event a ticket and the claims. */
static int event_keep(struct memory_store *memory, struct store_admit *admit,
                      const struct taking *taking)
{
	struct parts parts;
	int error = parts_alloc(memory, admit, taking->count, &parts);
	if (error < 0)
		return error;

	struct event *event = parts.event;
	event->refs = 1; /* ours */
	event->ticket = ticket_next(memory->last_ticket, memory->now_ms);
	CHECK(event->ticket > memory->last_ticket);
	admit->own_ticket = event->ticket;
	memory->last_ticket = event->ticket + store_leg_count(admit) - 1;
	count_add(&memory->bytes, sizeof(struct event));
	for (uint32_t i = 0; i < taking->count; i++)
		claim_put(memory, &parts.taken[i], event, &taking->claims[i]);
	if (count_get(&memory->live_claims) + count_get(&memory->live_entities) >
	    memory->bucket_count)
		buckets_grow(memory);
	if (!admit->no_ticket)
		memory_tickets_open(memory->tickets, admit, event->ticket, parts.body,
		                    taking->held);
	parts.event = NULL;
	parts.body = NULL;
	parts_free(&parts);
	event_drop(memory, event);
	return 0;
}

/* What this claim alone says of the event; `taken` is whom it meets, or NULL. */
static enum verdict claim_judge(struct memory_store *memory, const struct store_admit *admit,
                                const struct claim *claim, const struct taken *taken)
{
	if (!taken)
		return VERDICT_NEW;
	if (claim->kind == CLAIM_NEWEST) {
		bool passes = claim->order > taken->order ||
		              (claim->order == taken->order && !claim->equal_drops);
		return passes ? VERDICT_NEW : VERDICT_STALE;
	}
	if (store_conflicts(claim, digest_check(&taken->digest)))
		return VERDICT_CONFLICT;
	if (admit->busy_if_open &&
	    memory_tickets_legs(memory->tickets, taken->event->ticket).pending)
		return VERDICT_BUSY;
	return VERDICT_DUPLICATE;
}

static void answer(struct store_admit *admit, enum verdict verdict, uint32_t matched,
                   const struct taken *taken)
{
	admit->verdict = verdict;
	admit->matched = matched;
	admit->ticket = taken->event->ticket;
	admit->first_seen_ms = ticket_time_ms(taken->event->ticket);
	if (verdict == VERDICT_DUPLICATE || verdict == VERDICT_BUSY)
		admit->seen = ++taken->event->seen;
	if (verdict == VERDICT_STALE)
		admit->order = taken->order;
}

/* The first time it is kept, then it is a duplicate of that. */
static int answer_conflict(struct memory_store *memory, struct store_admit *admit, uint32_t matched,
                           const struct taken *taken)
{
	struct taking taking = { .claims = { store_aside_claim(&admit->claims[matched]) },
		                 .count = 1,
		                 .held = true };
	struct taken *aside = claim_find(memory, &taking.claims[0].digest, false);

	if (admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket) {
		if (aside) {
			answer(admit, claim_judge(memory, admit, &taking.claims[0], aside), matched,
			       aside);
			return 0;
		}
		int error = event_keep(memory, admit, &taking);
		if (error < 0)
			return error;
	}
	answer(admit, VERDICT_CONFLICT, matched, taken);
	return 0;
}

static void note_would(struct store_admit *admit, enum verdict verdict, uint32_t matched,
                       const struct taken *taken)
{
	if (admit->would != VERDICT_NONE)
		return;
	admit->would = verdict;
	admit->would_matched = matched;
	admit->would_ticket = taken->event->ticket;
}

static int answer_new(struct memory_store *memory, struct store_admit *admit,
                      const struct taking *taking)
{
	int error = event_keep(memory, admit, taking);

	if (error == 0 && admit->verdict == VERDICT_NONE) {
		admit->verdict = VERDICT_NEW;
		admit->ticket = admit->own_ticket;
		admit->first_seen_ms = ticket_time_ms(admit->ticket);
	}
	return error;
}

static void answer_clear(struct store_admit *admit)
{
	admit->verdict = admit->would = VERDICT_NONE;
	admit->matched = admit->would_matched = 0;
	admit->ticket = admit->own_ticket = admit->would_ticket = 0;
	admit->first_seen_ms = admit->seen = admit->order = 0;
}

/* True: claim `i` drops the event, which has its answer or error. */
static bool claim_drops(struct memory_store *memory, struct store_admit *admit, uint32_t i,
                        struct taking *taking, int *ret_error)
{
	const struct claim *claim = &admit->claims[i];
	const struct taken *taken = claim_find(memory, &claim->digest, claim->kind == CLAIM_NEWEST);
	enum verdict verdict = claim_judge(memory, admit, claim, taken);

	if (verdict != VERDICT_NEW && claim->shadow) {
		note_would(admit, verdict, i, taken);
		return false;
	}
	if (verdict == VERDICT_CONFLICT && admit->on_conflict == STORE_CONFLICT_PASS) {
		if (admit->verdict == VERDICT_NONE)
			answer(admit, verdict, i, taken);
		verdict = VERDICT_NEW;
	}
	if (verdict == VERDICT_NEW) {
		taking->claims[taking->count++] = *claim;
		return false;
	}
	answer_clear(admit);
	*ret_error = 0;
	if (verdict == VERDICT_CONFLICT)
		*ret_error = answer_conflict(memory, admit, i, taken);
	else
		answer(admit, verdict, i, taken);
	return true;
}

static int admit_decide(struct memory_store *memory, struct store_admit *admit)
{
	struct taking taking = { .count = 0 };
	int error = store_admit_check(admit);

	answer_clear(admit);
	admit->decided_ms = memory->now_ms;
	if (error < 0)
		return error;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (claim_drops(memory, admit, i, &taking, &error))
			return error;
	return answer_new(memory, admit, &taking);
}

static int lookup_decide(struct memory_store *memory, struct store_lookup *lookup)
{
	const struct taken *taken = claim_find(memory, &lookup->digest,
	                                       lookup->kind == CLAIM_NEWEST);

	lookup->taken = taken != NULL;
	lookup->open = lookup->held = false;
	if (!taken)
		return 0;
	lookup->open = memory_tickets_legs(memory->tickets, taken->event->ticket).pending;
	lookup->held = memory_tickets_held(memory->tickets, taken->event->ticket);
	lookup->check = taken->newest ? 0 : digest_check(&taken->digest);
	lookup->order = taken->newest ? taken->order : 0;
	lookup->ticket = taken->event->ticket;
	lookup->first_seen_ms = ticket_time_ms(taken->event->ticket);
	lookup->seen = taken->newest ? 0 : taken->event->seen;
	return 0;
}

/* Those that wait longest come first, each of its own sink. */
static void takes_serve(struct memory_store *memory, struct op_list *finished)
{
	struct op_list waiting = memory->takes;
	struct store_op *op = waiting.head;

	op_list_init(&memory->takes);
	while (op) {
		struct store_op *next = op->next;
		op->error = 0;
		if (memory_tickets_take(memory->tickets, container_of(op, struct store_take, op)))
			op_list_add(finished, op);
		else
			op_list_add(&memory->takes, op);
		op = next;
	}
}

/* With the cell that goes with it, or neither. */
static int settle_decide(struct memory_store *memory, const struct store_settle *settle)
{
	struct memory_cell *fresh = NULL;

	if (settle->answer) {
		int error = store_cell_value_check(settle->answer);
		if (error < 0)
			return error;
		error = memory_cells_prepare(settle->answer, &fresh);
		if (error < 0)
			return error;
	}
	int error = memory_tickets_settle(memory->tickets, settle, &memory->waits);
	if (fresh && error == 0)
		memory_cells_put(memory->cells, TAKE(fresh), settle->answer, memory->now_ms);
	memory_cells_unprepare(fresh);
	return error;
}

static int op_decide(struct memory_store *memory, struct store_op *op)
{
	struct memory_tickets *tickets = memory->tickets;

	switch (op->kind) {
	case STORE_ADMIT: return admit_decide(memory, container_of(op, struct store_admit, op));
	case STORE_SETTLE: return settle_decide(memory, container_of(op, struct store_settle, op));
	case STORE_LOOKUP: return lookup_decide(memory, container_of(op, struct store_lookup, op));
	case STORE_RELEASE:
		return memory_tickets_release(tickets, container_of(op, struct store_release, op),
		                              &memory->waits);
	case STORE_NOTE:
		return memory_tickets_note(tickets, container_of(op, struct store_note, op));
	case STORE_READ:
		return memory_tickets_read(tickets, container_of(op, struct store_read, op));
	case STORE_SCAN:
		return memory_tickets_scan(tickets, container_of(op, struct store_scan, op));
	case STORE_RENEW:
		return memory_tickets_renew(tickets, container_of(op, struct store_renew, op));
	case STORE_HELD:
		return memory_tickets_list_held(tickets, container_of(op, struct store_held, op));
	case STORE_CELL:
		return memory_cells_do(memory->cells, container_of(op, struct store_cell, op),
		                       memory->now_ms);
	case STORE_CELL_SCAN:
		return memory_cells_scan(memory->cells,
		                         container_of(op, struct store_cell_scan, op),
		                         memory->now_ms);
	case STORE_WAIT: break;
	case STORE_TAKE:
		return memory_tickets_take_one(tickets, container_of(op, struct store_take, op));
	}
	return ERR_INVALID;
}

static void publish(struct memory_store *memory)
{
	for (int i = STORE_STATE_DUE; i < STORE_STATE_CLOSED; i++)
		count_set(&memory->tickets_in[i],
		          memory_tickets_count(memory->tickets, (enum store_state)i));
	count_set(&memory->callers, memory_tickets_callers(memory->tickets));
	count_set(&memory->open_tickets, memory_tickets_open_count(memory->tickets));
	count_set(&memory->ticket_bytes, memory_tickets_bytes(memory->tickets));
	count_set(&memory->wait_count, memory->waits.count);
	count_set(&memory->live_cells, memory_cells_count(memory->cells));
	count_set(&memory->cell_bytes, memory_cells_bytes(memory->cells));
}

static void submit(struct store *store, struct store_op *op)
{
	CHECK(op->done);
	op_list_add(&memory_of(store)->queue, op);
}

static void flush(struct store *store)
{
	struct memory_store *memory = memory_of(store);
	struct op_list finished;
	uint64_t count = 0;

	read_clock(memory);
	op_list_init(&finished);
	struct store_op *op = memory->queue.head;
	op_list_init(&memory->queue);
	while (op) {
		struct store_op *next = op->next;
		if (store_take_waits(op)) {
			op_list_add(&memory->takes, op);
		} else if (op->kind == STORE_WAIT) {
			if (!waits_add(&memory->waits, container_of(op, struct store_wait, op)))
				op_list_add(&finished, op);
		} else {
			op->error = op_decide(memory, op);
			op_list_add(&finished, op);
			count++;
		}
		op = next;
	}
	if (count) {
		count_add(&memory->commits, 1);
		count_add(&memory->commit_ops, count);
		histogram_record(store->commit_batch, count);
	}
	takes_serve(memory, &finished);
	publish(memory);
	op_list_finish(&finished);
}

static void tick(struct store *store)
{
	struct memory_store *memory = memory_of(store);

	read_clock(memory);
	for (size_t i = 0; i < SWEEP_BUCKETS && i < memory->bucket_count; i++) {
		memory->sweep_at = (memory->sweep_at + 1) & (memory->bucket_count - 1);
		bucket_expire(memory, &memory->buckets[memory->sweep_at]);
	}
	memory_cells_sweep(memory->cells, memory->now_ms);
	memory_tickets_drop_dead(memory->tickets, memory->dead_keep_ms, &memory->waits);
	waits_expire(&memory->waits, memory->boot_ms);
	if (memory->ending)
		waits_fail(&memory->waits, ERR_CLOSING);
	struct op_list finished; /* of leases that are over */
	op_list_init(&finished);
	takes_serve(memory, &finished);
	publish(memory);
	op_list_finish(&finished);
}

static void end_waits(struct store *store)
{
	memory_of(store)->ending = true;
}

static void stats(struct store *store, struct store_stats *ret_stats)
{
	struct memory_store *memory = memory_of(store);

	*ret_stats = (struct store_stats){
		.live_claims = count_get(&memory->live_claims),
		.live_entities = count_get(&memory->live_entities),
		.live_cells = count_get(&memory->live_cells),
		.expired_claims = count_get(&memory->expired_claims),
		.index_bytes = count_get(&memory->bytes) + count_get(&memory->ticket_bytes) +
		               count_get(&memory->cell_bytes),
		.open_tickets = count_get(&memory->open_tickets),
		.caller_tickets = count_get(&memory->callers),
		.due_tickets = count_get(&memory->tickets_in[STORE_STATE_DUE]),
		.held_tickets = count_get(&memory->tickets_in[STORE_STATE_HELD]),
		.parked_tickets = count_get(&memory->tickets_in[STORE_STATE_PARKED]),
		.dead_tickets = count_get(&memory->tickets_in[STORE_STATE_DEAD]),
		.waits = count_get(&memory->wait_count),
		.commits = count_get(&memory->commits),
		.commit_ops = count_get(&memory->commit_ops),
		.writable = count_get(&memory->open_tickets) < memory->max_open,
	};
}

static void claims_free(struct memory_store *memory)
{
	for (size_t i = 0; i < memory->bucket_count; i++)
		while (memory->buckets[i])
			taken_drop(memory, &memory->buckets[i]);
	mem_free(memory->buckets);
}

static struct memory_store *memory_free(struct memory_store *memory)
{
	memory_tickets_free(memory->tickets);
	memory_cells_free(memory->cells);
	if (memory->buckets)
		claims_free(memory);
	return mem_free(memory);
}

/* What waits for something comes back. */
static void end_all(struct memory_store *memory)
{
	for (struct store_op *op = memory->takes.head; op; op = op->next)
		op->error = ERR_CLOSING;
	op_list_finish(&memory->takes);
	waits_fail(&memory->waits, ERR_CLOSING);
}

static void free_store(struct store *store)
{
	struct memory_store *memory = memory_of(store);

	if (memory->queue.head)
		flush(store);
	end_all(memory);
	CHECK(!memory->queue.head); /* nobody may submit to a closing store */

	memory_free(memory);
}

static const struct store_methods memory_methods = {
	.submit = submit,
	.flush = flush,
	.tick = tick,
	.stats = stats,
	.end_waits = end_waits,
	.free = free_store,
};

static struct waits_legs legs_of(void *user, uint64_t event)
{
	const struct memory_store *memory = user;

	return memory_tickets_legs(memory->tickets, event);
}

int memory_store_open(const struct memory_store_options *options, struct store **ret_store)
{
	struct memory_store *memory = mem_zalloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	memory->store.methods = &memory_methods;
	memory->clock = options->clock ? *options->clock : *clock_system();
	memory->max_open = options->max_open_tickets ? options->max_open_tickets : MAX_OPEN_DEFAULT;
	memory->dead_keep_ms = options->dead_keep_ms ? options->dead_keep_ms : STORE_DEAD_KEEP_MS;
	op_list_init(&memory->queue);
	op_list_init(&memory->takes);
	memory->bucket_count = BUCKETS_FIRST;
	memory->buckets = mem_zalloc(memory->bucket_count, sizeof(struct taken *));
	memory->store.commit_us = &memory->commit_us;
	memory->store.commit_batch = &memory->commit_batch;
	waits_init(&memory->waits, 0, legs_of, memory);
	if (!memory->buckets || memory_tickets_new(&memory->tickets) < 0 ||
	    memory_cells_new(&memory->cells) < 0) {
		memory_free(memory);
		return -ENOMEM;
	}
	read_clock(memory);
	*ret_store = &memory->store;
	return 0;
}

static void restart(struct store *store, bool shared)
{
	struct memory_store *memory = memory_of(store);

	CHECK(store->methods == &memory_methods);
	CHECK(!memory->queue.head);
	end_all(memory);
	memory_tickets_restart(memory->tickets, shared);
	waits_init(&memory->waits, memory->last_ticket, legs_of, memory);
	publish(memory);
}

void memory_store_restart(struct store *store)
{
	restart(store, false);
}

void memory_store_restart_shared(struct store *store)
{
	restart(store, true);
}
