/* tally against an array indexed by ticket. */
#include <stdio.h>
#include <string.h>

#include "support/test.h"

#include "base/mem.h"
#include "store/local/index/tally.h"

#define TICKETS 20000

static void compare(const struct tally *tally, const struct tally_entry *model)
{
	tally_check(tally);
	for (uint64_t i = 1; i < TICKETS; i++) {
		struct tally_entry entry;
		bool found = tally_get(tally, i, &entry);
		assert_int_equal(found, model[i].count > 0);
		if (!found)
			continue;
		assert_int_equal(entry.count, model[i].count);
		assert_int_equal(entry.last_s, model[i].last_s);
	}
}

/* Everything that is over may be gone, nothing else. */
static void sweep(struct tally *tally, struct tally_entry *model, uint32_t now_s)
{
	tally_sweep(tally, now_s * UINT64_C(1000), 1 << 20);
	for (uint64_t i = 1; i < TICKETS; i++) {
		if (model[i].count > 0 && model[i].expiry_s <= now_s)
			model[i] = (struct tally_entry){ 0 };
	}
}

static void history(uint64_t seed)
{
	static struct tally_entry model[TICKETS];
	memset(model, 0, sizeof(model));
	struct tally *tally = NULL;
	assert_int_equal(tally_new(&tally), 0);
	uint64_t random = seed;
	uint32_t now_s = 1000000;
	for (int i = 0; i < 100000; i++) {
		uint64_t dice = test_random_below(&random, 1000);
		uint64_t ticket = 1 + test_random_below(&random, TICKETS - 1);
		struct tally_entry *at = &model[ticket];
		uint32_t count = 0;
		now_s += dice == 0 ? 50 : 0;
		if (dice < 700) {
			uint32_t expiry_s = now_s + 1 + (uint32_t)(dice % 100);
			assert_int_equal(tally_add(tally, ticket, now_s * UINT64_C(1000),
			                           expiry_s * UINT64_C(1000), &count),
			                 0);
			at->count++;
			at->last_s = now_s;
			at->expiry_s = expiry_s > at->expiry_s ? expiry_s : at->expiry_s;
			assert_int_equal(count, at->count);
		} else if (dice < 800) {
			assert_int_equal(tally_remove(tally, ticket), at->count > 0);
			*at = (struct tally_entry){ 0 };
		} else if (dice > 998) {
			sweep(tally, model, now_s);
		}
		if (i % 20000 == 19999)
			compare(tally, model);
	}
	sweep(tally, model, now_s + 1000);
	compare(tally, model);
	tally_free(tally);
}

static void test_any_history_agrees_with_the_model(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < test_scale(5); i++) {
		print_message("%s\n", test_note_seed(test_seed() + i));
		history(test_seed() + i);
	}
}

static void test_a_changed_tally_is_written_once_and_again_when_it_changes(void **state)
{
	(void)state;
	struct tally *tally = NULL;
	struct tally_entry out[4];
	uint32_t count;
	assert_int_equal(tally_new(&tally), 0);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(tally_add(tally, i, 5000, 9000, &count), 0);
	assert_int_equal(tally_add(tally, 2, 6000, 9000, &count), 0);
	assert_int_equal(tally_take_dirty(tally, out, 2), 2);
	assert_int_equal(out[1].ticket, 2);
	assert_int_equal(out[1].count, 2);
	assert_int_equal(tally_take_dirty(tally, out, 4), 1);
	assert_int_equal(tally_take_dirty(tally, out, 4), 0);
	assert_true(tally_mark_dirty(tally, 2));
	assert_false(tally_mark_dirty(tally, 77));
	assert_int_equal(tally_add(tally, 1, 7000, 9000, &count), 0);
	assert_int_equal(tally_take_dirty(tally, out, 4), 2);
	assert_int_equal(out[0].ticket, 2);
	assert_int_equal(out[1].last_s, 7);
	tally_free(tally);
}

static void test_thousands_of_changes_come_out_in_order(void **state)
{
	(void)state;
	struct tally *tally = NULL;
	struct tally_entry out[700];
	uint64_t next = 1, taken = 0;
	uint32_t count;
	assert_int_equal(tally_new(&tally), 0);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < (round < 25 ? 900 : 300); i++)
			assert_int_equal(tally_add(tally, next++, 5000, 9000, &count), 0);
		size_t n = tally_take_dirty(tally, out, 700);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(out[i].ticket, ++taken);
		assert_int_equal(tally_dirty(tally), next - 1 - taken);
	}
	assert_int_equal(tally_dirty(tally), 0);
	tally_free(tally);
}

#define SMALL_STEP (128u << 10) /* that a small map becomes a large one, once */

/* What is moved at once is in proportion to the memory that is taken at once. */
static void test_growth_is_paid_in_small_steps(void **state)
{
	(void)state;
	struct tally *tally = NULL;
	uint64_t worst = 0, tickets = test_scale(1000000);
	uint32_t count;
	assert_int_equal(tally_new(&tally), 0);
	for (uint64_t i = 1; i <= tickets; i++) {
		uint64_t before = tally_bytes(tally);
		assert_int_equal(tally_add(tally, i << 10, 5000, 9000, &count), 0);
		uint64_t grown = tally_bytes(tally) - before;
		worst = grown > worst ? grown : worst;
	}
	assert_true(tally_bytes(tally) > tickets * sizeof(struct tally_entry));
	assert_true(worst <= SMALL_STEP + tally_bytes(tally) / 256);
	tally_free(tally);
}

static void test_restoring_an_older_record_does_not_lower_a_count(void **state)
{
	(void)state;
	struct tally *tally = NULL;
	struct tally_entry entry = { .ticket = 9, .count = 5, .last_s = 50, .expiry_s = 90 };
	assert_int_equal(tally_new(&tally), 0);
	assert_int_equal(tally_restore(tally, &entry), 0);
	entry.count = 3;
	entry.last_s = 40;
	assert_int_equal(tally_restore(tally, &entry), 0);
	assert_true(tally_get(tally, 9, &entry));
	assert_int_equal(entry.count, 5);
	assert_int_equal(entry.last_s, 50);
	assert_int_equal(tally_dirty(tally), 0);
	tally_free(tally);
}

static bool torture_run(void)
{
	struct tally *tally = NULL;
	if (tally_new(&tally) != 0)
		return false;
	uint64_t kept = 0;
	for (uint64_t i = 1; i <= 2000; i++) {
		struct tally_entry entry;
		uint32_t count;
		bool added = tally_add(tally, i, 1000, 9000, &count) == 0;
		assert_int_equal(tally_get(tally, i, &entry), added);
		kept += added;
	}
	tally_check(tally);
	uint64_t dirty = tally_dirty(tally);
	tally_free(tally);
	return kept == 2000 && dirty == 2000;
}

static void test_a_failed_allocation_loses_one_count_at_most(void **state)
{
	(void)state;
	bool done = false;
	for (unsigned long n = 1; !done; n++) {
		mem_fail_at(n, false);
		done = torture_run();
		mem_fail_at(0, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_history_agrees_with_the_model),
		cmocka_unit_test(test_a_changed_tally_is_written_once_and_again_when_it_changes),
		cmocka_unit_test(test_thousands_of_changes_come_out_in_order),
		cmocka_unit_test(test_growth_is_paid_in_small_steps),
		cmocka_unit_test(test_restoring_an_older_record_does_not_lower_a_count),
		cmocka_unit_test(test_a_failed_allocation_loses_one_count_at_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
