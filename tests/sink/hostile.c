/* hostile: see hostile.h. */
#include "sink/hostile.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
	struct hostile *server;
	uint32_t number;
	int fd;
	SSL *ssl;
	uint32_t served; /* requests on this connection */
	size_t len;
	char in[HOSTILE_HEAD_MAX];
};

/* What a path does. */
struct deed {
	const char *path;
	const char *answer; /* sent whole */
	bool early;         /* before the body is read */
	bool close;         /* then closes */
	bool reset;         /* … and without grace */
	bool bytewise;
	bool stall;
	bool second; /* only from the second request of a connection on; the first is well */
};

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static const struct deed deeds[] = {
	{ .path = "/ok", .answer = OK, .close = false },
	{ .path = "/head-close", .answer = "", .early = true, .close = true },
	{ .path = "/read-close", .answer = "", .close = true },
	{ .path = "/read-reset", .answer = "", .close = true, .reset = true },
	{ .path = "/stall", .answer = "", .stall = true },
	{ .path = "/half-head-stall", .answer = "HTTP/1.1 200 OK\r\nContent-Le", .stall = true },
	{ .path = "/half-body-stall",
	  .answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal",
	  .stall = true },
	{ .path = "/slow", .answer = OK, .bytewise = true },
	{ .path = "/half-head", .answer = "HTTP/1.1 200 OK\r\nContent-Le", .close = true },
	{ .path = "/short",
	  .answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes.",
	  .close = true },
	{ .path = "/long", .answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdefgh" },
	{ .path = "/bad-length",
	  .answer = "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc",
	  .close = true },
	{ .path = "/bad-chunk",
	  .answer = "HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	  .close = true },
	{ .path = "/garbage", .answer = "I am no web server\r\n\r\n", .close = true },
	{ .path = "/redirect",
	  .answer =
	          "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" },
	{ .path = "/interim",
	  .answer =
	          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" OK },
	{ .path = "/interim-close", .answer = "HTTP/1.1 102 Processing\r\n\r\n", .close = true },
	{ .path = "/204", .answer = "HTTP/1.1 204 No Content\r\n\r\n" },
	{ .path = "/400", .answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno" },
	{ .path = "/404", .answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" },
	{ .path = "/410", .answer = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n" },
	{ .path = "/413",
	  .answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
	  .early = true,
	  .close = true },
	{ .path = "/429",
	  .answer = "HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n" },
	{ .path = "/503",
	  .answer = "HTTP/1.1 503 Later\r\nretry-after: Thu, 01 Jan 2026 00:01:00 GMT\r\n"
	            "Content-Length: 0\r\n\r\n" },
	{ .path = "/503-never",
	  .answer = "HTTP/1.1 503 Later\r\nRetry-After: 99999999999999999999999\r\n"
	            "Content-Length: 0\r\n\r\n" },
	{ .path = "/503-bare", .answer = "HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n" },
	{ .path = "/no-length", .answer = "HTTP/1.1 200 OK\r\n\r\nuntil the end", .close = true },
	{ .path = "/dirty",
	  .answer = "HTTP/1.1 500 Oh\r\nContent-Length: 13\r\n\r\na\x1b[2J\r\n\xff\xc3\xa4\x7f"
	            "b." },
	{ .path = "/second-close", .answer = "", .close = true, .second = true },
	{ .path = "/second-reset", .answer = "", .close = true, .reset = true, .second = true },
	{ .path = "/idle-close", .answer = OK, .close = true },
};

static ssize_t receive(struct peer *peer, void *bytes, size_t room)
{
	if (peer->ssl)
		return SSL_read(peer->ssl, bytes, (int)room);
	return recv(peer->fd, bytes, room, 0);
}

static bool say(struct peer *peer, const void *bytes, size_t len)
{
	const char *at = bytes;
	while (len > 0) {
		ssize_t n = peer->ssl ? SSL_write(peer->ssl, at, (int)len)
		                      : send(peer->fd, at, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* Reads until the head is there; its length, or 0. */
static size_t read_head(struct peer *peer)
{
	for (;;) {
		char *end = peer->len ? memmem(peer->in, peer->len, "\r\n\r\n", 4) : NULL;
		if (end)
			return (size_t)(end - peer->in) + 4;
		if (peer->len == sizeof(peer->in))
			return 0;
		ssize_t n = receive(peer, peer->in + peer->len, sizeof(peer->in) - peer->len);
		if (n <= 0)
			return 0;
		peer->len += (size_t)n;
	}
}

static size_t length_of(const char *head)
{
	const char *at = strcasestr(head, "\r\nContent-Length:");
	return at ? strtoul(at + 17, NULL, 10) : 0;
}

static void keep_head(struct peer *peer, size_t len)
{
	struct hostile *server = peer->server;
	pthread_mutex_lock(&server->lock);
	memcpy(server->head, peer->in, len);
	server->head[len - 2] = '\0';
	server->head_len = len - 2;
	server->body_len = 0;
	pthread_mutex_unlock(&server->lock);
	atomic_fetch_add(&server->requests, 1);
}

static bool read_body(struct peer *peer, size_t len)
{
	char *body = malloc(len + 1);
	size_t have = peer->len < len ? peer->len : len;
	memcpy(body, peer->in, have);
	memmove(peer->in, peer->in + have, peer->len - have);
	peer->len -= have;
	while (have < len) {
		ssize_t n = receive(peer, body + have, len - have);
		if (n <= 0) {
			free(body);
			return false;
		}
		have += (size_t)n;
	}
	body[len] = '\0';
	pthread_mutex_lock(&peer->server->lock);
	free(peer->server->body);
	peer->server->body = body;
	peer->server->body_len = len;
	pthread_mutex_unlock(&peer->server->lock);
	return true;
}

static const struct deed *find_deed(const char *head)
{
	const char *path = strchr(head, ' ');
	size_t len = path ? strcspn(path + 1, " ?") : 0;
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++)
		if (len == strlen(deeds[i].path) && memcmp(deeds[i].path, path + 1, len) == 0)
			return &deeds[i];
	return &deeds[0];
}

static void wait_for_end(struct peer *peer)
{
	char byte;
	while (receive(peer, &byte, 1) > 0) {
	}
}

static bool answer(struct peer *peer, const struct deed *deed, const char *head)
{
	const char *text = deed->second && peer->served == 1 ? OK : deed->answer;
	if (strstr(head, " /echo")) {
		char start[128];
		int len = snprintf(start, sizeof(start),
		                   "HTTP/1.1 500 Oh\r\nContent-Length: %zu\r\n\r\n", strlen(head));
		return say(peer, start, (size_t)len) && say(peer, head, strlen(head));
	}
	if (strstr(head, " /large")) {
		static const char block[65536] = { 'x' };
		const char *start = "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n";
		bool good = say(peer, start, strlen(start));
		for (int i = 0; good && i < 64; i++)
			good = say(peer, block, sizeof(block));
		return good;
	}
	if (!deed->bytewise)
		return say(peer, text, strlen(text));
	for (const char *at = text; *at; at++)
		if (!say(peer, at, 1))
			return false;
	return true;
}

/* One request; false: the connection ends. */
static bool serve_one(struct peer *peer, bool *ret_reset)
{
	char head[HOSTILE_HEAD_MAX + 1];
	size_t len = read_head(peer);
	if (len == 0)
		return false;
	memcpy(head, peer->in, len);
	head[len] = '\0';
	keep_head(peer, len);
	memmove(peer->in, peer->in + len, peer->len - len);
	peer->len -= len;
	peer->served++;
	const struct deed *deed = find_deed(head);
	if (!deed->early && !read_body(peer, length_of(head)))
		return false;
	if (!answer(peer, deed, head))
		return false;
	if (deed->stall)
		wait_for_end(peer);
	bool ends = deed->close && (!deed->second || peer->served > 1);
	*ret_reset = ends && deed->reset;
	return !ends && !deed->stall;
}

static bool read_exactly(struct peer *peer, void *bytes, size_t len)
{
	char *at = bytes;
	while (len > 0) {
		ssize_t n = receive(peer, at, len);
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* Enough of HTTP/2 to count requests and answer 200: ":status: 200" is one byte of
 * HPACK's static table, and what the client says need not be read. */
static void serve_http2(struct peer *peer)
{
	static const unsigned char settings[] = { 0, 0, 0, 4, 0, 0, 0, 0, 0 };
	unsigned char goaway[] = { 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const unsigned char ack[] = { 0, 0, 0, 4, 1, 0, 0, 0, 0 };
	unsigned char frame[9 + 65536];
	char preface[24];
	if (!read_exactly(peer, preface, sizeof(preface)) || !say(peer, settings, sizeof(settings)))
		return;
	while (read_exactly(peer, frame, 9)) {
		size_t len = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
		unsigned char type = frame[3], flags = frame[4];
		unsigned char stream[4];
		memcpy(stream, frame + 5, 4);
		if (len > 65536 || !read_exactly(peer, frame + 9, len))
			return;
		unsigned limit = peer->number == 0 ? peer->server->http2_last : 0;
		if (type == 1 && limit && peer->served == limit) {
			if (!peer->len)
				say(peer, goaway, sizeof(goaway));
			peer->len = 1; /* said once */
		}
		if (peer->len && (type != 0 && type != 1))
			continue;
		if (peer->len && memcmp(stream, goaway + 9, 4) > 0)
			continue; /* not begun, as was said */
		if (type == 1) {
			atomic_fetch_add(&peer->server->requests, 1);
			memcpy(goaway + 9, stream, 4);
			peer->served++;
		}
		if (type == 4 && !(flags & 1) && !say(peer, ack, sizeof(ack)))
			return;
		if (type <= 1 && flags & 1) { /* END_STREAM */
			unsigned char head[] = { 0,         0,         1,         1,         5,
				                 stream[0], stream[1], stream[2], stream[3], 0x88 };
			unsigned char reset[] = { 0,
				                  0,
				                  4,
				                  3,
				                  0,
				                  stream[0],
				                  stream[1],
				                  stream[2],
				                  stream[3],
				                  0,
				                  0,
				                  0,
				                  peer->server->http2_error };
			bool refuse = peer->server->http2_error != 0;
			if (!say(peer, refuse ? reset : head,
			         refuse ? sizeof(reset) : sizeof(head)))
				return;
		}
	}
}

static bool open_tls(struct peer *peer)
{
	if (!peer->server->tls)
		return true;
	peer->ssl = SSL_new(peer->server->tls);
	return peer->ssl && SSL_set_fd(peer->ssl, peer->fd) == 1 && SSL_accept(peer->ssl) == 1;
}

static void end_peer(struct peer *peer, bool reset)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	if (reset)
		setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	if (peer->ssl && !reset && SSL_is_init_finished(peer->ssl))
		SSL_shutdown(peer->ssl);
	SSL_free(peer->ssl);
	pthread_mutex_lock(&peer->server->lock);
	close(peer->fd);
	peer->server->sockets[peer->number] = -1;
	pthread_mutex_unlock(&peer->server->lock);
	free(peer);
}

static void *serve(void *argument)
{
	struct peer *peer = argument;
	bool reset = false;
	if (!peer->server->deaf && open_tls(peer)) {
		if (peer->server->http2)
			serve_http2(peer);
		else
			while (serve_one(peer, &reset)) {
			}
	}
	end_peer(peer, reset);
	return NULL;
}

static void *accept_all(void *argument)
{
	struct hostile *server = argument;
	while (!atomic_load(&server->stop)) {
		int fd = accept(server->fd, NULL, NULL);
		if (fd < 0)
			break;
		uint32_t number = atomic_fetch_add(&server->connections, 1);
		assert_true(number < HOSTILE_CONNECTIONS_MAX);
		struct peer *peer = calloc(1, sizeof(*peer));
		*peer = (struct peer){ .server = server, .number = number, .fd = fd };
		pthread_mutex_lock(&server->lock);
		server->sockets[number] = fd;
		pthread_mutex_unlock(&server->lock);
		pthread_create(&server->workers[number], NULL, serve, peer);
	}
	return NULL;
}

void hostile_open(struct hostile *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to whom it may, on both sides */
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server->fd, 128), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &size), 0);
	server->port = ntohs(address.sin_port);
	pthread_mutex_init(&server->lock, NULL);
	pthread_create(&server->thread, NULL, accept_all, server);
}

void hostile_close(struct hostile *server)
{
	atomic_store(&server->stop, true);
	shutdown(server->fd, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	pthread_mutex_lock(&server->lock);
	for (uint32_t i = 0; i < server->connections; i++)
		if (server->sockets[i] >= 0)
			shutdown(server->sockets[i], SHUT_RDWR);
	pthread_mutex_unlock(&server->lock);
	for (uint32_t i = 0; i < server->connections; i++)
		pthread_join(server->workers[i], NULL);
	close(server->fd);
	SSL_CTX_free(server->tls);
	free(server->body);
	pthread_mutex_destroy(&server->lock);
}

bool hostile_has(struct hostile *server, const char *text)
{
	pthread_mutex_lock(&server->lock);
	bool has = strstr(server->head, text) != NULL;
	pthread_mutex_unlock(&server->lock);
	return has;
}

bool hostile_begins(struct hostile *server, const char *text)
{
	pthread_mutex_lock(&server->lock);
	bool begins = strncmp(server->head, text, strlen(text)) == 0;
	pthread_mutex_unlock(&server->lock);
	return begins;
}

bool hostile_body_is(struct hostile *server, const char *text)
{
	pthread_mutex_lock(&server->lock);
	bool is = server->body && strcmp(server->body, text) == 0;
	pthread_mutex_unlock(&server->lock);
	return is;
}

bool hostile_has_line(struct hostile *server, const char *line)
{
	char wanted[1024];
	snprintf(wanted, sizeof(wanted), "\r\n%s\r\n", line);
	return hostile_has(server, wanted);
}

bool hostile_has_name(struct hostile *server, const char *name)
{
	char wanted[256];
	snprintf(wanted, sizeof(wanted), "\r\n%s:", name);
	pthread_mutex_lock(&server->lock);
	bool has = strcasestr(server->head, wanted) != NULL;
	pthread_mutex_unlock(&server->lock);
	return has;
}
