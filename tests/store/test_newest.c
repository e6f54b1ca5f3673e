/* newest against an array indexed by entity, over a time that the test sets. */
#include <string.h>

#include "support/test.h"

#include "base/mem.h"
#include "gate/ticket.h"
#include "gate/window.h"
#include "store/local/index/newest.h"

#define START_MS (TICKET_EPOCH_MS + UINT64_C(1000000000))
#define ENTITIES 20000u

static struct digest digest_at(uint64_t i)
{
	uint64_t state = i * 7 + 3;
	uint64_t first = test_random(&state);

	return (struct digest){ { first, test_random(&state) } };
}

struct history {
	struct newest *newest;
	struct newest_record model[ENTITIES]; /* ticket 0: not there */
	uint64_t random, now_ms, last_ticket;
};

static bool is_live(const struct history *history, uint64_t i)
{
	const struct newest_record *record = &history->model[i];
	uint64_t window_s = window_decode(window_encode(record->window_s));

	return record->ticket && ticket_time_ms(record->ticket) + window_s * 1000 > history->now_ms;
}

static void find(struct history *history, uint64_t i)
{
	struct digest digest = digest_with_check(digest_at(i), 4711); /* not looked at */
	struct newest_record record;

	bool found = newest_find(history->newest, &digest, history->now_ms, &record);
	assert_int_equal(found, is_live(history, i));
	if (!found)
		return;
	assert_true(record.order == history->model[i].order);
	assert_true(record.ticket == history->model[i].ticket);
	assert_true(record.window_s >= history->model[i].window_s);
	assert_true(newest_expiry_ms(&record) > history->now_ms);
}

static void put(struct history *history, uint64_t i)
{
	uint64_t dice = test_random(&history->random);
	history->last_ticket = ticket_next(history->last_ticket, history->now_ms);
	struct newest_record record = {
		.digest = digest_at(i),
		.order = test_random(&history->random),
		.ticket = dice % 16 ? history->last_ticket : history->last_ticket - dice % 1000,
		.window_s = 1 + (uint32_t)(dice >> 32) % 5000,
	};

	assert_int_equal(newest_put(history->newest, &record), 0);
	/* An expired one may be swept already. */
	if (!is_live(history, i) && history->model[i].ticket >= record.ticket)
		history->model[i].ticket = 0;
	if (record.ticket > history->model[i].ticket)
		history->model[i] = record;
}

static void remove_one(struct history *history, uint64_t i)
{
	struct digest digest = digest_at(i);
	bool there = newest_remove(history->newest, &digest);

	assert_true(there || !is_live(history, i));
	history->model[i].ticket = 0;
}

static void test_a_random_history_agrees_with_an_array(void **state)
{
	(void)state;
	static struct history history;

	history = (struct history){ .random = test_seed(), .now_ms = START_MS };
	assert_int_equal(newest_new(&history.newest), 0);
	for (uint64_t n = 0; n < test_scale(300000); n++) {
		uint64_t i = test_random_below(&history.random, ENTITIES);
		switch (test_random_below(&history.random, 8)) {
		case 0: remove_one(&history, i); break;
		case 1:
		case 2: find(&history, i); break;
		case 3: history.now_ms += test_random_below(&history.random, 100); break;
		case 4: newest_sweep(history.newest, history.now_ms, 64); break;
		default: put(&history, i);
		}
	}
	newest_check(history.newest);
	for (uint64_t i = 0; i < ENTITIES; i++)
		find(&history, i);
	newest_free(history.newest);
}

static void test_entities_that_differ_in_one_bit_are_two(void **state)
{
	(void)state;
	struct newest *newest = NULL;
	struct newest_record record = { .ticket = ticket_next(0, START_MS), .window_s = 60 }, found;

	assert_int_equal(newest_new(&newest), 0);
	assert_int_equal(newest_put(newest, &record), 0);
	for (int bit = 0; bit < 128; bit++) {
		struct digest other = record.digest;
		bool is_check = bit >= 64 && bit < 96;
		other.word[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_equal(newest_find(newest, &other, START_MS, &found), is_check);
	}
	newest_free(newest);
}

static void test_memory_comes_back_when_everything_expires(void **state)
{
	(void)state;
	struct newest *newest = NULL;

	assert_int_equal(newest_new(&newest), 0);
	for (uint64_t i = 0; i < 200000; i++) {
		struct newest_record record = { .digest = digest_at(i),
			                        .ticket = ticket_next(i, START_MS),
			                        .window_s = 60 };
		assert_int_equal(newest_put(newest, &record), 0);
	}
	uint64_t full = newest_bytes(newest);
	assert_true(full < 200000 * 100);
	assert_int_equal(newest_sweep(newest, START_MS + 59000, 1u << 24), 0);
	for (int i = 0; i < 8; i++)
		newest_sweep(newest, START_MS + 61000, 1u << 24);
	assert_int_equal(newest_count(newest), 0);
	assert_int_equal(newest_slots(newest), 0);
	newest_check(newest);
	newest_free(newest);
}

static void test_a_failed_allocation_changes_nothing(void **state)
{
	(void)state;
	for (unsigned long n = 1; n < 40; n++) {
		struct newest *newest = NULL;
		uint64_t put = 0;
		assert_int_equal(newest_new(&newest), 0);
		mem_fail_at(n, false);
		for (uint64_t i = 0; i < 64; i++) {
			struct newest_record record = { .digest = { { 0, i << 32 } },
				                        .ticket = ticket_next(i, START_MS),
				                        .window_s = 60 };
			put += newest_put(newest, &record) == 0;
		}
		mem_fail_at(0, false);
		assert_true(put == 63 || put == 64);
		assert_int_equal(newest_count(newest), put);
		newest_check(newest);
		newest_free(newest);
	}
}

/* The undo of a lost frame counts on this. */
static void test_what_was_removed_can_be_put_back_without_memory(void **state)
{
	(void)state;
	struct newest *newest = NULL;

	assert_int_equal(newest_new(&newest), 0);
	for (uint64_t i = 0; i < 5000; i++) {
		struct newest_record record = { .digest = digest_at(i),
			                        .ticket = ticket_next(i, START_MS),
			                        .window_s = 60 };
		assert_int_equal(newest_put(newest, &record), 0);
		mem_fail_at(1, true);
		assert_true(newest_remove(newest, &record.digest));
		assert_int_equal(newest_put(newest, &record), 0);
		mem_fail_at(0, false);
	}
	newest_check(newest);
	newest_free(newest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_random_history_agrees_with_an_array),
		cmocka_unit_test(test_entities_that_differ_in_one_bit_are_two),
		cmocka_unit_test(test_memory_comes_back_when_everything_expires),
		cmocka_unit_test(test_a_failed_allocation_changes_nothing),
		cmocka_unit_test(test_what_was_removed_can_be_put_back_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
