/* retry: see retry.h. */
#include "deliver/retry.h"

#include "base/check.h"

uint64_t retry_ceiling_ms(const struct retry_policy *policy, uint32_t attempt)
{
	CHECK(attempt > 0);
	uint64_t ceiling = policy->first_ms;
	for (uint32_t i = 1; i < attempt && ceiling > 0 && ceiling < policy->max_ms; i++)
		ceiling = ceiling > policy->max_ms / 2 ? policy->max_ms : ceiling * 2;
	return ceiling < policy->max_ms ? ceiling : policy->max_ms;
}

bool retry_is_over(const struct retry_policy *policy, const struct retry_case *failed)
{
	CHECK(failed->attempt > 0);
	if (policy->attempts > 0 && failed->attempt >= policy->attempts)
		return true;
	return policy->for_ms > 0 && failed->age_ms >= policy->for_ms &&
	       failed->attempt >= policy->least;
}

bool retry_delay(const struct retry_policy *policy, const struct retry_case *failed,
                 uint64_t *ret_delay_ms)
{
	if (retry_is_over(policy, failed))
		return false;
	uint64_t ceiling = retry_ceiling_ms(policy, failed->attempt);
	/* The bias of a remainder is below 2^-30 for any delay that makes sense. */
	*ret_delay_ms = ceiling == UINT64_MAX ? failed->random : failed->random % (ceiling + 1);
	return true;
}
