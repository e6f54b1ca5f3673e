/* limiter: see limiter.h. */
#include "deliver/limiter.h"

#include "base/check.h"

#define ONE 1000u       /* a whole place, in thousandths */
#define FIRST_LIMIT 16u /* of a sink that nothing is known of */
#define SMOOTHING 16u   /* weight of the newest latency: 1 / SMOOTHING */
#define BASE_RISE 16u   /* the base rises by 1 / BASE_RISE of the difference */

static void check_limiter(const struct limiter *limiter)
{
	CHECK(limiter->policy);
	CHECK(limiter->limit_milli >= ONE);
	CHECK(limiter->limit_milli <= (uint64_t)limiter->policy->most * ONE);
}

void limiter_init(struct limiter *limiter, const struct limiter_policy *policy)
{
	CHECK(policy->most > 0 && policy->most <= UINT32_MAX / ONE);
	CHECK(policy->rate == 0 || (policy->per_ms > 0 && policy->burst > 0));
	uint32_t first = policy->fixed || policy->most < FIRST_LIMIT ? policy->most : FIRST_LIMIT;
	*limiter = (struct limiter){
		.policy = policy,
		.limit_milli = first * ONE,
		.calm_milli = policy->most * ONE,
	};
}

/* What recovery allows at most, in places. */
static uint32_t ramp_limit(const struct limiter *limiter, uint64_t now_ms)
{
	const struct limiter_policy *policy = limiter->policy;
	if (!limiter->ramping || policy->ramp_ms == 0)
		return policy->most;
	uint64_t doublings = (now_ms - limiter->ramp_from_ms) / policy->ramp_ms;
	if (doublings >= 31 || (UINT32_C(1) << doublings) > policy->most)
		return policy->most;
	return UINT32_C(1) << doublings;
}

uint32_t limiter_limit(const struct limiter *limiter, uint64_t now_ms)
{
	uint32_t limit = limiter->limit_milli / ONE;
	uint32_t ramp = ramp_limit(limiter, now_ms);
	return limit < ramp ? limit : ramp;
}

static uint64_t interval_ns(const struct limiter_policy *policy)
{
	uint64_t interval = (uint64_t)policy->per_ms * 1000000u / policy->rate;
	return interval > 0 ? interval : 1;
}

static uint32_t tokens(const struct limiter *limiter, uint64_t now_ms)
{
	const struct limiter_policy *policy = limiter->policy;
	uint64_t now_ns = now_ms * 1000000u;
	if (policy->rate == 0)
		return LIMITER_NO_LIMIT;
	if (limiter->filled_at_ns <= now_ns)
		return policy->burst;
	uint64_t missing = (limiter->filled_at_ns - now_ns + interval_ns(policy) - 1) /
	                   interval_ns(policy);
	return missing < policy->burst ? policy->burst - (uint32_t)missing : 0;
}

uint32_t limiter_room(const struct limiter *limiter, uint64_t now_ms)
{
	check_limiter(limiter);
	if (now_ms < limiter->paused_until_ms)
		return 0;
	uint32_t limit = limiter_limit(limiter, now_ms);
	if (limiter->in_flight >= limit)
		return 0;
	uint32_t places = limit - limiter->in_flight;
	uint32_t left = tokens(limiter, now_ms);
	return places < left ? places : left;
}

bool limiter_is_held(const struct limiter *limiter, uint64_t now_ms)
{
	return now_ms < limiter->paused_until_ms || tokens(limiter, now_ms) == 0;
}

uint64_t limiter_next_ms(const struct limiter *limiter, uint64_t now_ms)
{
	const struct limiter_policy *policy = limiter->policy;
	uint64_t next = now_ms;
	if (now_ms < limiter->paused_until_ms)
		next = limiter->paused_until_ms;
	if (limiter->in_flight >= limiter_limit(limiter, now_ms)) {
		if (ramp_limit(limiter, now_ms) >= limiter->limit_milli / ONE)
			return UINT64_MAX; /* an attempt has to end first */
		uint64_t spent_ms = now_ms - limiter->ramp_from_ms;
		uint64_t ramp = now_ms + policy->ramp_ms - spent_ms % policy->ramp_ms;
		next = ramp > next ? ramp : next;
	}
	if (tokens(limiter, now_ms) > 0)
		return next;
	uint64_t full_ns = (policy->burst - 1) * interval_ns(policy);
	uint64_t token = (limiter->filled_at_ns - full_ns + 999999u) / 1000000u;
	token = token > now_ms ? token : now_ms + 1;
	return token > next ? token : next;
}

void limiter_begin(struct limiter *limiter, uint64_t now_ms)
{
	CHECK(limiter->in_flight < UINT32_MAX);
	limiter->in_flight++;
	if (limiter->in_flight * 4 >= limiter->limit_milli / ONE * 3)
		limiter->growing = limiter->in_flight; /* it is made use of */
	if (limiter->policy->rate == 0)
		return;
	uint64_t now_ns = now_ms * 1000000u;
	uint64_t from = limiter->filled_at_ns > now_ns ? limiter->filled_at_ns : now_ns;
	limiter->filled_at_ns = from + interval_ns(limiter->policy);
}

static void set_limit(struct limiter *limiter, uint64_t milli)
{
	uint64_t most = (uint64_t)limiter->policy->most * ONE;
	milli = milli < most ? milli : most;
	limiter->limit_milli = milli > ONE ? (uint32_t)milli : ONE;
}

/* Once a round: what began before the last cut was under way with the old limit. */
static void cut(struct limiter *limiter, const struct limiter_end *end, uint32_t left_milli)
{
	uint64_t began_ms = end->now_ms - end->latency_us / 1000u;
	if (limiter->cut_at_ms > 0 && began_ms <= limiter->cut_at_ms)
		return;
	set_limit(limiter, (uint64_t)limiter->limit_milli * left_milli / ONE);
	limiter->calm_milli = limiter->limit_milli;
	limiter->cut_at_ms = end->now_ms;
}

/* With one at a time the latency is the sink's own and not of our making: so a sink
 * that became slower for good is soon not held to what it was. */
static void learn_latency(struct limiter *limiter, uint32_t latency_us)
{
	uint32_t smooth = limiter->latency_us;
	smooth = smooth == 0 ? latency_us
	                     : (uint32_t)(((uint64_t)smooth * (SMOOTHING - 1) + latency_us) /
	                                  SMOOTHING);
	limiter->latency_us = smooth > 0 ? smooth : 1;
	if (limiter->base_us == 0 || limiter->latency_us < limiter->base_us)
		limiter->base_us = limiter->latency_us;
	else if (limiter->limit_milli < 2 * ONE)
		limiter->base_us += (limiter->latency_us - limiter->base_us) / BASE_RISE;
}

void limiter_end(struct limiter *limiter, const struct limiter_end *end)
{
	check_limiter(limiter);
	CHECK(limiter->in_flight > 0);
	limiter->in_flight--;
	if (limiter->ramping && ramp_limit(limiter, end->now_ms) == limiter->policy->most)
		limiter->ramping = false;
	if (end->says == LIMITER_NOTHING || limiter->policy->fixed)
		return;
	if (end->says == LIMITER_OVERLOADED) {
		cut(limiter, end, ONE / 2);
		return;
	}
	learn_latency(limiter, end->latency_us);
	if (limiter->latency_us > (uint64_t)limiter->base_us * 2 &&
	    limiter->latency_us > (uint64_t)limiter->base_us + limiter->policy->slack_us) {
		cut(limiter, end, ONE * 9 / 10);
	} else if (limiter->growing > 0) {
		/* Fast below the last known good limit, then by one in a round trip. */
		uint32_t step = limiter->limit_milli < limiter->calm_milli
		                        ? ONE
		                        : ONE * ONE / limiter->limit_milli + 1;
		limiter->growing--;
		set_limit(limiter, (uint64_t)limiter->limit_milli + step);
	}
}

void limiter_pause(struct limiter *limiter, uint64_t until_ms)
{
	if (until_ms > limiter->paused_until_ms)
		limiter->paused_until_ms = until_ms;
}

void limiter_unpause(struct limiter *limiter)
{
	limiter->paused_until_ms = 0;
}

void limiter_restart(struct limiter *limiter, uint64_t now_ms)
{
	check_limiter(limiter);
	limiter->ramping = true;
	limiter->ramp_from_ms = now_ms;
	limiter->latency_us = 0;
	limiter->base_us = 0;
	if (limiter->policy->fixed)
		return; /* the ramp alone */
	if (limiter->limit_milli > ONE)
		limiter->calm_milli = limiter->limit_milli / 2;
	limiter->limit_milli = ONE;
}
