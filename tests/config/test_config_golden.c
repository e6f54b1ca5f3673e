/*
 * Mistakes that people make, and what they are told: each tests/data/config/X.yaml
 * has its X.errors, the whole report. An empty one: the file is right.
 *
 * STILE_UPDATE=1 writes the reports anew; read the difference before you keep it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "config/config.h"
#include "support/test.h"
#include "support/vectors.h"

#define FOLDER "tests/data/config"
#define CANARY "c4n4ry"

static const char *variable(const char *name)
{
	static const struct {
		const char *name, *value;
	} known[] = {
		{ "KEY", CANARY "-0123456789" },
		{ "EMPTY", "" },
		{ "SHORT", CANARY },
		{ "SIGN", "YzRuNHJ5LWM0bjRyeS1jNG40cnktYzRuNHJ5" },
		{ "PORT", "8080" },
		{ "FOLDER", "tests/data/config" },
		{ "WINDOW", CANARY "d" },
		{ "HIDDEN", CANARY "/x" },
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].value;
	return NULL;
}

/* The report as `stile check` prints it, but for the folder's name. */
static void write_report(const struct config_report *report, struct buf *out)
{
	for (uint32_t i = 0; i < report->count; i++) {
		struct buf line = { 0 };
		config_problem_write(report, &report->problems[i], &line);
		assert_false(line.failed);
		assert_memory_equal(line.ptr, FOLDER "/", strlen(FOLDER "/"));
		buf_append_span(out, span_skip(buf_span(&line), strlen(FOLDER "/")));
		buf_append_char(out, '\n');
		buf_free(&line);
	}
	if (report->errors > CONFIG_PROBLEMS_MAX)
		buf_printf(out, "and %u more errors\n", report->errors - CONFIG_PROBLEMS_MAX);
	assert_false(out->failed);
}

static void update(const char *path, const struct buf *text)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fwrite(text->len ? text->ptr : "", 1, text->len, file);
	assert_int_equal(fclose(file), 0);
}

static bool is_right(const char *path, const struct buf *text)
{
	if (getenv("STILE_UPDATE"))
		update(path, text);
	struct span expected = vectors_read(path);
	bool equal = expected.ptr && span_eq(expected, buf_span(text));
	if (!equal)
		print_error("%s: the report is now\n%.*s", path, (int)text->len,
		            text->len ? text->ptr : "");
	mem_free((void *)(uintptr_t)expected.ptr);
	return equal;
}

static bool check_file(const char *name)
{
	char path[512];
	struct config *config = NULL;
	struct config_report report;
	struct buf text = { 0 };
	snprintf(path, sizeof(path), FOLDER "/%s", name);
	struct config_input input = { .path = path, .variable = variable };
	int error = config_load(&input, &config, &report);
	assert_int_equal(error, report.errors > 0 ? ERR_CONFIG : 0);
	assert_true((config != NULL) == (error == 0));
	write_report(&report, &text);
	bool right = !text.len || !memmem(text.ptr, text.len, CANARY, strlen(CANARY));
	if (!right)
		print_error("%s: a secret is in the report\n", name);
	snprintf(path + strlen(path) - strlen("yaml"), 8, "errors");
	right = is_right(path, &text) && right;
	buf_free(&text);
	config_report_free(&report);
	config_free(config);
	return right;
}

static int is_yaml(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);
	return len > 5 && strcmp(entry->d_name + len - 5, ".yaml") == 0;
}

static void every_mistake_is_told_as_it_was_written_down(void **state)
{
	(void)state;
	struct dirent **entries = NULL;
	int count = scandir(FOLDER, &entries, is_yaml, alphasort);
	int wrong = 0;
	assert_true(count >= 40);
	for (int i = 0; i < count; i++) {
		wrong += !check_file(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mistake_is_told_as_it_was_written_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
