/*
 * replay_main: runs a fuzz target over the files of a folder (or over single
 * files), so that the corpus is an ordinary test.
 *
 * Each input is copied to memory of exactly its size: ASan then sees the first
 * byte read past the end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	if (!file || fstat(fileno(file), &st) != 0) {
		perror(path);
		if (file)
			fclose(file);
		return 1;
	}
	size_t size = (size_t)st.st_size;
	uint8_t *data = malloc(size ? size : 1);
	int failed = !data || fread(data, 1, size, file) != size;
	fclose(file);
	if (failed)
		perror(path);
	else
		LLVMFuzzerTestOneInput(data, size);
	free(data);
	return failed;
}

static int replay_dir(const char *path, unsigned long *count)
{
	struct dirent **entries = NULL;
	int n = scandir(path, &entries, NULL, alphasort);
	int failed = n < 0;
	if (failed)
		perror(path);
	for (int i = 0; i < n; i++) {
		char file[4096];
		if (entries[i]->d_name[0] != '.') {
			snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
			failed |= replay_file(file);
			(*count)++;
		}
		free(entries[i]);
	}
	free(entries);
	return failed;
}

int main(int argc, char **argv)
{
	unsigned long count = 0;
	int failed = 0;
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		struct stat st;
		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			failed |= replay_dir(argv[i], &count);
		} else {
			failed |= replay_file(argv[i]);
			count++;
		}
	}
	printf("%lu inputs replayed\n", count);
	return failed || count == 0;
}
