/* attempt: from the schedule to the outlet, its result, and its record. See lane_private.h. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"
#include "sys/clock.h"
#include "sys/feed.h"

#define STREAM_MESSAGE_MAX 2048u

/* ---- pool ---- */

struct lane_attempt *lane_pool_get(struct lane *lane)
{
	if (lane->pooled == 0)
		return NULL;
	if (!lane->pool) {
		struct lane_attempt *slab = mem_zalloc(LANE_SLAB, sizeof(*slab));
		if (!slab)
			return NULL;
		CHECK(lane->slab_count < LANE_SLABS);
		lane->slabs[lane->slab_count++] = slab;
		for (uint32_t i = LANE_SLAB; i-- > 0;) {
			slab[i].lane = lane;
			slab[i].next_free = lane->pool;
			lane->pool = &slab[i];
		}
	}
	struct lane_attempt *attempt = lane->pool;
	CHECK(attempt->stage == STAGE_FREE);
	lane->pool = attempt->next_free;
	lane->pooled--;
	attempt->stage = STAGE_READY;
	attempt->place = SCHEDULE_NONE;
	attempt->begun = attempt->asks = attempt->noted = attempt->filled = false;
	attempt->owns = attempt->forget = false;
	attempt->marks = 0;
	attempt->out.result.status = 0;
	attempt->out.result.text_len = 0;
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

/* ---- the stream ---- */

static void publish(const struct lane_attempt *attempt, const char *outcome)
{
	const struct lane *lane = attempt->lane;
	char bytes[STREAM_MESSAGE_MAX];
	struct buf out = buf_on(bytes, sizeof(bytes));
	const struct outlet_result *result = &attempt->out.result;
	if (likely(!feed_heard(lane->feed)))
		return;
	buf_append_span(&out, SPAN("event: delivery\ndata: "));
	json_object_begin(&out, NULL);
	json_add_time(&out, "time", lane_store_time(lane, lane->now_ms));
	json_add_string(&out, "sink", lane->name);
	ticket_add(&out, "ticket", attempt->out.ticket);
	ticket_add(&out, "event", attempt->out.event);
	json_add_u64(&out, "attempt", attempt->out.number);
	json_add_string(&out, "outcome", outcome);
	if (result->status > 0)
		json_add_u64(&out, "status", result->status);
	json_add_text_if(&out, "text", span_of(result->text, result->text_len));
	json_object_end(&out);
	buf_append_span(&out, SPAN("\n\n"));
	if (!out.failed)
		feed_say(lane->feed, buf_span(&out));
}

/* ---- limiter and breaker ---- */

static void count_end(struct lane_attempt *attempt, enum breaker_says breaker,
                      enum limiter_says limiter)
{
	struct lane *lane = attempt->lane;
	if (!attempt->begun)
		return;
	attempt->begun = false;
	limiter_end(&lane->limiter,
	            &(struct limiter_end){ limiter, attempt->out.result.latency_us, lane->now_ms });
	struct breaker_end end = { .turn = attempt->turn, .says = breaker, .now_ms = lane->now_ms };
	if (breaker == BREAKER_FAILURE)
		end.random = lane_random(lane);
	if (!breaker_end(&lane->breaker, &end))
		return;
	if (lane->breaker.state == BREAKER_CLOSED) {
		limiter_restart(&lane->limiter, lane->now_ms);
		log_info("circuit breaker closed", log_str("sink", lane->name),
		         log_u64("tickets", lane->schedule.count));
	} else if (lane->breaker.state == BREAKER_OPEN) {
		log_warn("circuit breaker opened", log_str("sink", lane->name),
		         log_u64("ms", lane->breaker.until_ms - lane->now_ms),
		         log_u64("status", lane->counts.error_status),
		         log_span("text", span_of(lane->counts.error, lane->counts.error_len)));
	}
}

static void remember_error(struct lane_attempt *attempt)
{
	struct lane_view *counts = &attempt->lane->counts;
	const struct outlet_result *result = &attempt->out.result;
	counts->error_at_ms = lane_store_time(attempt->lane, attempt->lane->now_ms);
	counts->error_status = result->status;
	counts->error_len = result->text_len;
	memcpy(counts->error, result->text, result->text_len);
}

/* ---- recording outcomes ---- */

static struct span result_text(const struct lane_attempt *attempt)
{
	return span_of(attempt->out.result.text, attempt->out.result.text_len);
}

static void say_settled(struct lane *lane, int error)
{
	if (error == 0)
		return;
	if (error == ERR_FENCED) {
		lane->counts.lost++;
		log_warn(
			"delivery result not recorded: the lease was lost and another gateway has the ticket",
			log_str("sink", lane->name));
	} else {
		lane->counts.unrecorded++;
		log_error("outcome not recorded: the event may be delivered again",
		          log_str("sink", lane->name), log_code(error));
	}
}

static void settle_done(struct store_op *op)
{
	struct lane_attempt *attempt = op->user;
	struct lane_drop *drop = attempt->drop;
	CHECK(attempt->stage == STAGE_RECORDING);
	if (op->error == ERR_FENCED && attempt->settle.outcome == OUTCOME_DONE)
		lane_known_add(attempt->lane, attempt->settle.ticket);
	say_settled(attempt->lane, op->error);
	lane_pool_put(attempt);
	if (drop)
		drop->done(drop, op->error);
}

static void record_done(struct store_op *op)
{
	struct lane_record *record = op->user;
	bool fenced = op->error == ERR_FENCED;
	if (fenced && !record->outdated)
		lane_known_add(record->lane, record->settle.ticket);
	if (!fenced || !record->outdated)
		say_settled(record->lane, op->error);
	record->settle.ticket = 0;
	record->next_free = record->lane->records;
	record->lane->records = record;
	record->lane->recordable++;
}

/* False: there is no memory for it. */
static bool record_success(const struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	if (lane->recordable == 0)
		return false;
	if (!lane->records) {
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
	}
	struct lane_record *record = lane->records;
	lane->records = record->next_free;
	lane->recordable--;
	record->settle = (struct store_settle){
		.op = { .kind = STORE_SETTLE, .done = record_done, .user = record },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.outcome = OUTCOME_DONE,
	};
	record->outdated = false;
	lane_submit(lane, &record->settle.op, false);
	return true;
}

void lane_settle(struct lane_attempt *attempt, enum outcome outcome)
{
	CHECK(attempt->stage != STAGE_FREE && attempt->stage != STAGE_OUT);
	CHECK(outcome != OUTCOME_NONE && attempt->out.ticket != 0);
	struct lane *lane = attempt->lane;
	bool told = outcome == OUTCOME_DEAD || outcome == OUTCOME_UNKNOWN;
	if (attempt->place != SCHEDULE_NONE)
		schedule_remove(&lane->schedule, attempt->place);
	attempt->place = SCHEDULE_NONE;
	if (outcome == OUTCOME_DONE && record_success(attempt)) {
		lane_pool_put(attempt);
		return;
	}
	attempt->stage = STAGE_RECORDING;
	attempt->settle = (struct store_settle){
		.op = { .kind = STORE_SETTLE, .done = settle_done, .user = attempt },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.outcome = outcome,
		.forget = attempt->forget || lane->policy.forget_dead,
		.awaited = attempt->drop != NULL,
	};
	if (outcome == OUTCOME_RELEASED && attempt->due_ms > lane->now_ms)
		attempt->settle.due_ms = lane_store_time(lane, attempt->due_ms);
	if (told) {
		attempt->settle.text = result_text(attempt);
		attempt->settle.status = attempt->out.result.status;
	}
	if (told && !attempt->forget) { /* a person has to look at it */
		char ticket[TICKET_TEXT_LEN];
		ticket_text(attempt->out.event, ticket);
		log_warn(outcome == OUTCOME_DEAD ? "delivery failed for good: the event is dead"
		                                 : "delivery unknown: the event is parked",
		         log_str("sink", lane->name),
		         log_span("ticket", span_of(ticket, sizeof(ticket))),
		         log_u64("attempt", attempt->out.number),
		         log_u64("status", attempt->out.result.status),
		         log_span("text", result_text(attempt)));
	}
	lane_submit(lane, &attempt->settle.op, false);
}

void lane_leave(struct lane_attempt *attempt)
{
	CHECK(attempt->stage != STAGE_FREE && attempt->stage != STAGE_OUT);
	struct lane *lane = attempt->lane;
	count_end(attempt, BREAKER_NOTHING, LIMITER_NOTHING);
	lane->counts.lost++;
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->out.event, ticket);
	log_warn("delivery abandoned: lease lost", log_str("sink", lane->name),
	         log_span("ticket", span_of(ticket, sizeof(ticket))));
	if (attempt->place != SCHEDULE_NONE)
		schedule_remove(&lane->schedule, attempt->place);
	lane_pool_put(attempt);
}

/* ---- back to the schedule ---- */

static void schedule_back(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	if (attempt->place != SCHEDULE_NONE) {
		struct schedule_ticket *ticket = schedule_at(&lane->schedule, attempt->place);
		ticket->attempt = attempt->out.number;
		ticket->marks = attempt->marks;
		schedule_again(&lane->schedule, attempt->place, attempt->due_ms, lane->now_ms);
		lane_pool_put(attempt);
		return;
	}
	struct schedule_ticket ticket = {
		.ticket = attempt->out.ticket,
		.order = attempt->order,
		.due_ms = attempt->due_ms,
		.attempt = attempt->out.number,
		.lease = attempt->lease,
		.leg = (uint8_t)(attempt->out.ticket - attempt->out.event),
		.marks = attempt->marks,
	};
	uint32_t place;
	if (schedule_add(&lane->schedule, &ticket, lane->now_ms, &place) == 0)
		lane_pool_put(attempt);
	else
		lane_settle(attempt, OUTCOME_RELEASED); /* the store keeps it until then */
}

static void failure_noted(struct store_op *op)
{
	struct lane_attempt *attempt = op->user;
	struct lane *lane = attempt->lane;
	CHECK(attempt->stage == STAGE_RECORDING);
	if (op->error == ERR_FENCED) {
		lane_leave(attempt);
		return;
	}
	if (op->error == 0)
		attempt->out.number = store_attempt_next(attempt->out.number);
	else if (op->error != ERR_CLOSING)
		log_error("failed attempt not recorded", log_str("sink", lane->name),
		          log_code(op->error));
	if (lane_gives_back(lane))
		lane_settle(attempt, OUTCOME_RELEASED);
	else
		schedule_back(attempt);
}

static void note_result(struct lane_attempt *attempt, enum store_mark mark, uint64_t due_ms)
{
	struct lane *lane = attempt->lane;
	attempt->stage = STAGE_RECORDING;
	attempt->due_ms = due_ms;
	attempt->marks = mark == STORE_MARK_UNKNOWN ? LANE_MARK_UNKNOWN : 0;
	if (attempt->place != SCHEDULE_NONE)
		schedule_at(&lane->schedule, attempt->place)->marks |= LANE_MARK_NOTING;
	attempt->note = (struct store_note){
		.op = { .kind = STORE_NOTE, .done = failure_noted, .user = attempt },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.mark = mark,
		.due_ms = due_ms > lane->now_ms ? lane_store_time(lane, due_ms) : 0,
		.status = attempt->out.result.status,
		.text = result_text(attempt),
	};
	/* Urgent: a retry waits for it, and nothing else may come that would wake us. */
	lane_submit(lane, &attempt->note.op, true);
}

void lane_put_back(struct lane_attempt *attempt, uint64_t due_ms)
{
	CHECK(attempt->stage != STAGE_FREE && attempt->stage != STAGE_OUT);
	count_end(attempt, BREAKER_NOTHING, LIMITER_NOTHING);
	if (attempt->noted) { /* else it would be taken for one that may have arrived */
		note_result(attempt, STORE_MARK_FAILED, due_ms);
		return;
	}
	attempt->due_ms = due_ms;
	if (lane_gives_back(attempt->lane))
		lane_settle(attempt, OUTCOME_RELEASED);
	else
		schedule_back(attempt);
}

/* ---- ready to be sent, after a note that it starts if the sink must not get it twice ---- */

/* A lane that stops puts it back: the store also answers after the last run, when
 * nothing sends any more. */
static void chain_add(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	attempt->stage = STAGE_READY;
	if (lane->life == LANE_STOPPING) {
		lane_put_back(attempt, 0);
		return;
	}
	attempt->out.next = NULL;
	*lane->chain_end = &attempt->out;
	lane->chain_end = &attempt->out.next;
	lane->chained++;
}

static void start_noted(struct store_op *op)
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

static void send_or_note(struct lane_attempt *attempt)
{
	if (attempt->asks || attempt->noted ||
	    attempt->lane->policy.on_unknown == DELIVER_UNKNOWN_RETRY) {
		chain_add(attempt);
		return;
	}
	attempt->stage = STAGE_NOTING;
	attempt->note = (struct store_note){
		.op = { .kind = STORE_NOTE, .done = start_noted, .user = attempt },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.mark = STORE_MARK_STARTED,
	};
	lane_submit(attempt->lane, &attempt->note.op, true);
}

/* ---- results ---- */

static void finish(struct lane_attempt *attempt, enum outcome outcome)
{
	struct lane *lane = attempt->lane;
	lane->counts.outcomes[outcome]++;
	publish(attempt, outcome_name(outcome));
	if (outcome == OUTCOME_DEAD && lane->policy.has_dead_sink)
		dead_letter_send(attempt);
	else
		lane_settle(attempt, outcome);
}

/* When the next attempt may be made; false: there is none. */
static bool next_due(struct lane_attempt *attempt, uint64_t *ret_due_ms)
{
	struct lane *lane = attempt->lane;
	const struct deliver_policy *policy = &lane->policy;
	uint64_t now_ms = lane_store_time(lane, lane->now_ms);
	uint64_t arrived_ms = ticket_time_ms(attempt->out.event);
	struct retry_case failed = {
		.attempt = attempt->out.number,
		.age_ms = now_ms > arrived_ms ? now_ms - arrived_ms : 0,
		.random = lane_random(lane),
	};
	uint64_t delay_ms = 0;
	if (attempt->order != 0 && retry_is_over(&policy->stuck, &failed))
		return false; /* it steps aside */
	if (!retry_delay(&policy->retry, &failed, &delay_ms))
		return false;
	uint64_t asked_ms = attempt->out.result.retry_after_ms;
	if (asked_ms > policy->retry_after_max_ms)
		asked_ms = policy->retry_after_max_ms;
	*ret_due_ms = lane->now_ms + (delay_ms > asked_ms ? delay_ms : asked_ms);
	return true;
}

/* The judgement reaches the breaker and the limiter. */
static void count_judgement(struct lane_attempt *attempt, const struct judgement *judgement)
{
	struct lane *lane = attempt->lane;
	uint64_t pause_ms = attempt->out.result.retry_after_ms;
	count_end(attempt, judgement->breaker, judgement->limiter);
	if (pause_ms > lane->policy.retry_after_max_ms)
		pause_ms = lane->policy.retry_after_max_ms;
	if (judgement->pause && pause_ms > 0)
		limiter_pause(&lane->limiter, lane->now_ms + pause_ms);
}

/* `gone`: the sink says so. Its events wait until it is resumed, also after their last
 * attempt: that one says nothing of them. */
static void retry(struct lane_attempt *attempt, bool gone)
{
	uint64_t due_ms = attempt->lane->now_ms;
	if (!next_due(attempt, &due_ms) && !gone) {
		finish(attempt, OUTCOME_DEAD);
		return;
	}
	attempt->lane->counts.failed++;
	publish(attempt, "failed");
	note_result(attempt, STORE_MARK_FAILED, due_ms);
}

/* Sent, and no answer; or a probe that could not tell. When it is given up, it is
 * still unknown: that is for a person, not for the dead letters. */
static void unknown(struct lane_attempt *attempt)
{
	uint64_t due_ms = 0;
	struct lane *lane = attempt->lane;
	if (lane->policy.on_unknown == DELIVER_UNKNOWN_PARK || !next_due(attempt, &due_ms)) {
		finish(attempt, OUTCOME_UNKNOWN);
		return;
	}
	lane->counts.outcomes[OUTCOME_UNKNOWN]++;
	publish(attempt, "unknown");
	note_result(attempt, STORE_MARK_UNKNOWN, due_ms);
}

static void sent(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	const struct outlet_result *result = &attempt->out.result;
	struct judgement judgement = judge(&lane->policy.rules, result);
	if (judgement.fate != JUDGE_DONE)
		remember_error(attempt);
	if (lane->life == LANE_STOPPING && result->answer == OUTLET_NOT_SENT &&
	    !result->permanent) {
		lane_put_back(attempt, 0); /* it was interrupted: not the sink's fault */
		return;
	}
	count_judgement(attempt, &judgement);
	if (judgement.disable && !lane->disabled) {
		lane->disabled = true;
		sink_state_changed(lane);
		lane->counts.disabled++;
		log_error("sink disabled: it answered 410 Gone (stile sinks resume enables it)",
		          log_str("sink", lane->name),
		          log_u64("status", lane->counts.error_status));
	}
	switch (judgement.fate) {
	case JUDGE_DONE: finish(attempt, OUTCOME_DONE); break;
	case JUDGE_DEAD: finish(attempt, OUTCOME_DEAD); break;
	case JUDGE_RETRY: retry(attempt, judgement.disable); break;
	case JUDGE_UNKNOWN: unknown(attempt); break;
	}
}

static void asked(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	const struct outlet_result *result = &attempt->out.result;
	if (result->answer == OUTLET_DONE) {
		count_end(attempt, BREAKER_SUCCESS, LIMITER_FINE);
		finish(attempt, OUTCOME_DONE);
		return;
	}
	if (result->answer == OUTLET_NOT_FOUND) { /* so it is made now, and still counted */
		attempt->asks = false;
		attempt->marks = 0;
		send_or_note(attempt);
		return;
	}
	remember_error(attempt);
	if (lane->life == LANE_STOPPING) {
		lane_put_back(attempt, 0); /* what is noted of it still says "unknown" */
		return;
	}
	struct judgement judgement = judge(&lane->policy.rules, result);
	count_judgement(attempt, &judgement);
	unknown(attempt);
}

bool lane_is_lost(const struct lane_attempt *attempt)
{
	CHECK(attempt->stage != STAGE_FREE);
	struct lane *lane = attempt->lane;
	return attempt->place != SCHEDULE_NONE &&
	       schedule_at(&lane->schedule, attempt->place)->marks & LANE_MARK_LOST;
}

static void outlet_done(struct outlet_attempt *out)
{
	struct lane_attempt *attempt = out->user;
	struct lane *lane = attempt->lane;
	CHECK(attempt->stage == STAGE_OUT && lane->out > 0);
	CHECK(out->result.answer >= OUTLET_DONE && out->result.answer <= OUTLET_NOT_FOUND);
	CHECK(out->result.text_len <= OUTLET_TEXT_MAX);
	lane->out--;
	attempt->stage = STAGE_READY;
	if (!lane->running)
		lane->now_ms = clock_read(lane->clock).boot_ms;
	lane->counts.answers[out->result.answer]++;
	if (attempt->place != SCHEDULE_NONE) /* the lease may be another by now */
		out->number = schedule_at(&lane->schedule, attempt->place)->attempt;
	if (lane_is_lost(attempt)) {
		if (attempt->asks ? out->result.answer == OUTLET_DONE
		                  : judge(&lane->policy.rules, &out->result).fate == JUDGE_DONE)
			lane_known_add(lane, out->ticket);
		lane_leave(attempt);
	} else if (attempt->asks) {
		asked(attempt);
	} else {
		sent(attempt);
	}
}

/* ---- sending ---- */

static void go_out(struct lane_attempt *attempt)
{
	CHECK(attempt->stage == STAGE_READY);
	attempt->stage = STAGE_OUT;
	attempt->out.done = outlet_done;
	attempt->out.user = attempt;
	attempt->lane->out++;
}

/* Probes are sent one by one, attempts as one chain. What must not start any more goes
 * back to the schedule. */
void lane_send(struct lane *lane)
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
		} else if (lane->life == LANE_STOPPING || lane_lease_over(lane, attempt->lease)) {
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
	if (sends)
		lane->outlet->methods->send(lane->outlet, sends);
}

/* ---- its bytes ---- */

/* Metadata that cannot be read tells nothing; the event itself is whole. */
static void fill(struct lane_attempt *attempt, const struct store_item *item,
                 const struct store_parts *parts)
{
	struct outlet_attempt *out = &attempt->out;
	attempt->filled = true;
	out->json = (item->flags & STORE_EVENT_JSON) != 0;
	out->line = out->json && (item->flags & STORE_EVENT_LINE) != 0;
	out->source = parts->source;
	out->payload = parts->payload;
	if (attempt->has_metadata)
		out->metadata = (struct metadata){ 0 };
	attempt->has_metadata = parts->metadata.len > 0;
	if (attempt->has_metadata && metadata_read(parts->metadata, &out->metadata) != 0)
		log_warn("event metadata is damaged: delivered without it",
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
	if (error == -ENOENT) { /* another gateway has closed it, although the lease is ours */
		lane_leave(attempt);
		return;
	}
	if (error != 0)
		log_error("event cannot be read for delivery", log_str("sink", lane->name),
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
	send_or_note(attempt);
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

/* The bytes of a take are valid until the next take. An immediate outlet is faster than
 * that; for any other attempt they are copied. */
static void use_parts(struct lane_attempt *attempt, const struct lane_start *start)
{
	struct lane *lane = attempt->lane;
	struct store_parts parts = *start->parts;
	if (!lane->outlet->immediate || lane->policy.on_unknown != DELIVER_UNKNOWN_RETRY ||
	    lane->policy.has_dead_sink) {
		struct buf *own = &attempt->read.items;
		struct store_item copy = *start->item;
		size_t offset = 0;
		attempt->owns = true;
		buf_clear(own);
		if (store_item_append(own, &copy, &parts) != 0 ||
		    !store_item_next(buf_span(own), &offset, &copy, &parts)) {
			lane_put_back(attempt, lane->now_ms + LANE_RETRY_MS);
			return;
		}
	}
	fill(attempt, start->item, &parts);
	send_or_note(attempt);
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
		send_or_note(attempt);
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
		log_error("out of memory: the event will be delivered after a restart",
		          log_str("sink", lane->name));
}

void lane_begin(struct lane *lane, const struct lane_start *start)
{
	const struct schedule_ticket *ticket = start->ticket;
	CHECK(ticket->ticket >= ticket->leg); /* the event it is a leg of */
	CHECK(!start->parts || start->item);
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt) {
		begin_later(lane, start);
		return;
	}
	attempt->place = start->place;
	attempt->order = ticket->order;
	attempt->lease = ticket->lease;
	attempt->marks = ticket->marks;
	attempt->out.ticket = ticket->ticket;
	attempt->out.event = ticket->ticket - ticket->leg;
	attempt->out.number = ticket->attempt;
	bool unknown = attempt->marks & LANE_MARK_UNKNOWN;
	if (unknown && lane->policy.on_unknown == DELIVER_UNKNOWN_PARK) {
		outlet_result_text(&attempt->out.result,
		                   SPAN("the result of an attempt is unknown"));
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
