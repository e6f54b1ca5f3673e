/* store_secret: see store_secret.h. */
#include "serve/store_secret.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/secret.h"

#define NAME "store-secret"

struct kept {
	unsigned char key[HASH_KEY_LEN];
	uint64_t url[2];
};
_Static_assert(sizeof(struct kept) == 32, "no holes");

static int place(const char *folder, const char *name, char path[static PATH_MAX])
{
	int len = snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return len > 0 && len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void make(struct kept *kept, struct span url, const unsigned char *key)
{
	memcpy(kept->key, key, HASH_KEY_LEN);
	hash_keyed128(kept->key, url.ptr, url.len, kept->url);
}

int store_secret_read(struct file_system *files, const char *folder, struct span url,
                      unsigned char ret_key[static HASH_KEY_LEN])
{
	char path[PATH_MAX];
	char *bytes = NULL;
	size_t len = 0;
	struct kept kept, wanted;
	int error = place(folder, NAME, path);
	if (error == 0)
		error = file_read_regular(files, path, sizeof(kept), &bytes, &len);
	if (error != 0)
		return error == ERR_TOO_LARGE ? -ENOENT : error;
	if (len == sizeof(kept)) {
		memcpy(&kept, bytes, sizeof(kept));
		make(&wanted, url, kept.key);
	}
	if (len != sizeof(kept) || memcmp(&kept, &wanted, sizeof(kept)) != 0)
		error = -ENOENT;
	else
		memcpy(ret_key, kept.key, HASH_KEY_LEN);
	secret_wipe(&kept, sizeof(kept));
	secret_wipe(&wanted, sizeof(wanted));
	secret_wipe(bytes, len);
	mem_free(bytes);
	return error;
}

static int write_file(struct file_system *files, const char *path, const struct kept *kept)
{
	int fd = -1;
	int error = files->methods->open(files, path, FILE_WRITE | FILE_CREATE, &fd);
	if (error != 0)
		return error;
	error = files->methods->write(files, fd, kept, sizeof(*kept), 0);
	if (error == 0)
		error = files->methods->truncate(files, fd, sizeof(*kept));
	if (error == 0)
		error = files->methods->sync_data(files, fd);
	int closed = files->methods->close(files, fd);
	return error != 0 ? error : closed;
}

int store_secret_write(struct file_system *files, const char *folder, struct span url,
                       const unsigned char key[static HASH_KEY_LEN])
{
	char path[PATH_MAX], beside[PATH_MAX];
	unsigned char old[HASH_KEY_LEN];
	struct kept kept;
	bool same = store_secret_read(files, folder, url, old) == 0 &&
	            memcmp(old, key, sizeof(old)) == 0;
	secret_wipe(old, sizeof(old));
	if (same)
		return 0;
	int error = place(folder, NAME, path);
	if (error == 0)
		error = place(folder, NAME ".new", beside);
	if (error != 0)
		return error;
	make(&kept, url, key);
	error = write_file(files, beside, &kept);
	secret_wipe(&kept, sizeof(kept));
	if (error == 0)
		error = files->methods->rename(files, beside, path);
	return error != 0 ? error : files->methods->sync_dir(files, folder);
}
