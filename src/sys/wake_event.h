/*
 * wake_event: one thread waits for it, any thread sets it.
 *
 * A set event is remembered: the next wait returns at once.
 * Setting an event without a waiter costs one atomic exchange. There is no
 * mutex that the woken thread would have to wait for while the other still holds it.
 *
 * Room:    sys. Threads: one waits, any may set.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct wake_event {
	atomic_int state;
};

void wake_event_init(struct wake_event *event);
void wake_event_destroy(struct wake_event *event);

/* False: timeout_ms passed first. Negative waits for ever. */
bool wake_event_wait(struct wake_event *event, int timeout_ms);
void wake_event_set(struct wake_event *event);
