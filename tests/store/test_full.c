/*
 * A full disk: what is kept for settles stays theirs, nothing is written in vain,
 * and a stop ends.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/local/local_store.h"
#include "store/port.h"
#include "support/clock_fake.h"
#include "support/simfs.h"
#include "support/store_calls.h"
#include "support/test.h"

#define SEGMENT (4u << 20) /* of which 16 frames of a block each are the reserve */
#define RESERVE_FRAMES 16u
#define EVENTS_MAX 64u

static struct clock_fake fake;
static struct simfs *simfs;
static struct local_store_options options;
static struct store *store;

static void open_store(void)
{
	struct error_text text = { "" };
	int r = local_store_open(&options, &store, &text);

	if (r < 0)
		fail_msg("open: %s: %s", error_name(r), text.text);
}

static int begin(void **state)
{
	(void)state;
	simfs = simfs_new(test_seed());
	clock_fake_init(&fake);
	options = (struct local_store_options){ .path = "data",
		                                .fs = simfs_fs(simfs),
		                                .clock = &fake.clock,
		                                .segment_bytes = SEGMENT,
		                                .keeper_inline = true };
	open_store();
	return 0;
}

static int end(void **state)
{
	(void)state;
	store = store_free(store);
	simfs = simfs_free(simfs);
	return 0;
}

static struct store_admit admit_of(uint64_t number, struct span payload)
{
	return (struct store_admit){ .claim_count = 1,
		                     .claims = { { .digest = { { number, ~number } },
		                                   .window_s = 3600 } },
		                     .source = SPAN("test"),
		                     .payload = payload };
}

static int admit(uint64_t number, size_t size)
{
	static char payload[256u << 10];
	struct store_admit op = admit_of(number, span_of(payload, size));

	return store_call(store, &op.op, STORE_ADMIT);
}

/* Small events that can be settled, then large ones until there is no room, then
 * smaller ones until nothing of any size finds some. */
static void fill_disk(uint32_t events)
{
	uint64_t number = 1;

	for (; number <= events; number++)
		assert_int_equal(admit(number, 10), 0);
	simfs_set_capacity(simfs, simfs_used(simfs) + SEGMENT / 2);
	number = 100000;
	for (size_t size = 128u << 10; size >= 16; size /= 2)
		while (admit(number, size) == 0)
			number++;
	assert_int_equal(admit(number, 16), ERR_FULL);
}

static uint32_t take_items(struct store_item items[static EVENTS_MAX], uint32_t max)
{
	struct take_call call = { 0 };
	struct store_parts parts;
	size_t at = 0;
	uint32_t count = 0;

	take_call_begin(store, &call, max, 1u << 20);
	store_flush(store);
	assert_true(take_call_poll(&call));
	while (store_item_next(buf_span(&call.take.items), &at, &items[count], &parts))
		count++;
	buf_free(&call.take.items);
	return count;
}

static struct store_settle settle_of(const struct store_item *item)
{
	return (struct store_settle){ .op = { .kind = STORE_SETTLE },
		                      .ticket = item->ticket,
		                      .attempt = item->attempt,
		                      .outcome = OUTCOME_DONE };
}

static void submit(struct store_op *op, enum store_op_kind kind, bool *finished)
{
	*finished = false;
	op->kind = kind;
	op->done = store_calls_done;
	op->user = finished;
	store_submit(store, op);
}

static void test_admits_do_not_use_up_the_room_of_settles(void **state)
{
	(void)state;
	static char payload[2000];
	struct store_item items[EVENTS_MAX];

	fill_disk(RESERVE_FRAMES);
	assert_int_equal(take_items(items, RESERVE_FRAMES), RESERVE_FRAMES);
	for (uint32_t i = 0; i < RESERVE_FRAMES; i++) {
		struct store_settle settle = settle_of(&items[i]);
		struct store_admit event = admit_of(900000, span_of(payload, sizeof(payload)));
		bool settled, admitted;
		submit(&settle.op, STORE_SETTLE, &settled);
		submit(&event.op, STORE_ADMIT, &admitted);
		store_flush(store);
		assert_true(settled && admitted);
		assert_int_equal(settle.op.error, 0);
		assert_int_equal(event.op.error, ERR_FULL);
	}
}

static void test_counts_of_duplicates_do_not_use_up_the_room_of_settles(void **state)
{
	(void)state;
	struct store_item items[EVENTS_MAX];

	for (uint64_t i = 1; i <= 200; i++)
		assert_int_equal(admit(500000 + i, 10), 0);
	for (uint32_t i = 0; i < 200; i += 50)
		assert_int_equal(take_items(items, 50), 50);
	fill_disk(RESERVE_FRAMES);
	assert_int_equal(take_items(items, RESERVE_FRAMES), RESERVE_FRAMES);
	for (uint32_t i = 0; i < RESERVE_FRAMES; i++) {
		struct store_settle settle = settle_of(&items[i]);
		bool settled;
		for (uint64_t k = 1; k <= 200; k++)
			assert_int_equal(admit(500000 + k, 10), 0);
		submit(&settle.op, STORE_SETTLE, &settled);
		store_flush(store);
		assert_true(settled);
		assert_int_equal(settle.op.error, 0);
	}
}

static int note_start(const struct store_item *item)
{
	struct store_note note = { .ticket = item->ticket,
		                   .attempt = item->attempt,
		                   .mark = STORE_MARK_STARTED };

	return store_call(store, &note.op, STORE_NOTE);
}

/* Where an attempt is noted before it is made, too; and what came of it is written down. */
static void test_deliveries_go_on_and_leave_room_for_their_outcomes(void **state)
{
	(void)state;
	struct store_item items[EVENTS_MAX];
	uint32_t started = 0;

	fill_disk(RESERVE_FRAMES);
	assert_int_equal(take_items(items, RESERVE_FRAMES), RESERVE_FRAMES);
	while (started < RESERVE_FRAMES && note_start(&items[started]) == 0)
		started++;
	assert_int_equal(started, RESERVE_FRAMES / 2);
	assert_int_equal(note_start(&items[started]), ERR_FULL);
	for (uint32_t i = 0; i < started; i++) {
		struct store_settle settle = settle_of(&items[i]);
		bool settled;
		submit(&settle.op, STORE_SETTLE, &settled);
		store_flush(store);
		assert_true(settled);
		assert_int_equal(settle.op.error, 0);
	}
}

static uint32_t said_full, said_room;

static void count_says(void *user, enum local_store_level level, const char *text)
{
	(void)user;
	said_full += level == LOCAL_STORE_ERROR &&
	             strstr(text, "no room for another segment; new events rejected");
	said_room += strcmp(text, "room for segments again; new events accepted") == 0;
}

static void test_a_full_disk_is_told_once_and_so_is_its_end(void **state)
{
	(void)state;
	said_full = said_room = 0;
	store = store_free(store);
	options.log = count_says;
	open_store();
	fill_disk(1);
	for (uint32_t i = 0; i < 10; i++) {
		store_tick(store);
		assert_int_equal(admit(700000, 64u << 10), ERR_FULL);
	}
	assert_int_equal(said_full, 1);
	assert_int_equal(said_room, 0);
	simfs_set_capacity(simfs, UINT64_MAX);
	(void)admit(700000, 64u << 10);
	for (uint32_t i = 0; i < 10; i++)
		store_tick(store);
	assert_int_equal(admit(700000, 64u << 10), 0);
	store_tick(store);
	assert_int_equal(said_full, 1);
	assert_int_equal(said_room, 1);
}

static int put_cell(uint64_t number)
{
	static char bytes[64u << 10];
	struct store_cell op = { .act = STORE_CELL_PUT,
		                 .cell = { .digest = { { number, ~number } },
		                           .name = SPAN("name"),
		                           .value = span_of(bytes, sizeof(bytes)) } };

	return store_call(store, &op.op, STORE_CELL);
}

static void test_a_disk_that_is_full_of_cells_is_told_too(void **state)
{
	uint64_t number = 1;

	(void)state;
	said_full = said_room = 0;
	store = store_free(store);
	options.log = count_says;
	open_store();
	simfs_set_capacity(simfs, simfs_used(simfs) + SEGMENT / 2);
	while (put_cell(number) == 0)
		number++;
	assert_int_equal(put_cell(number), ERR_FULL);
	store_tick(store);
	assert_int_equal(said_full, 1);
}

/* ---- nothing is written in vain ---- */

static struct file_methods counting;
static const struct file_methods *below;
static uint64_t written_bytes;
static uint32_t claims_files;
static bool claims_fail;

static int counting_write(struct file_system *fs, int fd, const void *ptr, size_t len,
                          uint64_t offset)
{
	written_bytes += len;
	return below->write(fs, fd, ptr, len, offset);
}

static int counting_open(struct file_system *fs, const char *path, int flags, int *ret_fd)
{
	if (strstr(path, ".clm.tmp")) {
		claims_files++;
		if (claims_fail)
			return -EIO;
	}
	return below->open(fs, path, flags, ret_fd);
}

static void count_calls(void)
{
	below = options.fs->methods;
	counting = *below;
	counting.write = counting_write;
	counting.open = counting_open;
	options.fs->methods = &counting;
	written_bytes = 0;
	claims_files = 0;
}

static void test_a_full_disk_is_not_filled_with_zeros_again_and_again(void **state)
{
	(void)state;
	fill_disk(1);
	count_calls();
	for (int i = 0; i < 200; i++) {
		clock_fake_advance(&fake, 50);
		store_tick(store);
		assert_int_equal(admit(900000, 2000), ERR_FULL);
	}
	assert_true(written_bytes < 64u << 10);
	options.fs->methods = below;
	simfs_set_capacity(simfs, 0);
	store_tick(store);
	assert_int_equal(admit(900000, 2000), 0);
}

static void test_a_claims_file_that_fails_is_not_tried_with_every_tick(void **state)
{
	(void)state;
	count_calls();
	claims_fail = true;
	for (uint64_t i = 1; i <= 2 * SEGMENT / (100u << 10); i++)
		assert_int_equal(admit(i, 100u << 10), 0);
	for (int i = 0; i < 100; i++) { /* five seconds */
		clock_fake_advance(&fake, 50);
		store_tick(store);
	}
	assert_in_range(claims_files, 1, 3);
	claims_fail = false;
	clock_fake_advance(&fake, 60000);
	for (int i = 0; i < 4; i++)
		store_tick(store);
	options.fs->methods = below;
	assert_true(simfs_file_size(simfs, "data/0000000000000001.clm") > 0);
}

/* ---- the end ---- */

static void wake_nobody(void *user)
{
	(void)user;
}

static void test_a_stop_on_a_full_disk_ends_and_the_ticket_stays_open(void **state)
{
	(void)state;
	struct store_item items[EVENTS_MAX];
	struct store_host *host = NULL;
	struct port *port = NULL;
	struct store_settle settle;
	bool settled;

	assert_int_equal(admit(1, 10), 0);
	struct simfs *killed = simfs_copy(simfs); /* so that a new segment is needed */
	end(NULL);
	simfs = killed;
	options.fs = simfs_fs(simfs);
	/* The segment that was prepared goes at start, and finds no room again. */
	simfs_set_capacity(simfs, simfs_used(simfs) - 4096);
	open_store(); /* no segment is open: there is no reserve either */
	assert_int_equal(take_items(items, 1), 1);
	settle = settle_of(&items[0]);
	assert_int_equal(store_host_new(&(struct store_host_options){ .store = store,
	                                                              .mode = STORE_HOST_EMBEDDED,
	                                                              .wake = wake_nobody },
	                                &host),
	                 0);
	assert_int_equal(port_new(host, &(struct port_options){ 0 }, &port), 0);
	store = port_store(port);
	submit(&settle.op, STORE_SETTLE, &settled);
	store_flush(store);
	for (int i = 0; i < 3; i++) {
		store_host_tick(host);
		port_collect(port);
	}
	assert_false(settled);
	store_host_end_takes(host);
	store_host_tick(host);
	port_collect(port);
	assert_true(settled);
	assert_int_equal(settle.op.error, ERR_CLOSING);
	assert_int_equal(store_room(store), PORT_IN_FLIGHT_DEFAULT);
	store_free(store);
	store_host_free(host);
	simfs_set_capacity(simfs, 0);
	open_store();
	assert_int_equal(take_items(items, 1), 1);
}

static void test_a_closed_segment_takes_events_though_the_disk_is_full(void **state)
{
	(void)state;
	assert_int_equal(admit(1, 10), 0);
	store_free(store);
	simfs_set_capacity(simfs, simfs_used(simfs) - 4096); /* no room for a next one */
	open_store();
	assert_int_equal(admit(2, 10), 0);
}

static char told[4][ERROR_TEXT_MAX];
static uint32_t told_count;

static void tell(void *user, enum local_store_level level, const char *text)
{
	(void)user;
	(void)level;
	assert_true(told_count < ARRAY_LEN(told));
	snprintf(told[told_count++], sizeof(told[0]), "%s", text);
}

static bool is_writable(void)
{
	struct store_stats stats;

	store_stats(store, &stats);
	return stats.writable;
}

static void settle_all(uint32_t expected)
{
	struct store_item items[EVENTS_MAX];

	assert_int_equal(take_items(items, EVENTS_MAX), expected);
	for (uint32_t i = 0; i < expected; i++) {
		struct store_settle settle = settle_of(&items[i]);
		assert_int_equal(store_call(store, &settle.op, STORE_SETTLE), 0);
	}
}

static void test_a_store_with_too_many_open_tickets_says_so_once(void **state)
{
	(void)state;
	store = store_free(store);
	options.max_open_tickets = 3;
	options.log = tell;
	told_count = 0;
	open_store();
	for (uint64_t i = 1; i <= 3; i++) {
		assert_true(is_writable());
		assert_int_equal(admit(i, 10), 0);
	}
	assert_false(is_writable());
	for (uint64_t i = 4; i <= 6; i++)
		assert_int_equal(admit(i, 10), ERR_FULL);
	store_tick(store);
	assert_int_equal(told_count, 1);
	assert_non_null(strstr(told[0], "3 tickets are open"));
	settle_all(3);
	assert_true(is_writable());
	assert_int_equal(told_count, 2);
	assert_non_null(strstr(told[1], "room"));
	assert_int_equal(admit(4, 10), 0);
	settle_all(1);
	assert_int_equal(told_count, 2);
}

static void test_an_admit_beyond_the_limit_of_open_tickets_is_taken(void **state)
{
	(void)state;
	store = store_free(store);
	options.max_open_tickets = 3;
	open_store();
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(admit(i, 10), 0);
	struct store_admit letter = { .payload = SPAN("{}"), .beyond_limit = true };
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(store_call(store, &letter.op, STORE_ADMIT), 0);
	assert_int_equal(admit(4, 10), ERR_FULL);
	store = store_free(store);
	open_store(); /* and is there again */
	assert_false(is_writable());
	settle_all(6);
	assert_int_equal(admit(4, 10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_admits_do_not_use_up_the_room_of_settles,
		                                begin, end),
		cmocka_unit_test_setup_teardown(
			test_counts_of_duplicates_do_not_use_up_the_room_of_settles, begin, end),
		cmocka_unit_test_setup_teardown(
			test_deliveries_go_on_and_leave_room_for_their_outcomes, begin, end),
		cmocka_unit_test_setup_teardown(test_a_full_disk_is_told_once_and_so_is_its_end,
		                                begin, end),
		cmocka_unit_test_setup_teardown(test_a_disk_that_is_full_of_cells_is_told_too,
		                                begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_full_disk_is_not_filled_with_zeros_again_and_again, begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_claims_file_that_fails_is_not_tried_with_every_tick, begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_stop_on_a_full_disk_ends_and_the_ticket_stays_open, begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_closed_segment_takes_events_though_the_disk_is_full, begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_store_with_too_many_open_tickets_says_so_once, begin, end),
		cmocka_unit_test_setup_teardown(
			test_an_admit_beyond_the_limit_of_open_tickets_is_taken, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
