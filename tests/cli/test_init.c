/* What stile init writes is right, with and without what is commented out. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "support/test.h"

static const char *variable(const char *name)
{
	(void)name;
	return "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
}

static const char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

static void assert_right(const char *preset, struct span text, bool variables)
{
	struct config *config = NULL;
	struct config_report report;
	struct buf table = { 0 };
	struct config_input input = {
		.path = preset,
		.text = &text,
		.variable = variables ? variable : no_variable,
	};
	int error = config_load(&input, &config, &report);
	config_report_print(&report, stderr);
	assert_int_equal(error, 0);
	assert_int_equal(report.count, 0);
	assert_int_equal(config->source_count, 1);
	assert_int_equal(config->sources[0].auth.kind != AUTH_NONE, variables);
	check_write_table(config, &table);
	check_write_json(config, &report, &table);
	assert_non_null(memmem(table.ptr, table.len, preset, strlen(preset)));
	assert_null(memmem(table.ptr, table.len, "whsec_", 6));
	buf_free(&table);
	config_report_free(&report);
	config_free(config);
}

/* An option that is commented out stands right behind its #, or two blanks. Files of TLS
 * must be there. */
static void take_in(struct span text, struct buf *out)
{
	while (text.len > 0) {
		const char *end = memchr(text.ptr, '\n', text.len);
		size_t len = (size_t)(end - text.ptr) + 1;
		size_t at = 0;
		while (text.ptr[at] == ' ')
			at++;
		bool option = text.ptr[at] == '#' &&
		              ((text.ptr[at + 1] >= 'a' && text.ptr[at + 1] <= 'z') ||
		               (text.ptr[at + 1] == ' ' && text.ptr[at + 2] == ' '));
		buf_append(out, text.ptr, at);
		at += option;
		const char *file = memmem(text.ptr, len, "/etc/stile/", 11);
		buf_append(out, text.ptr + at, file ? (size_t)(file - text.ptr) - at : len - at);
		if (file)
			buf_append_span(out, SPAN("tests/data/config/some.pem\n"));
		text = span_skip(text, len);
	}
}

static void every_starting_file_passes_the_check(void **state)
{
	(void)state;
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	for (uint32_t i = 0; i < count; i++) {
		struct buf text = { 0 };
		struct buf taken = { 0 };
		const struct preset_guide *guide = preset_guide_find(span_str(presets[i].name));
		assert_non_null(guide);
		init_write(&presets[i], guide, &text);
		assert_false(text.failed);
		assert_right(presets[i].name, buf_span(&text), false);
		take_in(buf_span(&text), &taken);
		assert_right(presets[i].name, buf_span(&taken), true);
		buf_free(&text);
		buf_free(&taken);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_starting_file_passes_the_check),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
