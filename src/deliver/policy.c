/* policy: see policy.h. */
#include "deliver/policy.h"

#define SECOND_MS UINT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

struct deliver_policy deliver_policy_default(void)
{
	return (struct deliver_policy){
		.retry = { .first_ms = SECOND_MS,
		           .max_ms = 10 * MINUTE_MS,
		           .for_ms = 3 * DAY_MS,
		           .least = 5 },
		.breaker = { .failures = 10,
		             .per_cent = 50,
		             .calls = 20,
		             .window_ms = 10 * SECOND_MS,
		             .first_ms = SECOND_MS,
		             .max_ms = MINUTE_MS,
		             .probes = 1,
		             .successes = 3 },
		.limiter = { .most = 64, .ramp_ms = 500, .slack_us = 10000 },
		.retry_after_max_ms = HOUR_MS,
	};
}

struct deliver_policy deliver_policy_stdout(void)
{
	struct deliver_policy policy = deliver_policy_default();
	policy.retry = (struct retry_policy){ .first_ms = 100, .max_ms = 5 * SECOND_MS };
	policy.breaker.failures = 1;
	policy.breaker.per_cent = 0;
	policy.breaker.first_ms = 100;
	policy.breaker.max_ms = 5 * SECOND_MS;
	policy.breaker.successes = 1;
	policy.limiter = (struct limiter_policy){ .most = 1u << 20, .fixed = true };
	return policy;
}
