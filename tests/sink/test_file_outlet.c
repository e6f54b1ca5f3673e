/* The file outlet: whole lines at the end of the right file, and nothing else. */
#include "sink/file_outlet.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "support/clock_fake.h"
#include "support/test.h"

struct bench {
	char folder[256];
	char path[300];
	struct clock_fake clock;
	struct file_outlet_options options;
	struct outlet *outlet;
};

static void bench_open(struct bench *bench)
{
	struct error_text text;
	bench->options.path = span_str(bench->path);
	bench->options.clock = &bench->clock.clock;
	assert_int_equal(file_outlet_new(&bench->options, &bench->outlet, &text), 0);
}

static void bench_close(struct bench *bench)
{
	bench->outlet->methods->free(bench->outlet);
	test_dir_remove(bench->folder);
}

static struct bench *bench_new(const char *name)
{
	static struct bench bench;
	bench = (struct bench){ 0 };
	test_dir_make(bench.folder);
	snprintf(bench.path, sizeof(bench.path), "%s/%s", bench.folder, name);
	clock_fake_init(&bench.clock);
	return &bench;
}

static struct bench *bench_of(const char *name)
{
	struct bench *bench = bench_new(name);
	bench_open(bench);
	return bench;
}

static void told(struct outlet_attempt *attempt)
{
	attempt->user = attempt;
}

static void send_all(struct bench *bench, struct outlet_attempt *attempts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		attempts[i].done = told;
		attempts[i].user = NULL;
		attempts[i].json = true;
		attempts[i].number = 1;
		attempts[i].next = i + 1 < count ? &attempts[i + 1] : NULL;
	}
	bench->outlet->methods->send(bench->outlet, attempts);
	for (size_t i = 0; i < count; i++)
		assert_ptr_equal(attempts[i].user, &attempts[i]);
}

static enum outlet_answer send_one(struct bench *bench, const char *payload)
{
	struct outlet_attempt attempt = { .ticket = 1, .payload = span_str(payload) };
	send_all(bench, &attempt, 1);
	return attempt.result.answer;
}

static const char *content(const char *path)
{
	static char bytes[65536];
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t len = fread(bytes, 1, sizeof(bytes) - 1, file);
	fclose(file);
	bytes[len] = '\0';
	return bytes;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The folder's files in order, each with a blank behind it. */
static const char *listing(const char *folder)
{
	static char memory[16 * 256];
	struct buf text = buf_on(memory, sizeof(memory));
	char names[16][256];
	size_t count = 0;
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
		if (entry->d_name[0] != '.')
			snprintf(names[count++], sizeof(names[0]), "%s", entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof(names[0]), by_name);
	for (size_t i = 0; i < count; i++)
		buf_printf(&text, "%s ", names[i]);
	buf_append_char(&text, '\0');
	return memory;
}

static void lines_are_added_behind_what_is_there(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	put(bench->path, "{\"old\":1}\n");
	bench_open(bench);
	struct outlet_attempt attempts[] = { { .ticket = 1, .payload = SPAN("{\"a\":\n1}") },
		                             { .ticket = 2, .payload = SPAN("{\"b\":2}") } };
	send_all(bench, attempts, 2);
	assert_int_equal(attempts[0].result.answer, OUTLET_DONE);
	assert_int_equal(attempts[1].result.answer, OUTLET_DONE);
	assert_int_equal(send_one(bench, "{\"c\":3}"), OUTLET_DONE);
	assert_string_equal(content(bench->path),
	                    "{\"old\":1}\n{\"a\": 1}\n{\"b\":2}\n{\"c\":3}\n");
	bench_close(bench);
}

static void a_new_file_is_not_for_everybody(void **state)
{
	(void)state;
	struct stat status;
	struct bench *bench = bench_of("out");
	mode_t mask = umask(0);
	assert_int_equal(send_one(bench, "{}"), OUTLET_DONE);
	umask(mask);
	assert_int_equal(stat(bench->path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0640);
	bench_close(bench);
}

static void an_envelope_is_that_of_standard_output(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	bench->options.envelope = true;
	bench_open(bench);
	struct outlet_attempt attempt = { .ticket = 1, .source = SPAN("s"), .payload = SPAN("{}") };
	send_all(bench, &attempt, 1);
	assert_string_equal(content(bench->path), "{\"ticket\":\"00000000001\",\"source\":\"s\","
	                                          "\"attempt\":1,\"event\":{}}\n");
	bench_close(bench);
}

static void a_torn_line_is_ended_before_the_next(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	put(bench->path, "{\"whole\":1}\n{\"to");
	bench_open(bench);
	assert_int_equal(send_one(bench, "{\"a\":1}"), OUTLET_DONE);
	assert_string_equal(content(bench->path), "{\"whole\":1}\n{\"to\n{\"a\":1}\n");
	bench_close(bench);
}

static void a_line_that_others_tore_is_ended_too(void **state)
{
	(void)state;
	struct bench *bench = bench_of("out");
	assert_int_equal(send_one(bench, "{\"a\":1}"), OUTLET_DONE);
	FILE *file = fopen(bench->path, "ae");
	assert_non_null(file);
	fputs("foreign", file);
	fclose(file);
	assert_int_equal(send_one(bench, "{\"b\":1}"), OUTLET_DONE);
	assert_string_equal(content(bench->path), "{\"a\":1}\nforeign\n{\"b\":1}\n");
	bench_close(bench);
}

static void a_file_that_was_moved_is_left_alone(void **state)
{
	(void)state;
	char moved[512];
	struct bench *bench = bench_of("out");
	snprintf(moved, sizeof(moved), "%s.moved", bench->path);
	assert_int_equal(send_one(bench, "{\"a\":1}"), OUTLET_DONE);
	assert_int_equal(rename(bench->path, moved), 0);
	assert_int_equal(send_one(bench, "{\"b\":1}"), OUTLET_DONE);
	assert_string_equal(content(moved), "{\"a\":1}\n");
	assert_string_equal(content(bench->path), "{\"b\":1}\n");
	assert_int_equal(truncate(bench->path, 0), 0); /* logrotate's copytruncate */
	assert_int_equal(send_one(bench, "{\"c\":1}"), OUTLET_DONE);
	assert_string_equal(content(bench->path), "{\"c\":1}\n");
	bench_close(bench);
}

static void a_file_rotates_before_it_gets_too_large(void **state)
{
	(void)state;
	char rotated[512];
	struct bench *bench = bench_new("out");
	bench->options.rotate_bytes = 20;
	bench_open(bench);
	assert_int_equal(send_one(bench, "{\"a\":1111}"), OUTLET_DONE); /* 11 bytes */
	assert_int_equal(send_one(bench, "{\"b\":1}"), OUTLET_DONE);    /* 19 */
	assert_string_equal(listing(bench->folder), "out ");
	assert_int_equal(send_one(bench, "{\"c\":1}"), OUTLET_DONE);
	assert_string_equal(listing(bench->folder), "out out.20260101T000000.000Z ");
	assert_string_equal(content(bench->path), "{\"c\":1}\n");
	snprintf(rotated, sizeof(rotated), "%s.20260101T000000.000Z", bench->path);
	assert_string_equal(content(rotated), "{\"a\":1111}\n{\"b\":1}\n");
	/* The same moment again: no file takes the name of another. */
	assert_int_equal(send_one(bench, "{\"d\":\"11111111111\"}"), OUTLET_DONE);
	assert_string_equal(listing(bench->folder),
	                    "out out.20260101T000000.000Z out.20260101T000000.001Z ");
	bench_close(bench);
}

static void a_file_rotates_with_the_hour(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	bench->options.rotate_ms = 3600000;
	bench_open(bench);
	clock_fake_advance(&bench->clock, 3599999);
	assert_int_equal(send_one(bench, "{\"a\":1}"), OUTLET_DONE);
	clock_fake_advance(&bench->clock, 1);
	assert_int_equal(send_one(bench, "{\"b\":1}"), OUTLET_DONE);
	assert_string_equal(listing(bench->folder), "out out.20260101T010000.000Z ");
	clock_fake_advance(&bench->clock, 3599999);
	assert_int_equal(send_one(bench, "{\"c\":1}"), OUTLET_DONE);
	assert_string_equal(content(bench->path), "{\"b\":1}\n{\"c\":1}\n");
	bench_close(bench);
}

static void a_file_of_an_earlier_run_rotates_by_its_own_time(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	bench->options.rotate_ms = 3600000;
	put(bench->path, "{\"old\":1}\n");
	time_t before = (time_t)(CLOCK_FAKE_START_MS / 1000) - 1;
	struct timespec times[2] = { { .tv_sec = before }, { .tv_sec = before } };
	assert_int_equal(utimensat(AT_FDCWD, bench->path, times, 0), 0);
	bench_open(bench);
	assert_int_equal(send_one(bench, "{\"a\":1}"), OUTLET_DONE);
	assert_string_equal(listing(bench->folder), "out out.20260101T000000.000Z ");
	bench_close(bench);
}

static void only_the_newest_are_kept_and_no_strangers_removed(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	char stranger[512];
	snprintf(stranger, sizeof(stranger), "%s.gz", bench->path);
	put(stranger, "x");
	bench->options.rotate_bytes = 1;
	bench->options.keep = 2;
	bench_open(bench);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(send_one(bench, "{}"), OUTLET_DONE);
		clock_fake_advance(&bench->clock, 1000);
	}
	assert_string_equal(listing(bench->folder),
	                    "out out.20260101T000003.000Z out.20260101T000004.000Z out.gz ");
	bench_close(bench);
}

static void each_day_has_its_file(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out-{date}.ndjson");
	bench->options.keep = 1;
	bench_open(bench);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send_one(bench, "{}"), OUTLET_DONE);
		clock_fake_advance(&bench->clock, 86400000);
	}
	assert_string_equal(listing(bench->folder), "out-2026-01-02.ndjson out-2026-01-03.ndjson ");
	bench_close(bench);
}

/* RLIMIT_FSIZE tears a write as a full disk does: some bytes, then an error. */
static void a_full_disk_leaves_whole_lines_alone(void **state)
{
	(void)state;
	struct rlimit limit, small;
	struct bench *bench = bench_of("out");
	struct outlet_attempt attempts[] = { { .ticket = 1, .payload = SPAN("{\"a\":1}") },
		                             { .ticket = 2, .payload = SPAN("{\"b\":2}") },
		                             { .ticket = 3, .payload = SPAN("{\"c\":3}") } };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 12; /* a line and a half */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	send_all(bench, attempts, 3);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(attempts[0].result.answer, OUTLET_DONE);
	assert_int_equal(attempts[1].result.answer, OUTLET_NOT_SENT);
	assert_int_equal(attempts[2].result.answer, OUTLET_NOT_SENT);
	assert_false(attempts[1].result.permanent);
	assert_non_null(memmem(attempts[1].result.text, attempts[1].result.text_len,
	                       "cannot be written", 17));
	assert_string_equal(content(bench->path), "{\"a\":1}\n");
	send_all(bench, attempts + 1, 2);
	assert_string_equal(content(bench->path), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
	bench_close(bench);
}

static void a_folder_that_is_not_there_is_tried_again(void **state)
{
	(void)state;
	struct bench *bench = bench_of("later/out");
	char folder[1024];
	assert_int_equal(send_one(bench, "{}"), OUTLET_NOT_SENT);
	snprintf(folder, sizeof(folder), "%s/later", bench->folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(send_one(bench, "{}"), OUTLET_DONE);
	bench_close(bench);
}

static void a_pipe_is_refused_without_waiting_and_as_what_it_is(void **state)
{
	(void)state;
	struct bench *bench = bench_new("out");
	struct outlet_attempt attempt = { .ticket = 1, .payload = SPAN("{}") };
	assert_int_equal(mkfifo(bench->path, 0600), 0);
	bench_open(bench);
	send_all(bench, &attempt, 1);
	assert_int_equal(attempt.result.answer, OUTLET_NOT_SENT);
	assert_non_null(
		memmem(attempt.result.text, attempt.result.text_len, "not a regular file", 18));
	bench_close(bench);
}

static void nothing_is_written_after_an_interrupt(void **state)
{
	(void)state;
	struct bench *bench = bench_of("out");
	bench->outlet->methods->interrupt(bench->outlet);
	assert_int_equal(send_one(bench, "{}"), OUTLET_NOT_SENT);
	assert_string_equal(listing(bench->folder), "");
	bench_close(bench);
}

static void paths_that_make_no_file_are_refused(void **state)
{
	(void)state;
	static const char *const paths[] = { "", "/", "a/", "/var/{date}/out", "{date}{date}" };
	struct error_text text;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct file_outlet_options options = { .path = span_str(paths[i]) };
		assert_int_equal(file_outlet_check(&options, &text), ERR_CONFIG);
		assert_memory_equal(text.text, "path: ", 6);
	}
	struct file_outlet_options fine = { .path = SPAN("/out-{date}") };
	assert_int_equal(file_outlet_check(&fine, &text), 0);
	fine.path = SPAN("out");
	assert_int_equal(file_outlet_check(&fine, &text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_added_behind_what_is_there),
		cmocka_unit_test(a_new_file_is_not_for_everybody),
		cmocka_unit_test(an_envelope_is_that_of_standard_output),
		cmocka_unit_test(a_torn_line_is_ended_before_the_next),
		cmocka_unit_test(a_line_that_others_tore_is_ended_too),
		cmocka_unit_test(a_file_that_was_moved_is_left_alone),
		cmocka_unit_test(a_file_rotates_before_it_gets_too_large),
		cmocka_unit_test(a_file_rotates_with_the_hour),
		cmocka_unit_test(a_file_of_an_earlier_run_rotates_by_its_own_time),
		cmocka_unit_test(only_the_newest_are_kept_and_no_strangers_removed),
		cmocka_unit_test(each_day_has_its_file),
		cmocka_unit_test(a_full_disk_leaves_whole_lines_alone),
		cmocka_unit_test(a_folder_that_is_not_there_is_tried_again),
		cmocka_unit_test(a_pipe_is_refused_without_waiting_and_as_what_it_is),
		cmocka_unit_test(nothing_is_written_after_an_interrupt),
		cmocka_unit_test(paths_that_make_no_file_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
