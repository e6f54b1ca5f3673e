/* structured_field: String and Token items of RFC 8941. */
#include "support/test.h"

#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "codec/structured_field.h"
#include "support/vectors.h"

static void expect(struct span text, enum structured_type type, struct span value)
{
	char bytes[1024];
	struct structured_item item;
	int error = structured_item_parse(text, bytes, sizeof(bytes), &item);
	if (error)
		fail_msg("%.*s was refused", (int)text.len, text.ptr);
	assert_int_equal(item.type, type);
	if (!span_eq(span_of(bytes, item.len), value))
		fail_msg("%.*s became %.*s", (int)text.len, text.ptr, (int)item.len, bytes);
}

static void strings_and_tokens_are_read(void **state)
{
	(void)state;
	expect(SPAN("\"8e03978e-40d5-43e8-bc93-6894a57f9324\""), STRUCTURED_STRING,
	       SPAN("8e03978e-40d5-43e8-bc93-6894a57f9324"));
	expect(SPAN("  \"a b\"  "), STRUCTURED_STRING, SPAN("a b"));
	expect(SPAN("\"\""), STRUCTURED_STRING, SPAN(""));
	expect(SPAN("\"say \\\"hi\\\" \\\\\""), STRUCTURED_STRING, SPAN("say \"hi\" \\"));
	expect(SPAN("a_b-c.d3:f%00/*"), STRUCTURED_TOKEN, SPAN("a_b-c.d3:f%00/*"));
	expect(SPAN("*x"), STRUCTURED_TOKEN, SPAN("*x"));
}

static void parameters_are_judged_and_left_out(void **state)
{
	(void)state;
	expect(SPAN("\"k\";a;b=1;  c=-1.5;d=\"x;\";e=t;f=?1;*g=:YQ==:;h-i_j.k=?0"),
	       STRUCTURED_STRING, SPAN("k"));
	expect(SPAN("tok;a=b"), STRUCTURED_TOKEN, SPAN("tok"));
}

static void everything_else_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"1",
		"-1.5",
		"?1",
		":YQ==:",
		"(a b)",
		"a, b",
		"\"a\", \"b\"",
		"\"a\" \"b\"",
		"\"a\"x",
		"\"a",
		"a\"",
		"\"\\a\"",
		"\"\\",
		"\"\\\"",
		"\t\"a\"",
		"\"a\"\t",
		"\"\x7f\"",
		"\"\x1f\"",
		"\"\xc3\xbc\"",
		"'a'",
		"8e03978e",
		"a b",
		"a;",
		"a;A",
		"a;1=2",
		"a;b=",
		"a;b=@",
		"a;b=?2",
		"a;b=?",
		"a;b=:Y",
		"a;b=:Y!:",
		"a;b=1.",
		"a;b=1.2345",
		"a;b=1234567890123.1",
		"a;b=1234567890123456",
		"a;b=--1",
		"a;b=\"",
		"a ;b",
		"a;b =1",
		"a;b= 1",
		"=",
		";a",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char bytes[64];
		struct structured_item item = { .len = 77 };
		if (structured_item_parse(span_str(texts[i]), bytes, sizeof(bytes), &item) !=
		    ERR_INVALID)
			fail_msg("\"%s\" was accepted", texts[i]);
		assert_int_equal(item.len, 77);
	}
}

static void room_is_respected(void **state)
{
	(void)state;
	char bytes[5] = { 0, 0, 0, 0, 77 };
	struct structured_item item;
	assert_int_equal(structured_item_parse(SPAN("\"abcd\""), bytes, 4, &item), 0);
	assert_int_equal(structured_item_parse(SPAN("\"abcde\""), bytes, 4, &item), ERR_TOO_LARGE);
	assert_int_equal(structured_item_parse(SPAN("abcde"), bytes, 4, &item), ERR_TOO_LARGE);
	assert_int_equal(bytes[4], 77);
}

/* A JSON string from its quote on; the place behind it. */
static const char *unquote(const char *at, char *bytes, size_t *ret_len)
{
	size_t len = 0;
	for (at++; *at != '"'; at++) {
		unsigned char code[2];
		if (*at != '\\') {
			bytes[len++] = *at;
		} else if (*++at == 'u') {
			assert_true(hex_decode(span_of(at + 1, 4), code, 2));
			assert_int_equal(code[0], 0);
			assert_true(code[1] < 0x80);
			bytes[len++] = (char)code[1];
			at += 4;
		} else {
			bytes[len++] = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
		}
	}
	*ret_len = len;
	return at + 1;
}

/* One object of a vector file. Lists are not ours; raw in two lines may fail. */
static void check_vector(const char *at, const char *end)
{
	static char raw[8192], expected[8192], bytes[8192];
	size_t raw_len, expected_len;
	struct structured_item item;
	const char *place = memmem(at, (size_t)(end - at), "\"raw\":", 6);
	if (!place || !memmem(at, (size_t)(end - at), "\"item\"", 6))
		return;
	place = unquote(strchr(place + 6, '"'), raw, &raw_len);
	if (*place != ']')
		return;
	int error = structured_item_parse(span_of(raw, raw_len), bytes, sizeof(bytes), &item);
	const char *value = memmem(at, (size_t)(end - at), "\"expected\":", 11);
	if (!value) {
		assert_int_equal(error, ERR_INVALID);
		return;
	}
	const char *bracket = strchr(value, '[');
	const char *token = memmem(bracket, (size_t)(end - bracket), "\"value\":", 8);
	const char *quote = token ? strchr(token + 8, '"') : bracket + 1 + strspn(bracket + 1, " ");
	if (*quote != '"') { /* a number */
		assert_int_equal(error, ERR_INVALID);
		return;
	}
	unquote(quote, expected, &expected_len);
	expect(span_of(raw, raw_len), token ? STRUCTURED_TOKEN : STRUCTURED_STRING,
	       span_of(expected, expected_len));
}

static unsigned vector_count;

static void check_file(const char *name, struct span file)
{
	(void)name;
	char *text = mem_alloc(file.len + 1);
	assert_non_null(text);
	memcpy(text, file.ptr, file.len);
	text[file.len] = '\0';
	for (const char *at = text; (at = strstr(at, "\"name\":"));) {
		const char *end = strstr(at + 1, "\"name\":");
		if (!end)
			end = text + file.len;
		check_vector(at, end);
		vector_count++;
		at = end;
	}
	mem_free(text);
}

static void published_vectors_agree(void **state)
{
	(void)state;
	if (vectors_each("structured-fields", check_file) == 0)
		skip();
	assert_true(vector_count > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_and_tokens_are_read),
		cmocka_unit_test(parameters_are_judged_and_left_out),
		cmocka_unit_test(everything_else_is_refused),
		cmocka_unit_test(room_is_respected),
		cmocka_unit_test(published_vectors_agree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
