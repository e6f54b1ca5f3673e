/* file: see file.h. */
#include "sys/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/fair_lock.h"

/*
 * A lock for flushes of the disk's cache, by threads that write to the data folder. The kernel
 * runs one flush at a time for each queue of the disk, and starts the next one on the core that
 * handles the completion of the first. If that core is busy, a commit would wait there for up
 * to a tick (4 ms, twice a second, at half of the maximum rate:
 * docs/internals/journal.md). The lock is not waited for any longer than that.
 */
static struct fair_lock flushes = FAIR_LOCK_INIT;

#define FLUSH_TURN_MS 8

static int open_retry(const char *path, int flags)
{
	int fd;
	do
		fd = open(path, flags, 0600);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* After it is opened, since the path may lead elsewhere by then. */
static int check_opened(int fd)
{
	struct stat st;
	int mode = fcntl(fd, F_GETFL);
	if (mode < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return ERR_KIND;
	return fcntl(fd, F_SETFL, mode & ~O_NONBLOCK) < 0 ? -errno : 0;
}

/* A file system without O_DIRECT returns EINVAL, some after they created the file: so the
 * second try must not require O_EXCL. */
static int real_open(struct file_system *fs, const char *path, int flags, int *ret_fd)
{
	(void)fs;
	CHECK(flags & (FILE_READ | FILE_WRITE));
	CHECK(!(flags & FILE_EXCLUSIVE) || (flags & FILE_CREATE));
	int mode = O_CLOEXEC;
	if (flags & FILE_WRITE)
		mode |= flags & FILE_READ ? O_RDWR : O_WRONLY;
	if (flags & FILE_CREATE)
		mode |= O_CREAT;
	if (flags & FILE_EXCLUSIVE)
		mode |= O_EXCL;
	if (flags & FILE_DIRECT)
		mode |= O_DIRECT;
	if (flags & FILE_SYNC_DATA)
		mode |= O_DSYNC;
	if (flags & FILE_REGULAR)
		mode |= O_NONBLOCK; /* until it is known to be a regular file */
	/* Check the kind before it is opened: opening a device may have an effect. */
	struct stat st;
	if (flags & FILE_REGULAR && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return ERR_KIND;
	bool existed = !(flags & FILE_EXCLUSIVE) || access(path, F_OK) == 0;
	int fd = open_retry(path, mode);
	if (fd < 0 && errno == EINVAL && (mode & O_DIRECT)) {
		mode &= ~O_DIRECT;
		fd = open_retry(path, existed ? mode : mode & ~O_EXCL);
	}
	if (fd < 0)
		return -errno;
	int error = flags & FILE_REGULAR ? check_opened(fd) : 0;
	if (error != 0) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

static int real_close(struct file_system *fs, int fd)
{
	(void)fs;
	/* After EINTR the descriptor is closed on Linux: never try again. */
	return close(fd) < 0 && errno != EINTR ? -errno : 0;
}

static int64_t real_read(struct file_system *fs, int fd, void *ptr, size_t len, uint64_t offset)
{
	(void)fs;
	size_t done = 0;
	while (done < len) {
		char *at = (char *)ptr + done;
		ssize_t n = pread(fd, at, len - done, (off_t)(offset + done));
		if (n < 0 && errno == ESPIPE) /* a pipe has no offsets */
			n = read(fd, at, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
		/* A short O_DIRECT read has met the end of the file; the next one
		 * would not be aligned. */
		if (done % FILE_BLOCK != 0 && done < len && (fcntl(fd, F_GETFL) & O_DIRECT))
			break;
	}
	return (int64_t)done;
}

static int write_whole(int fd, const void *ptr, size_t len, uint64_t offset)
{
	size_t done = 0;
	size_t stepped_back = SIZE_MAX;
	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)ptr + done, len - done,
		                   (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		done += (size_t)n;
		/* Continue at a block boundary: else O_DIRECT returns EINVAL, where the caller
		 * needs the real error (ENOSPC, EIO). A disk with smaller blocks may write the
		 * same part of a block again and again: it is full. */
		if (done < len && done % FILE_BLOCK != 0 && (fcntl(fd, F_GETFL) & O_DIRECT)) {
			done -= done % FILE_BLOCK;
			if (done == stepped_back)
				return -ENOSPC;
			stepped_back = done;
		}
	}
	return 0;
}

static int real_write(struct file_system *fs, int fd, const void *ptr, size_t len, uint64_t offset)
{
	(void)fs;
	int flags = fcntl(fd, F_GETFL);
	bool turn = flags >= 0 && (flags & O_DSYNC) && fair_lock_take(&flushes, FLUSH_TURN_MS);
	int error = write_whole(fd, ptr, len, offset);
	if (turn)
		fair_lock_release(&flushes);
	return error;
}

static int sync_retry(int (*sync)(int fd), int fd)
{
	int result;
	do
		result = sync(fd);
	while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : 0;
}

static int sync_in_turn(int (*sync)(int fd), int fd)
{
	bool turn = fair_lock_take(&flushes, FLUSH_TURN_MS);
	int error = sync_retry(sync, fd);
	if (turn)
		fair_lock_release(&flushes);
	return error;
}

static int write_out_range(int fd)
{
	return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE_AND_WAIT);
}

/* Writes most of it before it takes the lock, so that the next one waits less. */
static int real_sync_data(struct file_system *fs, int fd)
{
	(void)fs;
	/* Writes the pages in the kernel's cache to the disk, without a flush. The kernel
	 * reports a write error once: so ask first whether the call is supported. */
	int error = sync_file_range(fd, 0, 0, 0) < 0 ? 0 : sync_retry(write_out_range, fd);
	return error != 0 ? error : sync_in_turn(fdatasync, fd);
}

static int real_truncate(struct file_system *fs, int fd, uint64_t size)
{
	(void)fs;
	int result;
	do
		result = ftruncate(fd, (off_t)size);
	while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : 0;
}

static int real_size(struct file_system *fs, int fd, uint64_t *ret_size)
{
	(void)fs;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

static int real_rename(struct file_system *fs, const char *from, const char *to)
{
	(void)fs;
	return rename(from, to) < 0 ? -errno : 0;
}

static int real_remove(struct file_system *fs, const char *path)
{
	(void)fs;
	return unlink(path) < 0 ? -errno : 0;
}

static int real_make_dir(struct file_system *fs, const char *path)
{
	(void)fs;
	if (mkdir(path, 0700) == 0)
		return 0;
	int error = -errno;
	struct stat st;
	if (error == -EEXIST && stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	return error;
}

static int real_sync_dir(struct file_system *fs, const char *path)
{
	(void)fs;
	int fd = open_retry(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int error = sync_in_turn(fsync, fd);
	close(fd);
	return error;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

static int real_list(struct file_system *fs, const char *path,
                     int (*each)(void *user, const char *name), void *user)
{
	(void)fs;
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	int result = 0;
	while (result == 0) {
		errno = 0;
		struct dirent *entry = readdir(dir);
		if (!entry) {
			result = -errno;
			break;
		}
		if (!is_dots(entry->d_name))
			result = each(user, entry->d_name);
	}
	closedir(dir);
	return result;
}

static int real_room(struct file_system *fs, const char *path, uint64_t *ret_bytes)
{
	(void)fs;
	struct statvfs st;
	if (statvfs(path, &st) < 0)
		return -errno;
	/* Some file systems know no blocks. */
	*ret_bytes = st.f_blocks == 0 ? UINT64_MAX : (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}

static int real_lock_dir(struct file_system *fs, const char *path, int *ret_fd)
{
	(void)fs;
	int fd = open_retry(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int result;
	do
		result = flock(fd, LOCK_EX | LOCK_NB);
	while (result < 0 && errno == EINTR);
	if (result < 0) {
		int error = errno == EWOULDBLOCK ? ERR_BUSY : -errno;
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

static const struct file_methods real_methods = {
	.open = real_open,
	.close = real_close,
	.read = real_read,
	.write = real_write,
	.sync_data = real_sync_data,
	.truncate = real_truncate,
	.size = real_size,
	.rename = real_rename,
	.remove = real_remove,
	.make_dir = real_make_dir,
	.sync_dir = real_sync_dir,
	.list = real_list,
	.room = real_room,
	.lock_dir = real_lock_dir,
};

struct file_system *file_system_real(void)
{
	static struct file_system real = { &real_methods };
	return &real;
}

#define FIRST_ROOM 4096u

/* Reads to the end, since the size may be wrong: a pipe, and much of /proc, have a size of 0. */
static int read_on(struct file_system *fs, int fd, size_t max, char **bytes, size_t room,
                   size_t *ret_len)
{
	size_t len = 0;
	int64_t n;
	do {
		if (len == room && len > max)
			return ERR_TOO_LARGE;
		if (len == room) {
			room = room < (max + 1) / 2 ? room * 2 : max + 1;
			char *larger = mem_alloc(room);
			if (!larger)
				return -ENOMEM;
			memcpy(larger, *bytes, len);
			explicit_bzero(*bytes, len); /* it may be a secret */
			mem_free(*bytes);
			*bytes = larger;
		}
		n = fs->methods->read(fs, fd, *bytes + len, room - len, len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
	} while (len == room);
	(*bytes)[len] = '\0';
	*ret_len = len;
	return 0;
}

static int read_open(struct file_system *fs, int fd, size_t max, char **ret_bytes, size_t *ret_len)
{
	uint64_t size = 0;
	int error = fs->methods->size(fs, fd, &size);
	if (error != 0)
		return error;
	if (size > max)
		return ERR_TOO_LARGE;
	/* One byte more than there is: then the first read finds the end. */
	size_t room = size > 0 ? (size_t)size + 1 : max < FIRST_ROOM ? max + 1 : FIRST_ROOM;
	char *bytes = mem_alloc(room);
	if (!bytes)
		return -ENOMEM;
	error = read_on(fs, fd, max, &bytes, room, ret_len);
	if (error != 0)
		mem_free(bytes);
	else
		*ret_bytes = bytes;
	return error;
}

static int read_path(struct file_system *fs, const char *path, int flags, size_t max,
                     char **ret_bytes, size_t *ret_len)
{
	int fd = -1;
	int error = fs->methods->open(fs, path, FILE_READ | flags, &fd);
	if (error != 0)
		return error;
	error = read_open(fs, fd, max, ret_bytes, ret_len);
	fs->methods->close(fs, fd);
	return error;
}

int file_read_whole(struct file_system *fs, const char *path, size_t max, char **ret_bytes,
                    size_t *ret_len)
{
	return read_path(fs, path, 0, max, ret_bytes, ret_len);
}

int file_read_regular(struct file_system *fs, const char *path, size_t max, char **ret_bytes,
                      size_t *ret_len)
{
	return read_path(fs, path, FILE_REGULAR, max, ret_bytes, ret_len);
}

bool file_is_pipe(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

bool file_is_public(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && (st.st_mode & S_IROTH);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return S_ISREG(a->st_mode) && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_is_at(int fd, const char *path)
{
	struct stat opened, named;
	return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && is_same(&opened, &named);
}

bool file_is_same(int fd, int other)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && is_same(&a, &b);
}
