/* format: sizes, seals and parsing of what the local store writes. */
#include <string.h>

#include "base/error.h"
#include "store/local/journal/format.h"
#include "store/local/journal/journal.h"
#include "support/test.h"

static void test_a_one_claim_event_without_payload_takes_48_bytes(void **state)
{
	(void)state;
	struct store_admit admit = { .claim_count = 1, .no_ticket = true };

	assert_int_equal(frame_event_size(&admit, 1), 48);
}

static void test_a_flipped_bit_in_a_sealed_header_is_found(void **state)
{
	(void)state;
	struct superblock_slot slot = { .generation = 7, .oldest = 3 };
	struct segment_header segment = { .number = 9, .epoch = 5 };
	struct claims_header claims = { .number = 9, .record_count = 12 };

	superblock_slot_seal(&slot);
	segment_header_seal(&segment);
	claims_header_seal(&claims);
	assert_int_equal(superblock_slot_check(&slot), 0);
	assert_int_equal(segment_header_check(&segment), 0);
	assert_int_equal(claims_header_check(&claims), 0);
	for (size_t bit = 0; bit < 8 * sizeof(slot); bit++) {
		((unsigned char *)&slot)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(superblock_slot_check(&slot) < 0);
		((unsigned char *)&slot)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * sizeof(segment); bit++) {
		((unsigned char *)&segment)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(segment_header_check(&segment) < 0);
		((unsigned char *)&segment)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * sizeof(claims); bit++) {
		((unsigned char *)&claims)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(claims_header_check(&claims) < 0);
		((unsigned char *)&claims)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
}

static void test_a_newer_version_is_told_from_damage(void **state)
{
	(void)state;
	struct superblock_slot slot = { .generation = 1 };

	superblock_slot_seal(&slot);
	assert_int_equal(slot.version, FORMAT_VERSION);
	slot.flags = SUPERBLOCK_CELLS;
	superblock_slot_seal(&slot);
	assert_int_equal(slot.version, FORMAT_VERSION_CELLS);
	assert_int_equal(superblock_slot_check(&slot), 0);
	slot.version = FORMAT_VERSION_CELLS + 1;
	slot.check = format_checksum(&slot, offsetof(struct superblock_slot, check), 0);
	assert_int_equal(superblock_slot_check(&slot), ERR_VERSION);
}

static void test_names_are_read_back_and_nothing_else_is(void **state)
{
	(void)state;
	char name[FORMAT_NAME_MAX];
	uint64_t number = 0;

	format_name(name, 0xabc, FILE_KIND_SEGMENT);
	assert_string_equal(name, "0000000000000abc.seg");
	assert_int_equal(format_name_parse(name, &number), FILE_KIND_SEGMENT);
	assert_int_equal(number, 0xabc);
	format_name(name, 1, FILE_KIND_CLAIMS);
	assert_int_equal(format_name_parse(name, &number), FILE_KIND_CLAIMS);
	assert_int_equal(format_name_parse("spare.seg", &number), FILE_KIND_LEFTOVER);
	assert_int_equal(format_name_parse("superblock.tmp", &number), FILE_KIND_LEFTOVER);
	assert_int_equal(format_name_parse("0000000000000ABC.seg", &number), FILE_KIND_OTHER);
	assert_int_equal(format_name_parse("0000000000000000.seg", &number), FILE_KIND_OTHER);
	assert_int_equal(format_name_parse("0000000000000001.log", &number), FILE_KIND_OTHER);
	assert_int_equal(format_name_parse("", &number), FILE_KIND_OTHER);
}

static void test_an_entity_is_the_same_in_segment_and_claims_file(void **state)
{
	(void)state;
	uint64_t random = test_seed();

	for (int i = 0; i < 1000; i++) {
		struct entry_newest entry = { .size = sizeof(entry),
			                      .kind = ENTRY_NEWEST,
			                      .ticket = 1 + test_random_below(&random, 1ull << 54),
			                      .digest = { { test_random(&random),
			                                    test_random(&random) >> 32 << 32 } },
			                      .order = test_random(&random),
			                      .window_s = 1 + (uint32_t)test_random(&random) };
		struct claims_record record = claims_record_of_newest(&entry);
		struct entry_newest again = entry_newest_of_record(&record);
		assert_int_equal(record.flags >> WINDOW_BITS, 0);
		assert_true(again.window_s >= entry.window_s);
		assert_int_equal(window_encode(again.window_s), window_encode(entry.window_s));
		again.window_s = entry.window_s;
		assert_memory_equal(&again, &entry, sizeof(entry));
	}
}

/* Whatever the bytes are, parsing stays inside them. */
static void test_parsing_random_entries_never_leaves_the_body(void **state)
{
	(void)state;
	uint64_t random = test_seed(), rounds = test_scale(200000);

	for (uint64_t n = 0; n < rounds; n++) {
		unsigned char body[256];
		uint32_t len = (uint32_t)test_random_below(&random, sizeof(body) + 1), at = 0;
		for (size_t i = 0; i < sizeof(body); i += 8) {
			uint64_t word = test_random(&random);
			memcpy(body + i, &word, 8);
		}
		for (size_t i = 0; i < sizeof(body); i += 32) { /* often nearly right */
			uint32_t size = (uint32_t)test_random_below(&random, 64);
			memcpy(body + i, &size, sizeof(size));
			body[i + 4] = (unsigned char)test_random_below(&random, 5);
			body[i + 5] &= 7;
		}
		struct entry entry;
		while (entry_next(body, len, &at, &entry) > 0) {
			assert_true(entry.offset + entry.size <= len);
			if (entry.kind != ENTRY_EVENT)
				continue;
			assert_true(entry.payload.ptr + entry.payload.len <=
			            (const char *)body + entry.offset + entry.size);
			assert_true(entry.source.ptr + entry.source.len <= entry.payload.ptr);
		}
	}
}

static void test_the_longest_window_is_never_understated(void **state)
{
	(void)state;
	uint64_t random = test_seed();

	for (int i = 0; i < 100000; i++) {
		uint64_t longest = test_random(&random) >> (32 + test_random_below(&random, 32));
		uint64_t own = longest ? test_random_below(&random, longest) : 0;
		uint32_t flags = window_flags(longest, own);
		assert_true(flags <= 31);
		assert_int_equal(flags & 1, 0);
		if (longest > own)
			assert_true(flags > 0 &&
			            (flags == 30 || (UINT64_C(4) << flags) >= longest));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_one_claim_event_without_payload_takes_48_bytes),
		cmocka_unit_test(test_a_flipped_bit_in_a_sealed_header_is_found),
		cmocka_unit_test(test_a_newer_version_is_told_from_damage),
		cmocka_unit_test(test_names_are_read_back_and_nothing_else_is),
		cmocka_unit_test(test_an_entity_is_the_same_in_segment_and_claims_file),
		cmocka_unit_test(test_parsing_random_entries_never_leaves_the_body),
		cmocka_unit_test(test_the_longest_window_is_never_understated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
