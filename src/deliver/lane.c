/* lane: see lane.h. */
#include "deliver/lane.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"
#include "store/port.h"
#include "sys/clock.h"

/* A run that finds no end lets others have the thread. */
#define TURNS_MAX 8u

static void use_outlet(struct lane *lane, struct outlet *outlet,
                       const struct deliver_policy *policy)
{
	lane->policy = *policy;
	if (!outlet->methods->probe && lane->policy.on_unknown == DELIVER_UNKNOWN_PROBE)
		lane->policy.on_unknown = DELIVER_UNKNOWN_PARK; /* it cannot be asked */
	lane->outlet = outlet;
}

int lane_new(const struct lane_options *options, struct lane **ret_lane)
{
	CHECK(options->outlet && options->store);
	CHECK(strlen(options->name) <= LANE_NAME_MAX);
	struct lane *lane = mem_zalloc(1, sizeof(*lane));
	if (!lane)
		return -ENOMEM;
	memcpy(lane->name, options->name, strlen(options->name));
	lane->sink = options->sink;
	use_outlet(lane, options->outlet, &options->policy);
	lane->store = options->store;
	lane->port = options->port;
	lane->clock = options->clock ? options->clock : clock_system();
	lane->random = options->seed;
	lane->lease_ms = options->lease_ms;
	lane->feed = options->feed;
	lane->pooled = LANE_POOL_MAX;
	lane->recordable = LANE_RECORDS_MAX;
	lane->chain_end = &lane->chain;
	lane->renewed_last = SCHEDULE_NONE;
	struct clock_reading now = clock_read(lane->clock);
	lane->now_ms = lane->born_ms = now.boot_ms;
	lane->store_ms = now.wall_ms - now.boot_ms; /* until the first take tells */
	if (lane->lease_ms > 0) {
		lane->renewals = mem_zalloc(LANE_LEASED_MAX, sizeof(*lane->renewals));
		if (!lane->renewals) {
			mem_free(lane);
			return -ENOMEM;
		}
	}
	sink_state_init(lane);
	schedule_init(&lane->schedule);
	breaker_init(&lane->breaker, &lane->policy.breaker, lane->now_ms);
	limiter_init(&lane->limiter, &lane->policy.limiter);
	for (uint32_t i = 0; i < LANE_TAKES; i++)
		lane->takes[i].lane = lane;
	*ret_lane = lane;
	return 0;
}

struct lane *lane_free(struct lane *lane)
{
	if (!lane)
		return NULL;
	CHECK(lane->out == 0 && lane->renewing == 0);
	for (uint32_t i = 0; i < LANE_TAKES; i++) {
		CHECK(lane->takes[i].state != TAKE_WAITING);
		buf_free(&lane->takes[i].take.items);
	}
	lane_pool_free(lane);
	CHECK(!lane->saved.under_way);
	buf_free(&lane->saved.op.value);
	schedule_free(&lane->schedule);
	mem_free(lane->renewals);
	mem_free(lane->known);
	return mem_free(lane);
}

/* ---- shared ---- */

void lane_submit(struct lane *lane, struct store_op *op, bool urgent)
{
	CHECK(op->done && op->user); /* answered to the lane */
	if (urgent)
		lane->urgent = true;
	else
		lane->lazy = true;
	store_submit(lane->store, op);
}

/* splitmix64: even enough for jitter. */
uint64_t lane_random(struct lane *lane)
{
	uint64_t z = (lane->random += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t lane_store_time(const struct lane *lane, uint64_t boot_ms)
{
	return boot_ms + lane->store_ms;
}

bool lane_is_barred(const struct lane *lane)
{
	return lane->paused || lane->disabled || lane->life == LANE_OUT_OF_USE ||
	       !lane->saved.known;
}

uint32_t lane_room(struct lane *lane)
{
	CHECK(lane->pooled <= LANE_POOL_MAX);
	if (lane_is_barred(lane) || lane->life == LANE_STOPPING || lane->changing)
		return 0;
	uint32_t room = breaker_room(&lane->breaker, lane->now_ms);
	uint32_t limit = limiter_room(&lane->limiter, lane->now_ms);
	room = room < limit ? room : limit;
	return room < lane->pooled ? room : lane->pooled;
}

/*
 * Tickets come from the store.
 *
 * While attempts can start, takes bring the bytes with them, and what they bring goes
 * straight to the outlet. While the sink has all that it can do, or tickets wait here,
 * nothing is taken: the rest waits at the store. When nothing can start for some time
 * (an outage, a pause, no tokens), one take at a time brings the tickets alone, and not
 * too often: so the lane knows all of them, for commands, and an outage costs the store
 * little. Their bytes are read when they start. From a shared store an outage takes one
 * ticket at a time.
 */

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
static uint32_t items_expected(const struct lane *lane)
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

static void begin_bare_take(struct lane *lane)
{
	uint32_t items = less(LANE_BARE_ITEMS, holdable(lane, 0));
	/* Other gateways may reach the sink. So this one holds no more than a ticket for the
	 * breaker's next probe. */
	if (lane->lease_ms > 0 && !lane_is_barred(lane) && lane->breaker.state != BREAKER_CLOSED) {
		bool waits = lane->breaker.state == BREAKER_OPEN &&
		             lane->breaker.until_ms > lane->now_ms;
		uint64_t probe_ms = waits ? lane->breaker.until_ms : lane->now_ms;
		items = schedule_is_due(&lane->schedule, probe_ms) ? 0 : less(items, 1);
	}
	if (items_expected(lane) == 0 && items > 0)
		submit_take(lane, &lane->takes[0], items, true);
}

static void begin_takes(struct lane *lane)
{
	if (lane->life == LANE_STOPPING || lane_gives_back(lane) ||
	    lane->now_ms < lane->take_after_ms || !lane->saved.known)
		return;
	/* Attempts cannot start, and not because too many are under way. */
	if (lane_is_barred(lane) || lane->breaker.state != BREAKER_CLOSED ||
	    limiter_is_held(&lane->limiter, lane->now_ms)) {
		begin_bare_take(lane);
		return;
	}
	if (schedule_is_due(&lane->schedule, lane->now_ms))
		return;
	for (uint32_t i = 0; i < LANE_TAKES; i++) {
		struct lane_take *take = &lane->takes[i];
		uint32_t items = take->state == TAKE_IDLE ? items_wanted(lane, items_expected(lane))
		                                          : 0;
		if (items > 0)
			submit_take(lane, take, items, false);
	}
}

/* ---- receiving ---- */

/* No memory for it: the store keeps it for a while. */
static void give_back_ticket(struct lane *lane, const struct schedule_ticket *ticket)
{
	struct lane_attempt *attempt = lane_pool_get(lane);
	if (!attempt) {
		log_error("out of memory: the ticket stays with the store until a restart",
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
 * What waits, or is under way, continues under the new number. */
static bool take_over_again(struct lane *lane, const struct schedule_ticket *again)
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
	uint64_t now_ms = lane_store_time(lane, lane->now_ms);
	/* An attempt began, and its result was not recorded or is unknown. */
	bool unknown = item->last == STORE_MARK_STARTED || item->last == STORE_MARK_UNKNOWN;
	struct schedule_ticket ticket = {
		.ticket = item->ticket,
		.order = item->order,
		.due_ms = item->due_ms > now_ms ? lane->now_ms + (item->due_ms - now_ms) : 0,
		.attempt = item->attempt,
		.lease = lease,
		.leg = (uint8_t)(item->ticket - item->event),
		.marks = unknown ? LANE_MARK_UNKNOWN : 0,
	};
	if (lane->lease_ms > 0 && (take_over_again(lane, &ticket) || lane_known_settle(lane, item)))
		return;
	bool now = !item->bare && ticket.due_ms <= lane->now_ms && lane_room(lane) > 0 &&
	           !schedule_is_due(&lane->schedule, lane->now_ms);
	if (now && ticket.order == 0 && lane->lease_ms == 0) {
		lane_begin(lane, &(struct lane_start){ &ticket, SCHEDULE_NONE, item, parts });
		return;
	}
	uint32_t place = SCHEDULE_NONE;
	if (schedule_add(&lane->schedule, &ticket, lane->now_ms, &place) != 0)
		give_back_ticket(lane, &ticket);
	else if (now && schedule_start_this(&lane->schedule, place))
		lane_begin(lane, &(struct lane_start){ &ticket, place, item, parts });
}

static void receive_take(struct lane *lane, struct lane_take *take)
{
	int error = take->take.op.error;
	take->state = TAKE_IDLE;
	if (error == ERR_CLOSING) {
		lane->take_after_ms = UINT64_MAX;
		return;
	}
	if (error != 0) {
		log_error("tickets cannot be read from the store for delivery",
		          log_str("sink", lane->name), log_code(error));
		uint32_t doublings = less(lane->take_errors++, 5);
		lane->take_after_ms = lane->now_ms + (UINT64_C(100) << doublings);
		return;
	}
	lane->take_errors = 0;
	if (take->take.without_payload)
		lane->take_after_ms = lane->now_ms + LANE_BARE_EVERY_MS;
	lane->store_ms = take->take.now_ms - lane->now_ms;
	/* It began when the store answered. That time is unknown here: not before it was
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

static void receive_takes(struct lane *lane)
{
	for (;;) {
		struct lane_take *first = NULL;
		for (uint32_t i = 0; i < LANE_TAKES; i++) {
			struct lane_take *take = &lane->takes[i];
			if (take->state == TAKE_ARRIVED && (!first || take->order < first->order))
				first = take;
		}
		if (!first)
			return;
		receive_take(lane, first);
	}
}

/* ---- one run ---- */

/* Outcomes do not wake the store, and do not wake the lane when they are durable: the
 * next take brings that. When no take waits, the store has to be woken. */
void lane_flush(struct lane *lane)
{
	CHECK(!lane->running); /* after a run, not inside it */
	bool waiting = false;
	if (!lane->urgent && !lane->lazy)
		return;
	for (uint32_t i = 0; i < LANE_TAKES; i++)
		waiting |= lane->takes[i].state == TAKE_WAITING;
	bool urgent = lane->urgent || !lane->port || lane->policy.prompt || !waiting ||
	              lane->pooled < LANE_SLAB;
	lane->urgent = false;
	lane->lazy = false;
	if (urgent)
		store_flush(lane->store);
	else
		port_flush_lazy(lane->port);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When a ticket may start that nothing but time keeps back. */
static uint64_t next_start_ms(struct lane *lane)
{
	if (lane_is_barred(lane) || lane->changing ||
	    lane->schedule.count == lane->schedule.started)
		return UINT64_MAX;
	uint64_t due_ms = schedule_is_due(&lane->schedule, lane->now_ms)
	                          ? lane->now_ms
	                          : schedule_due_ms(&lane->schedule);
	uint64_t may_ms = limiter_next_ms(&lane->limiter, lane->now_ms);
	if (lane->breaker.state == BREAKER_OPEN && lane->breaker.until_ms > may_ms)
		may_ms = lane->breaker.until_ms;
	if (breaker_room(&lane->breaker, lane->now_ms) == 0 &&
	    lane->breaker.state == BREAKER_HALF_OPEN)
		return UINT64_MAX; /* a probe is under way */
	if (lane->pooled == 0)
		return UINT64_MAX;
	return due_ms > may_ms ? due_ms : may_ms;
}

static uint64_t next_run_ms(struct lane *lane)
{
	if (lane->life == LANE_STOPPING)
		return UINT64_MAX;
	uint64_t next_ms = sooner(next_start_ms(lane), sink_state_next_ms(lane));
	if (lane->take_after_ms > lane->now_ms)
		next_ms = sooner(next_ms, lane->take_after_ms);
	if (lane->dead_letters)
		next_ms = sooner(next_ms, lane->dead_letter_at_ms);
	if (lane->renew_at_ms > 0)
		next_ms = sooner(next_ms, lane->renew_at_ms);
	if (next_ms == UINT64_MAX)
		return UINT64_MAX;
	return next_ms > lane->now_ms ? next_ms - lane->now_ms : 0;
}

uint64_t lane_run(struct lane *lane)
{
	CHECK(!lane->running);
	CHECK(lane->out + lane->pooled <= LANE_POOL_MAX);
	lane->running = true;
	lane->now_ms = clock_read(lane->clock).boot_ms;
	sink_state_run(lane);
	for (uint32_t turn = 0; turn < TURNS_MAX; turn++) {
		receive_takes(lane);
		dead_letter_send_again(lane);
		lane_give_back(lane);
		for (uint32_t room = lane_room(lane); room > 0; room--) {
			uint32_t place = schedule_start(&lane->schedule, lane->now_ms);
			if (place == SCHEDULE_NONE)
				break;
			struct schedule_ticket ticket = *schedule_at(&lane->schedule, place);
			lane_begin(lane, &(struct lane_start){ .ticket = &ticket, .place = place });
		}
		lane_renew(lane);
		begin_takes(lane);
		if (!lane->chain)
			break;
		lane_send(lane);
	}
	lane->running = false;
	return lane->chain ? 0 : next_run_ms(lane);
}

/* ---- the end ---- */

void lane_stop(struct lane *lane)
{
	CHECK(lane->life != LANE_STOPPING);
	lane->life = LANE_STOPPING;
	for (struct outlet_attempt *out = lane->chain; out;) {
		struct outlet_attempt *next = out->next;
		lane_put_back(container_of(out, struct lane_attempt, out), 0);
		out = next;
	}
	lane->chain = NULL;
	lane->chain_end = &lane->chain;
	lane->chained = 0;
	dead_letter_send_again(lane);
	lane_give_back(lane);
}

bool lane_is_still(const struct lane *lane)
{
	CHECK(lane->out + lane->pooled <= LANE_POOL_MAX);
	return lane->life == LANE_STOPPING && lane->out == 0;
}

/* ---- commands ---- */

void lane_prepare_change(struct lane *lane)
{
	CHECK(!lane->changing);
	lane->changing = true;
}

void lane_cancel_change(struct lane *lane)
{
	CHECK(lane->changing);
	lane->changing = false;
}

bool lane_is_idle(const struct lane *lane)
{
	CHECK(lane->out <= lane->limiter.in_flight);
	return lane->out == 0 && !lane->chain && lane->limiter.in_flight == 0;
}

void lane_change(struct lane *lane, struct outlet *outlet, const struct deliver_policy *policy)
{
	CHECK(lane->changing && lane_is_idle(lane));
	use_outlet(lane, outlet, policy);
	breaker_init(&lane->breaker, &lane->policy.breaker, lane->now_ms);
	limiter_init(&lane->limiter, &lane->policy.limiter);
	if (lane->disabled)
		sink_state_changed(lane);
	lane->disabled = false;
	lane->life = LANE_LIVE;
	lane->changing = false;
	lane->take_after_ms = 0;
}

void lane_rename(struct lane *lane, const char *name)
{
	CHECK(strlen(name) <= LANE_NAME_MAX);
	if (strcmp(lane->name, name) == 0)
		return;
	memset(lane->name, 0, sizeof(lane->name));
	memcpy(lane->name, name, strlen(name));
	sink_state_renamed(lane);
}

void lane_pause(struct lane *lane)
{
	lane->paused = true;
	sink_state_changed(lane);
	log_info("sink paused", log_str("sink", lane->name));
}

void lane_remove(struct lane *lane)
{
	CHECK(lane->life != LANE_STOPPING);
	lane->life = LANE_OUT_OF_USE;
}

void lane_resume(struct lane *lane)
{
	lane->paused = false;
	lane->disabled = false;
	sink_state_changed(lane);
	lane_go(lane);
}

void lane_go(struct lane *lane)
{
	CHECK(!lane->paused && !lane->disabled);
	limiter_unpause(&lane->limiter);
	breaker_try_now(&lane->breaker);
	lane->take_after_ms = 0;
	log_info("sink resumed", log_str("sink", lane->name));
}

int lane_retry_now(struct lane *lane, uint64_t ticket)
{
	uint32_t place = schedule_find(&lane->schedule, ticket);
	if (place == SCHEDULE_NONE)
		return -ENOENT;
	if (!schedule_hurry(&lane->schedule, place) &&
	    schedule_at(&lane->schedule, place)->state != SCHEDULE_QUEUED)
		return ERR_BUSY;
	breaker_try_now(&lane->breaker);
	return 0;
}

int lane_drop(struct lane *lane, uint64_t ticket, struct lane_drop *drop)
{
	CHECK(drop->done);
	uint32_t place = schedule_find(&lane->schedule, ticket);
	if (place == SCHEDULE_NONE)
		return -ENOENT;
	const struct schedule_ticket *held = schedule_at(&lane->schedule, place);
	struct lane_attempt *attempt = held->state == SCHEDULE_STARTED ? NULL : lane_pool_get(lane);
	if (!attempt)
		return ERR_BUSY;
	attempt->out.ticket = held->ticket;
	attempt->out.number = held->attempt;
	attempt->place = place;
	attempt->forget = true;
	attempt->drop = drop;
	lane_settle(attempt, OUTCOME_DEAD);
	lane->urgent = true;
	return 0;
}

/* ---- view ---- */

/* Of the queue's first, or of what waits for the soonest time. */
static uint64_t oldest_ms(const struct lane *lane)
{
	const struct schedule *schedule = &lane->schedule;
	uint32_t place = SCHEDULE_NONE;
	if (schedule->queued > 0)
		place = schedule->queue_head;
	else if (schedule->heap_count > 0)
		place = schedule->heap[0];
	return place == SCHEDULE_NONE ? 0 : ticket_time_ms(schedule->tickets[place].ticket);
}

void lane_view(struct lane *lane, struct lane_view *ret_view)
{
	CHECK(lane->schedule.started <= lane->schedule.count);
	*ret_view = lane->counts;
	memcpy(ret_view->name, lane->name, sizeof(lane->name));
	ret_view->sink = lane->sink;
	ret_view->state = lane->life == LANE_STOPPING     ? LANE_ENDED
	                  : lane->life == LANE_OUT_OF_USE ? LANE_REMOVED
	                  : lane->disabled                ? LANE_DISABLED
	                  : lane->paused                  ? LANE_PAUSED
	                                                  : LANE_RUNNING;
	ret_view->in_flight = lane->limiter.in_flight;
	ret_view->resting = lane->pooled == LANE_POOL_MAX && lane->recordable == LANE_RECORDS_MAX &&
	                    next_start_ms(lane) > lane->now_ms;
	for (uint32_t i = 0; i < LANE_TAKES; i++)
		ret_view->resting &= lane->takes[i].state != TAKE_ARRIVED;
	ret_view->waiting = lane->schedule.count - lane->schedule.started;
	ret_view->limit = limiter_limit(&lane->limiter, lane->now_ms);
	ret_view->latency_us = lane->limiter.latency_us;
	ret_view->breaker = lane->breaker.state;
	ret_view->breaker_until_ms = lane->breaker.state == BREAKER_OPEN ? lane->breaker.until_ms
	                                                                 : 0;
	ret_view->paused_until_ms = lane->limiter.paused_until_ms > lane->now_ms
	                                    ? lane->limiter.paused_until_ms
	                                    : 0;
	ret_view->oldest_ms = oldest_ms(lane);
}

const char *lane_state_name(enum lane_state state)
{
	switch (state) {
	case LANE_RUNNING: return "running";
	case LANE_PAUSED: return "paused";
	case LANE_DISABLED: return "disabled";
	case LANE_REMOVED: return "removed";
	case LANE_ENDED: return "ended";
	}
	return "?";
}
