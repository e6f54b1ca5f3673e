/*
 * model_store: see model_store.h.
 *
 * The operations, one after the other, on what is remembered: claims
 * (model_store_claims.h), open tickets (model_store_tickets.h) and cells
 * (model_store_cells.h).
 */
#include "support/model_store.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "gate/ticket.h"
#include "store/waits.h"
#include "support/model_store_cells.h"
#include "support/model_store_claims.h"
#include "support/model_store_tickets.h"

#define MAX_OPEN_DEFAULT (16u << 20)

struct op_list {
	struct store_op *head;
	struct store_op **tail;
};

struct model_store {
	struct store store;
	struct clock clock;
	uint64_t now_ms, boot_ms;
	uint64_t last_ticket;
	struct op_list queue;
	struct op_list takes;

	struct model_claims *claims;
	struct model_tickets *tickets;
	struct model_cells *cells;
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

static struct model_store *model_of(struct store *store)
{
	return container_of(store, struct model_store, store);
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

static void read_clock(struct model_store *model)
{
	struct clock_reading now = clock_read(&model->clock);

	if (now.wall_ms > model->now_ms)
		model->now_ms = now.wall_ms;
	model->boot_ms = now.boot_ms;
	model_tickets_set_time(model->tickets, model->now_ms, now.boot_ms);
	model_tickets_end_leases(model->tickets);
}

/* ---- operations ---- */

static struct taken_claim *claim_find(struct model_store *model, const struct digest *digest,
                                      bool newest)
{
	return model_claims_find(model->claims, digest, newest, model->now_ms);
}

/* All that a new event needs, allocated before anything is changed. */
struct parts {
	struct taken_parts taken;
	struct ticket_body *body; /* NULL without a ticket */
};

static void parts_free(struct parts *parts)
{
	model_claims_unprepare(&parts->taken);
	model_tickets_unprepare(parts->body);
}

static bool has_room(const struct model_store *model, const struct store_admit *admit)
{
	return admit->beyond_limit ||
	       model_tickets_open_count(model->tickets) + store_leg_count(admit) <= model->max_open;
}

static int parts_alloc(struct model_store *model, const struct store_admit *admit, uint32_t claims,
                       struct parts *ret_parts)
{
	struct parts parts = { .body = NULL };

	if (model_claims_prepare(claims, &parts.taken) < 0)
		return ERR_FULL;
	if (!admit->no_ticket && (!has_room(model, admit) ||
	                          model_tickets_prepare(model->tickets, admit, &parts.body) < 0)) {
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
static int event_keep(struct model_store *model, struct store_admit *admit,
                      const struct taking *taking)
{
	struct parts parts;
	int error = parts_alloc(model, admit, taking->count, &parts);
	if (error < 0)
		return error;

	uint64_t ticket = ticket_next(model->last_ticket, model->now_ms);
	CHECK(ticket > model->last_ticket);
	admit->own_ticket = ticket;
	model->last_ticket = ticket + store_leg_count(admit) - 1;
	model_claims_put(model->claims, &parts.taken, ticket, taking->claims, taking->count,
	                 model->now_ms);
	if (!admit->no_ticket)
		model_tickets_open(model->tickets, admit, ticket, TAKE(parts.body), taking->held);
	parts_free(&parts);
	return 0;
}

/* Do both know their content, and is it another? */
static bool content_differs(const struct claim *claim, const struct taken_claim *taken)
{
	uint32_t ours = digest_check(&claim->digest), theirs = digest_check(&taken->digest);

	return ours != 0 && theirs != 0 && ours != theirs;
}

/* What this claim alone says of the event; `taken` is whom it meets, or NULL. */
static enum verdict claim_judge(struct model_store *model, const struct store_admit *admit,
                                const struct claim *claim, const struct taken_claim *taken)
{
	if (!taken)
		return VERDICT_NEW;
	if (claim->kind == CLAIM_NEWEST) {
		bool passes = claim->order > taken->order ||
		              (claim->order == taken->order && !claim->equal_drops);
		return passes ? VERDICT_NEW : VERDICT_STALE;
	}
	if (claim->kind == CLAIM_ONCE && content_differs(claim, taken))
		return VERDICT_CONFLICT;
	if (admit->busy_if_open && model_tickets_legs(model->tickets, taken->event->ticket).pending)
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
static int answer_conflict(struct model_store *model, struct store_admit *admit, uint32_t matched,
                           const struct taken_claim *taken)
{
	struct taking taking = { .claims = { store_aside_claim(&admit->claims[matched]) },
		                 .count = 1,
		                 .held = true };
	struct taken_claim *aside = claim_find(model, &taking.claims[0].digest, false);

	if (admit->on_conflict == STORE_CONFLICT_ASIDE && !admit->no_ticket) {
		if (aside) {
			answer(admit, claim_judge(model, admit, &taking.claims[0], aside), matched,
			       aside);
			return 0;
		}
		int error = event_keep(model, admit, &taking);
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

static int answer_new(struct model_store *model, struct store_admit *admit,
                      const struct taking *taking)
{
	int error = event_keep(model, admit, taking);

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
static bool claim_drops(struct model_store *model, struct store_admit *admit, uint32_t i,
                        struct taking *taking, int *ret_error)
{
	const struct claim *claim = &admit->claims[i];
	const struct taken_claim *taken = claim_find(model, &claim->digest,
	                                             claim->kind == CLAIM_NEWEST);
	enum verdict verdict = claim_judge(model, admit, claim, taken);

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
		*ret_error = answer_conflict(model, admit, i, taken);
	else
		answer(admit, verdict, i, taken);
	return true;
}

static int admit_decide(struct model_store *model, struct store_admit *admit)
{
	struct taking taking = { .count = 0 };
	int error = store_admit_check(admit);

	answer_clear(admit);
	admit->decided_ms = model->now_ms;
	if (error < 0)
		return error;
	for (uint32_t i = 0; i < admit->claim_count; i++)
		if (claim_drops(model, admit, i, &taking, &error))
			return error;
	return answer_new(model, admit, &taking);
}

static int lookup_decide(struct model_store *model, struct store_lookup *lookup)
{
	const struct taken_claim *taken = claim_find(model, &lookup->digest,
	                                             lookup->kind == CLAIM_NEWEST);

	lookup->taken = taken != NULL;
	lookup->open = lookup->held = false;
	if (!taken)
		return 0;
	lookup->open = model_tickets_legs(model->tickets, taken->event->ticket).pending;
	lookup->held = model_tickets_held(model->tickets, taken->event->ticket);
	lookup->check = taken->newest ? 0 : digest_check(&taken->digest);
	lookup->order = taken->newest ? taken->order : 0;
	lookup->ticket = taken->event->ticket;
	lookup->first_seen_ms = ticket_time_ms(taken->event->ticket);
	lookup->seen = taken->newest ? 0 : taken->event->seen;
	return 0;
}

/* Those that wait longest come first, each of its own sink. */
static void takes_serve(struct model_store *model, struct op_list *finished)
{
	struct op_list waiting = model->takes;
	struct store_op *op = waiting.head;

	op_list_init(&model->takes);
	while (op) {
		struct store_op *next = op->next;
		op->error = 0;
		if (model_tickets_take(model->tickets, container_of(op, struct store_take, op)))
			op_list_add(finished, op);
		else
			op_list_add(&model->takes, op);
		op = next;
	}
}

/* With the cell that goes with it, or neither. */
static int settle_decide(struct model_store *model, const struct store_settle *settle)
{
	struct model_cell *fresh = NULL;

	if (settle->answer) {
		int error = store_cell_value_check(settle->answer);
		if (error < 0)
			return error;
		error = model_cells_prepare(settle->answer, &fresh);
		if (error < 0)
			return error;
	}
	int error = model_tickets_settle(model->tickets, settle, &model->waits);
	if (fresh && error == 0)
		model_cells_put(model->cells, TAKE(fresh), settle->answer, model->now_ms);
	model_cells_unprepare(fresh);
	return error;
}

static int op_decide(struct model_store *model, struct store_op *op)
{
	struct model_tickets *tickets = model->tickets;

	switch (op->kind) {
	case STORE_ADMIT: return admit_decide(model, container_of(op, struct store_admit, op));
	case STORE_SETTLE: return settle_decide(model, container_of(op, struct store_settle, op));
	case STORE_LOOKUP: return lookup_decide(model, container_of(op, struct store_lookup, op));
	case STORE_RELEASE:
		return model_tickets_release(tickets, container_of(op, struct store_release, op),
		                             &model->waits);
	case STORE_NOTE:
		return model_tickets_note(tickets, container_of(op, struct store_note, op));
	case STORE_READ:
		return model_tickets_read(tickets, container_of(op, struct store_read, op));
	case STORE_SCAN:
		return model_tickets_scan(tickets, container_of(op, struct store_scan, op));
	case STORE_RENEW:
		return model_tickets_renew(tickets, container_of(op, struct store_renew, op));
	case STORE_HELD:
		return model_tickets_list_held(tickets, container_of(op, struct store_held, op));
	case STORE_CELL:
		return model_cells_do(model->cells, container_of(op, struct store_cell, op),
		                      model->now_ms);
	case STORE_CELL_SCAN:
		return model_cells_scan(model->cells, container_of(op, struct store_cell_scan, op),
		                        model->now_ms);
	case STORE_WAIT: break;
	case STORE_TAKE:
		return model_tickets_take_one(tickets, container_of(op, struct store_take, op));
	}
	return ERR_INVALID;
}

static void publish(struct model_store *model)
{
	count_set(&model->live_claims, model_claims_count(model->claims));
	count_set(&model->live_entities, model_claims_entities(model->claims));
	count_set(&model->expired_claims, model_claims_expired(model->claims));
	count_set(&model->claim_bytes, model_claims_bytes(model->claims));
	for (int i = STORE_STATE_DUE; i < STORE_STATE_CLOSED; i++)
		count_set(&model->tickets_in[i],
		          model_tickets_count(model->tickets, (enum store_state)i));
	count_set(&model->callers, model_tickets_callers(model->tickets));
	count_set(&model->open_tickets, model_tickets_open_count(model->tickets));
	count_set(&model->ticket_bytes, model_tickets_bytes(model->tickets));
	count_set(&model->wait_count, model->waits.count);
	count_set(&model->live_cells, model_cells_count(model->cells));
	count_set(&model->cell_bytes, model_cells_bytes(model->cells));
}

static void submit(struct store *store, struct store_op *op)
{
	CHECK(op->done);
	op_list_add(&model_of(store)->queue, op);
}

static void flush(struct store *store)
{
	struct model_store *model = model_of(store);
	struct op_list finished;
	uint64_t count = 0;

	read_clock(model);
	op_list_init(&finished);
	struct store_op *op = model->queue.head;
	op_list_init(&model->queue);
	while (op) {
		struct store_op *next = op->next;
		if (store_take_waits(op)) {
			op_list_add(&model->takes, op);
		} else if (op->kind == STORE_WAIT) {
			if (!waits_add(&model->waits, container_of(op, struct store_wait, op)))
				op_list_add(&finished, op);
		} else {
			op->error = op_decide(model, op);
			op_list_add(&finished, op);
			count++;
		}
		op = next;
	}
	if (count) {
		count_add(&model->commits, 1);
		count_add(&model->commit_ops, count);
		histogram_record(store->commit_batch, count);
	}
	takes_serve(model, &finished);
	publish(model);
	op_list_finish(&finished);
}

static void tick(struct store *store)
{
	struct model_store *model = model_of(store);

	read_clock(model);
	model_claims_sweep(model->claims, model->now_ms);
	model_cells_sweep(model->cells, model->now_ms);
	model_tickets_drop_dead(model->tickets, model->dead_keep_ms, &model->waits);
	waits_expire(&model->waits, model->boot_ms);
	if (model->ending)
		waits_fail(&model->waits, ERR_CLOSING);
	struct op_list finished; /* of leases that are over */
	op_list_init(&finished);
	takes_serve(model, &finished);
	publish(model);
	op_list_finish(&finished);
}

static void end_waits(struct store *store)
{
	model_of(store)->ending = true;
}

static void stats(struct store *store, struct store_stats *ret_stats)
{
	struct model_store *model = model_of(store);

	*ret_stats = (struct store_stats){
		.live_claims = count_get(&model->live_claims),
		.live_entities = count_get(&model->live_entities),
		.live_cells = count_get(&model->live_cells),
		.expired_claims = count_get(&model->expired_claims),
		.index_bytes = count_get(&model->claim_bytes) + count_get(&model->ticket_bytes) +
		               count_get(&model->cell_bytes),
		.open_tickets = count_get(&model->open_tickets),
		.caller_tickets = count_get(&model->callers),
		.due_tickets = count_get(&model->tickets_in[STORE_STATE_DUE]),
		.held_tickets = count_get(&model->tickets_in[STORE_STATE_HELD]),
		.parked_tickets = count_get(&model->tickets_in[STORE_STATE_PARKED]),
		.dead_tickets = count_get(&model->tickets_in[STORE_STATE_DEAD]),
		.waits = count_get(&model->wait_count),
		.commits = count_get(&model->commits),
		.commit_ops = count_get(&model->commit_ops),
		.writable = count_get(&model->open_tickets) < model->max_open,
	};
}

static struct model_store *model_free(struct model_store *model)
{
	model_tickets_free(model->tickets);
	model_cells_free(model->cells);
	model_claims_free(model->claims);
	return mem_free(model);
}

/* What waits for something comes back. */
static void end_all(struct model_store *model)
{
	for (struct store_op *op = model->takes.head; op; op = op->next)
		op->error = ERR_CLOSING;
	op_list_finish(&model->takes);
	waits_fail(&model->waits, ERR_CLOSING);
}

static void free_store(struct store *store)
{
	struct model_store *model = model_of(store);

	if (model->queue.head)
		flush(store);
	end_all(model);
	CHECK(!model->queue.head); /* nobody may submit to a closing store */

	model_free(model);
}

static const struct store_methods model_methods = {
	.submit = submit,
	.flush = flush,
	.tick = tick,
	.stats = stats,
	.end_waits = end_waits,
	.free = free_store,
};

static struct waits_legs legs_of(void *user, uint64_t event)
{
	const struct model_store *model = user;

	return model_tickets_legs(model->tickets, event);
}

int model_store_open(const struct model_store_options *options, struct store **ret_store)
{
	struct model_store *model = mem_zalloc(1, sizeof(*model));

	if (!model)
		return -ENOMEM;
	model->store.methods = &model_methods;
	model->clock = options->clock ? *options->clock : *clock_system();
	model->max_open = options->max_open_tickets ? options->max_open_tickets : MAX_OPEN_DEFAULT;
	model->dead_keep_ms = options->dead_keep_ms ? options->dead_keep_ms : STORE_DEAD_KEEP_MS;
	op_list_init(&model->queue);
	op_list_init(&model->takes);
	model->store.commit_us = &model->commit_us;
	model->store.commit_batch = &model->commit_batch;
	waits_init(&model->waits, 0, legs_of, model);
	if (model_claims_new(&model->claims) < 0 || model_tickets_new(&model->tickets) < 0 ||
	    model_cells_new(&model->cells) < 0) {
		model_free(model);
		return -ENOMEM;
	}
	read_clock(model);
	*ret_store = &model->store;
	return 0;
}

static void restart(struct store *store, bool shared)
{
	struct model_store *model = model_of(store);

	CHECK(store->methods == &model_methods);
	CHECK(!model->queue.head);
	end_all(model);
	model_tickets_restart(model->tickets, shared);
	waits_init(&model->waits, model->last_ticket, legs_of, model);
	publish(model);
}

void model_store_restart(struct store *store)
{
	restart(store, false);
}

void model_store_restart_shared(struct store *store)
{
	restart(store, true);
}
