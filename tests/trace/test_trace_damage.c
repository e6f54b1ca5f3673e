/*
 * Damage, crashes and failures of a trace log: what is read back is what was
 * written or it is missing and told; a failure never reaches whoever adds.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "support/test.h"
#include "trace/files.h"
#include "trace/traces.h"

#define TRACES 60u

static struct numbers numbers;

static void add(struct trace_log *log, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		struct made_trace made;
		made_trace_fill(&made, i);
		trace_log_add(log, &made.trace);
	}
}

/* Some traces in one file, and its process was killed. */
static struct simfs *small_log(void)
{
	struct simfs *simfs = simfs_new(test_seed());
	struct trace_log *log = traces_open(simfs);
	for (uint64_t i = 0; i < TRACES; i += 12) {
		add(log, i, i + 12);
		trace_log_tick(log);
	}
	struct simfs *killed = simfs_copy(simfs);
	trace_log_free(log);
	simfs_free(simfs);
	return killed;
}

#define FILE_1 "data/traces/0000000000000001.trc"

/* Where a trace of the small log starts in its file. */
static uint64_t start_of(uint64_t number)
{
	uint64_t at = sizeof(struct trace_file_header);
	for (uint64_t i = 0; i < number; i++) {
		struct made_trace made;
		made_trace_fill(&made, i);
		at += trace_record_size(&made.trace);
	}
	return at;
}

static void find_all(struct trace_log *log)
{
	numbers_find(log, &(struct trace_query){ 0 }, &numbers);
}

static int count_found(void *user, uint32_t term, const struct trace *trace)
{
	(void)user;
	(void)term;
	made_trace_check(trace);
	return 0;
}

/* While calls fail, a question may fail as well. */
static void try_to_find(struct trace_log *log)
{
	int r = trace_log_find(log, &(struct trace_query){ 0 }, count_found, NULL);
	assert_true(r >= 0 || r == -EIO || r == -ENOMEM);
}

/* Opens the disk, checks every trace that is there, and that the log goes on. */
static uint32_t check_log(struct simfs *simfs, struct told *ret_told)
{
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	struct error_text text = { "" };
	told_begin();
	options.fs->methods->make_dir(options.fs, "data"); /* as the store does */
	if (trace_log_open(&options, &log, &text) < 0)
		fail_msg("the log does not open: %s", text.text);
	find_all(log);
	uint32_t found = numbers.count;
	add(log, 1000, 1004);
	numbers_find(log, BY_KEY(SPAN("order-1000")), &numbers);
	assert_int_equal(numbers.count, 4);
	trace_log_free(log);
	told_end(ret_told);
	return found;
}

/* Of 64 bits of the header all depends: of its epoch. A flip anywhere else costs a trace at
 * most. */
static void test_every_flipped_bit_is_told_and_costs_one_trace_at_most(void **state)
{
	(void)state;
	struct simfs *simfs = small_log();
	uint64_t size = simfs_file_size(simfs, FILE_1);
	uint64_t epoch = offsetof(struct trace_file_header, epoch) * 8;
	uint64_t step = test_stride(5);
	uint64_t whole = 0, fewer = 0;
	assert_int_equal(size, start_of(TRACES));
	for (uint64_t bit = 0; bit < size * 8; bit += step) {
		struct simfs *damaged = simfs_copy(simfs);
		struct told told = { 0 };
		simfs_flip_bit(damaged, FILE_1, bit);
		uint32_t found = check_log(damaged, &told);
		bool in_epoch = bit >= epoch && bit < epoch + 64;
		bool in_header = bit < sizeof(struct trace_file_header) * 8;
		if (found != (in_epoch ? 0 : in_header ? TRACES : TRACES - 1))
			fail_msg("bit %llu: %u traces are left", (unsigned long long)bit, found);
		if (told.warnings + told.notes != 1)
			fail_msg("bit %llu: %d reports", (unsigned long long)bit,
			         told.warnings + told.notes);
		whole += found == TRACES;
		fewer += found != TRACES;
		simfs_free(damaged);
	}
	printf("%llu flips: %llu without loss, %llu with\n", (unsigned long long)(whole + fewer),
	       (unsigned long long)whole, (unsigned long long)fewer);
	assert_true(fewer > whole);
	simfs_free(simfs);
}

static void test_a_file_cut_anywhere_keeps_what_is_before(void **state)
{
	(void)state;
	struct simfs *simfs = small_log();
	uint64_t size = simfs_file_size(simfs, FILE_1);
	for (uint64_t length = 0; length < size; length += test_stride(7)) {
		struct simfs *damaged = simfs_copy(simfs);
		struct told told = { 0 };
		simfs_cut_file(damaged, FILE_1, length);
		uint32_t found = check_log(damaged, &told);
		uint32_t whole = 0;
		while (start_of(whole + 1) <= length)
			whole++;
		if (found != whole)
			fail_msg("cut to %llu: %u traces are left of %u",
			         (unsigned long long)length, found, whole);
		simfs_free(damaged);
	}
	simfs_free(simfs);
}

static void test_a_damaged_place_in_the_middle_is_a_warning_with_file_and_offset(void **state)
{
	(void)state;
	struct simfs *simfs = small_log();
	struct told told = { 0 };
	char text[64];
	simfs_flip_bit(simfs, FILE_1, 8 * (start_of(7) + 100));
	assert_int_equal(check_log(simfs, &told), TRACES - 1);
	assert_int_equal(told.warnings, 1);
	snprintf(text, sizeof(text), "traces/0000000000000001.trc offset=%llu ",
	         (unsigned long long)start_of(7));
	assert_non_null(strstr(told.text, text));
	simfs_free(simfs);
}

/* ---- a complete file: records, filter, trailer; and the gaps ---- */

static struct simfs *full_log(uint32_t *ret_in_file_1)
{
	struct simfs *simfs = simfs_new(test_seed());
	struct trace_log *log = traces_open(simfs);
	struct trace_view view;
	for (uint64_t i = 0; !simfs_file_name(simfs, 2); i += 4) { /* gaps and two files */
		add(log, i, i + 4);
		trace_log_tick(log);
	}
	struct simfs *killed = simfs_copy(simfs);
	assert_int_equal(trace_view_open(&view, simfs_fs(simfs), "data/traces", 1), 0);
	assert_true(view.complete);
	*ret_in_file_1 = (uint32_t)view.trailer.record_count;
	trace_view_close(&view);
	trace_log_free(log);
	simfs_free(simfs);
	return killed;
}

static uint32_t found_by_ids(struct simfs *simfs, uint32_t from, uint32_t count)
{
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	uint32_t found = 0;
	assert_int_equal(trace_log_open(&options, &log, NULL), 0);
	for (uint32_t i = from; i < from + count; i++) {
		struct made_trace made;
		made_trace_fill(&made, i);
		numbers_find(log, BY_ID(made.trace.id), &numbers);
		found += numbers.count;
	}
	trace_log_free(log);
	return found;
}

/* Which trace of the first file the byte at `offset` is in; -1: none. */
static int64_t trace_at(uint64_t offset, uint32_t count)
{
	if (offset < sizeof(struct trace_file_header))
		return -1;
	for (uint32_t i = 0; i < count; i++)
		if (offset < start_of(i + 1))
			return i;
	return -1;
}

static void test_a_flipped_bit_in_a_complete_file_costs_one_trace_at_most(void **state)
{
	(void)state;
	uint32_t in_file = 0;
	struct simfs *simfs = full_log(&in_file);
	uint64_t size = simfs_file_size(simfs, FILE_1);
	uint64_t random = test_seed();
	for (uint64_t round = 0; round < test_scale(600); round++) {
		struct simfs *damaged = simfs_copy(simfs);
		/* Every second one in the filter or the trailer. */
		uint64_t start = round % 2 ? start_of(in_file) : 0;
		uint64_t bit = start * 8 + test_random_below(&random, (size - start) * 8);
		int64_t number = trace_at(bit / 8, in_file);
		uint32_t from = number < 2 ? 0 : (uint32_t)number - 2;
		simfs_flip_bit(damaged, FILE_1, bit);
		uint32_t found = found_by_ids(damaged, from, 5);
		if (found != (number < 0 ? 5 : 4))
			fail_msg("%s, bit %llu: %u of 5 traces are found",
			         test_note_seed(test_seed()), (unsigned long long)bit, found);
		simfs_free(damaged);
	}
	simfs_free(simfs);
}

static void test_a_complete_file_cut_anywhere_keeps_what_is_before(void **state)
{
	(void)state;
	uint32_t in_file = 0;
	struct simfs *simfs = full_log(&in_file);
	uint64_t size = simfs_file_size(simfs, FILE_1);
	uint64_t random = test_seed();
	for (uint64_t round = 0; round < test_scale(300); round++) {
		struct simfs *damaged = simfs_copy(simfs);
		uint64_t length = test_random_below(&random, size);
		uint32_t whole = 0;
		while (whole < in_file && start_of(whole + 1) <= length)
			whole++;
		uint32_t from = whole < 3 ? 0 : whole - 3;
		simfs_cut_file(damaged, FILE_1, length);
		uint32_t expected = whole - from;
		if (from + 5 > in_file) /* the rest is in the second file */
			expected += from + 5 - in_file;
		uint32_t found = found_by_ids(damaged, from, 5);
		if (found != expected)
			fail_msg("cut to %llu: %u of 5 traces from %u are found",
			         (unsigned long long)length, found, from);
		simfs_free(damaged);
	}
	simfs_free(simfs);
}

static void add_up(void *user, struct span source, const struct gap *gap)
{
	(void)source;
	*(uint64_t *)user += histogram_count(&gap->duplicates);
}

/* While the files that they came from are there, nothing is lost with them. */
static void test_damaged_gaps_are_told_and_made_again_from_the_traces(void **state)
{
	(void)state;
	const char *path = "data/traces/gaps";
	uint32_t in_file = 0;
	struct simfs *simfs = full_log(&in_file);
	uint64_t size = simfs_file_size(simfs, path);
	uint64_t expected = 0;
	for (uint64_t bit = 0; bit <= size * 8; bit += bit == 0 ? 1 : test_stride(61)) {
		struct simfs *damaged = simfs_copy(simfs);
		struct trace_log_options options = traces_options(damaged);
		struct told told = { 0 };
		struct trace_log *log = NULL;
		uint64_t duplicates = 0;
		told_begin();
		if (bit > 0)
			simfs_flip_bit(damaged, path, bit - 1);
		assert_int_equal(trace_log_open(&options, &log, NULL), 0);
		trace_log_gaps(log, add_up, &duplicates);
		trace_log_free(log);
		simfs_free(damaged);
		told_end(&told);
		assert_int_equal(told.warnings, bit > 0);
		if (bit == 0)
			expected = duplicates;
		assert_int_equal(duplicates, expected);
	}
	assert_true(expected > in_file / 2);
	simfs_free(simfs);
}

/* Power loss: each unsynced sector kept, dropped or garbled. Of what was synced only the last
 * records can suffer, which share a sector with the next ones. */
static void power_loss(uint64_t seed)
{
	struct simfs *simfs = simfs_new(seed);
	struct file_system *fs = simfs_fs(simfs);
	struct trace_log *log = traces_open(simfs);
	fs->methods->sync_dir(fs, ".");
	uint64_t random = seed;
	uint64_t blocks = 1 + test_random_below(&random, 4);
	for (uint64_t i = 0; i < blocks; i++) {
		add(log, i * 12, i * 12 + 12);
		trace_log_tick(log); /* writes and syncs */
	}
	add(log, blocks * 12, blocks * 12 + 24);
	find_all(log); /* writes and syncs as well */
	struct simfs *found = simfs_crash_copy(simfs, seed);
	struct told told = { 0 };
	uint32_t count = check_log(found, &told);
	if (count < (blocks - 1) * 12 || count > blocks * 12 + 24)
		fail_msg("%s: %u traces of %llu synced and 24 more", test_note_seed(seed), count,
		         (unsigned long long)(blocks * 12));
	simfs_free(found);
	trace_log_free(log);
	simfs_free(simfs);
}

static void test_power_loss_never_gives_wrong_traces_and_keeps_what_was_synced(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < test_scale(2000); round++)
		power_loss(test_seed() + round);
}

/* ---- failures ---- */

static const char *const fault_names[] = { "none", "EIO", "ENOSPC", "short write" };

/* Opens if it can, adds, asks, closes; then the disk works and all is checked. */
static uint64_t faulty_life(enum simfs_fault_kind kind, uint64_t at, bool forever)
{
	struct simfs *simfs = small_log();
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	struct error_text text = { "" };
	simfs_fail_at(simfs, kind, at, forever);
	int r = trace_log_open(&options, &log, &text);
	if (r < 0 && text.text[0] == 0)
		fail_msg("%s at %llu: a refusal without a text", fault_names[kind],
		         (unsigned long long)at);
	for (uint64_t i = 0; r == 0 && i < 8; i++) {
		add(log, 2000 + i * 4, 2004 + i * 4);
		trace_log_tick(log);
		try_to_find(log);
	}
	struct trace_stats stats = { 0 };
	if (r == 0)
		trace_log_stats(log, &stats);
	uint64_t calls = simfs_calls(simfs);
	bool hit = simfs_faults(simfs) > 0;
	simfs_fail_at(simfs, SIMFS_NO_FAULT, 0, false);
	if (r == 0 && !forever && hit) {
		add(log, 3000, 3004);
		numbers_find(log, BY_KEY(SPAN("order-3000")), &numbers);
		if (numbers.count != 4)
			fail_msg("%s at %llu: the log does not go on", fault_names[kind],
			         (unsigned long long)at);
	}
	trace_log_free(log);
	struct told told = { 0 };
	check_log(simfs, &told);
	simfs_free(simfs);
	return calls;
}

static void faults(enum simfs_fault_kind kind)
{
	uint64_t calls = faulty_life(SIMFS_NO_FAULT, 1000000, false);
	for (uint64_t at = 1; at <= calls; at++) {
		faulty_life(kind, at, false);
		faulty_life(kind, at, true);
	}
	printf("%s at each of %llu calls\n", fault_names[kind], (unsigned long long)calls);
}

static void test_an_io_error_loses_traces_but_never_the_log(void **state)
{
	(void)state;
	faults(SIMFS_EIO);
}

static void test_a_full_disk_loses_traces_but_never_the_log(void **state)
{
	(void)state;
	faults(SIMFS_ENOSPC);
}

static void test_a_short_write_loses_traces_but_never_the_log(void **state)
{
	(void)state;
	faults(SIMFS_SHORT);
}

static void test_lost_traces_are_counted_and_told_once(void **state)
{
	(void)state;
	struct simfs *simfs = simfs_new(test_seed());
	struct told told = { 0 };
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	struct trace_stats stats;
	struct file_system *fs = simfs_fs(simfs);
	fs->methods->make_dir(fs, "data");
	assert_int_equal(trace_log_open(&options, &log, NULL), 0);
	told_begin();
	simfs_fail_at(simfs, SIMFS_ENOSPC, 1, true);
	for (uint64_t i = 0; i < 5; i++) {
		add(log, i * 4, i * 4 + 4);
		trace_log_tick(log);
	}
	trace_log_stats(log, &stats);
	assert_int_equal(stats.lost, 20);
	simfs_fail_at(simfs, SIMFS_NO_FAULT, 0, false);
	told_end(&told);
	assert_int_equal(told.warnings, 1);
	assert_int_equal(told.notes, 0);
	told_begin();
	add(log, 20, 24);
	trace_log_tick(log);
	told_end(&told);
	assert_int_equal(told.warnings, 0);
	assert_int_equal(told.notes, 1);
	assert_non_null(strstr(told.text, "traces are written again"));
	trace_log_stats(log, &stats);
	assert_int_equal(stats.lost, 20);
	assert_int_equal(stats.records, 4);
	trace_log_free(log);
	simfs_free(simfs);
}

static unsigned long memory_life(unsigned long fail_at, bool forever)
{
	struct simfs *simfs = small_log();
	struct trace_log_options options = traces_options(simfs);
	struct trace_log *log = NULL;
	struct error_text text = { "" };
	mem_fail_at(fail_at, forever);
	int r = trace_log_open(&options, &log, &text);
	for (uint64_t i = 0; r == 0 && i < 4; i++) {
		add(log, 2000 + i * 4, 2004 + i * 4);
		trace_log_tick(log);
		try_to_find(log);
	}
	unsigned long count = mem_fail_count();
	mem_fail_at(0, false);
	if (r < 0)
		assert_true(text.text[0] != 0);
	trace_log_free(log);
	struct told told = { 0 };
	if (check_log(simfs, &told) < TRACES)
		fail_msg("allocation %lu: traces of an earlier life are gone", fail_at);
	simfs_free(simfs);
	return count;
}

static void test_no_failed_allocation_disturbs_the_log(void **state)
{
	(void)state;
	unsigned long count = memory_life(1000000000, false);
	for (unsigned long n = 1; n <= count; n++) {
		memory_life(n, false);
		memory_life(n, true);
	}
	printf("each of %lu allocations failed\n", count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_flipped_bit_is_told_and_costs_one_trace_at_most),
		cmocka_unit_test(test_a_file_cut_anywhere_keeps_what_is_before),
		cmocka_unit_test(
			test_a_damaged_place_in_the_middle_is_a_warning_with_file_and_offset),
		cmocka_unit_test(test_a_flipped_bit_in_a_complete_file_costs_one_trace_at_most),
		cmocka_unit_test(test_a_complete_file_cut_anywhere_keeps_what_is_before),
		cmocka_unit_test(test_damaged_gaps_are_told_and_made_again_from_the_traces),
		cmocka_unit_test(
			test_power_loss_never_gives_wrong_traces_and_keeps_what_was_synced),
		cmocka_unit_test(test_an_io_error_loses_traces_but_never_the_log),
		cmocka_unit_test(test_a_full_disk_loses_traces_but_never_the_log),
		cmocka_unit_test(test_a_short_write_loses_traces_but_never_the_log),
		cmocka_unit_test(test_lost_traces_are_counted_and_told_once),
		cmocka_unit_test(test_no_failed_allocation_disturbs_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
