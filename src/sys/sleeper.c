/* sleeper: see sleeper.h. */
#include "sys/sleeper.h"

#include <assert.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "sys/clock.h"

enum { AWAKE, ASLEEP, WOKEN };

static_assert(sizeof(atomic_int) == 4, "a futex is a word of 32 bits");

void sleeper_init(struct sleeper *sleeper)
{
	atomic_init(&sleeper->state, AWAKE);
}

void sleeper_destroy(struct sleeper *sleeper)
{
	CHECK(atomic_load(&sleeper->state) != ASLEEP);
}

/* Negative: no end. A step of the wall clock does not change how long it is. */
static void wait_asleep(struct sleeper *sleeper, int64_t left_ns)
{
	struct timespec left = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };

	syscall(SYS_futex, &sleeper->state, FUTEX_WAIT_PRIVATE, ASLEEP, left_ns < 0 ? NULL : &left,
	        NULL, 0);
}

static void wait_until_woken(struct sleeper *sleeper, int timeout_ms)
{
	uint64_t end_ns = clock_monotonic_ns() +
	                  (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;

	while (atomic_load(&sleeper->state) == ASLEEP) {
		int64_t left_ns = -1;
		if (timeout_ms >= 0)
			left_ns = (int64_t)(end_ns - clock_monotonic_ns());
		if (timeout_ms >= 0 && left_ns <= 0)
			return;
		wait_asleep(sleeper, left_ns);
	}
}

bool sleeper_sleep(struct sleeper *sleeper, int timeout_ms)
{
	int state = AWAKE;

	if (timeout_ms != 0 && atomic_compare_exchange_strong(&sleeper->state, &state, ASLEEP))
		wait_until_woken(sleeper, timeout_ms);
	return atomic_exchange(&sleeper->state, AWAKE) == WOKEN;
}

/* The sleeper may be gone when the system call is made: waking at an address
 * where nobody sleeps does nothing. */
void sleeper_wake(struct sleeper *sleeper)
{
	if (atomic_exchange(&sleeper->state, WOKEN) == ASLEEP)
		syscall(SYS_futex, &sleeper->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
