/*
 * resp_kit: a Redis door on the model store, in this process, and peers that talk to it
 * over real sockets. Time is a fake clock's. One loop runs both: kit_run() goes on until
 * a condition holds.
 */
#pragma once

#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "door/resp/resp.h"
#include "support/clock_fake.h"
#include "support/model_store.h"
#include "sys/clock.h"
#include "sys/loop.h"

#define KIT_WAIT_NS UINT64_C(60000000000) /* only a hang reaches it */

struct kit {
	struct loop *loop;
	struct store *store;
	struct gauge *gauge;
	struct resp_shared *shared;
	struct resp_door door;
	struct clock_fake clock;
	struct loop_hook flush, check;
	struct loop_timer again;
	bool hold; /* nothing is flushed: commands stay undone */
	uint64_t flushes;
	bool (*until)(void *user);
	void *user;
	uint64_t began_ns;
	bool met;
};

struct peer {
	int fd;
	struct buf input;
	bool ended;
};

struct kit_options {
	const char *password;
	struct resp_server_limits limits;
	bool batch;
};

static inline void kit_flush(struct loop_hook *hook)
{
	struct kit *kit = container_of(hook, struct kit, flush);
	if (kit->hold)
		return;
	do {
		kit->door.asked = false;
		kit->flushes++;
		store_flush(kit->store);
	} while (kit->door.asked);
}

static inline void kit_check(struct loop_hook *hook)
{
	struct kit *kit = container_of(hook, struct kit, check);
	kit->met = kit->until(kit->user);
	if (kit->met || clock_monotonic_ns() - kit->began_ns > KIT_WAIT_NS)
		loop_stop(kit->loop);
	else
		loop_again(kit->loop);
}

static inline bool kit_try(struct kit *kit, bool (*until)(void *user), void *user)
{
	kit->until = until;
	kit->user = user;
	kit->began_ns = clock_monotonic_ns();
	loop_hook_add(kit->loop, &kit->check);
	loop_again(kit->loop);
	loop_run(kit->loop);
	loop_hook_remove(kit->loop, &kit->check);
	return kit->met;
}

static inline void kit_run(struct kit *kit, bool (*until)(void *user), void *user)
{
	assert_true(kit_try(kit, until, user));
}

static inline bool kit_count_down(void *user)
{
	uint32_t *left = user;
	return (*left)-- == 0;
}

static inline void kit_rounds(struct kit *kit, uint32_t count)
{
	kit_run(kit, kit_count_down, &count);
}

static inline void kit_close(struct kit *kit)
{
	if (kit->store)
		kit->store = store_free(kit->store);
	resp_door_close(&kit->door);
	kit->shared = resp_shared_free(kit->shared);
	kit->gauge = gauge_free(kit->gauge);
	kit->loop = loop_free(kit->loop);
}

static inline int kit_open_with(struct kit *kit, const struct kit_options *options)
{
	static const unsigned char key[DIGEST_KEY_LEN] = "0123456789abcde";
	struct span password = span_str(options->password);
	struct error_text text;
	*kit = (struct kit){ .flush.round = kit_flush, .check.round = kit_check };
	clock_fake_init(&kit->clock);
	struct model_store_options store = { .clock = &kit->clock.clock };
	struct resp_options shared = {
		.key = key,
		.scope = SPAN("resp"),
		.passwords = &password,
		.password_count = options->password != NULL,
		.max_value = 1024,
		.version = "test",
	};
	int error = loop_new(&kit->loop);
	if (!error)
		error = model_store_open(&store, &kit->store);
	if (!error)
		error = gauge_new(&kit->gauge);
	if (!error)
		error = resp_shared_new(&shared, &kit->shared);
	if (!error) {
		/* The password is only looked at while the kit lives. */
		static struct span kept;
		kept = password;
		kit->shared->options.passwords = &kept;
		loop_hook_add(kit->loop, &kit->flush);
		struct resp_server_options where = {
			.loop = kit->loop,
			.address = "127.0.0.1:0",
			.limits = options->limits,
			.gauge = kit->gauge,
		};
		error = resp_door_open(&kit->door, kit->shared, kit->store, &where, &text);
	}
	if (!error && options->batch && resp_server_batch(kit->door.server) != 0)
		error = 0; /* without it, by single calls */
	if (error)
		kit_close(kit);
	return error;
}

static inline void kit_open(struct kit *kit)
{
	struct kit_options options = { .limits = resp_server_limits_default, .batch = true };
	assert_int_equal(kit_open_with(kit, &options), 0);
}

/* ---- peers ---- */

static inline void peer_open(struct kit *kit, struct peer *peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(resp_server_port(kit->door.server)),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	*peer = (struct peer){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	assert_true(peer->fd >= 0);
	assert_int_equal(connect(peer->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fcntl(peer->fd, F_SETFL, O_NONBLOCK);
}

static inline void peer_close(struct peer *peer)
{
	close(peer->fd);
	buf_free(&peer->input);
}

/* What the kernel takes at once; how much that was. */
static inline size_t peer_send(struct peer *peer, const void *bytes, size_t len)
{
	ssize_t n = send(peer->fd, bytes, len, MSG_NOSIGNAL);
	return n < 0 ? 0 : (size_t)n;
}

static inline void peer_say(struct peer *peer, const char *text)
{
	assert_int_equal(peer_send(peer, text, strlen(text)), strlen(text));
}

static inline void peer_receive(struct peer *peer)
{
	char bytes[65536];
	ssize_t n;
	while ((n = recv(peer->fd, bytes, sizeof(bytes), 0)) > 0)
		buf_append(&peer->input, bytes, (size_t)n);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		peer->ended = true;
}

struct peer_wants {
	struct peer *peer;
	size_t len;
	bool end;
};

static inline bool peer_has(void *user)
{
	struct peer_wants *wants = user;
	peer_receive(wants->peer);
	return wants->end ? wants->peer->ended
	                  : wants->peer->input.len >= wants->len || wants->peer->ended;
}

/* Waits for exactly these bytes, and takes them. */
static inline void peer_expect(struct kit *kit, struct peer *peer, const char *text)
{
	struct peer_wants wants = { .peer = peer, .len = strlen(text) };
	kit_run(kit, peer_has, &wants);
	char *got = calloc(1, peer->input.len + 1);
	assert_non_null(got);
	if (peer->input.len > 0)
		memcpy(got, peer->input.ptr, peer->input.len);
	assert_string_equal(got, text);
	free(got);
	buf_clear(&peer->input);
}

static inline void peer_expect_end(struct kit *kit, struct peer *peer)
{
	struct peer_wants wants = { .peer = peer, .end = true };
	kit_run(kit, peer_has, &wants);
}

/* Lines as redis-cli takes them, and the bytes that come back. */
static inline void peer_ask(struct kit *kit, struct peer *peer, const char *lines,
                            const char *replies)
{
	peer_say(peer, lines);
	peer_expect(kit, peer, replies);
}
