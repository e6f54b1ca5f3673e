/* The map against an array that is searched: small, large, and across the split. */
#include "base/map.h"

#include "base/mem.h"
#include "support/test.h"

struct item {
	uint64_t key;
	uint32_t key_end;
	uint32_t value;
};

#define KEYS 6000u

struct model {
	struct map map;
	uint32_t key_bytes;
	uint32_t values[KEYS]; /* 0: not there */
};

/* Keys that are neighbours, far apart, and differ in their end alone. */
static struct item key_of(const struct model *model, uint32_t i)
{
	struct item item = { .key = (uint64_t)(i / 4) * UINT64_C(0x100000001) + 1 };
	if (model->key_bytes == 12)
		item.key_end = i % 4;
	else
		item.key = item.key * 4 + i % 4;
	return item;
}

static void compare(const struct model *model)
{
	uint64_t count = 0;
	map_check(&model->map);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct item key = key_of(model, i);
		const struct item *item = map_find(&model->map, &key);
		assert_int_equal(item ? item->value : 0, model->values[i]);
		count += item != NULL;
	}
	assert_int_equal(model->map.count, count);
}

static void put(struct model *model, uint32_t i, uint32_t value)
{
	struct item key = key_of(model, i);
	struct item *item = map_put(&model->map, &key);
	assert_non_null(item);
	assert_int_equal(item->value, model->values[i]);
	item->value = model->values[i] = value;
}

static void take(struct model *model, uint32_t i)
{
	struct item key = key_of(model, i);
	assert_int_equal(map_remove(&model->map, &key), model->values[i] != 0);
	model->values[i] = 0;
}

static void random_history(uint32_t key_bytes, uint32_t keys)
{
	uint64_t random = test_seed();
	struct model *model = mem_zalloc(1, sizeof(*model));
	assert_non_null(model);
	model->key_bytes = key_bytes;
	map_init(&model->map, sizeof(struct item), key_bytes);
	compare(model);
	for (uint32_t step = 0; step < 40000; step++) {
		uint32_t i = (uint32_t)test_random_below(&random, keys);
		if (test_random_below(&random, 3) > 0)
			put(model, i, step + 1);
		else
			take(model, i);
		if (step % 4000 == 0)
			compare(model);
	}
	compare(model);
	map_free(&model->map);
	memset(model->values, 0, sizeof(model->values));
	compare(model);
	put(model, 1, 7);
	map_free(&model->map);
	mem_free(model);
}

static void a_small_map_finds_what_was_put_and_no_more(void **state)
{
	(void)state;
	random_history(8, 100);
	random_history(12, 100);
}

static void a_large_map_finds_what_was_put_and_no_more(void **state)
{
	(void)state;
	random_history(8, KEYS);
	random_history(12, KEYS);
}

static bool is_odd(const void *item, void *user)
{
	(void)user;
	return ((const struct item *)item)->value % 2 == 1;
}

static void a_sweep_removes_what_is_over_and_gives_memory_back(void **state)
{
	(void)state;
	struct model *model = mem_zalloc(1, sizeof(*model));
	assert_non_null(model);
	model->key_bytes = 8;
	map_init(&model->map, sizeof(struct item), 8);
	for (uint32_t i = 0; i < KEYS; i++)
		put(model, i, i + 1);
	uint64_t removed = 0, full = map_bytes(&model->map);
	for (uint32_t i = 0; i < 100; i++)
		removed += map_sweep(&model->map, 2000, is_odd, NULL);
	assert_int_equal(removed, KEYS / 2);
	for (uint32_t i = 0; i < KEYS; i += 2)
		model->values[i] = 0;
	compare(model);
	for (uint32_t i = 0; i < KEYS; i++)
		take(model, i);
	for (uint32_t i = 0; i < 100; i++)
		map_sweep(&model->map, 2000, is_odd, NULL);
	assert_int_equal(model->map.slots, 0);
	assert_true(map_bytes(&model->map) < full);
	map_free(&model->map);
	mem_free(model);
}

/* Every allocation failing in turn, the one of the split too: nothing changes. */
static void without_memory_nothing_changes(void **state)
{
	(void)state;
	struct model *model = mem_zalloc(1, sizeof(*model));
	assert_non_null(model);
	model->key_bytes = 8;
	map_init(&model->map, sizeof(struct item), 8);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct item key = key_of(model, i);
		mem_fail_at(1, true);
		struct item *item = map_put(&model->map, &key);
		mem_fail_at(0, false);
		if (item) {
			item->value = model->values[i] = i + 1;
		} else {
			assert_null(map_find(&model->map, &key));
			assert_int_equal(map_reserve(&model->map, &key), 0);
			mem_fail_at(1, true);
			item = map_put(&model->map, &key); /* reserved: it cannot fail */
			mem_fail_at(0, false);
			assert_non_null(item);
			item->value = model->values[i] = i + 1;
		}
	}
	compare(model);
	map_free(&model->map);
	mem_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_map_finds_what_was_put_and_no_more),
		cmocka_unit_test(a_large_map_finds_what_was_put_and_no_more),
		cmocka_unit_test(a_sweep_removes_what_is_over_and_gives_memory_back),
		cmocka_unit_test(without_memory_nothing_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
