/* ask: the small client behind `stile why`. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/ask.h"
#include "support/test.h"
#include "sys/thread.h"

/* One byte more than the kernel takes: 108. */
#define TWENTY "01234567890123456789"
#define LONG_PATH "unix:/1234567" TWENTY TWENTY TWENTY TWENTY TWENTY

static void test_addresses_are_read_strictly(void **state)
{
	(void)state;
	static const struct {
		const char *url;
		const char *host;
		const char *port;
	} good[] = {
		{ "http://127.0.0.1:8080", "127.0.0.1", "8080" },
		{ "http://localhost/", "localhost", "80" },
		{ "http://[::1]:9/", "::1", "9" },
		{ "http://[::1]", "::1", "80" },
		{ "https://gate.example.com", "gate.example.com", "443" },
		{ "https://[::1]:8443/", "::1", "8443" },
		{ "unix:/run/stile/admin.sock", "/run/stile/admin.sock", "" },
	};
	static const char *const bad[] = {
		"",
		"http://",
		"http:///",
		"https://",
		"ftp://127.0.0.1",
		"127.0.0.1:8080",
		"http://a:0",
		"http://a:65536",
		"http://a:",
		"http://a:8080x",
		"http://a/b",
		"http://u:p@a",
		"http://[::1]x",
		"http://[::1",
		"http://a b",
		"http://a:000000000080",
		"unix:",
		"unix:/",
		"unix:admin.sock",
		LONG_PATH,
	};
	struct ask_address address;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(ask_parse_url(good[i].url, &address, NULL), 0);
		assert_string_equal(address.host, good[i].host);
		assert_string_equal(address.port, good[i].port);
		assert_int_equal(address.secure, good[i].url[4] == 's');
		assert_int_equal(address.local, good[i].url[0] == 'u');
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error_text text = { "" };
		if (ask_parse_url(bad[i], &address, &text) != ERR_INVALID)
			fail_msg("\"%s\" is accepted", bad[i]);
		assert_non_null(strstr(text.text, "http://HOST:PORT"));
	}
}

static void test_values_are_encoded(void **state)
{
	(void)state;
	struct buf text = { 0 };
	ask_encode(&text, SPAN("a-Z_0.~ &=%é\n"));
	buf_append_char(&text, 0);
	assert_string_equal(text.ptr, "a-Z_0.~%20%26%3D%25%C3%A9%0A");
	buf_free(&text);
}

static void test_an_answer_that_is_not_whole_is_refused(void **state)
{
	(void)state;
	static const char whole[] =
		"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length:  5 \r\n\r\nhello";
	uint16_t status = 0;
	struct span body = SPAN_EMPTY;
	assert_int_equal(ask_parse_answer(span_str(whole), &status, &body), 0);
	assert_int_equal(status, 200);
	assert_true(span_eq(body, SPAN("hello")));
	for (size_t len = 0; len < sizeof(whole) - 1; len++)
		assert_int_equal(ask_parse_answer(span_of(whole, len), &status, &body),
		                 ERR_INVALID);
	static const char *const bad[] = {
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-Content-Length: 0\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ask_parse_answer(span_str(bad[i]), &status, &body), ERR_INVALID);
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
	int r = ask_get(&(struct ask_options){ .url = server.url }, SPAN("/v1/why?id=a"), &out,
	                NULL);
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
	int r = ask_get(&(struct ask_options){ .url = server.url }, SPAN("/"), &out, &text);
	server_end(&server);
	assert_int_equal(r, ERR_INVALID);
	assert_string_equal(text.text, "the gateway says 400: limit is \"a\" number");
	assert_int_equal(out.len, 0);
	server_begin(&server, "hello\r\n\r\n");
	r = ask_get(&(struct ask_options){ .url = server.url }, SPAN("/"), &out, &text);
	server_end(&server);
	assert_int_equal(r, ERR_INVALID);
	assert_string_equal(text.text, "what answers there is no gateway");
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
	int r = ask_get(&(struct ask_options){ .url = server.url }, SPAN("/"), &out, &text);
	assert_int_equal(r, -ECONNREFUSED);
	assert_non_null(strstr(text.text, "no gateway answers at 127.0.0.1 port "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_are_read_strictly),
		cmocka_unit_test(test_values_are_encoded),
		cmocka_unit_test(test_an_answer_that_is_not_whole_is_refused),
		cmocka_unit_test(test_a_question_is_asked_and_its_answer_given),
		cmocka_unit_test(test_a_refusal_says_what_the_gateway_said),
		cmocka_unit_test(test_nobody_there_is_told_with_the_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
