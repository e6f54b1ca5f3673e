/*
 * vectors: published test data that is not kept in this repository.
 *
 * The folder is named by STILE_VECTORS, or is ../shared/vectors seen from the
 * root of the sources, where tests run. Without it the tests that need it say
 * "skipped": each has cases of its own that always run.
 */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/span.h"

#define VECTORS_PATH_MAX 1024

static inline void vectors_path(const char *name, char ret_path[static VECTORS_PATH_MAX])
{
	const char *root = getenv("STILE_VECTORS");
	snprintf(ret_path, VECTORS_PATH_MAX, "%s/%s", root ? root : "../shared/vectors", name);
}

/* All of a file in memory of exactly its size, so that ASan sees a step too far;
 * the caller frees it. An unreadable file gives a NULL pointer. */
static inline struct span vectors_read(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct span bytes = SPAN_EMPTY;
	if (!file)
		return bytes;
	if (fseek(file, 0, SEEK_END) == 0) {
		long size = ftell(file);
		char *ptr = size >= 0 ? mem_alloc((size_t)size) : NULL;
		rewind(file);
		if (ptr && fread(ptr, 1, (size_t)size, file) == (size_t)size)
			bytes = span_of(ptr, (size_t)size);
		else
			mem_free(ptr);
	}
	fclose(file);
	return bytes;
}

/* Calls `each` with the name and bytes of every .json file of a folder and
 * returns how many there were; 0 when there is no such folder. */
static inline unsigned vectors_each(const char *folder,
                                    void (*each)(const char *name, struct span bytes))
{
	char path[VECTORS_PATH_MAX];
	unsigned count = 0;
	vectors_path(folder, path);
	DIR *dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		char file[VECTORS_PATH_MAX + 300];
		size_t len = strlen(entry->d_name);
		if (len < 5 || strcmp(entry->d_name + len - 5, ".json") != 0)
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		struct span bytes = vectors_read(file);
		each(entry->d_name, bytes);
		mem_free((void *)(uintptr_t)bytes.ptr);
		count++;
	}
	closedir(dir);
	return count;
}
