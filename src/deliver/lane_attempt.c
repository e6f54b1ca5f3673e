/* lane_attempt: an attempt's way from the schedule to the outlet. See lane_private.h. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane_private.h"

/* ---- pool ---- */

static bool add_slab(struct lane *lane)
{
	struct lane_attempt *slab = mem_zalloc(LANE_SLAB, sizeof(*slab));
	if (!slab)
		return false;
	CHECK(lane->slab_count < LANE_SLABS);
	lane->slabs[lane->slab_count++] = slab;
	for (uint32_t i = LANE_SLAB; i-- > 0;) {
		slab[i].lane = lane;
		slab[i].next_free = lane->pool;
		lane->pool = &slab[i];
	}
	return true;
}

struct lane_attempt *lane_pool_get(struct lane *lane)
{
	if (lane->pooled == 0 || (!lane->pool && !add_slab(lane)))
		return NULL;
	struct lane_attempt *attempt = lane->pool;
	CHECK(attempt->stage == STAGE_FREE);
	lane->pool = attempt->next_free;
	lane->pooled--;
	attempt->stage = STAGE_READY;
	attempt->place = SCHEDULE_NONE;
	attempt->begun = false;
	attempt->asks = false;
	attempt->noted = false;
	attempt->filled = false;
	attempt->owns = false;
	attempt->marks = 0;
	attempt->out.result.status = 0;
	attempt->out.result.text_len = 0;
	attempt->forget = false;
	attempt->drop = NULL;
	attempt->due_ms = 0;
	attempt->out.result.retry_after_ms = 0;
	return attempt;
}

void lane_pool_put(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	CHECK(attempt->stage != STAGE_FREE && attempt->stage != STAGE_OUT);
	attempt->stage = STAGE_FREE;
	if (attempt->owns && attempt->read.items.room > LANE_KEEP_BYTES)
		buf_free(&attempt->read.items);
	attempt->next_free = lane->pool;
	lane->pool = attempt;
	lane->pooled++;
}

static bool add_record_slab(struct lane *lane)
{
	struct lane_record *slab = mem_zalloc(LANE_SLAB, sizeof(*slab));
	if (!slab)
		return false;
	CHECK(lane->record_slab_count < LANE_RECORD_SLABS);
	lane->record_slabs[lane->record_slab_count++] = slab;
	for (uint32_t i = LANE_SLAB; i-- > 0;) {
		slab[i].lane = lane;
		slab[i].next_free = lane->records;
		lane->records = &slab[i];
	}
	return true;
}

struct lane_record *lane_record_get(struct lane *lane)
{
	if (lane->recordable == 0 || (!lane->records && !add_record_slab(lane)))
		return NULL;
	struct lane_record *record = lane->records;
	lane->records = record->next_free;
	lane->recordable--;
	return record;
}

void lane_record_put(struct lane_record *record)
{
	struct lane *lane = record->lane;
	record->settle.ticket = 0;
	record->next_free = lane->records;
	lane->records = record;
	lane->recordable++;
}

void lane_pool_free(struct lane *lane)
{
	CHECK(lane->pooled == LANE_POOL_MAX && lane->recordable == LANE_RECORDS_MAX);
	for (uint32_t i = 0; i < lane->record_slab_count; i++)
		mem_free(lane->record_slabs[i]);
	for (uint32_t i = 0; i < lane->slab_count; i++) {
		for (uint32_t k = 0; k < LANE_SLAB; k++)
			buf_free(&lane->slabs[i][k].read.items);
		mem_free(lane->slabs[i]);
	}
}

/* ---- sending ---- */

/* When the lane stops nobody may be left to send it: the store answers after the last
 * run, too. */
static void chain_add(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	attempt->stage = STAGE_READY;
	if (lane->stopping) {
		lane_put_back(attempt, 0);
		return;
	}
	attempt->out.next = NULL;
	*lane->chain_end = &attempt->out;
	lane->chain_end = &attempt->out.next;
	lane->chained++;
}

static void go_out(struct lane_attempt *attempt)
{
	CHECK(attempt->stage == STAGE_READY);
	attempt->stage = STAGE_OUT;
	attempt->out.done = lane_outlet_done;
	attempt->out.user = attempt;
	attempt->lane->out++;
}

/* What must not start any more goes back. Probes go one by one. Returns the chain of
 * the others. */
static struct outlet_attempt *sort_chain(struct lane *lane)
{
	struct outlet_attempt *sends = NULL;
	struct outlet_attempt **end = &sends;
	struct outlet_attempt *out = lane->chain;
	lane->chain = NULL;
	lane->chain_end = &lane->chain;
	lane->chained = 0;
	while (out) {
		struct lane_attempt *attempt = container_of(out, struct lane_attempt, out);
		struct outlet_attempt *next = out->next;
		out->next = NULL;
		if (lane_is_lost(attempt)) {
			lane_leave(attempt);
		} else if (lane->stopping || lane_lease_over(lane, attempt->lease)) {
			lane_put_back(attempt, 0);
		} else if (attempt->asks) {
			go_out(attempt);
			lane->outlet->methods->probe(lane->outlet, out);
		} else {
			go_out(attempt);
			*end = out;
			end = &out->next;
		}
		out = next;
	}
	return sends;
}

void lane_send(struct lane *lane)
{
	struct outlet_attempt *sends = sort_chain(lane);
	if (sends)
		lane->outlet->methods->send(lane->outlet, sends);
}

/* ---- the note before ---- */

static void note_done(struct store_op *op)
{
	struct lane_attempt *attempt = op->user;
	struct lane *lane = attempt->lane;
	CHECK(attempt->stage == STAGE_NOTING);
	attempt->stage = STAGE_READY;
	if (op->error == ERR_FENCED) {
		lane_leave(attempt);
		return;
	}
	if (op->error != 0) { /* it must not leave */
		lane_put_back(attempt, lane->now_ms + LANE_RETRY_MS);
		return;
	}
	attempt->noted = true;
	chain_add(attempt);
}

static void note_start(struct lane_attempt *attempt)
{
	attempt->stage = STAGE_NOTING;
	attempt->note = (struct store_note){
		.op = { .kind = STORE_NOTE, .done = note_done, .user = attempt },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.mark = STORE_MARK_STARTED,
	};
	lane_submit(attempt->lane, &attempt->note.op, true);
}

void lane_go_on(struct lane_attempt *attempt)
{
	if (attempt->asks || attempt->noted ||
	    attempt->lane->policy.on_unknown == DELIVER_UNKNOWN_RETRY)
		chain_add(attempt);
	else
		note_start(attempt);
}

/* ---- its bytes ---- */

/* A letter that cannot be read tells nothing; the event itself is whole. */
static void fill(struct lane_attempt *attempt, const struct store_item *item,
                 const struct store_parts *parts)
{
	struct outlet_attempt *out = &attempt->out;
	attempt->filled = true;
	out->json = (item->flags & STORE_EVENT_JSON) != 0;
	out->line = out->json && (item->flags & STORE_EVENT_LINE) != 0;
	out->source = parts->source;
	out->payload = parts->payload;
	if (attempt->lettered)
		out->letter = (struct letter){ 0 };
	attempt->lettered = parts->letter.len > 0;
	if (attempt->lettered && letter_read(parts->letter, &out->letter) != 0)
		log_warn("what goes with an event cannot be read",
		         log_str("sink", attempt->lane->name));
}

static void read_done(struct store_op *op)
{
	struct lane_attempt *attempt = op->user;
	struct lane *lane = attempt->lane;
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	CHECK(attempt->stage == STAGE_READING);
	attempt->stage = STAGE_READY;
	int error = op->error;
	if (error == 0 && !store_item_next(buf_span(&attempt->read.items), &offset, &item, &parts))
		error = -ENOENT;
	if (error == -ENOENT) { /* closed by somebody else: that cannot be while it is ours */
		lane_leave(attempt);
		return;
	}
	if (error != 0)
		log_error("an event cannot be read for delivery", log_str("sink", lane->name),
		          log_code(error));
	if (error == ERR_DAMAGED) { /* it stays leased, as with a take: no retry can help */
		lane_leave(attempt);
		return;
	}
	if (error != 0) {
		lane_put_back(attempt, lane->now_ms + LANE_RETRY_MS);
		return;
	}
	fill(attempt, &item, &parts);
	lane_go_on(attempt);
}

static void read_parts(struct lane_attempt *attempt)
{
	attempt->stage = STAGE_READING;
	attempt->owns = true;
	attempt->read.op =
		(struct store_op){ .kind = STORE_READ, .done = read_done, .user = attempt };
	attempt->read.ticket = attempt->out.ticket;
	attempt->read.history = false;
	lane_submit(attempt->lane, &attempt->read.op, true);
}

/* The take's bytes go with the next take; an immediate outlet is faster than that. */
static bool copy_parts(struct lane_attempt *attempt, const struct store_item *item,
                       struct store_parts *parts)
{
	struct buf *own = &attempt->read.items;
	attempt->owns = true;
	buf_clear(own);
	struct store_item copy = *item;
	int error = store_item_append(own, &copy, parts);
	size_t offset = 0;
	return error == 0 && store_item_next(buf_span(own), &offset, &copy, parts);
}

static void use_parts(struct lane_attempt *attempt, const struct lane_start *start)
{
	struct store_parts parts = *start->parts;
	bool stays = attempt->lane->outlet->immediate &&
	             attempt->lane->policy.on_unknown == DELIVER_UNKNOWN_RETRY &&
	             !attempt->lane->policy.buries;
	if (!stays && !copy_parts(attempt, start->item, &parts)) {
		lane_put_back(attempt, attempt->lane->now_ms + LANE_RETRY_MS);
		return;
	}
	fill(attempt, start->item, &parts);
	lane_go_on(attempt);
}

/* ---- a lease in doubt ---- */

static void renew_done(struct store_op *op)
{
	struct lane_attempt *attempt = op->user;
	struct lane *lane = attempt->lane;
	CHECK(attempt->stage == STAGE_RENEWING);
	attempt->stage = STAGE_READY;
	if (op->error == ERR_FENCED) {
		lane_leave(attempt);
		return;
	}
	if (op->error != 0) {
		lane_put_back(attempt, lane->now_ms + LANE_RETRY_MS);
		return;
	}
	attempt->lease = lane_lease_from(lane, attempt->asked_ms);
	schedule_at(&lane->schedule, attempt->place)->lease = attempt->lease;
	if (attempt->filled)
		lane_go_on(attempt);
	else
		read_parts(attempt);
}

static void renew(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	attempt->stage = STAGE_RENEWING;
	attempt->asked_ms = lane->now_ms;
	attempt->renew = (struct store_renew){
		.op = { .kind = STORE_RENEW, .done = renew_done, .user = attempt },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.lease_ms = lane->lease_ms,
	};
	lane_submit(lane, &attempt->renew.op, true);
}

/* ---- beginning ---- */

static struct lane_attempt *new_attempt(struct lane *lane, const struct lane_start *start)
{
	const struct schedule_ticket *ticket = start->ticket;
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt)
		return NULL;
	attempt->place = start->place;
	attempt->order = ticket->order;
	attempt->lease = ticket->lease;
	attempt->marks = ticket->marks;
	attempt->out.ticket = ticket->ticket;
	attempt->out.event = ticket->ticket - ticket->leg;
	attempt->out.number = ticket->attempt;
	return attempt;
}

/* No memory for an attempt: later. */
static void begin_later(struct lane *lane, const struct lane_start *start)
{
	uint64_t due_ms = lane->now_ms + LANE_RETRY_MS;
	struct schedule_ticket ticket = *start->ticket;
	uint32_t place;
	ticket.due_ms = due_ms;
	if (start->place != SCHEDULE_NONE)
		schedule_again(&lane->schedule, start->place, due_ms, lane->now_ms);
	else if (schedule_add(&lane->schedule, &ticket, lane->now_ms, &place) != 0)
		log_error("no memory for a ticket; it is delivered after a restart",
		          log_str("sink", lane->name));
}

void lane_begin(struct lane *lane, const struct lane_start *start)
{
	struct lane_attempt *attempt = new_attempt(lane, start);
	if (!attempt) {
		begin_later(lane, start);
		return;
	}
	bool unknown = attempt->marks & LANE_MARK_UNKNOWN;
	if (unknown && lane->policy.on_unknown == DELIVER_UNKNOWN_PARK) {
		outlet_result_text(&attempt->out.result,
		                   SPAN("nobody knows what came of an attempt"));
		lane->counts.outcomes[OUTCOME_UNKNOWN]++;
		lane_settle(attempt, OUTCOME_UNKNOWN);
		return;
	}
	attempt->asks = unknown && lane->policy.on_unknown == DELIVER_UNKNOWN_PROBE;
	attempt->begun = true;
	limiter_begin(&lane->limiter, lane->now_ms);
	attempt->turn = breaker_begin(&lane->breaker);
	if (lane_lease_over(lane, attempt->lease)) {
		renew(attempt);
		return;
	}
	if (start->parts)
		use_parts(attempt, start);
	else
		read_parts(attempt);
}
