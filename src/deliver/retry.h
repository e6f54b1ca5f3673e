/*
 * retry: when a failed attempt is made again, and when no more.
 *
 * Exponential with full jitter: after the n-th attempt the wait is drawn evenly
 * from 0 … min(max, first · 2^(n-1)). So those that failed together do not come
 * back together.
 *
 * An event is given up when an attempt of it fails and it has had `attempts`, or
 * is older than `for_ms`, counted from its arrival: that is known after a restart
 * too. But however old it is (a sink may have been away for days, or paused), an
 * event gets `least` attempts before its age counts, so that the first 503 of a
 * sink that comes back does not end what has waited for it.
 *
 * Room:    deliver. Threads: pure. Failure: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct retry_policy {
	uint64_t first_ms;
	uint64_t max_ms;
	uint64_t for_ms;   /* 0: for ever */
	uint32_t attempts; /* at most; 0: no limit */
	uint32_t least;    /* before the age counts */
};

struct retry_case {
	uint32_t attempt; /* the number of the one that failed, from 1 */
	uint64_t age_ms;  /* of the event */
	uint64_t random;  /* any 64 bits */
};

/* The longest wait after that attempt: the end of the range that is drawn from. */
uint64_t retry_ceiling_ms(const struct retry_policy *policy, uint32_t attempt);

/* Has it had its attempts, or its time? */
bool retry_is_over(const struct retry_policy *policy, const struct retry_case *failed);

/* False: it is given up. */
bool retry_delay(const struct retry_policy *policy, const struct retry_case *failed,
                 uint64_t *ret_delay_ms);
