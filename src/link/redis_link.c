/* redis_link: see redis_link.h. */
#include "link/redis_link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/resp_reply.h"
#include "net/tls/tls_client.h"

#define READ_BYTES (64u << 10)
#define IN_BYTES_MAX (1u << 30)
#define LOOK_MS 5u /* between two looks for the answer */

enum link_state {
	LINK_DOWN = 0,
	LINK_PAUSING,
	LINK_LOOKING, /* for the addresses of its name */
	LINK_CONNECTING,
	LINK_SHAKING, /* hands, over TLS */
	LINK_GREETING,
	LINK_UP
};

/* What the replies of the greeting belong to, in the order they are sent. */
enum greeting { GREET_AUTH = 0, GREET_SELECT, GREET_NAME, GREET_SCRIPT, GREET_COUNT };

struct redis_link {
	struct redis_link_options options;
	enum link_state state;
	struct loop_handler handler;
	struct loop_timer timer;    /* the end of a pause, or of the patience with a connect */
	struct name_lookup *lookup; /* stays over a reset: no second thread asks the same */
	uint64_t looked_until_ms;
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
	name_lookup_free(link->lookup);
	buf_free(&link->in);
	buf_free(&link->out);
	return mem_free(link);
}

/* ---- out ---- */

static int send_some(struct redis_link *link, struct span bytes, size_t *ret_len)
{
	if (link->tls)
		return tls_client_send(link->tls, bytes, ret_len);
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

void redis_link_words(const struct redis_link *link, struct span said,
                      char ret_words[static REDIS_LINK_WORDS_MAX])
{
	char text[REDIS_LINK_WORDS_MAX + REDIS_WORD_MAX];
	const char *args = said.len > 0 ? memmem(said.ptr, said.len, ", with args", 11) : NULL;

	if (args)
		said.len = (size_t)(args - said.ptr);
	size_t len = said.len < sizeof(text) ? said.len : sizeof(text);
	if (len > 0)
		memcpy(text, said.ptr, len);
	len = secret_blot(text, len, span_str(link->options.login->password),
	                  said.len > sizeof(text));
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = ' ';
	snprintf(ret_words, REDIS_LINK_WORDS_MAX, "%.*s", (int)len, text);
}

static void greeting_refused(struct redis_link *link, const struct resp_reply *value)
{
	char why[REDIS_LINK_WORDS_MAX];

	redis_link_words(link, value->text, why);
	redis_link_reset(link, why);
}

/* A name is nice to have; all else must be granted. But to a stranger even that is refused, with
 * better words than the script, which is too long to be heard from one. */
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
	if (value.kind == RESP_REPLY_ERROR &&
	    (greeting != GREET_NAME || resp_reply_says(&value, SPAN("NOAUTH")))) {
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

static void shake_hands(struct redis_link *link)
{
	struct error_text text = { "" };
	int r = tls_client_shake(link->tls, &text);

	if (r == 0)
		greet(link);
	else if (r != -EAGAIN)
		redis_link_reset(link, text.text);
}

static void tls_begin(struct redis_link *link)
{
	const struct redis_login *login = link->options.login;
	struct error_text text = { "" };
	struct tls_client_options options = { .fd = link->handler.fd,
		                              .host = link->options.host.name,
		                              .ca_file = login->ca_file[0] ? login->ca_file
		                                                           : NULL };

	link->state = LINK_SHAKING;
	if (tls_client_begin(&options, &link->tls, &text) < 0)
		redis_link_reset(link, text.text);
	else
		shake_hands(link);
}

static void connected(struct redis_link *link)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(link->handler.fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error == 0)
		error = -loop_timer_set(link->options.loop, &link->timer, REDIS_LINK_CONNECT_MS);
	if (error != 0)
		redis_link_reset(link, error_name(-error));
	else if (link->options.login->tls)
		tls_begin(link);
	else
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
	int r = loop_add(link->options.loop, &link->handler, LOOP_READ | LOOP_WRITE | LOOP_EDGE);
	if (r < 0) {
		close(fd);
		link->handler.fd = -1;
	}
	return r;
}

/* EAI_NONAME: it is no address but a name. */
static int connect_to_text(struct redis_link *link, const char *address, int *ret_error)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found = NULL;
	char port[8];

	snprintf(port, sizeof(port), "%u", link->options.host.port);
	int r = getaddrinfo(address, port, &hints, &found);
	if (r != 0)
		return r;
	*ret_error = connect_to(link, found);
	freeaddrinfo(found);
	return 0;
}

static void connect_ends(struct redis_link *link, int error)
{
	if (error == 0)
		error = loop_timer_set(link->options.loop, &link->timer, REDIS_LINK_CONNECT_MS);
	if (error < 0)
		redis_link_reset(link, error_name(error));
}

/* A name may have an address where nobody listens (::1 for localhost): which is known only
 * after a while, so each failure begins with the next one. */
static void connect_to_one(struct redis_link *link, const struct name_addresses *addresses)
{
	uint32_t first = link->failures % addresses->count;
	char text[IP_TEXT_MAX];
	int error = -ENOENT;

	link->state = LINK_CONNECTING;
	for (uint32_t i = first; i < addresses->count && error < 0; i++) {
		ip_format(&addresses->list[i], text);
		if (connect_to_text(link, text, &error) != 0)
			error = -EAFNOSUPPORT;
	}
	connect_ends(link, error);
}

static void look(struct redis_link *link)
{
	struct name_addresses addresses;
	int error = 0;

	if (name_lookup_ready(link->lookup, &error, &addresses)) {
		link->lookup = name_lookup_free(link->lookup);
		if (error)
			redis_link_reset(link, gai_strerror(error));
		else
			connect_to_one(link, &addresses);
	} else if (loop_now_ms(link->options.loop) >= link->looked_until_ms) {
		redis_link_reset(link, "its address is not told in time");
	} else if (loop_timer_set(link->options.loop, &link->timer, LOOK_MS) < 0) {
		redis_link_reset(link, "no memory");
	}
}

static void look_begin(struct redis_link *link)
{
	struct name_lookup_question question = { .host = link->options.host.name,
		                                 .loop = link->options.loop,
		                                 .ask = link->options.look_up };
	int r = link->lookup ? 0 : name_lookup_start(&question, &link->lookup);

	link->state = LINK_LOOKING;
	link->looked_until_ms = loop_now_ms(link->options.loop) + REDIS_LINK_CONNECT_MS;
	if (r < 0)
		redis_link_reset(link, error_name(r));
	else
		look(link);
}

static void link_connect(struct redis_link *link)
{
	int error = 0;

	link->state = LINK_CONNECTING;
	if (connect_to_text(link, link->options.host.name, &error) != 0)
		look_begin(link);
	else
		connect_ends(link, error);
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
	else if (link->state == LINK_LOOKING)
		look(link);
	else if (link->state != LINK_UP)
		redis_link_reset(link, "no answer in time");
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct redis_link *link = container_of(handler, struct redis_link, handler);

	if (link->state == LINK_CONNECTING && events & (LOOP_WRITE | LOOP_HANGUP))
		connected(link);
	else if (link->state == LINK_SHAKING)
		shake_hands(link);
	if (link->state != LINK_GREETING && link->state != LINK_UP)
		return;
	if (events & LOOP_WRITE)
		redis_link_flush(link);
	if (events & (LOOP_READ | LOOP_HANGUP) &&
	    (link->state == LINK_GREETING || link->state == LINK_UP))
		receive(link);
}
