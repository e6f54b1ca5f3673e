/* gateway: the questions of the commands to a running gateway. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/gateway.h"
#include "support/test.h"
#include "sys/thread.h"

/* One byte more than the kernel takes: 108. */
#define TWENTY "01234567890123456789"
#define LONG_PATH "unix:/1234567" TWENTY TWENTY TWENTY TWENTY TWENTY

static void test_addresses_are_read_strictly(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		"http://",
		"http:///",
		"https://",
		"ftp://127.0.0.1",
		"127.0.0.1:8080",
		"http://a:0",
		"http://a:65536",
		"http://a:8080x",
		"http://a/b",
		"http://a?b",
		"http://a/?b",
		"http://a#b",
		"http://u:p@a",
		"http://[::1]x",
		"http://[::1",
		"http://a b",
		"unix:",
		"unix:/",
		"unix:admin.sock",
		LONG_PATH,
	};
	struct buf out = { 0 };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error_text text = { "" };
		const struct gateway_options options = { .url = bad[i] };
		if (gateway_get(&options, SPAN("/"), &out, &text) != ERR_INVALID)
			fail_msg("\"%s\" is accepted", bad[i]);
		assert_non_null(strstr(text.text, "http://HOST:PORT"));
	}
}

static void test_a_parameter_is_encoded(void **state)
{
	(void)state;
	struct buf text = { 0 };
	gateway_add_parameter(&text, "id", "a-Z_0.~ &=%\n");
	gateway_add_parameter(&text, "source", NULL);
	assert_true(span_eq(buf_span(&text), SPAN("&id=a-Z_0.~%20%26%3D%25%0A")));
	buf_free(&text);
}

/* A server for one question. */
struct server {
	int fd;
	char url[64];
	const char *answer;
	char question[512];
	struct thread thread;
};

static void serve_one(void *user)
{
	struct server *server = user;
	int fd = accept(server->fd, NULL, NULL);
	size_t len = 0;
	while (fd >= 0 && !strstr(server->question, "\r\n\r\n")) {
		ssize_t n = read(fd, server->question + len, sizeof(server->question) - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (fd >= 0 && write(fd, server->answer, strlen(server->answer)) >= 0)
		close(fd);
}

static void server_begin(struct server *server, const char *answer)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	*server = (struct server){ .answer = answer };
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->fd >= 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server->fd, 1), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	struct thread_options options = { "server", THREAD_ANY_CPU, serve_one, server };
	assert_int_equal(thread_start(&server->thread, &options), 0);
}

static void server_end(struct server *server)
{
	thread_join(&server->thread);
	close(server->fd);
}

static void test_a_question_is_asked_and_its_answer_given(void **state)
{
	(void)state;
	struct server server;
	struct buf out = { 0 };
	server_begin(&server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
	int r = gateway_get(&(struct gateway_options){ .url = server.url }, SPAN("/v1/why?id=a"),
	                    &out, NULL);
	server_end(&server);
	assert_int_equal(r, 0);
	assert_true(span_eq(buf_span(&out), SPAN("hello")));
	assert_memory_equal(server.question, "GET /v1/why?id=a HTTP/1.1\r\nHost: 127.0.0.1:", 43);
	buf_free(&out);
}

static void test_a_refusal_says_what_the_gateway_said(void **state)
{
	(void)state;
	struct server server;
	struct buf out = { 0 };
	struct error_text text = { "" };
	server_begin(&server, "HTTP/1.1 400 Bad Request\r\nContent-Length: 34\r\n\r\n"
	                      "{\"detail\":\"limit is \\\"a\\\" number\"}");
	int r = gateway_get(&(struct gateway_options){ .url = server.url }, SPAN("/"), &out, &text);
	server_end(&server);
	assert_int_equal(r, ERR_INVALID);
	assert_string_equal(text.text, "the gateway says 400: limit is \"a\" number");
	assert_int_equal(out.len, 0);
}

static void test_an_answer_that_is_not_whole_or_not_http_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *answer;
		int error;
		const char *text;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", ERR_DAMAGED,
		  "ended before" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhello", ERR_DAMAGED,
		  "ended before" },
		{ "SSH-2.0-OpenSSH\r\n\r\n", ERR_INVALID, "is no gateway; if it listens with TLS" },
		{ "\x15\x03\x03", ERR_INVALID, "is no gateway; if it listens with TLS" },
		{ "", ERR_INVALID, "is no gateway; if it listens with TLS" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server server;
		struct buf out = { 0 };
		struct error_text text = { "" };
		server_begin(&server, cases[i].answer);
		int r = gateway_get(&(struct gateway_options){ .url = server.url }, SPAN("/"), &out,
		                    &text);
		server_end(&server);
		assert_int_equal(r, cases[i].error);
		if (!strstr(text.text, cases[i].text))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].text, text.text);
		assert_int_equal(out.len, 0);
	}
}

/* A proxy of the environment never sees a question, nor its token. */
static void test_proxies_of_the_environment_are_not_used(void **state)
{
	(void)state;
	struct server server;
	struct buf out = { 0 };
	assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
	assert_int_equal(setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
	server_begin(&server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	int r = gateway_get(&(struct gateway_options){ .url = server.url }, SPAN("/"), &out, NULL);
	server_end(&server);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	assert_int_equal(r, 0);
	buf_free(&out);
}

static void test_nobody_there_is_told_with_the_address(void **state)
{
	(void)state;
	struct server server;
	struct buf out = { 0 };
	struct error_text text = { "" };
	server_begin(&server, "");
	int fd = socket(AF_INET, SOCK_STREAM, 0); /* let its accept go */
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	assert_int_equal(getsockname(server.fd, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
	shutdown(fd, SHUT_RDWR);
	server_end(&server);
	close(fd);
	int r = gateway_get(&(struct gateway_options){ .url = server.url }, SPAN("/"), &out, &text);
	assert_int_equal(r, -ECONNREFUSED);
	assert_non_null(strstr(text.text, "no gateway answers at 127.0.0.1 port "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_are_read_strictly),
		cmocka_unit_test(test_a_parameter_is_encoded),
		cmocka_unit_test(test_a_question_is_asked_and_its_answer_given),
		cmocka_unit_test(test_a_refusal_says_what_the_gateway_said),
		cmocka_unit_test(test_an_answer_that_is_not_whole_or_not_http_is_refused),
		cmocka_unit_test(test_proxies_of_the_environment_are_not_used),
		cmocka_unit_test(test_nobody_there_is_told_with_the_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
