/* The option table: what a user may write, and what he is told when he errs. */
#include "config/config.h"
#include "config/options.h"
#include "support/test.h"

struct values {
	const char *listen;
	const char *file;
	uint64_t count;
	uint64_t size;
	uint64_t time;
	uint64_t choice;
	bool flag;
};

static const struct option table_options[] = {
	{ "listen", OPTION_ADDRESS, offsetof(struct values, listen), "ADDR:PORT", "127.0.0.1:1", 0,
	  0, NULL, "" },
	{ "file", OPTION_TEXT, offsetof(struct values, file), "FILE", NULL, 0, 0, NULL, "" },
	{ "count", OPTION_COUNT, offsetof(struct values, count), "N", "3", 1, 10, NULL, "" },
	{ "size", OPTION_SIZE, offsetof(struct values, size), "SIZE", "1KiB", 1024, 1 << 20, NULL,
	  "" },
	{ "time", OPTION_DURATION, offsetof(struct values, time), "TIME", "4d", 1000,
	  UINT64_C(864000000), NULL, "" },
	{ "choice", OPTION_CHOICE, offsetof(struct values, choice), "WORD", "one", 0, 0,
	  "one|two|three", "" },
	{ "flag", OPTION_FLAG, offsetof(struct values, flag), NULL, NULL, 0, 0, NULL, "" },
};

static const struct option_table table = { table_options, ARRAY_LEN(table_options) };

#define ARGS_MAX 8

static int parse(struct values *values, struct error_text *text, int argc, const char *const *args)
{
	char *argv[ARGS_MAX];
	int rest = 0;
	for (int i = 0; i < argc; i++)
		argv[i] = (char *)(uintptr_t)args[i];
	*values = (struct values){ 0 };
	int error = options_parse(table, argc, argv, values, &rest, text);
	return error != 0 ? error : rest;
}

#define PARSE(values, text, ...)                                               \
	parse(values, text, (int)ARRAY_LEN(((const char *[]){ __VA_ARGS__ })), \
	      (const char *const[]){ __VA_ARGS__ })

static void defaults_hold_when_nothing_is_said(void **state)
{
	(void)state;
	struct values values;
	struct error_text text;
	assert_int_equal(parse(&values, &text, 0, NULL), 0);
	assert_string_equal(values.listen, "127.0.0.1:1");
	assert_null(values.file);
	assert_int_equal(values.count, 3);
	assert_int_equal(values.size, 1024);
	assert_int_equal(values.time, 4u * 86400000u);
	assert_int_equal(values.choice, 0);
	assert_false(values.flag);
}

static void both_spellings_of_a_value_are_read(void **state)
{
	(void)state;
	struct values values;
	struct error_text text;
	assert_int_equal(PARSE(&values, &text, "--count", "7", "--time=90s", "--choice=three",
	                       "--flag"),
	                 0);
	assert_int_equal(values.count, 7);
	assert_int_equal(values.time, 90000);
	assert_int_equal(values.choice, 2);
	assert_true(values.flag);
}

static void what_is_no_option_is_left_over(void **state)
{
	(void)state;
	struct values values;
	struct error_text text;
	assert_int_equal(PARSE(&values, &text, "a", "--count", "2", "b"), 2);
}

static void errors_say_what_was_found_and_expected(void **state)
{
	(void)state;
	static const struct {
		const char *args[2];
		int argc;
		const char *says;
	} rows[] = {
		{ { "--cuont" }, 1, "did you mean --count" },
		{ { "--entirely-else" }, 1, "unknown option --entirely-else" },
		{ { "-x" }, 1, "unknown option -x" },
		{ { "--count" }, 1, "expected N after it" },
		{ { "--count", "0" }, 2, "expected 1 to 10" },
		{ { "--count", "11" }, 2, "expected 1 to 10" },
		{ { "--count", "-1" }, 2, "expected a whole number" },
		{ { "--count", "1x" }, 2, "expected a whole number" },
		{ { "--count", "" }, 2, "expected a whole number" },
		{ { "--size", "2MiB" }, 2, "expected 1KiB to 1MiB" },
		{ { "--size", "10" }, 2, "expected a size" },
		{ { "--time", "5" }, 2, "expected a duration" },
		{ { "--time", "11d" }, 2, "expected 1s to 10d" },
		{ { "--time", "99999999999999999999d" }, 2, "expected a duration" },
		{ { "--choice", "four" }, 2, "one of one|two|three" },
		{ { "--choice", "on" }, 2, "one of one|two|three" },
		{ { "--file", "" }, 2, "expected FILE" },
		{ { "--flag=1" }, 1, "takes no value" },
		{ { "--listen", "8080" }, 2, "ADDR:PORT" },
		{ { "--listen", "127.0.0.1:65536" }, 2, "0 to 65535" },
		{ { "--listen", ":80" }, 2, "ADDR:PORT" },
		{ { "--listen", "::1:80" }, 2, "ADDR:PORT" },
		{ { "--listen", "localhost:80" }, 2, "ADDR:PORT" },
		{ { "--listen", "127.1:80" }, 2, "ADDR:PORT" },
		{ { "--listen", "[127.0.0.1]:80" }, 2, "ADDR:PORT" },
		{ { "--listen", "[::1]80" }, 2, "ADDR:PORT" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct values values;
		struct error_text text = { "" };
		assert_int_equal(parse(&values, &text, rows[i].argc, rows[i].args), -EINVAL);
		if (!strstr(text.text, rows[i].says))
			fail_msg("row %zu: \"%s\" does not say \"%s\"", i, text.text, rows[i].says);
	}
}

static void the_defaults_of_serve_are_in_range(void **state)
{
	(void)state;
	struct serve_options options = { 0 };
	struct error_text text = { "" };
	int rest = 0;
	assert_int_equal(options_parse(serve_option_table, 0, NULL, &options, &rest, &text), 0);
	assert_int_equal(options.window_ms, UINT64_C(4) * 86400000);
	assert_int_equal(options.threads, 1);
}

/* With or without "=", its value is not taken for an argument of its own. */
static void an_option_of_an_earlier_release_is_still_read(void **state)
{
	(void)state;
	struct serve_options options = { 0 };
	struct error_text text = { "" };
	const char *args[] = { "--stay-awake", "never", "--stay-awake=auto", "--threads", "2" };
	int rest = -1;
	assert_int_equal(options_parse(serve_option_table, 5, (char **)args, &options, &rest,
	                               &text),
	                 0);
	assert_int_equal(rest, 0);
	assert_int_equal(options.threads, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_hold_when_nothing_is_said),
		cmocka_unit_test(both_spellings_of_a_value_are_read),
		cmocka_unit_test(what_is_no_option_is_left_over),
		cmocka_unit_test(errors_say_what_was_found_and_expected),
		cmocka_unit_test(the_defaults_of_serve_are_in_range),
		cmocka_unit_test(an_option_of_an_earlier_release_is_still_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
