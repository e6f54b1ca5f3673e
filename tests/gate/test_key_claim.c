/* Which keys are the same, and which tokens are ours. */
#include "gate/key_claim.h"

#include "gate/ticket.h"
#include "support/test.h"

static const unsigned char key[DIGEST_KEY_LEN] = "0123456789abcde";
static struct key_claim_scratch scratch;

static struct json_value value_of(const char *text)
{
	struct json_value value = { .text = span_str(text) };
	struct json_doc doc;

	if (!text)
		return value;
	assert_int_equal(json_scan(value.text, NULL, &doc), 0);
	value.type = doc.root;
	if (value.type == JSON_STRING) {
		value.text = span_of(text + 1, value.text.len - 2);
		value.escaped = memchr(text, '\\', value.text.len) != NULL;
	}
	return value;
}

static int digest(const char *scope, const char *of, const char *payload, struct digest *ret_digest)
{
	struct key_claim claim = { .scope = span_str(scope),
		                   .key = value_of(of),
		                   .payload = value_of(payload) };
	struct error_text problem = { "" };

	int r = key_claim_digest(&claim, key, &scratch, ret_digest, &problem);
	assert_true(r == 0 || problem.text[0]);
	return r;
}

static bool same(const char *a, const char *b)
{
	struct digest first, second;

	assert_int_equal(digest("", a, NULL, &first), 0);
	assert_int_equal(digest("", b, NULL, &second), 0);
	return digest_same_key(&first, &second);
}

static void test_keys_are_compared_by_type_and_value(void **state)
{
	(void)state;
	assert_true(same("\"a\"", "[\"a\"]"));
	assert_true(same("\"a\"", "\"\\u0061\""));
	assert_true(same("[1]", "1.0"));
	assert_false(same("1", "\"1\""));
	assert_false(same("[\"a\",\"b\"]", "[\"ab\"]"));
	assert_false(same("[\"a\",\"b\"]", "[\"b\",\"a\"]"));
	assert_false(same("9007199254740993", "9007199254740992"));
}

static void test_a_scope_keeps_keys_apart(void **state)
{
	struct digest none, claims, other;

	(void)state;
	assert_int_equal(digest("", "\"a\"", NULL, &none), 0);
	assert_int_equal(digest("claims", "\"a\"", NULL, &claims), 0);
	assert_int_equal(digest("other", "\"a\"", NULL, &other), 0);
	assert_true(digest_same_key(&none, &claims));
	assert_false(digest_same_key(&none, &other));
	char wide[DIGEST_SOURCE_MAX + 2] = { 0 };
	memset(wide, 'x', DIGEST_SOURCE_MAX + 1);
	assert_int_equal(digest(wide, "\"a\"", NULL, &other), ERR_TOO_LARGE);
}

static void test_what_is_no_key_is_refused(void **state)
{
	static const char *const bad[] = { "\"\"",
		                           "null",
		                           "[]",
		                           "[null]",
		                           "[\"a\",\"\"]",
		                           "[1,2,3,4,5,6,7,8,9,10,11]",
		                           "[{\"a\":1,\"a\":2}]" };
	struct digest found;
	char wide[DIGEST_PART_MAX + 4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(digest("", bad[i], NULL, &found) < 0);
	assert_true(digest("", NULL, NULL, &found) < 0);
	memset(wide, 'x', sizeof(wide));
	wide[0] = wide[sizeof(wide) - 2] = '"';
	wide[sizeof(wide) - 1] = 0;
	assert_int_equal(digest("", wide, NULL, &found), ERR_TOO_LARGE);
}

static void test_a_payload_is_known_by_its_value(void **state)
{
	struct digest none, first, second, third;

	(void)state;
	assert_int_equal(digest("", "1", NULL, &none), 0);
	assert_int_equal(digest("", "1", "{\"a\":1,\"b\":\"x\"}", &first), 0);
	assert_int_equal(digest("", "1", "{ \"b\":\"x\", \"a\": 1.0 }", &second), 0);
	assert_int_equal(digest("", "1", "{\"a\":2,\"b\":\"x\"}", &third), 0);
	assert_int_equal(digest_check(&none), 0);
	assert_true(digest_check(&first) != 0);
	assert_int_equal(digest_check(&first), digest_check(&second));
	assert_true(digest_check(&first) != digest_check(&third));
	assert_true(digest_same_key(&first, &third) && digest_same_key(&first, &none));
}

static void test_a_token_is_read_as_it_was_written_and_no_other_is(void **state)
{
	const struct lease_token token = { UINT64_C(0x123456789abcde), 65535, 0xfedcba98 };
	struct lease_token_key ours, theirs;
	struct lease_token found;
	char text[LEASE_TOKEN_LEN];
	static const unsigned char other[DIGEST_KEY_LEN] = "0123456789abcdf";

	(void)state;
	lease_token_key_init(&ours, key);
	lease_token_key_init(&theirs, other);
	lease_token_write(&ours, &token, text);
	assert_int_equal(lease_token_read(&ours, span_of(text, sizeof(text)), &found), 0);
	assert_true(found.ticket == token.ticket && found.attempt == token.attempt &&
	            found.expiry_s == token.expiry_s);
	assert_int_equal(lease_token_read(&theirs, span_of(text, sizeof(text)), &found),
	                 ERR_INVALID);
	for (size_t i = 0; i < sizeof(text); i++) {
		char kept = text[i];
		text[i] = kept == '0' ? '1' : '0';
		assert_int_equal(lease_token_read(&ours, span_of(text, sizeof(text)), &found),
		                 ERR_INVALID);
		text[i] = kept;
		assert_int_equal(lease_token_read(&ours, span_of(text, i), &found), ERR_INVALID);
	}
	text[3] = 'g';
	assert_int_equal(lease_token_read(&ours, span_of(text, sizeof(text)), &found), ERR_INVALID);
}

/* In a cluster a settle is one write only if its outcome is in the shard of its ticket. */
static void test_an_outcome_is_kept_at_the_place_of_its_ticket(void **state)
{
	struct digest first = key_claim_answer(1, key), next = key_claim_answer(2, key);

	(void)state;
	assert_false(digest_same_key(&first, &next));
	for (uint64_t ticket = 1; ticket < UINT64_C(1) << TICKET_BITS; ticket = 3 * ticket + 16) {
		struct digest answer = key_claim_answer(ticket, key);
		assert_int_equal(digest_place(&answer), ticket_place(ticket));
		assert_int_equal(digest_check(&answer), 0);
	}
	assert_true(ticket_place(16) != ticket_place(32));
	assert_true(ticket_place(UINT64_MAX) < DIGEST_PLACES);
}

static int end(void **state)
{
	(void)state;
	key_claim_scratch_free(&scratch);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_are_compared_by_type_and_value),
		cmocka_unit_test(test_a_scope_keeps_keys_apart),
		cmocka_unit_test(test_what_is_no_key_is_refused),
		cmocka_unit_test(test_a_payload_is_known_by_its_value),
		cmocka_unit_test(test_an_outcome_is_kept_at_the_place_of_its_ticket),
		cmocka_unit_test(test_a_token_is_read_as_it_was_written_and_no_other_is),
	};

	return cmocka_run_group_tests(tests, NULL, end);
}
