/* load_cpu: see load.h. schedstat counts nanoseconds where stat counts ticks of 10 ms. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "load.h"

static uint64_t read_schedstat(int pid, const char *task)
{
	char path[300];
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, task);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	uint64_t ns = 0;
	if (fscanf(file, "%" SCNu64, &ns) != 1)
		ns = 0;
	(void)fclose(file);
	return ns;
}

static uint64_t process_ns(int pid)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return 0;
	uint64_t sum = 0;
	for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
		if (entry->d_name[0] != '.')
			sum += read_schedstat(pid, entry->d_name);
	}
	(void)closedir(tasks);
	return sum;
}

uint64_t load_cpu_ns(const int *pids, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += process_ns(pids[i]);
	return sum;
}

uint64_t load_cpu_own_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int load_cpu_pin(int cpu)
{
	if (cpu < 0)
		return 0;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : -errno;
}
