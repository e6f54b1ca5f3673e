/* cells against an array, over a time that the test sets; and values under codes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/local/cells.h"
#include "support/test.h"

#define KEYS 20000u
#define START_MS (TICKET_EPOCH_MS + UINT64_C(1000000000))

struct model_cell {
	bool there;
	struct cell cell;
};

struct history {
	struct cells *cells;
	uint64_t seed, random, now_ms;
	uint64_t segment; /* of what is put now */
	uint32_t offset;
	struct model_cell model[KEYS];
};

static struct digest digest_of(const struct history *history, uint64_t key)
{
	uint64_t state = history->seed * UINT64_C(1000003) + key * UINT64_C(0xd1342543de82ef95);
	uint64_t first = test_random(&state);

	return (struct digest){ { first, test_random(&state) } };
}

static bool is_live(const struct history *history, const struct model_cell *model)
{
	return model->there && !cell_is_over(&model->cell, history->now_ms);
}

/* What is over may have been swept, or not. */
static bool find(struct history *history, uint64_t key, struct table_probe *ret_probe,
                 struct cell *ret_cell)
{
	const struct model_cell *model = &history->model[key];
	struct digest digest = digest_of(history, key);

	*ret_probe = cells_probe(&digest);
	bool found = cells_find(history->cells, ret_probe, ret_cell);
	if (found && cell_is_over(ret_cell, history->now_ms)) {
		assert_false(is_live(history, model));
		return true;
	}
	if (found != is_live(history, model))
		fail_msg("key %llu, %s", (unsigned long long)key, test_note_seed(history->seed));
	if (found) {
		assert_true(cell_same_place(ret_cell, &model->cell));
		assert_int_equal(ret_cell->expiry_ms, model->cell.expiry_ms);
	}
	return found;
}

static void step_put(struct history *history, uint64_t key)
{
	uint64_t dice = test_random(&history->random);
	struct model_cell *model = &history->model[key];
	struct table_probe probe;
	struct cell old, cell = { .segment = history->segment, .offset = history->offset };

	if (dice % 3)
		cell.expiry_ms = history->now_ms + 1 + (dice >> 8) % (dice % 5 ? 1000 : 100000);
	bool found = find(history, key, &probe, &old);
	assert_int_equal(cells_put(history->cells, &probe, &cell, found ? &old : NULL,
	                           history->now_ms),
	                 0);
	if (found)
		cells_let_go(history->cells, old.segment);
	*model = (struct model_cell){ .there = true, .cell = cell };
	history->offset += 8 * (1 + (uint32_t)(dice >> 40) % 8);
	if ((dice >> 20) % 500 == 0 || history->offset >= 1u << 30) {
		/* Numbers pass the bits that are kept of them. */
		history->segment += 1 + (dice >> 30) % 3;
		history->offset = (dice >> 4) % 2 ? 4096 : (1u << 30) - 65536;
	}
}

static void step_remove(struct history *history, uint64_t key)
{
	struct table_probe probe;
	struct cell old;

	if (!find(history, key, &probe, &old))
		return;
	cells_remove(history->cells, &probe, &old);
	cells_let_go(history->cells, old.segment);
	history->model[key].there = false;
}

static void check_counts(struct history *history)
{
	uint64_t live = 0, oldest = UINT64_MAX, first;

	/* Once around, and more. */
	for (int i = 0; i < 4; i++)
		cells_sweep(history->cells, history->now_ms, UINT64_C(1) << 22);
	for (uint32_t key = 0; key < KEYS; key++) {
		const struct model_cell *model = &history->model[key];
		if (!is_live(history, model))
			continue;
		live++;
		if (model->cell.segment < oldest)
			oldest = model->cell.segment;
	}
	assert_int_equal(cells_count(history->cells), live);
	assert_int_equal(cells_oldest_segment(history->cells, &first), live > 0);
	if (live)
		assert_int_equal(first, oldest);
}

static void check_scan(struct history *history)
{
	struct cells_scan scan = { .count = 0 };
	uint64_t told = 0;

	while (cells_scan_next(history->cells, &scan))
		for (uint32_t i = 0; i < scan.count; i++)
			told += !cell_is_over(&scan.cells[i], history->now_ms);
	uint64_t live = 0;
	for (uint32_t key = 0; key < KEYS; key++)
		live += is_live(history, &history->model[key]);
	assert_int_equal(told, live);
}

static void history_run(uint64_t seed, uint64_t segment)
{
	static struct history history;

	history = (struct history){
		.seed = seed, .random = seed, .now_ms = START_MS, .segment = segment, .offset = 4096
	};
	assert_int_equal(cells_new(&history.cells), 0);
	for (uint32_t i = 0; i < 60000; i++) {
		uint64_t dice = test_random(&history.random);
		uint64_t key = (dice >> 16) % KEYS;
		struct table_probe probe;
		struct cell cell;
		if (dice % 8 < 5)
			step_put(&history, key);
		else if (dice % 8 == 5)
			step_remove(&history, key);
		else
			find(&history, key, &probe, &cell);
		if (dice % 64 == 7)
			history.now_ms += (dice >> 32) % 200;
		if (dice % 4096 == 9)
			check_counts(&history);
	}
	check_counts(&history);
	check_scan(&history);
	cells_free(history.cells);
}

static void test_cells_are_found_counted_and_swept(void **state)
{
	(void)state;
	history_run(test_seed(), 1);
	history_run(test_seed() + 1, (UINT64_C(1) << 25) - 3); /* beyond what is kept */
	history_run(test_seed() + 2, (UINT64_C(1) << 32) - 5);
}

/* ---- values under codes ---- */

static struct span text_of(uint32_t number, char text[static 32])
{
	int len = snprintf(text, 32, "value %u", number);

	return span_of(text, (size_t)len);
}

static uint32_t often(struct short_values *values, struct span value)
{
	uint32_t code = 0;

	for (int i = 0; i < 20 && code == 0; i++)
		code = short_values_code(values, value);
	return code;
}

static void test_a_value_that_comes_often_has_a_code(void **state)
{
	(void)state;
	struct short_values *values;
	char text[32], long_text[SHORT_VALUE_MAX + 1];

	memset(long_text, 'a', sizeof(long_text));
	assert_int_equal(short_values_new(&values), 0);
	assert_int_equal(short_values_code(values, SPAN("1")), 0);
	uint32_t one = often(values, SPAN("1")), nothing = often(values, SPAN(""));
	assert_true(one > 0 && nothing > 0 && one != nothing);
	assert_true(span_eq(short_values_get(values, one), SPAN("1")));
	assert_int_equal(short_values_get(values, nothing).len, 0);
	assert_int_equal(often(values, span_of(long_text, sizeof(long_text))), 0);
	assert_true(often(values, span_of(long_text, SHORT_VALUE_MAX)) > 0);
	short_values_hold(values, one);
	/* All the others go around; the one that is held stays. */
	for (uint32_t i = 0; i < 3 * SHORT_VALUES_MAX; i++) {
		struct span value = text_of(i, text);
		uint32_t code = often(values, value);
		assert_true(code > 0 && code != one);
		assert_true(span_eq(short_values_get(values, code), value));
	}
	assert_true(span_eq(short_values_get(values, one), SPAN("1")));
	assert_int_equal(short_values_code(values, SPAN("1")), one);
	short_values_free(values);
}

static void test_no_more_values_have_codes_than_there_are(void **state)
{
	(void)state;
	struct short_values *values;
	char text[32];
	uint32_t given = 0;

	assert_int_equal(short_values_new(&values), 0);
	for (uint32_t i = 0; i < 2 * SHORT_VALUES_MAX; i++) {
		uint32_t code = often(values, text_of(i, text));
		short_values_hold(values, code);
		given += code != 0;
	}
	assert_int_equal(given, SHORT_VALUES_MAX);
	short_values_drop(values, 7);
	uint32_t code = 0;
	for (uint32_t i = 0; i < 1000 && code == 0; i++)
		code = short_values_code(values, SPAN("one more"));
	assert_int_equal(code, 7);
	short_values_free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cells_are_found_counted_and_swept),
		cmocka_unit_test(test_a_value_that_comes_often_has_a_code),
		cmocka_unit_test(test_no_more_values_have_codes_than_there_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
