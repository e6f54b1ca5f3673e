/*
 * sleeper: a place where one thread sleeps until another wakes it.
 *
 * A wake is remembered: if nobody sleeps yet, the next sleep returns at once.
 * Waking a thread that is awake costs one atomic exchange. There is no lock that
 * a thread just woken would have to wait for while its waker still holds it.
 *
 * Room:    sys. Threads: one sleeps, any may wake.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct sleeper {
	atomic_int state;
};

void sleeper_init(struct sleeper *sleeper);
void sleeper_destroy(struct sleeper *sleeper);

/* False: timeout_ms passed first. Negative waits for ever. */
bool sleeper_sleep(struct sleeper *sleeper, int timeout_ms);
void sleeper_wake(struct sleeper *sleeper);
