/* resp: what clients of Redis are told. tests/integration compares all of it with Redis
 * itself; here is what needs a clock, a store or a peer that does as it is told. */
#include "door/resp_kit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/resp/resp_connection.h"

static struct kit kit;
static struct peer one, two;

static int open_kit(void **state)
{
	(void)state;
	kit_open(&kit);
	peer_open(&kit, &one);
	peer_open(&kit, &two);
	return 0;
}

static int close_kit(void **state)
{
	(void)state;
	peer_close(&one);
	peer_close(&two);
	kit_close(&kit);
	return 0;
}

static void a_key_is_taken_once_until_its_time_is_over(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "SET k a NX EX 10\r\n", "+OK\r\n");
	peer_ask(&kit, &two, "SET k b NX EX 10\r\n", "$-1\r\n");
	peer_ask(&kit, &two, "GET k\r\n", "$1\r\na\r\n");
	clock_fake_advance(&kit.clock, 9999);
	peer_ask(&kit, &two, "SET k b NX EX 10\r\nPTTL k\r\n", "$-1\r\n:1\r\n");
	clock_fake_advance(&kit.clock, 1);
	peer_ask(&kit, &two, "SET k b NX EX 10\r\nGET k\r\n", "+OK\r\n$1\r\nb\r\n");
}

static void times_are_told_and_changed(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "SET k a PX 10600\r\nTTL k\r\nPTTL k\r\n", "+OK\r\n:11\r\n:10600\r\n");
	peer_ask(&kit, &one, "SET k b KEEPTTL\r\nPTTL k\r\n", "+OK\r\n:10600\r\n");
	peer_ask(&kit, &one, "PERSIST k\r\nTTL k\r\nTTL none\r\n", ":1\r\n:-1\r\n:-2\r\n");
	peer_ask(&kit, &one, "EXPIRE k 5 GT\r\nEXPIRE k 5 LT\r\nEXPIRE k 4 GT\r\nTTL k\r\n",
	         ":0\r\n:1\r\n:0\r\n:5\r\n");
	peer_ask(&kit, &one, "EXPIRE k 9 NX\r\nEXPIRE k 9 XX\r\nTTL k\r\n", ":0\r\n:1\r\n:9\r\n");
	peer_ask(&kit, &one, "GETEX k PX 70\r\nPTTL k\r\n", "$1\r\nb\r\n:70\r\n");
	peer_ask(&kit, &one, "EXPIRE k 0\r\nEXISTS k\r\n", ":1\r\n:0\r\n");
}

/* Whatever a round has read from all connections is one flush. */
static void replies_come_in_order_and_wait_for_the_flush(void **state)
{
	(void)state;
	kit.hold = true;
	peer_say(&one, "SET a 1\r\nPING\r\nGET a\r\nPING x\r\n");
	peer_say(&two, "SET a 2 NX\r\n");
	kit_rounds(&kit, 1000);
	peer_receive(&one);
	peer_receive(&two);
	assert_int_equal(one.input.len + two.input.len, 0);
	uint64_t flushes = kit.flushes;
	kit.hold = false;
	peer_expect(&kit, &one, "+OK\r\n+PONG\r\n$1\r\n1\r\n$1\r\nx\r\n");
	peer_expect(&kit, &two, "$-1\r\n");
	assert_true(kit.flushes > flushes);
}

static void a_transaction_is_done_as_one_or_not_at_all(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "MULTI\r\nSET a 1\r\nGET a\r\nSET b 1 EX 0\r\n",
	         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
	peer_ask(&kit, &two, "EXISTS a\r\nSET a 9\r\n", ":0\r\n+OK\r\n");
	peer_ask(&kit, &one, "EXEC\r\n",
	         "*3\r\n+OK\r\n$1\r\n1\r\n-ERR invalid expire time in 'set' command\r\n");
	peer_ask(&kit, &one, "MULTI\r\nSET a 2\r\nNOSUCH\r\nEXEC\r\nGET a\r\n",
	         "+OK\r\n+QUEUED\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n"
	         "-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n1\r\n");
	peer_ask(&kit, &one,
	         "MULTI\r\nEXPIRE a 5 GT\r\nEXPIRE a 5 NX\r\nEXPIRE a 9 GT\r\nEXPIRE a 9 GT\r\n"
	         "EXPIRE a 3 XX LT\r\nEXPIRE a 1 NX\r\nTTL a\r\nEXEC\r\n",
	         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
	         "+QUEUED\r\n*7\r\n:0\r\n:1\r\n:1\r\n:0\r\n:1\r\n:0\r\n:3\r\n");
}

static void what_all_transactions_wait_with_is_bounded(void **state)
{
	(void)state;
	struct peer three;
	kit.door.queued_bytes_max = 1;
	peer_ask(&kit, &one, "MULTI\r\nSET a 1\r\n", "+OK\r\n+QUEUED\r\n");
	peer_ask(&kit, &two, "MULTI\r\nSET b 1\r\nEXEC\r\n",
	         "+OK\r\n-OOM out of memory; the command was not executed\r\n"
	         "-EXECABORT Transaction discarded because of previous errors.\r\n");
	peer_ask(&kit, &one, "EXEC\r\n", "*1\r\n+OK\r\n");
	peer_ask(&kit, &two, "MULTI\r\nSET b 1\r\nDISCARD\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n");
	peer_open(&kit, &three);
	peer_ask(&kit, &three, "MULTI\r\nSET c 1\r\nQUIT\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n");
	peer_expect_end(&kit, &three);
	peer_close(&three);
	peer_ask(&kit, &two, "MULTI\r\nSET b 1\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
	assert_int_equal(kit.door.queued_bytes, 0);
}

/* What each command may bring is bounded; so is what all of a transaction may. */
static void a_transaction_whose_replies_could_be_too_large_is_not_done(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "SET a 1\r\nMULTI\r\nSET a 2\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n");
	for (int i = 0; i < 27; i++)
		peer_ask(&kit, &one, "SCAN 0 COUNT 10000\r\n", "+QUEUED\r\n");
	peer_ask(&kit, &one, "PING x\r\nEXEC\r\n",
	         "+QUEUED\r\n-EXECABORT Transaction discarded: its replies could have more than "
	         "67108864 bytes of values\r\n");
	peer_ask(&kit, &one, "GET a\r\nMULTI\r\nGET a\r\nEXEC\r\n",
	         "$1\r\n1\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n");
}

static void what_is_too_large_is_told_and_the_connection_goes_on(void **state)
{
	static char command[8192], value[1026], key[4098];
	(void)state;
	memset(value, 'v', 1025);
	memset(key, 'k', 4097);
	snprintf(command, sizeof(command), "SET k %s\r\n", value);
	peer_ask(&kit, &one, command,
	         "-ERR the value is too long: 1025 bytes, at most 1024 are allowed "
	         "(resp.max_value)\r\n");
	value[1024] = 0;
	snprintf(command, sizeof(command), "SET k %s\r\nTYPE k\r\n", value);
	peer_ask(&kit, &one, command, "+OK\r\n+string\r\n");
	snprintf(command, sizeof(command), "GET %s\r\n", key);
	peer_ask(&kit, &one, command,
	         "-ERR the key is too long: 4097 bytes, at most 4096 are allowed\r\n");
	key[4096] = 0;
	snprintf(command, sizeof(command), "SET %s v\r\nGET %s\r\n", key, "k2");
	peer_ask(&kit, &one, command, "+OK\r\n$-1\r\n");
	snprintf(command, sizeof(command), "EXISTS %s\r\n", key);
	peer_ask(&kit, &one, command, ":1\r\n");
}

struct upload {
	const char *bytes;
	size_t at, len;
};

static bool is_sent(void *user)
{
	struct upload *upload = user;
	upload->at += peer_send(&one, upload->bytes + upload->at, upload->len - upload->at);
	return upload->at == upload->len;
}

static void a_command_of_many_arguments_is_moved_a_few_times_only(void **state)
{
	(void)state;
	char key[1001];
	struct buf command = { 0 };
	memset(key, 'k', 1000);
	key[1000] = 0;
	buf_append_span(&command, SPAN("*3001\r\n$6\r\nEXISTS\r\n"));
	for (int i = 0; i < 3000; i++)
		buf_printf(&command, "$1000\r\n%s\r\n", key);
	assert_false(command.failed);
	struct upload upload = { .bytes = command.ptr, .len = command.len };
	mem_fail_at(ULONG_MAX, false); /* only counts */
	kit_run(&kit, is_sent, &upload);
	peer_expect(&kit, &one, ":0\r\n");
	unsigned long count = mem_fail_count();
	mem_fail_at(0, false);
	assert_true(count < 100);
	buf_free(&command);
}

/* A page in a browser can send these; what it wrote into the body must not be done. */
static void what_a_browser_was_made_to_send_is_not_read_as_commands(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n",
	         "-ERR this is an HTTP request; this listener speaks the Redis protocol\r\n");
	peer_expect_end(&kit, &one);
	peer_close(&one);
	peer_open(&kit, &one);
	peer_ask(&kit, &one, "GET / HTTP/1.1\r\nHost: x\r\nSET a 1\r\n",
	         "-ERR wrong number of arguments for 'get' command\r\n"
	         "-ERR this is an HTTP request; this listener speaks the Redis protocol\r\n");
	peer_expect_end(&kit, &one);
	peer_ask(&kit, &two, "GET a\r\n", "$-1\r\n");
}

static void strangers_may_only_say_who_they_are(void **state)
{
	struct kit_options options = { .password = "secret", .limits = resp_server_limits_default };
	(void)state;
	assert_int_equal(kit_open_with(&kit, &options), 0);
	peer_open(&kit, &one);
	peer_open(&kit, &two);
	peer_ask(&kit, &one, "GET k\r\nPING\r\n",
	         "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
	peer_ask(&kit, &one, "AUTH secreT\r\n",
	         "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	peer_ask(&kit, &one, "AUTH other secret\r\n",
	         "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	peer_ask(&kit, &one, "AUTH default secret\r\nPING\r\n", "+OK\r\n+PONG\r\n");
	peer_ask(&kit, &one, "RESET\r\nGET k\r\n",
	         "+RESET\r\n-NOAUTH Authentication required.\r\n");
	peer_ask(&kit, &two, "*11\r\n",
	         "-ERR Protocol error: unauthenticated multibulk length\r\n");
	peer_expect_end(&kit, &two);
	peer_close(&one);
	peer_close(&two);
	kit_close(&kit);
}

/* Two clients, of which one is sometimes silent. */
static void one_of_two_who_does_not_come_back_holds_nobody_up(void **state)
{
	(void)state;
	peer_ask(&kit, &one, "SET a 1\r\n", "+OK\r\n");
	for (int i = 0; i < 20; i++) {
		peer_say(&one, "SET a 1\r\n");
		peer_say(&two, "GET a\r\nPING\r\n");
		peer_expect(&kit, &one, "+OK\r\n");
		peer_expect(&kit, &two, "$1\r\n1\r\n+PONG\r\n");
		peer_ask(&kit, &one, "GET a\r\n", "$1\r\n1\r\n");
		peer_ask(&kit, &one, "DEL a\r\nSET a 1\r\n", ":1\r\n+OK\r\n");
	}
}

/* ---- peers that do not read, or go away ---- */

static size_t reply_bytes_waiting(void)
{
	struct resp_counters *counters = resp_server_counters(kit.door.server);
	return (size_t)atomic_load(&counters->commands);
}

struct flood {
	const char *text;
	uint64_t commands, still; /* rounds in which nothing more was looked at */
};

static bool is_not_fed(void *user)
{
	struct flood *flood = user;
	peer_send(&one, flood->text, strlen(flood->text));
	uint64_t commands = reply_bytes_waiting();
	flood->still = commands == flood->commands ? flood->still + 1 : 0;
	flood->commands = commands;
	return flood->still > 1000;
}

static void a_peer_that_does_not_read_is_not_fed(void **state)
{
	static char text[65536];
	(void)state;
	char value[1001];
	memset(value, 'v', 1000);
	value[1000] = 0;
	snprintf(text, sizeof(text), "SET k %s\r\n", value);
	peer_ask(&kit, &two, text, "+OK\r\n");
	text[0] = 0;
	for (size_t i = 0; i < 1000; i++)
		memcpy(text + i * 7, "GET k\r\n", 8);
	struct flood flood = { .text = text };
	kit_run(&kit, is_not_fed, &flood);
	/* What waits for it is bounded: its limit, what one round adds, and the kernel's. */
	assert_true(flood.commands < 64u * 1024);
	peer_ask(&kit, &two, "PING\r\n", "+PONG\r\n");
}

struct pour {
	struct upload upload;
	struct flood flood;
};

static bool nothing_more_is_taken(void *user)
{
	struct pour *pour = user;
	(void)is_sent(&pour->upload);
	return is_not_fed(&pour->flood);
}

static void expect_zeros(int count)
{
	struct buf replies = { 0 };
	for (int i = 0; i < count; i++)
		buf_append_span(&replies, SPAN(":0\r\n"));
	buf_append_char(&replies, '\0');
	peer_expect(&kit, &one, replies.ptr);
	buf_free(&replies);
}

/* A key of one letter takes seven bytes of a command, and an operation at the store. */
static void what_commands_of_many_keys_hold_is_bounded(void **state)
{
	(void)state;
	enum { COMMANDS = 40, KEYS = 4000 };
	struct buf commands = { 0 };
	for (int i = 0; i < COMMANDS; i++) {
		buf_printf(&commands, "*%d\r\n$6\r\nEXISTS\r\n", KEYS + 1);
		for (int k = 0; k < KEYS; k++)
			buf_append_span(&commands, SPAN("$1\r\nk\r\n"));
	}
	assert_false(commands.failed);
	struct pour pour = { .upload = { .bytes = commands.ptr, .len = commands.len },
		             .flood = { .text = "" } };
	kit.hold = true;
	kit_run(&kit, nothing_more_is_taken, &pour);
	const struct resp_server_limits *limits = &resp_server_limits_default;
	assert_true(pour.flood.commands > 0);
	assert_true(pour.flood.commands <=
	            1 + limits->weight_bytes / (KEYS * sizeof(struct store_cell)));
	kit.hold = false;
	kit_run(&kit, is_sent, &pour.upload);
	expect_zeros(COMMANDS);
	buf_free(&commands);
}

static uint32_t two_places(const struct store *store)
{
	(void)store;
	return 2;
}

static void without_places_for_all_operations_none_is_done(void **state)
{
	(void)state;
	const struct store_methods *methods = kit.store->methods;
	struct store_methods narrow = *methods;
	narrow.room = two_places;
	kit.store->methods = &narrow;

	peer_ask(&kit, &one, "SET a 1\r\nEXISTS a b\r\n", "+OK\r\n:1\r\n");
	peer_ask(&kit, &one, "DEL a b c\r\n",
	         "-OOM out of memory; the command was not executed\r\n");
	peer_ask(&kit, &one, "MULTI\r\nSET b 1\r\nPING\r\nSCAN 0\r\nSET c 1\r\nEXEC\r\n",
	         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
	         "-OOM out of memory; the command was not executed\r\n");
	peer_ask(&kit, &one, "MULTI\r\nSET d 1\r\nPING\r\nSET e 1\r\nEXEC\r\n",
	         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n+PONG\r\n+OK\r\n");
	kit.store->methods = methods;
	peer_ask(&kit, &one, "EXISTS a b c d e\r\n", ":3\r\n");
}

static struct wire *wire_of_one(void)
{
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	assert_int_equal(getsockname(one.fd, (struct sockaddr *)&own, &len), 0);
	struct wire *wire = kit.door.server->host.wires;
	while (wire && resp_connection_of(wire)->client.port != ntohs(own.sin_port))
		wire = wire->next;
	assert_non_null(wire);
	return wire;
}

static bool is_paused(void *user)
{
	return ((struct wire *)user)->paused;
}

static bool is_stalled(void *user)
{
	return ((struct wire *)user)->stalled;
}

/* It has sent half a command; what it is told fills its line, until it reads again. */
static void a_peer_that_reads_again_has_all_its_time_again(void **state)
{
	static char text[8192];
	(void)state;
	const size_t most = resp_server_limits_default.pipeline, command = strlen("GET k\r\n");
	const size_t reply = strlen("$1000\r\n") + 1000 + 2;
	int small = 4096;
	memcpy(text, "SET k ", 6);
	memset(text + 6, 'v', 1000);
	memcpy(text + 1006, "\r\n", 3);
	peer_ask(&kit, &one, text, "+OK\r\n");
	struct wire *wire = wire_of_one();
	assert_int_equal(wire->timeout.deadline_ms, WHEEL_NEVER);
	setsockopt(wire->handler.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (size_t i = 0; i < most; i++)
		memcpy(text + i * command, "GET k\r\n", command);
	memcpy(text + most * command, "PIN", 4);
	kit.hold = true;
	peer_say(&one, text);
	kit_run(&kit, is_paused, wire);
	kit.hold = false;
	kit_run(&kit, is_stalled, wire);
	assert_int_not_equal(wire->timeout.deadline_ms, WHEEL_NEVER);
	struct peer_wants wants = { .peer = &one, .len = most * reply };
	kit_run(&kit, peer_has, &wants);
	kit_rounds(&kit, 10);
	assert_int_equal(wire->timeout.deadline_ms, WHEEL_NEVER);
	buf_clear(&one.input);
	peer_ask(&kit, &one, "G\r\n", "+PONG\r\n");
}

struct later {
	uint64_t ms; /* loop time */
};

static bool is_later(void *user)
{
	return loop_now_ms(kit.loop) > ((struct later *)user)->ms;
}

static bool has_bytes(void *user)
{
	return ((struct wire *)user)->in_len > 0;
}

static void letters_of_a_word_buy_a_stranger_no_time(void **state)
{
	(void)state;
	struct kit_options options = { .password = "secret", .limits = resp_server_limits_default };
	options.limits.idle_ms = 60 * 1000;
	assert_int_equal(kit_open_with(&kit, &options), 0);
	peer_open(&kit, &one);
	peer_ask(&kit, &one, "HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n");
	kit_rounds(&kit, 10);
	struct wire *wire = wire_of_one();
	uint64_t deadline_ms = wire->timeout.deadline_ms;
	kit_run(&kit, is_later, &(struct later){ loop_now_ms(kit.loop) });
	peer_say(&one, "AU");
	kit_run(&kit, has_bytes, wire);
	kit_rounds(&kit, 10);
	assert_int_equal(wire->timeout.deadline_ms, deadline_ms);
	peer_close(&one);
	kit_close(&kit);
}

static bool has_no_connection(void *user)
{
	(void)user;
	return atomic_load(&resp_server_counters(kit.door.server)->wires.open) == 1;
}

static void a_peer_that_goes_away_takes_nothing_with_it(void **state)
{
	(void)state;
	kit.hold = true;
	peer_say(&one, "SET a 1\r\nGET a\r\nMGET a b c\r\nSCAN 0\r\nMULTI\r\nSET b 1\r\nEXEC\r\n");
	peer_ask(&kit, &two, "PING\r\n", "+PONG\r\n");
	struct linger reset = { .l_onoff = 1 };
	setsockopt(one.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	peer_close(&one);
	kit_run(&kit, has_no_connection, NULL);
	kit.hold = false;
	peer_ask(&kit, &two, "MGET a b\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
	peer_open(&kit, &one);
}

static void a_stop_answers_what_was_asked(void **state)
{
	(void)state;
	kit.hold = true;
	peer_say(&one, "SET a 1\r\n");
	peer_ask(&kit, &two, "PING\r\n", "+PONG\r\n");
	resp_server_drain(kit.door.server);
	peer_expect_end(&kit, &two);
	kit.hold = false;
	peer_expect(&kit, &one, "+OK\r\n");
	peer_expect_end(&kit, &one);
	assert_true(resp_server_drained(kit.door.server));
}

/* ---- scans ---- */

static void a_scan_finds_every_key_that_stays(void **state)
{
	static bool seen[500];
	char text[64];
	unsigned long long cursor = 0;
	(void)state;
	for (int i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "SET key:%d v\r\n", i);
		peer_ask(&kit, &one, text, "+OK\r\n");
	}
	do {
		snprintf(text, sizeof(text), "SCAN %llu COUNT 7 MATCH key:*\r\nPING\r\n", cursor);
		peer_say(&one, text);
		struct peer_wants wants = { .peer = &one, .len = 1 };
		buf_clear(&one.input);
		do {
			kit_run(&kit, peer_has, &wants);
			wants.len = one.input.len + 1;
		} while (one.input.len < 7 ||
		         memcmp(one.input.ptr + one.input.len - 7, "+PONG\r\n", 7) != 0);
		buf_append_char(&one.input, 0);
		assert_int_equal(sscanf(one.input.ptr, "*2\r\n$%*d\r\n%llu\r\n", &cursor), 1);
		for (const char *at = one.input.ptr; (at = strstr(at, "key:")); at += 4)
			seen[strtoul(at + 4, NULL, 10)] = true;
	} while (cursor != 0);
	for (int i = 0; i < 500; i++)
		assert_true(seen[i]);
	buf_clear(&one.input);
}

/* ---- no memory ---- */

static bool is_answered_or_gone(void *user)
{
	static const char end[] = "+PONG\r\n"; /* needs none */
	size_t len = sizeof(end) - 1;
	char bytes[65536];
	ssize_t n;
	(void)user;
	/* Without memory of our own: the plan is for the other side. */
	while ((n = recv(one.fd, bytes, sizeof(bytes), 0)) > 0)
		if ((size_t)n >= len && memcmp(bytes + n - len, end, len) == 0)
			return true;
	return n == 0 || errno != EAGAIN;
}

/* False: the plan had nothing left to fail. */
static bool fail_once(unsigned long nth, bool forever)
{
	struct kit_options options = { .limits = resp_server_limits_default };
	mem_fail_at(nth, forever);
	int error = kit_open_with(&kit, &options);
	if (error) {
		mem_fail_at(0, false);
		assert_int_equal(error, -ENOMEM);
		return true;
	}
	peer_open(&kit, &one);
	peer_say(&one, "SET a 1 NX\r\nGET a\r\nMGET a b c d e f g h i j k l\r\nSCAN 0\r\n"
	               "MULTI\r\nSET a 2\r\nGET a\r\nEXEC\r\nINFO\r\nNOSUCH x\r\n"
	               "DEL a b c\r\nCOMMAND\r\nHELLO 3\r\nPING\r\n");
	if (!kit_try(&kit, is_answered_or_gone, NULL))
		fail_msg("a peer waits for ever when allocation %lu fails", nth);
	unsigned long count = mem_fail_count();
	mem_fail_at(0, false);
	peer_close(&one);
	peer_open(&kit, &two);
	peer_ask(&kit, &two, "PING\r\n", "+PONG\r\n");
	peer_close(&two);
	kit_close(&kit);
	return count >= nth;
}

static void without_memory_peers_are_answered_or_dropped(void **state)
{
	(void)state;
	for (int forever = 0; forever < 2; forever++) {
		unsigned long n = 1;
		while (fail_once(n, forever))
			n++;
		assert_true(n > 30);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, open_kit, close_kit)
		WITH_KIT(a_key_is_taken_once_until_its_time_is_over),
		WITH_KIT(times_are_told_and_changed),
		WITH_KIT(replies_come_in_order_and_wait_for_the_flush),
		WITH_KIT(a_transaction_is_done_as_one_or_not_at_all),
		WITH_KIT(what_all_transactions_wait_with_is_bounded),
		WITH_KIT(a_transaction_whose_replies_could_be_too_large_is_not_done),
		WITH_KIT(what_is_too_large_is_told_and_the_connection_goes_on),
		WITH_KIT(a_command_of_many_arguments_is_moved_a_few_times_only),
		WITH_KIT(what_a_browser_was_made_to_send_is_not_read_as_commands),
		cmocka_unit_test(strangers_may_only_say_who_they_are),
		WITH_KIT(one_of_two_who_does_not_come_back_holds_nobody_up),
		WITH_KIT(a_peer_that_does_not_read_is_not_fed),
		WITH_KIT(what_commands_of_many_keys_hold_is_bounded),
		WITH_KIT(without_places_for_all_operations_none_is_done),
		WITH_KIT(a_peer_that_reads_again_has_all_its_time_again),
		cmocka_unit_test(letters_of_a_word_buy_a_stranger_no_time),
		WITH_KIT(a_peer_that_goes_away_takes_nothing_with_it),
		WITH_KIT(a_stop_answers_what_was_asked),
		WITH_KIT(a_scan_finds_every_key_that_stays),
		cmocka_unit_test(without_memory_peers_are_answered_or_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
