/* The simulated disk itself: what it must keep, and what it must be able to lose. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "support/simfs.h"
#include "support/test.h"

#define TRIES 200u

static unsigned char ones[8192] __attribute__((aligned(4096)));

static int file_make(struct simfs *simfs, const char *path, int flags)
{
	struct file_system *fs = simfs_fs(simfs);
	int fd = -1;

	assert_int_equal(fs->methods->open(fs, path, FILE_READ | FILE_WRITE | FILE_CREATE | flags,
	                                   &fd),
	                 0);
	return fd;
}

static struct simfs *disk_make(void)
{
	struct simfs *simfs = simfs_new(test_seed());
	struct file_system *fs = simfs_fs(simfs);

	memset(ones, 1, sizeof(ones));
	assert_int_equal(fs->methods->make_dir(fs, "d"), 0);
	assert_int_equal(fs->methods->sync_dir(fs, "."), 0);
	return simfs;
}

/* How many of the tries found exactly this many bytes of 1 in d/f; -1: no file. */
static unsigned tries_with(const struct simfs *simfs, int64_t count)
{
	unsigned hits = 0;

	for (uint64_t i = 0; i < TRIES; i++) {
		struct simfs *found = simfs_crash_copy(simfs, i);
		const char *name = simfs_file_name(found, 0);
		int64_t n = name ? 0 : -1;
		for (uint64_t k = 0; name && k < simfs_file_size(found, name); k++)
			n += simfs_file_byte(found, name, k) == 1;
		hits += n == count;
		simfs_free(found);
	}
	return hits;
}

static void test_synced_bytes_survive_every_crash(void **state)
{
	(void)state;
	for (int direct = 0; direct < 2; direct++) {
		struct simfs *simfs = disk_make();
		struct file_system *fs = simfs_fs(simfs);
		int fd = file_make(simfs, "d/f", direct ? FILE_DIRECT | FILE_SYNC_DATA : 0);
		assert_int_equal(fs->methods->write(fs, fd, ones, sizeof(ones), 0), 0);
		if (!direct)
			assert_int_equal(fs->methods->sync_data(fs, fd), 0);
		assert_in_range(tries_with(simfs, -1), 1, TRIES - 1); /* its name is not */
		assert_int_equal(fs->methods->sync_dir(fs, "d"), 0);
		assert_int_equal(tries_with(simfs, sizeof(ones)), TRIES);
		simfs_free(simfs);
	}
}

static void test_bytes_that_were_not_synced_may_go_or_be_garbled(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	int fd = file_make(simfs, "d/f", 0);

	assert_int_equal(fs->methods->sync_dir(fs, "d"), 0);
	assert_int_equal(fs->methods->write(fs, fd, ones, 512, 0), 0);
	unsigned kept = tries_with(simfs, 512), dropped = tries_with(simfs, 0);
	assert_in_range(kept, 1, TRIES - 2);
	assert_in_range(dropped, 1, TRIES - 2);
	assert_true(kept + dropped < TRIES);
	assert_int_equal(tries_with(simfs, -1), 0);
	simfs_free(simfs);
}

static void test_a_rename_is_whole_or_not_at_all(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	unsigned old = 0, new = 0;

	file_make(simfs, "d/a", 0);
	assert_int_equal(fs->methods->sync_dir(fs, "d"), 0);
	assert_int_equal(fs->methods->rename(fs, "d/a", "d/b"), 0);
	for (uint64_t i = 0; i < TRIES; i++) {
		struct simfs *found = simfs_crash_copy(simfs, i);
		assert_non_null(simfs_file_name(found, 0));
		assert_null(simfs_file_name(found, 1));
		old += strcmp(simfs_file_name(found, 0), "d/a") == 0;
		new += strcmp(simfs_file_name(found, 0), "d/b") == 0;
		simfs_free(found);
	}
	assert_true(old > 0 && new > 0 && old + new == TRIES);
	simfs_free(simfs);
}

static void test_a_full_disk_says_enospc_until_room_returns(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	int fd = file_make(simfs, "d/f", 0);

	simfs_set_capacity(simfs, 10000);
	assert_int_equal(fs->methods->write(fs, fd, ones, 8192, 0), 0);
	assert_int_equal(fs->methods->write(fs, fd, ones, 8192, 8192), -ENOSPC);
	assert_int_equal(fs->methods->write(fs, fd, ones, 8192, 0), 0); /* in place */
	assert_int_equal(fs->methods->close(fs, fd), 0);
	assert_int_equal(fs->methods->remove(fs, "d/f"), 0);
	fd = file_make(simfs, "d/g", 0);
	assert_int_equal(fs->methods->write(fs, fd, ones, 8192, 0), 0);
	simfs_free(simfs);
}

static void test_the_planned_call_fails(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	int fd = file_make(simfs, "d/f", 0);

	simfs_fail_at(simfs, SIMFS_EIO, 2, false);
	assert_int_equal(fs->methods->write(fs, fd, ones, 512, 0), 0);
	assert_int_equal(fs->methods->write(fs, fd, ones, 512, 512), -EIO);
	assert_int_equal(fs->methods->write(fs, fd, ones, 512, 512), 0);
	simfs_fail_at(simfs, SIMFS_ENOSPC, 1, true);
	assert_int_equal(fs->methods->write(fs, fd, ones, 512, 0), -ENOSPC);
	assert_int_equal(fs->methods->sync_data(fs, fd), -ENOSPC);
	assert_true(fs->methods->read(fs, fd, ones, 512, 0) == -EIO);
	assert_int_equal(simfs_faults(simfs), 3);
	simfs_free(simfs);
}

static void test_a_lock_is_held_until_the_process_dies(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	int fd = -1;

	assert_int_equal(fs->methods->lock_dir(fs, "none", &fd), -ENOENT);
	assert_int_equal(fs->methods->lock_dir(fs, "d", &fd), 0);
	assert_int_equal(fs->methods->lock_dir(fs, "d", &fd), ERR_BUSY);
	simfs_kill(simfs);
	assert_int_equal(fs->methods->lock_dir(fs, "d", &fd), 0);
	assert_int_equal(fs->methods->close(fs, fd), 0);
	assert_int_equal(fs->methods->lock_dir(fs, "d", &fd), 0);
	simfs_free(simfs);
}

static void test_copies_do_not_share_what_is_written_later(void **state)
{
	(void)state;
	struct simfs *simfs = disk_make();
	struct file_system *fs = simfs_fs(simfs);
	int fd = file_make(simfs, "d/f", FILE_SYNC_DATA);

	assert_int_equal(fs->methods->write(fs, fd, ones, 4096, 0), 0);
	struct simfs *copy = simfs_copy(simfs);
	simfs_flip_bit(copy, "d/f", 8);
	assert_int_equal(simfs_file_byte(copy, "d/f", 1), 0);
	assert_int_equal(simfs_file_byte(simfs, "d/f", 1), 1);
	simfs_cut_file(copy, "d/f", 100);
	assert_int_equal(simfs_file_size(simfs, "d/f"), 4096);
	assert_int_equal(simfs_file_size(copy, "d/f"), 100);
	simfs_free(copy);
	simfs_free(simfs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_synced_bytes_survive_every_crash),
		cmocka_unit_test(test_bytes_that_were_not_synced_may_go_or_be_garbled),
		cmocka_unit_test(test_a_rename_is_whole_or_not_at_all),
		cmocka_unit_test(test_a_full_disk_says_enospc_until_room_returns),
		cmocka_unit_test(test_the_planned_call_fails),
		cmocka_unit_test(test_a_lock_is_held_until_the_process_dies),
		cmocka_unit_test(test_copies_do_not_share_what_is_written_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
