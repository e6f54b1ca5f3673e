/* Parameters in PostgreSQL's binary form, byte by byte, and connection strings. */
#include <string.h>

#include "base/mem.h"
#include "link/postgres_link.h"
#include "support/test.h"

struct row {
	unsigned char key[POSTGRES_KEY_LEN];
	uint64_t number;
	struct span text;
};

static struct row first = { { 1, 2, 3 }, UINT64_C(0x0102030405060708), { "ab", 2 } };
static struct row second = { { 0xff }, UINT64_MAX, { NULL, 0 } };
static void *rows[] = { &first, &second };

static struct span arg(const struct postgres_args *args, uint32_t i)
{
	return span_of(args->bytes.ptr + args->starts[i], args->ends[i] - args->starts[i]);
}

static void assert_bytes(struct span found, const char *expected, size_t len)
{
	assert_int_equal(found.len, len);
	assert_memory_equal(found.ptr, expected, len);
}

static void test_numbers_and_bytes_are_in_network_order(void **state)
{
	struct postgres_args args = { 0 };

	(void)state;
	postgres_args_u64(&args, 258);
	postgres_args_bytes(&args, SPAN("x\0y"));
	postgres_args_bytes(&args, SPAN_EMPTY);
	postgres_args_key(&args, first.key);
	assert_int_equal(args.count, 4);
	assert_bytes(arg(&args, 0), "\0\0\0\0\0\0\1\2", 8);
	assert_bytes(arg(&args, 1), "x\0y", 3);
	assert_int_equal(arg(&args, 2).len, 0);
	assert_bytes(arg(&args, 3), (const char *)first.key, 16);
	postgres_args_clear(&args);
	assert_int_equal(args.count, 0);
	postgres_args_free(&args);
}

#define ARRAY_HEAD(type, count) "\0\0\0\1\0\0\0\0\0\0" type "\0\0\0" count "\0\0\0\1"

static void test_columns_are_arrays_of_one_dimension(void **state)
{
	struct postgres_args args = { 0 };
	static const char numbers[] = ARRAY_HEAD(
		"\0\x14",
		"\2") "\0\0\0\x08\1\2\3\4\5\6\7\x08\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff";
	static const char texts[] = ARRAY_HEAD("\0\x11", "\2") "\0\0\0\2ab\0\0\0\0";

	(void)state;
	postgres_args_u64s(&args,
	                   (struct postgres_column){ rows, 2, offsetof(struct row, number) });
	postgres_args_spans(&args, (struct postgres_column){ rows, 2, offsetof(struct row, text) });
	postgres_args_keys(&args, (struct postgres_column){ rows, 2, offsetof(struct row, key) });
	assert_bytes(arg(&args, 0), numbers, sizeof(numbers) - 1);
	assert_bytes(arg(&args, 1), texts, sizeof(texts) - 1);
	assert_int_equal(arg(&args, 2).len, 20 + 2 * 20);
	postgres_args_free(&args);
}

static void test_empty_column_has_no_dimension(void **state)
{
	struct postgres_args args = { 0 };

	(void)state;
	postgres_args_u64s(&args, (struct postgres_column){ rows, 0, 0 });
	assert_bytes(arg(&args, 0), "\0\0\0\0\0\0\0\0\0\0\0\x14", 12);
	postgres_args_free(&args);
}

static void test_conninfo_is_judged_without_telling_the_password(void **state)
{
	struct error_text text = { "" };
	char *password = NULL;

	(void)state;
	assert_int_equal(postgres_conninfo_check("postgres://u:se%20cret@h/d", &password, &text),
	                 0);
	assert_string_equal(password, "se cret");
	password = mem_free(password);
	assert_int_equal(postgres_conninfo_check("host=h dbname=d", &password, &text), 0);
	assert_null(password);
	assert_int_equal(postgres_conninfo_check("postgres://u:canary@h/d?nonsense=1", &password,
	                                         &text),
	                 ERR_CONFIG);
	assert_null(strstr(text.text, "canary"));
}

static void test_texts_of_the_server_have_neither_password_nor_controls(void **state)
{
	struct postgres_link_options options = { .password = "canary" };
	struct error_text text = { "" };

	(void)state;
	postgres_link_text(&options, "no canary\n\x1b[31mhere\n", &text);
	assert_string_equal(text.text, "no ***  [31mhere");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_and_bytes_are_in_network_order),
		cmocka_unit_test(test_columns_are_arrays_of_one_dimension),
		cmocka_unit_test(test_empty_column_has_no_dimension),
		cmocka_unit_test(test_conninfo_is_judged_without_telling_the_password),
		cmocka_unit_test(test_texts_of_the_server_have_neither_password_nor_controls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
