/*
 * bench_auth: checks per second of each kind of authentication, for a body of
 * 1 KB that is rightly signed.
 *
 * Usage: bench_auth [rounds]
 * Output: `key value` lines; KIND_ns is the median of the rounds, KIND_per_s what
 *         follows from it. CPU time of the thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "door/auth/auth.h"
#include "net/tls/hmac.h"

#define BODY_LEN 1024
#define ROUNDS_MAX 101
#define CHECKS 200
#define NOW_S 1700000000
#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}
#define KEY "0123456789abcdef0123456789abcdef"
#define OLD "fedcba9876543210fedcba9876543210"

struct row {
	const char *key;
	struct auth_spec spec;
	struct span header; /* that holds the signature */
	const char *start;  /* of its value */
	const char *signed_before;
};

static const struct row rows[] = {
	{ "header",
	  { .kind = AUTH_HEADER,
	    .header = TEXT("X-Api-Key"),
	    .secret_count = 1,
	    .secrets = { TEXT(KEY) } },
	  TEXT("X-Api-Key"),
	  KEY,
	  NULL },
	{ "bearer",
	  { .kind = AUTH_BEARER, .secret_count = 1, .secrets = { TEXT(KEY) } },
	  TEXT("Authorization"),
	  "Bearer " KEY,
	  NULL },
	{ "hmac_sha256",
	  { .kind = AUTH_GITHUB, .secret_count = 1, .secrets = { TEXT(KEY) } },
	  TEXT("X-Hub-Signature-256"),
	  "sha256=",
	  "" },
	{ "hmac_sha256_2_secrets",
	  { .kind = AUTH_GITHUB, .secret_count = 2, .secrets = { TEXT(OLD), TEXT(KEY) } },
	  TEXT("X-Hub-Signature-256"),
	  "sha256=",
	  "" },
	{ "hmac_sha512",
	  { .kind = AUTH_HMAC,
	    .algorithm = AUTH_SHA512,
	    .header = TEXT("X-Sign"),
	    .secret_count = 1,
	    .secrets = { TEXT(KEY) } },
	  TEXT("X-Sign"),
	  "",
	  "" },
	{ "hmac_sha1",
	  { .kind = AUTH_HMAC,
	    .algorithm = AUTH_SHA1,
	    .header = TEXT("X-Sign"),
	    .secret_count = 1,
	    .secrets = { TEXT(KEY) } },
	  TEXT("X-Sign"),
	  "",
	  "" },
	{ "stripe",
	  { .kind = AUTH_STRIPE, .secret_count = 1, .secrets = { TEXT(KEY) } },
	  TEXT("Stripe-Signature"),
	  "t=1700000000,v1=",
	  "1700000000." },
};

static uint64_t now_ns(void)
{
	struct timespec at;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The headers of a webhook as it comes, with ours last. */
static void fill_head(struct http1_head *head, struct span name, struct span value)
{
	static const struct http1_header usual[] = {
		{ TEXT("Host"), TEXT("hooks.example.com") },
		{ TEXT("Content-Type"), TEXT("application/json") },
		{ TEXT("Content-Length"), TEXT("1024") },
		{ TEXT("User-Agent"), TEXT("Hookshot/1.0") },
		{ TEXT("Accept"), TEXT("*/*") },
	};
	head->header_count = ARRAY_LEN(usual) + 1;
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		head->headers[i] = usual[i];
	head->headers[ARRAY_LEN(usual)] = (struct http1_header){ name, value };
	head->target = head->path = SPAN("/in/events");
	head->method_text = SPAN("POST");
}

static void measure(const char *key, const struct auth *auth, const struct auth_request *request,
                    enum auth_result expected, size_t rounds)
{
	double ns[ROUNDS_MAX];
	for (size_t i = 0; i < rounds; i++) {
		uint64_t begin = now_ns();
		for (int n = 0; n < CHECKS; n++)
			CHECK(auth_check(auth, request, NULL) == expected);
		ns[i] = (double)(now_ns() - begin) / CHECKS;
	}
	qsort(ns, rounds, sizeof(ns[0]), compare);
	printf("%s_ns %.0f\n%s_per_s %.0f\n", key, ns[rounds / 2], key, 1e9 / ns[rounds / 2]);
}

static enum hmac_algorithm algorithm_of(const struct auth_spec *spec)
{
	if (spec->kind != AUTH_HMAC || spec->algorithm == AUTH_SHA256)
		return HMAC_SHA256;
	return spec->algorithm == AUTH_SHA1 ? HMAC_SHA1 : HMAC_SHA512;
}

/* The value of the header, signature and all. */
static struct span sign(const struct row *row, struct span body, char *text, size_t room)
{
	unsigned char code[HMAC_MAX];
	struct hmac_key *key;
	struct hmac hmac = { 0 };
	enum hmac_algorithm algorithm = algorithm_of(&row->spec);
	struct buf value = buf_on(text, room);
	buf_append_span(&value, span_str(row->start));
	if (row->signed_before) {
		CHECK(hmac_key_new(algorithm, SPAN(KEY), &key) == 0);
		hmac_begin(&hmac, key);
		hmac_update(&hmac, span_str(row->signed_before));
		hmac_update(&hmac, body);
		CHECK(hmac_end(&hmac, code) == 0);
		hmac_close(&hmac);
		hmac_key_free(key);
		for (size_t i = 0; i < hmac_len(algorithm); i++)
			buf_printf(&value, "%02x", code[i]);
	}
	CHECK(!value.failed);
	return buf_span(&value);
}

static void measure_row(const struct row *row, struct span body, size_t rounds)
{
	static struct http1_head head;
	static const struct http_peer peer = { .port = 1 };
	struct auth *auth;
	char value[256];
	CHECK(auth_new(&row->spec, &auth, NULL) == 0);
	fill_head(&head, row->header, sign(row, body, value, sizeof(value)));
	struct auth_request request = { &head, body, &peer, NOW_S };
	measure(row->key, auth, &request, AUTH_OK, rounds);
	auth_free(auth);
}

/* A signature cannot be made here (nothing in stile signs): what is measured is
 * the refusal, which costs the same. */
static void measure_ed25519(struct span body, size_t rounds)
{
	static struct http1_head head;
	static const struct http_peer peer = { .port = 1 };
	struct auth_spec spec = { .kind = AUTH_STANDARD_WEBHOOKS,
		                  .secret_count = 1,
		                  .secrets = { TEXT(
					  "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=") } };
	struct auth *auth;
	CHECK(auth_new(&spec, &auth, NULL) == 0);
	fill_head(
		&head, SPAN("webhook-signature"),
		SPAN("v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBG"
	             "xTFRrl2iBQxtDQ=="));
	head.headers[head.header_count++] = (struct http1_header){ SPAN("webhook-id"), SPAN("a") };
	head.headers[head.header_count++] = (struct http1_header){ SPAN("webhook-timestamp"),
		                                                   SPAN("1700000000") };
	struct auth_request request = { &head, body, &peer, NOW_S };
	measure("ed25519", auth, &request, AUTH_WRONG, rounds);
	auth_free(auth);
}

int main(int argc, char **argv)
{
	long asked = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS_MAX;
	size_t rounds = asked < 1 ? 1 : asked > ROUNDS_MAX ? ROUNDS_MAX : (size_t)asked;
	char body[BODY_LEN];
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)('a' + i * 7 % 26);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		measure_row(&rows[i], span_of(body, sizeof(body)), rounds);
	measure_ed25519(span_of(body, sizeof(body)), rounds);
	return 0;
}
