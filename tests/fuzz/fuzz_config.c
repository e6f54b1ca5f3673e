/*
 * fuzz_config: any text as a configuration file. What is refused is told, what is
 * accepted makes sense, and no value of a variable gets into a message.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cli/commands.h"
#include "config/config.h"

#define CANARY "c4n4ry"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *variable(const char *name)
{
	return strcmp(name, "NONE") == 0 ? NULL : CANARY;
}

static int open_nothing(struct file_system *fs, const char *path, int flags, int *ret_fd)
{
	(void)fs;
	(void)path;
	(void)flags;
	(void)ret_fd;
	return -ENOENT;
}

static void check_report(const struct config_report *report, struct span input)
{
	bool given = input.len && memmem(input.ptr, input.len, CANARY, strlen(CANARY));
	CHECK(report->count <= 2 * CONFIG_PROBLEMS_MAX);
	for (uint32_t i = 0; i < report->count; i++) {
		struct buf line = { 0 };
		CHECK(report->problems[i].text[0]);
		config_problem_write(report, &report->problems[i], &line);
		CHECK(given || !memmem(line.ptr, line.len, CANARY, strlen(CANARY)));
		CHECK(!memchr(line.ptr, '\n', line.len) && !memchr(line.ptr, '\x1b', line.len));
		buf_free(&line);
	}
}

static void check_config(const struct config *config, const struct config_report *report)
{
	struct config_diff diff;
	struct buf out = { 0 };
	CHECK(config->source_count > 0 && config->sink_count > 0);
	for (uint32_t i = 0; i < config->source_count; i++) {
		const struct config_source *source = &config->sources[i];
		CHECK(source->name.len > 0 && source->door.path.ptr[0] == '/');
		CHECK(source->recipe.window_s > 0 && source->recipe.case_count > 0);
	}
	CHECK(config_diff(&(struct config_states){ config, config, config }, &diff) == 0 &&
	      diff.count == 0);
	config_diff_free(&diff);
	check_write_table(config, &out);
	check_write_json(config, report, &out);
	CHECK(!out.failed);
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct file_methods methods = { .open = open_nothing };
	struct file_system files = { &methods };
	struct span text = span_of(size ? (const char *)data : "", size);
	struct config_input input = {
		.path = "fuzz",
		.text = &text,
		.variable = variable,
		.files = &files,
	};
	struct config *config = NULL;
	struct config_report report;
	int error = config_load(&input, &config, &report);
	CHECK(error == 0 || (error == ERR_CONFIG && report.errors > 0));
	check_report(&report, text);
	if (error == 0)
		check_config(config, &report);
	config_report_free(&report);
	config_free(config);
	return 0;
}
