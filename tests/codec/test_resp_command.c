/* resp_command: commands out of bytes, in whatever pieces they come. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/resp.h"

static const struct resp_limits limits = {
	.args = 40, .bulk_bytes = 100, .command_bytes = 400, .line_bytes = 200
};
static const struct resp_limits stranger = {
	.args = 3, .bulk_bytes = 10, .command_bytes = 400, .line_bytes = 200, .stranger = true
};

/* The command's arguments, each followed by a bar; the step if it is none. */
static enum resp_step parse_at(struct resp_parser *parser, char *bytes, size_t len,
                               const struct resp_limits *most, char *ret_words)
{
	enum resp_step step = resp_parse(parser, bytes, len, most);
	size_t at = 0;
	if (step == RESP_COMMAND)
		for (uint32_t i = 0; i < parser->count; i++) {
			memcpy(ret_words + at, bytes + parser->args[i].at, parser->args[i].len);
			at += parser->args[i].len;
			ret_words[at++] = '|';
		}
	ret_words[at] = 0;
	return step;
}

struct good {
	const char *text, *words;
};

static const struct good goods[] = {
	{ "*1\r\n$4\r\nPING\r\n", "PING|" },
	{ "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "GET|k|" },
	{ "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n", "SET||\r\n|" },
	{ "*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n"
	  "$1\r\n8\r\n$1\r\n9\r\n",
	  "0|1|2|3|4|5|6|7|8|9|" },
	{ "PING\r\n", "PING|" },
	{ "PING\n", "PING|" },
	{ "  set \t a  b \r\n", "set|a|b|" },
	{ "set a \"b c\"\r\n", "set|a|b c|" },
	{ "set \"\" ''\r\n", "set|||" },
	{ "set a \"\\x41\\n\\\"\\q\\x4\"\r\n", "set|a|A\n\"qx4|" },
	{ "set a 'b\\'c\\n'\r\n", "set|a|b'c\\n|" },
	{ "set a\"b\"\r\n", "set|ab|" },
};

static void a_command_is_the_same_in_one_piece_and_in_many(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(goods); i++) {
		size_t len = strlen(goods[i].text);
		for (size_t cut = 0; cut < len; cut++) {
			struct resp_parser parser = { 0 };
			char bytes[400], words[400];
			memcpy(bytes, goods[i].text, len);
			assert_int_equal(parse_at(&parser, bytes, cut, &limits, words), RESP_MORE);
			assert_true(parser.need > cut && parser.need <= len);
			assert_int_equal(parse_at(&parser, bytes, len, &limits, words),
			                 RESP_COMMAND);
			assert_string_equal(words, goods[i].words);
			assert_int_equal(parser.used, len);
			resp_parser_free(&parser);
		}
	}
}

/* Pieces of one byte, in memory that moves, and a command right behind. */
static void bytes_may_move_between_the_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(goods); i++) {
		size_t len = strlen(goods[i].text);
		struct resp_parser parser = { 0 };
		char words[400];
		for (size_t have = 1; have <= len; have++) {
			char *bytes = malloc(have); /* exactly: a look too far is found */
			assert_non_null(bytes);
			memcpy(bytes, goods[i].text, have);
			enum resp_step step = parse_at(&parser, bytes, have, &limits, words);
			assert_int_equal(step, have < len ? RESP_MORE : RESP_COMMAND);
			free(bytes);
		}
		assert_string_equal(words, goods[i].words);
		char next[] = "*1\r\n$1\r\nx\r\n";
		assert_int_equal(parse_at(&parser, next, strlen(next), &limits, words),
		                 RESP_COMMAND);
		assert_string_equal(words, "x|");
		resp_parser_free(&parser);
	}
}

static void what_says_nothing_is_skipped(void **state)
{
	static const char *const texts[] = {
		"*0\r\n", "*-1\r\n", "*-5\r\n", "\r\n", "\n", "  \r\n"
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct resp_parser parser = { 0 };
		char bytes[64], words[64];
		int len = snprintf(bytes, sizeof(bytes), "%s*1\r\n$1\r\nx\r\n", texts[i]);
		size_t skipped = strlen(texts[i]);
		assert_int_equal(parse_at(&parser, bytes, (size_t)len, &limits, words),
		                 RESP_NOTHING);
		assert_int_equal(parser.used, skipped);
		assert_int_equal(parse_at(&parser, bytes + skipped, (size_t)len - skipped, &limits,
		                          words),
		                 RESP_COMMAND);
		resp_parser_free(&parser);
	}
}

struct bad {
	const char *text, *problem;
	const struct resp_limits *limits;
};

static const struct bad bads[] = {
	{ "*a\r\n", "invalid multibulk length", &limits },
	{ "*\r\n", "invalid multibulk length", &limits },
	{ "*01\r\n", "invalid multibulk length", &limits },
	{ "*+1\r\n", "invalid multibulk length", &limits },
	{ "* 1\r\n", "invalid multibulk length", &limits },
	{ "*1\n", "invalid multibulk length", &limits },
	{ "*1\rx", "invalid multibulk length", &limits },
	{ "*41\r\n", "invalid multibulk length", &limits },
	{ "*2147483648\r\n", "invalid multibulk length", &limits },
	{ "*99999999999999999999\r\n", "invalid multibulk length", &limits },
	{ "*4\r\n", "unauthenticated multibulk length", &stranger },
	{ "*1\r\nPING\r\n", "expected '$', got 'P'", &limits },
	{ "*1\r\n\r\n", "expected '$', got ' '", &limits },
	{ "*1\r\n$-1\r\n", "invalid bulk length", &limits },
	{ "*1\r\n$x\r\n", "invalid bulk length", &limits },
	{ "*1\r\n$00\r\n", "invalid bulk length", &limits },
	{ "*1\r\n$101\r\n", "invalid bulk length", &limits },
	{ "*1\r\n$4294967297\r\n", "invalid bulk length", &limits },
	{ "*1\r\n$11\r\n", "unauthenticated bulk length", &stranger },
	{ "*1\r\n$1\r\nxx\r\n", "expected CR LF behind a bulk string", &limits },
	{ "*1\r\n$1\r\nx\rx", "expected CR LF behind a bulk string", &limits },
	{ "a \"b\r\n", "unbalanced quotes in request", &limits },
	{ "a 'b\r\n", "unbalanced quotes in request", &limits },
	{ "a \"b\"c\r\n", "unbalanced quotes in request", &limits },
	{ "a \"b\\\"\r\n", "unbalanced quotes in request", &limits },
};

static void what_is_no_command_is_refused_in_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bads); i++) {
		struct resp_parser parser = { 0 };
		char bytes[64], words[64], problem[RESP_PROBLEM_MAX];
		size_t len = strlen(bads[i].text);
		memcpy(bytes, bads[i].text, len);
		assert_int_equal(parse_at(&parser, bytes, len, bads[i].limits, words), RESP_BROKEN);
		resp_parser_problem(&parser, problem);
		assert_string_equal(problem, bads[i].problem);
		assert_int_equal(parse_at(&parser, bytes, len, bads[i].limits, words), RESP_BROKEN);
		resp_parser_free(&parser);
	}
}

static void a_line_and_a_command_have_a_largest_size(void **state)
{
	struct resp_parser parser = { 0 };
	char bytes[600], problem[RESP_PROBLEM_MAX];
	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(resp_parse(&parser, bytes, 200, &limits), RESP_MORE);
	assert_int_equal(resp_parse(&parser, bytes, 201, &limits), RESP_BROKEN);
	resp_parser_problem(&parser, problem);
	assert_string_equal(problem, "too big inline request");

	parser = (struct resp_parser){ 0 };
	size_t len = 0;
	len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "*5\r\n");
	for (int i = 0; i < 4; i++)
		len += (size_t)snprintf(bytes + len, sizeof(bytes) - len, "$100\r\n%0100d\r\n", 0);
	assert_int_equal(resp_parse(&parser, bytes, len, &limits), RESP_BROKEN);
	resp_parser_problem(&parser, problem);
	assert_string_equal(problem, "too big command");
	resp_parser_free(&parser);
}

static void many_arguments_without_memory_are_told(void **state)
{
	struct resp_parser parser = { 0 };
	char bytes[] = "a b c d e f g h i j k\r\n", words[64];
	(void)state;
	mem_fail_at(1, true);
	assert_int_equal(parse_at(&parser, bytes, strlen(bytes), &limits, words), RESP_NO_MEMORY);
	mem_fail_at(0, false);
	resp_parser_free(&parser);
}

static void replies_are_what_each_version_has_for_them(void **state)
{
	struct buf two = { 0 }, three = { 0 };
	(void)state;
	for (int version = RESP_2; version <= RESP_3; version++) {
		struct buf *out = version == RESP_2 ? &two : &three;
		enum resp_version v = (enum resp_version)version;
		resp_write_simple(out, SPAN("OK"));
		resp_write_integer(out, -7);
		resp_write_integer(out, 1234567890123);
		resp_write_bulk(out, SPAN("a\r\nb"));
		resp_write_null(out, v);
		resp_write_array(out, 2);
		resp_write_map(out, 2, v);
		resp_write_set(out, 3, v);
		resp_write_verbatim(out, SPAN("hi"), v);
		resp_write_error(out, RESP_WRONGPASS, SPAN("a\r\nb"));
		assert_int_equal(out->failed, 0);
		buf_append_char(out, 0);
	}
	assert_string_equal(two.ptr, "+OK\r\n:-7\r\n:1234567890123\r\n$4\r\na\r\nb\r\n$-1\r\n"
	                             "*2\r\n*4\r\n*3\r\n$2\r\nhi\r\n"
	                             "-WRONGPASS a  b\r\n");
	assert_string_equal(three.ptr, "+OK\r\n:-7\r\n:1234567890123\r\n$4\r\na\r\nb\r\n_\r\n"
	                               "*2\r\n%2\r\n~3\r\n=6\r\ntxt:hi\r\n"
	                               "-WRONGPASS a  b\r\n");
	buf_free(&two);
	buf_free(&three);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_is_the_same_in_one_piece_and_in_many),
		cmocka_unit_test(bytes_may_move_between_the_pieces),
		cmocka_unit_test(what_says_nothing_is_skipped),
		cmocka_unit_test(what_is_no_command_is_refused_in_words),
		cmocka_unit_test(a_line_and_a_command_have_a_largest_size),
		cmocka_unit_test(many_arguments_without_memory_are_told),
		cmocka_unit_test(replies_are_what_each_version_has_for_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
