/*
 * stop_guard: the last bound of a stop.
 *
 * Every step of a stop has its own limit, but a disk that hangs keeps whoever
 * writes to it for as long as it likes. So a thread that touches no disk waits
 * beside, and ends the process when the stop takes too long: as safe as a
 * crash, nothing acknowledged is lost.
 *
 * Room:      serve. Threads: begin and end from one thread.
 * Ownership: the struct is the caller's and must stay until stop_guard_end().
 * Failure:   of begin: -errno, there is no such bound then.
 */
#pragma once

#include "base/check.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

struct stop_guard {
	struct wake_event wake;
	struct thread thread;
	int limit_ms;
};

/* From now on the process ends with EXIT_CODE_FAILED after limit_ms. */
int stop_guard_begin(struct stop_guard *guard, int limit_ms) must_check;

/* The stop is done. Of one that was not begun (zeroed): nothing. */
void stop_guard_end(struct stop_guard *guard);
