/* The parts of the PostgreSQL store that need no server: addresses, rows, and what a working set
 * decides on the rows of the server. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/address.h"
#include "store/postgres/working_set.h"
#include "support/test.h"

#define NOW_MS UINT64_C(1767225600000)

/* ---- addresses ---- */

static void test_schema_is_read_and_libpq_gets_the_rest(void **state)
{
	struct address address;
	struct error_text text = { "" };

	(void)state;
	assert_int_equal(
		address_read("postgres://u:pw@h/d?sslmode=require&schema=here&connect_timeout=3",
	                     &address, &text),
		0);
	assert_string_equal(address.schema, "here");
	assert_string_equal(address.conninfo,
	                    "postgres://u:pw@h/d?sslmode=require&connect_timeout=3");
	assert_string_equal(address.password, "pw");
	address_free(&address);
	assert_int_equal(address_read("postgresql://h/d", &address, &text), 0);
	assert_string_equal(address.schema, "stile");
	assert_string_equal(address.conninfo, "postgresql://h/d");
	address_free(&address);
}

static void test_schema_that_needs_quotes_is_refused(void **state)
{
	static const char *const urls[] = {
		"postgres://h/d?schema=",
		"postgres://h/d?schema=Big",
		"postgres://h/d?schema=1st",
		"postgres://h/d?schema=a%22b",
		"postgres://h/d?schema=pg_x",
		"postgres://h/d?schema=a&schema=b",
		"host=h dbname=d",
		"redis://h",
		"postgres://h/d?schema=a123456789b123456789c123456789d123456789e",
	};
	struct address address;
	struct error_text text = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(urls); i++)
		assert_int_equal(address_read(urls[i], &address, &text), ERR_CONFIG);
}

/* ---- rows ---- */

struct number_row {
	struct row_key key;
	uint64_t number;
};

static void test_rows_are_found_and_sort_as_numbers_do(void **state)
{
	struct rows rows = { 0 };
	struct arena arena = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		uint64_t number = (i * 7919) % 5000;
		struct row_key key = row_key_of_number(number);
		struct number_row *row = rows_add(&rows, &key, sizeof(*row), &arena);
		assert_non_null(row);
		assert_int_equal(row->number, 0);
		row->number = number + 1;
		assert_ptr_equal(rows_add(&rows, &key, sizeof(*row), &arena), row);
	}
	assert_int_equal(rows.count, 5000);
	rows_sort(&rows);
	for (uint32_t i = 0; i < rows.count; i++)
		assert_int_equal(((struct number_row *)rows.at[i])->number, i + 1);
	struct row_key none = row_key_of_number(5000);
	assert_null(rows_find(&rows, &none));
	rows_clear(&rows);
	none = row_key_of_number(1);
	assert_null(rows_find(&rows, &none));
	rows_free(&rows);
	arena_free(&arena);
}

/* ---- working sets ---- */

static struct working_set set;

static struct store_admit event(uint64_t digest, uint32_t check)
{
	return (struct store_admit){
		.op = { .kind = STORE_ADMIT },
		.claims = { { .digest = { { digest, UINT64_C(9) << 32 | check } },
		              .window_s = 60 } },
		.claim_count = 1,
		.payload = SPAN("{}"),
	};
}

/* As if the server had inserted all that was wanted. */
static void decide(uint64_t first)
{
	set.now_ms = NOW_MS;
	set.first = first;
	working_set_decide(&set);
}

static void test_second_of_a_batch_is_a_duplicate_of_the_first(void **state)
{
	struct store_admit admits[] = { event(1, 0), event(1, 0), event(2, 0) };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(admits); i++)
		assert_int_equal(working_set_enter(&set, &admits[i].op), 0);
	assert_int_equal(set.claims.count, 2);
	assert_int_equal(set.numbers, 3);
	decide(100);
	assert_false(set.incomplete);
	assert_int_equal(admits[0].verdict, VERDICT_NEW);
	assert_int_equal(admits[1].verdict, VERDICT_DUPLICATE);
	assert_int_equal(admits[1].ticket, admits[0].ticket);
	assert_int_equal(admits[1].seen, 1);
	assert_int_equal(admits[2].ticket, 102); /* as its claim was inserted */
	assert_int_equal(set.events.count, 2);
	working_set_free(&set);
}

/* A claim that is there, and has expired, may be taken by another node too. */
static void test_expired_claim_is_not_taken_without_its_lock(void **state)
{
	(void)state;
	for (int lock_all = 0; lock_all < 2; lock_all++) {
		struct store_admit admit = event(1, 0);
		set.lock_all = lock_all;
		assert_int_equal(working_set_enter(&set, &admit.op), 0);
		struct claim_row *row = set.claims.at[0];
		row->found = true;
		row->live = false;
		row->now = row->stored = (struct claim_values){ .ticket = 7, .expiry = NOW_MS };
		decide(100);
		assert_int_equal(set.incomplete, !lock_all);
		if (lock_all)
			assert_int_equal(admit.verdict, VERDICT_NEW);
		working_set_free(&set);
	}
	set.lock_all = false;
}

/* The row that it would be kept under was not asked for: begin again. */
static void test_conflict_that_is_kept_aside_needs_its_row(void **state)
{
	(void)state;
	for (int lock_all = 0; lock_all < 2; lock_all++) {
		struct store_admit admits[] = { event(1, 5), event(1, 6) };
		set.lock_all = lock_all;
		for (size_t i = 0; i < ARRAY_LEN(admits); i++)
			assert_int_equal(working_set_enter(&set, &admits[i].op), 0);
		decide(100);
		assert_int_equal(set.incomplete, !lock_all);
		if (lock_all) {
			assert_int_equal(admits[1].verdict, VERDICT_CONFLICT);
			assert_int_equal(admits[1].own_ticket, 101);
		}
		working_set_free(&set);
	}
	set.lock_all = false;
}

/* What is told of a working set without deciding it is what deciding comes to. */
static void test_set_of_new_events_needs_no_decision(void **state)
{
	struct store_admit told[] = { event(1, 0), event(2, 7), event(3, 0) };
	struct store_admit decided[ARRAY_LEN(told)];

	(void)state;
	told[1].no_ticket = true;
	memcpy(decided, told, sizeof(told));
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		assert_int_equal(working_set_enter(&set, &told[i].op), 0);
	assert_true(working_set_may_be_new(&set));
	working_set_open_all(&set);
	assert_int_equal(set.events.count, 2);
	assert_int_equal(((struct event_row *)set.events.at[1])->event, 2);
	assert_int_equal(set.tickets.count, 2);
	assert_true(set.any_due);
	set.now_ms = NOW_MS;
	set.first = 100;
	working_set_all_new(&set);
	working_set_clear(&set);
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		assert_int_equal(working_set_enter(&set, &decided[i].op), 0);
	decide(100);
	assert_memory_equal(told, decided, sizeof(told));
	working_set_free(&set);
}

static void test_set_with_more_than_new_events_is_not_sent_as_new(void **state)
{
	struct store_admit admits[] = { event(1, 0), event(1, 0) };
	struct store_lookup lookup = { .op = { .kind = STORE_LOOKUP }, .digest = { { 5, 0 } } };
	struct store_settle settle = { .op = { .kind = STORE_SETTLE }, .ticket = 5 };
	struct store_op *others[] = { &admits[1].op, &lookup.op, &settle.op };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		assert_int_equal(working_set_enter(&set, &admits[0].op), 0);
		assert_true(working_set_may_be_new(&set));
		assert_int_equal(working_set_enter(&set, others[i]), 0);
		assert_false(working_set_may_be_new(&set));
		working_set_free(&set);
	}
	admits[0].lease_ms = 1000; /* its end is not known before the server's time is */
	assert_int_equal(working_set_enter(&set, &admits[0].op), 0);
	assert_false(working_set_may_be_new(&set));
	working_set_free(&set);
}

static void test_window_is_kept_as_the_model_keeps_it(void **state)
{
	(void)state;
	assert_int_equal(working_set_window_ms(1), 1000);
	assert_int_equal(working_set_window_ms(511), 511000);
	assert_int_equal(working_set_window_ms(1001), 1002000);
	assert_int_equal(working_set_window_ms(UINT32_MAX), (UINT64_C(1) << 32) * 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schema_is_read_and_libpq_gets_the_rest),
		cmocka_unit_test(test_schema_that_needs_quotes_is_refused),
		cmocka_unit_test(test_rows_are_found_and_sort_as_numbers_do),
		cmocka_unit_test(test_second_of_a_batch_is_a_duplicate_of_the_first),
		cmocka_unit_test(test_expired_claim_is_not_taken_without_its_lock),
		cmocka_unit_test(test_conflict_that_is_kept_aside_needs_its_row),
		cmocka_unit_test(test_set_of_new_events_needs_no_decision),
		cmocka_unit_test(test_set_with_more_than_new_events_is_not_sent_as_new),
		cmocka_unit_test(test_window_is_kept_as_the_model_keeps_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
