/* steady_clock: see steady_clock.h. */
#include "store/local/journal/steady_clock.h"

#include <inttypes.h>
#include <string.h>

#define SLEW_PER_MS_US 1 /* a thousandth */

int64_t steady_clock_deviation_ms(const struct steady_clock *steady)
{
	return (int64_t)(steady->now.wall_ms - steady->now.steady_ms);
}

uint64_t steady_clock_held_ms(const struct steady_clock *steady)
{
	int64_t deviation_ms = steady_clock_deviation_ms(steady);
	return deviation_ms > STEADY_CLOCK_TOLERANCE_MS ? (uint64_t)deviation_ms : 0;
}

static bool is_tolerable(int64_t deviation_ms)
{
	return deviation_ms <= STEADY_CLOCK_TOLERANCE_MS &&
	       deviation_ms >= -STEADY_CLOCK_TOLERANCE_MS;
}

/* An event is a deviation that differs from the one last told of by more than
 * the tolerance, or one that has come back within it. */
static void watch(struct steady_clock *steady)
{
	int64_t deviation_ms = steady_clock_deviation_ms(steady);
	int64_t told_ms = steady->reported_ms;
	if (is_tolerable(deviation_ms)) {
		if (told_ms == 0)
			return;
		deviation_ms = 0;
	} else if (told_ms != 0 && is_tolerable(deviation_ms - told_ms)) {
		return;
	}
	steady->reported_ms = deviation_ms;
	steady->alarm = true;
}

static uint64_t after_reboot(const struct steady_clock_state *saved,
                             const struct clock_reading *reading)
{
	/* Rule 3: was this machine booted after that was saved? */
	bool booted = reading->wall_ms >= saved->wall_ms &&
	              reading->wall_ms - saved->wall_ms >= reading->boot_ms;
	uint64_t up_ms = booted ? reading->boot_ms : 0;
	if (reading->wall_ms <= saved->steady_ms)
		return saved->steady_ms;
	if (reading->wall_ms - saved->steady_ms <= up_ms + STEADY_CLOCK_DOWNTIME_MAX_MS)
		return reading->wall_ms;
	return saved->steady_ms +
	       (up_ms < STEADY_CLOCK_DOWNTIME_MAX_MS ? up_ms : STEADY_CLOCK_DOWNTIME_MAX_MS);
}

void steady_clock_start(struct steady_clock *steady, const struct clock *clock,
                        const struct steady_clock_state *saved)
{
	struct clock_reading reading = clock_read(clock);
	*steady = (struct steady_clock){ .clock = clock };
	struct steady_clock_state *now = &steady->now;
	now->boot_ms = reading.boot_ms;
	now->wall_ms = reading.wall_ms;
	memcpy(now->boot_id, clock->boot_id, CLOCK_BOOT_ID_LEN);
	if (!saved || saved->steady_ms == 0) {
		now->steady_ms = reading.wall_ms;
		return;
	}
	/* The same boot with less time on its clock is none that we know. */
	bool same_boot = memcmp(saved->boot_id, clock->boot_id, CLOCK_BOOT_ID_LEN) == 0 &&
	                 reading.boot_ms >= saved->boot_ms;
	if (same_boot)
		now->steady_ms = saved->steady_ms + (reading.boot_ms - saved->boot_ms);
	else
		now->steady_ms = after_reboot(saved, &reading);
	watch(steady);
}

/* Rule 2: what of `elapsed_ms` to leave out because the wall is behind. */
static uint64_t slew(struct steady_clock *steady, uint64_t elapsed_ms, uint64_t wall_ms)
{
	uint64_t ahead_ms = steady->now.steady_ms + elapsed_ms;
	if (ahead_ms <= wall_ms || ahead_ms - wall_ms > STEADY_CLOCK_TOLERANCE_MS) {
		steady->slew_us = 0;
		return 0;
	}
	steady->slew_us += elapsed_ms * SLEW_PER_MS_US;
	uint64_t left_out_ms = steady->slew_us / 1000;
	if (left_out_ms > ahead_ms - wall_ms)
		left_out_ms = ahead_ms - wall_ms;
	if (left_out_ms > elapsed_ms)
		left_out_ms = elapsed_ms;
	steady->slew_us %= 1000;
	return left_out_ms;
}

uint64_t steady_clock_now(struct steady_clock *steady)
{
	struct clock_reading reading = clock_read(steady->clock);
	struct steady_clock_state *now = &steady->now;
	uint64_t elapsed_ms = 0;
	if (reading.boot_ms > now->boot_ms)
		elapsed_ms = reading.boot_ms - now->boot_ms;
	now->steady_ms += elapsed_ms - slew(steady, elapsed_ms, reading.wall_ms);
	now->boot_ms += elapsed_ms;
	now->wall_ms = reading.wall_ms;
	watch(steady);
	return now->steady_ms;
}

bool steady_clock_alarm(struct steady_clock *steady, struct error_text *ret_text)
{
	if (!steady->alarm)
		return false;
	steady->alarm = false;
	int64_t told_ms = steady->reported_ms;
	if (told_ms == 0)
		error_fill(ret_text, 0, "wall clock agrees with the store again");
	else if (told_ms > 0)
		error_fill(ret_text, 0,
		           "wall clock is ahead: %" PRId64
		           " ms; windows are judged without the jump",
		           told_ms);
	else
		error_fill(ret_text, 0,
		           "wall clock is behind: %" PRId64
		           " ms; windows are judged as if it had not gone back",
		           -told_ms);
	return true;
}

uint64_t steady_clock_accept_wall(struct steady_clock *steady)
{
	steady_clock_now(steady);
	int64_t deviation_ms = steady_clock_deviation_ms(steady);
	if (deviation_ms <= 0)
		return 0;
	steady->now.steady_ms = steady->now.wall_ms;
	watch(steady);
	return (uint64_t)deviation_ms;
}
