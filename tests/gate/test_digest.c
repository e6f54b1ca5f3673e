/* digest: different things never share their bytes, and the bytes never change. */
#include "support/test.h"

#include <string.h>

#include "base/error.h"
#include "codec/json_number.h"
#include "gate/digest.h"

static const unsigned char key[DIGEST_KEY_LEN] = { 0, 1, 2,  3,  4,  5,  6,  7,
	                                           8, 9, 10, 11, 12, 13, 14, 15 };

struct part {
	enum digest_part type;
	struct span value;
};

static struct digest digest_of(const char *source, const char *rule, const struct part *parts,
                               size_t count)
{
	struct digest_scope scope;
	struct digest_input input;
	assert_int_equal(digest_scope_init(&scope, span_str(source), span_str(rule)), 0);
	digest_begin(&input, &scope);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(digest_add(&input, parts[i].type, parts[i].value), 0);
	return digest_end(&input, key);
}

static struct digest digest_of_two(const char *source, const char *rule, const char *a,
                                   const char *b)
{
	struct part parts[] = { { DIGEST_STRING, span_str(a) }, { DIGEST_STRING, span_str(b) } };
	return digest_of(source, rule, parts, 2);
}

static bool same(struct digest a, struct digest b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

static void parts_are_not_run_together(void **state)
{
	(void)state;
	struct digest digest = digest_of_two("s", "r", "12", "3");
	assert_true(same(digest, digest_of_two("s", "r", "12", "3")));
	assert_false(same(digest, digest_of_two("s", "r", "1", "23")));
	assert_false(same(digest, digest_of_two("s", "r", "", "123")));
	assert_false(same(digest, digest_of_two("s", "r", "3", "12")));
	assert_false(same(digest, digest_of_two("s", "r1", "2", "3")));
}

static void source_and_rule_scope_a_digest(void **state)
{
	(void)state;
	struct digest digest = digest_of_two("ab", "c", "1", "2");
	assert_false(same(digest, digest_of_two("a", "bc", "1", "2")));
	assert_false(same(digest, digest_of_two("ab", "d", "1", "2")));
	assert_false(same(digest, digest_of_two("abc", "c", "1", "2")));
}

static void types_tell_equal_texts_apart(void **state)
{
	static const enum digest_part types[] = { DIGEST_STRING, DIGEST_NUMBER, DIGEST_LITERAL,
		                                  DIGEST_OBJECT, DIGEST_ARRAY,  DIGEST_MISSING };
	struct digest digests[ARRAY_LEN(types)];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct part part = { types[i], SPAN("1") };
		digests[i] = digest_of("s", "r", &part, 1);
		for (size_t j = 0; j < i; j++)
			assert_false(same(digests[i], digests[j]));
	}
}

static void the_number_of_parts_counts(void **state)
{
	struct part parts[] = { { DIGEST_STRING, SPAN("1") }, { DIGEST_STRING, SPAN_EMPTY } };
	(void)state;
	assert_false(same(digest_of("s", "r", parts, 1), digest_of("s", "r", parts, 2)));
	assert_false(same(digest_of("s", "r", parts, 0), digest_of("s", "r", parts, 1)));
}

/* Stores remember digests: a change here lets every remembered event through. */
static void the_format_stays_as_it_is(void **state)
{
	static const unsigned char bytes[] = { 1,   2,   'e', 'v', 9,   't', 'r', 'a', 'n', 's',
		                               'p', 'o', 'r', 't', 's', 3,   0,   0,   0,   'a',
		                               'b', 'c', 'n', 2,   0,   0,   0,   '4', '2' };
	struct digest_scope scope;
	struct digest_input input;
	(void)state;
	assert_int_equal(digest_scope_init(&scope, SPAN("ev"), SPAN("transport")), 0);
	digest_begin(&input, &scope);
	assert_int_equal(digest_add(&input, DIGEST_STRING, SPAN("abc")), 0);
	assert_int_equal(digest_add(&input, DIGEST_NUMBER, SPAN("42")), 0);
	assert_int_equal(input.len, sizeof(bytes));
	assert_memory_equal(input.bytes, bytes, sizeof(bytes));
}

/* From the reference implementation's vectors: key and input 00 01 02 …, 128 bits. */
static void the_hash_is_siphash_2_4_with_128_bits(void **state)
{
	static const unsigned char output[16] = { 0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11,
		                                  0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9 };
	struct digest_input input = { .len = 15 };
	(void)state;
	for (unsigned char i = 0; i < 15; i++)
		input.bytes[i] = i;
	struct digest digest = digest_end(&input, key);
	unsigned char bytes[16];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(digest.word[i / 8] >> (8 * (i % 8)));
	assert_memory_equal(bytes, output, sizeof(bytes));
}

static void another_key_gives_another_digest(void **state)
{
	unsigned char other[DIGEST_KEY_LEN];
	struct digest_input input = { .len = 1, .bytes = { 7 } };
	(void)state;
	memcpy(other, key, sizeof(other));
	other[15] ^= 1;
	assert_false(same(digest_end(&input, key), digest_end(&input, other)));
}

static void values_and_inputs_have_their_limits(void **state)
{
	static char value[DIGEST_PART_MAX + 1];
	struct digest_scope scope;
	struct digest_input input;
	(void)state;
	assert_int_equal(digest_scope_init(&scope, SPAN("s"), SPAN("r")), 0);
	digest_begin(&input, &scope);
	assert_int_equal(digest_add(&input, DIGEST_STRING, span_of(value, sizeof(value))),
	                 ERR_TOO_LARGE);
	int error = 0;
	for (int i = 0; i <= DIGEST_PARTS_MAX && error == 0; i++)
		error = digest_add(&input, DIGEST_STRING, span_of(value, DIGEST_PART_MAX));
	assert_int_equal(error, ERR_TOO_LARGE);
	assert_true(input.len <= DIGEST_INPUT_MAX);
}

static void names_have_their_limits(void **state)
{
	static char name[DIGEST_SOURCE_MAX + 1];
	struct digest_scope scope;
	(void)state;
	assert_int_equal(digest_scope_init(&scope, span_of(name, DIGEST_SOURCE_MAX),
	                                   span_of(name, DIGEST_RULE_MAX)),
	                 0);
	assert_int_equal(scope.len, DIGEST_SCOPE_MAX);
	assert_int_equal(digest_scope_init(&scope, span_of(name, sizeof(name)), SPAN("r")),
	                 ERR_TOO_LARGE);
	assert_int_equal(digest_scope_init(&scope, SPAN("s"), span_of(name, DIGEST_RULE_MAX + 1)),
	                 ERR_TOO_LARGE);
	assert_int_equal(digest_scope_init(&scope, SPAN_EMPTY, SPAN("r")), ERR_INVALID);
	assert_int_equal(digest_scope_init(&scope, SPAN("s"), SPAN_EMPTY), ERR_INVALID);
}

/* As whoever adds a number does: its exact form is made in the input's own room. */
static struct digest digest_of_number(const char *number, const struct digest_scope *scope)
{
	static struct digest_input input;
	struct span text;
	digest_begin(&input, scope);
	assert_int_equal(json_number_exact(span_str(number), digest_room(&input), DIGEST_PART_MAX,
	                                   &text),
	                 0);
	assert_int_equal(digest_add(&input, DIGEST_NUMBER, text), 0);
	return digest_end(&input, key);
}

static void every_digit_of_a_long_number_counts(void **state)
{
	struct digest_scope scope;
	char number[] = "1234567890123456789012345678901234567890.25";
	(void)state;
	assert_int_equal(digest_scope_init(&scope, SPAN("source"), SPAN("rule")), 0);
	struct digest first = digest_of_number(number, &scope);
	for (size_t i = 0; number[i]; i++) {
		char digit = number[i];
		if (digit == '.')
			continue;
		number[i] = digit == '7' ? '8' : '7';
		struct digest other = digest_of_number(number, &scope);
		assert_memory_not_equal(&other, &first, sizeof(first));
		number[i] = digit;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_not_run_together),
		cmocka_unit_test(source_and_rule_scope_a_digest),
		cmocka_unit_test(types_tell_equal_texts_apart),
		cmocka_unit_test(the_number_of_parts_counts),
		cmocka_unit_test(the_format_stays_as_it_is),
		cmocka_unit_test(the_hash_is_siphash_2_4_with_128_bits),
		cmocka_unit_test(another_key_gives_another_digest),
		cmocka_unit_test(values_and_inputs_have_their_limits),
		cmocka_unit_test(names_have_their_limits),
		cmocka_unit_test(every_digit_of_a_long_number_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
