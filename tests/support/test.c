/* test: see test.h. */
#include "support/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	if (!text || !*text)
		return otherwise;
	char *end = NULL;
	unsigned long long value = strtoull(text, &end, 0);
	if (*end) {
		fprintf(stderr, "%s=%s is not a number\n", name, text);
		exit(2);
	}
	return value;
}

uint64_t test_seed(void)
{
	return env_number("STILE_TEST_SEED", 20240101);
}

uint64_t test_scale(uint64_t count)
{
	const char *text = getenv("STILE_TEST_SCALE");
	double scale = text && *text ? strtod(text, NULL) : 1.0;
	double scaled = (double)count * scale;
	return scaled < 1.0 ? 1 : (uint64_t)scaled;
}

uint64_t test_stride(uint64_t step)
{
	return test_scale(1000) < 1000 ? step : 1;
}

const char *test_note_seed(uint64_t seed)
{
	static _Thread_local char text[64];
	snprintf(text, sizeof(text), "STILE_TEST_SEED=%llu", (unsigned long long)seed);
	return text;
}

void test_dir_make(char ret_path[static 256])
{
	const char *tmp = getenv("TMPDIR");
	snprintf(ret_path, 256, "%s/stile-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(ret_path))
		fail_msg("mkdtemp %s failed", ret_path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void test_dir_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
