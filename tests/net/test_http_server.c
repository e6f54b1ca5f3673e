/* The HTTP server over sockets: what a peer sees. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "codec/http_corpus.h"
#include "net/web.h"

#define POST(path, len) "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " len "\r\n\r\n"

static struct web web;

static int setup(void **state)
{
	(void)state;
	return web_open(&web, NULL, NULL);
}

static int teardown(void **state)
{
	(void)state;
	web_close(&web);
	return 0;
}

static void reopen(const struct http_limits *limits)
{
	web_close(&web);
	assert_int_equal(web_open(&web, limits, NULL), 0);
}

static const struct http_counters *counters(void)
{
	return http_server_counters(web.server);
}

static bool all_closed(void *user)
{
	(void)user;
	return counters()->wires.accepted > 0 && counters()->wires.open == 0;
}

static void assert_body(const struct web_peer *peer, size_t n, const char *body)
{
	struct web_answer answer;
	assert_true(peer_answer(peer, n, false, &answer));
	if (!span_eq(answer.body, span_str(body)))
		fail_msg("answer %zu is \"%.*s\" and not \"%s\"", n, (int)answer.body.len,
		         answer.body.ptr, body);
}

/* False at first: lets one round pass. */
static bool once(void *user)
{
	static bool flip;
	(void)user;
	flip = !flip;
	if (flip)
		loop_again(web.loop);
	return !flip;
}

static void every_row_of_the_corpus_gets_its_status(void **state)
{
	(void)state;
	for (size_t i = 0; i < http_corpus_count; i++) {
		const struct http_corpus_row *row = &http_corpus[i];
		struct web_peer peer;
		struct web_answer answer = { 0 };
		peer_open(&web, &peer, NULL);
		peer_send(&peer, span_of(row->bytes, row->len));
		peer_shut(&peer);
		peer_until_eof(&peer);
		bool head_only = row->len > 4 && memcmp(row->bytes, "HEAD", 4) == 0;
		int status = peer_answer(&peer, 0, head_only, &answer) ? answer.status : 0;
		if (status == 100) { /* asked for a body that never came */
			assert_true(row->status == 0);
			status = 0;
		}
		if (status != row->status || peer.error)
			fail_msg("%s: %d and not %d (%s)", row->what, status, row->status,
			         strerror(peer.error));
		if (status == 200 && row->body)
			assert_body(&peer, 0, row->body);
		if (status >= 400)
			assert_true(answer_has(&answer, "Connection: close\r\n") &&
			            answer_has(&answer, "application/problem+json") &&
			            answer_has(&answer, "\"type\":\"about:blank\""));
		peer_close(&peer);
	}
	assert_int_equal(counters()->wires.accepted, http_corpus_count);
}

static void a_request_that_comes_byte_by_byte_is_answered(void **state)
{
	(void)state;
	static const char bytes[] =
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n" POST("/", "4") "wxyz";
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		uint64_t seen = counters()->wires.bytes_in;
		peer_send(&peer, span_of(bytes + i, 1));
		while (counters()->wires.bytes_in == seen) {
			web_until(&web, once, NULL);
		}
	}
	peer_until_answers(&peer, 2);
	assert_body(&peer, 0, "abcde");
	assert_body(&peer, 1, "wxyz");
	peer_close(&peer);
}

static void pipelined_requests_are_answered_in_order_beyond_the_limit(void **state)
{
	(void)state;
	struct http_limits limits = http_limits_default;
	limits.pipeline = 4;
	reopen(&limits);
	struct web_peer peer;
	char text[128];
	peer_open(&web, &peer, NULL);
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), POST("/", "4") "%04d", i);
		peer_say(&peer, text);
	}
	peer_until_answers(&peer, 300);
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "%04d", i);
		assert_body(&peer, (size_t)i, text);
	}
	peer_close(&peer);
}

static bool holds(void *user)
{
	return web.held_count >= (size_t)(uintptr_t)user;
}

static void hold_until(size_t count)
{
	web_until(&web, holds, (void *)(uintptr_t)count);
}

static void answers_given_in_another_order_leave_in_that_of_the_requests(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a" POST("/hold", "1") "b" POST("/", "1") "c");
	peer_say(&peer, POST("/hold", "1") "d" POST("/release", "1") "e" POST("/", "1") "f");
	peer_until_answers(&peer, 6);
	for (size_t i = 0; i < 6; i++)
		assert_body(&peer, i, (const char[]){ (char)('a' + i), 0 });
	peer_close(&peer);
}

static void no_more_than_the_pipeline_limit_is_handed_over(void **state)
{
	(void)state;
	struct http_limits limits = http_limits_default;
	limits.pipeline = 3;
	reopen(&limits);
	struct web_peer peer, other;
	peer_open(&web, &peer, NULL);
	for (int i = 0; i < 10; i++)
		peer_say(&peer, POST("/hold", "1") "x");
	hold_until(3);
	peer_open(&web, &other, NULL);
	peer_say(&other, POST("/", "1") "y");
	peer_until_answers(&other, 1);
	assert_int_equal(web.held_count, 3);
	while (web.held_count > 0) {
		web_release(&web);
		peer_say(&other, POST("/", "1") "y");
		size_t before = web.handled;
		while (web.handled == before)
			web_until(&web, once, NULL);
		for (int i = 0; i < 8; i++)
			web_until(&web, once, NULL);
		assert_true(web.held_count <= 3);
	}
	peer_until_answers(&peer, 10);
	peer_close(&peer);
	peer_close(&other);
}

static void continue_is_said_when_the_body_is_awaited_and_only_then(void **state)
{
	(void)state;
#define EXPECT(path)                                                    \
	"POST " path " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" \
	"Content-Length: 2\r\n\r\n"
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, EXPECT("/"));
	peer_until_status(&peer, 0, 100);
	peer_say(&peer, "ab");
	peer_until_answers(&peer, 2);
	assert_body(&peer, 1, "ab");
	peer_say(&peer, EXPECT("/") "cd");
	peer_until_answers(&peer, 3);
	assert_body(&peer, 2, "cd");
	/* Behind a request without an answer it has to wait its turn. */
	peer_say(&peer, POST("/hold", "1") "e" EXPECT("/"));
	hold_until(1);
	size_t len = peer.len;
	web_until(&web, once, NULL);
	assert_int_equal(peer.len, len);
	web_release(&web);
	peer_until_status(&peer, 3, 200);
	peer_until_status(&peer, 4, 100);
	peer_say(&peer, "fg");
	peer_until_answers(&peer, 6);
	assert_body(&peer, 5, "fg");
	peer_close(&peer);
}

static void no_body_is_asked_for_that_nobody_wants(void **state)
{
	(void)state;
	static const char *const heads[] = {
		EXPECT("/unwanted"),
		"POST /unwanted HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		EXPECT("http://a/unwanted"),
	};
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct web_peer peer;
		struct web_answer answer;
		peer_open(&web, &peer, NULL);
		peer_say(&peer, POST("/", "1") "x");
		peer_say(&peer, heads[i]);
		peer_until_eof(&peer); /* the body may come yet: nothing follows */
		assert_body(&peer, 0, "x");
		assert_true(peer_answer(&peer, 1, false, &answer));
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer.body.len, 0);
		assert_true(answer_has(&answer, "Connection: close"));
		peer_close(&peer);
	}
	/* A body that comes without waiting is read, and the connection goes on. */
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, EXPECT("/unwanted") "ab" POST("/", "1") "y");
	peer_until_answers(&peer, 2);
	assert_body(&peer, 0, "ab");
	assert_body(&peer, 1, "y");
	peer_close(&peer);
}

static char *random_bytes(uint64_t *random, size_t len)
{
	char *bytes = malloc(len + 1);
	assert_non_null(bytes);
	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)test_random(random);
	return bytes;
}

static void send_chunked(struct web_peer *peer, uint64_t *random, const char *bytes, size_t len)
{
	char line[32];
	while (len > 0) {
		size_t n = 1 + test_random_below(random, len < 20000 ? len : 20000);
		snprintf(line, sizeof(line), "%zx\r\n", n);
		peer_say(peer, line);
		peer_send(peer, span_of(bytes, n));
		peer_say(peer, "\r\n");
		if (test_random_below(random, 4) == 0)
			web_until(&web, once, NULL);
		bytes += n;
		len -= n;
	}
	peer_say(peer, "0\r\n\r\n");
}

/* Bodies that need larger inputs, some behind a request that pins the first. */
static void large_bodies_arrive_undamaged_fixed_and_chunked(void **state)
{
	(void)state;
	uint64_t seed = test_seed(), random = seed;
	for (uint64_t n = test_scale(20); n > 0; n--) {
		struct web_peer peer;
		char head[200];
		size_t len = 1 + test_random_below(&random, n % 4 ? 40000 : 1024 * 1024);
		char *bytes = random_bytes(&random, len);
		bool chunked = test_random_below(&random, 2), held = test_random_below(&random, 2);
		peer_open(&web, &peer, NULL);
		if (held)
			peer_say(&peer, POST("/hold", "5") "first");
		if (chunked)
			snprintf(head, sizeof(head),
			         "PUT / HTTP/1.1\r\nHost: a\r\nX-Some: thing\r\n"
			         "Transfer-Encoding: chunked\r\n\r\n");
		else
			snprintf(head, sizeof(head),
			         "PUT / HTTP/1.1\r\nHost: a\r\nX-Some: thing\r\n"
			         "Content-Length: %zu\r\n\r\n",
			         len);
		peer_say(&peer, head);
		if (chunked)
			send_chunked(&peer, &random, bytes, len);
		else
			peer_send(&peer, span_of(bytes, len));
		peer_say(&peer, POST("/release", "4") "last");
		peer_until_answers(&peer, held ? 3 : 2);
		struct web_answer answer;
		assert_true(peer_answer(&peer, held, false, &answer));
		if (!span_eq(answer.body, span_of(bytes, len)))
			fail_msg("a body was damaged; %s", test_note_seed(seed));
		assert_body(&peer, held ? 2 : 1, "last");
		if (held)
			assert_body(&peer, 0, "first");
		peer_close(&peer);
		free(bytes);
	}
}

static void a_chunked_body_is_moved_a_few_times_only(void **state)
{
	(void)state;
	struct web_peer peer;
	const size_t len = 1024 * 1024;
	uint64_t random = 1;
	char *bytes = random_bytes(&random, len);
	mem_fail_at(ULONG_MAX, false); /* only counts */
	peer_open(&web, &peer, NULL);
	peer_say(&peer, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	send_chunked(&peer, &random, bytes, len);
	peer_until_answers(&peer, 1);
	unsigned long count = mem_fail_count();
	mem_fail_at(0, false);
	assert_true(count < 50);
	peer_close(&peer);
	free(bytes);
}

static void head_and_204_have_no_body(void **state)
{
	(void)state;
	struct web_peer peer;
	struct web_answer answer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
	                "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n"
	                "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	peer_until_eof(&peer);
	assert_true(peer_answer(&peer, 0, true, &answer));
	assert_int_equal(answer.status, 200);
	assert_true(answer_has(&answer, "Content-Length: 3\r\n"));
	assert_true(peer_answer(&peer, 2, true, &answer));
	assert_int_equal(answer.status, 204);
	assert_false(answer_has(&answer, "Content-Length"));
	assert_ptr_equal(answer.head.ptr + answer.head.len, peer.in + peer.len);
	peer_close(&peer);
}

static void connections_end_when_either_side_says_so(void **state)
{
	(void)state;
	static const char *const requests[] = {
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET /close HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n",
		"GET /close HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct web_peer peer;
		struct web_answer answer;
		peer_open(&web, &peer, NULL);
		peer_say(&peer, requests[i]);
		peer_until_eof(&peer);
		assert_int_equal(peer.error, 0);
		assert_true(peer_answer(&peer, 0, false, &answer));
		assert_true(answer_has(&answer, "Connection: close\r\n"));
		assert_false(peer_answer(&peer, 1, false, &answer));
		peer_close(&peer);
	}
	web_until(&web, all_closed, NULL);
}

static void http_1_0_is_kept_alive_when_it_asks(void **state)
{
	(void)state;
	struct web_peer peer;
	struct web_answer answer;
	peer_open(&web, &peer, NULL);
	for (size_t i = 0; i < 3; i++) {
		peer_say(&peer, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
		peer_until_status(&peer, i, 200);
		assert_true(peer_answer(&peer, i, false, &answer));
		assert_true(answer_has(&answer, "Connection: keep-alive\r\n"));
	}
	peer_close(&peer);
}

/* The peer is still sending when it is refused. */
static void a_refusal_reaches_a_peer_that_is_still_sending(void **state)
{
	(void)state;
	struct web_peer peer;
	char *body = calloc(1, 600000);
	assert_non_null(body);
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "2000000"));
	peer_send(&peer, span_of(body, 600000));
	peer_until_status(&peer, 0, 413);
	peer_shut(&peer);
	peer_until_eof(&peer);
	assert_int_equal(peer.error, 0);
	assert_int_equal(counters()->bad, 1);
	peer_close(&peer);
	free(body);
}

static void a_refusal_waits_for_the_answers_before_it(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a"
	                                   "BAD\r\n\r\n");
	hold_until(1);
	web_until(&web, once, NULL);
	assert_int_equal(peer.len, 0);
	web_release(&web);
	peer_until_status(&peer, 0, 200);
	peer_until_status(&peer, 1, 400);
	peer_until_eof(&peer);
	peer_close(&peer);
}

static struct http_limits short_limits(void)
{
	struct http_limits limits = http_limits_default;
	limits.head_ms = limits.body_grace_ms = limits.idle_ms = limits.send_ms = 40;
	return limits;
}

static void slow_heads_and_bodies_get_408(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	reopen(&limits);
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na"
	static const char *const starts[] = {
		"P",
		"POST / HTTP/1.1\r\nHost: a\r\n",
		POST("/", "9000"),
		(POST("/", "9000") "abc"),
		CHUNKED,
	};
	struct web_peer peers[ARRAY_LEN(starts)];
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		peer_open(&web, &peers[i], NULL);
		peer_say(&peers[i], starts[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		peer_until_status(&peers[i], 0, 408);
		peer_until_eof(&peers[i]);
		peer_close(&peers[i]);
	}
	assert_int_equal(counters()->wires.timeouts, ARRAY_LEN(starts));
}

/* Told once, behind the answer that the peer still waits for. */
static void a_slow_request_behind_another_gets_its_408_in_turn(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	reopen(&limits);
	static const char *const starts[] = { "POST / HT", POST("/", "9000") };
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		struct web_peer peer;
		peer_open(&web, &peer, NULL);
		peer_say(&peer, POST("/hold", "1") "a");
		hold_until(1);
		peer_say(&peer, starts[i]);
		uint64_t start = loop_now_ms(web.loop);
		while (loop_now_ms(web.loop) < start + 4u * limits.head_ms)
			web_until(&web, once, NULL);
		assert_int_equal(counters()->wires.timeouts, i + 1);
		assert_int_equal(peer.len, 0);
		web_release(&web);
		peer_until_status(&peer, 0, 200);
		peer_until_status(&peer, 1, 408);
		peer_until_eof(&peer);
		peer_close(&peer);
	}
}

static void a_body_at_the_least_rate_is_let_through(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	limits.body_rate = 1;
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "1000") "0123456789");
	uint64_t start = loop_now_ms(web.loop);
	while (loop_now_ms(web.loop) < start + 3u * limits.body_grace_ms)
		web_until(&web, once, NULL);
	char rest[990];
	memset(rest, 'x', sizeof(rest));
	peer_send(&peer, span_of(rest, sizeof(rest)));
	peer_until_status(&peer, 0, 200);
	peer_close(&peer);
}

/* What came before buys no time: nobody fills our memory and then waits. */
static void a_body_that_stops_gets_408_however_much_has_come(void **state)
{
	(void)state;
	static char half[200000];
	struct http_limits limits = short_limits();
	limits.body_rate = 1000;
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "400000"));
	peer_send(&peer, span_of(half, sizeof(half)));
	peer_until_status(&peer, 0, 408); /* it would have been 200 s */
	peer_until_eof(&peer);
	peer_close(&peer);
}

static void an_unwanted_body_is_not_waited_for(void **state)
{
	(void)state;
	struct web_peer peer;
	struct web_answer answer;
	static const char *const requests[] = {
		(POST("/unwanted", "9000") "abc"),
		"POST /unwanted HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na",
	};
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		peer_open(&web, &peer, NULL);
		peer_say(&peer, requests[i]);
		peer_until_status(&peer, 0, 200);
		assert_body(&peer, 0, "");
		peer_until_eof(&peer);
		peer_close(&peer);
	}
	/* One that is there does no harm, and the connection goes on. */
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/unwanted", "3") "abc" POST("/", "1") "d");
	peer_until_answers(&peer, 2);
	assert_body(&peer, 0, "abc");
	assert_body(&peer, 1, "d");
	assert_true(peer_answer(&peer, 1, false, &answer));
	peer_close(&peer);
}

static bool has_received(void *user)
{
	const uint64_t *bytes = user;
	return counters()->wires.bytes_in >= *bytes;
}

static void bodies_of_all_connections_share_their_memory(void **state)
{
	(void)state;
	static char body[60000];
	struct http_limits limits = http_limits_default;
	limits.input_bytes = 100000;
	reopen(&limits);
	struct web_peer first, second, small;
	struct web_answer answer;
	peer_open(&web, &first, NULL);
	peer_say(&first, POST("/", "60000"));
	peer_send(&first, span_of(body, 50000));
	uint64_t sent = 50000;
	web_until(&web, has_received, &sent);
	peer_open(&web, &second, NULL);
	peer_say(&second, POST("/", "60000"));
	peer_send(&second, span_of(body, sizeof(body)));
	peer_until_status(&second, 0, 503);
	assert_true(peer_answer(&second, 0, false, &answer));
	assert_true(answer_has(&answer, "Retry-After: 1\r\n"));
	peer_until_eof(&second);
	peer_close(&second);
	assert_int_equal(counters()->crowded, 1);
	peer_open(&web, &small, NULL);
	peer_say(&small, POST("/", "1") "a");
	peer_until_status(&small, 0, 200);
	peer_close(&small);
	peer_send(&first, span_of(body, 10000));
	peer_until_status(&first, 0, 200);
	peer_close(&first);
	peer_open(&web, &second, NULL);
	peer_say(&second, POST("/", "60000"));
	peer_send(&second, span_of(body, sizeof(body)));
	peer_until_status(&second, 0, 200);
	peer_close(&second);
}

/* Takes a little every few milliseconds, far below the least rate. */
static void a_peer_that_sips_is_dropped_in_the_end(void **state)
{
	(void)state;
	static char sip[128 * 1024];
	struct http_limits limits = short_limits();
	limits.body_rate = 1u << 30;
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer.deaf = true;
	/* More than it can take before the server's clock is looked at, however
	 * busy the machine is. */
	for (int i = 0; i < 16; i++)
		peer_say(&peer, POST("/large", "1") "a");
	uint64_t next_ms = 0;
	while (counters()->wires.timeouts == 0) {
		web_until(&web, once, NULL);
		if (loop_now_ms(web.loop) < next_ms)
			continue;
		assert_int_not_equal(recv(peer.handler.fd, sip, sizeof(sip), MSG_DONTWAIT), 0);
		next_ms = loop_now_ms(web.loop) + 5;
	}
	web_until(&web, all_closed, NULL);
	peer_close(&peer);
}

static void idle_connections_are_closed_without_a_word(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "1") "a");
	peer_until_status(&peer, 0, 200);
	size_t len = peer.len;
	peer_until_eof(&peer);
	assert_int_equal(peer.len, len);
	assert_int_equal(peer.error, 0);
	assert_int_equal(counters()->wires.timeouts, 0);
	peer_close(&peer);
}

/* A handler may take its time: that is not the peer's fault. */
static void waiting_for_our_own_answer_has_no_limit(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a");
	hold_until(1);
	uint64_t start = loop_now_ms(web.loop);
	while (loop_now_ms(web.loop) < start + 5u * limits.idle_ms)
		web_until(&web, once, NULL);
	web_release(&web);
	peer_until_status(&peer, 0, 200);
	peer_close(&peer);
}

static void a_peer_that_does_not_read_is_dropped(void **state)
{
	(void)state;
	struct http_limits limits = short_limits();
	reopen(&limits);
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer.deaf = true;
	peer_say(&peer, POST("/large", "1") "a");
	web_until(&web, all_closed, NULL);
	assert_int_equal(counters()->wires.timeouts, 1);
	peer_close(&peer);
}

static bool was_handled(void *user)
{
	return web.handled >= (uintptr_t)user;
}

/* Its requests are not read either: memory stays bounded. */
static void a_slow_reader_gets_all_and_holds_up_nobody(void **state)
{
	(void)state;
	struct web_peer slow, other;
	struct web_answer answer;
	peer_open(&web, &slow, NULL);
	slow.deaf = true;
	for (int i = 0; i < 5; i++)
		peer_say(&slow, POST("/large", "1") "a");
	web_until(&web, was_handled, (void *)(uintptr_t)1);
	peer_open(&web, &other, NULL);
	for (size_t i = 0; i < 100; i++) {
		peer_say(&other, POST("/", "1") "b");
		peer_until_status(&other, i, 200);
	}
	assert_true(web.handled <= 102);
	peer_listen(&slow);
	peer_until_answers(&slow, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_true(peer_answer(&slow, i, false, &answer));
		assert_int_equal(answer.body.len, WEB_LARGE);
	}
	peer_close(&slow);
	peer_close(&other);
}

static void too_many_connections_are_turned_away_with_their_status(void **state)
{
	(void)state;
	struct http_limits limits = http_limits_default;
	limits.connections = 3;
	for (int per_address = 0; per_address < 2; per_address++) {
		if (per_address) {
			limits = http_limits_default;
			limits.connections_per_address = 3;
		}
		reopen(&limits);
		struct web_peer peers[4];
		struct web_answer answer;
		for (size_t i = 0; i < 4; i++) {
			peer_open(&web, &peers[i], NULL);
			peer_say(&peers[i], POST("/", "1") "a");
			peer_until_status(&peers[i], 0, i < 3 ? 200 : per_address ? 429 : 503);
		}
		peer_until_eof(&peers[3]);
		assert_true(peer_answer(&peers[3], 0, false, &answer));
		assert_true(answer_has(&answer, "Retry-After: ") && answer_has(&answer, "Date: ") &&
		            answer_has(&answer, "}\n"));
		assert_int_equal(counters()->wires.refused, 1);
		peer_close(&peers[3]);
		peer_close(&peers[0]);
		while (counters()->wires.open > 2)
			web_until(&web, once, NULL);
		peer_open(&web, &peers[0], NULL);
		peer_say(&peers[0], POST("/", "1") "a");
		peer_until_status(&peers[0], 0, 200);
		for (size_t i = 0; i < 3; i++)
			peer_close(&peers[i]);
	}
}

static void a_half_closed_peer_gets_its_answers(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a" POST("/hold", "1") "b"
	                                                          "POST /cut");
	peer_shut(&peer);
	hold_until(2);
	for (int i = 0; i < 5; i++)
		web_until(&web, once, NULL);
	assert_false(peer.eof);
	web_release(&web);
	peer_until_eof(&peer);
	assert_body(&peer, 0, "a");
	assert_body(&peer, 1, "b");
	peer_close(&peer);
}

/* The last bytes and the end may be told of by one edge. */
static void an_end_that_comes_with_bytes_is_seen(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "1") "a");
	peer_until_status(&peer, 0, 200);
	peer_say(&peer, "POST / HT");
	peer_shut(&peer);
	peer_until_eof(&peer);
	assert_int_equal(counters()->wires.timeouts, 0);
	peer_close(&peer);
}

static void requests_outlive_their_peer(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a" POST("/hold", "1") "b" POST("/hold", "1") "c");
	hold_until(3);
	struct linger reset = { .l_onoff = 1 };
	setsockopt(peer.handler.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	peer_close(&peer);
	web_until(&web, all_closed, NULL);
	assert_true(span_eq(web.held[1]->body, SPAN("b")));
	assert_true(span_eq(web.held[1]->head.path, SPAN("/hold")));
	struct http_request *middle = web.held[1];
	web.held[1] = web.held[2];
	web.held_count = 2;
	http_respond_problem(middle, 503, "too late", SPAN_EMPTY);
	web_release(&web);
	web_until(&web, once, NULL);
	http_server_drain(web.server);
	while (!http_server_drained(web.server))
		web_until(&web, once, NULL);
}

static void unanswered_requests_are_freed_with_the_server(void **state)
{
	(void)state;
	struct web_peer peer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a" POST("/hold", "1") "b" POST("/", "9") "half");
	hold_until(2);
	peer_close(&peer);
}

static void drain_finishes_what_was_begun_and_closes_the_rest(void **state)
{
	(void)state;
	struct web_peer idle, busy, half;
	struct web_answer answer;
	peer_open(&web, &idle, NULL);
	peer_say(&idle, POST("/", "1") "a");
	peer_until_status(&idle, 0, 200);
	peer_open(&web, &half, NULL);
	peer_say(&half, POST("/", "4") "ab");
	peer_open(&web, &busy, NULL);
	peer_say(&busy, POST("/hold", "1") "a");
	hold_until(1);
	http_server_drain(web.server);
	http_server_drain(web.server);
	peer_until_eof(&idle);
	assert_false(http_server_drained(web.server));
	peer_say(&half, "cd");
	peer_until_eof(&half);
	assert_body(&half, 0, "abcd");
	web_release(&web);
	peer_until_eof(&busy);
	assert_true(peer_answer(&busy, 0, false, &answer));
	assert_true(answer_has(&answer, "Connection: close\r\n"));
	while (!http_server_drained(web.server))
		web_until(&web, once, NULL);
	peer_close(&idle);
	peer_close(&half);
	peer_close(&busy);
}

static void drain_answers_all_that_was_pipelined_and_accepted(void **state)
{
	(void)state;
	struct web_peer peer;
	struct web_answer answer;
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/hold", "1") "a" POST("/hold", "1") "b" POST("/hold", "1") "c");
	hold_until(3);
	http_server_drain(web.server);
	struct http_request *first = web.held[0];
	web.held[0] = web.held[2];
	web.held_count = 2;
	http_respond(first, &(struct http_response){ .status = 200 });
	peer_until_answers(&peer, 1);
	peer_say(&peer, POST("/hold", "1") "d");
	web_until(&web, once, NULL);
	web_release(&web);
	peer_until_eof(&peer);
	for (size_t i = 0; i < 3; i++) {
		assert_true(peer_answer(&peer, i, false, &answer));
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer_has(&answer, "Connection: close\r\n"), i == 2);
	}
	assert_false(peer_answer(&peer, 3, false, &answer));
	while (!http_server_drained(web.server))
		web_until(&web, once, NULL);
	peer_close(&peer);
}

static void a_cut_closes_connections_and_leaves_requests_to_their_handler(void **state)
{
	(void)state;
	struct web_peer busy, half;
	peer_open(&web, &half, NULL);
	peer_say(&half, POST("/", "4") "ab");
	peer_open(&web, &busy, NULL);
	peer_say(&busy, POST("/hold", "1") "a");
	hold_until(1);
	http_server_cut(web.server);
	peer_until_eof(&half);
	peer_until_eof(&busy);
	assert_true(span_eq(web.held[0]->body, SPAN("a")));
	assert_false(http_server_drained(web.server));
	web_release(&web);
	while (!http_server_drained(web.server))
		web_until(&web, once, NULL);
	peer_close(&half);
	peer_close(&busy);
}

/* 300 peers that send half a head hold up nobody, and all are told. */
static void slow_peers_do_not_hold_up_others(void **state)
{
	(void)state;
	struct http_limits limits = http_limits_default;
	limits.head_ms = 1500; /* that the machine may stand still for a while */
	reopen(&limits);
	static struct web_peer slow[300];
	struct web_peer peer;
	uint64_t most = 0;
	for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
		peer_open(&web, &slow[i], NULL);
		peer_say(&slow[i], "POST / HTTP/1.1\r\nX: ");
	}
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "1") "a");
	peer_until_status(&peer, 0, 200); /* all are accepted by now */
	for (size_t i = 1; i <= 200; i++) {
		uint64_t round = loop_round(web.loop);
		peer_say(&peer, POST("/", "1") "a");
		peer_until_status(&peer, i, 200);
		most = loop_round(web.loop) - round > most ? loop_round(web.loop) - round : most;
	}
	/* To the server and back, whoever else is there. */
	assert_true(most <= 4);
	assert_int_equal(counters()->wires.timeouts, 0);
	for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
		peer_until_status(&slow[i], 0, 408);
		peer_close(&slow[i]);
	}
	peer_close(&peer);
}

static void accepting_goes_on_when_descriptors_are_free_again(void **state)
{
	(void)state;
	struct rlimit old, low;
	struct web_peer peer;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	peer_open(&web, &peer, NULL);
	peer_say(&peer, POST("/", "1") "a");
	low = old;
	low.rlim_cur = (rlim_t)peer.handler.fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (int i = 0; i < 20; i++)
		web_until(&web, once, NULL);
	assert_int_equal(counters()->wires.accepted, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	peer_until_status(&peer, 0, 200);
	peer_close(&peer);
}

static void addresses_are_read_or_refused_with_a_reason(void **state)
{
	(void)state;
	static const char *const bad[] = { "",        "8080",       "localhost:80", "1.2.3:80",
		                           "1.2.3.4", "1.2.3.4:",   "1.2.3.4:x",    "1.2.3.4:65536",
		                           "[::1]",   "[::1]:",     "::1:80",       "[1.2.3.4]:80",
		                           "[::1:80", "1.2.3.4:-1", "1.2.3.4:1 ",   "[]:80" };
	struct http_server *server;
	struct error_text text;
	struct http_server_options options = web.options;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		options.address = bad[i];
		if (http_server_new(&options, &server, &text) != ERR_CONFIG)
			fail_msg("\"%s\" is no address", bad[i]);
		assert_non_null(strstr(text.text, bad[i]));
	}
	options.address = "192.0.2.1:0"; /* for documentation: nobody's */
	assert_int_equal(http_server_new(&options, &server, &text), -EADDRNOTAVAIL);
	assert_non_null(strstr(text.text, "192.0.2.1:0"));
	options.address = "[::1]:0";
	int error = http_server_new(&options, &server, &text);
	if (!error) {
		assert_true(http_server_port(server) > 0);
		http_server_free(server);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_of_the_corpus_gets_its_status),
		TEST(a_request_that_comes_byte_by_byte_is_answered),
		TEST(pipelined_requests_are_answered_in_order_beyond_the_limit),
		TEST(answers_given_in_another_order_leave_in_that_of_the_requests),
		TEST(no_more_than_the_pipeline_limit_is_handed_over),
		TEST(continue_is_said_when_the_body_is_awaited_and_only_then),
		TEST(no_body_is_asked_for_that_nobody_wants),
		TEST(large_bodies_arrive_undamaged_fixed_and_chunked),
		TEST(a_chunked_body_is_moved_a_few_times_only),
		TEST(head_and_204_have_no_body),
		TEST(connections_end_when_either_side_says_so),
		TEST(http_1_0_is_kept_alive_when_it_asks),
		TEST(a_refusal_reaches_a_peer_that_is_still_sending),
		TEST(a_refusal_waits_for_the_answers_before_it),
		TEST(slow_heads_and_bodies_get_408),
		TEST(a_slow_request_behind_another_gets_its_408_in_turn),
		TEST(a_body_at_the_least_rate_is_let_through),
		TEST(a_body_that_stops_gets_408_however_much_has_come),
		TEST(an_unwanted_body_is_not_waited_for),
		TEST(bodies_of_all_connections_share_their_memory),
		TEST(idle_connections_are_closed_without_a_word),
		TEST(waiting_for_our_own_answer_has_no_limit),
		TEST(a_peer_that_does_not_read_is_dropped),
		TEST(a_slow_reader_gets_all_and_holds_up_nobody),
		TEST(too_many_connections_are_turned_away_with_their_status),
		TEST(a_half_closed_peer_gets_its_answers),
		TEST(an_end_that_comes_with_bytes_is_seen),
		TEST(requests_outlive_their_peer),
		TEST(unanswered_requests_are_freed_with_the_server),
		TEST(drain_finishes_what_was_begun_and_closes_the_rest),
		TEST(drain_answers_all_that_was_pipelined_and_accepted),
		TEST(a_cut_closes_connections_and_leaves_requests_to_their_handler),
		TEST(a_peer_that_sips_is_dropped_in_the_end),
		TEST(slow_peers_do_not_hold_up_others),
		TEST(accepting_goes_on_when_descriptors_are_free_again),
		TEST(addresses_are_read_or_refused_with_a_reason),
	};
	int failed = cmocka_run_group_tests_name("each for itself", tests, NULL, NULL);
	web_batches = true;
	return failed + cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
