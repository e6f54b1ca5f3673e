/* log: lines that cannot be forged, cut or flooded. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static int pipe_fds[2];
static uint64_t now_ms;
static char text[65536];

static uint64_t read_now(void)
{
	return now_ms;
}

static void setup(enum log_format format, enum log_level level, bool with_time)
{
	struct log_options options = {
		.format = format,
		.level = level,
		.fd = pipe_fds[1],
		.now_ms = with_time ? read_now : NULL,
	};
	log_setup(&options);
}

static int open_pipe(void **state)
{
	(void)state;
	now_ms = 1704067200123;
	return pipe(pipe_fds);
}

static int close_pipe(void **state)
{
	(void)state;
	struct log_options options = { .level = LOG_LEVEL_INFO, .fd = STDERR_FILENO };
	log_setup(&options);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return 0;
}

/* What was logged since the last call. */
static const char *logged(void)
{
	assert_int_equal(write(pipe_fds[1], "\0", 1), 1);
	size_t len = 0;
	do {
		ssize_t n = read(pipe_fds[0], text + len, sizeof(text) - len);
		assert_true(n > 0);
		len += (size_t)n;
	} while (text[len - 1] != 0);
	return text;
}

static void text_lines_are_logfmt(void **state)
{
	(void)state;
	setup(LOG_TEXT, LOG_LEVEL_INFO, true);
	log_info("ready");
	assert_string_equal(logged(), "time=2024-01-01T00:00:00.123Z level=info msg=ready\n");
	log_warn("two words", log_str("path", "/tmp/x"), log_u64("n", UINT64_MAX),
	         log_bool("yes", true), log_code(ERR_DAMAGED), log_str("empty", ""));
	assert_string_equal(logged(), "time=2024-01-01T00:00:00.123Z level=warn msg=\"two words\" "
	                              "path=/tmp/x n=18446744073709551615 "
	                              "yes=true error=\"damaged data\" empty=\"\"\n");
}

static void json_lines_are_objects(void **state)
{
	(void)state;
	setup(LOG_JSON, LOG_LEVEL_INFO, true);
	log_error("bad", log_str("what", "a\"b\nc"), log_u64("n", 5), log_bool("no", false));
	assert_string_equal(logged(), "{\"time\":\"2024-01-01T00:00:00.123Z\",\"level\":\"error\","
	                              "\"msg\":\"bad\",\"what\":\"a\\\"b\\nc\",\"n\":5,"
	                              "\"no\":false}\n");
}

static void peers_bytes_cannot_forge_a_line(void **state)
{
	(void)state;
	setup(LOG_TEXT, LOG_LEVEL_INFO, false);
	log_info("seen", log_str("id", "x\nlevel=error msg=forged"), log_str("b", "a=b"),
	         log_span("esc", span_of("\x1b[2J\0\xff", 6)));
	assert_string_equal(logged(), "level=info msg=seen id=\"x\\nlevel=error msg=forged\" "
	                              "b=\"a=b\" esc=\"\\u001b[2J\\u0000\xef\xbf\xbd\"\n");
}

static void levels_below_the_chosen_one_are_silent(void **state)
{
	(void)state;
	setup(LOG_TEXT, LOG_LEVEL_WARN, false);
	log_debug("no");
	log_info("no");
	log_warn("yes");
	assert_string_equal(logged(), "level=warn msg=yes\n");
}

static void long_values_are_cut_and_lines_stay_whole(void **state)
{
	(void)state;
	static char big[LOG_VALUE_MAX * 2];
	memset(big, 'a', sizeof(big) - 1);
	setup(LOG_JSON, LOG_LEVEL_INFO, false);
	log_info("big", log_str("a", big), log_str("b", big), log_str("c", big), log_str("d", big),
	         log_str("e", big), log_u64("last", 5));
	const char *line = logged();
	size_t len = strlen(line);
	assert_true(len < LOG_LINE_MAX);
	assert_string_equal(line + len - strlen(",\"last\":5,\"truncated\":true}\n"),
	                    ",\"last\":5,\"truncated\":true}\n");
}

static void line_of_only_escapes_stays_in_its_buffer(void **state)
{
	(void)state;
	static char controls[LOG_VALUE_MAX + 1];
	memset(controls, 1, sizeof(controls) - 1);
	setup(LOG_JSON, LOG_LEVEL_INFO, false);
	log_info("controls", log_str("a", controls), log_u64("n", 1));
	assert_string_equal(
		logged(), "{\"level\":\"info\",\"msg\":\"controls\",\"n\":1,\"truncated\":true}\n");
}

static void log_again(void)
{
	log_info("again");
}

static unsigned count_lines(const char *lines)
{
	unsigned n = 0;
	for (; (lines = strchr(lines, '\n')); lines++)
		n++;
	return n;
}

static void flood_from_one_site_is_limited_and_counted(void **state)
{
	(void)state;
	setup(LOG_TEXT, LOG_LEVEL_INFO, true);
	for (unsigned i = 0; i < LOG_BURST + 80; i++)
		log_again();
	log_info("another site");
	const char *lines = logged();
	assert_int_equal(count_lines(lines), LOG_BURST + 1);
	assert_non_null(strstr(lines, "another site"));
	now_ms += LOG_WINDOW_MS;
	log_again();
	assert_non_null(strstr(logged(), "msg=again suppressed=80\n"));
	log_again();
	assert_null(strstr(logged(), "suppressed"));
}

static void clock_that_goes_back_does_not_silence(void **state)
{
	(void)state;
	setup(LOG_TEXT, LOG_LEVEL_INFO, true);
	now_ms += 5 * LOG_WINDOW_MS;
	for (unsigned i = 0; i < LOG_BURST + 1; i++)
		log_again();
	logged();
	now_ms -= 4 * LOG_WINDOW_MS;
	log_again();
	assert_int_equal(count_lines(logged()), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(text_lines_are_logfmt, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(json_lines_are_objects, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(peers_bytes_cannot_forge_a_line, open_pipe,
		                                close_pipe),
		cmocka_unit_test_setup_teardown(levels_below_the_chosen_one_are_silent, open_pipe,
		                                close_pipe),
		cmocka_unit_test_setup_teardown(long_values_are_cut_and_lines_stay_whole, open_pipe,
		                                close_pipe),
		cmocka_unit_test_setup_teardown(line_of_only_escapes_stays_in_its_buffer, open_pipe,
		                                close_pipe),
		cmocka_unit_test_setup_teardown(flood_from_one_site_is_limited_and_counted,
		                                open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(clock_that_goes_back_does_not_silence, open_pipe,
		                                close_pipe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
