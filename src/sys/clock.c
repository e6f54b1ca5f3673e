/* clock: see clock.h. */
#include "sys/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hex.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

static uint64_t read_ms(clockid_t id)
{
	struct timespec now;
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void read_system(void *user, struct clock_reading *ret_reading)
{
	(void)user;
	ret_reading->wall_ms = read_ms(CLOCK_REALTIME);
	ret_reading->boot_ms = read_ms(CLOCK_BOOTTIME);
}

static struct clock system_clock = { .read = read_system };
static pthread_once_t system_once = PTHREAD_ONCE_INIT;

/* Where there is no /proc the id is zero: then every start looks like the same
 * boot, and steady_clock still has BOOTTIME to notice that it went back. */
static void read_boot_id(void)
{
	char text[64];
	unsigned char id[CLOCK_BOOT_ID_LEN] = { 0 };
	int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, text, sizeof(text));
	close(fd);
	/* 32 hex digits, dashes anywhere between them. */
	size_t digits = 0;
	for (ssize_t i = 0; i < n && digits < 2 * CLOCK_BOOT_ID_LEN; i++) {
		int digit = hex_value(text[i]);
		if (digit >= 0) {
			id[digits / 2] = (unsigned char)(id[digits / 2] << 4 | digit);
			digits++;
		}
	}
	if (digits == 2 * CLOCK_BOOT_ID_LEN)
		memcpy(system_clock.boot_id, id, sizeof(id));
}

const struct clock *clock_system(void)
{
	pthread_once(&system_once, read_boot_id);
	return &system_clock;
}

uint64_t clock_monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
