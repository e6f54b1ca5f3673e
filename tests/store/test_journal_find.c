/* journal_find: an event is read back by its ticket, also beside a running store. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/inspect.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define EVENTS 300u
#define PAYLOAD 1000u

static struct clock_fake fake;
static struct simfs *simfs;
static struct store *store;
static uint64_t tickets[EVENTS];

static void open_store(void)
{
	struct local_store_options options = { .path = "data",
		                               .fs = simfs_fs(simfs),
		                               .clock = &fake.clock,
		                               .segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		                               .keeper_inline = true };
	struct error_text text;
	assert_int_equal(local_store_open(&options, &store, &text), 0);
}

static void fill_payload(uint32_t number, char payload[static PAYLOAD])
{
	memset(payload, 'a' + (int)(number % 26), PAYLOAD);
	snprintf(payload, 16, "%u", number);
}

/* Over several segments, some of them in one millisecond. */
static int begin(void **state)
{
	(void)state;
	simfs = simfs_new(test_seed());
	clock_fake_init(&fake);
	open_store();
	for (uint32_t i = 0; i < EVENTS; i++) {
		char payload[PAYLOAD];
		fill_payload(i, payload);
		struct store_admit admit = { .claim_count = 1,
			                     .claims = { { .digest = { { i + 1, ~i } },
			                                   .window_s = 3600 } },
			                     .source = SPAN("test"),
			                     .payload = span_of(payload, sizeof(payload)) };
		if (i % 7 == 0)
			clock_fake_advance(&fake, 3);
		assert_int_equal(store_call(store, &admit.op, STORE_ADMIT), 0);
		tickets[i] = admit.ticket;
		store_tick(store);
	}
	struct store_stats stats;
	store_stats(store, &stats);
	assert_true(stats.segments > 3);
	return 0;
}

static int end(void **state)
{
	(void)state;
	store = store_free(store);
	simfs = simfs_free(simfs);
	return 0;
}

static int find(uint64_t ticket, struct buf *ret_payload)
{
	buf_clear(ret_payload);
	return journal_find_event(&(struct journal_inspect_options){ .path = "data",
	                                                             .fs = simfs_fs(simfs) },
	                          ticket, ret_payload);
}

static void assert_all_found(void)
{
	struct buf found = { 0 };
	for (uint32_t i = 0; i < EVENTS; i++) {
		char payload[PAYLOAD];
		fill_payload(i, payload);
		if (find(tickets[i], &found) != 0)
			fail_msg("event %u is not found", i);
		assert_int_equal(found.len, PAYLOAD);
		assert_memory_equal(found.ptr, payload, PAYLOAD);
	}
	buf_free(&found);
}

static void events_are_found_while_the_store_runs_and_after(void **state)
{
	(void)state;
	assert_all_found();
	store = store_free(store);
	assert_all_found();
	open_store();
	assert_all_found();
}

static void what_is_not_there_is_not_found(void **state)
{
	struct buf found = { 0 };
	(void)state;
	assert_int_equal(find(tickets[0] - 1, &found), -ENOENT);
	assert_int_equal(find(tickets[146] + 1, &found), -ENOENT); /* the last of its time */
	assert_int_equal(find(tickets[EVENTS - 1] + 1, &found), -ENOENT);
	assert_int_equal(find(1, &found), -ENOENT);
	struct journal_inspect_options nowhere = { .path = "nowhere", .fs = simfs_fs(simfs) };
	assert_int_equal(journal_find_event(&nowhere, tickets[0], &found), -ENOENT);
	assert_int_equal(found.len, 0);
	buf_free(&found);
}

static void want_of_memory_is_told(void **state)
{
	unsigned long n = 0, count;
	(void)state;
	do {
		struct buf found = { 0 };
		mem_fail_at(++n, false);
		int r = find(tickets[EVENTS / 2], &found);
		count = mem_fail_count();
		mem_fail_at(0, false);
		assert_true(r == 0 ? found.len == PAYLOAD : r == -ENOMEM && found.len == 0);
		buf_free(&found);
	} while (count >= n);
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(events_are_found_while_the_store_runs_and_after,
		                                begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_there_is_not_found, begin, end),
		cmocka_unit_test_setup_teardown(want_of_memory_is_told, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
