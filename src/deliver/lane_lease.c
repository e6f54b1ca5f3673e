/*
 * lane_lease: leases that end (a store that several nodes share).
 *
 * A lease is counted from when it was asked for, so it is over here before it is over
 * at the store. Every third of its length all are renewed; one that is over all the
 * same (the process was stopped) is renewed before anything starts, and the store
 * refuses if somebody else has the ticket by then.
 *
 * Kept in 32 bits: units of 16 ms since the lane was made, plus 1; 0 never ends.
 */
#include "base/error.h"
#include "base/log.h"
#include "deliver/lane_private.h"
#include "sys/clock.h"

#define UNIT_MS 16u

uint32_t lane_lease_from(const struct lane *lane, uint64_t asked_ms)
{
	if (lane->lease_ms == 0)
		return 0;
	return (uint32_t)((asked_ms + lane->lease_ms - lane->born_ms) / UNIT_MS) + 1;
}

bool lane_lease_over(struct lane *lane, uint32_t lease)
{
	if (lease == 0)
		return false;
	uint64_t now_ms = clock_read(lane->clock).boot_ms;
	return now_ms >= lane->born_ms + (uint64_t)(lease - 1) * UNIT_MS;
}

static void lose(struct lane *lane, uint32_t place)
{
	struct schedule_ticket *ticket = schedule_at(&lane->schedule, place);
	if (ticket->state == SCHEDULE_STARTED) {
		ticket->marks |= LANE_MARK_LOST; /* when its attempt ends, it is left */
		return;
	}
	lane->counts.lost++;
	schedule_remove(&lane->schedule, place);
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
	if (op->error == 0)
		ticket->lease = lane_lease_from(lane, renewal->asked_ms);
	else if (op->error == ERR_FENCED)
		lose(lane, renewal->place);
}

static void renew(struct lane *lane, uint32_t place)
{
	const struct schedule_ticket *ticket = schedule_at(&lane->schedule, place);
	struct lane_renewal *renewal = &lane->renewals[lane->renewing++];
	*renewal = (struct lane_renewal){
		.lane = lane,
		.place = place,
		.asked_ms = lane->now_ms,
		.renew = { .op = { .kind = STORE_RENEW, .done = renewed, .user = renewal },
		           .ticket = ticket->ticket,
		           .attempt = ticket->attempt,
		           .lease_ms = lane->lease_ms },
	};
	lane_submit(lane, &renewal->renew.op, true);
}

/* One round at a time: those of the last must all be back. */
void lane_renew(struct lane *lane)
{
	if (lane->lease_ms == 0 || lane->now_ms < lane->renew_at_ms || lane->stopping)
		return;
	lane->renew_at_ms = lane->now_ms + lane->lease_ms / 3 + 1;
	if (lane->renewing > 0)
		return;
	uint32_t place = SCHEDULE_NONE;
	while ((place = schedule_each(&lane->schedule, place)) != SCHEDULE_NONE &&
	       lane->renewing < LANE_LEASED_MAX)
		if (!(schedule_at(&lane->schedule, place)->marks & LANE_MARK_NOTING))
			renew(lane, place);
}
