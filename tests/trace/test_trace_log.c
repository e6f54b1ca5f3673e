/* trace_log: what was added is found again, also after a restart, within bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "support/test.h"
#include "sys/thread.h"
#include "trace/files.h"
#include "trace/sampler.h"
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
	numbers_find(trace_log, BY_ID(made.trace.id), &numbers);
}

static void check_all_ways(void)
{
	find_id(6);
	assert_int_equal(numbers.count, 1);
	assert_int_equal(numbers.numbers[0], 6);

	/* by the ticket of the original: itself and its duplicates, newest first */
	struct made_trace made;
	made_trace_fill(&made, 4);
	numbers_find(trace_log, BY_TICKET(made.trace.ticket), &numbers);
	assert_int_equal(numbers.count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(numbers.numbers[i], 7 - i);

	/* by the whole key and by a part of it */
	numbers_find(trace_log, BY_KEY(made.trace.keys[0]), &numbers);
	assert_int_equal(numbers.count, 4);
	numbers_find(trace_log, BY_KEY(SPAN("order-4")), &numbers);
	assert_int_equal(numbers.count, 4);
	struct trace_query query = *BY_KEY(SPAN("paid"));
	query.limit = 5;
	numbers_find(trace_log, &query, &numbers);
	assert_int_equal(numbers.count, 5);
	assert_int_equal(numbers.numbers[0], 39);
	numbers_find(trace_log, BY_KEY(SPAN("pai")), &numbers);
	assert_int_equal(numbers.count, 0);

	/* by source, and since a time */
	numbers_find(trace_log, &(struct trace_query){ .source = SPAN("genesys") }, &numbers);
	assert_int_equal(numbers.count, 20);
	numbers_find(trace_log, &(struct trace_query){ .since_ms = TRACES_NOW_MS + 300 }, &numbers);
	assert_int_equal(numbers.count, 10);
	query = *BY_KEY(SPAN("order-4"));
	query.source = SPAN("orders");
	numbers_find(trace_log, &query, &numbers);
	assert_int_equal(numbers.count, 0);

	/* by what it is about, and by the sender's flow */
	numbers_find(trace_log, BY_TEXT(TRACE_TERM_ENTITY, SPAN("customer-2")), &numbers);
	assert_int_equal(numbers.count, 8);
	numbers_find(trace_log, BY_TEXT(TRACE_TERM_CORRELATION, SPAN("flow-17")), &numbers);
	assert_int_equal(numbers.count, 1);
	assert_int_equal(numbers.numbers[0], 17);
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
	assert_string_equal(simfs_file_name(simfs, 0), "data/traces/0000000000000001.trc");
	assert_string_equal(simfs_file_name(simfs, 1), "data/traces/gaps");
	assert_null(simfs_file_name(simfs, 2));
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

static struct seen_gaps gaps_written(void)
{
	struct seen_gaps seen = { 0 };
	trace_log_gaps(trace_log, see_gaps, &seen);
	return seen;
}

static struct seen_gaps gaps_now(void)
{
	trace_log_tick(trace_log);
	return gaps_written();
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

static int keep_first(void *user, uint32_t term, const struct trace *trace)
{
	(void)term;
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
	assert_int_equal(trace_log_find(trace_log, BY_TICKET(first_ticket), keep_first, &first), 2);
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
	const struct trace_query *query = BY_ID(span_of(id, sizeof(id)));
	assert_int_equal(trace_log_find(trace_log, query, keep_first, &first), 1);
	assert_int_equal(first.trace.flags & TRACE_CUT, TRACE_CUT);
	query = BY_KEY(span_of(id, sizeof(id)));
	assert_int_equal(trace_log_find(trace_log, query, keep_first, &first), 1);
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
	struct trace_log_options options = traces_options(simfs);
	options.disk_bytes = 64u << 20;
	with_options(&options);
	add(0, 16000);
	struct trace_stats stats = stats_now();
	assert_true(stats.lost > 0);
	assert_int_equal(stats.added + stats.lost, 16000);
	trace_log_tick(trace_log);
	assert_int_equal(stats_now().records, stats.added);
	add(16000, 16001);
	find_id(16000);
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
	numbers_find(reader, BY_ID(made.trace.id), &numbers);
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

static void test_a_question_finds_a_bounded_number_of_traces(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3000; i += 100) {
		add(i, i + 100);
		trace_log_tick(trace_log);
	}
	numbers_find(trace_log, BY_KEY(SPAN("paid")), &numbers);
	assert_int_equal(numbers.count, TRACE_FOUND_MAX);
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

/* The header of version 1 has the same magic, version and checksum at the same places. */
static void leaves_alone(uint32_t version)
{
	struct trace_log_options options = traces_options(simfs);
	struct trace_file_header header = { .epoch = 7 };
	struct told told = { 0 };
	trace_log = trace_log_free(trace_log);
	trace_file_header_seal(&header);
	header.version = version;
	header.check = hash_checksum64(&header, offsetof(struct trace_file_header, check), 0);
	struct file_system *fs = simfs_fs(simfs);
	int fd = -1;
	const char *path = "data/traces/0000000000000007.trc";
	assert_int_equal(fs->methods->open(fs, path, FILE_WRITE | FILE_CREATE, &fd), 0);
	assert_int_equal(fs->methods->write(fs, fd, &header, sizeof(header), 0), 0);
	fs->methods->close(fs, fd);
	told_begin();
	assert_int_equal(trace_log_open(&options, &trace_log, NULL), 0);
	told_end(&told);
	assert_int_equal(told.warnings, 0);
	assert_int_equal(told.notes, 1);
	assert_non_null(strstr(told.text, "trace files of another format"));
	assert_non_null(strstr(told.text, "files=1"));
	add(0, 8);
	trace_log_tick(trace_log);
	assert_int_equal(simfs_file_size(simfs, path), sizeof(header));
	find_id(3);
	assert_int_equal(numbers.count, 1);
	assert_non_null(simfs_file_name(simfs, 1));
	trace_log = trace_log_free(trace_log);
}

static void test_files_of_an_earlier_or_later_format_are_left_alone_with_one_line(void **state)
{
	(void)state;
	leaves_alone(1);
	simfs_free(simfs);
	simfs = simfs_new(test_seed());
	trace_log = traces_open(simfs);
	leaves_alone(TRACE_FORMAT_VERSION + 1);
}

/* ---- many files ---- */

/* Enough for several files; returns the number of traces. */
static uint64_t fill_files(void)
{
	uint64_t count = 0;
	for (; count < 2400; count += 100) {
		add(count, count + 100);
		trace_log_tick(trace_log);
	}
	return count;
}

static void test_a_filter_has_all_terms_of_its_file_and_few_others(void **state)
{
	(void)state;
	struct file_system *fs = simfs_fs(simfs);
	struct buf list = { 0 };
	uint32_t complete = 0, asked = 0, wrong = 0;
	fill_files();
	assert_int_equal(trace_files_list(fs, "data/traces", &list), 0);
	for (size_t i = 0; i < list.len / sizeof(uint64_t); i++) {
		uint64_t number = 0;
		struct trace_view view;
		struct trace_reader reader;
		struct trace trace;
		struct buf bytes = { 0 };
		uint64_t offset = 0;
		memcpy(&number, list.ptr + i * sizeof(number), sizeof(number));
		assert_int_equal(trace_view_open(&view, fs, "data/traces", number), 0);
		complete += view.complete;
		assert_int_equal(trace_view_read(&view, &bytes, &reader), 0);
		while (view.complete && trace_reader_next(&reader, &trace, &offset)) {
			struct trace_term terms[] = {
				{ TRACE_TERM_ID, trace.id, 0 },
				{ TRACE_TERM_TICKET, SPAN_EMPTY, trace.ticket | trace.original },
				{ TRACE_TERM_KEY, trace.keys[0], 0 },
				{ TRACE_TERM_KEY, SPAN("paid"), 0 },
				{ TRACE_TERM_ENTITY, trace.entity, 0 },
				{ TRACE_TERM_CORRELATION, trace.correlation, 0 },
			};
			for (size_t t = 0; t < sizeof(terms) / sizeof(terms[0]); t++)
				assert_true(trace_view_may_have(&view, &terms[t]));
			/* The same text as another kind of term. */
			terms[0].kind = TRACE_TERM_CORRELATION;
			wrong += trace_view_may_have(&view, &terms[0]);
			asked++;
		}
		buf_free(&bytes);
		trace_view_close(&view);
	}
	buf_free(&list);
	assert_true(complete > 4);
	printf("%u of %u other terms look as if the file had them\n", wrong, asked);
	assert_true(wrong * 10 < asked);
}

/* T2: damage never hides a record. */
static void test_a_damaged_filter_hides_nothing(void **state)
{
	(void)state;
	const char *path = "data/traces/0000000000000001.trc";
	fill_files();
	uint64_t size = simfs_file_size(simfs, path);
	for (uint64_t at = size - 64 - 2048; at < size; at += 61)
		for (uint64_t bit = 0; bit < 8; bit++)
			simfs_flip_bit(simfs, path, at * 8 + bit);
	for (uint64_t i = 0; i < 8; i++) {
		find_id(i);
		assert_int_equal(numbers.count, 1);
	}
}

static void test_a_file_that_was_not_finished_is_finished_by_the_next_start(void **state)
{
	(void)state;
	struct file_system *fs = simfs_fs(simfs);
	struct trace_view view;
	add(0, 40);
	trace_log_tick(trace_log);
	simfs_fail_at(simfs, SIMFS_EIO, 1, false); /* this file is not written to again */
	add(40, 44);
	trace_log_tick(trace_log);
	add(44, 48);
	trace_log_tick(trace_log);
	assert_int_equal(stats_now().lost, 4);
	assert_int_equal(trace_view_open(&view, fs, "data/traces", 1), 0);
	assert_false(view.complete);
	trace_view_close(&view);
	reopen();
	assert_int_equal(trace_view_open(&view, fs, "data/traces", 1), 0);
	assert_true(view.complete);
	assert_in_range(view.trailer.record_count, 40, 44); /* a failed write may leave a part */
	trace_view_close(&view);
	find_id(20);
	assert_int_equal(numbers.count, 1);
	find_id(45);
	assert_int_equal(numbers.count, 1);
}

struct by_term {
	uint32_t counts[3];
};

static int count_term(void *user, uint32_t term, const struct trace *trace)
{
	struct by_term *by_term = user;
	assert_in_range(term, 0, 2);
	by_term->counts[term]++;
	return made_trace_check(trace) > 100000;
}

/* One term that many have must not take the place of another's few. */
static void test_several_terms_are_found_in_one_pass_each_up_to_its_limit(void **state)
{
	(void)state;
	struct made_trace first, last;
	struct by_term by_term = { { 0 } };
	uint64_t count = fill_files();
	made_trace_fill(&first, 0);
	made_trace_fill(&last, count - 4);
	const struct trace_term terms[] = {
		{ TRACE_TERM_KEY, SPAN("paid"), 0 },
		{ TRACE_TERM_TICKET, SPAN_EMPTY, first.trace.ticket },
		{ TRACE_TERM_TICKET, SPAN_EMPTY, last.trace.ticket },
	};
	struct trace_query query = { .terms = terms, .term_count = 3, .limit = 50 };
	assert_int_equal(trace_log_find(trace_log, &query, count_term, &by_term), 58);
	assert_int_equal(by_term.counts[0], 50);
	assert_int_equal(by_term.counts[1], 4);
	assert_int_equal(by_term.counts[2], 4);
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
		gaps_written();
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
	struct told told = { 0 };
	told_begin();
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
	told_end(&told);
	assert_int_equal(told.warnings, 1);
	assert_non_null(strstr(told.text, "too many sources: stile advise"));
	assert_non_null(strstr(told.text, "source=s256"));
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
		TEST(test_a_question_finds_a_bounded_number_of_traces),
		TEST(test_no_log_takes_everything),
		TEST(test_files_of_an_earlier_or_later_format_are_left_alone_with_one_line),
		TEST(test_a_filter_has_all_terms_of_its_file_and_few_others),
		TEST(test_a_damaged_filter_hides_nothing),
		TEST(test_a_file_that_was_not_finished_is_finished_by_the_next_start),
		TEST(test_several_terms_are_found_in_one_pass_each_up_to_its_limit),
		TEST(test_traces_come_from_many_threads_while_others_ask),
		cmocka_unit_test_setup_teardown(one_source_too_many_for_advice_is_told_once, begin,
		                                end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
