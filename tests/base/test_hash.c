/* hash: the digests and checksums that are written to disk never change. */
#include "support/test.h"

#include <string.h>

#include "base/hash.h"

/* From the reference implementation: key 00 … 0f, input 00 01 02 … */
static void siphash_is_the_published_one(void **state)
{
	(void)state;
	static const unsigned char empty[16] = { 0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
		                                 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93 };
	static const unsigned char one[16] = { 0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
		                               0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45 };
	unsigned char key[HASH_KEY_LEN];
	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)i;
	uint64_t words[2];
	hash_keyed128(key, "", 0, words);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(words[i / 8] >> (8 * (i % 8)) & 0xff, empty[i]);
	hash_keyed128(key, "\0", 1, words);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(words[i / 8] >> (8 * (i % 8)) & 0xff, one[i]);
}

static void digest_depends_on_key_and_every_byte(void **state)
{
	(void)state;
	unsigned char key[HASH_KEY_LEN] = { 1 };
	unsigned char input[40] = { 0 };
	uint64_t first[2], other[2];
	hash_keyed128(key, input, sizeof(input), first);
	for (size_t i = 0; i < sizeof(input); i++) {
		input[i] ^= 0x80;
		hash_keyed128(key, input, sizeof(input), other);
		assert_memory_not_equal(first, other, sizeof(first));
		input[i] ^= 0x80;
	}
	hash_keyed128(key, input, sizeof(input) - 1, other);
	assert_memory_not_equal(first, other, sizeof(first));
	key[15] ^= 1;
	hash_keyed128(key, input, sizeof(input), other);
	assert_memory_not_equal(first, other, sizeof(first));
}

/* Values of XXH3_64bits_withSeed(), fixed here because journals hold them. */
static void checksum_of_kept_bytes_never_changes(void **state)
{
	(void)state;
	assert_true(hash_checksum64("", 0, 0) == UINT64_C(0x2d06800538d394c2));
	unsigned char bytes[5000];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7);
	static const struct {
		size_t len;
		uint64_t checksum;
	} rows[] = {
		{ 1, UINT64_C(0x5cf10f10bf2dd245) },    { 16, UINT64_C(0x93b3fa7dc2d7c0df) },
		{ 100, UINT64_C(0x618671bc27428ac8) },  { 240, UINT64_C(0x1a71cf2c4bb35242) },
		{ 241, UINT64_C(0x30aa8f89cc1dfbfc) },  { 1024, UINT64_C(0xcc74b39577454978) },
		{ 5000, UINT64_C(0x55cdb888cfde72a1) },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(hash_checksum64(bytes, rows[i].len, 42) == rows[i].checksum);
}

static void checksum_sees_every_flipped_bit(void **state)
{
	(void)state;
	unsigned char bytes[300] = { 0 };
	uint64_t good = hash_checksum64(bytes, sizeof(bytes), 1);
	for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1u << (bit % 8));
		assert_true(hash_checksum64(bytes, sizeof(bytes), 1) != good);
		bytes[bit / 8] ^= (unsigned char)(1u << (bit % 8));
	}
	assert_true(hash_checksum64(bytes, sizeof(bytes), 2) != good);
}

static void random_bytes_fill_the_whole_buffer(void **state)
{
	(void)state;
	unsigned char all[64] = { 0 };
	for (unsigned round = 0; round < 64; round++) {
		unsigned char bytes[64];
		assert_int_equal(hash_random(bytes, sizeof(bytes)), 0);
		for (size_t i = 0; i < sizeof(bytes); i++)
			all[i] |= bytes[i];
	}
	for (size_t i = 0; i < sizeof(all); i++)
		assert_int_equal(all[i], 0xff);
	assert_int_equal(hash_random(NULL, 0), 0);
}

static void secret_hashes_depend_on_key_purpose_and_bytes(void **state)
{
	unsigned char key[HASH_KEY_LEN] = { 1 };
	static unsigned char bytes[1000];
	struct hash_secret secret, other;
	(void)state;
	hash_secret_init(&secret, key, "content");
	uint64_t first = hash_secret64(&secret, bytes, sizeof(bytes));
	hash_secret_init(&other, key, "content");
	assert_int_equal(hash_secret64(&other, bytes, sizeof(bytes)), first);
	hash_secret_init(&other, key, "other");
	assert_int_not_equal(hash_secret64(&other, bytes, sizeof(bytes)), first);
	key[0] = 2;
	hash_secret_init(&other, key, "content");
	assert_int_not_equal(hash_secret64(&other, bytes, sizeof(bytes)), first);
	bytes[999] = 1;
	assert_int_not_equal(hash_secret64(&secret, bytes, sizeof(bytes)), first);
	assert_int_not_equal(hash_secret64(&secret, bytes, 999), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_is_the_published_one),
		cmocka_unit_test(digest_depends_on_key_and_every_byte),
		cmocka_unit_test(checksum_of_kept_bytes_never_changes),
		cmocka_unit_test(checksum_sees_every_flipped_bit),
		cmocka_unit_test(random_bytes_fill_the_whole_buffer),
		cmocka_unit_test(secret_hashes_depend_on_key_purpose_and_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
