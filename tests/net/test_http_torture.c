/* The server while any one allocation fails, or all from some point on: peers
 * are answered or dropped, nothing leaks, and afterwards it serves again. */
#include <string.h>

#include "base/mem.h"
#include "net/web.h"

#define PEERS 4
#define POST(path, len) "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " len "\r\n\r\n"

static struct web_tls web_tls;
static struct web web;
static struct web_peer peers[PEERS];

static bool peer_is_done(const struct web_peer *peer, size_t answers)
{
	struct web_answer unused;
	return peer->eof || peer->error || peer_answer(peer, answers - 1, false, &unused);
}

static bool all_done(void *user)
{
	(void)user;
	return peer_is_done(&peers[0], 4) && peer_is_done(&peers[1], 1) &&
	       peer_is_done(&peers[2], 2) && peer_is_done(&peers[3], 1);
}

/* Each way in which the server needs memory. */
static void talk(SSL_CTX *tls)
{
	static char body[30000];
	for (size_t i = 0; i < PEERS; i++)
		peer_open(&web, &peers[i], tls);
	peer_say(&peers[0],
	         POST("/hold", "1") "a" POST("/hold", "1") "b" POST("/", "1") "c" POST("/release",
	                                                                               "1") "d");
	peer_say(&peers[1], POST("/", "30000"));
	peer_send(&peers[1], span_of(body, sizeof(body)));
	peer_say(&peers[2], POST("/hold", "1") "a"
	                                       "PUT / HTTP/1.1\r\nHost: a\r\n"
	                                       "Transfer-Encoding: chunked\r\n\r\n7000\r\n");
	peer_send(&peers[2], span_of(body, 0x7000));
	peer_say(&peers[2], "\r\n0\r\n\r\n" POST("/release", "0"));
	peer_say(&peers[3], "BAD\r\n\r\n");
}

static bool once_more_done(void *user)
{
	return peer_is_done(user, 1);
}

static void scenario(unsigned long n, bool forever, SSL_CTX *tls, unsigned long *ret_count)
{
	mem_fail_at(n, forever);
	int error = web_open(&web, NULL, tls ? web_tls.tls : NULL);
	if (error) {
		assert_int_equal(error, -ENOMEM);
		*ret_count = mem_fail_count();
		mem_fail_at(0, false);
		return;
	}
	talk(tls);
	/* A failed peer 0 cannot release what others hold. */
	while (!all_done(NULL)) {
		uint64_t handled = web.handled;
		bool met = web_try(&web, all_done, NULL);
		if (!met && web.handled == handled)
			fail_msg("peers wait for ever when allocation %lu fails", n);
	}
	*ret_count = mem_fail_count();
	mem_fail_at(0, false);
	web_release(&web);
	for (size_t i = 0; i < PEERS; i++)
		peer_close(&peers[i]);
	peer_open(&web, &peers[0], tls);
	peer_say(&peers[0], POST("/", "2") "ok");
	web_until(&web, once_more_done, &peers[0]);
	peer_until_status(&peers[0], 0, 200);
	peer_close(&peers[0]);
	web_close(&web);
}

static void fail_each(bool forever, SSL_CTX *tls)
{
	unsigned long n = 0, count;
	do
		scenario(++n, forever, tls, &count);
	while (count >= n); /* else the plan had nothing left to fail */
	assert_true(n > 10);
}

static void no_single_failed_allocation_hurts(void **state)
{
	(void)state;
	fail_each(false, NULL);
}

static void no_lasting_want_of_memory_hurts(void **state)
{
	(void)state;
	fail_each(true, NULL);
}

static void no_failed_allocation_hurts_when_sending_together(void **state)
{
	(void)state;
	web_batches = true;
	fail_each(false, NULL);
	fail_each(true, NULL);
	web_batches = false;
}

static void no_single_failed_allocation_hurts_tls(void **state)
{
	(void)state;
	fail_each(false, web_tls.client);
}

static void no_lasting_want_of_memory_hurts_tls(void **state)
{
	(void)state;
	fail_each(true, web_tls.client);
}

static int setup(void **state)
{
	(void)state;
	web_tls_open(&web_tls, WEB_ECDSA);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	web_tls_close(&web_tls);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_single_failed_allocation_hurts),
		cmocka_unit_test(no_lasting_want_of_memory_hurts),
		cmocka_unit_test(no_failed_allocation_hurts_when_sending_together),
		cmocka_unit_test(no_single_failed_allocation_hurts_tls),
		cmocka_unit_test(no_lasting_want_of_memory_hurts_tls),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
