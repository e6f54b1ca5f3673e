/*
 * memory_store: see memory_store.h.
 *
 * The operations, one after the other, on what is remembered: claims
 * (memory_claims.h), open tickets (memory_tickets.h) and cells (memory_cells.h).
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
#include "store/memory/memory_claims.h"
#include "store/memory/memory_tickets.h"
#include "store/waits.h"

#define MAX_OPEN_DEFAULT (16u << 20)

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

	struct memory_claims *claims;
	struct memory_tickets *tickets;
	struct memory_cells *cells;
	struct waits waits;
	uint32_t max_open;
	uint64_t dead_keep_ms;
	bool ending;

	/* What stats() tells, as publish() saw it last. */
	_Atomic uint64_t live_claims, live_entities, expired_claims, claim_bytes;
	_Atomic uint64_t tickets_in[STORE_STATE_CLOSED + 1], open_tickets, callers, ticket_bytes,
		wait_count;
	_Atomic uint64_t live_cells, cell_bytes;
	_Atomic uint64_t commits, commit_ops;
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

/* ---- operations ---- */

static struct taken_claim *claim_find(struct memory_store *memory, const struct digest *digest,
                                      bool newest)
{
	return memory_claims_find(memory->claims, digest, newest, memory->now_ms);
}

/* All that a new event needs, allocated before anything is changed. */
struct parts {
	struct taken_parts taken;
	struct ticket_body *body; /* NULL without a ticket */
};

static void parts_free(struct parts *parts)
{
	memory_claims_unprepare(&parts->taken);
	memory_tickets_unprepare(parts->body);
}

static bool has_room(const struct memory_store *memory, const struct store_admit *admit)
{
	return admit->beyond_limit ||
	       memory_tickets_open_count(memory->tickets) + store_leg_count(admit) <=
	               memory->max_open;
}

static int parts_alloc(struct memory_store *memory, const struct store_admit *admit,
                       uint32_t claims, struct parts *ret_parts)
{
	struct parts parts = { .body = NULL };

	if (memory_claims_prepare(claims, &parts.taken) < 0)
		return ERR_FULL;
	if (!admit->no_ticket &&
	    (!has_room(memory, admit) ||
	     memory_tickets_prepare(memory->tickets, admit, &parts.body) < 0)) {
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

	uint64_t ticket = ticket_next(memory->last_ticket, memory->now_ms);
	CHECK(ticket > memory->last_ticket);
	admit->own_ticket = ticket;
	memory->last_ticket = ticket + store_leg_count(admit) - 1;
	memory_claims_put(memory->claims, &parts.taken, ticket, taking->claims, taking->count,
	                  memory->now_ms);
	if (!admit->no_ticket)
		memory_tickets_open(memory->tickets, admit, ticket, TAKE(parts.body), taking->held);
	parts_free(&parts);
	return 0;
}

/* What this claim alone says of the event; `taken` is whom it meets, or NULL. */
static enum verdict claim_judge(struct memory_store *memory, const struct store_admit *admit,
                                const struct claim *claim, const struct taken_claim *taken)
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
                   const struct taken_claim *taken)
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
                           const struct taken_claim *taken)
{
	struct taking taking = { .claims = { store_aside_claim(&admit->claims[matched]) },
		                 .count = 1,
		                 .held = true };
	struct taken_claim *aside = claim_find(memory, &taking.claims[0].digest, false);

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
                       const struct taken_claim *taken)
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
	const struct taken_claim *taken = claim_find(memory, &claim->digest,
	                                             claim->kind == CLAIM_NEWEST);
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
	const struct taken_claim *taken = claim_find(memory, &lookup->digest,
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
	count_set(&memory->live_claims, memory_claims_count(memory->claims));
	count_set(&memory->live_entities, memory_claims_entities(memory->claims));
	count_set(&memory->expired_claims, memory_claims_expired(memory->claims));
	count_set(&memory->claim_bytes, memory_claims_bytes(memory->claims));
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
	memory_claims_sweep(memory->claims, memory->now_ms);
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
		.index_bytes = count_get(&memory->claim_bytes) + count_get(&memory->ticket_bytes) +
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

static struct memory_store *memory_free(struct memory_store *memory)
{
	memory_tickets_free(memory->tickets);
	memory_cells_free(memory->cells);
	memory_claims_free(memory->claims);
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
	memory->store.commit_us = &memory->commit_us;
	memory->store.commit_batch = &memory->commit_batch;
	waits_init(&memory->waits, 0, legs_of, memory);
	if (memory_claims_new(&memory->claims) < 0 || memory_tickets_new(&memory->tickets) < 0 ||
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
