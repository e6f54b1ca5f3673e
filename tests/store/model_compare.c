/* model_compare: see model_world.h. */
#include "model_world.h"

static void seen_compare(struct world *world, uint64_t ticket, uint64_t model, uint64_t local)
{
	bool exact = ticket > world->killed_after && !world->mixed_windows && !world->shared;
	bool right = exact ? local == model : local <= model;

	if (!right)
		fail_msg("%s, step %llu: ticket %llx was seen %llu times, the store says %llu",
		         test_note_seed(world->seed), (unsigned long long)world->step,
		         (unsigned long long)ticket, (unsigned long long)model,
		         (unsigned long long)local);
}

/* Between its decision and its commit an outcome of a leg may be seen or not. */
static bool settled_in_batch(const struct world *world, uint64_t event)
{
	for (size_t i = 0; i < world->pair_count; i++) {
		const struct pair *pair = &world->pairs[i];
		uint64_t ticket = pair->kind == STORE_SETTLE    ? pair->on[0].settle.ticket
		                  : pair->kind == STORE_RELEASE ? pair->on[0].release.ticket
		                                                : 0;
		if (ticket >= event && ticket < event + STORE_LEGS_MAX)
			return true;
	}
	return false;
}

static bool same_verdict(const struct world *world, enum verdict model, enum verdict local,
                         uint64_t ticket)
{
	return model == local || (model == VERDICT_DUPLICATE && local == VERDICT_BUSY &&
	                          settled_in_batch(world, ticket));
}

static void item_compare(struct world *world, const struct store_item item[2],
                         const struct store_parts parts[2])
{
	EXPECT(world, item[0].ticket == item[1].ticket);
	if (item[0].attempt != item[1].attempt)
		fail_msg("%s, step %llu: attempt %u of ticket %llx, the store says %u",
		         test_note_seed(world->seed), (unsigned long long)world->step,
		         item[0].attempt, (unsigned long long)item[0].ticket, item[1].attempt);
	EXPECT(world, item[0].event == item[1].event && item[0].sink == item[1].sink);
	EXPECT(world, item[0].order == item[1].order);
	EXPECT(world, item[0].state == item[1].state);
	EXPECT(world, item[0].last == item[1].last && item[0].status == item[1].status);
	EXPECT(world, item[0].due_ms == item[1].due_ms);
	EXPECT(world, item[0].flags == item[1].flags && item[0].bare == item[1].bare);
	EXPECT(world, span_eq(parts[0].source, parts[1].source));
	EXPECT(world, span_eq(parts[0].metadata, parts[1].metadata));
	EXPECT(world, span_eq(parts[0].payload, parts[1].payload));
}

static void lease_add(struct world *world, struct lease lease)
{
	if (world->lease_count < LEASES_MAX)
		world->leases[world->lease_count++] = lease;
}

static void aside_add(struct world *world, uint64_t ticket)
{
	size_t at = world->aside_count < LEASES_MAX ? world->aside_count++
	                                            : (size_t)below(world, LEASES_MAX);

	world->aside[at] = ticket;
}

static void admit_compare(struct world *world, const struct store_admit *model,
                          const struct store_admit *local)
{
	if (!same_verdict(world, model->verdict, local->verdict, model->ticket))
		fail_msg("%s, step %llu: the model says %s of ticket %llx by claim %u, the store "
		         "%s of ticket %llx by claim %u",
		         test_note_seed(world->seed), (unsigned long long)world->step,
		         verdict_name(model->verdict), (unsigned long long)model->ticket,
		         model->matched, verdict_name(local->verdict),
		         (unsigned long long)local->ticket, local->matched);
	EXPECT(world, model->matched == local->matched);
	EXPECT(world, model->ticket == local->ticket);
	EXPECT(world, model->own_ticket == local->own_ticket);
	EXPECT(world, model->first_seen_ms == local->first_seen_ms);
	EXPECT(world, model->order == local->order);
	EXPECT(world, same_verdict(world, model->would, local->would, model->would_ticket));
	EXPECT(world, model->would_matched == local->would_matched);
	EXPECT(world, model->would_ticket == local->would_ticket);
	if (model->verdict == VERDICT_DUPLICATE || model->verdict == VERDICT_BUSY)
		seen_compare(world, model->ticket, model->seen, local->seen);
	model_tally.verdicts[model->verdict]++;
	model_tally.would_verdicts[model->would]++;
	if (model->own_ticket)
		world->last_event = model->own_ticket;
	if (world->first_event == 0)
		world->first_event = model->own_ticket;
	model_tally.legs += model->own_ticket ? model->leg_count : 0;
	if (model->verdict == VERDICT_CONFLICT && model->on_conflict == STORE_CONFLICT_ASIDE &&
	    model->own_ticket)
		for (uint32_t i = 0; i < store_leg_count(model); i++)
			aside_add(world, model->own_ticket + i);
}

static void lookup_compare(struct world *world, const struct store_lookup *model,
                           const struct store_lookup *local)
{
	EXPECT(world, model->taken == local->taken);
	if (!model->taken)
		return;
	bool unsure = settled_in_batch(world, model->ticket);
	EXPECT(world, model->ticket == local->ticket);
	EXPECT(world, model->open == local->open || unsure);
	EXPECT(world, model->held == local->held || unsure);
	EXPECT(world, model->check == local->check);
	EXPECT(world, model->order == local->order);
	EXPECT(world, model->first_seen_ms == local->first_seen_ms);
	seen_compare(world, model->ticket, model->seen, local->seen);
}

static void started(struct world *world, const struct store_admit *admit)
{
	bool held = admit->verdict == VERDICT_CONFLICT &&
	            admit->on_conflict == STORE_CONFLICT_ASIDE;

	if (!admit->own_ticket || admit->leg_count != 1 || admit->legs[0].sink != CALLER)
		return;
	world->callers[world->caller_at++ % CALLERS_MAX] = admit->own_ticket;
	world->caller_count += world->caller_count < CALLERS_MAX;
	if (!admit->lease_ms || held)
		return;
	lease_add(world, (struct lease){ admit->own_ticket, 1, true });
	model_tally.starts++;
}

static void take_one_compare(struct world *world, struct store_take take[2])
{
	struct store_item item[2];
	struct store_parts parts[2];

	EXPECT(world, take[0].count == take[1].count && take[0].count <= 1);
	EXPECT(world, take[0].now_ms == take[1].now_ms);
	for (size_t k = 0; k < 2 && take[0].count; k++) {
		size_t at = 0;
		EXPECT(world, store_item_next(buf_span(&take[k].items), &at, &item[k], &parts[k]));
		EXPECT(world, at == take[k].items.len);
	}
	if (take[0].count) {
		item_compare(world, item, parts);
		lease_add(world, (struct lease){ item[1].ticket, item[1].attempt, true });
		model_tally.takes_of_one++;
	}
	buf_free(&take[0].items);
	buf_free(&take[1].items);
}

void pair_compare(struct world *world, struct pair *pair)
{
	EXPECT(world, pair->done[0] && pair->done[1]);
	EXPECT(world, pair->on[0].op.error == pair->on[1].op.error);
	model_tally.fenced += pair->on[0].op.error == ERR_FENCED;
	if (pair->on[0].op.error < 0)
		return;
	model_tally.ops[pair->kind]++;
	if (pair->kind == STORE_ADMIT) {
		admit_compare(world, &pair->on[0].admit, &pair->on[1].admit);
		started(world, &pair->on[0].admit);
	} else if (pair->kind == STORE_TAKE) {
		struct store_take take[2] = { pair->on[0].take, pair->on[1].take };
		take_one_compare(world, take);
	} else if (pair->kind == STORE_LOOKUP) {
		lookup_compare(world, &pair->on[0].lookup, &pair->on[1].lookup);
	} else if (pair->kind == STORE_CELL) {
		cell_compare(world, (struct store_cell[2]){ pair->on[0].cell, pair->on[1].cell });
	} else if (pair->kind == STORE_NOTE) {
		model_tally.noted[pair->on[0].note.mark]++;
	} else if (pair->kind == STORE_SETTLE) {
		enum outcome outcome = pair->on[0].settle.outcome;
		model_tally.settled[outcome]++;
		model_tally.answers += pair->on[0].settle.answer != NULL;
		if (outcome == OUTCOME_DEAD || outcome == OUTCOME_UNKNOWN)
			aside_add(world, pair->on[0].settle.ticket);
	}
}

/* What the local store leased, the model leases too: the same tickets,
 * oldest first, byte for byte. How many a take gives is the store's affair. */
void take_compare(struct world *world)
{
	struct take_call call = {
		.take = { .items = world->model_items,
		          .sink = world->waiting.take.sink,
		          .without_payload = world->waiting.take.without_payload }
	};
	size_t at[2] = { 0, 0 };
	struct store_item item[2];
	struct store_parts parts[2];

	EXPECT(world, world->waiting.take.op.error == 0);
	EXPECT(world, world->waiting.take.count > 0);
	take_call_begin(world->model, &call, world->waiting.take.count, UINT32_MAX);
	store_flush(world->model);
	EXPECT(world, call.finished && call.take.op.error == 0);
	EXPECT(world, call.take.count == world->waiting.take.count);
	for (uint32_t i = 0; i < call.take.count; i++) {
		const struct buf *items[2] = { &call.take.items, &world->waiting.take.items };
		for (size_t k = 0; k < 2; k++)
			EXPECT(world,
			       store_item_next(buf_span(items[k]), &at[k], &item[k], &parts[k]));
		item_compare(world, item, parts);
		lease_add(world, (struct lease){ item[1].ticket, item[1].attempt, false });
	}
	EXPECT(world, at[1] == world->waiting.take.items.len);
	world->model_items = call.take.items;
}

void stats_compare(struct world *world)
{
	struct store_stats model, local;
	store_stats(world->model, &model);
	store_stats(world->local, &local);
	EXPECT(world, model.open_tickets == local.open_tickets);
	EXPECT(world, model.due_tickets == local.due_tickets);
	EXPECT(world, model.held_tickets == local.held_tickets);
	EXPECT(world, model.parked_tickets == local.parked_tickets);
	EXPECT(world, model.dead_tickets == local.dead_tickets);
	EXPECT(world, model.caller_tickets == local.caller_tickets);
	EXPECT(world, model.waits == local.waits);
	EXPECT(world, local.writable);
}

/* What was noted, the newest first. When an event was moved within the journal its older
 * notes may be lost, but not the last one. */
static void history_compare(struct world *world, struct store_read read[2], size_t at[2])
{
	struct store_history found[2];
	struct span text[2];
	uint32_t count = 0;

	while (store_history_next(buf_span(&read[1].items), &at[1], &found[1], &text[1])) {
		EXPECT(world,
		       store_history_next(buf_span(&read[0].items), &at[0], &found[0], &text[0]));
		EXPECT(world, found[0].mark == found[1].mark);
		EXPECT(world, found[0].attempt == found[1].attempt);
		EXPECT(world, found[0].status == found[1].status);
		EXPECT(world, found[0].at_ms == found[1].at_ms);
		EXPECT(world, found[0].due_ms == found[1].due_ms);
		EXPECT(world, span_eq(text[0], text[1]));
		count++;
	}
	EXPECT(world, count > 0 || at[0] == read[0].items.len);
	model_tally.histories += count > 1;
}

void read_compare(struct world *world, uint64_t ticket)
{
	struct store_read read[2] = { { .ticket = ticket, .history = below(world, 2) } };
	struct store_item item[2];
	struct store_parts parts[2];
	size_t at[2] = { 0, 0 };

	read[1] = read[0];
	int error = store_call(world->model, &read[0].op, STORE_READ);
	EXPECT(world, store_call(world->local, &read[1].op, STORE_READ) == error);
	EXPECT(world, error == 0 || error == -ENOENT);
	for (size_t k = 0; k < 2 && error == 0; k++)
		EXPECT(world,
		       store_item_next(buf_span(&read[k].items), &at[k], &item[k], &parts[k]));
	if (error == 0) {
		item_compare(world, item, parts);
		history_compare(world, read, at);
		model_tally.ops[STORE_READ]++;
	}
	buf_free(&read[0].items);
	buf_free(&read[1].items);
}

/* All that a scan finds, whatever the pieces. */
static void scan_all(struct world *world, struct store *store, struct store_scan scan,
                     struct buf *ret_items)
{
	uint32_t pieces = 0;

	while (!scan.end) {
		EXPECT(world, store_call(store, &scan.op, STORE_SCAN) == 0);
		buf_append_span(ret_items, buf_span(&scan.items));
		EXPECT(world, ++pieces < 100000);
	}
	buf_free(&scan.items);
}

/* Every open ticket is among all events, once, whatever moved where. */
static void all_events_compare(struct world *world, const struct buf *open)
{
	struct buf all = { 0 };
	struct store_item item, event;
	struct store_parts parts;
	uint64_t open_count = 0;

	scan_all(world, world->local,
	         (struct store_scan){ .all = true, .max_items = 100, .max_bytes = 1u << 16 }, &all);
	for (size_t at = 0; store_item_next(buf_span(&all), &at, &event, &parts);) {
		open_count += event.state != STORE_STATE_CLOSED;
		model_tally.states[event.state]++;
	}
	for (size_t at = 0; store_item_next(buf_span(open), &at, &item, &parts);)
		open_count--;
	EXPECT(world, open_count == 0);
	buf_free(&all);
}

void scan_compare(struct world *world)
{
	struct store_scan scan = { .states = below(world, 2) ? 0 : (uint32_t)below(world, 128),
		                   .sink = (uint32_t)below(world, SINKS),
		                   .with_payload = below(world, 2),
		                   .max_items = 1 + (uint32_t)below(world, 40),
		                   .max_bytes = 1u << below(world, 20) };
	struct buf found[2] = { { 0 }, { 0 } };
	struct store_item item[2];
	struct store_parts parts[2];
	size_t at[2] = { 0, 0 };

	if (below(world, 2)) {
		scan.from = ticket_choose(world);
		scan.to = below(world, 2) ? 0 : scan.from + below(world, UINT64_C(1) << 40);
	}
	scan_all(world, world->model, scan, &found[0]);
	scan_all(world, world->local, scan, &found[1]);
	while (store_item_next(buf_span(&found[0]), &at[0], &item[0], &parts[0])) {
		EXPECT(world, store_item_next(buf_span(&found[1]), &at[1], &item[1], &parts[1]));
		item_compare(world, item, parts);
	}
	EXPECT(world, at[1] == found[1].len);
	if (scan.states == 0 && scan.sink == 0 && scan.from == 0)
		all_events_compare(world, &found[1]);
	model_tally.ops[STORE_SCAN]++;
	buf_free(&found[0]);
	buf_free(&found[1]);
}

void waits_compare(struct world *world)
{
	for (size_t i = 0; i < WAITS_MAX; i++) {
		struct wait_pair *pair = &world->waits[i];
		if (!pair->used)
			continue;
		EXPECT(world, pair->done[0] == pair->done[1]);
		if (!pair->done[0])
			continue;
		EXPECT(world, pair->on[0].op.error == pair->on[1].op.error);
		/* A dead letter that was too old is found again by a start, and dropped once
		 * more: then it is still known to be dead. A shared store remembers. */
		bool found_again = (world->options.dead_keep_ms == HOUR_MS || world->shared) &&
		                   pair->on[1].outcome == OUTCOME_DEAD;
		enum outcome model = pair->on[0].outcome, local = pair->on[1].outcome;
		bool older = pair->on[1].ticket < world->first_event || world->first_event == 0;
		bool unknown = world->shared && older && model == OUTCOME_DONE &&
		               local == OUTCOME_NONE;
		if (model != local && !found_again && !unknown)
			fail_msg("%s, step %llu: ticket %llx came to %s, the store says %s",
			         test_note_seed(world->seed), (unsigned long long)world->step,
			         (unsigned long long)pair->on[0].ticket, outcome_name(model),
			         outcome_name(local));
		model_tally.waited[pair->on[0].outcome] += pair->on[0].op.error == 0;
		pair->used = false;
	}
}
