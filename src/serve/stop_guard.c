/* stop_guard: see stop_guard.h. */
#include "serve/stop_guard.h"

#include <unistd.h>

#include "base/exit_code.h"
#include "base/log.h"
#include "sys/clock.h"

static void watch(void *user)
{
	struct stop_guard *guard = user;
	uint64_t limit_ns = (uint64_t)guard->limit_ms * 1000000;
	uint64_t began_ns = clock_monotonic_ns();
	/* A sleep may end early, but only the clock says that time is up. */
	for (uint64_t spent_ns = 0; spent_ns < limit_ns; spent_ns = clock_monotonic_ns() - began_ns)
		if (wake_event_wait(&guard->wake, (int)((limit_ns - spent_ns) / 1000000) + 1))
			return;
	log_error("the stop takes too long (does the disk hang?); ended as by a crash",
	          log_u64("limit_ms", (uint64_t)guard->limit_ms));
	_exit(EXIT_CODE_FAILED);
}

int stop_guard_begin(struct stop_guard *guard, int limit_ms)
{
	wake_event_init(&guard->wake);
	guard->limit_ms = limit_ms;
	int error = thread_start(&guard->thread, &(struct thread_options){
							 .name = "stile-stop",
							 .cpu = THREAD_ANY_CPU,
							 .run = watch,
							 .user = guard,
						 });
	if (error != 0)
		wake_event_destroy(&guard->wake);
	return error;
}

void stop_guard_end(struct stop_guard *guard)
{
	if (!guard->thread.running)
		return;
	wake_event_set(&guard->wake);
	thread_join(&guard->thread);
	wake_event_destroy(&guard->wake);
}
