/*
 * sleeper: a place where one thread sleeps until another wakes it.
 *
 * A wake is remembered: if nobody sleeps yet, the next sleep returns at once.
 * Waking a thread that is awake costs one atomic exchange.
 *
 * Room:    sys. Threads: one sleeps, any may wake.
 * Failure: only sleeper_init() fails.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/check.h"

struct sleeper {
	atomic_int state;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
};

int sleeper_init(struct sleeper *sleeper) must_check;
void sleeper_destroy(struct sleeper *sleeper);

/* False: timeout_ms passed first. Negative waits for ever. */
bool sleeper_sleep(struct sleeper *sleeper, int timeout_ms);
void sleeper_wake(struct sleeper *sleeper);
