/* The limiter: never faster than the rate, never more than the sink can do. */
#include "deliver/limiter.h"

#include "base/check.h"
#include "support/test.h"

static const struct limiter_policy adaptive = { .most = 64, .ramp_ms = 500, .slack_us = 10000 };

static void one(struct limiter *limiter, enum limiter_says says, uint32_t latency_us,
                uint64_t now_ms)
{
	limiter_begin(limiter, now_ms);
	struct limiter_end end = { says, latency_us, now_ms };
	limiter_end(limiter, &end);
}

/* As many as may, all of them end well: a round. */
static void round_of(struct limiter *limiter, enum limiter_says says, uint32_t latency_us,
                     uint64_t now_ms)
{
	uint32_t room = limiter_room(limiter, now_ms);
	for (uint32_t i = 0; i < room; i++)
		limiter_begin(limiter, now_ms);
	for (uint32_t i = 0; i < room; i++) {
		struct limiter_end end = { says, latency_us, now_ms + latency_us / 1000 };
		limiter_end(limiter, &end);
	}
}

/* In any stretch of time: at most burst + rate · time. */
static void no_stretch_of_time_gets_more_than_burst_and_rate(void **state)
{
	(void)state;
	static const struct limiter_policy policies[] = {
		{ .rate = 50, .per_ms = 1000, .burst = 10, .most = 1000, .fixed = true },
		{ .rate = 1, .per_ms = 60000, .burst = 1, .most = 1000, .fixed = true },
		{ .rate = 7, .per_ms = 3, .burst = 100, .most = 1000, .fixed = true },
		{ .rate = 12000, .per_ms = 1000, .burst = 1, .most = 1000, .fixed = true },
	};
	uint64_t seed = test_seed();
	for (size_t p = 0; p < ARRAY_LEN(policies); p++) {
		const struct limiter_policy *policy = &policies[p];
		struct limiter limiter;
		limiter_init(&limiter, policy);
		uint64_t now_ms = 1000000;
		uint64_t begin_ms[512];
		uint64_t started = 0;
		for (uint32_t i = 0; i < 2000; i++) {
			now_ms += test_random_below(&seed, i % 100 == 0 ? 100000 : 30);
			uint32_t room = limiter_room(&limiter, now_ms);
			for (uint32_t n = 0; n < room && n < 64; n++) {
				one(&limiter, LIMITER_NOTHING, 0, now_ms);
				begin_ms[started++ % ARRAY_LEN(begin_ms)] = now_ms;
				for (uint64_t k = 1; k < started && k < ARRAY_LEN(begin_ms); k++) {
					uint64_t from =
						begin_ms[(started - k) % ARRAY_LEN(begin_ms)];
					uint64_t may = policy->burst +
					               (now_ms - from) * policy->rate /
					                       policy->per_ms +
					               1;
					assert_true(k <= may);
				}
			}
		}
		assert_true(started > 5);
	}
}

static void a_patient_caller_gets_the_whole_rate(void **state)
{
	(void)state;
	static const struct limiter_policy policy = {
		.rate = 50, .per_ms = 1000, .burst = 5, .most = 10, .fixed = true
	};
	struct limiter limiter;
	limiter_init(&limiter, &policy);
	uint64_t now_ms = 5000;
	uint32_t started = 0;
	for (; now_ms < 15000; now_ms = limiter_next_ms(&limiter, now_ms)) {
		assert_true(limiter_room(&limiter, now_ms) > 0);
		one(&limiter, LIMITER_NOTHING, 0, now_ms);
		started++;
	}
	assert_in_range(started, 500, 505);
}

static void the_limit_grows_while_used_and_stays_in_bounds(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	assert_int_equal(limiter_limit(&limiter, 0), 16);
	for (uint32_t i = 0; i < 100; i++)
		one(&limiter, LIMITER_FINE, 1000, i); /* one at a time: no need for more */
	assert_int_equal(limiter_limit(&limiter, 100), 16);
	for (uint32_t i = 0; i < 100; i++)
		round_of(&limiter, LIMITER_FINE, 1000, 200 + i);
	assert_int_equal(limiter_limit(&limiter, 1000), 64);
}

static void too_much_halves_it_once_a_round(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	for (uint32_t i = 0; i < 100; i++)
		round_of(&limiter, LIMITER_FINE, 1000, 1000 + i);
	round_of(&limiter, LIMITER_OVERLOADED, 5000, 2000); /* 64 of them */
	assert_int_equal(limiter_limit(&limiter, 3000), 32);
	round_of(&limiter, LIMITER_OVERLOADED, 5000, 3000);
	assert_int_equal(limiter_limit(&limiter, 4000), 16);
	for (uint64_t now_ms = 4000; now_ms < 20000; now_ms += 1000)
		round_of(&limiter, LIMITER_OVERLOADED, 5000, now_ms);
	assert_int_equal(limiter_limit(&limiter, 20000), 1);
	assert_int_equal(limiter_room(&limiter, 20000), 1);
}

static void after_a_cut_it_grows_by_one_a_round(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	for (uint32_t i = 0; i < 100; i++)
		round_of(&limiter, LIMITER_FINE, 1000, 1000 + i);
	round_of(&limiter, LIMITER_OVERLOADED, 5000, 2000);
	uint32_t limit = limiter_limit(&limiter, 2100);
	for (uint32_t i = 0; i < 10; i++)
		round_of(&limiter, LIMITER_FINE, 1000, 2100 + i * 10);
	assert_in_range(limiter_limit(&limiter, 2200), limit + 9, limit + 11);
}

/* A sink that serves one at a time in 20 ms: more at once only makes them wait. */
static void latency_that_grows_with_the_limit_keeps_it_low(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	uint64_t now_ms = 1000;
	for (uint32_t i = 0; i < 20; i++, now_ms += 100)
		one(&limiter, LIMITER_FINE, 20000, now_ms);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t room = limiter_room(&limiter, now_ms);
		round_of(&limiter, LIMITER_FINE, 20000 * room, now_ms);
		now_ms += 20 * room + 1;
	}
	assert_in_range(limiter_limit(&limiter, now_ms), 1, 8);
}

static void a_sink_that_became_slower_for_good_is_not_starved(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	uint64_t now_ms = 1000;
	for (uint32_t i = 0; i < 100; i++, now_ms += 10)
		round_of(&limiter, LIMITER_FINE, 1000, now_ms);
	for (uint32_t i = 0; i < 200; i++, now_ms += 100)
		one(&limiter, LIMITER_FINE, 50000, now_ms);
	for (uint32_t i = 0; i < 100; i++, now_ms += 100)
		round_of(&limiter, LIMITER_FINE, 50000, now_ms);
	assert_in_range(limiter_limit(&limiter, now_ms), 32, 64);
}

static void recovery_starts_with_one_and_doubles_in_time(void **state)
{
	(void)state;
	static const struct limiter_policy fixed = { .most = 64, .ramp_ms = 500, .fixed = true };
	const struct limiter_policy *policies[] = { &adaptive, &fixed };
	for (size_t p = 0; p < 2; p++) {
		struct limiter limiter;
		limiter_init(&limiter, policies[p]);
		for (uint32_t i = 0; i < 100; i++)
			round_of(&limiter, LIMITER_FINE, 1000, 1000 + i);
		limiter_restart(&limiter, 10000);
		for (uint64_t now_ms = 10000; now_ms < 12500; now_ms++) {
			uint32_t most = UINT32_C(1) << ((now_ms - 10000) / 500);
			assert_in_range(limiter_room(&limiter, now_ms), 1, most);
			round_of(&limiter, LIMITER_FINE, 1000, now_ms);
		}
		for (uint64_t now_ms = 12500; now_ms < 20000; now_ms += 10)
			round_of(&limiter, LIMITER_FINE, 1000, now_ms);
		assert_int_equal(limiter_limit(&limiter, 20000), 64);
	}
}

/* Nobody ends anything, so only time can make room: the limiter must say when. */
static void it_tells_when_time_makes_room(void **state)
{
	(void)state;
	static const struct limiter_policy fixed = { .most = 64, .ramp_ms = 500, .fixed = true };
	struct limiter limiter;
	limiter_init(&limiter, &fixed);
	limiter_restart(&limiter, 10000);
	limiter_begin(&limiter, 10100);
	assert_int_equal(limiter_room(&limiter, 10100), 0);
	assert_int_equal(limiter_next_ms(&limiter, 10100), 10500);
	assert_int_equal(limiter_room(&limiter, 10500), 1);
	limiter_init(&limiter, &fixed);
	for (uint32_t i = 0; i < 64; i++)
		limiter_begin(&limiter, 1);
	assert_true(limiter_next_ms(&limiter, 1) == UINT64_MAX);
}

static void a_pause_holds_all_and_is_not_shortened(void **state)
{
	(void)state;
	struct limiter limiter;
	limiter_init(&limiter, &adaptive);
	limiter_pause(&limiter, 5000);
	limiter_pause(&limiter, 3000);
	assert_int_equal(limiter_room(&limiter, 4999), 0);
	assert_int_equal(limiter_next_ms(&limiter, 4000), 5000);
	assert_int_equal(limiter_room(&limiter, 5000), 16);
	limiter_pause(&limiter, 9000);
	limiter_unpause(&limiter);
	assert_int_equal(limiter_room(&limiter, 5000), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_stretch_of_time_gets_more_than_burst_and_rate),
		cmocka_unit_test(a_patient_caller_gets_the_whole_rate),
		cmocka_unit_test(the_limit_grows_while_used_and_stays_in_bounds),
		cmocka_unit_test(too_much_halves_it_once_a_round),
		cmocka_unit_test(after_a_cut_it_grows_by_one_a_round),
		cmocka_unit_test(latency_that_grows_with_the_limit_keeps_it_low),
		cmocka_unit_test(a_sink_that_became_slower_for_good_is_not_starved),
		cmocka_unit_test(recovery_starts_with_one_and_doubles_in_time),
		cmocka_unit_test(it_tells_when_time_makes_room),
		cmocka_unit_test(a_pause_holds_all_and_is_not_shortened),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
