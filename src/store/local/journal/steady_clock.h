/*
 * steady_clock: the store's time. It never goes back, and never runs ahead of
 * what can be explained.
 *
 * The end of a window is judged by this clock. Early expiry would double an
 * effect, late expiry only costs memory; so in doubt it is late:
 *
 * 1. Within one boot of the machine, also over restarts of the process, time
 *    advances by CLOCK_BOOTTIME and never faster. Whoever sets the wall clock
 *    forward changes nothing here: the difference is *held* and reported.
 * 2. While the wall is behind by up to a second, time runs slower by 1/1000
 *    until both agree. It is not made to run faster when the wall is ahead:
 *    that would cut windows short.
 * 3. After a reboot the wall is believed if it is ahead of what is saved by at
 *    most the time since boot and a day, for which the machine was off. The
 *    time since boot counts only if the wall says that this boot was after
 *    what is saved: the folder may have come to another machine, which was up
 *    before. A wall further ahead is held, and the time since boot is believed
 *    alone, up to a day; one that is behind is not followed.
 * 4. With nothing saved, time starts at the wall.
 * 5. steady_clock_accept_wall(): a person says that the wall is right; time
 *    goes forward to it.
 *
 * Room:      store/local. Threads: one owner.
 * Ownership: a plain struct without memory of its own; the struct clock must
 *            outlive it.
 * Failure:   none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "sys/clock.h"

#define STEADY_CLOCK_TOLERANCE_MS 1000
#define STEADY_CLOCK_DOWNTIME_MAX_MS (24 * 60 * 60 * 1000)

/*
 * What is written down: the latest time given out, and where the machine's
 * clocks were then. Within a boot any such state will do, however old; but the
 * first after steady_clock_start() and after steady_clock_accept_wall() must
 * be durable before that time is used, and one of every few seconds should be:
 * after a reboot time resumes from the last that was saved.
 */
struct steady_clock_state {
	uint64_t steady_ms; /* high-water mark; 0 is nothing saved */
	uint64_t boot_ms;
	uint64_t wall_ms;
	unsigned char boot_id[CLOCK_BOOT_ID_LEN];
};

struct steady_clock {
	const struct clock *clock;
	struct steady_clock_state now; /* steady_clock_now() as of the last reading */
	uint64_t slew_us;              /* owed to rule 2, below a millisecond */
	int64_t reported_ms;           /* deviation that the last alarm told of */
	bool alarm;                    /* steady_clock_alarm() has something to say */
};

/* `saved` NULL or with steady_ms 0: fresh. */
void steady_clock_start(struct steady_clock *steady, const struct clock *clock,
                        const struct steady_clock_state *saved);

/* Reads the machine's clock; unix milliseconds that never decrease. */
uint64_t steady_clock_now(struct steady_clock *steady);

/* The time of the last reading, without a new one. */
static inline uint64_t steady_clock_last(const struct steady_clock *steady)
{
	return steady->now.steady_ms;
}

/* What to write down, as of the last reading. */
static inline struct steady_clock_state steady_clock_save(const struct steady_clock *steady)
{
	return steady->now;
}

/* Wall minus steady as of the last reading, negative if the wall is behind. */
int64_t steady_clock_deviation_ms(const struct steady_clock *steady);

/* How far the wall is ahead of what can be explained; 0 within the tolerance. */
uint64_t steady_clock_held_ms(const struct steady_clock *steady);

/* True once after each event that an operator should read of (held, behind,
 * agreed again), with its text. */
bool steady_clock_alarm(struct steady_clock *steady, struct error_text *ret_text);

/* Rule 5. Returns by how many milliseconds time went forward. */
uint64_t steady_clock_accept_wall(struct steady_clock *steady);
