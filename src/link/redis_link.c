/* redis_link: see redis_link.h. */
#include "link/redis_link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "codec/resp_reply.h"
#include "net/tls_client.h"

#define READ_BYTES (64u << 10)
#define IN_BYTES_MAX (1u << 30)

enum link_state { LINK_DOWN = 0, LINK_PAUSING, LINK_CONNECTING, LINK_GREETING, LINK_UP };

/* What the replies of the greeting belong to, in the order they are sent. */
enum greeting { GREET_AUTH = 0, GREET_SELECT, GREET_NAME, GREET_SCRIPT, GREET_COUNT };

struct redis_link {
	struct redis_link_options options;
	enum link_state state;
	struct loop_handler handler;
	struct loop_timer timer; /* the end of a pause, or of the patience with a connect */
	struct tls_client *tls;
	struct buf in, out;
	size_t out_sent;
	struct resp_reply_scan scan;
	bool greets[GREET_COUNT]; /* which are still to be answered */
	uint32_t failures;        /* in a row */
	char sha[REDIS_LINK_SHA_LEN + 1];
	bool reading; /* inside replies_tell(): the buffer stays */
	bool broken;  /* meanwhile it broke */
};

static void ready(struct loop_handler *handler, uint32_t events);
static void timer_due(struct loop_timer *timer);

int redis_link_new(const struct redis_link_options *options, struct redis_link **ret_link)
{
	struct redis_link *link = mem_zalloc(1, sizeof(*link));

	if (!link)
		return -ENOMEM;
	link->options = *options;
	link->handler = (struct loop_handler){ .ready = ready, .fd = -1 };
	link->timer.due = timer_due;
	link->in.cap = IN_BYTES_MAX;
	*ret_link = link;
	return 0;
}

bool redis_link_is_up(const struct redis_link *link)
{
	return link->state == LINK_UP;
}

const struct redis_host *redis_link_host(const struct redis_link *link)
{
	return &link->options.host;
}

const char *redis_link_sha(const struct redis_link *link)
{
	return link->sha;
}

struct buf *redis_link_out(struct redis_link *link)
{
	return &link->out;
}

/* ---- the end of a connection ---- */

static void close_socket(struct redis_link *link)
{
	link->tls = tls_client_free(link->tls);
	if (link->handler.fd >= 0) {
		loop_forget(link->options.loop, &link->handler);
		close(link->handler.fd);
		link->handler.fd = -1;
	}
	loop_timer_clear(link->options.loop, &link->timer);
	buf_clear(&link->out);
	link->out_sent = 0;
	if (link->reading)
		link->broken = true;
	else
		buf_clear(&link->in);
	link->scan = (struct resp_reply_scan){ 0 };
}

static void pause_begin(struct redis_link *link)
{
	uint32_t doublings = link->failures < 6 ? link->failures : 6;
	uint32_t pause_ms = 20u << doublings;

	link->failures++;
	link->state = LINK_PAUSING;
	if (loop_timer_set(link->options.loop, &link->timer,
	                   pause_ms < REDIS_LINK_PAUSE_MAX_MS ? pause_ms
	                                                      : REDIS_LINK_PAUSE_MAX_MS) < 0)
		link->state = LINK_DOWN; /* until somebody starts it again */
}

void redis_link_reset(struct redis_link *link, const char *why)
{
	if (link->state == LINK_DOWN || link->state == LINK_PAUSING)
		return;
	close_socket(link);
	pause_begin(link);
	link->options.down(link->options.user, why);
}

struct redis_link *redis_link_free(struct redis_link *link)
{
	if (!link)
		return NULL;
	close_socket(link);
	buf_free(&link->in);
	buf_free(&link->out);
	return mem_free(link);
}

/* ---- out ---- */

static int send_some(struct redis_link *link, struct span bytes, size_t *ret_len)
{
	if (link->tls)
		return tls_client_send_some(link->tls, bytes, ret_len);
	ssize_t n = send(link->handler.fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	*ret_len = (size_t)n;
	return 0;
}

void redis_link_flush(struct redis_link *link)
{
	if (link->state != LINK_UP && link->state != LINK_GREETING)
		return;
	if (link->out.failed) {
		redis_link_reset(link, "no memory");
		return;
	}
	while (link->out_sent < link->out.len) {
		size_t len = 0;
		int r = send_some(link, span_skip(buf_span(&link->out), link->out_sent), &len);
		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r < 0) {
			redis_link_reset(link, error_name(r));
			return;
		}
		link->out_sent += len;
	}
	buf_clear(&link->out);
	link->out_sent = 0;
}

/* ---- the greeting ---- */

static void greet_auth(struct redis_link *link)
{
	const struct redis_login *login = link->options.login;

	if (login->password[0] == '\0')
		return;
	resp_request_begin(&link->out, login->user[0] ? 3 : 2);
	resp_request_add(&link->out, SPAN("AUTH"));
	if (login->user[0])
		resp_request_add(&link->out, span_str(login->user));
	resp_request_add(&link->out, span_str(login->password));
	link->greets[GREET_AUTH] = true;
}

static void greet(struct redis_link *link)
{
	link->state = LINK_GREETING;
	greet_auth(link);
	if (link->options.login->db > 0) {
		resp_request_begin(&link->out, 2);
		resp_request_add(&link->out, SPAN("SELECT"));
		resp_request_add_u64(&link->out, link->options.login->db);
		link->greets[GREET_SELECT] = true;
	}
	resp_request_begin(&link->out, 3);
	resp_request_add(&link->out, SPAN("CLIENT"));
	resp_request_add(&link->out, SPAN("SETNAME"));
	resp_request_add(&link->out, SPAN("stile"));
	link->greets[GREET_NAME] = true;
	if (link->options.script.len > 0) {
		resp_request_begin(&link->out, 3);
		resp_request_add(&link->out, SPAN("SCRIPT"));
		resp_request_add(&link->out, SPAN("LOAD"));
		resp_request_add(&link->out, link->options.script);
		link->greets[GREET_SCRIPT] = true;
	}
	redis_link_flush(link);
}

static void greeting_refused(struct redis_link *link, const struct resp_reply *value)
{
	char why[160];

	snprintf(why, sizeof(why), "%.*s", (int)(value->text.len < 150 ? value->text.len : 150),
	         value->text.ptr);
	redis_link_reset(link, why);
}

/* A name is nice to have; all else must be granted. */
static void greeting_reply(struct redis_link *link, struct span reply)
{
	struct resp_reply value;
	size_t at = 0;
	enum greeting greeting = GREET_AUTH;

	while (greeting < GREET_COUNT && !link->greets[greeting])
		greeting++;
	CHECK(greeting < GREET_COUNT);
	if (!resp_reply_next(reply, &at, &value))
		return;
	if (value.kind == RESP_REPLY_ERROR && greeting != GREET_NAME) {
		greeting_refused(link, &value);
		return;
	}
	link->greets[greeting] = false;
	if (greeting == GREET_SCRIPT && value.text.len == REDIS_LINK_SHA_LEN)
		memcpy(link->sha, value.text.ptr, REDIS_LINK_SHA_LEN);
	if (greeting == GREET_SCRIPT || (greeting == GREET_NAME && !link->greets[GREET_SCRIPT])) {
		link->state = LINK_UP;
		link->failures = 0;
		loop_timer_clear(link->options.loop, &link->timer);
		link->options.up(link->options.user);
	}
}

/* ---- in ---- */

static int receive_some(struct redis_link *link, size_t *ret_len)
{
	char *at = link->in.ptr + link->in.len;
	size_t room = link->in.room - link->in.len;

	if (link->tls)
		return tls_client_receive(link->tls, at, room, ret_len);
	ssize_t n = recv(link->handler.fd, at, room, 0);
	if (n < 0)
		return -errno;
	*ret_len = (size_t)n;
	return 0;
}

/* Whole replies are told; the rest moves to the front. */
static void replies_tell(struct redis_link *link)
{
	size_t done = 0, len = 0;
	int r = 0;

	link->reading = true;
	link->broken = false;
	while (!link->broken) {
		struct span rest = span_skip(buf_span(&link->in), done);
		r = resp_reply_scan(&link->scan, rest, &len);
		if (r < 0)
			break;
		link->scan = (struct resp_reply_scan){ 0 };
		done += len;
		if (link->state == LINK_GREETING)
			greeting_reply(link, span_of(rest.ptr, len));
		else
			link->options.reply(link->options.user, span_of(rest.ptr, len));
	}
	link->reading = false;
	if (link->broken) {
		buf_clear(&link->in);
		link->scan = (struct resp_reply_scan){ 0 };
		return;
	}
	memmove(link->in.ptr, link->in.ptr + done, link->in.len - done);
	link->in.len -= done;
	if (r != -EAGAIN)
		redis_link_reset(link, "what came is no RESP");
}

static void receive(struct redis_link *link)
{
	for (;;) {
		size_t len = 0;
		int r = buf_reserve(&link->in, READ_BYTES);
		if (r == 0)
			r = receive_some(link, &len);
		if (r == -EAGAIN || r == -EINTR)
			break;
		if (r < 0 || len == 0) {
			redis_link_reset(link,
			                 r < 0 ? error_name(r) : "the server ended the connection");
			return;
		}
		link->in.len += len;
		replies_tell(link);
		if (link->state != LINK_UP && link->state != LINK_GREETING)
			return;
	}
	redis_link_flush(link);
}

/* ---- connecting ---- */

static int shake_hands(struct redis_link *link, struct error_text *ret_text)
{
	const struct redis_login *login = link->options.login;
	int fd = link->handler.fd, flags = fcntl(fd, F_GETFL);
	struct timeval patience = { .tv_sec = REDIS_LINK_SHAKE_MS / 1000 };
	struct tls_client_options options = { .fd = fd,
		                              .host = link->options.host.name,
		                              .ca_file = login->ca_file[0] ? login->ca_file
		                                                           : NULL };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	int r = tls_client_open(&options, &link->tls, ret_text);
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (r == 0)
		tls_client_unblock(link->tls);
	return r;
}

static void connected(struct redis_link *link)
{
	struct error_text text = { "" };
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(link->handler.fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error != 0) {
		redis_link_reset(link, error_name(-error));
		return;
	}
	if (link->options.login->tls && shake_hands(link, &text) < 0) {
		redis_link_reset(link, text.text);
		return;
	}
	greet(link);
}

static int connect_to(struct redis_link *link, const struct addrinfo *address)
{
	int one = 1;

	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS) {
		int error = -errno;
		close(fd);
		return error;
	}
	link->handler.fd = fd;
	return loop_add(link->options.loop, &link->handler, LOOP_READ | LOOP_WRITE | LOOP_EDGE);
}

/* A name may have an address where nobody listens (::1 for localhost): which is known only
 * after a while, so each failure begins with the next one. */
static struct addrinfo *next_address(const struct redis_link *link, struct addrinfo *found)
{
	uint32_t count = 0;

	for (const struct addrinfo *at = found; at; at = at->ai_next)
		count++;
	CHECK(count > 0); /* a name that is found has one */
	for (uint32_t i = link->failures % count; i > 0; i--)
		found = found->ai_next;
	return found;
}

static const char *connect_begin(struct redis_link *link)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	char port[8];

	snprintf(port, sizeof(port), "%u", link->options.host.port);
	int r = getaddrinfo(link->options.host.name, port, &hints, &found);
	if (r != 0)
		return gai_strerror(r);
	r = -ENOENT;
	for (struct addrinfo *at = next_address(link, found); at && r < 0; at = at->ai_next)
		r = connect_to(link, at);
	freeaddrinfo(found);
	return r < 0 ? error_name(r) : NULL;
}

static void link_connect(struct redis_link *link)
{
	link->state = LINK_CONNECTING;
	const char *why = connect_begin(link);
	if (!why && loop_timer_set(link->options.loop, &link->timer, REDIS_LINK_CONNECT_MS) < 0)
		why = "no memory";
	if (why)
		redis_link_reset(link, why);
}

void redis_link_start(struct redis_link *link)
{
	if (link->state == LINK_DOWN)
		link_connect(link);
}

static void timer_due(struct loop_timer *timer)
{
	struct redis_link *link = container_of(timer, struct redis_link, timer);

	if (link->state == LINK_PAUSING)
		link_connect(link);
	else if (link->state != LINK_UP)
		redis_link_reset(link, "no answer in time");
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct redis_link *link = container_of(handler, struct redis_link, handler);

	if (link->state == LINK_CONNECTING && events & (LOOP_WRITE | LOOP_HANGUP))
		connected(link);
	if (link->state != LINK_GREETING && link->state != LINK_UP)
		return;
	if (events & LOOP_WRITE)
		redis_link_flush(link);
	if (events & (LOOP_READ | LOOP_HANGUP) &&
	    (link->state == LINK_GREETING || link->state == LINK_UP))
		receive(link);
}
