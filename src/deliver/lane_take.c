/*
 * lane_take: tickets come from the store.
 *
 * While attempts can start, takes bring the bytes with them, and what they bring goes
 * straight to the outlet. While the sink has all that it can do, or there is a backlog
 * here, nothing is taken: what waits does so at the store. When nothing can start for
 * some time (an outage, a pause, no tokens), one take at a time brings the tickets
 * alone, and not too often: so the lane knows all of them, for commands, and an outage
 * costs the store little. Their bytes are read when their turn comes. From a store that is
 * shared an outage takes one at a time.
 */
#include "base/error.h"
#include "base/log.h"
#include "deliver/lane_private.h"

/* ---- asking ---- */

static void take_done(struct store_op *op)
{
	struct lane_take *take = op->user;
	struct lane *lane = take->lane;
	CHECK(take->state == TAKE_WAITING);
	take->state = TAKE_ARRIVED;
	take->order = ++lane->taken;
}

static void submit_take(struct lane *lane, struct lane_take *take, uint32_t items, bool bare)
{
	take->state = TAKE_WAITING;
	take->asked_ms = lane->now_ms;
	take->take.op = (struct store_op){ .kind = STORE_TAKE, .done = take_done, .user = take };
	take->take.sink = lane->sink;
	take->take.max_items = items;
	take->take.max_bytes = lane->outlet->immediate ? LANE_LARGE_BYTES : LANE_TAKE_BYTES;
	take->take.lease_ms = lane->lease_ms;
	take->take.without_payload = bare;
	lane_submit(lane, &take->take.op, true);
}

/* What the takes that wait may bring together. */
static uint32_t promised(const struct lane *lane)
{
	uint32_t items = 0;
	for (uint32_t i = 0; i < LANE_TAKES; i++)
		if (lane->takes[i].state != TAKE_IDLE)
			items += lane->takes[i].take.max_items;
	return items;
}

static uint32_t less(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* With leases that end no more is held than can be renewed. A take asks for half of what
 * is left: so another waits at the store while what one brought is on its way here. */
static uint32_t holdable(const struct lane *lane, uint32_t expected)
{
	if (lane->lease_ms == 0)
		return UINT32_MAX;
	uint32_t held = lane->schedule.count - less(lane->long_leased, lane->schedule.count) +
	                expected;
	return held < LANE_LEASED_MAX ? (LANE_LEASED_MAX - held + 1) / 2 : 0;
}

/*
 * How many items another take may bring. An immediate outlet gets large takes, as many
 * as there are records for: those whose outcomes are not durable yet are missing
 * meanwhile. (If it gets less than what comes in while an outcome is written, it falls
 * behind, and the store reads from the disk what it had in memory.) For another, each take asks for half of the room that is left, so
 * that some wait at the store while others are on their way.
 */
static uint32_t items_wanted(struct lane *lane, uint32_t expected)
{
	bool large = lane->outlet->immediate;
	uint32_t room = large ? lane->recordable : lane_room(lane);
	uint32_t left = room > expected ? room - expected : 0;
	uint32_t most = less(large ? LANE_LARGE_ITEMS : LANE_TAKE_ITEMS, holdable(lane, expected));
	if (!large)
		return less((left + 1) / 2, most);
	return left >= LANE_LARGE_ITEMS / 4 ? less(left, most) : 0;
}

/* It is not the attempts under way that keep others from starting. */
static bool is_held_up(const struct lane *lane)
{
	return lane_is_barred(lane) || lane->breaker.state != BREAKER_CLOSED ||
	       limiter_is_held(&lane->limiter, lane->now_ms);
}

/* Other nodes may reach the sink that does not work from here: no more is kept from them
 * than one to find out with whether it works again. */
static bool takes_one_by_one(const struct lane *lane)
{
	return lane->lease_ms > 0 && !lane_is_barred(lane) && lane->breaker.state != BREAKER_CLOSED;
}

/* Is there one for the breaker's next probe? */
static bool has_probe(const struct lane *lane)
{
	uint64_t until_ms = lane->breaker.state == BREAKER_OPEN ? lane->breaker.until_ms : 0;
	return schedule_is_due(&lane->schedule, until_ms > lane->now_ms ? until_ms : lane->now_ms);
}

static void begin_bare_take(struct lane *lane)
{
	uint32_t items = less(LANE_BARE_ITEMS, holdable(lane, 0));
	if (takes_one_by_one(lane))
		items = has_probe(lane) ? 0 : less(items, 1);
	if (promised(lane) == 0 && items > 0)
		submit_take(lane, &lane->takes[0], items, true);
}

void lane_begin_takes(struct lane *lane)
{
	if (lane->stopping || lane_gives_back(lane) || lane->now_ms < lane->take_after_ms ||
	    !lane->wish.known)
		return;
	if (is_held_up(lane)) {
		begin_bare_take(lane);
		return;
	}
	if (schedule_is_due(&lane->schedule, lane->now_ms))
		return;
	for (uint32_t i = 0; i < LANE_TAKES; i++) {
		struct lane_take *take = &lane->takes[i];
		uint32_t items = take->state == TAKE_IDLE ? items_wanted(lane, promised(lane)) : 0;
		if (items > 0)
			submit_take(lane, take, items, false);
	}
}

/* ---- receiving ---- */

static uint64_t due_of(const struct lane *lane, const struct store_item *item)
{
	uint64_t now_ms = lane_store_time(lane, lane->now_ms);
	return item->due_ms > now_ms ? lane->now_ms + (item->due_ms - now_ms) : 0;
}

/* Nobody knows what came of the attempt before: it began, and nothing was noted
 * after, or that it is unknown was. */
static bool is_unknown(const struct store_item *item)
{
	return item->last == STORE_MARK_STARTED || item->last == STORE_MARK_UNKNOWN;
}

/* No memory for it: the store keeps it for a while. */
static void give_back(struct lane *lane, const struct schedule_ticket *ticket)
{
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt) {
		log_error("no memory for a ticket; it is delivered after a restart",
		          log_str("sink", lane->name));
		return;
	}
	attempt->out.ticket = ticket->ticket;
	attempt->out.number = ticket->attempt;
	attempt->place = SCHEDULE_NONE;
	attempt->due_ms = lane->now_ms + LANE_RETRY_MS;
	lane_settle(attempt, OUTCOME_RELEASED);
}

/* Our lease of it was over, and now we have it again: there are never two of it here.
 * What waits, or is under way, goes on under the new number. */
static bool goes_on(struct lane *lane, const struct schedule_ticket *again)
{
	uint32_t place = schedule_find(&lane->schedule, again->ticket);
	if (place == SCHEDULE_NONE)
		return false;
	struct schedule_ticket *held = schedule_at(&lane->schedule, place);
	held->attempt = again->attempt;
	held->lease = again->lease;
	held->marks &= (uint8_t)~LANE_MARK_LOST;
	if (held->state != SCHEDULE_STARTED)
		held->marks |= again->marks;
	return true;
}

static void receive(struct lane *lane, const struct store_item *item,
                    const struct store_parts *parts, uint32_t lease)
{
	struct schedule_ticket ticket = {
		.ticket = item->ticket,
		.order = item->order,
		.due_ms = due_of(lane, item),
		.attempt = item->attempt,
		.lease = lease,
		.leg = (uint8_t)(item->ticket - item->event),
		.marks = is_unknown(item) ? LANE_MARK_UNKNOWN : 0,
	};
	if (lane->lease_ms > 0 && (goes_on(lane, &ticket) || lane_known_settle(lane, item)))
		return;
	bool now = !item->bare && ticket.due_ms <= lane->now_ms && lane_room(lane) > 0 &&
	           !schedule_is_due(&lane->schedule, lane->now_ms);
	if (now && ticket.order == 0 && lane->lease_ms == 0) {
		lane_begin(lane, &(struct lane_start){ &ticket, SCHEDULE_NONE, item, parts });
		return;
	}
	uint32_t place = SCHEDULE_NONE;
	if (schedule_add(&lane->schedule, &ticket, lane->now_ms, &place) != 0)
		give_back(lane, &ticket);
	else if (now && schedule_start_this(&lane->schedule, place))
		lane_begin(lane, &(struct lane_start){ &ticket, place, item, parts });
}

static void take_failed(struct lane *lane, int error)
{
	if (error == ERR_CLOSING) {
		lane->take_after_ms = UINT64_MAX;
		return;
	}
	log_error("tickets cannot be taken for delivery", log_str("sink", lane->name),
	          log_code(error));
	uint32_t doublings = lane->take_errors < 5 ? lane->take_errors : 5;
	lane->take_errors++;
	lane->take_after_ms = lane->now_ms + (UINT64_C(100) << doublings);
}

static void receive_take(struct lane *lane, struct lane_take *take)
{
	take->state = TAKE_IDLE;
	if (take->take.op.error != 0) {
		take_failed(lane, take->take.op.error);
		return;
	}
	lane->take_errors = 0;
	if (take->take.without_payload)
		lane->take_after_ms = lane->now_ms + LANE_BARE_EVERY_MS;
	lane->store_ms = take->take.now_ms - lane->now_ms;
	/* It began when the store answered, which nobody here knows: not before it was
	 * asked. One that is over by that is renewed before anything starts. */
	uint32_t lease = lane_lease_from(lane, take->asked_ms);
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	while (store_item_next(buf_span(&take->take.items), &offset, &item, &parts)) {
		receive(lane, &item, &parts, lease);
		if (lane->outlet->immediate && lane->chained >= lane->outlet->batch_max)
			lane_send(lane);
	}
	/* An outlet that is not immediate has copies. */
	if (lane->outlet->immediate)
		lane_send(lane);
}

static struct lane_take *next_arrived(struct lane *lane)
{
	struct lane_take *first = NULL;
	for (uint32_t i = 0; i < LANE_TAKES; i++) {
		struct lane_take *take = &lane->takes[i];
		if (take->state == TAKE_ARRIVED && (!first || take->order < first->order))
			first = take;
	}
	return first;
}

void lane_receive_takes(struct lane *lane)
{
	for (struct lane_take *take; (take = next_arrived(lane)) != NULL;)
		receive_take(lane, take);
}
