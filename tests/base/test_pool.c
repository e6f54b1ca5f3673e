/* Buffers come back, the last one first; those beyond the limit and large ones do not. */
#include "base/pool.h"

#include <string.h>

#include "support/test.h"

static struct pool pool;

static struct input *take(void)
{
	struct input *input;
	assert_int_equal(pool_take_input(&pool, 100, &input), 0);
	assert_int_equal(input->refs, 1);
	assert_int_equal(input->room, POOL_INPUT_ROOM);
	return input;
}

static void the_last_input_that_came_back_is_taken_first(void **state)
{
	(void)state;
	struct input *first = take(), *second = take();
	assert_ptr_not_equal(first, second);
	pool_drop_input(&pool, first);
	pool_drop_input(&pool, second);
	assert_ptr_equal(take(), second);
	assert_ptr_equal(take(), first);
	pool_drop_input(&pool, first);
	pool_drop_input(&pool, second);
	pool_free(&pool);
}

static void an_input_comes_back_when_nobody_needs_it(void **state)
{
	(void)state;
	struct input *input = take();
	input->refs++;
	pool_drop_input(&pool, input);
	assert_int_equal(pool.inputs.count, 0);
	pool_drop_input(&pool, input);
	assert_int_equal(pool.inputs.count, 1);
	pool_free(&pool);
	assert_int_equal(pool.inputs.count, 0);
}

static void only_so_many_are_kept(void **state)
{
	(void)state;
	static struct input *inputs[POOL_SPARE_MAX + 3];
	for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
		inputs[i] = take();
	for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
		pool_drop_input(&pool, inputs[i]);
	assert_int_equal(pool.inputs.count, POOL_SPARE_MAX);
	for (size_t i = POOL_SPARE_MAX; i-- > 0;) {
		assert_ptr_equal(take(), inputs[i]);
		pool_drop_input(&pool, inputs[i]);
		struct input *again = take();
		assert_ptr_equal(again, inputs[i]);
	}
	assert_int_equal(pool.inputs.count, 0);
	for (size_t i = 0; i < POOL_SPARE_MAX; i++)
		pool_drop_input(&pool, inputs[i]);
	pool_free(&pool);
}

/* As wire_io.c does it: what was sent is stepped over, and cleared when nothing is left. */
static void a_peer_that_is_always_a_little_behind_does_not_make_its_output_grow(void **state)
{
	(void)state;
	static char bytes[1000];
	struct outgoing out = { 0 };
	unsigned char written = 0, sent = 0;
	for (int i = 0; i < 100000; i++) {
		memset(bytes, written++, sizeof(bytes));
		assert_int_equal(outgoing_append(&pool, &out, bytes, sizeof(bytes)), 0);
		if (i < 5)
			continue; /* so many are always behind */
		for (size_t at = 0; at < sizeof(bytes); at += 250, out.at += 250)
			assert_int_equal(out.buffer->bytes[out.at], (char)sent);
		sent++;
		assert_int_equal(outgoing_pending(&out), 5 * sizeof(bytes));
		assert_true(out.buffer->room <= 4 * 6 * sizeof(bytes));
	}
	outgoing_clear(&pool, &out);
	assert_int_equal(pool.output_bytes, 0);
	pool_free(&pool);
}

static void what_is_to_be_sent_outlives_a_move_to_a_larger_output(void **state)
{
	(void)state;
	static char bytes[POOL_OUTPUT_ROOM];
	struct outgoing out = { 0 };
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(outgoing_append(&pool, &out, "head", 4), 0);
	assert_int_equal(outgoing_append(&pool, &out, bytes, sizeof(bytes)), 0);
	assert_int_equal(outgoing_pending(&out), 4 + sizeof(bytes));
	assert_memory_equal(out.buffer->bytes, "headx", 5);
	assert_int_equal(pool.outputs.count, 1); /* the ordinary one */
	assert_true(pool.output_bytes > POOL_OUTPUT_ROOM);
	outgoing_clear(&pool, &out);
	assert_int_equal(pool.outputs.count, 1);
	assert_int_equal(pool.output_bytes, 0);
	pool_free(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_input_that_came_back_is_taken_first),
		cmocka_unit_test(an_input_comes_back_when_nobody_needs_it),
		cmocka_unit_test(only_so_many_are_kept),
		cmocka_unit_test(
			a_peer_that_is_always_a_little_behind_does_not_make_its_output_grow),
		cmocka_unit_test(what_is_to_be_sent_outlives_a_move_to_a_larger_output),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
