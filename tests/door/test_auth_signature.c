/*
 * auth: signatures. Published examples where there are any, else codes made with
 * another implementation (Python's hmac and cryptography).
 */
#include "base/base64.h"
#include "base/hex.h"
#include "door/auth_kit.h"
#include "support/vectors.h"

static struct auth_kit kit;

/* One rightly signed request, and how to find the signature in its lines. */
struct example {
	const char *name;
	struct auth_spec spec;
	const char *target, *lines, *body;
	const char *signature; /* within lines */
	uint64_t now_s;
	bool hex;
};

#define STANDARD_HEAD \
	"webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\nwebhook-timestamp: 1614265330\r\n"
#define SLACK_BODY                                                                             \
	"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=" \
	"G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command="        \
	"%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"    \
	"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015."         \
	"47445629121.803a0bc887a14d10d2c447fce8b6703c"
#define TWILIO_BODY                                                                   \
	"CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212" \
	"&Caller=%2B14158675309"
#define TWILIO_DIGEST "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"

#define SECRET(text) .secret_count = 1, .secrets = { { text, sizeof(text) - 1 } }
#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

static const struct example examples[] = {
	/* GitHub's documentation. */
	{ "github",
	  { .kind = AUTH_GITHUB, SECRET("It's a Secret to Everybody") },
	  "/in/github",
	  "X-Hub-Signature-256: "
	  "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\r\n",
	  "Hello, World!",
	  "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
	  0,
	  true },
	{ "genesys",
	  { .kind = AUTH_GENESYS, SECRET("open-messaging-test-secret") },
	  "/in/genesys",
	  "X-Hub-Signature-256: sha256=gb4Ywsi64oQ54p4kONmQGuMrtzCvhuZgEaPajbwbYDQ=\r\n",
	  "{\"id\":\"7b1c0f0e-0000-4000-8000-000000000001\",\"channel\":{\"id\":\"int-1\",\"platform\":"
	  "\"Open\",\"type\":\"Private\",\"messageId\":\"m-1\",\"to\":{\"id\":\"user@example.com\"},"
	  "\"from\":{\"id\":\"int-1\"},\"time\":\"2026-01-02T03:04:05.678Z\"},\"type\":\"Text\","
	  "\"text\":\"hello\",\"direction\":\"Outbound\"}",
	  "gb4Ywsi64oQ54p4kONmQGuMrtzCvhuZgEaPajbwbYDQ=",
	  0,
	  false },
	{ "shopify",
	  { .kind = AUTH_SHOPIFY, SECRET("hush-hush-hush-hush") },
	  "/in/shopify",
	  "X-Shopify-Hmac-Sha256: aDPQjbkrpNlMdy9Xpgse3eKgANQc2Yx/Najj029WpLU=\r\n",
	  "{\"id\":820982911946154508}",
	  "aDPQjbkrpNlMdy9Xpgse3eKgANQc2Yx/Najj029WpLU=",
	  0,
	  false },
	{ "stripe",
	  { .kind = AUTH_STRIPE, SECRET("whsec_test_secret_0123456789") },
	  "/in/stripe",
	  "Stripe-Signature: t=1492774577,"
	  "v1=05dea5368b7a2eb7d01ad772fef7f5a9e41d63a5596307b0a72fd5b87e31cfae\r\n",
	  "{\"id\":\"evt_1\",\"object\":\"event\"}",
	  "05dea5368b7a2eb7d01ad772fef7f5a9e41d63a5596307b0a72fd5b87e31cfae",
	  1492774577,
	  true },
	/* From the tests of Standard Webhooks. */
	{ "standard webhooks",
	  { .kind = AUTH_STANDARD_WEBHOOKS, SECRET("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") },
	  "/in/standard",
	  STANDARD_HEAD "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n",
	  "{\"test\": 2432232314}",
	  "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	  1614265330,
	  false },
	{ "standard webhooks, ed25519",
	  { .kind = AUTH_STANDARD_WEBHOOKS,
	    SECRET("whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=") },
	  "/in/standard",
	  STANDARD_HEAD "webhook-signature: v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVC"
	                "ZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ==\r\n",
	  "{\"test\": 2432232314}",
	  "yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ==",
	  1614265330,
	  false },
	/* Slack's documentation: the generic kind with parts and a time stamp. */
	{ "slack",
	  { .kind = AUTH_HMAC,
	    .header = TEXT("X-Slack-Signature"),
	    .prefix = TEXT("v0="),
	    .signed_count = 4,
	    .signed_parts = { TEXT("const:v0:"), TEXT("header:X-Slack-Request-Timestamp"),
	                      TEXT("const::"), TEXT("body") },
	    .timestamp = TEXT("header:x-slack-request-timestamp"),
	    SECRET("8f742231b10e8888abcd99yyyzzz85a5") },
	  "/in/slack",
	  "X-Slack-Request-Timestamp: 1531420618\r\n"
	  "X-Slack-Signature: v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503\r\n",
	  SLACK_BODY,
	  "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
	  1531420618,
	  true },
	{ "method, path, url and body with SHA-512",
	  { .kind = AUTH_HMAC,
	    .header = TEXT("X-Signature"),
	    .algorithm = AUTH_SHA512,
	    .encoding = AUTH_BASE64,
	    .signed_count = 4,
	    .signed_parts = { TEXT("method"), TEXT("path"), TEXT("url"), TEXT("body") },
	    .public_url = TEXT("https://hooks.example.com:8443/pre/"),
	    SECRET("0123456789abcdef") },
	  "/in/x?a=1",
	  "X-Signature: LmP0xgxDcYbFRMLj2d+q6nSt0OJVhhNvaV+BDzMbUPwKSxKzxKKrpvQa+lSEya4HxVav3l0HJurZ"
	  "PkV6LHcMZA==\r\n",
	  "{}",
	  "LmP0xgxDcYbFRMLj2d+q6nSt0OJVhhNvaV+BDzMbUPwKSxKzxKKrpvQa+lSEya4HxVav3l0HJurZPkV6LHcMZA==",
	  0,
	  false },
	/* From the tests of Twilio's own library. */
	{ "twilio form",
	  { .kind = AUTH_TWILIO, .public_url = TEXT("https://mycompany.com"), SECRET("12345") },
	  "/myapp.php?foo=1&bar=2",
	  FORM "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=\r\n",
	  TWILIO_BODY,
	  "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
	  0,
	  false },
	{ "twilio json",
	  { .kind = AUTH_TWILIO, .public_url = TEXT("https://mycompany.com"), SECRET("12345") },
	  "/myapp.php?foo=1&bar=2&bodySHA256=" TWILIO_DIGEST,
	  "Content-Type: application/json\r\nX-Twilio-Signature: a9nBmqA0ju/hNViExpshrM61xv4=\r\n",
	  "{\"property\": \"value\", \"boolean\": true}",
	  "a9nBmqA0ju/hNViExpshrM61xv4=",
	  0,
	  false },
};

static enum auth_result check(const struct auth *auth, const struct example *example,
                              const char *lines, struct span body)
{
	auth_kit_request(&kit, example->target, lines, body);
	kit.request.now_s = example->now_s;
	enum auth_result result = auth_kit_check(&kit, auth);
	assert_null(strstr(kit.why.text, example->signature));
	assert_null(strstr(kit.why.text, example->spec.secrets[0].ptr));
	return result;
}

static void expect(const struct auth *auth, const struct example *example, const char *lines,
                   enum auth_result expected)
{
	enum auth_result result = check(auth, example, lines, span_str(example->body));
	if (result != expected)
		fail_msg("%s: %s, expected %s (%s)\n%s", example->name, auth_result_name(result),
		         auth_result_name(expected), kit.why.text, lines);
}

/* The lines of an example with another signature. */
static const char *with(const struct example *example, const char *signature, size_t len)
{
	static char lines[2048];
	const char *at = strstr(example->lines, example->signature);
	assert_non_null(at);
	int written = snprintf(lines, sizeof(lines), "%.*s%.*s%s", (int)(at - example->lines),
	                       example->lines, (int)len, signature,
	                       at + strlen(example->signature));
	assert_true(written > 0 && (size_t)written < sizeof(lines));
	return lines;
}

#define EACH_EXAMPLE                              \
	const struct example *example = examples; \
	example < examples + ARRAY_LEN(examples); \
	example++

static void what_is_rightly_signed_is_let_in(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		expect(auth, example, example->lines, AUTH_OK);
		auth_free(auth);
	}
}

static void without_its_header_nothing_is_let_in(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		expect(auth, example, "", AUTH_MISSING);
		auth_free(auth);
	}
}

/* As bytes, so that each bit counts whatever the encoding. */
static void every_flipped_bit_of_a_signature_is_refused(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		unsigned char bytes[64];
		size_t len = strlen(example->signature) / 2;
		struct span text = span_str(example->signature);
		if (example->hex)
			assert_true(hex_decode(text, bytes, sizeof(bytes)));
		else
			assert_int_equal(base64_decode(text, bytes, sizeof(bytes), &len), 0);
		for (size_t bit = 0; bit < len * 8; bit++) {
			char flipped[129];
			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			if (example->hex)
				for (size_t i = 0; i < len; i++)
					snprintf(flipped + 2 * i, 3, "%02x", bytes[i]);
			struct buf encoded = buf_on(flipped, sizeof(flipped));
			if (!example->hex)
				base64_append(&encoded, span_of(bytes, len));
			expect(auth, example, with(example, flipped, text.len), AUTH_WRONG);
			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		auth_free(auth);
	}
}

static void every_cut_of_a_signature_is_refused(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		size_t len = strlen(example->signature);
		for (size_t cut = 0; cut < len; cut++)
			expect(auth, example, with(example, example->signature, cut), AUTH_WRONG);
		for (size_t cut = 1; cut < len; cut++)
			expect(auth, example, with(example, example->signature + cut, len - cut),
			       AUTH_WRONG);
		auth_free(auth);
	}
}

static void every_changed_byte_of_a_body_is_refused(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		size_t len = strlen(example->body);
		char body[1024];
		memcpy(body, example->body, len);
		for (size_t i = 0; i < len; i++) {
			body[i] = (char)(body[i] ^ 4);
			assert_int_equal(check(auth, example, example->lines, span_of(body, len)),
			                 AUTH_WRONG);
			body[i] = example->body[i];
			/* What a form says twice or not at all is the same form. */
			if (example->spec.kind != AUTH_TWILIO)
				assert_int_equal(check(auth, example, example->lines,
				                       span_of(body, i)),
				                 AUTH_WRONG);
		}
		auth_free(auth);
	}
}

static void a_repeated_signature_header_is_refused(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		struct auth *auth = auth_kit_make(&example->spec);
		char lines[2048];
		snprintf(lines, sizeof(lines), "%s%s", example->lines, example->lines);
		expect(auth, example, lines, AUTH_WRONG);
		auth_free(auth);
	}
}

static void every_place_in_the_list_of_secrets_works(void **state)
{
	(void)state;
	for (EACH_EXAMPLE)
		for (uint32_t place = 0; place < AUTH_SECRETS_MAX; place++) {
			static const char *const others[] = {
				"a wrong secret, long enough",
				"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
			};
			bool standard = example->spec.kind == AUTH_STANDARD_WEBHOOKS;
			struct auth_spec spec = example->spec;
			spec.secret_count = AUTH_SECRETS_MAX;
			for (uint32_t i = 0; i < AUTH_SECRETS_MAX; i++)
				spec.secrets[i] = i == place ? example->spec.secrets[0]
				                             : span_str(others[standard]);
			struct auth *auth = auth_kit_make(&spec);
			expect(auth, example, example->lines, AUTH_OK);
			auth_free(auth);
			spec.secrets[place] = span_str(others[standard]);
			auth = auth_kit_make(&spec);
			expect(auth, example, example->lines, AUTH_WRONG);
			auth_free(auth);
		}
}

static void time_stamps_hold_for_five_minutes_either_way(void **state)
{
	(void)state;
	for (EACH_EXAMPLE) {
		if (example->now_s == 0)
			continue;
		struct auth *auth = auth_kit_make(&example->spec);
		struct example moved = *example;
		static const struct {
			int64_t by_s;
			enum auth_result expected;
		} cases[] = { { -300, AUTH_OK },   { 300, AUTH_OK },      { -301, AUTH_STALE },
			      { 301, AUTH_STALE }, { 86400, AUTH_STALE }, { -86400, AUTH_STALE } };
		for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
			moved.now_s = example->now_s + (uint64_t)cases[i].by_s;
			expect(auth, &moved, example->lines, cases[i].expected);
		}
		moved.now_s = 0;
		expect(auth, &moved, example->lines, AUTH_STALE);
		moved.now_s = UINT64_MAX;
		expect(auth, &moved, example->lines, AUTH_STALE);
		/* Wrong and stale is wrong: the time is nobody's word. */
		expect(auth, &moved, with(example, "x", 1), AUTH_WRONG);
		auth_free(auth);
	}
}

static void the_tolerance_can_be_set(void **state)
{
	(void)state;
	struct example stripe = examples[3];
	stripe.spec.tolerance_s = 10;
	struct auth *auth = auth_kit_make(&stripe.spec);
	stripe.now_s += 10;
	expect(auth, &stripe, stripe.lines, AUTH_OK);
	stripe.now_s += 1;
	expect(auth, &stripe, stripe.lines, AUTH_STALE);
	assert_string_equal(kit.why.text, "the signed time stamp is 11 s old, 10 s are allowed");
	auth_free(auth);
}

#define RIGHT "v1=05dea5368b7a2eb7d01ad772fef7f5a9e41d63a5596307b0a72fd5b87e31cfae"
#define OTHER "v1=03f22521f8d40954c618f0fe7420bdb825a1bfc6cf0355202705f6c63d813c58"

static void stripe_may_send_several_signatures(void **state)
{
	(void)state;
	const struct example *stripe = &examples[3];
	struct auth *auth = auth_kit_make(&stripe->spec);
	expect(auth, stripe, "Stripe-Signature: t=1492774577," OTHER "," RIGHT "\r\n", AUTH_OK);
	expect(auth, stripe, "Stripe-Signature: " RIGHT "," OTHER ",v0=x,t=1492774577\r\n",
	       AUTH_OK);
	expect(auth, stripe, "Stripe-Signature: t=1492774577," OTHER "\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: t=1492774577,v1=\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: t=1492774577\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: " RIGHT "\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: t=,t=1492774577," RIGHT "\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: t=1492774577,t=1," RIGHT "\r\n", AUTH_WRONG);
	expect(auth, stripe, "Stripe-Signature: t=1," RIGHT "\r\n", AUTH_WRONG);
	expect(auth, stripe,
	       "Stripe-Signature: t=1492774577," OTHER "," OTHER "," OTHER "," OTHER "," OTHER
	       "," OTHER "," OTHER "," RIGHT "\r\n",
	       AUTH_OK);
	expect(auth, stripe,
	       "Stripe-Signature: t=1492774577," OTHER "," OTHER "," OTHER "," OTHER "," OTHER
	       "," OTHER "," OTHER "," OTHER "," RIGHT "\r\n",
	       AUTH_WRONG);
	auth_free(auth);
}

#define V1 "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define V1A \
	"v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ=="
#define NO "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

static void standard_webhooks_may_send_several_signatures(void **state)
{
	(void)state;
	const struct example *hmac = &examples[4], *ed25519 = &examples[5];
	struct auth *shared = auth_kit_make(&hmac->spec), *public = auth_kit_make(&ed25519->spec);
	expect(shared, hmac, STANDARD_HEAD "webhook-signature: " NO " " V1 " v2,x\r\n", AUTH_OK);
	expect(shared, hmac, STANDARD_HEAD "webhook-signature: " V1A " " V1 "\r\n", AUTH_OK);
	expect(shared, hmac, STANDARD_HEAD "webhook-signature: " V1A "\r\n", AUTH_WRONG);
	expect(shared, hmac, STANDARD_HEAD "webhook-signature: " NO "\r\n", AUTH_WRONG);
	expect(shared, hmac, STANDARD_HEAD "webhook-signature: v1,\r\n", AUTH_WRONG);
	expect(public, ed25519, STANDARD_HEAD "webhook-signature: " V1 " " V1A "\r\n", AUTH_OK);
	expect(public, ed25519, STANDARD_HEAD "webhook-signature: " V1 "\r\n", AUTH_WRONG);
	expect(shared, hmac, "webhook-timestamp: 1614265330\r\nwebhook-signature: " V1 "\r\n",
	       AUTH_MISSING);
	expect(shared, hmac, "webhook-id: a\r\nwebhook-signature: " V1 "\r\n", AUTH_MISSING);
	expect(shared, hmac, STANDARD_HEAD "webhook-id: other\r\nwebhook-signature: " V1 "\r\n",
	       AUTH_WRONG);
	auth_free(public);
	struct auth_spec both = hmac->spec;
	both.secret_count = 2;
	both.secrets[1] = ed25519->spec.secrets[0];
	public = auth_kit_make(&both);
	expect(public, hmac, hmac->lines, AUTH_OK);
	expect(public, ed25519, ed25519->lines, AUTH_OK);
	expect(public, hmac, STANDARD_HEAD "webhook-signature: " NO "\r\n", AUTH_WRONG);
	auth_free(public);
	auth_free(shared);
}

#define SVIX_HEAD "svix-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\nsvix-timestamp: 1614265330\r\n"

static void the_names_of_svix_count_where_the_standard_ones_are_missing_all(void **state)
{
	(void)state;
	const struct example *hmac = &examples[4], *ed25519 = &examples[5];
	struct auth *shared = auth_kit_make(&hmac->spec), *public = auth_kit_make(&ed25519->spec);
	expect(shared, hmac, SVIX_HEAD "svix-signature: " V1 "\r\n", AUTH_OK);
	expect(public, ed25519, SVIX_HEAD "Svix-Signature: " V1A "\r\n", AUTH_OK);
	expect(shared, hmac, SVIX_HEAD "svix-signature: " NO "\r\n", AUTH_WRONG);
	assert_non_null(strstr(kit.why.text, "svix-signature"));
	expect(shared, hmac, SVIX_HEAD, AUTH_MISSING);
	expect(shared, hmac, "svix-id: a\r\nsvix-signature: " V1 "\r\n", AUTH_MISSING);
	expect(shared, hmac, SVIX_HEAD SVIX_HEAD "svix-signature: " V1 "\r\n", AUTH_WRONG);
	/* Never of both: an id that nobody signed would stand for the one that is. */
	expect(shared, hmac, SVIX_HEAD "webhook-signature: " V1 "\r\n", AUTH_MISSING);
	expect(shared, hmac, STANDARD_HEAD "svix-signature: " V1 "\r\n", AUTH_MISSING);
	expect(shared, hmac, SVIX_HEAD "svix-signature: " V1 "\r\nwebhook-id: other\r\n",
	       AUTH_MISSING);
	expect(shared, hmac,
	       SVIX_HEAD "svix-signature: " V1 "\r\n" STANDARD_HEAD "webhook-signature: " NO "\r\n",
	       AUTH_WRONG);
	/* What comes beside a whole set changes nothing. */
	expect(shared, hmac, "svix-id: other\r\n" STANDARD_HEAD "webhook-signature: " V1 "\r\n",
	       AUTH_OK);
	auth_free(public);
	auth_free(shared);
}

#define NO_A                                                                                     \
	"v1a,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" \
	"AAAA=="

/* The right key is the last of five, so a signature in place n is fitted by try 5 n. */
static void only_ten_tries_of_public_keys_are_made_for_a_request(void **state)
{
	(void)state;
	const struct example *ed25519 = &examples[5];
	struct auth_spec spec = ed25519->spec;
	spec.secret_count = AUTH_SECRETS_MAX;
	spec.secrets[AUTH_SECRETS_MAX - 1] = ed25519->spec.secrets[0];
	for (uint32_t i = 0; i < AUTH_SECRETS_MAX - 1; i++)
		spec.secrets[i] = SPAN("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
	struct auth *auth = auth_kit_make(&spec);
	expect(auth, ed25519, STANDARD_HEAD "webhook-signature: " V1A "\r\n", AUTH_OK);
	expect(auth, ed25519, STANDARD_HEAD "webhook-signature: " NO_A " " V1A "\r\n", AUTH_OK);
	expect(auth, ed25519, STANDARD_HEAD "webhook-signature: " NO_A " " NO_A " " V1A "\r\n",
	       AUTH_WRONG);
	auth_free(auth);
	/* With one key there is room for all signatures that a header may hold. */
	auth = auth_kit_make(&ed25519->spec);
	expect(auth, ed25519,
	       STANDARD_HEAD "webhook-signature: " NO_A " " NO_A " " NO_A " " NO_A " " NO_A " " NO_A
	                     " " NO_A " " V1A "\r\n",
	       AUTH_OK);
	auth_free(auth);
}

/* The dot between the signed parts moved into the id: the same bytes are signed. */
static void an_id_with_a_dot_cannot_move_the_parts(void **state)
{
	(void)state;
	struct example moved = examples[4];
	struct auth *auth = auth_kit_make(&moved.spec);
	/* Signed: a.b.1614265330.{} */
	static const char *const lines =
		"webhook-id: a.b\r\nwebhook-timestamp: 1614265330\r\n"
		"webhook-signature: v1,bra4TsB1Kk1IPmOaZnV/6xo+Wf/luGy4LxFG9W9QwZc=\r\n";
	moved.body = "{}";
	expect(auth, &moved, lines, AUTH_WRONG);
	assert_string_equal(kit.why.text, "header webhook-id holds a dot");
	auth_free(auth);
}

static void no_memory_for_a_public_key_check_is_told(void **state)
{
	(void)state;
	const struct example *ed25519 = &examples[5];
	struct auth *auth = auth_kit_make(&ed25519->spec);
	auth_kit_request(&kit, ed25519->target, ed25519->lines, span_str(ed25519->body));
	kit.request.now_s = ed25519->now_s;
	mem_fail_at(1, false);
	assert_int_equal(auth_check(auth, &kit.request, NULL), AUTH_NO_MEMORY);
	mem_fail_at(0, false);
	auth_free(auth);
}

static void signed_headers_must_be_there_once(void **state)
{
	(void)state;
	const struct example *slack = &examples[6];
	struct auth *auth = auth_kit_make(&slack->spec);
	char lines[1024];
	expect(auth, slack, strstr(slack->lines, "X-Slack-Signature"), AUTH_MISSING);
	snprintf(lines, sizeof(lines), "%sX-Slack-Request-Timestamp: 1\r\n", slack->lines);
	expect(auth, slack, lines, AUTH_WRONG);
	auth_free(auth);
}

static void a_prefix_must_be_there(void **state)
{
	(void)state;
	const struct example *github = &examples[0];
	struct auth *auth = auth_kit_make(&github->spec);
	char lines[256];
	static const char *const prefixes[] = { "", "sha1=", "SHA256=", "sha256==", "sha256= " };
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		snprintf(lines, sizeof(lines), "X-Hub-Signature-256: %s%s\r\n", prefixes[i],
		         github->signature);
		expect(auth, github, lines, AUTH_WRONG);
	}
	auth_free(auth);
}

/* The values of Twilio's own tests. */
static void twilio_signs_the_url_with_or_without_its_port(void **state)
{
	(void)state;
	static const struct {
		const char *url, *signature;
	} cases[] = {
		{ "https://mycompany.com:1234", "RSOYDt4T1cUTdK1PDd93/VVr8B8=" },
		{ "http://mycompany.com:1234", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=" },
		{ "https://mycompany.com", "kvajT1Ptam85bY51eRf/AJRuM3w=" },
		{ "https://mycompany.com/", "kvajT1Ptam85bY51eRf/AJRuM3w=" },
		{ "https://mycompany.com/myapp.php", "kvajT1Ptam85bY51eRf/AJRuM3w=" },
		{ "http://mycompany.com", "0ZXoZLH/DfblKGATFgpif+LLRf4=" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct example twilio = examples[8];
		twilio.spec.public_url = span_str(cases[i].url);
		struct auth *auth = auth_kit_make(&twilio.spec);
		expect(auth, &twilio, with(&twilio, cases[i].signature, 28), AUTH_OK);
		auth_free(auth);
	}
}

static void twilio_without_a_public_url_asks_the_host_header(void **state)
{
	(void)state;
	struct example twilio = examples[8];
	twilio.spec.public_url = SPAN_EMPTY;
	struct auth *auth = auth_kit_make(&twilio.spec);
	char lines[512];
	snprintf(lines, sizeof(lines), "Host: mycompany.com\r\n%s", twilio.lines);
	auth_kit_request(&kit, twilio.target, lines, span_str(twilio.body));
	kit.peer.tls = true;
	assert_int_equal(auth_kit_check(&kit, auth), AUTH_OK);
	expect(auth, &twilio, lines, AUTH_WRONG); /* http */
	assert_non_null(strstr(kit.why.text, "there is no public_url"));
	snprintf(lines, sizeof(lines), "Host: other.com\r\n%s", twilio.lines);
	auth_kit_request(&kit, twilio.target, lines, span_str(twilio.body));
	kit.peer.tls = true;
	assert_int_equal(auth_kit_check(&kit, auth), AUTH_WRONG);
	auth_free(auth);
}

static void twilio_sorts_parameters_and_takes_equal_ones_once(void **state)
{
	(void)state;
	struct example twilio = examples[8];
	struct auth *auth = auth_kit_make(&twilio.spec);
	static const char *const right[] = {
		"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
		"Digits=1234&Digits=5678&&SidAccount=AC123&Sid=CA123&",
		"Digits=5678&Sid=%43A123&Digits=%31234&SidAccount=AC123",
	};
	static const char *const wrong[] = {
		"Sid=CA123&SidAccount=AC123&Digits=5678",
		"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&More=",
		"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=12%34",
		"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&%zz",
		"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=+1234",
	};
	const char *lines = with(&twilio, "IK+Dwps556ElfBT0I3Rgjkr1wJU=", 28);
	for (size_t i = 0; i < ARRAY_LEN(right); i++) {
		twilio.body = right[i];
		expect(auth, &twilio, lines, AUTH_OK);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		twilio.body = wrong[i];
		expect(auth, &twilio, lines, AUTH_WRONG);
	}
	auth_free(auth);
}

static void twilio_leaves_no_body_uncovered(void **state)
{
	(void)state;
	struct example form = examples[8], json = examples[9];
	struct auth *auth = auth_kit_make(&form.spec);
	/* Signed over the URL alone. */
	const char *lines = "Content-Type: application/json\r\n"
			    "X-Twilio-Signature: zYQTYrRWXE7LtzbG4PfP7/bkkGo=\r\n";
	form.body = "{}";
	expect(auth, &form, lines, AUTH_WRONG);
	assert_non_null(strstr(kit.why.text, "no bodySHA256"));
	form.body = "";
	expect(auth, &form, lines, AUTH_OK);
	/* As a form it is not what the URL says either. */
	json.body = TWILIO_BODY;
	expect(auth, &json, FORM "X-Twilio-Signature: a9nBmqA0ju/hNViExpshrM61xv4=\r\n",
	       AUTH_WRONG);
	json.body = "";
	expect(auth, &json, json.lines, AUTH_WRONG);
	auth_free(auth);
}

static void twilio_bounds_what_it_sorts(void **state)
{
	(void)state;
	struct auth *auth = auth_kit_make(&examples[8].spec);
	char *body = mem_alloc(4096);
	assert_non_null(body);
	for (size_t i = 0; i < 4096; i++)
		body[i] = i % 2 ? '&' : (char)('a' + i % 23);
	assert_int_equal(check(auth, &examples[8], examples[8].lines, span_of(body, 4096)),
	                 AUTH_WRONG);
	assert_non_null(strstr(kit.why.text, "at most 1024 parameters"));
	mem_fail_at(1, false);
	assert_int_equal(auth_check(auth, &kit.request, NULL), AUTH_NO_MEMORY);
	mem_fail_at(0, false);
	mem_free(body);
	auth_free(auth);
}

/* The member of a flat JSON object, without escapes but \". */
static struct span member(struct span file, const char *name, char *bytes, size_t room)
{
	char key[64];
	size_t len = (size_t)snprintf(key, sizeof(key), "\"%s\": \"", name), out = 0;
	const char *at = memmem(file.ptr, file.len, key, len);
	assert_non_null(at);
	for (at += len; *at != '"'; at++) {
		at += *at == '\\';
		assert_true(out < room);
		bytes[out++] = *at;
	}
	return span_of(bytes, out);
}

static void check_vector(const char *file, enum auth_kind kind, const char *const *headers,
                         uint64_t now_s)
{
	char path[VECTORS_PATH_MAX], secret[128], body[1024], lines[1024] = "", value[256];
	vectors_path(file, path);
	struct span bytes = vectors_read(path);
	if (!bytes.ptr)
		skip();
	struct auth_spec spec = { .kind = kind, .secret_count = 1 };
	spec.secrets[0] = member(bytes, "secret", secret, sizeof(secret));
	for (size_t at = 0; *headers; headers++) {
		struct span text = member(bytes, *headers, value, sizeof(value));
		at += (size_t)snprintf(lines + at, sizeof(lines) - at, "%s: %.*s\r\n", *headers,
		                       (int)text.len, text.ptr);
	}
	struct auth *auth = auth_kit_make(&spec);
	auth_kit_request(&kit, "/", lines, member(bytes, "body", body, sizeof(body)));
	kit.request.now_s = now_s;
	assert_int_equal(auth_kit_check(&kit, auth), AUTH_OK);
	auth_free(auth);
	mem_free((void *)(uintptr_t)bytes.ptr);
}

static void vectors_of_the_platforms_are_let_in(void **state)
{
	(void)state;
	static const char *const genesys[] = { "X-Hub-Signature-256", NULL };
	static const char *const standard[] = { "webhook-id", "webhook-timestamp",
		                                "webhook-signature", NULL };
	check_vector("genesys/open_messaging_signature_SYNTHETIC.json", AUTH_GENESYS, genesys, 0);
	check_vector("standard-webhooks/sign_kat.json", AUTH_STANDARD_WEBHOOKS, standard,
	             1614265330);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_rightly_signed_is_let_in),
		cmocka_unit_test(without_its_header_nothing_is_let_in),
		cmocka_unit_test(every_flipped_bit_of_a_signature_is_refused),
		cmocka_unit_test(every_cut_of_a_signature_is_refused),
		cmocka_unit_test(every_changed_byte_of_a_body_is_refused),
		cmocka_unit_test(a_repeated_signature_header_is_refused),
		cmocka_unit_test(every_place_in_the_list_of_secrets_works),
		cmocka_unit_test(time_stamps_hold_for_five_minutes_either_way),
		cmocka_unit_test(the_tolerance_can_be_set),
		cmocka_unit_test(stripe_may_send_several_signatures),
		cmocka_unit_test(standard_webhooks_may_send_several_signatures),
		cmocka_unit_test(the_names_of_svix_count_where_the_standard_ones_are_missing_all),
		cmocka_unit_test(only_ten_tries_of_public_keys_are_made_for_a_request),
		cmocka_unit_test(an_id_with_a_dot_cannot_move_the_parts),
		cmocka_unit_test(no_memory_for_a_public_key_check_is_told),
		cmocka_unit_test(signed_headers_must_be_there_once),
		cmocka_unit_test(a_prefix_must_be_there),
		cmocka_unit_test(twilio_signs_the_url_with_or_without_its_port),
		cmocka_unit_test(twilio_without_a_public_url_asks_the_host_header),
		cmocka_unit_test(twilio_sorts_parameters_and_takes_equal_ones_once),
		cmocka_unit_test(twilio_leaves_no_body_uncovered),
		cmocka_unit_test(twilio_bounds_what_it_sorts),
		cmocka_unit_test(vectors_of_the_platforms_are_let_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
