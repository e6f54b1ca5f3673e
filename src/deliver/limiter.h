/*
 * limiter: how many attempts a sink gets at once, and how fast.
 *
 * Rate:        a token bucket. `burst` may go at once, then `rate` in each per_ms.
 *
 * Concurrency: a limit that looks for what the sink can do (additive increase,
 *              multiplicative decrease). While it is made use of, it grows by one
 *              for each round of successes; a sink that says that it has too much
 *              (429, 503) or does not answer halves it; latency that is more than
 *              twice the sink's own (the least that was seen, or what one at a time
 *              takes) and slack_us above it takes a tenth off. A cut counts once a round: what began before the last one
 *              does not cut again. `fixed`: always `most`, but for recovery.
 *
 * Recovery:    after an outage (limiter_restart()) the limit is 1 and doubles at
 *              most once in ramp_ms, up to half of what it was, then by one a
 *              round: a sink that comes back is not run over by what has waited
 *              for it.
 *
 * Pause:       the sink asked for one (Retry-After), or a person did.
 *
 * Room:    deliver. Threads: one owner; `now_ms` is a parameter and never goes
 *          back. Failure: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LIMITER_NO_LIMIT UINT32_MAX

struct limiter_policy {
	uint32_t rate;   /* in each per_ms; 0: no limit */
	uint32_t per_ms; /* at least 1 */
	uint32_t burst;  /* at least 1 */
	uint32_t most;   /* at once, at least 1 */
	uint32_t ramp_ms;
	uint32_t slack_us;
	bool fixed;
};

struct limiter {
	const struct limiter_policy *policy;
	uint32_t in_flight;
	uint32_t limit_milli; /* thousandths; at least 1,000 */
	uint32_t calm_milli;  /* below it the limit grows fast */
	uint32_t growing;     /* number of good ends that may still raise the limit */
	uint64_t ramp_from_ms;
	bool ramping;
	uint64_t cut_at_ms;
	uint64_t paused_until_ms;
	uint64_t filled_at_ns; /* when the bucket will be full again */
	uint32_t latency_us;   /* smoothed; 0: not known */
	uint32_t base_us;      /* the sink's own, as far as we know */
};

enum limiter_says {
	LIMITER_FINE,
	LIMITER_OVERLOADED, /* by the sink's own word, or it did not answer */
	LIMITER_NOTHING,
};

struct limiter_end {
	enum limiter_says says;
	uint32_t latency_us;
	uint64_t now_ms;
};

void limiter_init(struct limiter *limiter, const struct limiter_policy *policy);

/* How many may begin now. */
uint32_t limiter_room(const struct limiter *limiter, uint64_t now_ms);

/* Does a pause or the rate keep them from beginning, and not those under way? */
bool limiter_is_held(const struct limiter *limiter, uint64_t now_ms);

/* When there may be room again, if nothing ends before; UINT64_MAX if only an end
 * makes room. Not in the past. */
uint64_t limiter_next_ms(const struct limiter *limiter, uint64_t now_ms);

void limiter_begin(struct limiter *limiter, uint64_t now_ms); /* there is room */
void limiter_end(struct limiter *limiter, const struct limiter_end *end);

/* Nothing begins before; never shortens a pause. */
void limiter_pause(struct limiter *limiter, uint64_t until_ms);
void limiter_unpause(struct limiter *limiter);

/* The sink was away: from 1 again. */
void limiter_restart(struct limiter *limiter, uint64_t now_ms);

uint32_t limiter_limit(const struct limiter *limiter, uint64_t now_ms);
