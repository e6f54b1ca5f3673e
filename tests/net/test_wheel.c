/* Deadlines: never early, at most a tick late, whatever is moved. */
#include "net/wheel.h"

#include <string.h>

#include "base/check.h"
#include "support/test.h"

#define ENTRIES 300

struct thing {
	struct wheel_entry entry;
	uint64_t expired_ms;
};

static struct wheel wheel;
static uint64_t now_ms;
static int expired_count;

static void note(struct wheel_entry *entry)
{
	struct thing *thing = container_of(entry, struct thing, entry);
	thing->expired_ms = now_ms;
	expired_count++;
}

static void advance(uint64_t to_ms)
{
	now_ms = to_ms;
	wheel_run(&wheel, now_ms, note);
}

static void an_entry_expires_once_after_its_deadline(void **state)
{
	(void)state;
	struct thing thing = { 0 };
	wheel_init(&wheel, 10, 1000);
	wheel_set(&wheel, &thing.entry, 1055);
	advance(1055);
	assert_int_equal(thing.expired_ms, 0);
	advance(1065);
	assert_int_equal(thing.expired_ms, 1065);
	expired_count = 0;
	advance(100000);
	assert_int_equal(expired_count, 0);
}

static void a_deadline_that_moves_away_costs_nothing_and_holds(void **state)
{
	(void)state;
	struct thing thing = { 0 };
	wheel_init(&wheel, 10, 0);
	for (uint64_t t = 0; t < 5000; t += 7) {
		wheel_set(&wheel, &thing.entry, t + 100);
		advance(t);
		assert_int_equal(thing.expired_ms, 0);
	}
	wheel_set(&wheel, &thing.entry, WHEEL_NEVER);
	advance(50000);
	assert_int_equal(thing.expired_ms, 0);
	wheel_set(&wheel, &thing.entry, 50010);
	advance(50030);
	assert_int_equal(thing.expired_ms, 50030);
}

static void beyond_the_horizon_and_after_a_suspend_it_still_holds(void **state)
{
	(void)state;
	struct thing far = { 0 }, near = { 0 };
	wheel_init(&wheel, 1, 0);
	wheel_set(&wheel, &far.entry, 5000);
	wheel_set(&wheel, &near.entry, 3);
	for (uint64_t t = 1; t <= 5000; t++)
		advance(t);
	assert_int_equal(near.expired_ms, 4);
	assert_int_equal(far.expired_ms, 0);
	advance(1000000);
	assert_int_equal(far.expired_ms, 1000000);
}

/* Against the obvious: every deadline that passed, and none that did not. */
static void random_histories_agree_with_a_plain_list(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), random = seed;
	static struct thing things[ENTRIES];
	memset(things, 0, sizeof(things));
	wheel_init(&wheel, 5, 0);
	now_ms = 0;
	for (uint64_t n = test_scale(20000); n > 0; n--) {
		struct thing *thing = &things[test_random_below(&random, ENTRIES)];
		thing->expired_ms = 0;
		if (test_random_below(&random, 5) == 0) {
			wheel_remove(&thing->entry);
			thing->entry.deadline_ms = WHEEL_NEVER;
		} else {
			wheel_set(&wheel, &thing->entry, now_ms + test_random_below(&random, 6000));
		}
		advance(now_ms + test_random_below(&random, 40));
		for (size_t i = 0; i < ENTRIES; i++) {
			struct thing *it = &things[i];
			bool due = it->entry.deadline_ms && now_ms >= 10 &&
			           it->entry.deadline_ms <= now_ms - 10;
			if ((due && !it->expired_ms) ||
			    (it->expired_ms && it->entry.deadline_ms > it->expired_ms))
				fail_msg("an entry was early or late; %s", test_note_seed(seed));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_expires_once_after_its_deadline),
		cmocka_unit_test(a_deadline_that_moves_away_costs_nothing_and_holds),
		cmocka_unit_test(beyond_the_horizon_and_after_a_suspend_it_still_holds),
		cmocka_unit_test(random_histories_agree_with_a_plain_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
