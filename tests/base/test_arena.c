/* arena: pieces do not overlap, limits hold, failures leave what was given. */
#include "base/arena.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	unsigned char *pieces[300];
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		size_t size = i * 7 % 500;
		pieces[i] = arena_alloc(&arena, size);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
		for (size_t j = 0; j < size; j++)
			assert_int_equal(pieces[i][j], 0);
		memset(pieces[i], (int)(i % 251) + 1, size);
	}
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
		for (size_t j = 0; j < i * 7 % 500; j++)
			assert_int_equal(pieces[i][j], i % 251 + 1);
	arena_free(&arena);
	assert_null(arena.blocks);
}

static void a_piece_larger_than_a_block_fits(void **state)
{
	(void)state;
	struct arena arena = { .wipe = true };
	char *small = arena_alloc(&arena, 10);
	char *large = arena_alloc(&arena, 1 << 20);
	assert_non_null(small);
	assert_non_null(large);
	memset(large, 'x', 1 << 20);
	assert_int_equal(small[0], 0);
	arena_free(&arena);
	arena_free(&arena);
}

static void the_cap_is_kept_and_absurd_sizes_are_refused(void **state)
{
	(void)state;
	struct arena arena = { .cap = 100 };
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, 101));
	assert_non_null(arena_alloc(&arena, 64));
	assert_null(arena_alloc(&arena, 64));
	assert_non_null(arena_alloc(&arena, 16));
	arena_free(&arena);
	assert_non_null(arena_alloc(&arena, 64));
	arena_free(&arena);
}

static void copies_end_with_a_nul_even_when_empty(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	struct span empty = arena_copy(&arena, SPAN_EMPTY);
	struct span word = arena_copy(&arena, span_of("wordy", 4));
	assert_non_null(empty.ptr);
	assert_string_equal(empty.ptr, "");
	assert_string_equal(word.ptr, "word");
	assert_int_equal(word.len, 4);
	arena_free(&arena);
}

static void short_memory_is_told_and_harms_nothing(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	char *first = arena_alloc(&arena, 8000);
	assert_non_null(first);
	mem_fail_at(1, true);
	assert_null(arena_alloc(&arena, 8000));
	assert_null(arena_copy(&arena, span_of(first, 500)).ptr);
	mem_fail_at(0, false);
	assert_int_equal(first[7999], 0);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
		cmocka_unit_test(a_piece_larger_than_a_block_fits),
		cmocka_unit_test(the_cap_is_kept_and_absurd_sizes_are_refused),
		cmocka_unit_test(copies_end_with_a_nul_even_when_empty),
		cmocka_unit_test(short_memory_is_told_and_harms_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
