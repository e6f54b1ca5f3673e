/*
 * sink: an HTTP server that takes events, for benchmarks and tests of delivery.
 *
 *   sink --port 9000 [--status 200] [--delay-ms 0] [--cpu N]
 *
 * It answers every request with the status, after the delay, and counts requests and
 * the distinct values of their Idempotency-Key (so a key that came again is seen). GET
 * /stats answers {"requests":…,"keys":…,"repeats":…,"bytes":…} and is not counted; POST
 * /status/503 and POST /delay/250 change what it does from then on. It prints
 * "ready PORT" when it listens (--port 0: any).
 *
 * One thread, HTTP/1.1 with keep-alive; it trusts its peers to speak it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "sys/loop.h"

#define FIRST_ROOM 16384u
#define ROOM_MAX (64u << 20)

/* Keys that were seen, by a hash of 64 bits. */
struct keys {
	uint64_t *slots;
	size_t room, count;
};

struct server {
	struct loop *loop;
	struct loop_handler listener;
	struct loop_timer timer; /* for the first of those that wait */
	struct peer *waiting, **waiting_end;
	unsigned status, delay_ms;
	uint64_t requests, repeats, bytes;
	struct keys keys;
};

struct peer {
	struct loop_handler handler;
	struct server *server;
	struct peer *next; /* waiting */
	uint64_t due_ms;
	bool waits, gone;
	char *in;
	size_t len, room;
};

/* True when it was there before. */
static bool add_key(struct keys *keys, uint64_t key)
{
	size_t at = key & (keys->room - 1);
	while (keys->slots[at] && keys->slots[at] != key)
		at = (at + 1) & (keys->room - 1);
	if (keys->slots[at])
		return true;
	keys->slots[at] = key;
	keys->count++;
	return false;
}

static void grow_keys(struct keys *keys)
{
	struct keys grown = { .room = keys->room ? keys->room * 2 : 1u << 16 };
	if (keys->count * 2 < keys->room)
		return;
	grown.slots = mem_zalloc(grown.room, sizeof(uint64_t));
	CHECK(grown.slots);
	for (size_t i = 0; i < keys->room; i++)
		if (keys->slots[i])
			add_key(&grown, keys->slots[i]);
	mem_free(keys->slots);
	*keys = grown;
}

static void end_peer(struct peer *peer)
{
	loop_forget(peer->server->loop, &peer->handler);
	close(peer->handler.fd);
	peer->gone = true;
	if (peer->waits)
		return; /* freed when its answer is due */
	mem_free(peer->in);
	mem_free(peer);
}

static void say(struct peer *peer, const char *text, size_t len)
{
	ssize_t n = send(peer->handler.fd, text, len, MSG_NOSIGNAL);
	CHECK(n == (ssize_t)len || n < 0); /* answers are short */
}

static void answer(struct peer *peer)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "HTTP/1.1 %u Ok\r\nContent-Length: 2\r\n\r\nok",
	                   peer->server->status);
	say(peer, text, (size_t)len);
}

static void tell_stats(struct peer *peer)
{
	const struct server *server = peer->server;
	char body[256], head[128];
	int body_len = snprintf(body, sizeof(body),
	                        "{\"requests\":%" PRIu64 ",\"keys\":%zu,\"repeats\":%" PRIu64
	                        ",\"bytes\":%" PRIu64 "}\n",
	                        server->requests, server->keys.count, server->repeats,
	                        server->bytes);
	int head_len = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
	                        body_len);
	say(peer, head, (size_t)head_len);
	say(peer, body, (size_t)body_len);
}

/* The value of a header, from its first byte to the end of its line; NULL: none. */
static const char *find_header(const char *head, const char *name, size_t *ret_len)
{
	const char *at = strcasestr(head, name);
	if (!at)
		return NULL;
	at += strlen(name);
	at += strspn(at, " ");
	*ret_len = strcspn(at, "\r");
	return at;
}

static void count_key(struct server *server, const char *head)
{
	size_t len;
	const char *key = find_header(head, "\r\nIdempotency-Key:", &len);
	if (!key)
		return;
	grow_keys(&server->keys);
	uint64_t hash = hash_checksum64(key, len, 0);
	if (add_key(&server->keys, hash ? hash : 1))
		server->repeats++;
}

static void wait_to_answer(struct peer *peer)
{
	struct server *server = peer->server;
	peer->due_ms = loop_now_ms(server->loop) + server->delay_ms;
	peer->waits = true;
	peer->next = NULL;
	if (!server->waiting)
		CHECK(loop_timer_set(server->loop, &server->timer, server->delay_ms) == 0);
	*server->waiting_end = peer;
	server->waiting_end = &peer->next;
}

static void take_request(struct peer *peer, const char *head, size_t bytes)
{
	struct server *server = peer->server;
	if (strncmp(head, "GET /stats ", 11) == 0) {
		tell_stats(peer);
		return;
	}
	if (strncmp(head, "POST /status/", 13) == 0 || strncmp(head, "POST /delay/", 12) == 0) {
		unsigned long value = strtoul(strchr(head + 6, '/') + 1, NULL, 10);
		*(head[6] == 's' ? &server->status : &server->delay_ms) = (unsigned)value;
		say(peer, "HTTP/1.1 204 Ok\r\n\r\n", 19);
		return;
	}
	server->requests++;
	server->bytes += bytes;
	count_key(server, head);
	if (server->delay_ms > 0)
		wait_to_answer(peer);
	else
		answer(peer);
}

/* Takes one request off the front; false: there is none yet. */
static bool take_one(struct peer *peer)
{
	size_t len;
	char *end = peer->len ? memmem(peer->in, peer->len, "\r\n\r\n", 4) : NULL;
	if (!end || peer->waits)
		return false;
	end[2] = '\0';
	const char *length = find_header(peer->in, "\r\nContent-Length:", &len);
	size_t body = length ? strtoul(length, NULL, 10) : 0;
	size_t whole = (size_t)(end - peer->in) + 4 + body;
	CHECK(whole < ROOM_MAX);
	if (whole > peer->len) {
		end[2] = '\r';
		return false;
	}
	take_request(peer, peer->in, whole);
	memmove(peer->in, peer->in + whole, peer->len - whole);
	peer->len -= whole;
	return true;
}

static void answer_due(struct loop_timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);
	uint64_t now_ms = loop_now_ms(server->loop);
	while (server->waiting && server->waiting->due_ms <= now_ms) {
		struct peer *peer = server->waiting;
		server->waiting = peer->next;
		if (!server->waiting)
			server->waiting_end = &server->waiting;
		peer->waits = false;
		if (peer->gone) {
			mem_free(peer->in);
			mem_free(peer);
			continue;
		}
		answer(peer);
		while (take_one(peer)) {
		}
	}
	if (server->waiting)
		CHECK(loop_timer_set(server->loop, timer, server->waiting->due_ms - now_ms) == 0);
}

static void make_room(struct peer *peer)
{
	if (peer->len + 1 < peer->room)
		return;
	CHECK(peer->room < ROOM_MAX);
	peer->room = peer->room ? peer->room * 2 : FIRST_ROOM;
	peer->in = mem_realloc(peer->in, peer->room);
	CHECK(peer->in);
}

static void read_peer(struct loop_handler *handler, uint32_t events)
{
	struct peer *peer = container_of(handler, struct peer, handler);
	(void)events;
	make_room(peer);
	ssize_t n = recv(handler->fd, peer->in + peer->len, peer->room - peer->len - 1, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end_peer(peer);
		return;
	}
	peer->len += (size_t)n;
	while (take_one(peer)) {
	}
}

static void accept_peer(struct loop_handler *handler, uint32_t events)
{
	struct server *server = container_of(handler, struct server, listener);
	int one = 1;
	(void)events;
	int fd = accept4(handler->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	struct peer *peer = mem_zalloc(1, sizeof(*peer));
	CHECK(peer);
	peer->server = server;
	peer->handler = (struct loop_handler){ .ready = read_peer, .fd = fd };
	CHECK(loop_add(server->loop, &peer->handler, LOOP_READ) == 0);
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	socklen_t size = sizeof(address);
	int one = 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024)) {
		perror("sink");
		exit(1);
	}
	CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	printf("ready %u\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sink: --cpu");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "status", required_argument, NULL, 's' },
		{ "delay-ms", required_argument, NULL, 'd' },
		{ "cpu", required_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	struct server server = { .status = 200 };
	unsigned long port = 0;
	for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (id) {
		case 'p': port = strtoul(optarg, NULL, 10); break;
		case 's': server.status = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'd': server.delay_ms = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'c': pin((int)strtoul(optarg, NULL, 10)); break;
		default:
			fprintf(stderr, "usage: sink [--port N] [--status N] [--delay-ms N] "
			                "[--cpu N]\n");
			return 2;
		}
	}
	server.waiting_end = &server.waiting;
	server.timer.due = answer_due;
	server.listener = (struct loop_handler){ .ready = accept_peer, .fd = -1 };
	CHECK(loop_new(&server.loop) == 0);
	server.listener.fd = listen_on((uint16_t)port);
	CHECK(loop_add(server.loop, &server.listener, LOOP_READ) == 0);
	loop_run(server.loop);
	return 0;
}
