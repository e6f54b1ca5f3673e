/* http: of which calls a server has said that it did not process them. */
#include "support/test.h"

#include <stdio.h>

#include "link/http.h"

#define COUNT 4u

static struct http_client client;
static struct http_call calls[COUNT];

/* Requests that are written, on one connection, with streams 1, 3, 5 … */
static int begin(void **state)
{
	(void)state;
	client = (struct http_client){ .active = &calls[0] };
	for (uint32_t i = 0; i < COUNT; i++) {
		char text[64];
		calls[i] = (struct http_call){
			.client = &client,
			.next = i + 1 < COUNT ? &calls[i + 1] : NULL,
			.written = true,
			.way = { .peer_ip = "192.0.2.1",
			         .own_ip = "192.0.2.9",
			         .peer_port = 443,
			         .own_port = 40000 },
		};
		snprintf(text, sizeof(text), "Using Stream ID: %u (easy handle)", 2 * i + 1);
		http_call_hear(&calls[i], span_str(text));
	}
	return 0;
}

static void hear_goaway(uint32_t last)
{
	char text[64];

	snprintf(text, sizeof(text), "received GOAWAY, error=0, last_stream=%u", last);
	http_call_hear(&calls[0], span_str(text));
}

static void what_is_behind_the_last_stream_was_not_begun(void **state)
{
	(void)state;
	calls[3].answered = true;
	hear_goaway(3);
	assert_false(calls[0].unprocessed || calls[1].unprocessed);
	assert_true(calls[2].unprocessed);
	assert_false(calls[3].unprocessed); /* whatever the server says of it now */
}

/* Two addresses of a host, or two of ours, may have the same port on our side: what one
 * server says is no word of the other's. */
static void what_is_on_another_connection_stays_unknown(void **state)
{
	(void)state;
	snprintf(calls[1].way.peer_ip, IP_TEXT_MAX, "192.0.2.2");
	snprintf(calls[2].way.own_ip, IP_TEXT_MAX, "192.0.2.8");
	calls[3].way.peer_port = 8443;
	hear_goaway(1);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_false(calls[i].unprocessed);
}

static void what_was_not_written_is_not_spoken_of(void **state)
{
	(void)state;
	calls[2].written = false;
	hear_goaway(1);
	assert_true(calls[1].unprocessed && calls[3].unprocessed);
	assert_false(calls[2].unprocessed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_behind_the_last_stream_was_not_begun, begin),
		cmocka_unit_test_setup(what_is_on_another_connection_stays_unknown, begin),
		cmocka_unit_test_setup(what_was_not_written_is_not_spoken_of, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
