/* file: the real file system behind the seam. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "sys/file.h"

static struct file_system *fs;
static char dir[256];

static int make(void **state)
{
	(void)state;
	fs = file_system_real();
	test_dir_make(dir);
	return 0;
}

static int destroy(void **state)
{
	(void)state;
	test_dir_remove(dir);
	return 0;
}

static const char *in_dir(const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int open_file(const char *name, int flags)
{
	int fd = -1;
	assert_int_equal(fs->methods->open(fs, in_dir(name), flags, &fd), 0);
	return fd;
}

static void bytes_come_back_as_written(void **state)
{
	(void)state;
	int fd = open_file("a", FILE_READ | FILE_WRITE | FILE_CREATE);
	assert_int_equal(fs->methods->write(fs, fd, "hello", 5, 10), 0);
	assert_int_equal(fs->methods->sync_data(fs, fd), 0);
	uint64_t size = 0;
	assert_int_equal(fs->methods->size(fs, fd, &size), 0);
	assert_int_equal(size, 15);
	char bytes[32];
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(fs->methods->read(fs, fd, bytes, sizeof(bytes), 8), 7);
	assert_memory_equal(bytes, "\0\0hello", 7);
	assert_int_equal(fs->methods->read(fs, fd, bytes, sizeof(bytes), 100), 0);
	assert_int_equal(fs->methods->truncate(fs, fd, 12), 0);
	assert_int_equal(fs->methods->read(fs, fd, bytes, sizeof(bytes), 10), 2);
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

static void direct_synced_writes_work_or_fall_back(void **state)
{
	(void)state;
	int fd = open_file("d", FILE_READ | FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE |
	                                FILE_DIRECT | FILE_SYNC_DATA);
	cleanup_free char *block = mem_aligned(FILE_BLOCK, 4 * FILE_BLOCK);
	assert_non_null(block);
	memset(block, 'b', 2 * FILE_BLOCK);
	assert_int_equal(fs->methods->write(fs, fd, block, 2 * FILE_BLOCK, FILE_BLOCK), 0);
	memset(block, 0xff, 4 * FILE_BLOCK);
	assert_int_equal(fs->methods->read(fs, fd, block, 4 * FILE_BLOCK, 0), 3 * FILE_BLOCK);
	assert_int_equal(block[0], 0);
	assert_int_equal(block[FILE_BLOCK], 'b');
	assert_int_equal(block[3 * FILE_BLOCK - 1], 'b');
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

static void direct_read_stops_at_an_odd_end(void **state)
{
	(void)state;
	int fd = open_file("odd", FILE_WRITE | FILE_CREATE);
	assert_int_equal(fs->methods->write(fs, fd, "tail", 4, FILE_BLOCK), 0);
	assert_int_equal(fs->methods->close(fs, fd), 0);
	fd = open_file("odd", FILE_READ | FILE_DIRECT);
	cleanup_free char *block = mem_aligned(FILE_BLOCK, 3 * FILE_BLOCK);
	assert_non_null(block);
	assert_int_equal(fs->methods->read(fs, fd, block, 3 * FILE_BLOCK, 0), FILE_BLOCK + 4);
	assert_memory_equal(block + FILE_BLOCK, "tail", 4);
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

static void exclusive_create_refuses_what_exists(void **state)
{
	(void)state;
	int fd = open_file("x", FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE);
	assert_int_equal(fs->methods->close(fs, fd), 0);
	fd = 77;
	assert_int_equal(fs->methods->open(fs, in_dir("x"),
	                                   FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &fd),
	                 -EEXIST);
	assert_int_equal(fs->methods->open(fs, in_dir("none"), FILE_READ, &fd), -ENOENT);
	assert_int_equal(fd, 77);
}

static void files_are_private_and_do_not_leak_to_children(void **state)
{
	(void)state;
	int fd = open_file("p", FILE_WRITE | FILE_CREATE);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0077, 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

static void second_lock_is_busy_until_the_first_closes(void **state)
{
	(void)state;
	int first = -1, second = -1;
	assert_int_equal(fs->methods->lock_dir(fs, dir, &first), 0);
	assert_int_equal(fs->methods->lock_dir(fs, dir, &second), ERR_BUSY);
	assert_int_equal(second, -1);
	assert_int_equal(fs->methods->close(fs, first), 0);
	assert_int_equal(fs->methods->lock_dir(fs, dir, &second), 0);
	assert_true(fcntl(second, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fs->methods->close(fs, second), 0);
}

static void only_a_folder_that_is_there_is_locked(void **state)
{
	(void)state;
	int fd = -1;
	fs->methods->close(fs, open_file("file", FILE_WRITE | FILE_CREATE));
	assert_int_equal(fs->methods->lock_dir(fs, in_dir("file"), &fd), -ENOTDIR);
	assert_int_equal(fs->methods->lock_dir(fs, in_dir("none"), &fd), -ENOENT);
	assert_int_equal(fd, -1);
}

static int count_name(void *user, const char *name)
{
	unsigned *seen = user;
	assert_true(strcmp(name, "one") == 0 || strcmp(name, "two") == 0);
	(*seen)++;
	return 0;
}

static int stop_at_first(void *user, const char *name)
{
	(void)name;
	(*(unsigned *)user)++;
	return 5;
}

static void directories_list_rename_remove(void **state)
{
	(void)state;
	char from[512];
	assert_int_equal(fs->methods->make_dir(fs, dir), 0);
	fs->methods->close(fs, open_file("one", FILE_WRITE | FILE_CREATE));
	fs->methods->close(fs, open_file("three", FILE_WRITE | FILE_CREATE));
	snprintf(from, sizeof(from), "%s", in_dir("three"));
	assert_int_equal(fs->methods->rename(fs, from, in_dir("two")), 0);
	assert_int_equal(fs->methods->sync_dir(fs, dir), 0);
	unsigned seen = 0;
	assert_int_equal(fs->methods->list(fs, dir, count_name, &seen), 0);
	assert_int_equal(seen, 2);
	seen = 0;
	assert_int_equal(fs->methods->list(fs, dir, stop_at_first, &seen), 5);
	assert_int_equal(seen, 1);
	assert_int_equal(fs->methods->remove(fs, in_dir("one")), 0);
	assert_int_equal(fs->methods->remove(fs, in_dir("one")), -ENOENT);
	assert_int_equal(fs->methods->make_dir(fs, in_dir("two")), -ENOTDIR);
	assert_int_equal(fs->methods->make_dir(fs, in_dir("a/b")), -ENOENT);
	assert_int_equal(fs->methods->list(fs, in_dir("none"), count_name, &seen), -ENOENT);
	assert_int_equal(fs->methods->sync_dir(fs, in_dir("none")), -ENOENT);
}

/* /dev/full: a device that has never any room. */
static void full_device_is_said_so(void **state)
{
	(void)state;
	int fd = -1;
	if (fs->methods->open(fs, "/dev/full", FILE_WRITE, &fd) < 0)
		skip();
	assert_int_equal(fs->methods->write(fs, fd, "x", 1, 0), -ENOSPC);
	assert_int_equal(fs->methods->close(fs, fd), 0);
	assert_int_equal(fs->methods->close(fs, fd), -EBADF);
}

static void put(const char *name, const char *text)
{
	int fd = open_file(name, FILE_WRITE | FILE_CREATE);
	assert_int_equal(fs->methods->write(fs, fd, text, strlen(text), 0), 0);
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

/* And a pipe that nobody writes to is not waited for. */
static void only_a_regular_file_is_opened_as_one(void **state)
{
	(void)state;
	int fd = -1;
	put("file", "text");
	assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
	assert_int_equal(mkdir(in_dir("folder"), 0700), 0);
	for (int writes = 0; writes < 2; writes++) {
		int flags = FILE_REGULAR | FILE_READ | (writes ? FILE_WRITE : 0);
		assert_int_equal(fs->methods->open(fs, in_dir("pipe"), flags, &fd), ERR_KIND);
		assert_int_equal(fs->methods->open(fs, in_dir("folder"), flags, &fd), ERR_KIND);
		assert_int_equal(fs->methods->open(fs, "/dev/null", flags, &fd), ERR_KIND);
		fd = open_file("file", flags);
		assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
		assert_int_equal(fs->methods->close(fs, fd), 0);
	}
}

static void only_a_regular_file_is_read_as_one(void **state)
{
	(void)state;
	char *bytes = NULL;
	size_t len = 0;
	put("file", "text");
	assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
	assert_int_equal(mkdir(in_dir("folder"), 0700), 0);
	static const char *const others[] = { "pipe", "folder" };
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_int_equal(file_read_regular(fs, in_dir(others[i]), 1, &bytes, &len),
		                 ERR_KIND);
	assert_int_equal(file_read_regular(fs, "/dev/null", 1, &bytes, &len), ERR_KIND);
	assert_int_equal(file_read_regular(fs, in_dir("none"), 4, &bytes, &len), -ENOENT);
	assert_null(bytes);
	assert_int_equal(file_read_regular(fs, in_dir("file"), 4, &bytes, &len), 0);
	assert_string_equal(bytes, "text");
	mem_free(bytes);
}

static void one_file_by_two_names_is_the_same(void **state)
{
	(void)state;
	char target[512];
	put("file", "text");
	put("other", "text");
	snprintf(target, sizeof(target), "%s", in_dir("file"));
	assert_int_equal(symlink(target, in_dir("link")), 0);
	int fd = open_file("file", FILE_READ), link = open_file("link", FILE_READ);
	int other = open_file("other", FILE_READ), null = -1;
	assert_int_equal(fs->methods->open(fs, "/dev/null", FILE_READ, &null), 0);
	assert_true(file_is_at(fd, in_dir("file")));
	assert_true(file_is_at(fd, in_dir("link")));
	assert_false(file_is_at(fd, in_dir("other")));
	assert_false(file_is_at(fd, in_dir("none")));
	assert_false(file_is_at(null, "/dev/null"));
	assert_true(file_is_same(fd, link));
	assert_false(file_is_same(fd, other));
	assert_false(file_is_same(null, null));
	assert_false(file_is_same(fd, -1));
	const int all[] = { fd, link, other, null };
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(fs->methods->close(fs, all[i]), 0);
}

/* What failed does not stand in the way of the next one. */
static void failed_flush_is_over(void **state)
{
	(void)state;
	int full = -1;
	if (fs->methods->open(fs, "/dev/full", FILE_WRITE | FILE_SYNC_DATA, &full) < 0)
		skip();
	int fd = open_file("a", FILE_WRITE | FILE_CREATE | FILE_SYNC_DATA);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fs->methods->write(fs, full, "x", 1, 0), -ENOSPC);
		assert_int_equal(fs->methods->write(fs, fd, "x", 1, 0), 0);
		assert_int_equal(fs->methods->sync_data(fs, full), -EINVAL);
		assert_int_equal(fs->methods->sync_data(fs, fd), 0);
		assert_int_equal(fs->methods->sync_data(fs, -1), -EBADF);
		assert_int_equal(fs->methods->sync_dir(fs, dir), 0);
	}
	assert_int_equal(fs->methods->close(fs, full), 0);
	assert_int_equal(fs->methods->close(fs, fd), 0);
}

static void a_whole_file_is_read_up_to_its_limit(void **state)
{
	(void)state;
	char *bytes = NULL;
	size_t len = 0;
	put("six", "sixsix");
	assert_int_equal(file_read_whole(fs, in_dir("six"), 6, &bytes, &len), 0);
	assert_int_equal(len, 6);
	assert_string_equal(bytes, "sixsix");
	bytes = mem_free(bytes);
	assert_int_equal(file_read_whole(fs, in_dir("six"), 5, &bytes, &len), ERR_TOO_LARGE);
	assert_int_equal(file_read_whole(fs, in_dir("none"), 5, &bytes, &len), -ENOENT);
	assert_int_equal(file_read_whole(fs, dir, 1 << 20, &bytes, &len), -EISDIR);
	mem_fail_at(1, false);
	assert_int_equal(file_read_whole(fs, in_dir("six"), 6, &bytes, &len), -ENOMEM);
	mem_fail_at(0, false);
	assert_null(bytes);
}

static void write_all(int fd, const char *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, bytes + at, len - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
}

/* The path of a pipe with these bytes in it, as a shell's <(…) gives it. */
static int pipe_of(const char *bytes, size_t len, char ret_path[static 64])
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	write_all(fds[1], bytes, len);
	close(fds[1]);
	snprintf(ret_path, 64, "/proc/self/fd/%d", fds[0]);
	return fds[0];
}

static void what_has_no_size_is_read_to_its_end(void **state)
{
	(void)state;
	static char text[60000];
	static const size_t lens[] = { 1, 4095, 4096, 4097, sizeof(text) };
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		char path[64], *bytes = NULL;
		size_t len = 0;
		int fd = pipe_of(text, lens[i], path);
		assert_true(file_is_pipe(path));
		assert_int_equal(file_read_whole(fs, path, lens[i], &bytes, &len), 0);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(bytes, text, len);
		assert_int_equal(bytes[len], 0);
		mem_free(bytes);
		close(fd);
	}
	char *bytes = NULL;
	size_t len = 0;
	assert_int_equal(file_read_whole(fs, "/proc/self/status", 1 << 20, &bytes, &len), 0);
	assert_true(len > 100);
	assert_false(file_is_pipe("/proc/self/status"));
	mem_free(bytes);
}

static void a_pipe_with_more_than_its_limit_is_refused(void **state)
{
	(void)state;
	static const char text[10000];
	static const size_t limits[] = { 0, 1, 4096, 9999 };
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		char path[64], *bytes = NULL;
		size_t len = 0;
		int fd = pipe_of(text, sizeof(text), path);
		assert_int_equal(file_read_whole(fs, path, limits[i], &bytes, &len), ERR_TOO_LARGE);
		assert_null(bytes);
		close(fd);
	}
}

static void a_pipe_is_read_whole_or_not_at_all_without_memory(void **state)
{
	(void)state;
	static const char text[20000];
	int error = -ENOMEM;
	for (unsigned long n = 1; error != 0; n++) {
		char path[64], *bytes = NULL;
		size_t len = 0;
		int fd = pipe_of(text, sizeof(text), path);
		mem_fail_at(n, false);
		error = file_read_whole(fs, path, sizeof(text), &bytes, &len);
		mem_fail_at(0, false);
		assert_true(error == 0 ? len == sizeof(text) : error == -ENOMEM && !bytes);
		assert_true(n < 10);
		mem_free(bytes);
		close(fd);
	}
}

static void a_file_that_everybody_may_read_is_found(void **state)
{
	(void)state;
	put("key", "k");
	assert_false(file_is_public(in_dir("key")));
	assert_int_equal(chmod(in_dir("key"), 0644), 0);
	assert_true(file_is_public(in_dir("key")));
	assert_false(file_is_public(in_dir("none")));
}

static int get_files(void **state)
{
	(void)state;
	fs = file_system_real();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_come_back_as_written, make, destroy),
		cmocka_unit_test_setup_teardown(direct_synced_writes_work_or_fall_back, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(direct_read_stops_at_an_odd_end, make, destroy),
		cmocka_unit_test_setup_teardown(exclusive_create_refuses_what_exists, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(files_are_private_and_do_not_leak_to_children, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(second_lock_is_busy_until_the_first_closes, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(only_a_folder_that_is_there_is_locked, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(directories_list_rename_remove, make, destroy),
		cmocka_unit_test_setup_teardown(full_device_is_said_so, make, destroy),
		cmocka_unit_test_setup_teardown(only_a_regular_file_is_opened_as_one, make,
		                                destroy),
		cmocka_unit_test_setup_teardown(only_a_regular_file_is_read_as_one, make, destroy),
		cmocka_unit_test_setup_teardown(one_file_by_two_names_is_the_same, make, destroy),
		cmocka_unit_test_setup_teardown(failed_flush_is_over, make, destroy),
		cmocka_unit_test_setup_teardown(a_whole_file_is_read_up_to_its_limit, make,
		                                destroy),
		cmocka_unit_test(what_has_no_size_is_read_to_its_end),
		cmocka_unit_test(a_pipe_with_more_than_its_limit_is_refused),
		cmocka_unit_test(a_pipe_is_read_whole_or_not_at_all_without_memory),
		cmocka_unit_test_setup_teardown(a_file_that_everybody_may_read_is_found, make,
		                                destroy),
	};
	return cmocka_run_group_tests(tests, get_files, NULL);
}
