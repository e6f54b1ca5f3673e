/* secret, sign and hex: what authentication stands on. */
#include "support/test.h"

#include <string.h>

#include "base/hex.h"
#include "base/secret.h"

static void only_equal_bytes_are_equal(void **state)
{
	(void)state;
	char a[40], b[40];
	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = b[i] = (char)(i * 5);
	for (size_t len = 1; len <= sizeof(a); len++) {
		assert_true(secret_equal(span_of(a, len), span_of(b, len)));
		assert_false(secret_equal(span_of(a, len), span_of(b, len - 1)));
		for (size_t bit = 0; bit < len * 8; bit++) {
			b[bit / 8] = (char)(b[bit / 8] ^ 1 << bit % 8);
			assert_false(secret_equal(span_of(a, len), span_of(b, len)));
			b[bit / 8] = a[bit / 8];
		}
	}
}

static void nothing_equals_nothing(void **state)
{
	(void)state;
	assert_false(secret_equal(SPAN_EMPTY, SPAN_EMPTY));
	assert_false(secret_equal(SPAN(""), SPAN("")));
	assert_false(secret_equal(SPAN("a"), SPAN_EMPTY));
}

static void wiped_bytes_are_gone(void **state)
{
	(void)state;
	char bytes[] = "a secret";
	static const char zeros[sizeof(bytes)];
	secret_wipe(bytes, sizeof(bytes));
	assert_memory_equal(bytes, zeros, sizeof(bytes));
	secret_wipe(NULL, 0);
}

static void check_blot(const char *text, const char *secret, const char *wanted)
{
	char copy[64];
	size_t len = strlen(text);
	memcpy(copy, text, len);
	len = secret_blot(copy, len, span_str(secret), false);
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(copy, wanted, len);
}

static void blots_leave_nothing_of_a_secret_and_all_of_the_rest(void **state)
{
	(void)state;
	check_blot("key abcd is wrong", "abcd", "key *** is wrong");
	check_blot("abcdabcd and abcd", "abcd", "****** and ***");
	check_blot("a long one: 0123456789", "0123456789", "a long one: ***");
	check_blot("abc", "abcd", "abc");
	check_blot("", "abcd", "");
	check_blot("translate abc", "abc", "translate abc");
	check_blot("translate", "a", "translate");
	check_blot("translate", "", "translate");
}

static void blots_find_a_secret_in_the_spelling_of_json_and_of_urls(void **state)
{
	(void)state;
	check_blot("{\"k\":\"s3\\/c+=\\\"x\"}", "s3/c+=\"x", "{\"k\":\"***\"}");
	check_blot("a \\u0073\\u002F\\u002bx b", "s/+x", "a *** b");
	check_blot("GET /?k=s3%2Fc%2b%3D&v=1", "s3/c+=", "GET /?k=***&v=1");
	check_blot("a\\\\b and a\\\\\\\\b", "a\\\\b", "*** and ***"); /* one as it is */
	check_blot("50%41off", "50%41off", "***");
	check_blot("50%2541off", "50%41off", "***");
	check_blot("s3%2Fd%2b%3D", "s3/c+=", "s3%2Fd%2b%3D");
	check_blot("s3%2", "s3/c+=", "s3%2");
}

/* However much of it is there. */
static void blots_find_the_beginning_of_a_secret_where_a_text_was_cut(void **state)
{
	static const char *const texts[] = { "x s3/c+=", "x s3%2Fc%2B%3D", "x \\u00733\\/c+=" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		for (size_t cut = 3; cut <= strlen(texts[i]); cut++) {
			char copy[64];
			memcpy(copy, texts[i], cut);
			size_t len = secret_blot(copy, cut, SPAN("s3/c+="), true);
			assert_true(len > 2 && len <= 5);
			assert_memory_equal(copy, "x ***", len);
		}
	char whole[] = "all is well";
	assert_int_equal(secret_blot(whole, 11, SPAN("s3/c+="), true), 11);
}

static void hex_is_decoded_or_refused(void **state)
{
	(void)state;
	unsigned char bytes[4] = { 0 };
	assert_true(hex_decode(SPAN("00fFA5"), bytes, sizeof(bytes)));
	assert_memory_equal(bytes, "\x00\xff\xa5", 3);
	assert_true(hex_decode(SPAN(""), bytes, 0));
	assert_false(hex_decode(SPAN("0"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("0g"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("g0"), bytes, sizeof(bytes)));
	assert_false(hex_decode(SPAN("0011223344"), bytes, sizeof(bytes)));
}

/* RFC 8032 section 7.1, tests 1 to 3. */
static const struct {
	const char *key, *message, *signature;
} known[] = {
	{ "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
	  "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
	  "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b" },
	{ "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
	  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
	  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00" },
	{ "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
	  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
	  "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a" },
};

static void ed25519_signatures_of_the_rfc_are_right_and_no_bit_else(void **state)
{
	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(known); n++) {
		unsigned char key[SIGN_PUBLIC_LEN], signature[SIGN_SIGNATURE_LEN], message[2];
		size_t len = strlen(known[n].message) / 2;
		assert_true(hex_decode(span_str(known[n].key), key, sizeof(key)));
		assert_true(hex_decode(span_str(known[n].message), message, sizeof(message)));
		assert_true(hex_decode(span_str(known[n].signature), signature, sizeof(signature)));
		assert_true(sign_verify(key, signature, span_of(message, len)));
		for (size_t bit = 0; bit < sizeof(signature) * 8; bit++) {
			signature[bit / 8] ^= (unsigned char)(1 << bit % 8);
			assert_false(sign_verify(key, signature, span_of(message, len)));
			signature[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		assert_false(sign_verify(key, signature, SPAN("other")));
	}
}

/* With the key 0, of small order, one signature would fit many messages. */
static void a_key_that_accepts_anything_is_refused(void **state)
{
	(void)state;
	static const unsigned char zero[SIGN_PUBLIC_LEN], one[SIGN_PUBLIC_LEN] = { 1 };
	static const unsigned char none[SIGN_SIGNATURE_LEN], unit[SIGN_SIGNATURE_LEN] = { 1 };
	assert_false(sign_verify(zero, none, SPAN("x")));
	assert_false(sign_verify(one, unit, SPAN("x")));
}

/* RFC 4231, cases 1, 2 and 6 (a key longer than a block), in any number of parts. */
static void codes_are_those_of_the_rfc(void **state)
{
	static const char *const cases[][3] = {
		{ "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "Hi There",
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ "4a656665", "what do ya want for nothing?",
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned char key[64], wanted[SIGN_HMAC_LEN], code[SIGN_HMAC_LEN];
		struct span hex = span_str(cases[i][0]), text = span_str(cases[i][1]);
		struct sign_hmac_key ready;
		assert_true(hex_decode(hex, key, sizeof(key)));
		assert_true(hex_decode(span_str(cases[i][2]), wanted, sizeof(wanted)));
		sign_hmac_key_init(&ready, span_of(key, hex.len / 2));
		for (size_t cut = 0; cut <= text.len; cut++) {
			struct span parts[] = { span_of(text.ptr, cut), span_skip(text, cut) };
			sign_hmac(&ready, parts, 2, code);
			assert_memory_equal(code, wanted, sizeof(wanted));
		}
	}
	unsigned char key[131], wanted[SIGN_HMAC_LEN], code[SIGN_HMAC_LEN];
	struct span text = SPAN("Test Using Larger Than Block-Size Key - Hash Key First");
	struct sign_hmac_key ready;
	memset(key, 0xaa, sizeof(key));
	assert_true(
		hex_decode(SPAN("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
	                   wanted, sizeof(wanted)));
	sign_hmac_key_init(&ready, span_of(key, sizeof(key)));
	sign_hmac(&ready, &text, 1, code);
	assert_memory_equal(code, wanted, sizeof(wanted));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_of_the_rfc),
		cmocka_unit_test(only_equal_bytes_are_equal),
		cmocka_unit_test(nothing_equals_nothing),
		cmocka_unit_test(wiped_bytes_are_gone),
		cmocka_unit_test(blots_leave_nothing_of_a_secret_and_all_of_the_rest),
		cmocka_unit_test(blots_find_a_secret_in_the_spelling_of_json_and_of_urls),
		cmocka_unit_test(blots_find_the_beginning_of_a_secret_where_a_text_was_cut),
		cmocka_unit_test(hex_is_decoded_or_refused),
		cmocka_unit_test(ed25519_signatures_of_the_rfc_are_right_and_no_bit_else),
		cmocka_unit_test(a_key_that_accepts_anything_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
