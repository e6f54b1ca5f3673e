/* lane_finish: what came of an attempt is judged and recorded. See lane_private.h. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"
#include "sys/clock.h"

/* ---- limits ---- */

static void say_breaker(struct lane *lane)
{
	struct span why = span_of(lane->counts.error, lane->counts.error_len);
	if (lane->breaker.state == BREAKER_OPEN)
		log_warn("a sink does not work and is left alone for a while",
		         log_str("sink", lane->name),
		         log_u64("ms", lane->breaker.until_ms - lane->now_ms),
		         log_u64("status", lane->counts.error_status), log_span("text", why));
	else if (lane->breaker.state == BREAKER_CLOSED)
		log_info("a sink works again", log_str("sink", lane->name),
		         log_u64("tickets", lane->schedule.count));
}

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
	if (lane->breaker.state == BREAKER_CLOSED)
		limiter_restart(&lane->limiter, lane->now_ms);
	say_breaker(lane);
}

/* Limiter and breaker forget one that says nothing of the sink. */
static void uncount(struct lane_attempt *attempt)
{
	count_end(attempt, BREAKER_NOTHING, LIMITER_NOTHING);
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

/* ---- outcomes ---- */

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
		log_warn("an outcome came too late: somebody else has the ticket",
		         log_str("sink", lane->name));
	} else {
		lane->counts.unrecorded++;
		log_error("an outcome could not be recorded; the event may be delivered again",
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
	lane_record_put(record);
}

/* False: there is no memory for it. */
static bool record_success(const struct lane_attempt *attempt)
{
	struct lane_record *record = lane_record_get(attempt->lane);
	if (!record)
		return false;
	record->settle = (struct store_settle){
		.op = { .kind = STORE_SETTLE, .done = record_done, .user = record },
		.ticket = attempt->out.ticket,
		.attempt = attempt->out.number,
		.outcome = OUTCOME_DONE,
	};
	record->outdated = false;
	lane_submit(attempt->lane, &record->settle.op, false);
	return true;
}

/* A person has to look at it. */
static void say_stopped(const struct lane_attempt *attempt, enum outcome outcome)
{
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->out.event, ticket);
	log_warn(outcome == OUTCOME_DEAD ? "an event could not be delivered: a dead letter"
	                                 : "whether an event was delivered is not known: parked",
	         log_str("sink", attempt->lane->name),
	         log_span("ticket", span_of(ticket, sizeof(ticket))),
	         log_u64("attempt", attempt->out.number),
	         log_u64("status", attempt->out.result.status),
	         log_span("text", result_text(attempt)));
}

void lane_settle(struct lane_attempt *attempt, enum outcome outcome)
{
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
		if (!attempt->forget)
			say_stopped(attempt, outcome);
	}
	lane_submit(lane, &attempt->settle.op, false);
}

void lane_leave(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	uncount(attempt);
	lane->counts.lost++;
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->out.event, ticket);
	log_warn("an event is not delivered from here any more", log_str("sink", lane->name),
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

static void note_done(struct store_op *op)
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
		log_error("a failed attempt could not be noted", log_str("sink", lane->name),
		          log_code(op->error));
	if (lane_gives_back(lane))
		lane_settle(attempt, OUTCOME_RELEASED);
	else
		schedule_back(attempt);
}

static void note(struct lane_attempt *attempt, enum store_mark mark, uint64_t due_ms)
{
	struct lane *lane = attempt->lane;
	attempt->stage = STAGE_RECORDING;
	attempt->due_ms = due_ms;
	attempt->marks = mark == STORE_MARK_UNKNOWN ? LANE_MARK_UNKNOWN : 0;
	if (attempt->place != SCHEDULE_NONE)
		schedule_at(&lane->schedule, attempt->place)->marks |= LANE_MARK_NOTING;
	attempt->note = (struct store_note){
		.op = { .kind = STORE_NOTE, .done = note_done, .user = attempt },
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
	uncount(attempt);
	if (attempt->noted) { /* else it would be taken for one that may have arrived */
		note(attempt, STORE_MARK_FAILED, due_ms);
		return;
	}
	attempt->due_ms = due_ms;
	if (lane_gives_back(attempt->lane))
		lane_settle(attempt, OUTCOME_RELEASED);
	else
		schedule_back(attempt);
}

/* ---- fates ---- */

static void finish(struct lane_attempt *attempt, enum outcome outcome)
{
	struct lane *lane = attempt->lane;
	lane->counts.outcomes[outcome]++;
	lane_tell(attempt, outcome_name(outcome));
	if (outcome == OUTCOME_DEAD && lane->policy.buries)
		lane_bury(attempt);
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

static void disable(struct lane *lane)
{
	if (lane->disabled)
		return;
	lane->disabled = true;
	lane_wish_changed(lane);
	lane->counts.disabled++;
	log_error("a sink says that it is gone: it is disabled until someone resumes it",
	          log_str("sink", lane->name), log_u64("status", lane->counts.error_status));
}

/* `gone`: the sink says so. Its events wait for whoever resumes it, also after their last
 * attempt: that one says nothing of them. */
static void retry(struct lane_attempt *attempt, bool gone)
{
	uint64_t due_ms = attempt->lane->now_ms;
	if (!next_due(attempt, &due_ms) && !gone) {
		finish(attempt, OUTCOME_DEAD);
		return;
	}
	attempt->lane->counts.outcomes[OUTCOME_RELEASED]++;
	lane_tell(attempt, "failed");
	note(attempt, STORE_MARK_FAILED, due_ms);
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
	lane_tell(attempt, "unknown");
	note(attempt, STORE_MARK_UNKNOWN, due_ms);
}

static void pause_sink(struct lane *lane, uint64_t asked_ms)
{
	uint64_t most_ms = lane->policy.retry_after_max_ms;
	limiter_pause(&lane->limiter, lane->now_ms + (asked_ms < most_ms ? asked_ms : most_ms));
}

static void sent(struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	const struct outlet_result *result = &attempt->out.result;
	struct judgement judgement = judge(&lane->policy.rules, result);
	if (judgement.fate != JUDGE_DONE)
		remember_error(attempt);
	if (lane->stopping && result->answer == OUTLET_NOT_SENT && !result->permanent) {
		lane_put_back(attempt, 0); /* it was interrupted: not the sink's fault */
		return;
	}
	count_end(attempt, judgement.breaker, judgement.limiter);
	if (judgement.pause && result->retry_after_ms > 0)
		pause_sink(lane, result->retry_after_ms);
	if (judgement.disable)
		disable(lane);
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
		lane_go_on(attempt);
		return;
	}
	remember_error(attempt);
	if (lane->stopping) {
		lane_put_back(attempt, 0); /* what is noted of it still says "unknown" */
		return;
	}
	struct judgement judgement = judge(&lane->policy.rules, result);
	count_end(attempt, judgement.breaker, judgement.limiter);
	if (judgement.pause && result->retry_after_ms > 0)
		pause_sink(lane, result->retry_after_ms);
	unknown(attempt);
}

bool lane_is_lost(const struct lane_attempt *attempt)
{
	struct lane *lane = attempt->lane;
	return attempt->place != SCHEDULE_NONE &&
	       schedule_at(&lane->schedule, attempt->place)->marks & LANE_MARK_LOST;
}

static bool is_done(const struct lane_attempt *attempt)
{
	const struct outlet_result *result = &attempt->out.result;
	if (attempt->asks)
		return result->answer == OUTLET_DONE;
	return judge(&attempt->lane->policy.rules, result).fate == JUDGE_DONE;
}

void lane_outlet_done(struct outlet_attempt *out)
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
		if (is_done(attempt))
			lane_known_add(lane, out->ticket);
		lane_leave(attempt);
	} else if (attempt->asks) {
		asked(attempt);
	} else {
		sent(attempt);
	}
}
