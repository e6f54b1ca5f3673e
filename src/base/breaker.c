/* breaker: see breaker.h. */
#include "base/breaker.h"

#include <string.h>

#include "base/check.h"

static void check_breaker(const struct breaker *breaker)
{
	const struct breaker_policy *policy = breaker->policy;
	CHECK(policy);
	CHECK(policy->probes > 0 && policy->successes > 0);
	CHECK(breaker->probing <= policy->probes);
	CHECK(breaker->probing == 0 || breaker->state == BREAKER_HALF_OPEN);
}

static void enter(struct breaker *breaker, enum breaker_state state)
{
	breaker->state = state;
	breaker->turn++;
	breaker->in_row = 0;
	breaker->probing = 0;
	breaker->successes = 0;
	memset(breaker->slices, 0, sizeof(breaker->slices));
	breaker->slice = NULL;
}

void breaker_init(struct breaker *breaker, const struct breaker_policy *policy, uint64_t now_ms)
{
	CHECK(policy->window_ms >= BREAKER_SLICES);
	*breaker = (struct breaker){ .policy = policy, .closed_at_ms = now_ms };
	check_breaker(breaker);
}

uint32_t breaker_room(struct breaker *breaker, uint64_t now_ms)
{
	check_breaker(breaker);
	if (breaker->state == BREAKER_OPEN && now_ms >= breaker->until_ms)
		enter(breaker, BREAKER_HALF_OPEN);
	switch (breaker->state) {
	case BREAKER_CLOSED: return BREAKER_NO_LIMIT;
	case BREAKER_OPEN: return 0;
	case BREAKER_HALF_OPEN: return breaker->policy->probes - breaker->probing;
	}
	return 0;
}

uint32_t breaker_begin(struct breaker *breaker)
{
	CHECK(breaker->state != BREAKER_OPEN);
	if (breaker->state == BREAKER_HALF_OPEN) {
		CHECK(breaker->probing < breaker->policy->probes);
		breaker->probing++;
	}
	return breaker->turn;
}

static void open_up(struct breaker *breaker, const struct breaker_end *end)
{
	/* The open time doubles, unless it was closed for long enough since. */
	const struct breaker_policy *policy = breaker->policy;
	bool fresh = breaker->open_ms == 0 ||
	             (breaker->state == BREAKER_CLOSED &&
	              end->now_ms - breaker->closed_at_ms >= breaker->open_ms);
	uint64_t open_ms = fresh ? policy->first_ms : breaker->open_ms * 2;
	open_ms = open_ms < policy->max_ms ? open_ms : policy->max_ms;
	enter(breaker, BREAKER_OPEN);
	breaker->open_ms = open_ms;
	breaker->until_ms = end->now_ms + open_ms - end->random % (open_ms / 5 + 1);
}

static bool window_failed(const struct breaker *breaker, uint64_t now_ms)
{
	const struct breaker_policy *policy = breaker->policy;
	uint64_t number = now_ms / (policy->window_ms / BREAKER_SLICES);
	uint64_t calls = 0;
	uint64_t failures = 0;
	for (uint32_t i = 0; i < BREAKER_SLICES; i++) {
		const struct breaker_slice *slice = &breaker->slices[i];
		if (slice->number + BREAKER_SLICES <= number)
			continue;
		calls += slice->calls;
		failures += slice->failures;
	}
	return policy->per_cent > 0 && calls >= policy->calls && calls > 0 &&
	       failures * 100 >= calls * policy->per_cent;
}

static bool end_closed(struct breaker *breaker, const struct breaker_end *end)
{
	const struct breaker_policy *policy = breaker->policy;
	/* Most ends fall into the slice of the one before: no division then. */
	uint64_t slice_ms = breaker->policy->window_ms / BREAKER_SLICES;
	if (!breaker->slice || end->now_ms - breaker->slice_from_ms >= slice_ms) {
		uint64_t number = end->now_ms / slice_ms;
		breaker->slice = &breaker->slices[number % BREAKER_SLICES];
		breaker->slice_from_ms = number * slice_ms;
		if (breaker->slice->number != number)
			*breaker->slice = (struct breaker_slice){ .number = number };
	}
	struct breaker_slice *slice = breaker->slice;
	slice->calls++;
	slice->failures += end->says == BREAKER_FAILURE;
	if (end->says == BREAKER_SUCCESS) {
		breaker->in_row = 0;
		return false;
	}
	breaker->in_row++;
	bool row = policy->failures > 0 && breaker->in_row >= policy->failures;
	if (!row && !window_failed(breaker, end->now_ms))
		return false;
	open_up(breaker, end);
	return true;
}

bool breaker_end(struct breaker *breaker, const struct breaker_end *end)
{
	check_breaker(breaker);
	if (end->turn != breaker->turn)
		return false;
	if (breaker->state == BREAKER_HALF_OPEN) {
		CHECK(breaker->probing > 0);
		breaker->probing--;
		if (end->says == BREAKER_NOTHING)
			return false;
		if (end->says == BREAKER_FAILURE) {
			open_up(breaker, end);
			return true;
		}
		if (++breaker->successes < breaker->policy->successes)
			return false;
		enter(breaker, BREAKER_CLOSED);
		breaker->closed_at_ms = end->now_ms;
		return true;
	}
	CHECK(breaker->state == BREAKER_CLOSED); /* nothing begins in the turn of an open one */
	return end->says != BREAKER_NOTHING && end_closed(breaker, end);
}

void breaker_try_now(struct breaker *breaker)
{
	if (breaker->state == BREAKER_OPEN)
		enter(breaker, BREAKER_HALF_OPEN);
}

const char *breaker_state_name(enum breaker_state state)
{
	static const char *const names[] = { "closed", "open", "half-open" };
	CHECK((size_t)state < ARRAY_LEN(names));
	return names[state];
}
