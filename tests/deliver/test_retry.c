/* Retries: the schedule is what the policy says, and its randomness is even. */
#include "deliver/retry.h"

#include "base/check.h"
#include "support/test.h"

static const struct retry_policy policy = {
	.first_ms = 1000, .max_ms = 600000, .for_ms = 86400000, .attempts = 40, .least = 5
};

static void the_ceiling_doubles_up_to_the_maximum(void **state)
{
	(void)state;
	static const uint64_t expected[] = { 1000,  2000,   4000,   8000,   16000, 32000,
		                             64000, 128000, 256000, 512000, 600000 };
	for (uint32_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_int_equal(retry_ceiling_ms(&policy, i + 1), expected[i]);
	assert_int_equal(retry_ceiling_ms(&policy, UINT32_MAX), 600000);
}

static void no_ceiling_overflows(void **state)
{
	(void)state;
	struct retry_policy wide = { .first_ms = UINT64_MAX / 3, .max_ms = UINT64_MAX };
	assert_true(retry_ceiling_ms(&wide, 2) == UINT64_MAX / 3 * 2);
	assert_true(retry_ceiling_ms(&wide, 3) == UINT64_MAX);
	struct retry_policy none = { 0 };
	assert_int_equal(retry_ceiling_ms(&none, 1000), 0);
	struct retry_policy above = { .first_ms = 10, .max_ms = 3 };
	assert_int_equal(retry_ceiling_ms(&above, 1), 3);
}

/* Each tenth of the range gets its share: full jitter, from nothing to the ceiling. */
static void delays_are_even_over_the_whole_range(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	uint32_t tenths[10] = { 0 };
	uint32_t draws = 20000;
	for (uint32_t i = 0; i < draws; i++) {
		uint64_t delay_ms = 0;
		struct retry_case failed = { .attempt = 5, .random = test_random(&seed) };
		assert_true(retry_delay(&policy, &failed, &delay_ms));
		assert_true(delay_ms <= 16000);
		tenths[delay_ms * 10 / 16001]++;
	}
	for (uint32_t i = 0; i < 10; i++)
		assert_in_range(tenths[i], draws / 10 * 85 / 100, draws / 10 * 115 / 100);
	uint64_t least = 1;
	uint64_t most = 0;
	assert_true(retry_delay(&policy, &(struct retry_case){ 5, 0, 0 }, &least));
	assert_true(retry_delay(&policy, &(struct retry_case){ 5, 0, 16000 }, &most));
	assert_int_equal(least, 0);
	assert_int_equal(most, 16000);
}

static void events_are_given_up_by_age_and_by_count(void **state)
{
	(void)state;
	static const struct {
		uint32_t attempt;
		uint64_t age_ms;
		bool again;
	} cases[] = {
		{ 1, 0, true },
		{ 39, 86399999, true },
		{ 40, 0, false },
		{ 41, 0, false },
		{ 5, 86400000, false },
		{ 4, 86400000 * 9, true }, /* old, but it had not its chance */
		{ 5, 86399999, true },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t delay_ms = 0;
		struct retry_case failed = { cases[i].attempt, cases[i].age_ms, 0 };
		assert_int_equal(retry_delay(&policy, &failed, &delay_ms), cases[i].again);
	}
	struct retry_policy endless = { .first_ms = 1, .max_ms = 1 };
	uint64_t delay_ms = 0;
	assert_true(
		retry_delay(&endless, &(struct retry_case){ 1000000, UINT64_MAX, 0 }, &delay_ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ceiling_doubles_up_to_the_maximum),
		cmocka_unit_test(no_ceiling_overflows),
		cmocka_unit_test(delays_are_even_over_the_whole_range),
		cmocka_unit_test(events_are_given_up_by_age_and_by_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
