/* table against an array indexed by key, over a time that the test sets. */
#include <stdio.h>
#include <string.h>

#include "support/test.h"

#include "base/mem.h"
#include "gate/ticket.h"
#include "store/local/index/table.h"
#include "store/local/index/table_shard.h"

#define START_MS (TICKET_EPOCH_MS + UINT64_C(1000000000))
#define KEYS 40000
#define PROBES 64u

/* In the first `shards` shards by turns; 0 is anywhere, as real digests are. */
static struct digest digest_at(uint64_t seed, uint64_t i, uint64_t shards)
{
	uint64_t state = seed * UINT64_C(1000003) + i * UINT64_C(0xd1342543de82ef95);
	struct digest digest;
	digest.word[0] = test_random(&state);
	digest.word[1] = test_random(&state);
	if (shards > 0)
		digest.word[0] = digest.word[0] >> TABLE_SHARD_BITS |
		                 (i % shards) << (64 - TABLE_SHARD_BITS);
	return digest;
}

struct model_claim {
	uint64_t ticket; /* 0: not there */
	uint32_t window_s;
	uint32_t flags;
	uint32_t check;
};

struct history {
	struct table *table;
	struct model_claim claims[KEYS];
	uint64_t seed;
	uint64_t random;
	uint64_t shards; /* few, so that they grow large */
	uint64_t now_ms;
	uint64_t last_ticket;
	/* Digests that are on their way, while the table changes. */
	struct table_probe probes[PROBES];
	uint64_t probe_keys[PROBES];
};

/* What the table keeps: the window as the smallest that it can express. */
static uint64_t expiry_ms(const struct model_claim *claim)
{
	uint64_t window_s = window_decode(window_encode(claim->window_s));
	return ticket_time_ms(claim->ticket) + window_s * 1000;
}

static bool is_live(const struct history *history, const struct model_claim *claim)
{
	return claim->ticket != 0 && expiry_ms(claim) > history->now_ms;
}

static void compare_find(struct history *history, uint64_t key, struct table_probe *probe)
{
	const struct model_claim *claim = &history->claims[key];
	struct table_hit hit;
	bool found = table_find_probe(history->table, probe, history->now_ms, &hit);
	if (found != is_live(history, claim))
		fail_msg("key %llu, %s", (unsigned long long)key, test_note_seed(history->seed));
	if (!found)
		return;
	assert_int_equal(hit.ticket, claim->ticket);
	assert_int_equal(hit.flags, claim->flags);
	assert_int_equal(hit.check, claim->check);
	assert_int_equal(hit.expiry_ms, expiry_ms(claim));
	assert_true(hit.window_s >= claim->window_s);
}

static void step_find(struct history *history, uint64_t key)
{
	struct digest digest = digest_at(history->seed, key, history->shards);
	struct table_probe probe = table_probe(&digest);
	compare_find(history, key, &probe);
}

/* The digest that has been on its way for longest; some steps for others. */
static void step_probe(struct history *history, uint64_t key)
{
	uint64_t dice = test_random(&history->random);
	uint32_t at = (uint32_t)(dice % PROBES);
	struct table_probe *probe = &history->probes[at];
	if (probe->digest.word[0] | probe->digest.word[1])
		compare_find(history, history->probe_keys[at], probe);
	struct digest digest = digest_at(history->seed, key, history->shards);
	*probe = table_probe(&digest);
	history->probe_keys[at] = key;
	table_fetch(history->table, 0, probe, 1);
	for (uint32_t step = 1; step < TABLE_STEPS; step++)
		if ((dice >> 32) % 4 >= step)
			table_fetch(history->table, step, probe, 1);
}

static void step_put(struct history *history, uint64_t key)
{
	struct model_claim *claim = &history->claims[key];
	uint64_t dice = test_random(&history->random);
	history->last_ticket = ticket_next(history->last_ticket, history->now_ms);
	struct table_record record = {
		.digest = digest_with_check(digest_at(history->seed, key, history->shards),
		                            (uint32_t)(dice >> 8)),
		.ticket = dice % 16 ? history->last_ticket : history->last_ticket - dice % 1000,
		.window_s = 1 + (uint32_t)(dice >> 32) % (dice % 3 ? 100 : 5000),
		.flags = (uint32_t)(dice >> 20) & TABLE_FLAGS_ALL,
	};
	struct table_probe probe = table_probe(&record.digest);
	if (dice % 5 < 3)
		compare_find(history, key, &probe); /* as the store does */
	if (dice % 5 < 4)
		assert_int_equal(table_put_probe(history->table, &probe, &record, history->now_ms),
		                 0);
	else
		assert_int_equal(table_put(history->table, &record, history->now_ms), 0);
	/* An expired one may be there yet or be gone; a live one must lose only
	 * to a higher ticket. */
	if (!is_live(history, claim) && claim->ticket >= record.ticket)
		claim->ticket = 0;
	if (record.ticket > claim->ticket)
		*claim = (struct model_claim){ record.ticket, record.window_s, record.flags,
			                       digest_check(&record.digest) };
}

static void step_remove(struct history *history, uint64_t key)
{
	struct digest digest = digest_at(history->seed, key, history->shards);
	bool there = table_remove(history->table, &digest);
	assert_true(there || !is_live(history, &history->claims[key]));
	history->claims[key].ticket = 0;
}

/* The walk shows every live claim once, and nothing else. */
static void compare(struct history *history)
{
	table_check(history->table);
	struct table_cursor cursor = { 0 };
	struct table_record record;
	uint64_t walked = 0;
	uint64_t live = 0;
	while (table_next(history->table, &cursor, history->now_ms, &record)) {
		struct table_hit hit;
		assert_true(table_find(history->table, &record.digest, history->now_ms, &hit));
		assert_int_equal(hit.ticket, record.ticket);
		assert_int_equal(hit.window_s, record.window_s);
		walked++;
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		live += is_live(history, &history->claims[key]);
		step_find(history, key);
	}
	assert_int_equal(walked, live);
	struct table_stats stats;
	table_get_stats(history->table, &stats);
	assert_true(stats.claims >= live);
}

static void history_run(uint64_t seed)
{
	static struct history history;
	memset(&history, 0, sizeof(history));
	history.seed = history.random = seed;
	history.now_ms = START_MS;
	history.shards = 1 + test_random_below(&history.random, 4);
	assert_int_equal(table_new(&history.table), 0);
	for (int i = 0; i < 120000; i++) {
		uint64_t dice = test_random_below(&history.random, 10000);
		uint64_t key = test_random_below(&history.random, KEYS);
		if (dice < 6000)
			step_put(&history, key);
		else if (dice < 7000)
			step_find(&history, key);
		else if (dice < 8500)
			step_probe(&history, key);
		else if (dice < 9500)
			step_remove(&history, key);
		else if (dice < 9998)
			table_sweep(history.table, history.now_ms, dice % 500);
		else
			history.now_ms += test_random_below(&history.random, 100000);
		if (i % 30000 == 29999)
			compare(&history);
	}
	history.table = table_free(history.table);
}

static void test_any_history_agrees_with_the_model(void **state)
{
	(void)state;
	uint64_t rounds = test_scale(6);
	for (uint64_t i = 0; i < rounds; i++) {
		print_message("%s\n", test_note_seed(test_seed() + i));
		history_run(test_seed() + i);
	}
}

static void test_no_window_is_kept_shorter_than_asked(void **state)
{
	(void)state;
	uint64_t random = test_seed();
	for (uint64_t i = 0; i < 1000000; i++) {
		uint64_t wide = test_random(&random);
		uint32_t window_s = i < 100000 ? (uint32_t)i : (uint32_t)(wide >> (32 + wide % 32));
		uint32_t code = window_encode(window_s);
		uint64_t kept_s = window_decode(code);
		assert_true(code < 1u << TABLE_WINDOW_BITS);
		assert_true(kept_s >= window_s);
		assert_true(kept_s - window_s <= window_s / 256);
		assert_true(window_s > 511 || kept_s == window_s);
	}
	assert_true(window_decode(window_encode(UINT32_MAX)) >= UINT32_MAX);
}

static struct table_record record_at(uint64_t i)
{
	return (struct table_record){ .digest = digest_at(1, i, 0),
		                      .ticket = ticket_next(i, START_MS),
		                      .window_s = 3600 };
}

static void test_keys_that_differ_in_one_bit_are_two_claims(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_hit hit;
	struct table_record record = record_at(0);
	record.digest = (struct digest){ { 0, 0 } };
	assert_int_equal(table_new(&table), 0);
	assert_int_equal(table_put(table, &record, START_MS), 0);
	for (int bit = 0; bit < 128; bit++) {
		struct digest other = record.digest;
		other.word[bit / 64] ^= UINT64_C(1) << bit % 64;
		bool is_check = bit >= 64 && bit < 96;
		assert_int_equal(table_find(table, &other, START_MS, &hit), is_check);
	}
	assert_true(table_find(table, &record.digest, START_MS, &hit));
	table_free(table);
}

static void test_counted_digests_in_place_of_hashed_ones_still_work(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_hit hit;
	assert_int_equal(table_new(&table), 0);
	for (uint64_t i = 0; i < 50000; i++) {
		struct table_record record = record_at(i);
		record.digest = (struct digest){ { i, (i % 3) << 32 } };
		assert_int_equal(table_put(table, &record, START_MS), 0);
		record.digest = (struct digest){ { i, (i + 3) << 32 } };
		assert_int_equal(table_put(table, &record, START_MS), 0);
	}
	table_check(table);
	for (uint64_t i = 0; i < 50000; i++) {
		struct digest digest = { { i, (i % 3) << 32 } };
		assert_true(table_find(table, &digest, START_MS, &hit));
		digest = (struct digest){ { i, (i + 3) << 32 } };
		assert_true(table_find(table, &digest, START_MS, &hit));
	}
	table_free(table);
}

/* An event may name one digest in two claims. */
static void test_a_digest_that_was_looked_up_twice_is_put_once(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_hit hit;
	struct table_stats stats;
	struct table_record record = record_at(1);
	struct table_probe probes[2] = { table_probe(&record.digest), table_probe(&record.digest) };
	assert_int_equal(table_new(&table), 0);
	for (uint32_t step = 0; step < TABLE_STEPS; step++)
		table_fetch(table, step, probes, 2);
	for (int i = 0; i < 2; i++)
		assert_false(table_find_probe(table, &probes[i], START_MS, &hit));
	for (int i = 0; i < 2; i++)
		assert_int_equal(table_put_probe(table, &probes[i], &record, START_MS), 0);
	table_get_stats(table, &stats);
	assert_int_equal(stats.claims, 1);
	assert_true(table_remove(table, &record.digest));
	assert_false(table_find(table, &record.digest, START_MS, &hit));
	table_free(table);
}

static void test_memory_comes_back_when_everything_expires(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_stats stats;
	assert_int_equal(table_new(&table), 0);
	table_get_stats(table, &stats);
	uint64_t empty_bytes = stats.bytes;
	for (uint64_t i = 0; i < 300000; i++) {
		struct table_record record = record_at(i);
		assert_int_equal(table_put(table, &record, START_MS), 0);
	}
	uint64_t later_ms = START_MS + UINT64_C(4000) * 1000;
	uint64_t removed = 0;
	for (int i = 0; i < 4000 && removed < 300000; i++)
		removed += table_sweep(table, later_ms, 2000);
	assert_int_equal(removed, 300000);
	for (uint32_t i = 0; i < 2 * TABLE_SHARDS; i++)
		table_sweep(table, later_ms, 2000);
	table_get_stats(table, &stats);
	assert_int_equal(stats.claims, 0);
	assert_int_equal(stats.bytes, empty_bytes);
	assert_int_equal(stats.expired, 300000);
	table_free(table);
}

/* Ebb and flow of many sizes: what was given back comes again. */
static void test_memory_that_is_used_again_holds_no_old_claims(void **state)
{
	(void)state;
	struct table *table = NULL;
	uint64_t random = test_seed();
	uint64_t now_ms = START_MS;
	assert_int_equal(table_new(&table), 0);
	for (uint64_t round = 0; round < 40; round++) {
		uint64_t count = test_random_below(&random, 20000);
		for (uint64_t i = 0; i < count; i++) {
			struct table_record record = { .digest = digest_at(round, i, 8),
				                       .ticket = ticket_next(i, now_ms),
				                       .window_s = i % 10 ? 10 : 25 };
			assert_int_equal(table_put(table, &record, now_ms), 0);
		}
		table_check(table);
		now_ms += 11000;
		for (int i = 0; i < 60; i++)
			table_sweep(table, now_ms, 1000);
		table_check(table);
	}
	table_free(table);
}

static void test_a_steady_flow_does_not_grow_the_table(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_stats stats;
	uint64_t most_bytes = 0;
	assert_int_equal(table_new(&table), 0);
	for (uint64_t i = 0; i < 2000000; i++) {
		uint64_t now_ms = START_MS + i; /* so 100,000 are live */
		struct table_record record = { .digest = digest_at(2, i, 0),
			                       .ticket = ticket_next(0, now_ms),
			                       .window_s = 100 };
		assert_int_equal(table_put(table, &record, now_ms), 0);
		if (i % 100 == 0)
			table_sweep(table, now_ms, 2000);
		if (i == 200000 || i == 1999999) {
			table_get_stats(table, &stats);
			assert_true(most_bytes == 0 || stats.bytes < most_bytes + most_bytes / 4);
			most_bytes = stats.bytes;
		}
	}
	table_check(table);
	table_free(table);
}

static void test_a_claim_costs_at_most_30_bytes(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_stats stats;
	assert_int_equal(table_new(&table), 0);
	table_get_stats(table, &stats);
	uint64_t empty_bytes = stats.bytes;
	for (uint64_t i = 0; i < 2800000; i++) {
		struct table_record record = record_at(i);
		assert_int_equal(table_put(table, &record, START_MS), 0);
		if (i % 100000 == 0 && i >= 1000000) {
			table_get_stats(table, &stats);
			assert_true(stats.bytes <= stats.claims * 30);
		}
	}
	table_check(table);
	uint64_t later_ms = START_MS + UINT64_C(4000) * 1000;
	for (int i = 0; i < 20000 && stats.bytes != empty_bytes; i++) {
		table_sweep(table, later_ms, 2000);
		table_get_stats(table, &stats);
	}
	assert_int_equal(stats.bytes, empty_bytes);
	table_free(table);
}

static void test_a_batch_skips_what_has_expired_and_keeps_the_higher_ticket(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_hit hit;
	struct table_record records[40];
	assert_int_equal(table_new(&table), 0);
	for (uint64_t i = 0; i < 40; i++) {
		records[i] = record_at(i % 20);
		records[i].ticket += (i < 20) == (i % 2 == 0) ? 1000 : 0;
	}
	records[5].window_s = records[25].window_s = 1;
	assert_int_equal(table_put_batch(table, records, 40, START_MS + 2000), 0);
	for (uint64_t i = 0; i < 20; i++) {
		bool found = table_find(table, &records[i].digest, 0, &hit);
		assert_int_equal(found, i != 5);
		if (found)
			assert_int_equal(hit.ticket, record_at(i).ticket + 1000);
	}
	table_free(table);
}

static void test_a_bulk_load_takes_about_what_was_reserved(void **state)
{
	(void)state;
	struct table *table = NULL;
	struct table_stats stats;
	struct table_record *records = mem_alloc(200000 * sizeof(*records));
	assert_non_null(records);
	for (uint64_t i = 0; i < 200000; i++)
		records[i] = record_at(i);
	assert_int_equal(table_new(&table), 0);
	assert_int_equal(table_load_begin(table, 200000), 0);
	assert_int_equal(table_put_batch(table, records, 200000, START_MS), 0);
	table_check(table);
	table_get_stats(table, &stats);
	assert_int_equal(stats.claims, 200000);
	/* What was reserved was about enough. */
	assert_true(stats.slots < 200000 + 200000 / 3);
	table_free(table);
	mem_free(records);
}

/* Puts, lets half expire, sweeps; with the n-th allocation failing. Returns
 * true if none was left to fail. */
static bool torture_run(unsigned long n)
{
	struct table *table = NULL;
	struct table_hit hit;
	static bool kept[6000];
	bool clean = true;
	mem_fail_at(n, false);
	if (table_new(&table) != 0) {
		mem_fail_at(0, false);
		return false;
	}
	for (uint64_t i = 0; i < 6000; i++) {
		struct table_record record = record_at(i);
		record.digest = digest_at(3, i, 2);
		record.window_s = i % 8 ? 10 : 1000;
		kept[i] = table_put(table, &record, START_MS) == 0;
		clean = clean && kept[i];
	}
	for (int i = 0; i < 2000; i++)
		table_sweep(table, START_MS + 20000, 1000);
	clean = clean && mem_fail_count() < n;
	mem_fail_at(0, false);
	table_check(table);
	for (uint64_t i = 0; i < 6000; i++) {
		struct digest digest = digest_at(3, i, 2);
		assert_int_equal(table_find(table, &digest, START_MS + 20000, &hit),
		                 kept[i] && i % 8 == 0);
	}
	table_free(table);
	return clean;
}

static void test_a_failed_allocation_changes_nothing(void **state)
{
	(void)state;
	for (unsigned long n = 1; !torture_run(n); n++)
		assert_true(n < 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_history_agrees_with_the_model),
		cmocka_unit_test(test_no_window_is_kept_shorter_than_asked),
		cmocka_unit_test(test_keys_that_differ_in_one_bit_are_two_claims),
		cmocka_unit_test(test_counted_digests_in_place_of_hashed_ones_still_work),
		cmocka_unit_test(test_a_digest_that_was_looked_up_twice_is_put_once),
		cmocka_unit_test(test_memory_comes_back_when_everything_expires),
		cmocka_unit_test(test_memory_that_is_used_again_holds_no_old_claims),
		cmocka_unit_test(test_a_steady_flow_does_not_grow_the_table),
		cmocka_unit_test(test_a_claim_costs_at_most_30_bytes),
		cmocka_unit_test(test_a_batch_skips_what_has_expired_and_keeps_the_higher_ticket),
		cmocka_unit_test(test_a_bulk_load_takes_about_what_was_reserved),
		cmocka_unit_test(test_a_failed_allocation_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
