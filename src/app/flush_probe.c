/* flush_probe: see flush_probe.h. */
#include "app/flush_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/clock.h"

#define PROBES 15u

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int measure(struct file_system *fs, int fd, void *block, uint64_t *ret_us)
{
	uint64_t times[PROBES];
	int error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
	for (unsigned i = 0; error == 0 && i < PROBES; i++) {
		uint64_t begin = clock_monotonic_ns();
		error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
		times[i] = (clock_monotonic_ns() - begin) / 1000;
	}
	if (error != 0)
		return error;
	qsort(times, PROBES, sizeof(times[0]), compare);
	*ret_us = times[PROBES / 2];
	return 0;
}

int flush_probe_us(struct file_system *fs, const char *folder, uint64_t *ret_us)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/flush-probe", folder);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	cleanup_free void *block = mem_aligned(FILE_BLOCK, FILE_BLOCK);
	if (!block)
		return -ENOMEM;
	memset(block, 0, FILE_BLOCK);
	int fd = -1;
	int error = fs->methods->make_dir(fs, folder);
	if (error == 0)
		error = fs->methods->open(
		        fs, path, FILE_WRITE | FILE_CREATE | FILE_DIRECT | FILE_SYNC_DATA, &fd);
	if (error != 0)
		return error;
	error = measure(fs, fd, block, ret_us);
	fs->methods->close(fs, fd);
	fs->methods->remove(fs, path);
	return error;
}
