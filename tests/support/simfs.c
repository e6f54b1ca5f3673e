/*
 * simfs: see simfs.h.
 *
 * An inode has two images, cache and disk. Pages are shared
 * (simfs_image.h); so the images of a synced file are the same pages, and a
 * crash only looks at those that differ. The names have two states as well:
 * the live list, and the durable list plus the changes not yet synced.
 */
#include "support/simfs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "support/simfs_image.h"
#include "support/test.h"

#define FDS_MAX 256
#define PATH_LEN 160

struct inode {
	uint32_t refs;
	bool is_dir;
	bool locked;
	struct image cache, disk;
	struct inode *twin; /* while copying a disk */
};

struct name {
	char path[PATH_LEN];
	struct inode *inode;
};

struct names {
	struct name *list; /* sorted by path */
	size_t count, room;
};

/* A change of names that is not durable: `from` loses, `to` gains the inode. */
struct change {
	char from[PATH_LEN], to[PATH_LEN]; /* empty: none */
	struct inode *inode;
};

struct descriptor {
	struct inode *inode;
	int flags;
	bool has_lock;
};

struct simfs {
	struct file_system fs;
	pthread_mutex_t mutex;
	uint64_t random;
	struct names live, durable;
	struct change *changes;
	size_t change_count, change_room;
	struct descriptor fds[FDS_MAX];
	uint64_t capacity;
	uint64_t calls, faults, fault_at;
	enum simfs_fault_kind fault;
	bool fault_forever;
	void (*point)(void *user, struct simfs *simfs, enum simfs_point point);
	void *point_user;
};

static void fill_random(uint64_t *random, void *ptr, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = test_random(random);
		memcpy((char *)ptr + i, &word, len - i < 8 ? len - i : 8);
	}
}

/* ---- inodes and names ---- */

static struct inode *inode_ref(struct inode *inode)
{
	if (inode)
		inode->refs++;
	return inode;
}

static void inode_drop(struct inode *inode)
{
	if (inode && --inode->refs == 0) {
		image_free(&inode->cache);
		image_free(&inode->disk);
		free(inode);
	}
}

static size_t names_place(const struct names *names, const char *path, bool *ret_found)
{
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(names->list[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = low < names->count && strcmp(names->list[low].path, path) == 0;
	return low;
}

static struct inode *names_find(const struct names *names, const char *path)
{
	bool found;
	size_t at = names_place(names, path, &found);

	return found ? names->list[at].inode : NULL;
}

static void names_set(struct names *names, const char *path, struct inode *inode)
{
	bool found;
	size_t at = names_place(names, path, &found);

	inode_ref(inode);
	if (found) {
		inode_drop(names->list[at].inode);
		names->list[at].inode = inode;
		return;
	}
	if (names->count == names->room) {
		names->room = names->room ? names->room * 2 : 16;
		names->list = simfs_need(realloc(names->list, names->room * sizeof(struct name)));
	}
	memmove(names->list + at + 1, names->list + at, (names->count - at) * sizeof(struct name));
	names->count++;
	snprintf(names->list[at].path, PATH_LEN, "%s", path);
	names->list[at].inode = inode;
}

static void names_unset(struct names *names, const char *path)
{
	bool found;
	size_t at = names_place(names, path, &found);

	if (!found)
		return;
	inode_drop(names->list[at].inode);
	names->count--;
	memmove(names->list + at, names->list + at + 1, (names->count - at) * sizeof(struct name));
}

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		inode_drop(names->list[i].inode);
	free(names->list);
	*names = (struct names){ 0 };
}

static void change_apply(struct names *names, const struct change *change)
{
	if (change->from[0])
		names_unset(names, change->from);
	if (change->to[0])
		names_set(names, change->to, change->inode);
}

static void change_add(struct simfs *simfs, const char *from, const char *to, struct inode *inode)
{
	if (simfs->change_count == simfs->change_room) {
		simfs->change_room = simfs->change_room ? simfs->change_room * 2 : 16;
		simfs->changes = simfs_need(
			realloc(simfs->changes, simfs->change_room * sizeof(struct change)));
	}
	struct change *change = &simfs->changes[simfs->change_count++];
	snprintf(change->from, PATH_LEN, "%s", from);
	snprintf(change->to, PATH_LEN, "%s", to);
	change->inode = inode_ref(inode);
	change_apply(&simfs->live, change);
}

/* Is `path` an entry of the folder `dir`? */
static bool is_in(const char *path, const char *dir)
{
	const char *slash = strrchr(path, '/');
	size_t len = strlen(dir);

	if (!slash)
		return strcmp(dir, ".") == 0;
	return (size_t)(slash - path) == len && memcmp(path, dir, len) == 0;
}

/* ---- power loss ---- */

/* What became of one sector that was not durable. */
static void sector_crash(struct image *found, const struct image *cache, uint64_t offset,
                         uint64_t *random)
{
	unsigned char sector[SIMFS_SECTOR];
	uint64_t fate = test_random_below(random, 8);
	size_t in = (size_t)(offset % PAGE), index = (size_t)(offset / PAGE);

	if (fate < 3)
		return; /* dropped */
	image_read(cache, sector, sizeof(sector), offset);
	if (fate == 6)
		fill_random(random, sector, sizeof(sector));
	else if (fate == 7) /* torn within */
		fill_random(random, sector + test_random_below(random, 512) / 8 * 8, 8);
	memcpy(image_own(found, index) + in, sector, sizeof(sector));
}

static bool sectors_equal(const struct page *a, const struct page *b, size_t in)
{
	static const unsigned char zero[SIMFS_SECTOR];

	return memcmp(a ? a->bytes + in : zero, b ? b->bytes + in : zero, SIMFS_SECTOR) == 0;
}

static uint64_t size_crash(const struct inode *inode, uint64_t *random)
{
	uint64_t a = inode->disk.size, b = inode->cache.size;
	uint64_t low = a < b ? a : b, high = a < b ? b : a;

	switch (test_random_below(random, 3)) {
	case 0: return a;
	case 1: return b;
	default:
		return low +
		       test_random_below(random, (high - low) / SIMFS_SECTOR + 1) * SIMFS_SECTOR;
	}
}

/* What the disk holds of an inode after power was lost. */
static void inode_crash(const struct inode *inode, struct image *ret_found, uint64_t *random)
{
	struct image found;
	size_t count = inode->cache.count > inode->disk.count ? inode->cache.count
	                                                      : inode->disk.count;

	image_copy(&found, &inode->disk);
	for (size_t i = 0; i < count; i++) {
		struct page *cached = image_page(&inode->cache, i);
		struct page *stored = image_page(&inode->disk, i);
		if (cached == stored)
			continue;
		for (size_t in = 0; in < PAGE; in += SIMFS_SECTOR)
			if (!sectors_equal(cached, stored, in))
				sector_crash(&found, &inode->cache, i * PAGE + in, random);
	}
	if (inode->cache.size != inode->disk.size) {
		uint64_t size = size_crash(inode, random);
		found.size = size > found.size ? size : found.size;
		image_resize(&found, size);
	}
	*ret_found = found;
}

static void changes_survive(const struct simfs *simfs, struct names *names, uint64_t *random)
{
	bool prefix = test_random_below(random, 2) == 0;
	size_t end = prefix ? test_random_below(random, simfs->change_count + 1)
	                    : simfs->change_count;

	for (size_t i = 0; i < end; i++)
		if (prefix || test_random_below(random, 2) == 0)
			change_apply(names, &simfs->changes[i]);
}

static void names_copy(struct names *to, const struct names *from)
{
	for (size_t i = 0; i < from->count; i++)
		names_set(to, from->list[i].path, from->list[i].inode);
}

/* A folder that did not survive takes along what is in it. */
static bool dirs_exist(const struct names *names, const char *path)
{
	char dir[PATH_LEN];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *slash; (slash = strrchr(dir, '/')) != NULL && slash != dir;) {
		*slash = 0;
		if (!names_find(names, dir))
			return false;
	}
	return true;
}

static struct inode *inode_twin(struct inode *inode, bool crash, uint64_t *random)
{
	if (inode->twin)
		return inode->twin;
	struct inode *twin = simfs_need(calloc(1, sizeof(*twin)));
	twin->is_dir = inode->is_dir;
	if (crash) {
		inode_crash(inode, &twin->disk, random);
		image_copy(&twin->cache, &twin->disk);
	} else {
		image_copy(&twin->cache, &inode->cache);
		image_copy(&twin->disk, &inode->disk);
	}
	inode->twin = twin;
	return twin;
}

static void names_twin(struct names *to, const struct names *from, bool crash, uint64_t *random)
{
	for (size_t i = 0; i < from->count; i++)
		names_set(to, from->list[i].path, inode_twin(from->list[i].inode, crash, random));
}

static void twins_forget(const struct simfs *simfs)
{
	for (size_t i = 0; i < simfs->live.count; i++)
		simfs->live.list[i].inode->twin = NULL;
	for (size_t i = 0; i < simfs->durable.count; i++)
		simfs->durable.list[i].inode->twin = NULL;
	for (size_t i = 0; i < simfs->change_count; i++)
		if (simfs->changes[i].inode)
			simfs->changes[i].inode->twin = NULL;
}

struct simfs *simfs_crash_copy(const struct simfs *simfs, uint64_t seed)
{
	struct simfs *found = simfs_new(seed);
	struct names survived = { 0 };

	names_copy(&survived, &simfs->durable);
	changes_survive(simfs, &survived, &found->random);
	for (size_t i = 0; i < survived.count; i++) {
		struct name *name = &survived.list[i];
		if (dirs_exist(&survived, name->path))
			names_set(&found->durable, name->path,
			          inode_twin(name->inode, true, &found->random));
	}
	names_copy(&found->live, &found->durable);
	names_free(&survived);
	twins_forget(simfs);
	found->capacity = simfs->capacity;
	return found;
}

struct simfs *simfs_copy(const struct simfs *simfs)
{
	struct simfs *copy = simfs_new(simfs->random);

	names_twin(&copy->live, &simfs->live, false, NULL);
	names_twin(&copy->durable, &simfs->durable, false, NULL);
	for (size_t i = 0; i < simfs->change_count; i++) {
		const struct change *change = &simfs->changes[i];
		struct inode *inode = change->inode ? inode_twin(change->inode, false, NULL) : NULL;
		if (copy->change_count == copy->change_room) {
			copy->change_room = simfs->change_count;
			copy->changes = simfs_need(
				realloc(copy->changes, copy->change_room * sizeof(struct change)));
		}
		copy->changes[copy->change_count] = *change;
		copy->changes[copy->change_count++].inode = inode_ref(inode);
	}
	twins_forget(simfs);
	copy->capacity = simfs->capacity;
	return copy;
}

void simfs_kill(struct simfs *simfs)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		struct descriptor *descriptor = &simfs->fds[fd];
		if (!descriptor->inode)
			continue;
		if (descriptor->has_lock)
			descriptor->inode->locked = false;
		inode_drop(descriptor->inode);
		*descriptor = (struct descriptor){ 0 };
	}
}

/* ---- calls ---- */

static struct simfs *simfs_of(struct file_system *fs)
{
	struct simfs *simfs = container_of(fs, struct simfs, fs);

	pthread_mutex_lock(&simfs->mutex);
	return simfs;
}

static int leave(struct simfs *simfs, int result)
{
	pthread_mutex_unlock(&simfs->mutex);
	return result;
}

static enum simfs_fault_kind call_fault(struct simfs *simfs)
{
	simfs->calls++;
	if (simfs->fault == SIMFS_NO_FAULT || simfs->calls < simfs->fault_at ||
	    (simfs->calls > simfs->fault_at && !simfs->fault_forever))
		return SIMFS_NO_FAULT;
	simfs->faults++;
	return simfs->fault;
}

/* For calls of which a full disk is no reason to fail. */
static int call_error(struct simfs *simfs)
{
	return call_fault(simfs) == SIMFS_NO_FAULT ? 0 : -EIO;
}

static int call_error_space(struct simfs *simfs)
{
	switch (call_fault(simfs)) {
	case SIMFS_NO_FAULT: return 0;
	case SIMFS_ENOSPC: return -ENOSPC;
	default: return -EIO;
	}
}

static void at_point(struct simfs *simfs, enum simfs_point point)
{
	if (simfs->point)
		simfs->point(simfs->point_user, simfs, point);
}

static struct descriptor *descriptor_of(struct simfs *simfs, int fd)
{
	CHECK(fd >= 0 && fd < FDS_MAX && simfs->fds[fd].inode);
	return &simfs->fds[fd];
}

static int fd_free(struct simfs *simfs)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (!simfs->fds[fd].inode)
			return fd;
	return -EMFILE;
}

static int open_find(struct simfs *simfs, const char *path, int flags, struct inode **ret_inode)
{
	struct inode *inode = names_find(&simfs->live, path);

	CHECK(strlen(path) < PATH_LEN);
	if (inode && (flags & FILE_CREATE) && (flags & FILE_EXCLUSIVE))
		return -EEXIST;
	if (inode && inode->is_dir)
		return -EISDIR;
	if (!inode) {
		if (!(flags & FILE_CREATE))
			return -ENOENT;
		if (!dirs_exist(&simfs->live, path))
			return -ENOENT;
		inode = simfs_need(calloc(1, sizeof(*inode)));
		change_add(simfs, "", path, inode);
		at_point(simfs, SIMFS_DURING);
	}
	*ret_inode = inode;
	return 0;
}

static int sim_open(struct file_system *fs, const char *path, int flags, int *ret_fd)
{
	struct simfs *simfs = simfs_of(fs);
	struct inode *inode = NULL;
	int error = flags & FILE_CREATE ? call_error_space(simfs) : call_error(simfs);
	int fd = fd_free(simfs);

	if (error == 0)
		error = fd < 0 ? fd : open_find(simfs, path, flags, &inode);
	if (error < 0)
		return leave(simfs, error);
	simfs->fds[fd] = (struct descriptor){ .inode = inode_ref(inode), .flags = flags };
	*ret_fd = fd;
	return leave(simfs, 0);
}

static int sim_close(struct file_system *fs, int fd)
{
	struct simfs *simfs = simfs_of(fs);
	struct descriptor *descriptor = descriptor_of(simfs, fd);

	if (descriptor->has_lock)
		descriptor->inode->locked = false;
	inode_drop(descriptor->inode);
	*descriptor = (struct descriptor){ 0 };
	return leave(simfs, 0);
}

static void check_direct(const struct descriptor *descriptor, const void *ptr, size_t len,
                         uint64_t offset)
{
	if (descriptor->flags & FILE_DIRECT)
		CHECK((uintptr_t)ptr % 512 == 0 && len % FILE_BLOCK == 0 &&
		      offset % FILE_BLOCK == 0);
}

static int64_t sim_read(struct file_system *fs, int fd, void *ptr, size_t len, uint64_t offset)
{
	struct simfs *simfs = simfs_of(fs);
	struct descriptor *descriptor = descriptor_of(simfs, fd);
	const struct image *image = &descriptor->inode->cache;
	int error = call_error(simfs);

	CHECK(descriptor->flags & FILE_READ);
	check_direct(descriptor, ptr, len, offset);
	if (error < 0)
		return leave(simfs, error);
	uint64_t rest = offset < image->size ? image->size - offset : 0;
	size_t n = len < rest ? len : (size_t)rest;
	image_read(image, ptr, n, offset);
	leave(simfs, 0);
	return (int64_t)n;
}

uint64_t simfs_used(const struct simfs *simfs)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < simfs->live.count; i++)
		sum += simfs->live.list[i].inode->cache.size;
	return sum;
}

/* How many bytes of this write find room. */
static size_t room_for(struct simfs *simfs, const struct inode *inode, size_t len, uint64_t offset)
{
	uint64_t end = offset + len;

	if (!simfs->capacity || end <= inode->cache.size)
		return len;
	uint64_t used = simfs_used(simfs);
	uint64_t rest = used < simfs->capacity ? simfs->capacity - used : 0;
	uint64_t most = inode->cache.size + rest;
	if (end <= most)
		return len;
	return most > offset ? (size_t)((most - offset) / FILE_BLOCK * FILE_BLOCK) : 0;
}

/* The range of the cache becomes durable, as O_DSYNC makes it. */
static void range_sync(struct inode *inode, size_t len, uint64_t offset)
{
	for (uint64_t at = offset / PAGE; at * PAGE < offset + len; at++)
		image_put_page(&inode->disk, (size_t)at, image_page(&inode->cache, (size_t)at));
	if (inode->disk.size < offset + len)
		inode->disk.size = offset + len;
}

/* Any sectors of the range: what a failed write or sync may have kept. */
static void range_sync_some(struct simfs *simfs, struct inode *inode, size_t len, uint64_t offset)
{
	unsigned char sector[SIMFS_SECTOR];

	for (uint64_t at = offset / SIMFS_SECTOR * SIMFS_SECTOR; at < offset + len;
	     at += SIMFS_SECTOR) {
		if (at >= inode->cache.size || test_random_below(&simfs->random, 2))
			continue;
		image_read(&inode->cache, sector, sizeof(sector), at);
		image_write(&inode->disk, sector, sizeof(sector), at);
	}
	if (inode->disk.size > inode->cache.size)
		image_resize(&inode->disk, inode->cache.size);
}

static int write_some(struct simfs *simfs, struct inode *inode, const void *ptr, size_t len,
                      uint64_t offset, int error)
{
	size_t part = test_random_below(&simfs->random, len / SIMFS_SECTOR + 1) * SIMFS_SECTOR;

	if (part > len)
		part = len;
	if (part) {
		image_write(&inode->cache, ptr, part, offset);
		range_sync_some(simfs, inode, part, offset);
	}
	at_point(simfs, SIMFS_DURING);
	return error;
}

static int sim_write(struct file_system *fs, int fd, const void *ptr, size_t len, uint64_t offset)
{
	struct simfs *simfs = simfs_of(fs);
	struct descriptor *descriptor = descriptor_of(simfs, fd);
	struct inode *inode = descriptor->inode;
	enum simfs_fault_kind fault = call_fault(simfs);
	size_t room = room_for(simfs, inode, len, offset);

	CHECK(descriptor->flags & FILE_WRITE);
	check_direct(descriptor, ptr, len, offset);
	if (fault == SIMFS_EIO || fault == SIMFS_SHORT)
		return leave(simfs,
		             write_some(simfs, inode, ptr, fault == SIMFS_SHORT ? room / 2 : room,
		                        offset, -EIO));
	if (fault == SIMFS_ENOSPC || room < len)
		return leave(simfs, write_some(simfs, inode, ptr, room, offset, -ENOSPC));

	image_write(&inode->cache, ptr, len, offset);
	at_point(simfs, SIMFS_DURING);
	if (descriptor->flags & FILE_SYNC_DATA)
		range_sync(inode, len, offset);
	at_point(simfs, SIMFS_AFTER);
	return leave(simfs, 0);
}

static void inode_sync(struct inode *inode)
{
	image_set_count(&inode->disk, 0);
	for (size_t i = 0; i < inode->cache.count; i++)
		image_put_page(&inode->disk, i, inode->cache.pages[i]);
	inode->disk.size = inode->cache.size;
}

/* What the kernel dropped after the error is gone from the cache as well. */
static void inode_sync_failed(struct simfs *simfs, struct inode *inode)
{
	range_sync_some(simfs, inode, (size_t)inode->cache.size, 0);
	image_free(&inode->cache);
	image_copy(&inode->cache, &inode->disk);
}

static int sim_sync_data(struct file_system *fs, int fd)
{
	struct simfs *simfs = simfs_of(fs);
	struct inode *inode = descriptor_of(simfs, fd)->inode;
	int error = call_error_space(simfs);

	at_point(simfs, SIMFS_DURING);
	if (error < 0) {
		inode_sync_failed(simfs, inode);
		return leave(simfs, error);
	}
	inode_sync(inode);
	at_point(simfs, SIMFS_AFTER);
	return leave(simfs, 0);
}

static int sim_truncate(struct file_system *fs, int fd, uint64_t size)
{
	struct simfs *simfs = simfs_of(fs);
	struct descriptor *descriptor = descriptor_of(simfs, fd);
	int error = call_error_space(simfs);

	CHECK(descriptor->flags & FILE_WRITE);
	if (error < 0)
		return leave(simfs, error);
	image_resize(&descriptor->inode->cache, size);
	at_point(simfs, SIMFS_DURING);
	return leave(simfs, 0);
}

static int sim_size(struct file_system *fs, int fd, uint64_t *ret_size)
{
	struct simfs *simfs = simfs_of(fs);
	struct inode *inode = descriptor_of(simfs, fd)->inode;
	int error = call_error(simfs);

	if (error == 0)
		*ret_size = inode->cache.size;
	return leave(simfs, error);
}

static int sim_room(struct file_system *fs, const char *path, uint64_t *ret_bytes)
{
	struct simfs *simfs = simfs_of(fs);
	int error = call_error(simfs);
	uint64_t used = simfs_used(simfs);

	(void)path;
	if (error == 0)
		*ret_bytes = !simfs->capacity         ? UINT64_MAX
		             : used < simfs->capacity ? simfs->capacity - used
		                                      : 0;
	return leave(simfs, error);
}

static int sim_rename(struct file_system *fs, const char *from, const char *to)
{
	struct simfs *simfs = simfs_of(fs);
	struct inode *inode = names_find(&simfs->live, from);
	int error = call_error_space(simfs);

	if (error == 0 && !inode)
		error = -ENOENT;
	if (error < 0)
		return leave(simfs, error);
	change_add(simfs, from, to, inode);
	at_point(simfs, SIMFS_DURING);
	return leave(simfs, 0);
}

static int sim_remove(struct file_system *fs, const char *path)
{
	struct simfs *simfs = simfs_of(fs);
	int error = call_error(simfs);

	if (error == 0 && !names_find(&simfs->live, path))
		error = -ENOENT;
	if (error < 0)
		return leave(simfs, error);
	change_add(simfs, path, "", NULL);
	at_point(simfs, SIMFS_DURING);
	return leave(simfs, 0);
}

static int sim_make_dir(struct file_system *fs, const char *path)
{
	struct simfs *simfs = simfs_of(fs);
	int error = call_error_space(simfs);

	if (error < 0 || names_find(&simfs->live, path))
		return leave(simfs, error);
	if (!dirs_exist(&simfs->live, path))
		return leave(simfs, -ENOENT);
	struct inode *inode = simfs_need(calloc(1, sizeof(*inode)));
	inode->is_dir = true;
	change_add(simfs, "", path, inode);
	at_point(simfs, SIMFS_DURING);
	return leave(simfs, 0);
}

static int sim_sync_dir(struct file_system *fs, const char *path)
{
	struct simfs *simfs = simfs_of(fs);
	int error = call_error(simfs);
	size_t kept = 0;

	at_point(simfs, SIMFS_DURING);
	if (error < 0)
		return leave(simfs, error);
	for (size_t i = 0; i < simfs->change_count; i++) {
		struct change *change = &simfs->changes[i];
		if (is_in(change->to[0] ? change->to : change->from, path)) {
			change_apply(&simfs->durable, change);
			inode_drop(change->inode);
		} else {
			simfs->changes[kept++] = *change;
		}
	}
	simfs->change_count = kept;
	at_point(simfs, SIMFS_AFTER);
	return leave(simfs, 0);
}

/* The names are copied first: each() may call back into the file system. */
static int sim_list(struct file_system *fs, const char *path,
                    int (*each)(void *user, const char *name), void *user)
{
	struct simfs *simfs = simfs_of(fs);
	int error = call_error(simfs);
	struct names names = { 0 };

	if (error == 0 && strcmp(path, ".") != 0 && !names_find(&simfs->live, path))
		error = -ENOENT;
	for (size_t i = 0; error == 0 && i < simfs->live.count; i++)
		if (is_in(simfs->live.list[i].path, path))
			names_set(&names, simfs->live.list[i].path, NULL);
	leave(simfs, 0);
	for (size_t i = 0; error == 0 && i < names.count; i++) {
		const char *slash = strrchr(names.list[i].path, '/');
		error = each(user, slash ? slash + 1 : names.list[i].path);
	}
	names_free(&names);
	return error;
}

static int sim_lock_dir(struct file_system *fs, const char *path, int *ret_fd)
{
	struct simfs *simfs = simfs_of(fs);
	struct inode *inode = names_find(&simfs->live, path);
	int error = call_error(simfs);
	int fd = fd_free(simfs);

	if (error == 0 && fd < 0)
		error = fd;
	if (error == 0 && !inode)
		error = -ENOENT;
	if (error == 0 && !inode->is_dir)
		error = -ENOTDIR;
	if (error == 0 && inode->locked)
		error = ERR_BUSY;
	if (error < 0)
		return leave(simfs, error);
	inode->locked = true;
	simfs->fds[fd] = (struct descriptor){ .inode = inode_ref(inode), .has_lock = true };
	*ret_fd = fd;
	return leave(simfs, 0);
}

static const struct file_methods simfs_methods = {
	.open = sim_open,
	.close = sim_close,
	.read = sim_read,
	.write = sim_write,
	.sync_data = sim_sync_data,
	.truncate = sim_truncate,
	.size = sim_size,
	.room = sim_room,
	.rename = sim_rename,
	.remove = sim_remove,
	.make_dir = sim_make_dir,
	.sync_dir = sim_sync_dir,
	.list = sim_list,
	.lock_dir = sim_lock_dir,
};

struct simfs *simfs_new(uint64_t seed)
{
	struct simfs *simfs = simfs_need(calloc(1, sizeof(*simfs)));

	simfs->fs.methods = &simfs_methods;
	simfs->random = seed;
	pthread_mutex_init(&simfs->mutex, NULL);
	return simfs;
}

struct simfs *simfs_free(struct simfs *simfs)
{
	if (!simfs)
		return NULL;
	simfs_kill(simfs);
	names_free(&simfs->live);
	names_free(&simfs->durable);
	for (size_t i = 0; i < simfs->change_count; i++)
		inode_drop(simfs->changes[i].inode);
	free(simfs->changes);
	pthread_mutex_destroy(&simfs->mutex);
	free(simfs);
	return NULL;
}

struct file_system *simfs_fs(struct simfs *simfs)
{
	return &simfs->fs;
}

void simfs_on_point(struct simfs *simfs,
                    void (*point)(void *user, struct simfs *simfs, enum simfs_point point),
                    void *user)
{
	simfs->point = point;
	simfs->point_user = user;
}

void simfs_fail_at(struct simfs *simfs, enum simfs_fault_kind kind, uint64_t at, bool forever)
{
	simfs->fault = kind;
	simfs->fault_at = at;
	simfs->fault_forever = forever;
	simfs->calls = 0;
	simfs->faults = 0;
}

uint64_t simfs_calls(const struct simfs *simfs)
{
	return simfs->calls;
}

uint64_t simfs_faults(const struct simfs *simfs)
{
	return simfs->faults;
}

void simfs_set_capacity(struct simfs *simfs, uint64_t bytes)
{
	simfs->capacity = bytes;
}

const char *simfs_file_name(const struct simfs *simfs, size_t index)
{
	for (size_t i = 0; i < simfs->live.count; i++)
		if (!simfs->live.list[i].inode->is_dir && index-- == 0)
			return simfs->live.list[i].path;
	return NULL;
}

static struct inode *file_of(const struct simfs *simfs, const char *path)
{
	struct inode *inode = names_find(&simfs->live, path);

	CHECK(inode && !inode->is_dir);
	return inode;
}

uint64_t simfs_file_size(const struct simfs *simfs, const char *path)
{
	return file_of(simfs, path)->cache.size;
}

unsigned char simfs_file_byte(const struct simfs *simfs, const char *path, uint64_t offset)
{
	unsigned char byte;

	image_read(&file_of(simfs, path)->cache, &byte, 1, offset);
	return byte;
}

void simfs_overwrite(struct simfs *simfs, const char *path, uint64_t offset, struct span bytes)
{
	struct inode *inode = file_of(simfs, path);

	image_write(&inode->cache, bytes.ptr, bytes.len, offset);
	inode_sync(inode);
}

void simfs_flip_bit(struct simfs *simfs, const char *path, uint64_t bit)
{
	unsigned char byte = simfs_file_byte(simfs, path, bit / 8);

	byte = (unsigned char)(byte ^ (1u << (bit % 8)));
	simfs_overwrite(simfs, path, bit / 8, span_of(&byte, 1));
}

void simfs_cut_file(struct simfs *simfs, const char *path, uint64_t size)
{
	struct inode *inode = file_of(simfs, path);

	image_resize(&inode->cache, size);
	inode_sync(inode);
}
