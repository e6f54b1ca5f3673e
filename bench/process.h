/*
 * process: what several benchmarks ask of their own process and folder.
 */
#pragma once

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static inline uint64_t resident_bytes(void)
{
	unsigned long long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (file)
		(void)fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline void empty_folder(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		(void)closedir(folder);
}
