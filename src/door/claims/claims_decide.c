/*
 * claims_decide: what becomes of a claim.
 *
 *   admit ──► new: leased, attempt 1
 *     │
 *     ├─ busy ──► take ──► new: the lease was over or given back; the next attempt
 *     │            ▲ │
 *     │            │ └─ none ──► read ──► busy until its lease is over
 *     │            │              │ │
 *     │            └── wait ◄─────┘ └─ closed meanwhile ──┐
 *     │                 └─ it has its outcome ────────────┤
 *     └─ duplicate ───────────────────────────────────────┴──► the outcome's cell
 *
 * What is stale because one with the same order was there goes the way of what is busy, if
 * that one is a caller's: it is the same, come again. Else it stays stale.
 *
 * A wait lasts a slice at most, since nobody is told when a lease ends or is given back. Of a
 * batch to which something was granted nothing waits any more: its leases run.
 *
 * An error ends it: while a store closes nothing more is asked of it.
 */
#include "base/error.h"
#include "door/claims/claims_internal.h"
#include "sys/clock.h"

#define SLICE_MS 500u
#define OTHERS_RETRY_MS 1000u /* what is not with a caller */

static struct claims_item *item_of(struct store_op *op)
{
	return op->user;
}

static uint64_t boot_ms(void)
{
	return clock_read(clock_system()).boot_ms;
}

static void fail(struct claims_item *item, int error)
{
	item->error = error;
	claims_finish(item);
}

static void grant(struct claims_item *item, uint32_t attempt, uint64_t now_ms)
{
	item->verdict = VERDICT_NEW;
	item->attempt = attempt;
	item->now_ms = now_ms;
	item->lease_until_ms = now_ms + item->lease_ms;
	item->it->until_boot_ms = 0; /* of a batch: the others wait no more */
	claims_finish(item);
}

/* ---- the outcome ---- */

#define BATCH_OUTCOME_BYTES (4u << 20)

/* A small request must not have an answer without bound. False: one alone always fits. */
static bool is_too_much(struct claims_item *item)
{
	struct claims_request *it = item->it;

	it->outcome_bytes += item->cell.value.len;
	if (!it->batch || it->outcome_bytes <= BATCH_OUTCOME_BYTES)
		return false;
	it->outcome_bytes -= item->cell.value.len;
	buf_free(&item->cell.value);
	item->status = 413;
	item->problem = SPAN("it is a duplicate, but the outcomes of the batch are more than "
	                     "4 MiB: ask for this one alone");
	return true;
}

/* It has no outcome: it is an event that stile delivered, or could not. */
static void stands_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && store_item_next(buf_span(&item->read.items), &at, &found, &parts))
		item->state = (enum store_state)found.state;
	buf_free(&item->read.items);
	if (error < 0 && error != -ENOENT)
		fail(item, error);
	else
		claims_finish(item);
}

static void cell_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error < 0) {
		fail(item, op->error);
		return;
	}
	if (is_too_much(item)) {
		claims_finish(item);
		return;
	}
	item->has_outcome = item->cell.found &&
	                    claims_outcome_read(buf_span(&item->cell.value), &item->outcome);
	if (item->has_outcome && item->verdict == VERDICT_STALE)
		item->verdict = VERDICT_DUPLICATE;
	if (item->has_outcome || item->verdict != VERDICT_DUPLICATE) {
		claims_finish(item);
		return;
	}
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, stands_done);
}

void claims_fetch_outcome(struct claims_item *item)
{
	const struct claims *claims = item->it->claims;

	item->cell.act = STORE_CELL_GET;
	item->cell.want_value = true;
	item->cell.cell.digest = key_claim_answer(item->ticket, claims->options.key);
	claims_submit(item, &item->cell.op, STORE_CELL, cell_done);
}

/* ---- what is busy ---- */

static void take_done(struct store_op *op);

static void take(struct claims_item *item)
{
	item->take = (struct store_take){ .ticket = item->ticket,
		                          .sink = STORE_SINK_CALLER,
		                          .lease_ms = item->lease_ms,
		                          .without_payload = true };
	claims_submit(item, &item->take.op, STORE_TAKE, take_done);
}

static void settled(struct claims_item *item)
{
	if (item->verdict == VERDICT_BUSY)
		item->verdict = VERDICT_DUPLICATE;
	claims_fetch_outcome(item);
}

/* Who has left must not get what nobody would settle. */
static bool waits_on(const struct claims_item *item)
{
	const struct claims_request *it = item->it;

	return boot_ms() < it->until_boot_ms && !it->claims->ending &&
	       !http_peer_has_ended(it->request);
}

static void wait_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error < 0)
		claims_finish(item); /* still busy, as far as is known */
	else if (item->wait.outcome != OUTCOME_NONE)
		settled(item);
	else if (waits_on(item))
		take(item);
	else
		claims_finish(item);
}

static void await(struct claims_item *item)
{
	uint64_t now_ms = boot_ms(), until_ms = item->it->until_boot_ms;
	uint64_t slice_ms = item->retry_ms < SLICE_MS ? item->retry_ms + 1 : SLICE_MS;

	if (item->it->batch && slice_ms > item->lease_ms / 4)
		slice_ms = item->lease_ms / 4; /* another may be granted meanwhile */
	if (!waits_on(item)) {
		claims_finish(item);
		return;
	}
	item->wait = (struct store_wait){
		.ticket = item->ticket,
		.until_boot_ms = until_ms < now_ms + slice_ms ? until_ms : now_ms + slice_ms,
	};
	claims_submit(item, &item->wait.op, STORE_WAIT, wait_done);
}

/* False: it is stale. */
static bool look(struct claims_item *item, struct span items)
{
	struct store_item found;
	struct store_parts parts;
	size_t at = 0;

	bool told = store_item_next(items, &at, &found, &parts);
	CHECK(told);
	if (item->verdict == VERDICT_STALE && found.sink != STORE_SINK_CALLER)
		return false;
	item->verdict = VERDICT_BUSY;
	bool with_caller = found.sink == STORE_SINK_CALLER && found.due_ms > item->now_ms;
	item->attempt = found.attempt;
	item->retry_ms = with_caller ? found.due_ms - item->now_ms : OTHERS_RETRY_MS;
	item->lease_until_ms = with_caller && found.state == STORE_STATE_LEASED ? found.due_ms : 0;
	return true;
}

static void read_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	int error = op->error;

	bool busy = error == 0 && look(item, buf_span(&item->read.items));
	buf_free(&item->read.items);
	if (error == -ENOENT)
		settled(item);
	else if (error < 0)
		fail(item, error);
	else if (busy)
		await(item);
	else
		claims_finish(item);
}

static void tell_busy(struct claims_item *item)
{
	item->verdict = VERDICT_BUSY;
	item->retry_ms = OTHERS_RETRY_MS;
	item->lease_until_ms = 0;
	claims_finish(item);
}

static void shorten_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);

	if (op->error == 0)
		grant(item, item->attempt, item->now_ms);
	else if (op->error == ERR_FENCED)
		tell_busy(item);
	else
		fail(item, op->error);
}

/* From one who did not settle it: the rest of that one's window is all that there is. */
static void take_over(struct claims_item *item, const struct store_item *taken)
{
	if (taken->order / 1000 <= UINT32_MAX)
		item->window_s = (uint32_t)(taken->order / 1000);
	uint64_t end_ms = claims_window_end_ms(item->ticket, item->window_s);

	item->attempt = taken->attempt;
	if (item->now_ms + item->lease_ms <= end_ms) {
		grant(item, item->attempt, item->now_ms);
	} else if (item->now_ms + CLAIMS_LEASE_MIN_MS > end_ms) {
		tell_busy(item); /* it is about to be forgotten */
	} else {
		item->lease_ms = (uint32_t)(end_ms - item->now_ms);
		item->renew = (struct store_renew){ .ticket = item->ticket,
			                            .attempt = item->attempt,
			                            .lease_ms = item->lease_ms,
			                            .until_ms = end_ms };
		claims_submit(item, &item->renew.op, STORE_RENEW, shorten_done);
	}
}

static void take_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	struct store_item taken = { 0 };
	struct store_parts parts;
	size_t at = 0;
	int error = op->error;

	if (error == 0 && item->take.count > 0)
		(void)store_item_next(buf_span(&item->take.items), &at, &taken, &parts);
	item->now_ms = item->take.now_ms;
	buf_free(&item->take.items);
	if (error < 0) {
		fail(item, error);
		return;
	}
	/* The last number fences nobody off: whoever has it is not told. */
	if (taken.attempt > 0 && taken.attempt < STORE_ATTEMPT_MAX) {
		take_over(item, &taken);
		return;
	}
	item->read = (struct store_read){ .ticket = item->ticket };
	claims_submit(item, &item->read.op, STORE_READ, read_done);
}

/* ---- the decision ---- */

static bool is_equal(const struct store_admit *admit)
{
	return admit->order == admit->claims[admit->matched].order;
}

static void admit_done(struct store_op *op)
{
	struct claims_item *item = item_of(op);
	const struct store_admit *admit = &item->admit;

	if (op->error < 0) {
		fail(item, op->error);
		return;
	}
	item->verdict = admit->verdict;
	item->ticket = admit->ticket;
	item->now_ms = admit->decided_ms;
	claims_trace(item);
	switch (admit->verdict) {
	case VERDICT_NEW: grant(item, 1, admit->decided_ms); break;
	case VERDICT_DUPLICATE: claims_fetch_outcome(item); break;
	case VERDICT_BUSY: take(item); break;
	case VERDICT_STALE:
		item->admit.seen = 1; /* stores do not count what is stale */
		if (is_equal(admit))
			take(item);
		else
			claims_finish(item);
		break;
	default: claims_finish(item); break;
	}
}

void claims_decide(struct claims_item *item)
{
	item->admit.legs = &item->leg;
	item->admit.leg_count = 1;
	claims_submit(item, &item->admit.op, STORE_ADMIT, admit_done);
}
