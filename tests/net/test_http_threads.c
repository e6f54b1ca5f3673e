/* Two io threads on one port, with one gauge: what they share, and the end. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "net/http/http_server.h"
#include "support/test.h"

#define THREADS 2
#define CLIENTS 4
#define CONNECTIONS 40
#define REQUESTS 5

struct io {
	struct loop *loop;
	struct http_server *server;
	struct loop_hook hook;
	pthread_t thread;
};

static atomic_bool draining;
static uint16_t port;

static void answer(struct http_request *request)
{
	http_respond(request, &(struct http_response){ .status = 200, .body = request->body });
}

static void end_when_drained(struct loop_hook *hook)
{
	struct io *io = container_of(hook, struct io, hook);
	if (!atomic_load(&draining))
		return;
	http_server_drain(io->server);
	if (http_server_drained(io->server))
		loop_stop(io->loop);
	else
		loop_again(io->loop);
}

static void *run_loop(void *user)
{
	loop_run(((struct io *)user)->loop);
	return NULL;
}

static void start(struct io *io, struct gauge *gauge, const struct http_server *other)
{
	struct error_text text;
	assert_int_equal(loop_new(&io->loop), 0);
	struct http_server_options options = {
		.loop = io->loop,
		.address = "127.0.0.1:0",
		.joins = other,
		.limits = http_limits_default,
		.gauge = gauge,
		.handle = answer,
	};
	if (http_server_new(&options, &io->server, &text))
		fail_msg("%s", text.text);
	int error = http_server_batch(io->server);
	assert_true(error == 0 || error == -ENOSYS || error == -EPERM);
	port = http_server_port(io->server);
	io->hook.round = end_when_drained;
	loop_hook_add(io->loop, &io->hook);
	assert_int_equal(pthread_create(&io->thread, NULL, run_loop, io), 0);
}

/* True when all requests on one connection got their answers. */
static bool talk(int fd)
{
	static const char request[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok";
	for (int i = 0; i < REQUESTS; i++) {
		char bytes[512];
		size_t len = 0;
		if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
			return false;
		do {
			ssize_t n = recv(fd, bytes + len, sizeof(bytes) - len, 0);
			if (n <= 0)
				return false;
			len += (size_t)n;
		} while (!memmem(bytes, len, "\r\n\r\nok", 6));
	}
	return true;
}

static void *run_client(void *user)
{
	int *failures = user;
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(port),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = 20 };
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) || !talk(fd))
			++*failures;
		close(fd);
	}
	return NULL;
}

static void io_threads_share_a_port_and_a_gauge(void **state)
{
	(void)state;
	struct gauge *gauge;
	struct io ios[THREADS] = { 0 };
	pthread_t clients[CLIENTS];
	int failures[CLIENTS] = { 0 };
	uint64_t requests = 0;
	assert_int_equal(gauge_new(&gauge), 0);
	for (int i = 0; i < THREADS; i++)
		start(&ios[i], gauge, i > 0 ? ios[0].server : NULL);
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&clients[i], NULL, run_client, &failures[i]), 0);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i], NULL);
		assert_int_equal(failures[i], 0);
	}
	atomic_store(&draining, true);
	for (int i = 0; i < THREADS; i++) {
		loop_wake(ios[i].loop);
		pthread_join(ios[i].thread, NULL);
		requests += atomic_load(&http_server_counters(ios[i].server)->requests);
		http_server_free(ios[i].server);
		loop_free(ios[i].loop);
	}
	assert_int_equal(requests, CLIENTS * CONNECTIONS * REQUESTS);
	gauge_free(gauge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(io_threads_share_a_port_and_a_gauge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
