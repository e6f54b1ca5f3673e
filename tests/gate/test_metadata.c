/* What goes with an event comes back as it was written, and nothing else does. */
#include "gate/metadata.h"

#include "base/error.h"
#include "support/test.h"

static struct metadata read_back(const struct metadata *metadata, struct buf *bytes)
{
	struct metadata back;

	buf_clear(bytes);
	metadata_write(metadata, bytes);
	assert_false(bytes->failed);
	assert_true(bytes->len <= METADATA_BYTES_MAX);
	assert_int_equal(metadata_read(buf_span(bytes), &back), 0);
	return back;
}

static void texts_come_back(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct metadata metadata = { .texts = { [METADATA_ID] = SPAN("e-1"),
		                                [METADATA_CONTENT_TYPE] = SPAN("text/xml"),
		                                [METADATA_REPLAY_OF] = SPAN("0abc") } };
	struct metadata back = read_back(&metadata, &bytes);
	for (int i = 0; i < METADATA_FIELD_COUNT; i++)
		assert_true(span_eq(metadata.texts[i], back.texts[i]));
	buf_free(&bytes);
}

static void long_texts_are_cut_on_a_character(void **state)
{
	(void)state;
	char text[METADATA_TEXT_MAX + 8];
	struct buf bytes = { 0 };
	memset(text, 'a', sizeof(text));
	memcpy(text + METADATA_TEXT_MAX - 1, "\xe2\x82\xac", 3);
	struct metadata metadata = { .texts = { [METADATA_TYPE] = span_of(text, sizeof(text)) } };
	struct metadata back = read_back(&metadata, &bytes);
	assert_int_equal(back.texts[METADATA_TYPE].len, METADATA_TEXT_MAX - 1);
	buf_free(&bytes);
}

static void all_fields_at_their_longest_stay_within_the_limit(void **state)
{
	(void)state;
	char text[METADATA_TEXT_MAX];
	struct buf bytes = { 0 };
	struct metadata metadata;
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < METADATA_FIELD_COUNT; i++)
		metadata.texts[i] = span_of(text, sizeof(text));
	struct metadata back = read_back(&metadata, &bytes);
	assert_int_equal(back.texts[METADATA_ID].len, METADATA_TEXT_MAX);
	buf_free(&bytes);
}

/* Every cut and every changed byte is refused or read inside its bounds. */
static void damaged_bytes_are_never_read_past(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct metadata metadata = {
		.texts = { [METADATA_ID] = SPAN("e-1"), [METADATA_TIME] = SPAN("now") }
	};
	struct metadata back;
	metadata_write(&metadata, &bytes);
	for (size_t len = 1; len < bytes.len; len++)
		if (len != 6)
			assert_int_equal(metadata_read(span_of(bytes.ptr, len), &back),
			                 ERR_DAMAGED);
	for (size_t at = 0; at < bytes.len; at++)
		for (int bit = 0; bit < 8; bit++) {
			bytes.ptr[at] ^= (char)(1 << bit);
			if (metadata_read(buf_span(&bytes), &back) == 0)
				for (int i = 0; i < METADATA_FIELD_COUNT; i++)
					assert_true(back.texts[i].len <= bytes.len);
			bytes.ptr[at] ^= (char)(1 << bit);
		}
	buf_free(&bytes);
}

static void an_unknown_field_is_skipped(void **state)
{
	(void)state;
	struct metadata back;
	struct span bytes = SPAN("\x00\x01\x00"
	                         "a"
	                         "\xf0\x01\x00"
	                         "b");
	assert_int_equal(metadata_read(bytes, &back), 0);
	assert_true(span_eq(back.texts[METADATA_ID], SPAN("a")));
}

static void fields_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < METADATA_FIELD_COUNT; i++)
		assert_int_equal(metadata_field_parse(
					 span_str(metadata_field_name((enum metadata_field)i))),
		                 i);
	assert_int_equal(metadata_field_parse(SPAN("nothing")), -1);
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
