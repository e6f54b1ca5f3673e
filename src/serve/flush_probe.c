/* flush_probe: see flush_probe.h. */
#include "serve/flush_probe.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/clock.h"

#define PROBES 15u

static int measure(struct file_system *fs, int fd, void *block, uint64_t *ret_us)
{
	uint64_t best_us = UINT64_MAX;
	int error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
	for (unsigned i = 0; error == 0 && i < PROBES; i++) {
		uint64_t begin = clock_monotonic_ns();
		error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
		uint64_t us = (clock_monotonic_ns() - begin) / 1000;
		if (us < best_us)
			best_us = us;
	}
	if (error == 0)
		*ret_us = best_us;
	return error;
}

int flush_probe_us(struct file_system *fs, const char *folder, uint64_t *ret_us)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/flush-probe.tmp", folder);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	cleanup_free void *block = mem_aligned(FILE_BLOCK, FILE_BLOCK);
	if (!block)
		return -ENOMEM;
	memset(block, 0, FILE_BLOCK);
	int fd = -1;
	int error = fs->methods->open(fs, path,
	                              FILE_WRITE | FILE_CREATE | FILE_DIRECT | FILE_SYNC_DATA |
	                                      FILE_REGULAR,
	                              &fd);
	if (error != 0)
		return error;
	error = measure(fs, fd, block, ret_us);
	fs->methods->close(fs, fd);
	fs->methods->remove(fs, path);
	return error;
}
