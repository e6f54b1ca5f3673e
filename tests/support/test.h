/*
 * test: cmocka with the headers it wants, and the knobs that all tests share.
 *
 * STILE_TEST_SEED   seed of random tests; without it a fixed one, so that the
 *                   fast tier is the same everywhere
 * STILE_TEST_SCALE  factor on the counts of random tests, 1 is the fast tier
 *
 * A random test prints its seed when it fails: use test_seed() for the seed and
 * test_note_seed() in the failure message, or run the body under cmocka's
 * teardown that calls it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

uint64_t test_seed(void);
uint64_t test_scale(uint64_t count); /* count times STILE_TEST_SCALE, at least 1 */

/* The step of a loop over everything: 1, or `step` where STILE_TEST_SCALE is below 1, as
 * under sanitizers. */
uint64_t test_stride(uint64_t step);

/* A small generator (splitmix64): the state is the seed. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Even enough for tests; limit at least 1. */
static inline uint64_t test_random_below(uint64_t *state, uint64_t limit)
{
	return test_random(state) % limit;
}

/* The seed in words, for failure messages: "STILE_TEST_SEED=…". */
const char *test_note_seed(uint64_t seed);

/* A fresh directory under the system's place for temporary files; removed,
 * with what is in it, by test_dir_remove(). */
void test_dir_make(char ret_path[static 256]);
void test_dir_remove(const char *path);
