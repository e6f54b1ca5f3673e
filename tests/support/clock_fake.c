/* clock_fake: see clock_fake.h. */
#include "support/clock_fake.h"

static void read_hands(void *user, struct clock_reading *ret_reading)
{
	*ret_reading = ((struct clock_fake *)user)->now;
}

void clock_fake_init(struct clock_fake *fake)
{
	*fake = (struct clock_fake){
		.clock = { .read = read_hands, .user = fake, .boot_id = { 1 } },
		.now = { .wall_ms = CLOCK_FAKE_START_MS, .boot_ms = 1000000 },
	};
}

void clock_fake_advance(struct clock_fake *fake, uint64_t ms)
{
	fake->now.wall_ms += ms;
	fake->now.boot_ms += ms;
}

void clock_fake_jump(struct clock_fake *fake, int64_t ms)
{
	fake->now.wall_ms += (uint64_t)ms;
}

void clock_fake_reboot(struct clock_fake *fake, uint64_t off_ms)
{
	fake->now.wall_ms += off_ms;
	fake->now.boot_ms = 5000;
	fake->clock.boot_id[0]++;
}
