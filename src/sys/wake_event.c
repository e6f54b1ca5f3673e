/* wake_event: see wake_event.h. */
#include "sys/wake_event.h"

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

void wake_event_init(struct wake_event *event)
{
	atomic_init(&event->state, AWAKE);
}

void wake_event_destroy(struct wake_event *event)
{
	CHECK(atomic_load(&event->state) != ASLEEP);
}

bool wake_event_wait(struct wake_event *event, int timeout_ms)
{
	int state = AWAKE;

	if (timeout_ms != 0)
		atomic_compare_exchange_strong(&event->state, &state, ASLEEP);
	/* A step of the wall clock does not change how long it waits. */
	uint64_t end_ns = timeout_ms > 0 ? clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000
	                                 : 0;
	while (timeout_ms != 0 && atomic_load(&event->state) == ASLEEP) {
		int64_t left_ns = timeout_ms > 0 ? (int64_t)(end_ns - clock_monotonic_ns()) : 1;
		if (left_ns <= 0)
			break;
		struct timespec left = { .tv_sec = left_ns / 1000000000,
			                 .tv_nsec = left_ns % 1000000000 };
		syscall(SYS_futex, &event->state, FUTEX_WAIT_PRIVATE, ASLEEP,
		        timeout_ms < 0 ? NULL : &left, NULL, 0);
	}
	return atomic_exchange(&event->state, AWAKE) == WOKEN;
}

/* The event may be gone when the system call is made: waking at an address
 * where nobody waits does nothing. */
void wake_event_set(struct wake_event *event)
{
	if (atomic_exchange(&event->state, WOKEN) == ASLEEP)
		syscall(SYS_futex, &event->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
