/*
 * fuzz_auth: no request, however written, breaks a check or gets a signature
 * accepted that does not cover its body.
 *
 * The first byte picks a kind (or base64, a network, a URL), the rest is a
 * request: the head up to its empty line, then the body.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "door/auth/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}
#define SECRET(text) .secret_count = 1, .secrets = { TEXT(text) }
#define NOW_S 1614265330

/* The secrets are those of tests/door/test_auth_signature.c, as is the corpus. */
static const struct auth_spec specs[] = {
	{ .kind = AUTH_HEADER,
	  .header = TEXT("X-Api-Key"),
	  SECRET("correct-horse-battery-staple") },
	{ .kind = AUTH_BASIC, .user = TEXT("crm"), SECRET("correct-horse-battery-staple") },
	{ .kind = AUTH_BEARER, SECRET("correct-horse-battery-staple") },
	{ .kind = AUTH_GITHUB, SECRET("It's a Secret to Everybody") },
	{ .kind = AUTH_GENESYS, SECRET("open-messaging-test-secret") },
	{ .kind = AUTH_STRIPE, .tolerance_s = 200000000, SECRET("whsec_test_secret_0123456789") },
	{ .kind = AUTH_STANDARD_WEBHOOKS,
	  .secret_count = 2,
	  .secrets = { TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
	               TEXT("whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=") } },
	{ .kind = AUTH_HMAC,
	  .header = TEXT("X-Slack-Signature"),
	  .prefix = TEXT("v0="),
	  .signed_count = 4,
	  .signed_parts = { TEXT("const:v0:"), TEXT("header:X-Slack-Request-Timestamp"),
	                    TEXT("const::"), TEXT("body") },
	  .timestamp = TEXT("header:X-Slack-Request-Timestamp"),
	  .tolerance_s = 200000000,
	  SECRET("8f742231b10e8888abcd99yyyzzz85a5") },
	{ .kind = AUTH_TWILIO, .public_url = TEXT("https://mycompany.com"), SECRET("12345") },
	{ .kind = AUTH_TWILIO, SECRET("12345") },
};

static struct auth *auths[ARRAY_LEN(specs)];

static bool covers_body(enum auth_kind kind)
{
	return kind >= AUTH_STANDARD_WEBHOOKS && kind != AUTH_TWILIO;
}

static enum auth_result check(const struct auth *auth, const struct http1_head *head,
                              struct span body)
{
	static const struct http_peer peer = { .tls = true };
	struct error_text why = { { 0 } };
	struct auth_request request = { head, body, &peer, NOW_S };
	enum auth_result result = auth_check(auth, &request, &why);
	CHECK((result == AUTH_OK) == (why.text[0] == '\0'));
	CHECK(result != AUTH_NO_MEMORY && result != AUTH_NETWORK);
	return result;
}

static void check_request(size_t n, struct span input)
{
	static const struct http1_limits limits = { 16384, HTTP1_HEADERS_MAX };
	struct http1_scan scan = { 0 };
	struct http1_refusal refusal;
	struct http1_head head;
	size_t len;
	if (http1_scan_head(&scan, input, &limits, &len, &refusal) != HTTP1_DONE ||
	    http1_parse_head(span_of(input.ptr + scan.start, len - scan.start), &limits, &head,
	                     &refusal) != HTTP1_DONE)
		return;
	struct span body = span_skip(input, len);
	if (!auths[n])
		CHECK(auth_new(&specs[n], &auths[n], NULL) == 0);
	if (check(auths[n], &head, body) != AUTH_OK || !covers_body(specs[n].kind) || body.len == 0)
		return;
	char *other = malloc(body.len);
	CHECK(other);
	memcpy(other, body.ptr, body.len);
	other[body.len / 2] ^= 1;
	CHECK(check(auths[n], &head, span_of(other, body.len)) == AUTH_WRONG);
	free(other);
}

/* What is accepted is what its value is written as. */
static void check_base64(struct span text)
{
	size_t len;
	unsigned char *bytes = malloc(text.len + 1);
	struct buf again = { .len = 0 };
	CHECK(bytes);
	if (base64_decode(text, bytes, text.len, &len) == 0) {
		CHECK(BASE64_LEN(len) == text.len);
		base64_append(&again, span_of(bytes, len));
		CHECK(span_eq(buf_span(&again), text));
	}
	free(bytes);
	buf_free(&again);
}

static void check_network(struct span text)
{
	struct ip_network network, again;
	char address[IP_TEXT_MAX];
	if (ip_network_parse(text, &network, NULL))
		return;
	CHECK(ip_network_has(&network, &network.address));
	ip_format(&network.address, address);
	CHECK(ip_network_parse(span_str(address), &again, NULL) == 0);
	CHECK(memcmp(&again.address, &network.address, sizeof(again.address)) == 0);
}

static void check_url(struct span text)
{
	struct auth_spec spec = specs[8];
	struct auth *auth;
	spec.public_url = text;
	if (auth_new(&spec, &auth, NULL) == 0)
		auth_free(auth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t n = data[0] % (ARRAY_LEN(specs) + 3);
	struct span input = span_of(data + 1, size - 1);
	if (n < ARRAY_LEN(specs))
		check_request(n, input);
	else if (n == ARRAY_LEN(specs))
		check_base64(input);
	else if (n == ARRAY_LEN(specs) + 1)
		check_network(input);
	else
		check_url(input);
	return 0;
}
