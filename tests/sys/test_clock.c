/* clock: the system's. */
#include "support/test.h"

#include <string.h>
#include <time.h>

#include "sys/clock.h"

static void readings_are_the_systems_clocks(void **state)
{
	(void)state;
	const struct clock *clock = clock_system();
	struct timespec before, after;
	clock_gettime(CLOCK_REALTIME, &before);
	struct clock_reading reading = clock_read(clock);
	clock_gettime(CLOCK_REALTIME, &after);
	/* A step of the wall clock between the three would be bad luck. */
	assert_true(reading.wall_ms / 1000 + 1 >= (uint64_t)before.tv_sec);
	assert_true(reading.wall_ms / 1000 <= (uint64_t)after.tv_sec + 1);
	assert_true(clock_read(clock).boot_ms >= reading.boot_ms);
	assert_true(reading.boot_ms > 0);
}

static void boot_id_is_there_and_stays(void **state)
{
	(void)state;
	static const unsigned char zero[CLOCK_BOOT_ID_LEN];
	assert_memory_not_equal(clock_system()->boot_id, zero, sizeof(zero));
	assert_ptr_equal(clock_system(), clock_system());
}

static void monotonic_never_goes_back(void **state)
{
	(void)state;
	uint64_t last = 0;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t now = clock_monotonic_ns();
		assert_true(now >= last);
		last = now;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readings_are_the_systems_clocks),
		cmocka_unit_test(boot_id_is_there_and_stays),
		cmocka_unit_test(monotonic_never_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
