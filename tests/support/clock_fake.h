/*
 * clock_fake: a clock whose hands the test turns.
 *
 * Room: tests. Threads: one.
 */
#pragma once

#include <stdint.h>

#include "sys/clock.h"

#define CLOCK_FAKE_START_MS UINT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

struct clock_fake {
	struct clock clock;
	struct clock_reading now;
};

void clock_fake_init(struct clock_fake *fake);

/* True time passes: both hands move. */
void clock_fake_advance(struct clock_fake *fake, uint64_t ms);

/* Somebody sets the wall clock. */
void clock_fake_jump(struct clock_fake *fake, int64_t ms);

/* The machine was off for so long and starts again. */
void clock_fake_reboot(struct clock_fake *fake, uint64_t off_ms);
