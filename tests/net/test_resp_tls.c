/* The server of the Redis protocol under TLS: a peer that makes it talk, and does not listen. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/resp/resp_connection.h"
#include "net/web.h"
#include "sys/clock.h"

#define WAIT_NS UINT64_C(60000000000) /* only a hang reaches it */

static struct web_tls tls;
static struct loop *loop;
static struct gauge *gauge;
static struct resp_server *server;
static struct loop_hook hook;
static SSL *ssl;
static int fd;
static bool shaken;
static uint32_t stalled_rounds;
static uint64_t began_ns;

static void handle(struct resp_call *call, const struct span *args, uint32_t count)
{
	(void)args, (void)count;
	resp_call_done(call);
}

static void reply(struct resp_call *call, struct buf *out)
{
	(void)call;
	resp_write_simple(out, SPAN("OK"));
}

static void gone(struct resp_client *client)
{
	(void)client;
}

static int open_all(void **state)
{
	struct error_text text;
	(void)state;
	web_tls_open(&tls, WEB_ECDSA);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(gauge_new(&gauge), 0);
	struct resp_server_options options = { .loop = loop,
		                               .address = "127.0.0.1:0",
		                               .limits = resp_server_limits_default,
		                               .gauge = gauge,
		                               .tls = tls.tls,
		                               .handle = handle,
		                               .reply = reply,
		                               .gone = gone };
	assert_int_equal(resp_server_new(&options, &server, &text), 0);
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(resp_server_port(server)),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	ssl = SSL_new(tls.client);
	assert_non_null(ssl);
	assert_int_equal(SSL_set_fd(ssl, fd), 1);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	SSL_free(ssl);
	close(fd);
	loop_hook_remove(loop, &hook);
	server = resp_server_free(server);
	gauge = gauge_free(gauge);
	loop = loop_free(loop);
	web_tls_close(&tls);
	return 0;
}

static void shake_hands(void)
{
	int small = 4096;
	struct wire *wire = server->host.wires;
	shaken = SSL_connect(ssl) == 1;
	if (shaken)
		setsockopt(wire->handler.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
}

/* Each asks for an answer. */
static void send_key_updates(void)
{
	for (int i = 0; i < 200; i++)
		if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
		    SSL_do_handshake(ssl) != 1)
			return;
}

static void go_on(struct loop_hook *unused)
{
	(void)unused;
	if (!shaken)
		shake_hands();
	else
		send_key_updates();
	stalled_rounds += server->host.wires && server->host.wires->stalled;
	if (stalled_rounds == 200 || clock_monotonic_ns() - began_ns > WAIT_NS)
		loop_stop(loop);
	else
		loop_again(loop);
}

static bool asked;
static char heard[64];

/* Reads what it was sent, and asks for something. */
static void make_up(struct loop_hook *unused)
{
	static size_t len;
	(void)unused;
	asked = asked || SSL_write(ssl, "PING\r\n", 6) == 6;
	int n = SSL_read(ssl, heard + len, (int)(sizeof(heard) - 1 - len));
	len += n > 0 ? (size_t)n : 0;
	if (len == strlen("+OK\r\n") || clock_monotonic_ns() - began_ns > WAIT_NS)
		loop_stop(loop);
	else
		loop_again(loop);
}

static void answers_to_who_does_not_read_are_bounded_also_below_the_commands(void **state)
{
	(void)state;
	began_ns = clock_monotonic_ns();
	hook.round = go_on;
	loop_hook_add(loop, &hook);
	loop_again(loop);
	loop_run(loop);
	assert_int_equal(stalled_rounds, 200);
	size_t pending = outgoing_pending(tls_session_output(server->host.wires->tls));
	assert_true(pending < 256u << 10);
	hook.round = make_up;
	loop_again(loop);
	loop_run(loop);
	assert_string_equal(heard, "+OK\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			answers_to_who_does_not_read_are_bounded_also_below_the_commands, open_all,
			close_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
