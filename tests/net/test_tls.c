/* TLS over sockets: versions, ALPN, resumption, bad files. */
#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "net/web.h"

#define REQUEST "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
#define LAST \
	"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"

static struct web web;
static struct web_tls web_tls;

static int setup_kind(enum web_key kind)
{
	web_tls_open(&web_tls, kind);
	return web_open(&web, NULL, web_tls.tls);
}

static int setup(void **state)
{
	(void)state;
	return setup_kind(WEB_ECDSA);
}

static int setup_rsa(void **state)
{
	(void)state;
	return setup_kind(WEB_RSA);
}

static int teardown(void **state)
{
	(void)state;
	web_close(&web);
	web_tls_close(&web_tls);
	return 0;
}

static const struct http_counters *counters(void)
{
	return http_server_counters(web.server);
}

static bool pass_round(void *user)
{
	int *left = user;
	loop_again(web.loop);
	return (*left)-- == 0;
}

static void assert_echo(const struct web_peer *peer, size_t n, struct span body)
{
	struct web_answer answer;
	assert_true(peer_answer(peer, n, false, &answer));
	assert_int_equal(answer.status, 200);
	assert_true(span_eq(answer.body, body));
}

static void both_versions_serve_requests(void **state)
{
	(void)state;
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct web_peer peer;
		SSL_CTX_set_max_proto_version(web_tls.client, versions[i]);
		peer_open(&web, &peer, web_tls.client);
		peer_say(&peer, REQUEST REQUEST);
		peer_until_answers(&peer, 2);
		assert_echo(&peer, 1, SPAN("hello"));
		assert_int_equal(SSL_version(peer.ssl), versions[i]);
		peer_say(&peer, LAST);
		peer_until_eof(&peer);
		assert_int_equal(peer.error, 0); /* a goodbye, not a cut */
		assert_echo(&peer, 2, SPAN("hello"));
		peer_close(&peer);
	}
	assert_int_equal(counters()->wires.tls_handshakes, 2);
	assert_int_equal(counters()->wires.tls_failed, 0);
}

static void tls_1_1_is_refused(void **state)
{
	(void)state;
	struct web_peer peer;
	SSL_CTX_set_security_level(web_tls.client, 0);
	SSL_CTX_set_min_proto_version(web_tls.client, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(web_tls.client, TLS1_1_VERSION);
	peer_open(&web, &peer, web_tls.client);
	peer_until_eof(&peer);
	assert_false(SSL_is_init_finished(peer.ssl));
	peer_close(&peer);
	assert_int_equal(counters()->wires.tls_handshakes, 0);
}

static void alpn_is_http_1_1_or_an_alert(void **state)
{
	(void)state;
	struct web_peer peer;
	const unsigned char *chosen;
	unsigned len;
	SSL_CTX_set_alpn_protos(web_tls.client, (const unsigned char *)"\x02h2\x08http/1.1", 12);
	peer_open(&web, &peer, web_tls.client);
	peer_say(&peer, REQUEST);
	peer_until_answers(&peer, 1);
	SSL_get0_alpn_selected(peer.ssl, &chosen, &len);
	assert_true(span_eq(span_of(chosen, len), SPAN("http/1.1")));
	peer_close(&peer);
	SSL_CTX_set_alpn_protos(web_tls.client, (const unsigned char *)"\x02h2\x08http/1.0", 12);
	peer_open(&web, &peer, web_tls.client);
	peer_until_eof(&peer);
	assert_int_equal(peer.error, EPROTO);
	peer_close(&peer);
	assert_int_equal(counters()->wires.tls_failed, 1);
}

static void sessions_are_resumed_with_both_versions(void **state)
{
	(void)state;
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	web_tls_keep_sessions(&web_tls);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		SSL_CTX_set_min_proto_version(web_tls.client, versions[i]);
		SSL_CTX_set_max_proto_version(web_tls.client, versions[i]);
		for (int round = 0; round < 3; round++) {
			struct web_peer peer;
			peer_open(&web, &peer, web_tls.client);
			if (round > 0)
				assert_int_equal(SSL_set_session(peer.ssl, web_tls.session), 1);
			peer_say(&peer, LAST);
			peer_until_eof(&peer);
			assert_echo(&peer, 0, SPAN("hello"));
			assert_int_equal(SSL_session_reused(peer.ssl), round > 0);
			peer_close(&peer);
		}
		web_tls_forget_session(&web_tls);
	}
	assert_int_equal(counters()->wires.tls_handshakes, 6);
	assert_int_equal(counters()->wires.tls_resumed, 4);
}

/* One connection with this session (NULL: none), which becomes the one to use
 * next: was it resumed? */
static bool resumes(SSL_SESSION **session)
{
	struct web_peer peer;
	peer_open(&web, &peer, web_tls.client);
	if (*session)
		assert_int_equal(SSL_set_session(peer.ssl, *session), 1);
	peer_say(&peer, LAST);
	peer_until_eof(&peer);
	assert_echo(&peer, 0, SPAN("hello"));
	bool resumed = SSL_session_reused(peer.ssl);
	SSL_SESSION_free(*session);
	*session = SSL_get1_session(peer.ssl);
	peer_close(&peer);
	return resumed;
}

static void ticket_keys_change_and_the_last_one_still_opens(void **state)
{
	(void)state;
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	const uint64_t hour_ms = 60 * 60 * 1000;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		SSL_SESSION *renewed = NULL, *old;
		SSL_CTX_set_min_proto_version(web_tls.client, versions[i]);
		SSL_CTX_set_max_proto_version(web_tls.client, versions[i]);
		assert_false(resumes(&renewed));
		old = SSL_SESSION_dup(renewed);
		clock_fake_advance(&web_tls.clock, 13 * hour_ms); /* another key seals */
		assert_true(resumes(&renewed));
		clock_fake_advance(&web_tls.clock, 12 * hour_ms); /* the first one is gone */
		assert_false(resumes(&old));
		assert_true(resumes(&renewed));
		clock_fake_advance(&web_tls.clock, 25 * hour_ms); /* nobody came for so long */
		assert_false(resumes(&renewed));
		SSL_SESSION_free(old);
		SSL_SESSION_free(renewed);
	}
	assert_int_equal(counters()->wires.tls_failed, 0);
}

static void large_bodies_pass_both_ways(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), random = seed;
	for (int n = 0; n < 6; n++) {
		struct web_peer peer;
		char head[128];
		size_t len = 1 + test_random_below(&random, 1024 * 1024);
		char *bytes = malloc(len);
		assert_non_null(bytes);
		for (size_t i = 0; i < len; i++)
			bytes[i] = (char)test_random(&random);
		snprintf(head, sizeof(head),
		         "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", len);
		peer_open(&web, &peer, web_tls.client);
		peer_say(&peer, head);
		peer_send(&peer, span_of(bytes, len));
		peer_say(&peer, REQUEST);
		peer_until_answers(&peer, 2);
		assert_echo(&peer, 0, span_of(bytes, len));
		peer_close(&peer);
		free(bytes);
	}
}

static void a_large_answer_to_a_slow_reader_is_whole(void **state)
{
	(void)state;
	struct web_peer peer;
	struct web_answer answer;
	int rounds = 50;
	peer_open(&web, &peer, web_tls.client);
	peer_say(&peer, REQUEST);
	peer_until_answers(&peer, 1);
	peer.deaf = true;
	peer_say(&peer, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n" REQUEST);
	web_until(&web, pass_round, &rounds);
	peer_listen(&peer);
	peer_until_answers(&peer, 3);
	assert_true(peer_answer(&peer, 1, false, &answer));
	assert_int_equal(answer.body.len, WEB_LARGE);
	peer_close(&peer);
}

static void bad_requests_are_refused_inside_tls(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, web_tls.client);
	peer_say(&peer, "GET / HTTP/1.1\nHost: a\n\n");
	peer_until_status(&peer, 0, 400);
	peer_until_eof(&peer);
	assert_int_equal(peer.error, 0);
	peer_close(&peer);
}

/* Plain HTTP, noise, and a peer that leaves in the middle. */
static void what_is_not_tls_is_dropped(void **state)
{
	(void)state;
	static const char *const noise[] = { REQUEST, "\x16\x03\x01\x40\x01\x01", "\x80\x80\x01" };
	for (size_t i = 0; i < ARRAY_LEN(noise); i++) {
		struct web_peer peer;
		peer_open(&web, &peer, NULL);
		peer_say(&peer, noise[i]);
		peer_shut(&peer);
		peer_until_eof(&peer);
		peer_close(&peer);
	}
	int rounds = 5;
	web_until(&web, pass_round, &rounds);
	assert_int_equal(counters()->wires.open, 0);
	assert_int_equal(counters()->requests, 0);
}

static void a_slow_handshake_is_closed(void **state)
{
	(void)state;
	struct http_limits limits = http_limits_default;
	limits.head_ms = 40;
	web_close(&web);
	assert_int_equal(web_open(&web, &limits, web_tls.tls), 0);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, "\x16\x03\x01");
	peer_until_eof(&peer);
	assert_int_equal(peer.len, 0);
	assert_int_equal(counters()->wires.timeouts, 1);
	peer_close(&peer);
}

static void assert_refused(const char *cert, const char *key, const char *word)
{
	struct tls *tls = NULL;
	struct error_text text = { "" };
	struct tls_options options = { .cert_file = cert, .key_file = key };
	assert_true(tls_new(&options, &tls, &text) < 0);
	assert_null(tls);
	if (!strstr(text.text, word))
		fail_msg("\"%s\" does not say \"%s\"", text.text, word);
}

static void files_that_do_not_serve_are_named_with_the_reason(void **state)
{
	(void)state;
	struct web_tls other;
	web_tls_open(&other, WEB_ECDSA);
	assert_refused("/nowhere/cert.pem", web_tls.key, "/nowhere/cert.pem");
	assert_refused(web_tls.cert, "/nowhere/key.pem", "/nowhere/key.pem");
	assert_refused(web_tls.key, web_tls.key, web_tls.key);
	assert_refused(web_tls.cert, web_tls.cert, web_tls.cert);
	assert_refused(web_tls.cert, other.key, "mismatch");
	web_tls_close(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_versions_serve_requests),
		{ "both_versions_serve_requests with RSA", both_versions_serve_requests, setup_rsa,
		  teardown, NULL },
		TEST(tls_1_1_is_refused),
		TEST(alpn_is_http_1_1_or_an_alert),
		TEST(sessions_are_resumed_with_both_versions),
		TEST(ticket_keys_change_and_the_last_one_still_opens),
		TEST(large_bodies_pass_both_ways),
		TEST(a_large_answer_to_a_slow_reader_is_whole),
		TEST(bad_requests_are_refused_inside_tls),
		TEST(what_is_not_tls_is_dropped),
		TEST(a_slow_handshake_is_closed),
		TEST(files_that_do_not_serve_are_named_with_the_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
