/* Cells one by one: each test with every store that keeps them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/local/inspect.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

static struct clock_fake fake;
static struct store *store;
static struct simfs *simfs; /* of a local one */
static struct local_store_options local_options;

static int memory(void **state)
{
	struct model_store_options options = { .clock = &fake.clock };

	(void)state;
	clock_fake_init(&fake);
	return model_store_open(&options, &store);
}

static void local_open(void)
{
	struct error_text text = { "" };

	local_options.fs = simfs_fs(simfs);
	if (local_store_open(&local_options, &store, &text) < 0)
		fail_msg("open says %s", text.text);
}

static void local_make(uint32_t segment_bytes, bool lazy)
{
	clock_fake_init(&fake);
	simfs = simfs_new(test_seed());
	local_options = (struct local_store_options){ .path = "data",
		                                      .clock = &fake.clock,
		                                      .segment_bytes = segment_bytes,
		                                      .lazy_outcomes = lazy,
		                                      .retain_ms = 1000,
		                                      .keeper_inline = true };
	local_open();
}

static int local(void **state)
{
	(void)state;
	local_make(8u << 20, false);
	return 0;
}

static int local_lazy(void **state)
{
	(void)state;
	local_make(8u << 20, true);
	return 0;
}

/* Segments as small as can be. */
static int local_small(void **state)
{
	(void)state;
	local_make(LOCAL_STORE_SEGMENT_MIN, false);
	return 0;
}

static int store_end(void **state)
{
	(void)state;
	store = store_free(store);
	simfs = simfs_free(simfs);
	return 0;
}

static void reopen(void)
{
	store = store_free(store);
	local_open();
}

/* The process dies: what it had written to the cache is still there. */
static void kill_and_reopen(void)
{
	struct simfs *left = simfs_copy(simfs);

	store_free(store);
	simfs_free(simfs);
	simfs = left;
	local_open();
}

/* ---- calls ---- */

static struct store_cell_value value_make(const char *name, const char *value)
{
	uint64_t number = 0;

	for (const char *c = name; *c; c++)
		number = number * 131 + (unsigned char)*c;
	return (struct store_cell_value){
		.digest = { { number * UINT64_C(0x9e3779b97f4a7c15), number << 32 } },
		.name = span_str(name),
		.value = span_str(value),
	};
}

static struct store_cell act(enum store_cell_act what, const struct store_cell_value *value,
                             enum store_when when)
{
	struct store_cell cell = { .act = what, .when = when, .cell = *value };

	assert_int_equal(store_call(store, &cell.op, STORE_CELL), 0);
	assert_int_equal(cell.now_ms, fake.now.wall_ms);
	return cell;
}

static bool put(const char *name, const char *value, uint64_t ttl_ms, enum store_when when)
{
	struct store_cell_value cell = value_make(name, value);

	cell.ttl_ms = ttl_ms;
	return act(STORE_CELL_PUT, &cell, when).changed;
}

static bool is_there(const char *name)
{
	struct store_cell_value cell = value_make(name, NULL);

	return act(STORE_CELL_GET, &cell, STORE_ALWAYS).found;
}

static uint64_t expiry_of(const char *name)
{
	struct store_cell_value value = value_make(name, NULL);
	struct store_cell cell = act(STORE_CELL_GET, &value, STORE_ALWAYS);

	assert_true(cell.found && !cell.changed);
	return cell.expiry_ms;
}

static void value_is(const char *name, const char *value)
{
	struct store_cell cell = { .act = STORE_CELL_GET,
		                   .want_value = true,
		                   .cell = value_make(name, NULL) };

	assert_int_equal(store_call(store, &cell.op, STORE_CELL), 0);
	assert_int_equal(cell.found, value != NULL);
	assert_int_equal(cell.value.len, value ? strlen(value) : 0);
	if (cell.value.len)
		assert_memory_equal(cell.value.ptr, value, cell.value.len);
	buf_free(&cell.value);
}

static uint64_t live_cells(void)
{
	struct store_stats stats;

	store_tick(store);
	store_stats(store, &stats);
	return stats.live_cells;
}

/* ---- tests ---- */

static void test_put_if_absent_is_done_once(void **state)
{
	(void)state;
	assert_true(put("a", "1", 0, STORE_IF_ABSENT));
	assert_false(put("a", "2", 0, STORE_IF_ABSENT));
	value_is("a", "1");
	assert_int_equal(live_cells(), 1);
}

static void test_put_if_present_changes_what_is_there_only(void **state)
{
	(void)state;
	assert_false(put("a", "1", 0, STORE_IF_PRESENT));
	value_is("a", NULL);
	put("a", "1", 0, STORE_ALWAYS);
	assert_true(put("a", "two", 0, STORE_IF_PRESENT));
	value_is("a", "two");
}

static void test_a_cell_is_over_at_its_time_and_not_before(void **state)
{
	(void)state;
	put("a", "1", 1500, STORE_ALWAYS);
	assert_int_equal(expiry_of("a"), fake.now.wall_ms + 1500);
	clock_fake_advance(&fake, 1499);
	assert_true(is_there("a"));
	assert_false(put("a", "2", 0, STORE_IF_ABSENT));
	clock_fake_advance(&fake, 1);
	assert_false(is_there("a"));
	assert_true(put("a", "2", 0, STORE_IF_ABSENT));
	value_is("a", "2");
}

static void test_a_cell_without_time_stays(void **state)
{
	(void)state;
	put("a", "1", 0, STORE_ALWAYS);
	assert_int_equal(expiry_of("a"), 0);
	clock_fake_advance(&fake, UINT64_C(400) * 24 * 3600 * 1000);
	store_tick(store);
	assert_true(is_there("a"));
}

static void test_times_that_never_come_are_kept(void **state)
{
	(void)state;
	put("a", "1", UINT64_MAX, STORE_ALWAYS);
	clock_fake_advance(&fake, UINT64_C(400) * 24 * 3600 * 1000);
	assert_true(is_there("a"));
}

static void test_a_put_in_the_past_leaves_nothing(void **state)
{
	(void)state;
	struct store_cell_value past = value_make("a", "2");

	put("a", "1", 0, STORE_ALWAYS);
	past.expiry_ms = fake.now.wall_ms;
	assert_true(act(STORE_CELL_PUT, &past, STORE_ALWAYS).changed);
	value_is("a", NULL);
	assert_int_equal(live_cells(), 0);
}

static void test_a_put_keeps_the_time_if_told_so(void **state)
{
	(void)state;
	struct store_cell_value kept = value_make("a", "2");

	kept.keep_expiry = true;
	put("a", "1", 1000, STORE_ALWAYS);
	uint64_t expiry_ms = expiry_of("a");
	clock_fake_advance(&fake, 400);
	assert_true(act(STORE_CELL_PUT, &kept, STORE_ALWAYS).changed);
	assert_int_equal(expiry_of("a"), expiry_ms);
	value_is("a", "2");
	put("a", "3", 0, STORE_ALWAYS); /* and forgets it if not */
	assert_int_equal(expiry_of("a"), 0);
}

static void test_expire_moves_the_time_and_keeps_the_value(void **state)
{
	(void)state;
	struct store_cell_value moved = value_make("a", NULL);

	moved.ttl_ms = 5000;
	assert_false(act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS).changed);
	put("a", "1", 1000, STORE_ALWAYS);
	assert_true(act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS).changed);
	clock_fake_advance(&fake, 4999);
	value_is("a", "1");
	moved.ttl_ms = 0; /* never */
	assert_true(act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS).changed);
	clock_fake_advance(&fake, 1);
	value_is("a", "1");
	assert_int_equal(expiry_of("a"), 0);
	moved.expiry_ms = 1; /* long over */
	assert_true(act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS).changed);
	value_is("a", NULL);
}

static void test_what_is_removed_is_not_there(void **state)
{
	(void)state;
	struct store_cell_value gone = value_make("a", NULL);

	assert_false(act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS).changed);
	put("a", "1", 0, STORE_ALWAYS);
	assert_true(act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS).changed);
	assert_false(is_there("a"));
	assert_int_equal(live_cells(), 0);
	assert_true(put("a", "2", 0, STORE_IF_ABSENT));
	value_is("a", "2");
}

static void test_the_value_before_is_told(void **state)
{
	(void)state;
	struct store_cell cell = { .act = STORE_CELL_PUT,
		                   .want_value = true,
		                   .cell = value_make("a", "new") };

	put("a", "old", 0, STORE_ALWAYS);
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), 0);
	assert_true(cell.found && cell.changed && cell.value.len == 3);
	assert_memory_equal(cell.value.ptr, "old", 3);
	cell.act = STORE_CELL_REMOVE;
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), 0);
	assert_true(cell.found && cell.changed && cell.value.len == 3);
	assert_memory_equal(cell.value.ptr, "new", 3);
	buf_free(&cell.value);
}

static void test_operations_of_one_flush_see_those_before(void **state)
{
	(void)state;
	struct store_cell cells[4] = {
		{ .act = STORE_CELL_PUT, .when = STORE_IF_ABSENT, .cell = value_make("a", "1") },
		{ .act = STORE_CELL_PUT, .when = STORE_IF_ABSENT, .cell = value_make("a", "2") },
		{ .act = STORE_CELL_REMOVE, .want_value = true, .cell = value_make("a", "") },
		{ .act = STORE_CELL_PUT, .when = STORE_IF_ABSENT, .cell = value_make("a", "3") },
	};
	bool done[4] = { false };

	for (size_t i = 0; i < 4; i++) {
		cells[i].op = (struct store_op){ .kind = STORE_CELL,
			                         .done = store_calls_done,
			                         .user = &done[i] };
		store_submit(store, &cells[i].op);
	}
	store_calls_flush(store);
	for (size_t i = 0; i < 4; i++)
		assert_true(done[i] && cells[i].op.error == 0);
	assert_true(cells[0].changed && !cells[1].changed && cells[2].changed && cells[3].changed);
	assert_true(cells[2].value.len == 1 && cells[2].value.ptr[0] == '1');
	value_is("a", "3");
	buf_free(&cells[2].value);
}

static void test_long_names_and_values_are_kept(void **state)
{
	(void)state;
	char *name = mem_alloc(STORE_NAME_MAX + 2), *value = mem_alloc(STORE_VALUE_MAX + 2);

	memset(name, 'n', STORE_NAME_MAX + 1);
	memset(value, 'v', STORE_VALUE_MAX + 1);
	name[STORE_NAME_MAX] = value[STORE_VALUE_MAX] = '\0';
	assert_true(put(name, value, 0, STORE_ALWAYS));
	put("b", "1", 0, STORE_ALWAYS);
	value_is(name, value);
	value[STORE_VALUE_MAX] = 'v';
	value[STORE_VALUE_MAX + 1] = '\0';
	struct store_cell large = { .act = STORE_CELL_PUT, .cell = value_make("c", value) };
	assert_int_equal(store_call(store, &large.op, STORE_CELL), ERR_TOO_LARGE);
	assert_false(is_there("c"));
	mem_free(name);
	mem_free(value);
}

static void test_malformed_operations_are_refused(void **state)
{
	(void)state;
	struct store_cell cell = { .act = STORE_CELL_PUT, .cell = value_make("a", "1") };

	cell.cell.ttl_ms = cell.cell.expiry_ms = 1;
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), ERR_INVALID);
	cell = (struct store_cell){ .cell = value_make("a", "1") };
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), ERR_INVALID);
	assert_false(is_there("a"));
}

static void test_a_claim_and_a_cell_may_share_a_digest(void **state)
{
	(void)state;
	struct store_admit admit = { .claim_count = 1, .no_ticket = true };

	admit.claims[0] = (struct claim){ .digest = value_make("a", "").digest, .window_s = 60 };
	assert_true(put("a", "1", 0, STORE_IF_ABSENT));
	assert_int_equal(store_call(store, &admit.op, STORE_ADMIT), 0);
	assert_int_equal(admit.verdict, VERDICT_NEW);
	value_is("a", "1");
}

/* ---- scans ---- */

#define MANY 3000u

/* How often each of the cells named c0 … is told. */
static uint32_t scan_all(uint8_t told[static MANY], uint32_t max_names)
{
	struct store_cell_scan scan = { .max_names = max_names };
	uint32_t rounds = 0;

	memset(told, 0, MANY);
	do {
		struct span name;
		size_t offset = 0;
		uint32_t count = 0;
		assert_int_equal(store_call(store, &scan.op, STORE_CELL_SCAN), 0);
		for (; store_name_next(buf_span(&scan.names), &offset, &name); count++) {
			char text[32] = "";
			unsigned number;
			assert_true(name.len < sizeof(text));
			memcpy(text, name.ptr, name.len);
			assert_int_equal(sscanf(text, "c%u", &number), 1);
			told[number]++;
		}
		assert_int_equal(count, scan.count);
		assert_true(++rounds < 100000);
	} while (!scan.end);
	buf_free(&scan.names);
	return rounds;
}

static void put_many(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		char name[32];
		snprintf(name, sizeof(name), "c%u", i);
		put(name, "1", i % 3 ? 0 : 1000, STORE_ALWAYS);
	}
}

static void test_a_scan_tells_all_that_is_there(void **state)
{
	(void)state;
	static uint8_t told[MANY];

	scan_all(told, 10); /* of nothing */
	put_many(0, MANY);
	assert_true(scan_all(told, 100) > 5);
	for (uint32_t i = 0; i < MANY; i++)
		assert_true(told[i] > 0);
	clock_fake_advance(&fake, 1000);
	for (uint32_t i = 1; i < MANY; i += 3) {
		char name[32];
		snprintf(name, sizeof(name), "c%u", i);
		struct store_cell_value gone = value_make(name, NULL);
		act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS);
	}
	scan_all(told, 100);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(told[i] > 0, i % 3 == 2);
}

static void test_a_scan_misses_nothing_while_cells_come(void **state)
{
	(void)state;
	struct store_cell_scan scan = { .max_names = 7 };
	static uint8_t told[MANY];
	uint32_t next = 100;

	put_many(0, 100);
	do {
		struct span name;
		size_t offset = 0;
		assert_int_equal(store_call(store, &scan.op, STORE_CELL_SCAN), 0);
		while (store_name_next(buf_span(&scan.names), &offset, &name)) {
			char text[32] = "";
			unsigned number;
			memcpy(text, name.ptr, name.len);
			assert_int_equal(sscanf(text, "c%u", &number), 1);
			told[number]++;
		}
		if (next < MANY)
			put_many(next, next + 100);
		next += 100;
	} while (!scan.end);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(told[i] > 0);
	buf_free(&scan.names);
}

/* ---- answers of outcomes ---- */

static struct store_settle settle_make(uint32_t attempt)
{
	struct store_admit admit = { .claims = { { .digest = { { 7, 1 } }, .window_s = 60 } },
		                     .claim_count = 1,
		                     .payload = SPAN("{}") };
	struct take_call call = { 0 };

	assert_int_equal(store_call(store, &admit.op, STORE_ADMIT), 0);
	take_call_begin(store, &call, 1, 1000);
	store_calls_flush(store);
	assert_true(take_call_poll(&call) && call.take.count == 1);
	buf_free(&call.take.items);
	return (struct store_settle){ .ticket = admit.ticket,
		                      .attempt = attempt,
		                      .outcome = OUTCOME_DONE };
}

static void test_an_answer_is_kept_with_its_outcome(void **state)
{
	(void)state;
	struct store_cell_value answer = value_make("t", "{\"sent\":true}");
	struct store_settle settle = settle_make(1);

	answer.ttl_ms = 1000;
	settle.answer = &answer;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), 0);
	value_is("t", "{\"sent\":true}");
	assert_int_equal(expiry_of("t"), fake.now.wall_ms + 1000);
}

static void test_a_refused_outcome_leaves_no_answer(void **state)
{
	(void)state;
	struct store_cell_value answer = value_make("t", "late");
	struct store_settle settle = settle_make(2);

	settle.answer = &answer;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_FENCED);
	assert_false(is_there("t"));
	settle.attempt = 1;
	answer.ttl_ms = answer.expiry_ms = 5;
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), ERR_INVALID);
	answer.ttl_ms = 0; /* it is still leased */
	assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), 0);
}

/* ---- without memory ---- */

static void test_a_failed_allocation_changes_nothing(void **state)
{
	(void)state;
	put("a", "old", 0, STORE_ALWAYS);
	for (unsigned long n = 1; n < 8; n++) {
		struct store_cell cell = { .act = STORE_CELL_PUT,
			                   .want_value = true,
			                   .cell = value_make("a", "new") };
		mem_fail_at(n, false);
		int error = store_call(store, &cell.op, STORE_CELL);
		mem_fail_at(0, false);
		assert_true(error == 0 || error == ERR_FULL);
		value_is("a", error == 0 ? "new" : "old");
		put("a", "old", 0, STORE_ALWAYS);
		buf_free(&cell.value);
	}
}

#define WITH(make, test)                                                                 \
	{                                                                                \
		.name = #test "_with_" #make, .test_func = (test), .setup_func = (make), \
		.teardown_func = (store_end),                                            \
	}

#define ALL_WITH(make)                                                      \
	WITH(make, test_put_if_absent_is_done_once),                        \
		WITH(make, test_put_if_present_changes_what_is_there_only), \
		WITH(make, test_a_cell_is_over_at_its_time_and_not_before), \
		WITH(make, test_a_cell_without_time_stays),                 \
		WITH(make, test_times_that_never_come_are_kept),            \
		WITH(make, test_a_put_in_the_past_leaves_nothing),          \
		WITH(make, test_a_put_keeps_the_time_if_told_so),           \
		WITH(make, test_expire_moves_the_time_and_keeps_the_value), \
		WITH(make, test_what_is_removed_is_not_there),              \
		WITH(make, test_the_value_before_is_told),                  \
		WITH(make, test_operations_of_one_flush_see_those_before),  \
		WITH(make, test_long_names_and_values_are_kept),            \
		WITH(make, test_malformed_operations_are_refused),          \
		WITH(make, test_a_claim_and_a_cell_may_share_a_digest),     \
		WITH(make, test_a_scan_tells_all_that_is_there),            \
		WITH(make, test_a_scan_misses_nothing_while_cells_come),    \
		WITH(make, test_an_answer_is_kept_with_its_outcome),        \
		WITH(make, test_a_refused_outcome_leaves_no_answer),        \
		WITH(make, test_a_failed_allocation_changes_nothing)

/* ---- the local store alone ---- */

static void test_cells_outlive_a_restart(void **state)
{
	(void)state;
	struct store_cell_value moved = value_make("b", NULL), gone = value_make("c", NULL);

	put("a", "1", 0, STORE_ALWAYS);
	put("b", "2", 5000, STORE_ALWAYS);
	put("c", "3", 0, STORE_ALWAYS);
	put("d", "4", 1000, STORE_ALWAYS);
	act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS);
	moved.ttl_ms = 9000;
	act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS);
	uint64_t expiry_ms = expiry_of("b");
	clock_fake_advance(&fake, 1000);
	for (int i = 0; i < 4; i++) {
		if (i % 2)
			reopen();
		else
			kill_and_reopen();
		value_is("a", "1");
		value_is("b", "2");
		value_is("c", NULL);
		value_is("d", NULL);
		assert_int_equal(expiry_of("a"), 0);
		assert_int_equal(expiry_of("b"), expiry_ms);
		assert_int_equal(live_cells(), 2);
	}
	clock_fake_advance(&fake, 8000);
	reopen();
	value_is("b", NULL);
}

static void test_a_cell_that_lasts_longer_does_so_after_a_restart(void **state)
{
	(void)state;
	struct store_cell_value moved = value_make("a", NULL);

	put("a", "1", 1000, STORE_ALWAYS);
	moved.ttl_ms = 500; /* earlier */
	act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS);
	moved.ttl_ms = 5000;
	act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS);
	clock_fake_advance(&fake, 2000);
	reopen();
	value_is("a", "1");
	clock_fake_advance(&fake, 3000);
	value_is("a", NULL);
}

static uint64_t segments(void)
{
	struct store_stats stats;

	store_stats(store, &stats);
	return stats.segments;
}

/* So many cells that come and go that the journal rolls over. */
static void churn(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char name[32], value[600];
		snprintf(name, sizeof(name), "churn%u", i % 50);
		memset(value, 'a' + (char)(i % 26), sizeof(value));
		value[sizeof(value) - 1] = '\0';
		put(name, value, 2000, STORE_ALWAYS);
		if (i % 16 == 0) {
			clock_fake_advance(&fake, 100);
			store_tick(store);
		}
	}
}

static void test_cells_are_carried_out_of_the_way(void **state)
{
	(void)state;
	struct store_cell_value gone = value_make("gone", NULL), moved = value_make("moved", NULL);

	put("kept", "for ever", 0, STORE_ALWAYS);
	put("gone", "not for ever", 0, STORE_ALWAYS);
	put("moved", "longer", 1000, STORE_ALWAYS);
	act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS);
	moved.ttl_ms = 3600 * 1000;
	act(STORE_CELL_EXPIRE, &moved, STORE_ALWAYS);
	uint64_t expiry_ms = expiry_of("moved");
	churn(4000);
	assert_true(segments() < 40); /* of sixty and more that were written */
	for (int i = 0; i < 3; i++) {
		value_is("kept", "for ever");
		value_is("gone", NULL);
		value_is("moved", "longer");
		assert_int_equal(expiry_of("moved"), expiry_ms);
		reopen();
		churn(1000);
		assert_true(segments() < 40);
	}
}

static int count_line(void *user, struct span json)
{
	uint32_t *count = user;

	*count += span_starts(json, SPAN("{\"kind\":\"cell\""));
	return 0;
}

static void test_the_tools_know_cells(void **state)
{
	(void)state;
	struct store_cell_value gone = value_make("a", NULL);
	struct journal_inspect_options options = { .path = "data", .clock = &fake.clock };
	struct journal_report report;
	uint32_t lines = 0;
	struct journal_dump_sink sink = { .line = count_line, .user = &lines };

	put("a", "1", 0, STORE_ALWAYS);
	put("b", "\xff", 60000, STORE_ALWAYS);
	act(STORE_CELL_REMOVE, &gone, STORE_ALWAYS);
	store = store_free(store);
	options.fs = simfs_fs(simfs);
	assert_int_equal(journal_verify(&options, NULL, &report, NULL), 0);
	assert_int_equal(report.cell_records, 3);
	assert_int_equal(report.live_cells, 1);
	assert_int_equal(report.version, 2);
	assert_int_equal(journal_dump(&options, &sink, NULL), 0);
	assert_int_equal(lines, 3);
	local_open();
}

static void test_a_folder_without_cells_is_of_the_first_version(void **state)
{
	(void)state;
	struct journal_inspect_options options = { .path = "data", .clock = &fake.clock };
	struct store_admit admit = { .claims = { { .digest = { { 7, 1 } }, .window_s = 60 } },
		                     .claim_count = 1,
		                     .no_ticket = true };
	struct journal_report report;

	assert_int_equal(store_call(store, &admit.op, STORE_ADMIT), 0);
	assert_false(is_there("a"));
	store = store_free(store);
	options.fs = simfs_fs(simfs);
	assert_int_equal(journal_verify(&options, NULL, &report, NULL), 0);
	assert_int_equal(report.version, 1);
	local_open();
}

static void test_a_failed_write_leaves_the_cell_as_it_was(void **state)
{
	(void)state;
	static const enum store_cell_act acts[] = { STORE_CELL_PUT, STORE_CELL_EXPIRE,
		                                    STORE_CELL_REMOVE };

	put("a", "old", 60000, STORE_ALWAYS);
	uint64_t expiry_ms = expiry_of("a");
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		struct store_cell cell = { .act = acts[i], .cell = value_make("a", "new") };
		struct store_cell fresh = { .act = STORE_CELL_PUT, .cell = value_make("b", "new") };
		struct store_cell look = { .act = STORE_CELL_GET,
			                   .want_value = true,
			                   .cell = value_make("a", NULL) };
		bool done[3] = { false };
		cell.cell.ttl_ms = acts[i] == STORE_CELL_REMOVE ? 0 : 1000;
		cell.op = (struct store_op){ .kind = STORE_CELL,
			                     .done = store_calls_done,
			                     .user = &done[0] };
		fresh.op = cell.op;
		fresh.op.user = &done[1];
		look.op = cell.op;
		look.op.user = &done[2];
		store_submit(store, &cell.op);
		store_submit(store, &fresh.op);
		store_submit(store, &look.op);
		simfs_fail_at(simfs, SIMFS_EIO, 1, false);
		store_calls_flush(store);
		simfs_fail_at(simfs, SIMFS_NO_FAULT, 0, false);
		assert_true(done[0] && done[1] && done[2]);
		assert_int_equal(cell.op.error, ERR_POISONED);
		assert_int_equal(fresh.op.error, ERR_POISONED);
		assert_int_equal(look.op.error, 0);
		assert_true(look.found && look.value.len == 3);
		buf_free(&look.value);
		value_is("a", "old");
		assert_int_equal(expiry_of("a"), expiry_ms);
		assert_false(is_there("b"));
		assert_int_equal(live_cells(), 1);
	}
	reopen();
	value_is("a", "old");
	assert_false(is_there("b"));
}

/* A bit of the first place on disk that has this text. */
static void damage(const char *text)
{
	const char *path = "data/0000000000000001.seg";
	size_t len = strlen(text), same = 0;

	for (uint64_t at = 0; at < 65536; at++) {
		same = simfs_file_byte(simfs, path, at) == (unsigned char)text[same] ? same + 1 : 0;
		if (same == len) {
			simfs_flip_bit(simfs, path, at * 8);
			return;
		}
	}
	fail_msg("%s is not in the journal", text);
}

static void test_a_damaged_value_is_not_told(void **state)
{
	(void)state;
	struct store_cell cell = { .act = STORE_CELL_GET,
		                   .want_value = true,
		                   .cell = value_make("a", NULL) };

	put("a", "one of its kind", 0, STORE_ALWAYS);
	put("b", "another one", 0, STORE_ALWAYS);
	reopen(); /* it is not in memory any more */
	damage("one of its kind");
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), ERR_DAMAGED);
	value_is("b", "another one");
	cell.act = STORE_CELL_PUT;
	assert_int_equal(store_call(store, &cell.op, STORE_CELL), ERR_DAMAGED);
	assert_false(cell.changed);
	put("a", "new", 0, STORE_ALWAYS); /* whoever does not ask for it can go on */
	value_is("a", "new");
	buf_free(&cell.value);
}

/* Values that come often are kept as codes: none may be told as another. */
static void test_values_that_come_often_are_told_right(void **state)
{
	(void)state;
	uint64_t random = test_seed();
	static uint32_t model[200];

	for (uint32_t i = 0; i < 30000; i++) {
		uint64_t dice = test_random(&random);
		uint32_t at = (uint32_t)(dice % ARRAY_LEN(model));
		char name[32], value[32];
		snprintf(name, sizeof(name), "v%u", at);
		/* Some more than there are codes, and some that come once. */
		model[at] = (uint32_t)(dice >> 32) % (dice % 3 ? 20 : 1500) + i / 4000 * 700;
		snprintf(value, sizeof(value), "value %u", model[at]);
		put(name, value, 0, STORE_ALWAYS);
		if (i % 7000 == 0)
			reopen();
		at = (uint32_t)(dice >> 16) % ARRAY_LEN(model);
		if (model[at] == 0)
			continue;
		snprintf(name, sizeof(name), "v%u", at);
		snprintf(value, sizeof(value), "value %u", model[at]);
		value_is(name, value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL_WITH(memory),
		ALL_WITH(local),
		ALL_WITH(local_lazy),
		WITH(local, test_cells_outlive_a_restart),
		WITH(local_lazy, test_cells_outlive_a_restart),
		WITH(local, test_a_cell_that_lasts_longer_does_so_after_a_restart),
		WITH(local_small, test_cells_are_carried_out_of_the_way),
		WITH(local, test_the_tools_know_cells),
		WITH(local, test_a_folder_without_cells_is_of_the_first_version),
		WITH(local, test_a_failed_write_leaves_the_cell_as_it_was),
		WITH(local_lazy, test_a_failed_write_leaves_the_cell_as_it_was),
		WITH(local, test_a_damaged_value_is_not_told),
		WITH(local_small, test_values_that_come_often_are_told_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
