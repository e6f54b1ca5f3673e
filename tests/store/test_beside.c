/*
 * Frames that are written while the owner goes on: who waits for what, and what a
 * failed write takes with it. And the same with a real writer's thread.
 */
#include "base/error.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define MANY 400u

struct place {
	struct clock_fake clock;
	struct simfs *simfs;
	struct store *store;
};

static struct place place;

static void place_open(bool threads, uint32_t segment_bytes)
{
	struct local_store_options options = { .path = "data",
		                               .clock = &place.clock.clock,
		                               .fs = simfs_fs(place.simfs),
		                               .segment_bytes = segment_bytes,
		                               .beside_bytes = 1,
		                               .keeper_inline = !threads };
	struct error_text text = { "" };

	if (local_store_open(&options, &place.store, &text) < 0)
		fail_msg("open: %s", text.text);
}

static int begin(void **state)
{
	(void)state;
	place = (struct place){ .simfs = simfs_new(1) };
	clock_fake_init(&place.clock);
	place_open(false, LOCAL_STORE_SEGMENT_MIN);
	return 0;
}

static int end(void **state)
{
	(void)state;
	store_free(place.store);
	simfs_free(place.simfs);
	return 0;
}

struct call {
	struct store_admit admit;
	bool done;
};

static void submit(struct call *call, uint64_t key)
{
	*call = (struct call){
		.admit = { .op = { .kind = STORE_ADMIT, .done = store_calls_done },
		           .claims = { { .digest = { { key * UINT64_C(0x9e3779b97f4a7c15), 0 } },
		                         .window_s = 60,
		                         .kind = CLAIM_ONCE } },
		           .claim_count = 1,
		           .payload = SPAN("{}") },
	};
	call->admit.op.user = &call->done;
	store_submit(place.store, &call->admit.op);
}

static void test_nobody_is_told_before_the_write_has_ended(void **state)
{
	struct call first, copy;

	(void)state;
	submit(&first, 1);
	store_flush(place.store);
	assert_true(store_under_way(place.store));
	assert_false(first.done);
	submit(&copy, 1);
	store_flush(place.store);
	assert_true(first.done); /* the copy has no frame of its own to wait for */
	assert_true(copy.done);
	assert_false(store_under_way(place.store));
	assert_int_equal(first.admit.verdict, VERDICT_NEW);
	assert_int_equal(copy.admit.verdict, VERDICT_DUPLICATE);
	assert_int_equal(copy.admit.ticket, first.admit.ticket);
}

static void test_what_is_told_of_its_end_does_not_wait_for_it(void **state)
{
	struct call first, second;

	(void)state;
	place.store->written = store_calls_written;
	submit(&first, 1);
	store_flush(place.store);
	submit(&second, 2);
	store_flush(place.store); /* the write has not ended: decided, and no more */
	assert_false(first.done);
	assert_false(second.done);
	store_flush(place.store);
	assert_true(first.done);
	assert_false(second.done);
	store_calls_flush(place.store);
	assert_true(second.done);
	assert_true(second.admit.ticket > first.admit.ticket);
}

static void test_a_ticket_under_way_is_not_delivered(void **state)
{
	struct take_call take = { 0 };
	struct call call;

	(void)state;
	take_call_begin(place.store, &take, 10, 1000);
	submit(&call, 1);
	store_flush(place.store);
	assert_false(take_call_poll(&take));
	store_flush(place.store);
	assert_true(take_call_poll(&take));
	assert_int_equal(take.take.count, 1);
	buf_free(&take.take.items);
}

/* A write that will be lost is under way, and behind it wait two: one more of the same, and
 * another. */
static void submit_to_a_lost_write(struct call calls[static 3])
{
	submit(&calls[0], 1);
	store_flush(place.store);
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	submit(&calls[1], 2);
	submit(&calls[2], 1);
}

static void flush_and_lose(const struct call calls[static 3])
{
	store_calls_flush(place.store);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(calls[i].done);
		assert_int_equal(calls[i].admit.op.error, ERR_POISONED);
	}
}

static void test_a_lost_write_takes_back_what_was_decided_since(void **state)
{
	struct call lost[3], again, second;

	(void)state;
	submit_to_a_lost_write(lost);
	flush_and_lose(lost);
	submit(&again, 1);
	submit(&second, 2);
	store_calls_flush(place.store);
	assert_int_equal(again.admit.op.error, 0);
	assert_int_equal(again.admit.verdict, VERDICT_NEW);
	assert_int_equal(second.admit.verdict, VERDICT_NEW);
}

static void test_what_is_decided_ahead_waits_for_the_flush(void **state)
{
	struct call first, copy;

	(void)state;
	submit(&first, 1);
	store_decide(place.store);
	submit(&copy, 1);
	store_decide(place.store);
	assert_false(first.done || copy.done);
	assert_false(store_under_way(place.store));
	store_flush(place.store); /* there is nothing more to decide, but this to write */
	assert_true(store_under_way(place.store));
	assert_false(first.done || copy.done);
	store_calls_flush(place.store);
	assert_true(first.done && copy.done);
	assert_int_equal(first.admit.verdict, VERDICT_NEW);
	assert_int_equal(copy.admit.verdict, VERDICT_DUPLICATE);
}

static void test_what_was_decided_ahead_is_lost_with_the_frame_before(void **state)
{
	struct call lost[3], again;

	(void)state;
	submit_to_a_lost_write(lost);
	store_decide(place.store);
	assert_false(lost[0].done || lost[1].done || lost[2].done);
	flush_and_lose(lost);
	submit(&again, 2);
	store_decide(place.store);
	store_calls_flush(place.store);
	assert_int_equal(again.admit.op.error, 0);
	assert_int_equal(again.admit.verdict, VERDICT_NEW);
}

static void test_a_tick_completes_what_was_decided_ahead(void **state)
{
	struct call call, copy;

	(void)state;
	submit(&call, 1);
	store_calls_flush(place.store);
	submit(&copy, 1); /* rests on nothing but what is durable */
	store_decide(place.store);
	submit(&call, 2);
	store_decide(place.store);
	store_tick(place.store);
	assert_true(call.done);
	store_flush(place.store);
	assert_true(copy.done);
	assert_int_equal(copy.admit.verdict, VERDICT_DUPLICATE);
}

/* Else its number would be given to two, when what it was given out on is lost. */
static void test_a_lease_that_ends_under_way_is_not_given_on_before_it_is_written(void **state)
{
	struct take_call take = { .take = { .sink = 7 } };
	struct store_leg leg = { .sink = 7 };
	struct store_parts parts;
	struct store_item item;
	struct call call;
	bool taken = false;
	size_t at = 0;

	(void)state;
	place.store->written = store_calls_written;
	submit(&call, 1);
	call.admit.legs = &leg;
	call.admit.leg_count = 1;
	store_calls_flush(place.store);
	struct store_take one = {
		.op = { .kind = STORE_TAKE, .done = store_calls_done, .user = &taken },
		.ticket = call.admit.ticket,
		.sink = 7,
		.lease_ms = 10,
	};
	store_submit(place.store, &one.op);
	store_flush(place.store);
	clock_fake_advance(&place.clock, 20);
	take_call_begin(place.store, &take, 10, 1000);
	store_flush(place.store); /* the write has not ended */
	assert_false(taken);
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	store_calls_flush(place.store);
	assert_true(taken);
	assert_int_equal(one.op.error, ERR_POISONED);
	store_tick(place.store);
	assert_true(take_call_poll(&take));
	assert_true(store_item_next(buf_span(&take.take.items), &at, &item, &parts));
	struct store_settle settle = { .ticket = item.ticket,
		                       .attempt = item.attempt,
		                       .outcome = OUTCOME_DONE };
	assert_int_equal(store_call(place.store, &settle.op, STORE_SETTLE), 0);
	buf_free(&take.take.items);
	buf_free(&one.items);
}

static void submit_op(struct store_op *op, enum store_op_kind kind, bool *done)
{
	op->kind = kind;
	op->done = store_calls_done;
	op->user = done;
	store_submit(place.store, op);
}

/* A dead letter; its number. */
static uint64_t admit_dead(void)
{
	struct take_call take = { 0 };
	struct call call;

	submit(&call, 1);
	take_call_begin(place.store, &take, 10, 1000);
	store_calls_flush(place.store);
	assert_true(take_call_poll(&take));
	buf_free(&take.take.items);
	bool settled = false;
	struct store_settle settle = { .ticket = call.admit.ticket,
		                       .attempt = 1,
		                       .outcome = OUTCOME_DEAD };
	submit_op(&settle.op, STORE_SETTLE, &settled);
	store_tick(place.store);
	store_calls_flush(place.store);
	assert_true(settled && settle.op.error == 0);
	return call.admit.ticket;
}

/* It is dead as before, and nobody will say so again. */
static void test_who_waits_for_a_release_hears_that_it_was_lost(void **state)
{
	static bool released, told; /* the store has them longer than a test that fails */
	static struct store_release release;
	static struct store_wait wait;

	(void)state;
	place.store->written = store_calls_written;
	release.ticket = wait.ticket = admit_dead();
	wait.until_boot_ms = UINT64_MAX;
	submit_op(&release.op, STORE_RELEASE, &released);
	store_flush(place.store);
	submit_op(&wait.op, STORE_WAIT, &told);
	store_flush(place.store); /* the write has not ended */
	assert_false(released || told);
	simfs_fail_at(place.simfs, SIMFS_EIO, 1, false);
	store_calls_flush(place.store);
	assert_true(released);
	assert_int_equal(release.op.error, ERR_POISONED);
	assert_true(told);
	assert_int_equal(wait.outcome, OUTCOME_DEAD);
}

struct cell_call {
	struct store_cell cell;
	bool done;
};

static void submit_cell(struct cell_call *call, uint64_t key, enum store_cell_act act,
                        struct span value)
{
	*call = (struct cell_call){
		.cell = { .op = { .kind = STORE_CELL, .done = store_calls_done },
		          .act = act,
		          .want_value = act == STORE_CELL_GET,
		          .cell = { .digest = { { key * UINT64_C(0x9e3779b97f4a7c15), 0 } },
		                    .name = SPAN("name"),
		                    .value = value } },
	};
	call->cell.op.user = &call->done;
	store_submit(place.store, &call->cell.op);
}

/* More than what of a segment is kept in memory for others. */
static void test_all_of_a_large_frame_can_be_read_while_it_is_written(void **state)
{
	static char bytes[STORE_VALUE_MAX];
	struct cell_call puts[7], reads[7];

	(void)state;
	store_free(place.store);
	place_open(false, 64u << 20);
	for (uint32_t i = 0; i < 7; i++)
		submit_cell(&puts[i], i + 1, STORE_CELL_PUT,
		            span_of(bytes, sizeof(bytes) - 64 + i));
	store_flush(place.store);
	assert_true(store_under_way(place.store));
	for (uint32_t i = 0; i < 7; i++)
		submit_cell(&reads[i], i + 1, STORE_CELL_GET, SPAN_EMPTY);
	store_calls_flush(place.store);
	for (uint32_t i = 0; i < 7; i++) {
		assert_true(puts[i].done && reads[i].done);
		assert_int_equal(puts[i].cell.op.error, 0);
		assert_int_equal(reads[i].cell.op.error, 0);
		assert_int_equal(reads[i].cell.value.len, sizeof(bytes) - 64 + i);
		buf_free(&reads[i].cell.value);
	}
}

/* Each key comes twice: in the first half of a round, and while that is written. */
static void test_the_threads_of_writer_and_owner_agree(void **state)
{
	static struct call calls[MANY][2];

	(void)state;
	store_free(place.store);
	place_open(true, LOCAL_STORE_SEGMENT_MIN);
	for (uint32_t i = 0; i < MANY; i++) {
		submit(&calls[i][0], i + 1);
		if (i % 4 == 3)
			store_flush(place.store);
		else if (i % 4 == 1)
			store_decide(place.store);
		submit(&calls[i][1], i + 1);
	}
	store_calls_flush(place.store);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(calls[i][0].done && calls[i][1].done);
		assert_int_equal(calls[i][0].admit.verdict, VERDICT_NEW);
		assert_int_equal(calls[i][1].admit.verdict, VERDICT_DUPLICATE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_is_told_before_the_write_has_ended,
		                                begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_told_of_its_end_does_not_wait_for_it,
		                                begin, end),
		cmocka_unit_test_setup_teardown(test_a_ticket_under_way_is_not_delivered, begin,
		                                end),
		cmocka_unit_test_setup_teardown(test_a_lost_write_takes_back_what_was_decided_since,
		                                begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_decided_ahead_waits_for_the_flush,
		                                begin, end),
		cmocka_unit_test_setup_teardown(
			test_what_was_decided_ahead_is_lost_with_the_frame_before, begin, end),
		cmocka_unit_test_setup_teardown(test_a_tick_completes_what_was_decided_ahead, begin,
		                                end),
		cmocka_unit_test_setup_teardown(test_who_waits_for_a_release_hears_that_it_was_lost,
		                                begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_lease_that_ends_under_way_is_not_given_on_before_it_is_written,
			begin, end),
		cmocka_unit_test_setup_teardown(
			test_all_of_a_large_frame_can_be_read_while_it_is_written, begin, end),
		cmocka_unit_test_setup_teardown(test_the_threads_of_writer_and_owner_agree, begin,
		                                end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
