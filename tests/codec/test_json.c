/* json: what is accepted, what is refused and where, and what is found. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "codec/json.h"
#include "support/json_model.h"
#include "support/vectors.h"

static const char *const wanted_paths[] = {
	"id",        "source",  "detail",     "type",  "detail.a.b",
	"detail.id", "list[0]", "list[2].id", "[1].x",
};
enum { ID, SOURCE, DETAIL, TYPE, DETAIL_A_B, DETAIL_ID, LIST_0, LIST_2_ID, ELEMENT_X };
#define PATHS ARRAY_LEN(wanted_paths)

static struct json_plan plan;
static struct json_path paths[PATHS];
static uint8_t nodes[PATHS];

static int set_up(void **state)
{
	struct json_problem problem;
	(void)state;
	json_plan_init(&plan);
	for (size_t i = 0; i < PATHS; i++) {
		int error = json_path_parse(span_str(wanted_paths[i]), &paths[i], &problem);
		if (error != 0 || json_plan_add(&plan, &paths[i], &nodes[i]) != 0)
			return -1;
	}
	json_plan_seal(&plan);
	return 0;
}

static struct json_value found(const struct json_doc *doc, int path)
{
	return json_get(doc, nodes[path]);
}

/* In memory of exactly its size: one byte too far is seen by ASan. */
static int scan_exactly(struct span text, struct json_doc *doc)
{
	char *copy = mem_alloc(text.len);
	assert_non_null(copy);
	if (text.len)
		memcpy(copy, text.ptr, text.len);
	int error = json_scan(span_of(copy, text.len), &plan, doc);
	for (size_t i = 0; i < PATHS && error == 0; i++)
		if (json_set_has(&doc->seen, nodes[i]))
			doc->values[nodes[i]].text.ptr = text.ptr +
			                                 (doc->values[nodes[i]].text.ptr - copy);
	mem_free(copy);
	return error;
}

static int scan_str(const char *text, struct json_doc *doc)
{
	return scan_exactly(span_str(text), doc);
}

/* The scanner and the model say the same of this text. */
static void assert_as_model(struct span text, uint64_t seed)
{
	struct json_doc doc;
	struct json_model model;
	bool valid = json_model_run(&model, text, paths, PATHS);
	bool same = (scan_exactly(text, &doc) == 0) == valid && (!valid || doc.root == model.root);
	for (size_t i = 0; same && valid && i < PATHS; i++) {
		struct json_value value = found(&doc, (int)i);
		bool there = value.type > JSON_NULL &&
		             (value.type != JSON_STRING || value.text.len > 0);
		same = value.type == model.values[i].type &&
		       there == json_set_has(&doc.there, nodes[i]);
		if (same && value.type != JSON_NONE)
			same = value.text.ptr == model.values[i].text.ptr &&
			       value.text.len == model.values[i].text.len &&
			       value.escaped == model.values[i].escaped;
	}
	if (!same)
		fail_msg("model says %s of: %.*s (%s)", valid ? "valid" : "invalid", (int)text.len,
		         text.ptr, test_note_seed(seed));
}

static void valid_texts_are_accepted(void **state)
{
	static const struct {
		const char *text;
		enum json_type root;
	} cases[] = {
		{ "{}", JSON_OBJECT },
		{ "[]", JSON_ARRAY },
		{ " \t\r\n{ \n} \r\n", JSON_OBJECT },
		{ "0", JSON_NUMBER },
		{ "-0", JSON_NUMBER },
		{ "-12.50e+10", JSON_NUMBER },
		{ "1E400", JSON_NUMBER },
		{ "123456789012345678901234567890", JSON_NUMBER },
		{ "true", JSON_TRUE },
		{ " false ", JSON_FALSE },
		{ "null", JSON_NULL },
		{ "\"\"", JSON_STRING },
		{ "\"\x7f\"", JSON_STRING },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABCD\\uabcd\"", JSON_STRING },
		{ "\"\\uD83D\\uDE00\"", JSON_STRING },
		{ "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
		  JSON_STRING },
		{ "\"{}[]:,\"", JSON_STRING },
		{ "[[],{},[{}],{\"\":[]}]", JSON_ARRAY },
		{ "[1,-2,3.0,\"4\",true,false,null]", JSON_ARRAY },
		{ "{\"a\":1,\"a\":2}", JSON_OBJECT },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_doc doc;
		if (scan_str(cases[i].text, &doc) != 0)
			fail_msg("refused: %s at %zu: %s", cases[i].text, doc.problem.offset,
			         doc.problem.expected);
		assert_int_equal(doc.root, cases[i].root);
		assert_as_model(span_str(cases[i].text), 0);
	}
}

static void invalid_texts_are_refused_at_the_right_byte(void **state)
{
	static const struct {
		const char *text;
		size_t offset;
		const char *expected;
	} cases[] = {
		{ "", 0, "a value" },
		{ "  ", 0, "a value" },
		{ "{", 1, "a name in quotes" },
		{ "[", 1, "a value" },
		{ "}", 0, "a value: object, array, string, number, true, false or null" },
		{ "{]", 1, "a name in quotes" },
		{ "[}", 1, "a value: object, array, string, number, true, false or null" },
		{ "[1}", 2, "a comma or ]" },
		{ "{\"a\":1]", 6, "a comma or }" },
		{ "{\"a\":[1]", 8, "a comma or }" },
		{ "[{\"a\":1}", 8, "a comma or ]" },
		{ "[1 2]", 3, "a comma or ]" },
		{ "[1,]", 3, "a value: object, array, string, number, true, false or null" },
		{ "[,1]", 1, "a value: object, array, string, number, true, false or null" },
		{ "{\"a\":1,}", 7, "a name in quotes" },
		{ "{\"a\" 1}", 5, "a colon after a name" },
		{ "{\"a\":}", 5, "a value: object, array, string, number, true, false or null" },
		{ "{\"a\":", 5, "a value" },
		{ "{\"a\"", 4, "a colon after a name" },
		{ "{\"a\":1", 6, "a comma or }" },
		{ "{\"a\":1,", 7, "a name in quotes" },
		{ "{a:1}", 1, "a name in quotes" },
		{ "{1:1}", 1, "a name in quotes" },
		{ "{'a':1}", 1, "a name in quotes" },
		{ "{} {}", 3, "nothing after the value" },
		{ "{}}", 2, "nothing after the value" },
		{ "1 2", 2, "nothing after the value" },
		{ "01", 1, "nothing after the value" },
		{ "-", 1, "a digit after the minus sign" },
		{ "[-]", 2, "a digit after the minus sign" },
		{ "[1.]", 3, "a digit after the decimal point" },
		{ "1.", 2, "a digit after the decimal point" },
		{ "[1e]", 3, "a digit in the exponent" },
		{ "[1e+]", 4, "a digit in the exponent" },
		{ "[+1]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[.5]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[tru]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[nul", 1, "a value: object, array, string, number, true, false or null" },
		{ "[True]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[NaN]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[/**/1]", 1, "a value: object, array, string, number, true, false or null" },
		{ "[1]\f", 3, "nothing after the value" },
		{ "[\v1]", 1, "a value: object, array, string, number, true, false or null" },
		{ "\xef\xbb\xbf{}", 0,
		  "a value: object, array, string, number, true, false or null" },
		{ "\"", 1, "the closing quote of a string" },
		{ "[\"a]", 4, "the closing quote of a string" },
		{ "{\"a}", 4, "the closing quote of a string" },
		{ "[\"a\nb\"]", 3, "no bare control character in a string" },
		{ "[\"a\tb\"]", 3, "no bare control character in a string" },
		{ "[\"\\x\"]", 3, "one of \" \\ / b f n r t u after a backslash" },
		{ "[\"\\", 3, "the rest of an escape" },
		{ "[\"\\u12G4\"]", 2, "four hexadecimal digits after \\u" },
		{ "[\"\\u12]", 2, "four hexadecimal digits after \\u" },
		{ "[\"\\uD800\"]", 8, "a low surrogate after the high one" },
		{ "[\"\\uD800\\uD800\"]", 8, "a low surrogate after the high one" },
		{ "[\"\\uD800x\"]", 8, "a low surrogate after the high one" },
		{ "[\"\\uDC00\"]", 2, "a high surrogate before this low one" },
		{ "[\"\x80\"]", 2, "valid UTF-8" },
		{ "[\"\xc0\xaf\"]", 2, "valid UTF-8" },
		{ "[\"\xe0\x80\xaf\"]", 2, "valid UTF-8" },
		{ "[\"\xed\xa0\x80\"]", 2, "valid UTF-8" },
		{ "[\"\xf0\x80\x80\xaf\"]", 2, "valid UTF-8" },
		{ "[\"\xf4\x90\x80\x80\"]", 2, "valid UTF-8" },
		{ "[\"\xf5\x80\x80\x80\"]", 2, "valid UTF-8" },
		{ "[\"\xc3\"]", 2, "valid UTF-8" },
		{ "[\"ok \xe2\x82", 5, "valid UTF-8" },
		{ "{\"id\":1,\"id\":1}", 8, "this name only once" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_doc doc;
		if (scan_str(cases[i].text, &doc) != ERR_INVALID)
			fail_msg("accepted: %s", cases[i].text);
		if (doc.problem.offset != cases[i].offset ||
		    strcmp(doc.problem.expected, cases[i].expected) != 0)
			fail_msg("%s: at %zu: %s", cases[i].text, doc.problem.offset,
			         doc.problem.expected);
		assert_as_model(span_str(cases[i].text), 0);
	}
}

static void nul_bytes_are_refused_everywhere(void **state)
{
	static const char text[] = "{\"id\":\"x\",\"a\":[1,true]}";
	char copy[sizeof(text)];
	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		struct json_doc doc;
		memcpy(copy, text, sizeof(text));
		copy[i] = 0;
		assert_int_equal(scan_exactly(span_of(copy, sizeof(text) - 1), &doc), ERR_INVALID);
	}
	struct json_doc doc;
	assert_int_equal(scan_exactly(span_of("{}\0", 3), &doc), ERR_INVALID);
}

static void assert_value(struct json_value value, enum json_type type, const char *text)
{
	assert_int_equal(value.type, type);
	assert_int_equal(value.text.len, strlen(text));
	assert_memory_equal(value.text.ptr, text, strlen(text));
}

static void wanted_members_are_found_with_type_and_text(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_int_equal(scan_str("{ \"id\" : \"a-1\" , \"x\":0,\"source\":-1.5e3,"
	                          "\"detail\" : { \"id\": [ {} ] } ,\"type\":[ 1 ]}",
	                          &doc),
	                 0);
	assert_value(found(&doc, ID), JSON_STRING, "a-1");
	assert_false(found(&doc, ID).escaped);
	assert_value(found(&doc, SOURCE), JSON_NUMBER, "-1.5e3");
	assert_value(found(&doc, DETAIL), JSON_OBJECT, "{ \"id\": [ {} ] }");
	assert_value(found(&doc, TYPE), JSON_ARRAY, "[ 1 ]");

	assert_int_equal(scan_str("{\"type\":null,\"detail\":{},\"id\":true,\"source\":\"\"}",
	                          &doc),
	                 0);
	assert_value(found(&doc, TYPE), JSON_NULL, "null");
	assert_value(found(&doc, DETAIL), JSON_OBJECT, "{}");
	assert_value(found(&doc, ID), JSON_TRUE, "true");
	assert_value(found(&doc, SOURCE), JSON_STRING, "");
}

static void only_members_of_the_top_level_object_count(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_int_equal(scan_str("{\"a\":{\"id\":1,\"id\":2},\"b\":[{\"id\":3}],\"c\":\"id\"}",
	                          &doc),
	                 0);
	assert_int_equal(found(&doc, ID).type, JSON_NONE);
	assert_int_equal(scan_str("[{\"id\":1},{\"id\":2}]", &doc), 0);
	assert_int_equal(found(&doc, ID).type, JSON_NONE);
	assert_int_equal(scan_str("{\"i\":1,\"ID\":2,\"id2\":3,\"sourcf\":4}", &doc), 0);
	assert_int_equal(found(&doc, ID).type, JSON_NONE);
	assert_int_equal(found(&doc, SOURCE).type, JSON_NONE);
}

static void an_escaped_name_is_the_same_name(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_int_equal(scan_str("{\"\\u0069d\":\"x\"}", &doc), 0);
	assert_value(found(&doc, ID), JSON_STRING, "x");
	assert_false(found(&doc, ID).escaped);
	assert_int_equal(scan_str("{\"\\u0073\\u006F\\u0075\\u0072\\u0063\\u0065\":\"x\"}", &doc),
	                 0);
	assert_value(found(&doc, SOURCE), JSON_STRING, "x");
	assert_int_equal(scan_str("{\"i\\u0064\\u0000\":\"x\",\"\\u0049d\":1}", &doc), 0);
	assert_int_equal(found(&doc, ID).type, JSON_NONE);
}

static void a_repeated_wanted_name_is_refused_in_any_spelling(void **state)
{
	static const char *const texts[] = {
		"{\"id\":\"a\",\"id\":\"a\"}",       "{\"id\":\"a\",\"x\":{},\"\\u0069d\":\"b\"}",
		"{\"i\\u0064\":\"a\",\"id\":\"b\"}", "{\"detail\":{},\"detail\":{}}",
		"{\"type\":null,\"type\":1}",
	};
	struct json_doc doc;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(scan_str(texts[i], &doc), ERR_INVALID);
		assert_string_equal(doc.problem.expected, "this name only once");
	}
}

static void escapes_are_told_of_the_string_that_has_them(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_int_equal(
		scan_str("{\"a\\n\":\"\\t\",\"id\":\"x\",\"source\":\"y\\/\",\"type\":\"z\"}",
	                 &doc),
		0);
	assert_false(found(&doc, ID).escaped);
	assert_true(found(&doc, SOURCE).escaped);
	assert_false(found(&doc, TYPE).escaped);
	assert_int_equal(scan_str("{\"id\":\"\\\\\",\"type\":7}", &doc), 0);
	assert_true(found(&doc, ID).escaped);
	assert_false(found(&doc, TYPE).escaped);
}

static void nesting_ends_at_the_limit(void **state)
{
	char text[2 * JSON_DEPTH_MAX + 2];
	struct json_doc doc;
	(void)state;
	memset(text, '[', JSON_DEPTH_MAX);
	memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	assert_int_equal(scan_exactly(span_of(text, 2 * JSON_DEPTH_MAX), &doc), 0);
	memset(text, '[', JSON_DEPTH_MAX + 1);
	memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
	assert_int_equal(scan_exactly(span_of(text, sizeof(text)), &doc), ERR_INVALID);
	assert_int_equal(doc.problem.offset, JSON_DEPTH_MAX);
}

/* Kinds of containers are bits of one word: the pattern must come back whole. */
static void mixed_nesting_is_closed_in_order(void **state)
{
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(2000); round > 0; round--) {
		char text[8 * JSON_DEPTH_MAX];
		char closing[JSON_DEPTH_MAX];
		size_t len = 0;
		size_t depth = 1 + test_random_below(&random, JSON_DEPTH_MAX);
		for (size_t i = 0; i < depth; i++) {
			bool object = test_random(&random) & 1;
			memcpy(text + len, object ? "{\"\":" : "[", object ? 4 : 1);
			len += object ? 4 : 1;
			closing[i] = object ? '}' : ']';
		}
		text[len++] = '0';
		for (size_t i = depth; i > 0; i--)
			text[len++] = closing[i - 1];
		assert_as_model(span_of(text, len), seed);
		size_t at = len - 1 - test_random_below(&random, depth);
		text[at] = (char)(text[at] == '}' ? ']' : '}');
		assert_as_model(span_of(text, len), seed);
	}
}

/* Strings are read in blocks: a special byte at every place of strings of every
 * length around the block sizes, with every count of bytes after them. */
static void special_bytes_are_seen_at_every_place_of_a_block(void **state)
{
	static const char *const specials[] = { "\"",       "\\n",  "\x01", "\x1f",
		                                "\xc3\xa9", "\x80", "\\" };
	(void)state;
	for (size_t len = 0; len < 40; len++)
		for (size_t at = 0; at <= len; at++)
			for (size_t i = 0; i < ARRAY_LEN(specials); i++) {
				char text[64];
				int n = snprintf(text, sizeof(text), "{\"id\":\"%.*s%s%.*s\"}",
				                 (int)at,
				                 "abcdefghijklmnopqrstuvwxyz !#[]{}~0123456789",
				                 specials[i], (int)(len - at),
				                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ !#[]{}~0123456789");
				assert_in_range(n, 1, sizeof(text) - 1);
				assert_as_model(span_of(text, (size_t)n), 0);
			}
}

static void all_sequences_of_three_bytes_are_judged_as_utf8(void **state)
{
	(void)state;
	for (unsigned lead = 0x80; lead < 0x100; lead++)
		for (unsigned second = 0x70; second < 0x100; second += lead < 0xF8 ? 1 : 16)
			for (unsigned third = 0x7F; third < 0xC2; third += 13) {
				char text[] = { '"',         (char)lead, (char)second,
					        (char)third, (char)0xBF, '"' };
				assert_as_model(span_of(text, sizeof(text)), 0);
				text[4] = '"';
				assert_as_model(span_of(text, 5), 0);
				text[3] = '"';
				assert_as_model(span_of(text, 4), 0);
			}
}

static const char sample[] =
	"{\"version\":\"0\",\"id\":\"58fb5dac-f077-4eec-a25f-c638dbdd4368\",\"source\": \"aws\\u002Fx\","
	"\"resources\" :[ ],\"account\":123456789012 ,\"t\":[1.5,-2e-3,true,null,{\"a\":{}}],\n"
	"\t\"list\":[0,[1],{\"id\":[2]}],\"detail\":{\"a\":{\"b\":7},\"id\":\"\",\"name\":\"J\xc3\xbcrg \xf0\x9f\x98\x80 \\uD83D\\uDE00\",\"x\":[[[\"y\"]]]},"
	"\"type\":false}\r\n";

static void every_beginning_of_a_text_is_refused_without_reading_on(void **state)
{
	(void)state;
	for (size_t len = 0; len < sizeof(sample); len++)
		assert_as_model(span_of(sample, len), 0);
}

static void mutate(char *text, size_t *len, size_t room, uint64_t *random)
{
	static const char bytes[] =
		"{}[]\",:\\/u0019.-+eEtrufalsn \t\n\x00\x1f\x7f\x80\xbf\xc3\xe2\xed\xf0\xf4\xff";
	size_t at = test_random_below(random, *len);
	char byte = bytes[test_random_below(random, sizeof(bytes) - 1)];
	switch (test_random_below(random, 4)) {
	case 0: text[at] = byte; break;
	case 1:
		memmove(text + at, text + at + 1, *len - at - 1);
		*len -= *len > 1;
		break;
	case 2:
		if (*len < room) {
			memmove(text + at + 1, text + at, *len - at);
			text[at] = byte;
			(*len)++;
		}
		break;
	default: {
		size_t from = test_random_below(random, *len);
		size_t n = test_random_below(random, 24);
		n = n < *len - at ? n : *len - at;
		n = n < *len - from ? n : *len - from;
		memmove(text + at, text + from, n);
		break;
	}
	}
}

/* Members one after another: as programs write them, and for people. */
static const char dense_sample[] =
	"{\"version\":\"0\",\"id\":\"58fb5dac\",\"account\":123456789012345,\"n\":0,\"resources\":[],"
	"\"type\":null,\"active\":true,\"done\":false,\"source\":\"J\xc3\xbcrg\",\"text\":\"a\\n\","
	"\"e\":1e5,\"detail\":{\"a\":{\"b\":7,\"c\":\"\"},\"id\":\"x\",\"m\":\"\\\"\"},\"list\":[{},\"y\"],"
	"\"f\":1.5,\"z\":[[],[1]],\"more\":\"so that all before is far from the end of the text\"}";
static const char pretty_sample[] =
	"{\n  \"version\": \"0\",\n  \"id\": \"58fb5dac\",\n  \"account\": 123456789012345,\n  \"resources\": [],"
	"\n  \"type\": null,\n\"active\": true,\n                  \"source\": \"J\xc3\xbcrg\",\r\n\t\"text\":\"a\\n\","
	"\n        \"detail\": {\n    \"a\": {\n         \"b\": 7\n    },\n    \"id\": \"x\"\n  },\n  \"list\": ["
	"\n  {},\n  2\n  ],\n  \"more\": \"so that all before is far from the end of the text\"\n}\n";

static void mutated_texts_are_judged_as_by_the_model(void **state)
{
	static const struct span samples[] = {
		{ sample, sizeof(sample) - 1 },
		{ dense_sample, sizeof(dense_sample) - 1 },
		{ pretty_sample, sizeof(pretty_sample) - 1 },
	};
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		assert_as_model(samples[i], 0);
	for (uint64_t round = test_scale(60000); round > 0; round--) {
		char text[600];
		struct span from = samples[round % ARRAY_LEN(samples)];
		size_t len = from.len;
		memcpy(text, from.ptr, len);
		for (uint64_t n = 1 + test_random_below(&random, 3); n > 0; n--)
			mutate(text, &len, sizeof(text), &random);
		assert_as_model(span_of(text, len), seed);
	}
}

/* Marks are found in chunks: whatever stands where one ends and the next begins. */
static void what_lies_across_two_chunks_is_seen(void **state)
{
	static const char *const tails[] = {
		"\",\"id\":\"x\",\"type\":7,\"list\":[0,1,{\"id\":true}]}",
		"\xc3\xa9\\n\",\n  \"id\": \"\\u00e9\",\n  \"type\": null\n}",
		"\n\",\"id\":\"x\"}",
		"\",\"id\":1,\"id\":2}",
	};
	static char text[2 * JSON_MARKS_CHUNK + 256];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tails); i++)
		for (size_t at = JSON_MARKS_CHUNK - 80; at < JSON_MARKS_CHUNK + 80; at++)
			for (size_t more = 0; more <= JSON_MARKS_CHUNK; more += JSON_MARKS_CHUNK) {
				int n = snprintf(text, sizeof(text), "{\"a\":\"%0*d%s",
				                 (int)(at + more), 0, tails[i]);
				assert_in_range(n, 1, sizeof(text) - 1);
				assert_as_model(span_of(text, (size_t)n), 0);
			}
}

static void strings_decode_to_their_value(void **state)
{
	char bytes[64];
	size_t len;
	(void)state;
	struct span text = SPAN(
		"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\uD83D\\ude00\\u0000z");
	static const char value[] = "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0z";
	assert_int_equal(json_decode(text, bytes, sizeof(bytes), &len), 0);
	assert_int_equal(len, sizeof(value) - 1);
	assert_memory_equal(bytes, value, len);
	assert_int_equal(json_decode(text, bytes, len, &len), 0);
	assert_int_equal(json_decode(text, bytes, len - 1, &len), ERR_TOO_LARGE);
	assert_int_equal(json_decode(SPAN_EMPTY, bytes, 0, &len), 0);
	assert_int_equal(len, 0);
}

static void decoding_what_was_not_scanned_is_an_error(void **state)
{
	static const char *const texts[] = {
		"\\", "\\x", "\\u", "\\u12", "\\uD800", "\\uDC00", "\\uD800\\u0041", "\\uD800\\"
	};
	char bytes[64];
	size_t len;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(json_decode(span_str(texts[i]), bytes, sizeof(bytes), &len),
		                 ERR_INVALID);
}

static void values_inside_of_containers_are_found(void **state)
{
	struct json_doc doc;
	(void)state;
	assert_int_equal(scan_str("{\"detail\":{\"x\":[{\"id\":1}],\"a\":{\"b\":\"deep\",\"c\":2},"
	                          "\"id\":[]},\"list\":[\"first\",{\"id\":0},{\"id\":\"third\"}]}",
	                          &doc),
	                 0);
	assert_value(found(&doc, DETAIL_A_B), JSON_STRING, "deep");
	assert_value(found(&doc, DETAIL_ID), JSON_ARRAY, "[]");
	assert_value(found(&doc, LIST_0), JSON_STRING, "first");
	assert_value(found(&doc, LIST_2_ID), JSON_STRING, "third");
	assert_int_equal(scan_str("{\"list\":[],\"detail\":[{\"a\":{\"b\":1}}]}", &doc), 0);
	assert_int_equal(found(&doc, LIST_0).type, JSON_NONE);
	assert_int_equal(found(&doc, DETAIL_A_B).type, JSON_NONE);
	assert_int_equal(scan_str("{\"list\":{\"id\":1},\"detail\":{\"a\":null}}", &doc), 0);
	assert_int_equal(found(&doc, LIST_0).type, JSON_NONE);
	assert_int_equal(scan_str("[{\"x\":0},{\"y\":1,\"x\":2},{\"x\":3}]", &doc), 0);
	assert_value(found(&doc, ELEMENT_X), JSON_NUMBER, "2");
}

static void a_name_twice_on_the_way_to_a_wanted_value_is_refused(void **state)
{
	static const char *const texts[] = {
		"{\"detail\":{\"a\":{\"b\":1,\"b\":1}}}", "{\"detail\":{\"a\":{\"b\":1},\"a\":2}}",
		"{\"detail\":{\"a\":2,\"\\u0061\":{}}}",  "{\"list\":[],\"list\":[]}",
		"{\"list\":[1,2,{\"id\":1,\"id\":2}]}",
	};
	struct json_doc doc;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(scan_str(texts[i], &doc), ERR_INVALID);
		assert_true(doc.problem.repeated);
	}
	assert_int_equal(scan_str("{\"list\":[{\"id\":1,\"id\":2},{\"id\":1,\"id\":2}]}", &doc), 0);
}

static void elements_of_an_array_are_scanned_one_by_one(void **state)
{
	static const char text[] = " [ {\"id\":\"a\"} ,2,[ ],\"\\\"\" , {\"id\":\"b\"}]\n";
	static const char *const elements[] = { "{\"id\":\"a\"}", "2", "[ ]", "\"\\\"\"",
		                                "{\"id\":\"b\"}" };
	struct json_elements it;
	struct json_doc doc;
	struct span element;
	(void)state;
	assert_int_equal(json_elements_begin(&it, span_str(text)), 0);
	for (size_t i = 0; i < ARRAY_LEN(elements); i++) {
		assert_int_equal(json_elements_next(&it, &plan, &doc, &element), 1);
		assert_true(span_eq(element, span_str(elements[i])));
		assert_int_equal(found(&doc, ID).type, i % 4 ? JSON_NONE : JSON_STRING);
	}
	assert_int_equal(json_elements_next(&it, &plan, &doc, &element), 0);
	assert_int_equal(json_elements_next(&it, &plan, &doc, &element), 0);
	assert_int_equal(json_elements_begin(&it, SPAN("[]")), 0);
	assert_int_equal(json_elements_next(&it, &plan, &doc, &element), 0);
	assert_int_equal(json_elements_begin(&it, SPAN("{}")), ERR_INVALID);
	assert_int_equal(json_elements_begin(&it, SPAN_EMPTY), ERR_INVALID);
}

static void a_broken_array_is_refused_where_it_breaks(void **state)
{
	static const struct {
		const char *text;
		int good;
		size_t offset;
	} cases[] = {
		{ "[", 0, 1 },     { "[1", 1, 2 },    { "[1,", 1, 3 },  { "[1,]", 1, 3 },
		{ "[1 2]", 1, 3 }, { "[{}}", 1, 3 },  { "[{]", 0, 2 },  { "[[1],{\"a\"}]", 1, 9 },
		{ "[1]x", 1, 3 },  { "[\"a]", 0, 4 }, { "[1,2", 2, 4 }, { "[1],", 1, 3 },
		{ "[tru]", 0, 1 }, { "[{},", 1, 4 },  { "[{}", 1, 3 },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_elements it;
		struct json_doc doc;
		struct span element;
		int good = 0;
		int more;
		assert_int_equal(json_elements_begin(&it, span_str(cases[i].text)), 0);
		while ((more = json_elements_next(&it, &plan, &doc, &element)) == 1)
			good++;
		assert_int_equal(more, ERR_INVALID);
		if (good != cases[i].good || doc.problem.offset != cases[i].offset)
			fail_msg("%s: %d good, broken at %zu", cases[i].text, good,
			         doc.problem.offset);
	}
}

static void a_repeated_name_spoils_its_own_element_alone(void **state)
{
	struct json_elements it;
	struct json_doc doc;
	struct span element;
	(void)state;
	assert_int_equal(json_elements_begin(&it, SPAN("[{\"id\":1,\"id\":2},{\"id\":3}]")), 0);
	assert_int_equal(json_elements_next(&it, &plan, &doc, &element), ERR_INVALID);
	assert_true(doc.problem.repeated);
	assert_int_equal(json_elements_next(&it, NULL, &doc, &element), 1);
	assert_int_equal(json_elements_next(&it, &plan, &doc, &element), 1);
	assert_value(found(&doc, ID), JSON_NUMBER, "3");
}

static void compact_texts_have_no_blanks_between_tokens(void **state)
{
	static const char *const pairs[][2] = {
		{ "{}", "{}" },
		{ " { \"a b\" :\t[ 1 ,\n2 ] , \"c\\\" \" : null } ",
		  "{\"a b\":[1,2],\"c\\\" \":null}" },
		{ "\"  \\\\\" ", "\"  \\\\\"" },
		{ "[ \"a long string with blanks, beyond a block\" , \"\" ]",
		  "[\"a long string with blanks, beyond a block\",\"\"]" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		char bytes[128];
		size_t len = json_compact(span_str(pairs[i][0]), bytes);
		assert_true(span_eq(span_of(bytes, len), span_str(pairs[i][1])));
	}
	assert_int_equal(json_compact(SPAN_EMPTY, NULL), 0);
}

static void test_members_are_those_of_the_object_itself(void **state)
{
	static const char text[] = " { \"a\\\"}\" : {\"x\":[\"}\",{}]} , \"b\":1,\"\":[ ] } ";
	static const char *const names[] = { "a\\\"}", "b", "" };
	static const char *const values[] = { "{\"x\":[\"}\",{}]}", "1", "[ ]" };
	struct span rest = span_str(text), name, value;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_true(json_member_next(&rest, &name, &value));
		assert_true(span_eq(name, span_str(names[i])));
		assert_true(span_eq(value, span_str(values[i])));
	}
	assert_false(json_member_next(&rest, &name, &value));
	rest = SPAN("{}");
	assert_false(json_member_next(&rest, &name, &value));
}

static size_t compact_slowly(struct span text, char *bytes)
{
	size_t len = 0;
	bool inside = false;
	bool escaped = false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (inside || (unsigned char)c > ' ')
			bytes[len++] = c;
		if (c == '"' && !escaped)
			inside = !inside;
		escaped = inside && c == '\\' && !escaped;
	}
	return len;
}

/* Strings of quotes, backslashes and blanks, of every length and at every place. */
static void compact_texts_are_those_of_a_slow_copy(void **state)
{
	static const char *const pieces[] = { "\\\"", "\\\\", " ", "a", "\xc3\xa9", "}" };
	static const char *const gaps[] = { "", " ", "\n      ", "\t\r\n" };
	uint64_t seed = test_seed();
	uint64_t random = seed;
	(void)state;
	for (uint64_t round = test_scale(20000); round > 0; round--) {
		char memory[512];
		char expected[sizeof(memory)];
		struct buf text = buf_on(memory, sizeof(memory));
		buf_append_span(&text, SPAN("["));
		for (uint64_t n = test_random_below(&random, 8); n > 0; n--) {
			buf_append_span(&text, span_str(gaps[test_random_below(&random, 4)]));
			buf_append_span(&text, SPAN("\""));
			for (uint64_t i = test_random_below(&random, 24); i > 0; i--)
				buf_append_span(&text,
				                span_str(pieces[test_random_below(&random, 6)]));
			buf_append_span(&text, SPAN("\","));
		}
		buf_append_span(&text, SPAN("0 ]"));
		size_t len = compact_slowly(buf_span(&text), expected);
		char *bytes = mem_alloc(text.len);
		assert_non_null(bytes);
		bool same = span_eq(span_of(bytes, json_compact(buf_span(&text), bytes)),
		                    span_of(expected, len));
		mem_free(bytes);
		if (!same)
			fail_msg("%.*s (%s)", (int)text.len, text.ptr, test_note_seed(seed));
	}
}

static void judge_suite_file(const char *name, struct span bytes)
{
	struct json_doc doc;
	assert_non_null(bytes.ptr);
	int error = json_scan(bytes, NULL, &doc);
	if ((name[0] == 'y' && error != 0) || (name[0] == 'n' && error == 0))
		fail_msg("%s: %s", name, error ? doc.problem.expected : "accepted");
	assert_as_model(bytes, 0);
}

static void the_json_test_suite_is_judged_right(void **state)
{
	(void)state;
	unsigned count = vectors_each("json/test_parsing", judge_suite_file);
	if (count == 0) {
		print_message("skipped: no json/test_parsing among the vectors\n");
		skip();
	}
	assert_true(count > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_are_those_of_the_object_itself),
		cmocka_unit_test(valid_texts_are_accepted),
		cmocka_unit_test(invalid_texts_are_refused_at_the_right_byte),
		cmocka_unit_test(nul_bytes_are_refused_everywhere),
		cmocka_unit_test(wanted_members_are_found_with_type_and_text),
		cmocka_unit_test(only_members_of_the_top_level_object_count),
		cmocka_unit_test(an_escaped_name_is_the_same_name),
		cmocka_unit_test(a_repeated_wanted_name_is_refused_in_any_spelling),
		cmocka_unit_test(escapes_are_told_of_the_string_that_has_them),
		cmocka_unit_test(nesting_ends_at_the_limit),
		cmocka_unit_test(mixed_nesting_is_closed_in_order),
		cmocka_unit_test(special_bytes_are_seen_at_every_place_of_a_block),
		cmocka_unit_test(all_sequences_of_three_bytes_are_judged_as_utf8),
		cmocka_unit_test(every_beginning_of_a_text_is_refused_without_reading_on),
		cmocka_unit_test(mutated_texts_are_judged_as_by_the_model),
		cmocka_unit_test(strings_decode_to_their_value),
		cmocka_unit_test(decoding_what_was_not_scanned_is_an_error),
		cmocka_unit_test(values_inside_of_containers_are_found),
		cmocka_unit_test(a_name_twice_on_the_way_to_a_wanted_value_is_refused),
		cmocka_unit_test(elements_of_an_array_are_scanned_one_by_one),
		cmocka_unit_test(a_broken_array_is_refused_where_it_breaks),
		cmocka_unit_test(a_repeated_name_spoils_its_own_element_alone),
		cmocka_unit_test(what_lies_across_two_chunks_is_seen),
		cmocka_unit_test(compact_texts_have_no_blanks_between_tokens),
		cmocka_unit_test(compact_texts_are_those_of_a_slow_copy),
		cmocka_unit_test(the_json_test_suite_is_judged_right),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
