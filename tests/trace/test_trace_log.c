/* trace_log: what was added is found again, also after a restart, within bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "support/test.h"
#include "sys/thread.h"
#include "trace/trace_format.h"
#include "trace/trace_sampler.h"
#include "trace/traces.h"

static struct simfs *simfs;
static struct trace_log *trace_log;
static struct numbers numbers;

static int begin(void **state)
{
	(void)state;
	simfs = simfs_new(test_seed());
	trace_log = traces_open(simfs);
	return 0;
}

static int end(void **state)
{
	(void)state;
	trace_log = trace_log_free(trace_log);
	simfs = simfs_free(simfs);
	return 0;
}

static void reopen(void)
{
	trace_log_free(trace_log);
	trace_log = traces_open(simfs);
}

static void add(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		struct made_trace made;
		made_trace_fill(&made, i);
		trace_log_add(trace_log, &made.trace);
	}
}

static struct trace_stats stats_now(void)
{
	struct trace_stats stats;
	trace_log_stats(trace_log, &stats);
	return stats;
}

static void find_id(uint64_t number)
{
	struct made_trace made;
	made_trace_fill(&made, number);
	numbers_find(trace_log, &(struct trace_query){ .id = made.trace.id }, &numbers);
}

static void check_all_ways(void)
{
	find_id(6);
	assert_int_equal(numbers.count, 1);
	assert_int_equal(numbers.numbers[0], 6);

	/* by the ticket of the original: itself and its duplicates, newest first */
	struct made_trace made;
	made_trace_fill(&made, 4);
	numbers_find(trace_log, &(struct trace_query){ .ticket = made.trace.ticket }, &numbers);
	assert_int_equal(numbers.count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(numbers.numbers[i], 7 - i);

	/* by the whole key and by a part of it */
	numbers_find(trace_log, &(struct trace_query){ .key = made.trace.keys[0] }, &numbers);
	assert_int_equal(numbers.count, 4);
	numbers_find(trace_log, &(struct trace_query){ .key = SPAN("order-4") }, &numbers);
	assert_int_equal(numbers.count, 4);
	numbers_find(trace_log, &(struct trace_query){ .key = SPAN("paid"), .limit = 5 }, &numbers);
	assert_int_equal(numbers.count, 5);
	assert_int_equal(numbers.numbers[0], 39);
	numbers_find(trace_log, &(struct trace_query){ .key = SPAN("pai") }, &numbers);
	assert_int_equal(numbers.count, 0);

	/* by source, and since a time */
	numbers_find(trace_log, &(struct trace_query){ .source = SPAN("genesys") }, &numbers);
	assert_int_equal(numbers.count, 20);
	numbers_find(trace_log, &(struct trace_query){ .since_ms = TRACES_NOW_MS + 300 }, &numbers);
	assert_int_equal(numbers.count, 10);
	numbers_find(trace_log,
	             &(struct trace_query){ .key = SPAN("order-4"), .source = SPAN("orders") },
	             &numbers);
	assert_int_equal(numbers.count, 0);
}

static void test_a_trace_is_found_by_id_ticket_key_and_part(void **state)
{
	(void)state;
	add(0, 40);
	check_all_ways(); /* before anything was written by a tick */
	trace_log_tick(trace_log);
	check_all_ways();
}

static void test_traces_are_there_after_a_restart(void **state)
{
	(void)state;
	add(0, 24);
	trace_log_tick(trace_log);
	add(24, 40);
	reopen();
	assert_int_equal(stats_now().oldest_ms, TRACES_NOW_MS);
	check_all_ways();
	reopen(); /* and the file is written on */
	add(40, 44);
	reopen();
	find_id(43);
	assert_int_equal(numbers.count, 1);
	assert_non_null(simfs_file_name(simfs, 0));
	assert_null(simfs_file_name(simfs, 1));
}

static void test_old_traces_leave_and_new_ones_stay(void **state)
{
	(void)state;
	uint64_t total = 30000;
	for (uint64_t i = 0; i < total; i += 100) {
		add(i, i + 100);
		trace_log_tick(trace_log);
	}
	struct trace_stats stats = stats_now();
	assert_int_equal(stats.lost, 0);
	assert_in_range(stats.disk_bytes, 600u << 10, 1u << 20);
	assert_in_range(simfs_used(simfs), 600u << 10, 1u << 20);
	assert_in_range(stats.index_bytes, 1, 1u << 20);
	assert_in_range(stats.records, 2000, 6000);
	assert_in_range(stats.oldest_ms, TRACES_NOW_MS + 200000, TRACES_NOW_MS + 300000);
	find_id(0);
	assert_int_equal(numbers.count, 0);
	find_id(total - 1);
	assert_int_equal(numbers.count, 1);
	/* A restart finds exactly the same. */
	reopen();
	struct trace_stats after = stats_now();
	assert_int_equal(after.records, stats.records);
	assert_int_equal(after.disk_bytes, stats.disk_bytes);
}

struct seen_gaps {
	uint64_t duplicates, returns, highest_ms;
};

static void see_gaps(void *user, struct span source, const struct gap *gap)
{
	struct seen_gaps *seen = user;
	if (!span_eq(source, SPAN("orders")))
		return;
	seen->duplicates = histogram_count(&gap->duplicates);
	seen->returns = histogram_count(&gap->returns);
	seen->highest_ms = gap_highest_ms(gap);
}

static struct seen_gaps gaps_now(void)
{
	struct seen_gaps seen = { 0 };
	trace_log_tick(trace_log);
	trace_log_gaps(trace_log, see_gaps, &seen);
	return seen;
}

static void test_gaps_outlive_the_traces_they_came_from(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 16000; i += 100) {
		add(i, i + 100);
		trace_log_tick(trace_log);
	}
	struct seen_gaps before = gaps_now();
	assert_int_equal(before.duplicates, 16000 / 2 / 4 * 3);
	assert_int_equal(before.highest_ms, 30);
	assert_true(stats_now().records < 10000);
	reopen();
	struct seen_gaps after = gaps_now();
	assert_memory_equal(&after, &before, sizeof(after));
	/* … and once more, when no file of the first life is left. */
	reopen();
	after = gaps_now();
	assert_memory_equal(&after, &before, sizeof(after));
}

static void test_what_came_back_after_its_window_is_marked_and_counted(void **state)
{
	(void)state;
	struct made_trace made;
	for (int life = 0; life < 2; life++) {
		made_trace_fill(&made, 0);
		made.trace.time_ms += (uint64_t)life * 5 * 3600000;
		made.trace.ticket = ticket_next(0, made.trace.time_ms);
		trace_log_add(trace_log, &made.trace);
		reopen(); /* the first coming is remembered over a restart */
	}
	struct seen_gaps seen = gaps_now();
	assert_int_equal(seen.returns, 1);
	assert_int_equal(seen.highest_ms, 5 * 3600000);
	reopen();
	seen = gaps_now();
	assert_int_equal(seen.returns, 1);
}

struct first {
	struct trace trace;
	int count;
};

static int keep_first(void *user, const struct trace *trace)
{
	struct first *first = user;
	if (first->count++ == 0)
		first->trace = *trace;
	return 0;
}

static void test_the_trace_of_a_return_tells_what_it_returned_from(void **state)
{
	(void)state;
	struct made_trace made;
	made_trace_fill(&made, 0);
	uint64_t first_ticket = made.trace.ticket;
	trace_log_add(trace_log, &made.trace);
	made.trace.time_ms += 7200000;
	made.trace.ticket = ticket_next(0, made.trace.time_ms);
	trace_log_add(trace_log, &made.trace);
	struct first first = { .count = 0 };
	struct trace_query query = { .ticket = first_ticket };
	assert_int_equal(trace_log_find(trace_log, &query, keep_first, &first), 2);
	assert_int_equal(first.trace.flags & TRACE_RETURNED, TRACE_RETURNED);
	assert_int_equal(first.trace.original, first_ticket);
	assert_int_equal(first.trace.gap_ms, 7200000);
}

static void test_long_texts_are_cut_and_still_found(void **state)
{
	(void)state;
	char id[500];
	memset(id, 'x', sizeof(id));
	struct made_trace made;
	made_trace_fill(&made, 1);
	made.trace.id = made.trace.keys[1] = span_of(id, sizeof(id));
	trace_log_add(trace_log, &made.trace);
	reopen();
	struct first first = { .count = 0 };
	struct trace_query query = { .id = span_of(id, sizeof(id)) };
	assert_int_equal(trace_log_find(trace_log, &query, keep_first, &first), 1);
	assert_int_equal(first.trace.flags & TRACE_CUT, TRACE_CUT);
	query = (struct trace_query){ .key = span_of(id, sizeof(id)) };
	assert_int_equal(trace_log_find(trace_log, &query, keep_first, &first), 1);
}

static void with_options(const struct trace_log_options *options)
{
	trace_log_free(trace_log);
	assert_int_equal(trace_log_open(options, &trace_log, NULL), 0);
}

/* One millisecond, so that nothing is refilled. */
static void flood(uint64_t passed, uint64_t suppressed)
{
	uint64_t random = test_seed();
	struct made_trace made;
	for (uint64_t i = 0; i < passed; i++) {
		made_trace_fill(&made, 0);
		made.trace.claims[0].word = test_random(&random);
		trace_log_add(trace_log, &made.trace);
		if (i % 100 == 0)
			trace_log_tick(trace_log);
	}
	for (uint64_t i = 0; i < suppressed; i++) {
		made_trace_fill(&made, 1);
		if (trace_log_wants_suppressed(trace_log))
			trace_log_add(trace_log, &made.trace);
		if (i % 100 == 0)
			trace_log_tick(trace_log);
	}
}

static void test_a_flood_is_thinned_and_says_so(void **state)
{
	(void)state;
	struct trace_log_options options = traces_options(simfs);
	options.new_per_s = 10;
	options.new_burst = 100;
	options.suppressed_per_s = 10;
	options.suppressed_burst = 100;
	with_options(&options);
	flood(20000, 20000);
	struct trace_stats stats = stats_now();
	assert_in_range(stats.added, 200, 500);
	assert_true(stats.new_sample >= 5);
	assert_true(stats.suppressed_sample >= 5);
	assert_true(stats.thinned > 19000);
	assert_int_equal(stats.lost, 0);
	/* What a trace stands for is in it: the counts are about right. */
	struct seen_gaps seen = gaps_now();
	assert_in_range(seen.duplicates, 5000, 80000);
	/* A calm minute later everything is traced again. */
	struct made_trace made;
	for (uint64_t i = 0; i < 60; i++) {
		made_trace_fill(&made, 0);
		made.trace.time_ms += 1000 * (i + 1);
		made.trace.claims[0].word = 0;
		trace_log_add(trace_log, &made.trace);
	}
	assert_int_equal(stats_now().new_sample, 0);
}

static void test_both_comings_of_an_id_are_sampled_alike(void **state)
{
	(void)state;
	struct trace_log_options options = traces_options(simfs);
	options.new_per_s = 10;
	options.new_burst = 100;
	with_options(&options);
	flood(20000, 0);
	uint32_t sample = stats_now().new_sample;
	struct trace_claim in = { UINT64_C(7) << sample, 1 };
	struct trace_claim out = { (UINT64_C(7) << sample) + 1, 1 };
	struct trace_claim both[2] = { out, in };
	assert_true(trace_log_wants_new(trace_log, &in, 1));
	assert_false(trace_log_wants_new(trace_log, &out, 1));
	assert_true(trace_log_wants_new(trace_log, both, 2));
	assert_false(trace_log_wants_new(trace_log, NULL, 0));
}

/* The times are those of a shared store's server: another one may take its place. */
static void test_a_clock_that_went_back_far_does_not_thin_for_so_long(void **state)
{
	struct trace_sampler sampler = { 0 };
	const uint64_t now_ms = UINT64_C(1767225600000), ahead_ms = UINT64_C(300000);
	uint32_t kept = 0;

	(void)state;
	trace_sampler_init(&sampler, 50, 100);
	assert_true(trace_sampler_take(&sampler, now_ms + ahead_ms));
	for (uint64_t second = 0; second < 200; second++)
		for (uint32_t i = 0; i < 20; i++)
			kept += trace_sampler_take(&sampler, now_ms + second * 1000);
	assert_int_equal(kept, 200 * 20);
	assert_int_equal(trace_sampler_shift(&sampler), 0);
}

static void test_events_that_pass_leave_no_trace_when_told_so(void **state)
{
	(void)state;
	struct trace_log_options options = traces_options(simfs);
	options.no_new = true;
	with_options(&options);
	add(0, 40);
	numbers_find(trace_log, &(struct trace_query){ 0 }, &numbers);
	assert_int_equal(numbers.count, 30);
	assert_false(trace_log_wants_new(trace_log, NULL, 0));
}

/* A stuck writer must not make memory grow or anybody wait. */
static void test_what_finds_no_room_in_memory_is_counted_as_lost(void **state)
{
	(void)state;
	add(0, 4000);
	struct trace_stats stats = stats_now();
	assert_true(stats.lost > 0);
	assert_int_equal(stats.added + stats.lost, 4000);
	trace_log_tick(trace_log);
	assert_int_equal(stats_now().records, stats.added);
	add(4000, 4001);
	find_id(4000);
	assert_int_equal(numbers.count, 1);
}

static void test_a_second_reader_sees_what_was_written_and_changes_nothing(void **state)
{
	(void)state;
	add(0, 40);
	trace_log_tick(trace_log);
	struct trace_log_options options = traces_options(simfs);
	options.read_only = true;
	struct trace_log *reader = NULL;
	assert_int_equal(trace_log_open(&options, &reader, NULL), 0);
	struct made_trace made;
	made_trace_fill(&made, 7);
	numbers_find(reader, &(struct trace_query){ .id = made.trace.id }, &numbers);
	assert_int_equal(numbers.count, 1);
	uint64_t used = simfs_used(simfs);
	trace_log_add(reader, &made.trace);
	trace_log_tick(reader);
	trace_log_free(reader);
	assert_int_equal(simfs_used(simfs), used);
	options.path = "nowhere";
	struct error_text text = { "" };
	assert_int_equal(trace_log_open(&options, &reader, &text), -ENOENT);
	assert_non_null(strstr(text.text, "nowhere/traces"));
}

static void test_a_question_reads_a_bounded_number_of_records(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3000; i += 100) {
		add(i, i + 100);
		trace_log_tick(trace_log);
	}
	numbers_find(trace_log, &(struct trace_query){ .key = SPAN("paid") }, &numbers);
	assert_int_equal(numbers.count, TRACE_READS_MAX);
	assert_int_equal(numbers.numbers[0], 2999);
}

static void test_no_log_takes_everything(void **state)
{
	(void)state;
	struct made_trace made;
	made_trace_fill(&made, 0);
	trace_log_add(NULL, &made.trace);
	assert_false(trace_log_wants_new(NULL, made.trace.claims, 1));
	assert_null(trace_log_free(NULL));
}

static void test_a_file_of_a_later_version_is_left_alone(void **state)
{
	(void)state;
	trace_log = trace_log_free(trace_log);
	struct trace_file_header header = { .number = 7 };
	trace_file_header_seal(&header);
	header.version = 2;
	header.check = hash_checksum64(&header, offsetof(struct trace_file_header, check), 0);
	struct file_system *fs = simfs_fs(simfs);
	int fd = -1;
	const char *path = "data/traces/0000000000000007.trc";
	assert_int_equal(fs->methods->open(fs, path, FILE_WRITE | FILE_CREATE, &fd), 0);
	assert_int_equal(fs->methods->write(fs, fd, &header, sizeof(header), 0), 0);
	fs->methods->close(fs, fd);
	trace_log = traces_open(simfs);
	add(0, 8);
	trace_log_tick(trace_log);
	assert_int_equal(simfs_file_size(simfs, path), sizeof(header));
	find_id(3);
	assert_int_equal(numbers.count, 1);
}

#define THREADS 4

static void add_many(void *user)
{
	uint64_t first = *(uint64_t *)user;
	add(first, first + 2000);
}

/* Doors add from many threads while others ask and the writer writes. */
static void test_traces_come_from_many_threads_while_others_ask(void **state)
{
	(void)state;
	char folder[256];
	trace_log_free(trace_log);
	trace_log = NULL;
	test_dir_make(folder);
	struct trace_log_options options = { .path = folder };
	with_options(&options);
	struct thread threads[THREADS];
	uint64_t firsts[THREADS];
	for (uint64_t i = 0; i < THREADS; i++) {
		firsts[i] = i * 2000;
		threads[i] = (struct thread){ 0 };
		struct thread_options thread = { "adder", THREAD_ANY_CPU, add_many, &firsts[i] };
		assert_int_equal(thread_start(&threads[i], &thread), 0);
	}
	for (int i = 0; i < 50; i++) {
		find_id((uint64_t)i * 100);
		gaps_now();
	}
	for (uint64_t i = 0; i < THREADS; i++)
		thread_join(&threads[i]);
	struct trace_stats stats = stats_now();
	assert_int_equal(stats.added + stats.lost, THREADS * 2000);
	assert_int_equal(stats.lost, 0);
	find_id(7999);
	assert_int_equal(numbers.count, 1);
	trace_log = trace_log_free(trace_log);
	test_dir_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static uint32_t warnings;

static void count_warning(void *user, bool warning, const char *text)
{
	(void)user;
	assert_true(warning);
	assert_non_null(strstr(text, "no advice on the window of s256"));
	warnings++;
}

static void count_source(void *user, struct span source, const struct gap *gap)
{
	(void)source;
	assert_int_equal(gap->duplicates.max, 5000);
	++*(uint32_t *)user;
}

static void one_source_too_many_for_advice_is_told_once(void **state)
{
	(void)state;
	struct trace_log_options options = traces_options(simfs);
	struct error_text text;
	uint32_t sources = 0;
	options.log = count_warning;
	warnings = 0;
	trace_log_free(trace_log);
	assert_int_equal(trace_log_open(&options, &trace_log, &text), 0);
	for (uint32_t i = 0; i < TRACE_SOURCES_MAX + 3; i++) {
		char name[16];
		snprintf(name, sizeof(name), "s%u", i);
		trace_log_add(trace_log, &(struct trace){ .time_ms = TRACES_NOW_MS,
		                                          .verdict = VERDICT_DUPLICATE,
		                                          .gap_ms = 5000,
		                                          .source = span_str(name) });
	}
	trace_log_tick(trace_log);
	trace_log_gaps(trace_log, count_source, &sources);
	assert_int_equal(sources, TRACE_SOURCES_MAX);
	assert_int_equal(warnings, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_trace_is_found_by_id_ticket_key_and_part),
		TEST(test_traces_are_there_after_a_restart),
		TEST(test_old_traces_leave_and_new_ones_stay),
		TEST(test_gaps_outlive_the_traces_they_came_from),
		TEST(test_what_came_back_after_its_window_is_marked_and_counted),
		TEST(test_the_trace_of_a_return_tells_what_it_returned_from),
		TEST(test_long_texts_are_cut_and_still_found),
		TEST(test_a_flood_is_thinned_and_says_so),
		TEST(test_both_comings_of_an_id_are_sampled_alike),
		cmocka_unit_test(test_a_clock_that_went_back_far_does_not_thin_for_so_long),
		TEST(test_events_that_pass_leave_no_trace_when_told_so),
		TEST(test_what_finds_no_room_in_memory_is_counted_as_lost),
		TEST(test_a_second_reader_sees_what_was_written_and_changes_nothing),
		TEST(test_a_question_reads_a_bounded_number_of_records),
		TEST(test_no_log_takes_everything),
		TEST(test_a_file_of_a_later_version_is_left_alone),
		TEST(test_traces_come_from_many_threads_while_others_ask),
		cmocka_unit_test_setup_teardown(one_source_too_many_for_advice_is_told_once, begin,
		                                end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
