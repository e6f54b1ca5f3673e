/* load_cpu: see load.h. schedstat counts nanoseconds where stat counts ticks of 10 ms. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

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

uint64_t load_cpu_machine_ns(void)
{
	uint64_t ticks[8] = { 0 }; /* user nice system idle iowait irq softirq steal */
	FILE *file = fopen("/proc/stat", "re");
	if (!file)
		return 0;
	if (fscanf(file,
	           "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	           " %" SCNu64 " %" SCNu64,
	           &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
	           &ticks[7]) != 8)
		ticks[0] = 0;
	(void)fclose(file);
	uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
	return busy * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
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
