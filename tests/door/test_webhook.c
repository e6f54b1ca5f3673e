/* The webhook between a real server and a store in memory: who is let in, and what
 * becomes of requests when there is no memory. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "door/webhook/webhook.h"
#include "gate/recipe/presets.h"
#include "net/web.h"
#include "support/model_store.h"

#define SECRET "0123456789abcdef"

static const unsigned char key[DIGEST_KEY_LEN] = { 7 };

struct gate {
	struct web web;
	struct store *store;
	struct source_counts counts;
	struct source_set *set;
	struct webhook webhook;
	struct loop_hook round;
	struct source_set *next; /* is offered as soon as a body was asked for */
};

static struct gate gate;

static void handle(struct http_request *request)
{
	/* What the request before left there must mean nothing. */
	memset(request->scratch, 0xa5, webhook_scratch_size);
	assert_true(webhook_handle(&gate.webhook, request));
}

static bool wants_body(const struct http_request *request)
{
	bool wanted = webhook_wants_body(&gate.webhook, request);
	if (gate.next) /* a reload, at the worst of times */
		webhook_offer(&gate.webhook, gate.next);
	return wanted;
}

static void decide(struct loop_hook *hook)
{
	(void)hook;
	store_flush(gate.store);
	if (gate.webhook.decided)
		webhook_answer(&gate.webhook, loop_now_ns(gate.web.loop));
}

static struct source_set *new_set(const struct auth_spec *auth)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	struct recipe_spec plain = { .source = SPAN("events"),
		                     .window_s = 60,
		                     .cases = preset->cases,
		                     .case_count = preset->case_count };
	struct recipe_case_spec large_case = {
		.name = "large",
		.claim_count = 2,
		.claims = { { .kind = CLAIM_CONTENT },
		            { .kind = CLAIM_ONCE,
		              .part_count = 1,
		              .parts = { SPAN("items[*].id") } } },
	};
	struct recipe_spec large = {
		.source = SPAN("large"), .window_s = 60, .cases = &large_case, .case_count = 1
	};
	static const struct auth_spec none = { .kind = AUTH_NONE };
	struct source_options sources[] = {
		{ .path = SPAN("/in/events"), .recipe = &plain, .auth = auth ? auth : &none },
		{ .path = SPAN("/in/large"), .recipe = &large, .auth = &none },
	};
	struct source_set *set = NULL;
	struct error_text text;
	struct source_set_options options = {
		.sources = sources, .count = ARRAY_LEN(sources), .key = key, .counts = &gate.counts
	};
	assert_int_equal(source_set_new(&options, &set, &text), 0);
	return set;
}

static void open_gate(const struct auth_spec *auth)
{
	gate = (struct gate){ .counts = { .thread_count = 1 }, .round = { .round = decide } };
	assert_int_equal(model_store_open(&(struct model_store_options){ 0 }, &gate.store), 0);
	gate.set = new_set(auth);
	struct webhook_options options = { .sources = gate.set, .store = gate.store };
	assert_int_equal(webhook_init(&gate.webhook, &options), 0);
	struct web_handler handler = { .handle = handle,
		                       .wants_body = wants_body,
		                       .scratch_size = webhook_scratch_size,
		                       .user = &gate };
	assert_int_equal(web_open_with(&gate.web, NULL, &handler), 0);
	loop_hook_add(gate.web.loop, &gate.round);
}

static void close_gate(void)
{
	store_free(gate.store);
	loop_hook_remove(gate.web.loop, &gate.round);
	web_close(&gate.web);
	webhook_release(&gate.webhook);
	source_set_release(gate.set);
	source_counts_free(&gate.counts);
}

static const struct source_meters *meters_of(const char *source)
{
	return source_meters_of(&gate.counts, span_str(source));
}

static bool is_done(void *user)
{
	const struct web_peer *peer = user;
	struct web_answer unused;
	return peer->eof || peer->error || peer_answer(peer, 0, false, &unused);
}

/* The answer's status; 0: the connection ended without one. */
static int ask(const char *path, struct span body, struct buf *ret_body)
{
	struct web_peer peer;
	struct web_answer answer;
	char head[256];
	peer_open(&gate.web, &peer, NULL);
	snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
	         path, body.len);
	peer_say(&peer, head);
	peer_send(&peer, body);
	web_until(&gate.web, is_done, &peer);
	bool answered = peer_answer(&peer, 0, false, &answer);
	if (answered && ret_body)
		buf_append_span(ret_body, answer.body);
	peer_close(&peer);
	return answered ? answer.status : 0;
}

/* ---- who is let in ---- */

static const struct auth_spec api_key = { .kind = AUTH_HEADER,
	                                  .header = { "X-Api-Key", 9 },
	                                  .secret_count = 1,
	                                  .secrets = { { SECRET, 16 } } };
static const struct auth_spec github = { .kind = AUTH_GITHUB,
	                                 .secret_count = 1,
	                                 .secrets = { { SECRET, 16 } } };

/* A head with these lines, and one byte of a large body. */
static int ask_begun(const char *lines)
{
	struct web_peer peer;
	struct web_answer answer;
	char head[512];
	snprintf(head, sizeof(head),
	         "POST /in/events HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n%s\r\n{", lines);
	peer_open(&gate.web, &peer, NULL);
	peer_say(&peer, head);
	web_until(&gate.web, is_done, &peer);
	assert_true(peer_answer(&peer, 0, false, &answer));
	peer_until_eof(&peer);
	peer_close(&peer);
	return answer.status;
}

static void who_shows_no_key_is_refused_before_the_body(void **state)
{
	(void)state;
	open_gate(&api_key);
	assert_int_equal(ask_begun(""), 401);
	assert_int_equal(ask_begun("X-Api-Key: wrong-wrong-wrong\r\n"), 401);
	assert_int_equal(meter_read(&meters_of("events")->unauthorized), 2);
	close_gate();
	open_gate(&github);
	assert_int_equal(ask_begun(""), 401); /* no signature at all */
	close_gate();
}

static bool is_received(void *user)
{
	const struct http_counters *counters = http_server_counters(gate.web.server);
	return counters->wires.bytes_in >= *(const uint64_t *)user;
}

/* The head proves it, or the body has to be seen: then it is waited for. */
static void a_body_that_may_be_trusted_is_waited_for(void **state)
{
	static const struct {
		const struct auth_spec *auth;
		const char *line;
		int status;
	} cases[] = {
		{ &api_key, "X-Api-Key: " SECRET, 200 },
		{ &github, "X-Hub-Signature-256: sha256=00", 401 },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct web_peer peer;
		char head[256];
		int len = snprintf(head, sizeof(head),
		                   "POST /in/events HTTP/1.1\r\nHost: a\r\n%s\r\n"
		                   "Content-Length: 10\r\n\r\n{\"id\"",
		                   cases[i].line);
		uint64_t sent = (uint64_t)len;
		open_gate(cases[i].auth);
		peer_open(&gate.web, &peer, NULL);
		peer_say(&peer, head);
		web_until(&gate.web, is_received, &sent);
		assert_int_equal(peer.len, 0);
		peer_say(&peer, ":\"1\"}");
		peer_until_status(&peer, 0, cases[i].status);
		peer_close(&peer);
		close_gate();
	}
}

/* It was asked of sources that are gone: nothing may be decided of half a request. */
static void a_body_that_was_not_read_is_never_an_event(void **state)
{
	(void)state;
	open_gate(&api_key);
	gate.next = new_set(NULL);
	assert_int_equal(ask_begun(""), 503);
	assert_int_equal(ask("/in/events", SPAN("{\"id\":\"1\"}"), NULL), 200);
	source_set_release(gate.next);
	close_gate();
}

/* ---- batches ---- */

/* Small events, so that room for them is found again and again, and some that are
 * refused between them. */
static void append_event(struct buf *out, int i)
{
	if (i % 17 == 5)
		buf_append_span(out, SPAN("{\"name\":\"none\"}"));
	else
		buf_printf(out, "{\"id\":\"%d\",\"n\":%d}", i, i);
}

static int count_of(const struct buf *text, const char *what)
{
	int count = 0;
	const char *at = text->ptr;
	while ((at = memmem(at, (size_t)(text->ptr + text->len - at), what, strlen(what)))) {
		at += strlen(what);
		count++;
	}
	return count;
}

static void events_of_a_batch_are_known_one_by_one(void **state)
{
	enum { COUNT = 300, REFUSED = 18 };
	struct buf batch = { 0 }, answer = { 0 }, one = { 0 };
	(void)state;
	open_gate(NULL);
	for (int i = 0; i < COUNT; i++) {
		buf_append_char(&batch, i ? ',' : '[');
		append_event(&batch, i);
	}
	buf_append_char(&batch, ']');
	assert_int_equal(ask("/in/events", buf_span(&batch), &answer), 200);
	assert_int_equal(count_of(&answer, "\"verdict\":\"new\""), COUNT - REFUSED);
	assert_int_equal(count_of(&answer, "\"status\":400"), REFUSED);
	for (int i = 0; i < COUNT; i++) {
		if (i % 17 == 5)
			continue;
		buf_clear(&one);
		buf_clear(&answer);
		append_event(&one, i);
		assert_int_equal(ask("/in/events", buf_span(&one), &answer), 200);
		assert_int_equal(count_of(&answer, "\"verdict\":\"duplicate\""), 1);
	}
	/* What was read of a broken one leaves nothing behind. */
	batch.ptr[batch.len - 1] = ',';
	assert_int_equal(ask("/in/events", buf_span(&batch), NULL), 400);
	batch.ptr[batch.len - 1] = ']';
	buf_clear(&answer);
	assert_int_equal(ask("/in/events", buf_span(&batch), &answer), 200);
	assert_int_equal(count_of(&answer, "\"verdict\":\"duplicate\""), COUNT - REFUSED);
	buf_free(&batch);
	buf_free(&answer);
	buf_free(&one);
	close_gate();
}

/* ---- without memory ---- */

static void make_large(struct buf *one, struct buf *batch)
{
	buf_append_span(one, SPAN("{\"z\":1, \"items\":["));
	for (int i = 0; i < 100; i++)
		buf_printf(one, "%s{\"id\":\"abcdefghijklmnop%d\",\"b\":2,\"a\":1}", i ? "," : "",
		           i);
	buf_append_span(one, SPAN("]}"));
	buf_append_char(batch, '[');
	for (int i = 0; i < 70; i++) {
		buf_append_span(batch, i ? SPAN(",") : SPAN_EMPTY);
		buf_append_span(batch, buf_span(one));
	}
	buf_append_char(batch, ']');
	assert_true(!one->failed && !batch->failed);
}

/* Whichever allocation fails, the sender is told to send it again or hears nothing:
 * never that something is wrong with its events. */
static void fail_each_allocation(const char *path, struct span body)
{
	unsigned long n = 0, count;
	do {
		open_gate(NULL);
		struct buf answer = { 0 };
		assert_int_equal(buf_reserve(&answer, 64u << 10), 0); /* before others fail */
		mem_fail_at(++n, false);
		int status = ask(path, body, &answer);
		count = mem_fail_count();
		mem_fail_at(0, false);
		if (status != 0 && status != 200 && status != 503)
			fail_msg("allocation %lu: %d %.*s", n, status, (int)answer.len, answer.ptr);
		if (status == 200 && memmem(answer.ptr, answer.len, "\"status\":400", 12))
			fail_msg("allocation %lu: an item was refused", n);
		assert_int_equal(ask(path, body, NULL), 200);
		buf_free(&answer);
		close_gate();
	} while (count >= n);
	assert_true(n > 3);
}

static void want_of_memory_is_never_the_senders_fault(void **state)
{
	(void)state;
	struct buf one = { 0 }, batch = { 0 };
	make_large(&one, &batch);
	fail_each_allocation("/in/large", buf_span(&one));
	fail_each_allocation("/in/large", buf_span(&batch));
	buf_free(&one);
	buf_free(&batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_shows_no_key_is_refused_before_the_body),
		cmocka_unit_test(a_body_that_may_be_trusted_is_waited_for),
		cmocka_unit_test(a_body_that_was_not_read_is_never_an_event),
		cmocka_unit_test(events_of_a_batch_are_known_one_by_one),
		cmocka_unit_test(want_of_memory_is_never_the_senders_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
