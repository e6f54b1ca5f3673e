/* The breaker: opens on what it should, asks again in time, and not too often. */
#include "base/breaker.h"

#include "base/check.h"
#include "support/test.h"

static const struct breaker_policy policy = {
	.failures = 5,
	.per_cent = 50,
	.calls = 20,
	.window_ms = 10000,
	.first_ms = 1000,
	.max_ms = 8000,
	.probes = 2,
	.successes = 3,
};

static bool ends(struct breaker *breaker, uint32_t turn, enum breaker_says says, uint64_t now_ms)
{
	struct breaker_end end = { .turn = turn, .says = says, .now_ms = now_ms };
	return breaker_end(breaker, &end);
}

static bool attempt(struct breaker *breaker, enum breaker_says says, uint64_t now_ms)
{
	assert_true(breaker_room(breaker, now_ms) > 0);
	return ends(breaker, breaker_begin(breaker), says, now_ms);
}

static void fail_until_open(struct breaker *breaker, uint64_t now_ms)
{
	while (breaker->state != BREAKER_OPEN)
		attempt(breaker, BREAKER_FAILURE, now_ms);
}

static void it_opens_after_failures_in_a_row_and_not_before(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_false(attempt(&breaker, BREAKER_FAILURE, 100));
	assert_false(attempt(&breaker, BREAKER_SUCCESS, 100));
	for (uint32_t i = 0; i < 4; i++)
		assert_false(attempt(&breaker, BREAKER_FAILURE, 100));
	assert_false(attempt(&breaker, BREAKER_NOTHING, 100)); /* says nothing either way */
	assert_true(attempt(&breaker, BREAKER_FAILURE, 100));
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_int_equal(breaker_room(&breaker, 100), 0);
}

/* Every second fails: never five in a row. */
static void it_opens_by_the_share_of_failures_in_the_window(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	uint32_t calls = 0;
	while (breaker.state == BREAKER_CLOSED && calls < 100) {
		attempt(&breaker, calls % 2 ? BREAKER_FAILURE : BREAKER_SUCCESS, 5000 + calls * 10);
		calls++;
	}
	assert_int_equal(calls, 20); /* as many as it takes to judge */

	breaker_init(&breaker, &policy, 0);
	for (uint64_t i = 0; i < 1000; i++) { /* the same, but old ones are forgotten */
		attempt(&breaker, i % 2 ? BREAKER_FAILURE : BREAKER_SUCCESS, i * 1000);
		assert_int_equal(breaker.state, BREAKER_CLOSED);
	}
}

static void half_open_lets_few_through_and_closes_after_successes(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	fail_until_open(&breaker, 100);
	assert_int_equal(breaker_room(&breaker, 1099), 0);
	assert_int_equal(breaker_room(&breaker, 1100), 2);
	uint32_t first = breaker_begin(&breaker);
	uint32_t second = breaker_begin(&breaker);
	assert_int_equal(breaker_room(&breaker, 1100), 0);
	assert_false(ends(&breaker, first, BREAKER_SUCCESS, 1110));
	assert_false(ends(&breaker, second, BREAKER_SUCCESS, 1110));
	assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
	assert_true(attempt(&breaker, BREAKER_SUCCESS, 1120));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	assert_true(breaker_room(&breaker, 1120) == BREAKER_NO_LIMIT);
}

static void a_failed_probe_opens_it_for_longer_each_time(void **state)
{
	(void)state;
	static const uint64_t waits[] = { 1000, 2000, 4000, 8000, 8000 };
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	uint64_t now_ms = 500;
	fail_until_open(&breaker, now_ms);
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		assert_int_equal(breaker_room(&breaker, now_ms + waits[i] - 1), 0);
		now_ms += waits[i];
		assert_true(attempt(&breaker, BREAKER_FAILURE, now_ms));
	}
}

static void a_flapping_sink_is_asked_less_and_a_healed_one_is_forgiven(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	fail_until_open(&breaker, 0);
	for (uint32_t i = 0; i < 3; i++)
		attempt(&breaker, BREAKER_SUCCESS, 1000);
	fail_until_open(&breaker, 1500); /* closed for less than it was open */
	assert_int_equal(breaker.until_ms, 1500 + 2000);
	for (uint32_t i = 0; i < 3; i++)
		attempt(&breaker, BREAKER_SUCCESS, 3500);
	fail_until_open(&breaker, 5500); /* closed for as long */
	assert_int_equal(breaker.until_ms, 5500 + 1000);
}

static void chance_only_shortens_and_by_a_fifth_at_most(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	for (uint32_t i = 0; i < 1000; i++) {
		struct breaker breaker;
		breaker_init(&breaker, &policy, 0);
		for (uint32_t n = 0; n < 5; n++) {
			struct breaker_end end = { breaker_begin(&breaker), BREAKER_FAILURE, 100,
				                   test_random(&seed) };
			breaker_end(&breaker, &end);
		}
		assert_in_range(breaker.until_ms, 100 + 800, 100 + 1000);
	}
}

/* A time-out of 30 s that ends when the sink works again must not open it. */
static void ends_of_an_earlier_turn_do_not_count(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	uint32_t old = breaker_begin(&breaker);
	fail_until_open(&breaker, 0);
	assert_false(ends(&breaker, old, BREAKER_SUCCESS, 10));
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_int_equal(breaker_room(&breaker, 1000), 2);
	assert_false(ends(&breaker, old, BREAKER_FAILURE, 1001));
	assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
	assert_int_equal(breaker_room(&breaker, 1001), 2);
}

static void a_person_can_have_it_tried_now(void **state)
{
	(void)state;
	struct breaker breaker;
	breaker_init(&breaker, &policy, 0);
	fail_until_open(&breaker, 0);
	breaker_try_now(&breaker);
	assert_int_equal(breaker_room(&breaker, 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_opens_after_failures_in_a_row_and_not_before),
		cmocka_unit_test(it_opens_by_the_share_of_failures_in_the_window),
		cmocka_unit_test(half_open_lets_few_through_and_closes_after_successes),
		cmocka_unit_test(a_failed_probe_opens_it_for_longer_each_time),
		cmocka_unit_test(a_flapping_sink_is_asked_less_and_a_healed_one_is_forgiven),
		cmocka_unit_test(chance_only_shortens_and_by_a_fifth_at_most),
		cmocka_unit_test(ends_of_an_earlier_turn_do_not_count),
		cmocka_unit_test(a_person_can_have_it_tried_now),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
