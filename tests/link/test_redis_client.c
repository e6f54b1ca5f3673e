/* redis_client: calls of a cluster whose nodes come and go. */
#include "support/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "codec/resp.h"
#include "link/redis_client.h"
#include "sys/thread.h"

#define LIMIT_MS 30000u
#define FIRST_NODES 300u /* more than a client knows */

/* ---- a cluster of two servers, and of many that are not there ---- */

struct peer {
	int fd;
	bool second; /* whose it is */
	char bytes[4096];
	size_t len;
};

struct cluster {
	int listeners[2];
	uint16_t ports[2];
	struct peer peers[8];
	uint32_t peer_count;
	uint32_t asked; /* for the slots */
	struct thread thread;
	atomic_bool end;
};

static void listen_at(struct cluster *cluster, int which)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	cluster->listeners[which] = fd;
	cluster->ports[which] = ntohs(address.sin_port);
}

/* All slots are the second's, but at first: then each node has some, the first the first. */
static void put_slots(struct cluster *cluster, struct buf *out)
{
	uint32_t nodes = cluster->asked++ == 0 ? FIRST_NODES : 1;
	uint32_t each = REDIS_SLOTS / nodes;
	buf_printf(out, "*%u\r\n", nodes);
	for (uint32_t i = 0; i < nodes; i++) {
		uint32_t last = i + 1 < nodes ? (i + 1) * each - 1 : REDIS_SLOTS - 1;
		uint32_t port = nodes == 1 ? cluster->ports[1] : i == 0 ? cluster->ports[0] : i;
		buf_printf(out, "*3\r\n:%u\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", i * each,
		           last, port);
	}
}

/* By the last word of a command; each comes alone. */
static void answer(struct cluster *cluster, struct peer *peer)
{
	struct buf out = { 0 };
	if (memmem(peer->bytes, peer->len, "SETNAME", 7))
		buf_append_span(&out, SPAN("+OK\r\n"));
	if (memmem(peer->bytes, peer->len, "SLOTS", 5))
		put_slots(cluster, &out);
	if (memmem(peer->bytes, peer->len, "GET", 3) && peer->second)
		buf_append_span(&out, SPAN("$5\r\nvalue\r\n"));
	else if (memmem(peer->bytes, peer->len, "GET", 3))
		buf_printf(&out, "-MOVED 0 127.0.0.1:%u\r\n", cluster->ports[1]);
	if (out.len > 0) {
		CHECK(send(peer->fd, out.ptr, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
		peer->len = 0;
	}
	buf_free(&out);
}

static void receive(struct cluster *cluster, struct peer *peer)
{
	ssize_t n = recv(peer->fd, peer->bytes + peer->len, sizeof(peer->bytes) - peer->len, 0);
	if (n <= 0) {
		close(peer->fd);
		peer->fd = -1;
		return;
	}
	peer->len += (size_t)n;
	answer(cluster, peer);
}

static void serve(void *user)
{
	struct cluster *cluster = user;
	while (!atomic_load(&cluster->end)) {
		struct pollfd polls[2 + ARRAY_LEN(cluster->peers)];
		for (uint32_t i = 0; i < 2; i++)
			polls[i] = (struct pollfd){ cluster->listeners[i], POLLIN, 0 };
		uint32_t count = cluster->peer_count;
		for (uint32_t i = 0; i < count; i++)
			polls[2 + i] = (struct pollfd){ cluster->peers[i].fd, POLLIN, 0 };
		poll(polls, 2 + count, 10);
		for (uint32_t i = 0; i < count; i++)
			if (cluster->peers[i].fd >= 0 && polls[2 + i].revents)
				receive(cluster, &cluster->peers[i]);
		for (uint32_t i = 0; i < 2; i++) {
			if (!polls[i].revents)
				continue;
			CHECK(cluster->peer_count < ARRAY_LEN(cluster->peers));
			cluster->peers[cluster->peer_count++] = (struct peer){
				.fd = accept(cluster->listeners[i], NULL, NULL), .second = i == 1
			};
		}
	}
}

static void cluster_start(struct cluster *cluster)
{
	*cluster = (struct cluster){ .end = false };
	listen_at(cluster, 0);
	listen_at(cluster, 1);
	assert_int_equal(thread_start(&cluster->thread,
	                              &(struct thread_options){ .name = "cluster",
	                                                        .cpu = THREAD_ANY_CPU,
	                                                        .run = serve,
	                                                        .user = cluster }),
	                 0);
}

static void cluster_end(struct cluster *cluster)
{
	atomic_store(&cluster->end, true);
	thread_join(&cluster->thread);
	for (uint32_t i = 0; i < cluster->peer_count; i++)
		if (cluster->peers[i].fd >= 0)
			close(cluster->peers[i].fd);
	close(cluster->listeners[0]);
	close(cluster->listeners[1]);
}

/* ---- calls ---- */

struct told {
	struct loop *loop;
	int error;
	char text[32];
};

static void note(struct redis_call *call, int error, struct span reply)
{
	struct told *told = call->user;
	struct resp_reply value;
	size_t at = 0;
	told->error = error;
	if (error == 0 && resp_reply_next(reply, &at, &value))
		snprintf(told->text, sizeof(told->text), "%.*s", (int)value.text.len,
		         value.text.ptr);
	loop_stop(told->loop);
}

/* Those that left made no room: one that came later could never be asked. */
static void test_a_node_is_found_after_many_have_left(void **state)
{
	(void)state;
	struct cluster cluster;
	struct redis_login login = { .cluster = true, .host_count = 1, .shards = 1 };
	struct redis_client *client = NULL;
	struct told told = { .error = 1 };
	struct redis_call call = { .slot = 0, .count = 2, .done = note, .user = &told };

	cluster_start(&cluster);
	snprintf(login.hosts[0].name, sizeof(login.hosts[0].name), "127.0.0.1");
	login.hosts[0].port = cluster.ports[0];
	assert_int_equal(loop_new(&told.loop), 0);
	assert_int_equal(redis_client_new(&(struct redis_client_options){ .loop = told.loop,
	                                                                  .login = &login },
	                                  &client),
	                 0);
	resp_request_add(&call.arguments, SPAN("GET"));
	resp_request_add(&call.arguments, SPAN("key"));
	call.deadline_ms = loop_now_ms(told.loop) + LIMIT_MS;
	redis_client_call(client, &call);
	loop_run(told.loop);
	assert_int_equal(told.error, 0);
	assert_string_equal(told.text, "value");
	redis_client_free(client);
	redis_call_free(&call);
	loop_free(told.loop);
	cluster_end(&cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_node_is_found_after_many_have_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
