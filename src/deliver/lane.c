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
	lane_wish_init(lane);
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
	lane_wish_free(lane);
	schedule_free(&lane->schedule);
	mem_free(lane->renewals);
	mem_free(lane->known);
	return mem_free(lane);
}

/* ---- shared ---- */

void lane_submit(struct lane *lane, struct store_op *op, bool urgent)
{
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
	return lane->paused || lane->disabled || lane->removed || !lane->wish.known;
}

uint32_t lane_room(struct lane *lane)
{
	if (lane_is_barred(lane) || lane->stopping || lane->changing)
		return 0;
	uint32_t room = breaker_room(&lane->breaker, lane->now_ms);
	uint32_t limit = limiter_room(&lane->limiter, lane->now_ms);
	room = room < limit ? room : limit;
	return room < lane->pooled ? room : lane->pooled;
}

/* ---- one run ---- */

static void start_due(struct lane *lane)
{
	for (uint32_t room = lane_room(lane); room > 0; room--) {
		uint32_t place = schedule_start(&lane->schedule, lane->now_ms);
		if (place == SCHEDULE_NONE)
			return;
		struct schedule_ticket ticket = *schedule_at(&lane->schedule, place);
		lane_begin(lane, &(struct lane_start){ .ticket = &ticket, .place = place });
	}
}

/* Outcomes wake nobody at the store, and nobody here when they are durable: that
 * comes to light with the next take. When there is none, somebody has to be woken. */
void lane_flush(struct lane *lane)
{
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
	if (lane->stopping)
		return UINT64_MAX;
	uint64_t next_ms = sooner(next_start_ms(lane), lane_wish_next_ms(lane));
	if (lane->take_after_ms > lane->now_ms)
		next_ms = sooner(next_ms, lane->take_after_ms);
	if (lane->unburied)
		next_ms = sooner(next_ms, lane->bury_at_ms);
	if (lane->renew_at_ms > 0)
		next_ms = sooner(next_ms, lane->renew_at_ms);
	if (next_ms == UINT64_MAX)
		return UINT64_MAX;
	return next_ms > lane->now_ms ? next_ms - lane->now_ms : 0;
}

uint64_t lane_run(struct lane *lane)
{
	lane->running = true;
	lane->now_ms = clock_read(lane->clock).boot_ms;
	lane_wish_run(lane);
	for (uint32_t turn = 0; turn < TURNS_MAX; turn++) {
		lane_receive_takes(lane);
		lane_bury_again(lane);
		lane_give_back(lane);
		start_due(lane);
		lane_renew(lane);
		lane_begin_takes(lane);
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
	lane->stopping = true;
	for (struct outlet_attempt *out = lane->chain; out;) {
		struct outlet_attempt *next = out->next;
		lane_put_back(container_of(out, struct lane_attempt, out), 0);
		out = next;
	}
	lane->chain = NULL;
	lane->chain_end = &lane->chain;
	lane->chained = 0;
	lane_bury_again(lane);
	lane_give_back(lane);
}

bool lane_is_still(const struct lane *lane)
{
	return lane->stopping && lane->out == 0;
}

/* ---- commands ---- */

void lane_prepare_change(struct lane *lane)
{
	lane->changing = true;
}

void lane_cancel_change(struct lane *lane)
{
	lane->changing = false;
}

bool lane_is_idle(const struct lane *lane)
{
	return lane->out == 0 && !lane->chain && lane->limiter.in_flight == 0;
}

void lane_change(struct lane *lane, struct outlet *outlet, const struct deliver_policy *policy)
{
	CHECK(lane->changing && lane_is_idle(lane));
	use_outlet(lane, outlet, policy);
	breaker_init(&lane->breaker, &lane->policy.breaker, lane->now_ms);
	limiter_init(&lane->limiter, &lane->policy.limiter);
	if (lane->disabled)
		lane_wish_changed(lane);
	lane->disabled = false;
	lane->removed = false;
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
	lane_wish_renamed(lane);
}

void lane_pause(struct lane *lane)
{
	lane->paused = true;
	lane_wish_changed(lane);
	log_info("a sink is paused", log_str("sink", lane->name));
}

void lane_remove(struct lane *lane)
{
	lane->removed = true;
}

void lane_resume(struct lane *lane)
{
	lane->paused = false;
	lane->disabled = false;
	lane_wish_changed(lane);
	lane_go(lane);
}

void lane_go(struct lane *lane)
{
	limiter_unpause(&lane->limiter);
	breaker_try_now(&lane->breaker);
	lane->take_after_ms = 0;
	log_info("a sink goes on", log_str("sink", lane->name));
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

static enum lane_state state_of(const struct lane *lane)
{
	if (lane->stopping)
		return LANE_ENDED;
	if (lane->removed)
		return LANE_REMOVED;
	if (lane->disabled)
		return LANE_DISABLED;
	return lane->paused ? LANE_PAUSED : LANE_RUNNING;
}

static bool is_resting(struct lane *lane)
{
	for (uint32_t i = 0; i < LANE_TAKES; i++)
		if (lane->takes[i].state == TAKE_ARRIVED)
			return false;
	return lane->pooled == LANE_POOL_MAX && lane->recordable == LANE_RECORDS_MAX &&
	       next_start_ms(lane) > lane->now_ms;
}

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
	*ret_view = lane->counts;
	memcpy(ret_view->name, lane->name, sizeof(lane->name));
	ret_view->sink = lane->sink;
	ret_view->state = state_of(lane);
	ret_view->in_flight = lane->limiter.in_flight;
	ret_view->resting = is_resting(lane);
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
