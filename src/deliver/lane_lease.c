/*
 * lane_lease: leases that end (a store that several nodes share).
 *
 * A lease is counted from when it was asked for, so it is over here before it is over
 * at the store. Every third of its length all are renewed; one that is over all the
 * same (the process was stopped) is renewed before anything starts, and the store
 * refuses if another gateway has the ticket by then.
 *
 * One that waits for its next attempt, or behind one that does, is leased for that long,
 * too, up to WAIT_MAX_MS: so it need not be renewed, and does not count against
 * LANE_LEASED_MAX. Else those that fail would keep all others out. (If this node dies, it
 * is delivered when it was to be.)
 *
 * Kept in 32 bits: units of 16 ms since the lane was made, plus 1; 0 never ends.
 */
#include "base/error.h"
#include "base/mem.h"
#include "deliver/lane_private.h"
#include "sys/clock.h"

#define UNIT_MS 16u
#define WAIT_MAX_MS 3600000u

static uint32_t lease_until(const struct lane *lane, uint64_t end_ms)
{
	return (uint32_t)((end_ms - lane->born_ms) / UNIT_MS) + 1;
}

static uint64_t end_of(const struct lane *lane, uint32_t lease)
{
	return lane->born_ms + (uint64_t)(lease - 1) * UNIT_MS;
}

uint32_t lane_lease_from(const struct lane *lane, uint64_t asked_ms)
{
	CHECK(asked_ms >= lane->born_ms);
	return lane->lease_ms == 0 ? 0 : lease_until(lane, asked_ms + lane->lease_ms);
}

bool lane_lease_over(struct lane *lane, uint32_t lease)
{
	return lease != 0 && clock_read(lane->clock).boot_ms >= end_of(lane, lease);
}

static void renewed(struct store_op *op)
{
	struct lane_renewal *renewal = op->user;
	struct lane *lane = renewal->lane;
	lane->renewing--;
	if (renewal->place >= lane->schedule.used)
		return;
	struct schedule_ticket *ticket = schedule_at(&lane->schedule, renewal->place);
	if (ticket->state == SCHEDULE_FREE || ticket->state == SCHEDULE_SKIPPED ||
	    ticket->ticket != renewal->renew.ticket || ticket->attempt != renewal->renew.attempt)
		return; /* it has left or moved on meanwhile */
	if (op->error == ERR_FENCED && ticket->state == SCHEDULE_STARTED) {
		ticket->marks |= LANE_MARK_LOST; /* the lane leaves it when its attempt ends */
	} else if (op->error == ERR_FENCED) {
		lane->counts.lost++;
		schedule_remove(&lane->schedule, renewal->place);
	}
	if (op->error != 0)
		return;
	ticket->lease = lease_until(lane, renewal->asked_ms + renewal->renew.lease_ms);
	lane->long_leased += renewal->renew.lease_ms > lane->lease_ms;
}

static void renew(struct lane *lane, uint32_t place)
{
	const struct schedule_ticket *ticket = schedule_at(&lane->schedule, place);
	struct lane_renewal *renewal = &lane->renewals[lane->renewing++];
	/* For as long as it is needed: a ticket waits for the first one of its entity. */
	const struct schedule_ticket *first = schedule_at(&lane->schedule,
	                                                  schedule_first(&lane->schedule, place));
	bool waits = first->state == SCHEDULE_WAITING &&
	             first->due_ms > lane->now_ms + lane->lease_ms;
	uint64_t wait_ms = waits ? first->due_ms - lane->now_ms : 0;
	if (wait_ms > WAIT_MAX_MS)
		wait_ms = WAIT_MAX_MS;
	*renewal = (struct lane_renewal){
		.lane = lane,
		.place = place,
		.asked_ms = lane->now_ms,
		.renew = { .op = { .kind = STORE_RENEW, .done = renewed, .user = renewal },
		           .ticket = ticket->ticket,
		           .attempt = ticket->attempt,
		           .lease_ms = lane->lease_ms + (uint32_t)wait_ms },
	};
	lane_submit(lane, &renewal->renew.op, true);
}

/* One round at a time: those of the last must all be back. If there were more than a round
 * has room for, the next round continues behind them. */
void lane_renew(struct lane *lane)
{
	CHECK(lane->renewing <= LANE_LEASED_MAX);
	if (lane->lease_ms == 0 || lane->now_ms < lane->renew_at_ms || lane->life == LANE_STOPPING)
		return;
	lane->renew_at_ms = lane->now_ms + lane->lease_ms / 3 + 1;
	if (lane->renewing > 0)
		return;
	uint32_t place = SCHEDULE_NONE, last = SCHEDULE_NONE;
	lane->long_leased = 0;
	while ((place = schedule_each(&lane->schedule, place)) != SCHEDULE_NONE) {
		const struct schedule_ticket *ticket = schedule_at(&lane->schedule, place);
		bool behind = lane->renewed_last == SCHEDULE_NONE || place > lane->renewed_last;
		if (end_of(lane, ticket->lease) > lane->now_ms + lane->lease_ms) {
			lane->long_leased++;
		} else if (behind && lane->renewing < LANE_LEASED_MAX &&
		           !(ticket->marks & LANE_MARK_NOTING)) {
			renew(lane, place);
			last = place;
		}
	}
	lane->renewed_last = lane->renewing == LANE_LEASED_MAX ? last : SCHEDULE_NONE;
}

bool lane_gives_back(const struct lane *lane)
{
	return lane->lease_ms > 0 && (lane->life != LANE_LIVE);
}

/* What is under way has a way back of its own. When the pool of attempts is empty, the rest
 * stays leased and goes back in a later run, or with the process, when its lease ends. */
void lane_give_back(struct lane *lane)
{
	uint32_t place = SCHEDULE_NONE;
	while (lane_gives_back(lane) &&
	       (place = schedule_each(&lane->schedule, place)) != SCHEDULE_NONE) {
		const struct schedule_ticket *ticket = schedule_at(&lane->schedule, place);
		if (ticket->state == SCHEDULE_STARTED)
			continue;
		struct lane_attempt *attempt = lane_pool_get(lane);
		if (!attempt)
			return;
		attempt->out.ticket = ticket->ticket;
		attempt->out.number = ticket->attempt;
		attempt->place = place;
		attempt->due_ms = ticket->due_ms;
		lane_settle(attempt, OUTCOME_RELEASED);
		lane->urgent = true;
	}
}

/* ---- successes that the store did not learn of in time ---- */

/*
 * While a shared store is unreachable, outcomes wait and leases continue to end. When it
 * is back, the tickets are handed out again, perhaps to this very lane, before or after it
 * learns that its outcome was refused. What the lane knows to be done is then neither
 * delivered again nor parked, but settled under the new number. Not if a person has
 * released it meanwhile.
 */

/* The last LANE_RECORDS_MAX; without memory for them nothing is known. */
void lane_known_add(struct lane *lane, uint64_t ticket)
{
	CHECK(ticket != 0);
	if (!lane->known)
		lane->known = mem_zalloc(LANE_RECORDS_MAX, sizeof(*lane->known));
	if (lane->known)
		lane->known[lane->known_count++ % LANE_RECORDS_MAX] = ticket;
}

static uint64_t *find_refused(const struct lane *lane, uint64_t ticket)
{
	uint64_t count = lane->known_count < LANE_RECORDS_MAX ? lane->known_count
	                                                      : LANE_RECORDS_MAX;
	for (uint64_t i = 0; i < count; i++)
		if (lane->known[i] == ticket)
			return &lane->known[i];
	return NULL;
}

/* On its way to the store; one that was refused is of no interest any more then. */
static bool is_recording(struct lane *lane, uint64_t ticket)
{
	bool found = false;
	if (lane->recordable == LANE_RECORDS_MAX)
		return false;
	for (uint32_t i = 0; i < lane->record_slab_count; i++) {
		for (uint32_t k = 0; k < LANE_SLAB; k++) {
			struct lane_record *record = &lane->record_slabs[i][k];
			if (record->settle.ticket != ticket)
				continue;
			record->outdated = true;
			found = true;
		}
	}
	return found;
}

bool lane_known_settle(struct lane *lane, const struct store_item *item)
{
	CHECK(lane->lease_ms > 0);
	uint64_t *refused;
	/* Somebody released it to have it delivered once more. */
	while (item->last == STORE_MARK_RELEASED &&
	       (refused = find_refused(lane, item->ticket)) != NULL)
		*refused = 0;
	if (item->attempt < 2 || item->last == STORE_MARK_RELEASED ||
	    (!is_recording(lane, item->ticket) && !find_refused(lane, item->ticket)))
		return false;
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt)
		return false;
	attempt->out.ticket = item->ticket;
	attempt->out.event = item->event;
	attempt->out.number = item->attempt;
	lane_settle(attempt, OUTCOME_DONE);
	return true;
}
