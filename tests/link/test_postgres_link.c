/* postgres_link: what it says to people. All else is tested with a server: tests/integration. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "link/postgres_link.h"

static void check_text(const char *password, const char *message, const char *wanted)
{
	struct postgres_link_options options = { .password = password };
	struct error_text text = { "" };

	postgres_link_text(&options, message, &text);
	assert_string_equal(text.text, wanted);
}

static void test_password_is_in_no_text_and_a_metadata_is_no_password(void **state)
{
	(void)state;
	check_text(NULL, "could not translate\thost name \"s3cret\"\n",
	           "could not translate host name \"s3cret\"");
	check_text("s3cret", "could not translate host name \"s3cret\"\n",
	           "could not translate host name \"***\"");
	check_text("a", "could not translate host name\n", "could not translate host name");
}

static void test_password_does_not_show_where_a_text_is_cut(void **state)
{
	(void)state;
	char message[8192];
	struct postgres_link_options options = { .password = "s3cret" };

	memset(message, 'x', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	for (size_t at = ERROR_TEXT_MAX - 16; at < ERROR_TEXT_MAX + 16; at++) {
		struct error_text text = { "" };
		memset(message, 'x', ERROR_TEXT_MAX + 32);
		memcpy(message + at, "s3cret", 6);
		postgres_link_text(&options, message, &text);
		assert_null(strchr(text.text, 's'));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_password_is_in_no_text_and_a_metadata_is_no_password),
		cmocka_unit_test(test_password_does_not_show_where_a_text_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
