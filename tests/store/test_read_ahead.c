/* read_ahead: what it gives is what stands in the file, whatever it was asked for before. */
#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/local/journal/format.h"
#include "store/local/journal/read_ahead.h"

#define BLOCKS 700u /* 2.7 MiB: more than two pieces */
#define SIZE ((size_t)BLOCKS * FORMAT_BLOCK)

struct state {
	char dir[256], path[300];
	struct file_system *fs;
	int fd;
	unsigned char *content, *into;
	struct read_ahead *ahead;
};

static int begin(void **ret_state)
{
	struct state *state = mem_zalloc(1, sizeof(*state));
	uint64_t seed = test_seed();

	state->fs = file_system_real();
	test_dir_make(state->dir);
	snprintf(state->path, sizeof(state->path), "%s/file", state->dir);
	state->content = mem_aligned(FORMAT_BLOCK, SIZE);
	state->into = mem_aligned(FORMAT_BLOCK, SIZE);
	for (size_t i = 0; i < SIZE; i++)
		state->content[i] = (unsigned char)test_random(&seed);
	assert_int_equal(state->fs->methods->open(state->fs, state->path,
	                                          FILE_READ | FILE_WRITE | FILE_CREATE, &state->fd),
	                 0);
	assert_int_equal(state->fs->methods->write(state->fs, state->fd, state->content, SIZE, 0),
	                 0);
	assert_int_equal(read_ahead_new(state->fs, &state->ahead), 0);
	*ret_state = state;
	return 0;
}

static int end(void **ret_state)
{
	struct state *state = *ret_state;

	read_ahead_free(state->ahead);
	state->fs->methods->close(state->fs, state->fd);
	test_dir_remove(state->dir);
	mem_free(state->content);
	mem_free(state->into);
	mem_free(state);
	return 0;
}

static void read_and_compare(struct state *state, size_t len, uint64_t offset, size_t next)
{
	size_t there = offset >= SIZE ? 0 : SIZE - offset < len ? SIZE - offset : len;

	memset(state->into, 0x5a, SIZE);
	int64_t n = read_ahead_read(state->ahead, state->fd, state->into, len, offset, next);
	assert_int_equal(n, there);
	assert_memory_equal(state->into, state->content + (offset < SIZE ? offset : 0), there);
}

static void test_reads_in_order_give_the_file(void **ret_state)
{
	struct state *state = *ret_state;

	for (size_t at = 0; at < SIZE; at += READ_AHEAD_PIECE)
		read_and_compare(state, READ_AHEAD_PIECE, at, READ_AHEAD_PIECE);
	read_and_compare(state, FORMAT_BLOCK, SIZE, 0);
}

/* More, less, and something else than was asked for. */
static void test_reads_that_differ_from_what_was_asked_for(void **ret_state)
{
	struct state *state = *ret_state;
	uint64_t random = test_seed();
	uint64_t at = 0;

	for (uint32_t i = 0; i < 400; i++) {
		size_t len = (1 + test_random_below(&random, BLOCKS)) * FORMAT_BLOCK;
		size_t next = test_random_below(&random, BLOCKS) * FORMAT_BLOCK;
		read_and_compare(state, len, at, next < READ_AHEAD_PIECE ? next : READ_AHEAD_PIECE);
		at = test_random_below(&random, 4)
		             ? at + len
		             : test_random_below(&random, BLOCKS) * FORMAT_BLOCK;
		if (at >= SIZE)
			at = 0;
		if (i % 50 == 49)
			read_ahead_drop(state->ahead);
	}
}

/* Of another file with the same number, and of one that cannot be read. */
static void test_what_was_read_ahead_is_of_its_file_only(void **ret_state)
{
	struct state *state = *ret_state;
	struct file_system *fs = state->fs;
	int other;

	read_and_compare(state, FORMAT_BLOCK, 0, FORMAT_BLOCK);
	read_ahead_drop(state->ahead);
	assert_int_equal(fs->methods->open(fs, state->dir, FILE_READ, &other), 0);
	assert_int_equal(read_ahead_read(state->ahead, other, state->into, FORMAT_BLOCK,
	                                 FORMAT_BLOCK, FORMAT_BLOCK),
	                 -EISDIR);
	read_and_compare(state, FORMAT_BLOCK, FORMAT_BLOCK, 0);
	fs->methods->close(fs, other);
}

/* The disk fails where nobody has asked yet, and again when it is asked. */
static int64_t read_fails(struct file_system *fs, int fd, void *ptr, size_t len, uint64_t offset)
{
	return offset > 0 ? -EIO : file_system_real()->methods->read(fs, fd, ptr, len, offset);
}

static void test_what_could_not_be_read_ahead_is_told_when_it_is_wanted(void **ret_state)
{
	struct state *state = *ret_state;
	struct file_methods methods = *file_system_real()->methods;
	struct file_system bad = *file_system_real();
	struct read_ahead *ahead;

	methods.read = read_fails;
	bad.methods = &methods;
	assert_int_equal(read_ahead_new(&bad, &ahead), 0);
	assert_int_equal(read_ahead_read(ahead, state->fd, state->into, FORMAT_BLOCK, 0,
	                                 FORMAT_BLOCK),
	                 FORMAT_BLOCK);
	assert_int_equal(read_ahead_read(ahead, state->fd, state->into, FORMAT_BLOCK, FORMAT_BLOCK,
	                                 FORMAT_BLOCK),
	                 -EIO);
	read_ahead_free(ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reads_in_order_give_the_file, begin, end),
		cmocka_unit_test_setup_teardown(test_reads_that_differ_from_what_was_asked_for,
		                                begin, end),
		cmocka_unit_test_setup_teardown(
			test_what_could_not_be_read_ahead_is_told_when_it_is_wanted, begin, end),
		cmocka_unit_test_setup_teardown(test_what_was_read_ahead_is_of_its_file_only, begin,
		                                end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
