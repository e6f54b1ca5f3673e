/* auth: keys in headers, certificates, networks, and what may be said. */
#include "door/auth_kit.h"

#define KEY "correct-horse-battery-staple"
#define OLD "an-older-key-of-this-source"

static struct auth_kit kit;

static struct auth_spec two_secrets(enum auth_kind kind)
{
	return (struct auth_spec){
		.kind = kind,
		.header = SPAN("X-Api-Key"),
		.user = SPAN("crm"),
		.secret_count = 2,
		.secrets = { SPAN(OLD), SPAN(KEY) },
	};
}

static void expect(const struct auth *auth, const char *lines, enum auth_result expected)
{
	auth_kit_request(&kit, "/in/events", lines, SPAN("{}"));
	enum auth_result result = auth_kit_check(&kit, auth);
	if (result != expected)
		fail_msg("%s: %s, expected %s (%s)", lines, auth_result_name(result),
		         auth_result_name(expected), kit.why.text);
	assert_null(strstr(kit.why.text, KEY));
	assert_null(strstr(kit.why.text, OLD));
}

static void a_key_in_a_header_lets_in_and_nothing_else_does(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_HEADER);
	struct auth *auth = auth_kit_make(&spec);
	expect(auth, "X-Api-Key: " KEY "\r\n", AUTH_OK);
	expect(auth, "x-api-key:  " OLD " \r\n", AUTH_OK);
	expect(auth, "", AUTH_MISSING);
	expect(auth, "X-Api-Key:\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Key: " KEY "x\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Key: x" KEY "\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Key: " KEY OLD "\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Key: " KEY ", " KEY "\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Keys: " KEY "\r\n", AUTH_MISSING);
	expect(auth, "X-Api-Key: " KEY "\r\nX-API-KEY: " KEY "\r\n", AUTH_WRONG);
	expect(auth, "X-Api-Key: wrong\r\nX-Api-Key: " KEY "\r\n", AUTH_WRONG);
	assert_null(auth_free(auth));
}

static void every_cut_and_every_bit_of_a_key_is_refused(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_HEADER);
	struct auth *auth = auth_kit_make(&spec);
	char line[128];
	for (size_t len = 1; len < strlen(KEY); len++) {
		snprintf(line, sizeof(line), "X-Api-Key: %.*s\r\n", (int)len, KEY);
		expect(auth, line, AUTH_WRONG);
	}
	for (size_t bit = 0; bit < strlen(KEY) * 8; bit++) {
		char key[] = KEY;
		key[bit / 8] = (char)(key[bit / 8] ^ 1 << bit % 8);
		if (!http1_is_value_char(key[bit / 8]))
			continue;
		snprintf(line, sizeof(line), "X-Api-Key: %s\r\n", key);
		expect(auth, line, AUTH_WRONG);
	}
	auth_free(auth);
}

static void basic_wants_user_and_secret(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_BASIC);
	struct auth *auth = auth_kit_make(&spec);
	/* crm:correct-horse-battery-staple and crm:an-older-key-of-this-source */
	expect(auth, "Authorization: Basic Y3JtOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU=\r\n",
	       AUTH_OK);
	expect(auth, "authorization: bAsIc   Y3JtOmFuLW9sZGVyLWtleS1vZi10aGlzLXNvdXJjZQ==\r\n",
	       AUTH_OK);
	expect(auth, "", AUTH_MISSING);
	expect(auth, "Authorization: Basic\r\n", AUTH_WRONG);
	expect(auth, "Authorization: Basic Y3JtOg==\r\n", AUTH_WRONG);
	expect(auth, "Authorization: Basic Y3JtOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU\r\n",
	       AUTH_WRONG);
	expect(auth, "Authorization: Bearer Y3JtOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU=\r\n",
	       AUTH_WRONG);
	expect(auth, "Authorization: BasicY3JtOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU=\r\n",
	       AUTH_WRONG);
	/* CRM:correct-horse-battery-staple */
	expect(auth, "Authorization: Basic Q1JNOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU=\r\n",
	       AUTH_WRONG);
	assert_true(
		span_eq(auth_challenge(auth),
	                SPAN("WWW-Authenticate: Basic realm=\"stile\", charset=\"UTF-8\"\r\n")));
	auth_free(auth);
}

static void bearer_wants_its_token(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_BEARER);
	struct auth *auth = auth_kit_make(&spec);
	expect(auth, "Authorization: Bearer " KEY "\r\n", AUTH_OK);
	expect(auth, "Authorization: bearer " OLD "\r\n", AUTH_OK);
	expect(auth, "Authorization: " KEY "\r\n", AUTH_WRONG);
	expect(auth, "Authorization: Bearer\r\n", AUTH_WRONG);
	expect(auth, "Authorization: Bearer " KEY " x\r\n", AUTH_WRONG);
	expect(auth, "Authorization: Bearer\t" KEY "\r\n", AUTH_WRONG);
	expect(auth, "", AUTH_MISSING);
	assert_true(span_eq(auth_challenge(auth),
	                    SPAN("WWW-Authenticate: Bearer realm=\"stile\"\r\n")));
	auth_free(auth);
}

static void without_authentication_everybody_is_let_in(void **state)
{
	(void)state;
	struct auth_spec spec = { .kind = AUTH_NONE };
	struct auth *auth = auth_kit_make(&spec);
	expect(auth, "", AUTH_OK);
	assert_int_equal(auth_challenge(auth).len, 0);
	assert_null(auth_warning(auth));
	auth_free(auth);
}

static enum auth_result check_from(const struct auth *auth, const char *address, const char *lines)
{
	auth_kit_request(&kit, "/in/events", lines, SPAN("{}"));
	assert_int_equal(ip_parse(span_str(address), &kit.peer.address), 0);
	return auth_kit_check(&kit, auth);
}

static void networks_come_first_and_believe_no_header(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_HEADER);
	spec.network_count = 3;
	spec.networks[0] = SPAN("10.0.0.0/8");
	spec.networks[1] = SPAN("2001:db8::/32");
	spec.networks[2] = SPAN("203.0.113.9");
	struct auth *auth = auth_kit_make(&spec);
	assert_int_equal(check_from(auth, "10.1.2.3", "X-Api-Key: " KEY "\r\n"), AUTH_OK);
	assert_int_equal(check_from(auth, "::ffff:10.1.2.3", "X-Api-Key: " KEY "\r\n"), AUTH_OK);
	assert_int_equal(check_from(auth, "2001:db8::1", "X-Api-Key: " KEY "\r\n"), AUTH_OK);
	assert_int_equal(check_from(auth, "203.0.113.9", "X-Api-Key: " KEY "\r\n"), AUTH_OK);
	assert_int_equal(check_from(auth, "10.1.2.3", ""), AUTH_MISSING);
	assert_int_equal(check_from(auth, "203.0.113.8",
	                            "X-Api-Key: " KEY "\r\nX-Forwarded-For: 10.1.2.3\r\n"),
	                 AUTH_NETWORK);
	assert_non_null(strstr(kit.why.text, "203.0.113.8"));
	assert_int_equal(check_from(auth, "::1", "X-Api-Key: wrong\r\n"), AUTH_NETWORK);
	auth_free(auth);
	spec.kind = AUTH_NONE;
	auth = auth_kit_make(&spec);
	assert_int_equal(check_from(auth, "10.1.2.3", ""), AUTH_OK);
	assert_int_equal(check_from(auth, "11.1.2.3", ""), AUTH_NETWORK);
	auth_free(auth);
}

static enum auth_result check_names(const struct auth *auth, bool certified,
                                    const struct peer_name *names, uint32_t count)
{
	auth_kit_request(&kit, "/in/events", "", SPAN("{}"));
	kit.peer.tls = true;
	kit.peer.certified = certified;
	kit.peer.names = names;
	kit.peer.name_count = count;
	return auth_kit_check(&kit, auth);
}

static void a_certificate_must_have_one_of_the_names(void **state)
{
	(void)state;
	static const struct peer_name crm[] = { { { "Somebody", 8 }, false },
		                                { { "CRM.example.com", 15 }, true } };
	static const struct peer_name subject[] = { { { "crm.example.com", 15 }, false } };
	static const struct peer_name shouted[] = { { { "CRM.example.com", 15 }, false } };
	static const struct peer_name longer[] = { { { "crm.example.com.evil", 20 }, true },
		                                   { { "*.example.com", 13 }, true } };
	struct auth_spec spec = { .kind = AUTH_CERTIFICATE,
		                  .name_count = 2,
		                  .names = { SPAN("erp.example.com"), SPAN("crm.example.com") } };
	struct auth *auth = auth_kit_make(&spec);
	assert_int_equal(check_names(auth, true, crm, 2), AUTH_OK);
	assert_int_equal(check_names(auth, true, subject, 1), AUTH_OK);
	assert_int_equal(check_names(auth, true, shouted, 1), AUTH_WRONG);
	assert_int_equal(check_names(auth, true, longer, 2), AUTH_WRONG);
	assert_int_equal(check_names(auth, true, NULL, 0), AUTH_WRONG);
	assert_int_equal(check_names(auth, false, NULL, 0), AUTH_MISSING);
	auth_free(auth);
	spec.name_count = 0;
	auth = auth_kit_make(&spec);
	assert_int_equal(check_names(auth, true, NULL, 0), AUTH_OK);
	assert_int_equal(check_names(auth, false, NULL, 0), AUTH_MISSING);
	auth_free(auth);
}

static void answers_say_no_more_than_needed(void **state)
{
	(void)state;
	assert_int_equal(auth_status(AUTH_MISSING), 401);
	assert_int_equal(auth_status(AUTH_WRONG), 401);
	assert_int_equal(auth_status(AUTH_STALE), 401);
	assert_int_equal(auth_status(AUTH_NETWORK), 403);
	assert_int_equal(auth_status(AUTH_NO_MEMORY), 503);
	assert_string_equal(auth_detail(AUTH_WRONG), "authentication failed");
	assert_string_equal(auth_detail(AUTH_MISSING), "authentication is required");
	for (int i = AUTH_OK; i <= AUTH_NO_MEMORY; i++)
		assert_true(strlen(auth_result_name((enum auth_result)i)) > 0);
}

/* Specs that make no sense. */
static void refuse(const struct auth_spec *spec, const char *says)
{
	struct error_text text;
	struct auth *auth = NULL;
	assert_int_equal(auth_new(spec, &auth, &text), ERR_CONFIG);
	assert_null(auth);
	if (!strstr(text.text, says))
		fail_msg("\"%s\" does not say \"%s\"", text.text, says);
}

static void nonsense_is_refused_in_words(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_HEADER);
	spec.header = SPAN("X Api Key");
	refuse(&spec, "\"X Api Key\" is no name of a header");
	spec.header = SPAN_EMPTY;
	refuse(&spec, "no name of a header");
	spec = two_secrets(AUTH_BEARER);
	spec.secret_count = 0;
	refuse(&spec, "a secret is needed");
	spec = two_secrets(AUTH_BEARER);
	spec.secrets[1] = SPAN("");
	refuse(&spec, "secret 2 is empty");
	spec.secrets[1] = SPAN(KEY "\n");
	refuse(&spec, "secret 2 cannot be sent in a header");
	spec.secrets[1] = SPAN("with a \x01 in the middle");
	refuse(&spec, "secret 2 cannot be sent in a header");
	spec = two_secrets(AUTH_BASIC);
	spec.user = SPAN("a:b");
	refuse(&spec, "without a colon");
	spec.user = SPAN_EMPTY;
	refuse(&spec, "basic needs a user");
	spec = two_secrets(AUTH_GITHUB);
	spec.secrets[0] = SPAN("fifteen bytes..");
	refuse(&spec, "secret 1 has 15 bytes, at least 16 are needed");
	spec = two_secrets(AUTH_HEADER);
	spec.network_count = 1;
	spec.networks[0] = SPAN("10.0.0.1/8");
	refuse(&spec, "10.0.0.0/8 is the network");
	spec.networks[0] = SPAN("everywhere");
	refuse(&spec, "\"everywhere\" is no network");
	spec = (struct auth_spec){ .kind = AUTH_CERTIFICATE, .name_count = 1 };
	refuse(&spec, "certificate name 1 is empty");
}

static void nonsense_about_signatures_is_refused_in_words(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_STANDARD_WEBHOOKS);
	refuse(&spec, "secret 1 must start with whsec_");
	spec.secrets[0] = SPAN("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS");
	refuse(&spec, "secret 1 is not base64");
	spec.secrets[0] = SPAN("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaM=");
	refuse(&spec, "secret 1 must hold 24 to 64 bytes");
	spec.secrets[0] = SPAN("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
	refuse(&spec, "secret 1 must hold 32 to 32 bytes");
	spec = two_secrets(AUTH_HMAC);
	spec.signed_count = 1;
	spec.signed_parts[0] = SPAN("query");
	refuse(&spec, "\"query\" cannot be signed: expected body, header:NAME");
	spec.signed_parts[0] = SPAN("header:a b");
	refuse(&spec, "no name of a header");
	spec.signed_parts[0] = SPAN("body");
	spec.timestamp = SPAN("header:X-Time");
	refuse(&spec, "the time stamp must be one of the signed parts");
	spec = two_secrets(AUTH_TWILIO);
	static const char *const urls[] = { "hooks.example.com", "ftp://a",     "https://",
		                            "https:///a",        "https://a b", "https://u@a",
		                            "https://a/b?c",     "https://a:0", "https://a:65536" };
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		spec.public_url = span_str(urls[i]);
		refuse(&spec, "is not of the form https://HOST");
	}
}

static void assert_warning(const struct auth_spec *spec, const char *says)
{
	struct auth *auth = auth_kit_make(spec);
	const char *warning = auth_warning(auth);
	if (!says)
		assert_null(warning);
	else if (!warning || !strstr(warning, says))
		fail_msg("\"%s\" does not say \"%s\"", warning ? warning : "", says);
	auth_free(auth);
}

static void what_is_weak_is_warned_about(void **state)
{
	(void)state;
	struct auth_spec spec = two_secrets(AUTH_HEADER);
	assert_warning(&spec, NULL);
	spec.secrets[1] = SPAN("short");
	assert_warning(&spec, "secret 2 has only 5 bytes");
	spec = two_secrets(AUTH_SHOPIFY);
	spec.secrets[0] = SPAN("a secret from a file\n");
	assert_warning(&spec, "secret 1 ends in a blank or a line end");
	spec = two_secrets(AUTH_HMAC);
	spec.signed_count = 1;
	spec.signed_parts[0] = SPAN("path");
	assert_warning(&spec, "the body is not among the signed parts");
}

/* Every allocation fails once; nothing leaks (ASan) and nothing is half made. */
static void no_memory_is_told(void **state)
{
	(void)state;
	static const enum auth_kind kinds[] = { AUTH_HEADER, AUTH_BASIC, AUTH_GITHUB, AUTH_HMAC };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct auth_spec spec = two_secrets(kinds[i]);
		for (unsigned long n = 1;; n++) {
			struct error_text text;
			struct auth *auth = NULL;
			mem_fail_at(n, false);
			int error = auth_new(&spec, &auth, &text);
			bool failed = mem_fail_count() >= n;
			mem_fail_at(0, false);
			assert_int_equal(error, failed ? -ENOMEM : 0);
			assert_int_equal(auth == NULL, failed);
			auth_free(auth);
			if (!failed)
				break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_in_a_header_lets_in_and_nothing_else_does),
		cmocka_unit_test(every_cut_and_every_bit_of_a_key_is_refused),
		cmocka_unit_test(basic_wants_user_and_secret),
		cmocka_unit_test(bearer_wants_its_token),
		cmocka_unit_test(without_authentication_everybody_is_let_in),
		cmocka_unit_test(networks_come_first_and_believe_no_header),
		cmocka_unit_test(a_certificate_must_have_one_of_the_names),
		cmocka_unit_test(answers_say_no_more_than_needed),
		cmocka_unit_test(nonsense_is_refused_in_words),
		cmocka_unit_test(nonsense_about_signatures_is_refused_in_words),
		cmocka_unit_test(what_is_weak_is_warned_about),
		cmocka_unit_test(no_memory_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
