/*
 * clock: the only place that asks what time it is.
 *
 * Room:    sys. Code that decides takes a struct clock (or a plain `now`), so a test can set
 *          the time (struct clock_fake in tests/support).
 * Threads: any.
 */
#pragma once

#include <stdint.h>

#define CLOCK_BOOT_ID_LEN 16

struct clock_reading {
	uint64_t wall_ms; /* CLOCK_REALTIME, unix */
	uint64_t boot_ms; /* CLOCK_BOOTTIME: counts through suspend, never steps */
};

struct clock {
	void (*read)(void *user, struct clock_reading *ret_reading);
	void *user;
	unsigned char boot_id[CLOCK_BOOT_ID_LEN]; /* this boot of the machine */
};

/* The machine's clock. */
const struct clock *clock_system(void);

static inline struct clock_reading clock_read(const struct clock *clock)
{
	struct clock_reading reading;
	clock->read(clock->user, &reading);
	return reading;
}

/* BOOTTIME, as the loop's time is: their difference is a duration. For measuring
 * and time-outs, not for deciding about claims. */
uint64_t clock_monotonic_ns(void);
