/* What goes with an event comes back as it was written, and nothing else does. */
#include "gate/letter.h"

#include "base/error.h"
#include "support/test.h"

static struct letter read_back(const struct letter *letter, struct buf *bytes)
{
	struct letter back;

	buf_clear(bytes);
	letter_write(letter, bytes);
	assert_false(bytes->failed);
	assert_true(bytes->len <= LETTER_BYTES_MAX);
	assert_int_equal(letter_read(buf_span(bytes), &back), 0);
	return back;
}

static void texts_come_back(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct letter letter = { .texts = { [LETTER_ID] = SPAN("e-1"),
		                            [LETTER_CONTENT_TYPE] = SPAN("text/xml"),
		                            [LETTER_REPLAY_OF] = SPAN("0abc") } };
	struct letter back = read_back(&letter, &bytes);
	for (int i = 0; i < LETTER_FIELD_COUNT; i++)
		assert_true(span_eq(letter.texts[i], back.texts[i]));
	buf_free(&bytes);
}

static void long_texts_are_cut_on_a_character(void **state)
{
	(void)state;
	char text[LETTER_TEXT_MAX + 8];
	struct buf bytes = { 0 };
	memset(text, 'a', sizeof(text));
	memcpy(text + LETTER_TEXT_MAX - 1, "\xe2\x82\xac", 3);
	struct letter letter = { .texts = { [LETTER_TYPE] = span_of(text, sizeof(text)) } };
	struct letter back = read_back(&letter, &bytes);
	assert_int_equal(back.texts[LETTER_TYPE].len, LETTER_TEXT_MAX - 1);
	buf_free(&bytes);
}

static void all_fields_at_their_longest_stay_within_the_limit(void **state)
{
	(void)state;
	char text[LETTER_TEXT_MAX];
	struct buf bytes = { 0 };
	struct letter letter;
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < LETTER_FIELD_COUNT; i++)
		letter.texts[i] = span_of(text, sizeof(text));
	struct letter back = read_back(&letter, &bytes);
	assert_int_equal(back.texts[LETTER_ID].len, LETTER_TEXT_MAX);
	buf_free(&bytes);
}

/* Every cut and every changed byte is refused or read inside its bounds. */
static void damaged_bytes_are_never_read_past(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct letter letter = { .texts = {
					 [LETTER_ID] = SPAN("e-1"), [LETTER_TIME] = SPAN("now") } };
	struct letter back;
	letter_write(&letter, &bytes);
	for (size_t len = 1; len < bytes.len; len++)
		if (len != 6)
			assert_int_equal(letter_read(span_of(bytes.ptr, len), &back), ERR_DAMAGED);
	for (size_t at = 0; at < bytes.len; at++)
		for (int bit = 0; bit < 8; bit++) {
			bytes.ptr[at] ^= (char)(1 << bit);
			if (letter_read(buf_span(&bytes), &back) == 0)
				for (int i = 0; i < LETTER_FIELD_COUNT; i++)
					assert_true(back.texts[i].len <= bytes.len);
			bytes.ptr[at] ^= (char)(1 << bit);
		}
	buf_free(&bytes);
}

static void an_unknown_field_is_skipped(void **state)
{
	(void)state;
	struct letter back;
	struct span bytes = SPAN("\x00\x01\x00"
	                         "a"
	                         "\xf0\x01\x00"
	                         "b");
	assert_int_equal(letter_read(bytes, &back), 0);
	assert_true(span_eq(back.texts[LETTER_ID], SPAN("a")));
}

static void fields_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < LETTER_FIELD_COUNT; i++)
		assert_int_equal(letter_field_parse(
					 span_str(letter_field_name((enum letter_field)i))),
		                 i);
	assert_int_equal(letter_field_parse(SPAN("nothing")), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_come_back),
		cmocka_unit_test(long_texts_are_cut_on_a_character),
		cmocka_unit_test(all_fields_at_their_longest_stay_within_the_limit),
		cmocka_unit_test(damaged_bytes_are_never_read_past),
		cmocka_unit_test(an_unknown_field_is_skipped),
		cmocka_unit_test(fields_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
