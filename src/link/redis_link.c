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
#include "base/text.h"
#include "codec/resp.h"
#include "codec/url.h"
#include "net/tls/tls_client.h"

/* ---- the URL ---- */

static const struct {
	struct span name;
	bool tls, cluster;
} schemes[] = {
	{ { "redis://", 8 }, false, false },
	{ { "rediss://", 9 }, true, false },
	{ { "redis-cluster://", 16 }, false, true },
	{ { "rediss-cluster://", 17 }, true, true },
};

static int word_read(struct span text, char ret_word[static REDIS_WORD_MAX + 1])
{
	size_t len = 0;

	if (url_percent_decode(text, ret_word, REDIS_WORD_MAX, &len) < 0 ||
	    memchr(ret_word, '\0', len))
		return ERR_INVALID;
	ret_word[len] = '\0';
	return 0;
}

static int number_read(struct span text, uint64_t least, uint64_t most, uint32_t *ret_number)
{
	uint64_t value;

	if (text_parse_u64(text, &value) < 0 || value < least || value > most)
		return ERR_INVALID;
	*ret_number = (uint32_t)value;
	return 0;
}

static int duration_read(struct span text, uint32_t *ret_ms)
{
	uint64_t ms;

	if (text_parse_duration(text, &ms, NULL) < 0 || ms < 1 || ms > 3600000)
		return ERR_INVALID;
	*ret_ms = (uint32_t)ms;
	return 0;
}

static int prefix_read(struct span text, char ret_prefix[static REDIS_PREFIX_MAX + 1])
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_:.-";

	if (text.len == 0 || text.len > REDIS_PREFIX_MAX)
		return ERR_INVALID;
	for (size_t i = 0; i < text.len; i++)
		if (!memchr(allowed, text.ptr[i], sizeof(allowed) - 1))
			return ERR_INVALID;
	memcpy(ret_prefix, text.ptr, text.len);
	ret_prefix[text.len] = '\0';
	return 0;
}

static int param_read(struct redis_login *login, struct span name, struct span value)
{
	if (span_eq(name, SPAN("replicas")))
		return number_read(value, 0, 64, &login->replicas);
	if (span_eq(name, SPAN("wait")))
		return duration_read(value, &login->wait_ms);
	if (span_eq(name, SPAN("timeout")))
		return duration_read(value, &login->timeout_ms);
	if (span_eq(name, SPAN("prefix")))
		return prefix_read(value, login->prefix);
	if (span_eq(name, SPAN("shards")))
		return number_read(value, 1, REDIS_SHARDS_MAX, &login->shards) == 0 &&
		                       (login->shards & (login->shards - 1)) == 0
		               ? 0
		               : ERR_INVALID;
	if (span_eq(name, SPAN("ca")))
		return word_read(value, login->ca_file);
	return ERR_INVALID;
}

static int host_read(struct span text, struct redis_host *ret_host)
{
	struct span name;
	uint32_t port = REDIS_PORT;

	if (span_cut_start(&text, SPAN("["))) { /* an IPv6 address */
		name = span_cut_item(&text, ']');
		if (text.len > 0 && !span_cut_start(&text, SPAN(":")))
			return ERR_INVALID;
	} else {
		name = span_cut_item(&text, ':');
	}
	if (name.len == 0 || name.len > REDIS_HOST_MAX ||
	    (text.len > 0 && number_read(text, 1, 65535, &port) < 0))
		return ERR_INVALID;
	memcpy(ret_host->name, name.ptr, name.len);
	ret_host->name[name.len] = '\0';
	ret_host->port = (uint16_t)port;
	return 0;
}

static int hosts_read(struct redis_login *login, struct span text, struct error_text *ret_text)
{
	uint32_t most = login->cluster ? REDIS_HOSTS_MAX : 1;

	do {
		if (login->host_count == most ||
		    host_read(span_cut_item(&text, ','), &login->hosts[login->host_count]) < 0)
			return error_fill(
				ret_text, ERR_INVALID,
				"the store's URL must name a host, or of a cluster up to %u "
				"with commas between: redis://HOST:PORT",
				REDIS_HOSTS_MAX);
		login->host_count++;
	} while (text.len > 0);
	return 0;
}

/* The last @ before the path: passwords may hold one. */
static struct span secret_cut(struct span *authority)
{
	for (size_t i = authority->len; i > 0; i--) {
		if (authority->ptr[i - 1] == '@') {
			struct span secret = span_of(authority->ptr, i - 1);
			*authority = span_skip(*authority, i);
			return secret;
		}
	}
	return SPAN_EMPTY;
}

int redis_login_read(struct span url, struct redis_login *ret_login, struct error_text *ret_text)
{
	struct redis_login login = { .wait_ms = 1000, .timeout_ms = 5000, .prefix = "stile" };
	size_t i = 0;

	while (i < ARRAY_LEN(schemes) && !span_cut_start(&url, schemes[i].name))
		i++;
	if (i == ARRAY_LEN(schemes) || !url.ptr)
		return error_fill(ret_text, ERR_INVALID,
		                  "not a URL of a Redis: redis://, rediss://, redis-cluster://");
	login.tls = schemes[i].tls;
	login.cluster = schemes[i].cluster;
	login.shards = login.cluster ? 16 : 1;
	struct span before = span_cut_item(&url, '?'), params = url;
	struct span authority = span_cut_item(&before, '/'), db = before;
	struct span secret = secret_cut(&authority);
	struct span user = span_cut_item(&secret, ':');
	int r = 0;
	if (word_read(user, login.user) < 0 || word_read(secret, login.password) < 0)
		r = error_fill(ret_text, ERR_INVALID,
		               "the store's URL has a user or password that is too long, or "
		               "holds a %% without two hexadecimal digits");
	if (r == 0)
		r = hosts_read(&login, authority, ret_text);
	if (r == 0 && db.len > 0 && number_read(db, 0, login.cluster ? 0 : 65535, &login.db) < 0)
		r = error_fill(ret_text, ERR_INVALID,
		               "the path of the store's URL must be the number of a database");
	while (r == 0 && params.len > 0) {
		struct span value = span_cut_item(&params, '&');
		struct span name = span_cut_item(&value, '=');
		if (param_read(&login, name, value) < 0)
			r = error_fill(
				ret_text, ERR_INVALID,
				"the store's URL has the unknown or invalid parameter \"%.*s\"",
				(int)(name.len < 40 ? name.len : 40), name.ptr);
	}
	if (r == 0)
		*ret_login = login;
	return r;
}

/* ---- the connection ---- */

#define READ_BYTES (64u << 10)
#define IN_BYTES_MAX (1u << 30)
#define LOOK_MS 5u /* between two checks whether the name is looked up */

/*
 * The life of a link:
 *
 *   DOWN ── start ──► CONNECTING ──► [TLS_HANDSHAKE] ──► LOGGING_IN ──► UP
 *                      │  ▲   ▲                                        │
 *         LOOKING_UP ◄─┘  │   └── PAUSING ◄── any failure or reset ────┘
 *              └──────────┘
 */
enum link_state {
	LINK_DOWN = 0,
	LINK_PAUSING,
	LINK_LOOKING_UP, /* the addresses of its name */
	LINK_CONNECTING,
	LINK_TLS_HANDSHAKE,
	LINK_LOGGING_IN,
	LINK_UP
};

/* The commands of a login, in the order they are sent. */
enum login_step { LOGIN_AUTH = 0, LOGIN_SELECT, LOGIN_NAME, LOGIN_SCRIPT, LOGIN_COUNT };

struct redis_link {
	struct redis_link_options options;
	enum link_state state;
	struct loop_handler handler;
	struct loop_timer timer;    /* ends a pause, or a connect that takes too long */
	struct name_lookup *lookup; /* survives a reset: no second thread for the same name */
	uint64_t lookup_end_ms;
	struct tls_client *tls;
	struct buf in, out;
	size_t out_sent;
	struct resp_reply_scan scan;
	bool awaited[LOGIN_COUNT]; /* replies that are still missing */
	uint32_t failures;         /* in a row */
	char sha[REDIS_LINK_SHA_LEN + 1];
	/* Inside replies_deliver() the buffer stays, even if the connection is reset. */
	enum { READING_NOTHING = 0, READING_REPLIES, READING_INTERRUPTED } reading;
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
	if (link->reading != READING_NOTHING)
		link->reading = READING_INTERRUPTED;
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
		link->state = LINK_DOWN; /* until redis_link_start() */
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
	if (link->state != LINK_UP && link->state != LINK_LOGGING_IN)
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

/* ---- the login ---- */

static void log_in(struct redis_link *link)
{
	const struct redis_login *login = link->options.login;

	link->state = LINK_LOGGING_IN;
	if (login->password[0] != '\0') {
		resp_request_begin(&link->out, login->user[0] ? 3 : 2);
		resp_request_add(&link->out, SPAN("AUTH"));
		if (login->user[0])
			resp_request_add(&link->out, span_str(login->user));
		resp_request_add(&link->out, span_str(login->password));
		link->awaited[LOGIN_AUTH] = true;
	}
	if (login->db > 0) {
		resp_request_begin(&link->out, 2);
		resp_request_add(&link->out, SPAN("SELECT"));
		resp_request_add_u64(&link->out, login->db);
		link->awaited[LOGIN_SELECT] = true;
	}
	resp_request_begin(&link->out, 3);
	resp_request_add(&link->out, SPAN("CLIENT"));
	resp_request_add(&link->out, SPAN("SETNAME"));
	resp_request_add(&link->out, SPAN("stile"));
	link->awaited[LOGIN_NAME] = true;
	if (link->options.script.len > 0) {
		resp_request_begin(&link->out, 3);
		resp_request_add(&link->out, SPAN("SCRIPT"));
		resp_request_add(&link->out, SPAN("LOAD"));
		resp_request_add(&link->out, link->options.script);
		link->awaited[LOGIN_SCRIPT] = true;
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

/* CLIENT SETNAME may fail, all else must succeed. But NOAUTH fails even there: its text says
 * more than what the script gets, which is too long to be read from a client that is not
 * logged in. */
static void login_reply(struct redis_link *link, struct span reply)
{
	struct resp_reply value;
	size_t at = 0;
	enum login_step step = LOGIN_AUTH;

	while (step < LOGIN_COUNT && !link->awaited[step])
		step++;
	CHECK(step < LOGIN_COUNT);
	if (!resp_reply_next(reply, &at, &value))
		return;
	if (value.kind == RESP_REPLY_ERROR &&
	    (step != LOGIN_NAME || resp_reply_says(&value, SPAN("NOAUTH")))) {
		char why[REDIS_LINK_WORDS_MAX];
		redis_link_words(link, value.text, why);
		redis_link_reset(link, why);
		return;
	}
	link->awaited[step] = false;
	if (step == LOGIN_SCRIPT && value.text.len == REDIS_LINK_SHA_LEN)
		memcpy(link->sha, value.text.ptr, REDIS_LINK_SHA_LEN);
	if (step == LOGIN_SCRIPT || (step == LOGIN_NAME && !link->awaited[LOGIN_SCRIPT])) {
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

/* Delivers whole replies and moves the rest to the front. */
static void replies_deliver(struct redis_link *link)
{
	size_t done = 0, len = 0;
	int r = 0;

	link->reading = READING_REPLIES;
	while (link->reading == READING_REPLIES) {
		struct span rest = span_skip(buf_span(&link->in), done);
		r = resp_reply_scan(&link->scan, rest, &len);
		if (r < 0)
			break;
		link->scan = (struct resp_reply_scan){ 0 };
		done += len;
		if (link->state == LINK_LOGGING_IN)
			login_reply(link, span_of(rest.ptr, len));
		else
			link->options.reply(link->options.user, span_of(rest.ptr, len));
	}
	bool interrupted = link->reading == READING_INTERRUPTED;
	link->reading = READING_NOTHING;
	if (interrupted) {
		buf_clear(&link->in);
		link->scan = (struct resp_reply_scan){ 0 };
		return;
	}
	memmove(link->in.ptr, link->in.ptr + done, link->in.len - done);
	link->in.len -= done;
	if (r != -EAGAIN)
		redis_link_reset(link, "the answer is not RESP");
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
			redis_link_reset(link, r < 0 ? error_name(r)
			                             : "the server closed the connection");
			return;
		}
		link->in.len += len;
		replies_deliver(link);
		if (link->state != LINK_UP && link->state != LINK_LOGGING_IN)
			return;
	}
	redis_link_flush(link);
}

/* ---- connecting ---- */

static void tls_handshake(struct redis_link *link)
{
	struct error_text text = { "" };
	int r = tls_client_shake(link->tls, &text);

	if (r == 0)
		log_in(link);
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

	link->state = LINK_TLS_HANDSHAKE;
	if (tls_client_begin(&options, &link->tls, &text) < 0)
		redis_link_reset(link, text.text);
	else
		tls_handshake(link);
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
		log_in(link);
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

/* EAI_NONAME: it is a name, not an address. */
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

static void connect_begun(struct redis_link *link, int error)
{
	if (error == 0)
		error = loop_timer_set(link->options.loop, &link->timer, REDIS_LINK_CONNECT_MS);
	if (error < 0)
		redis_link_reset(link, error_name(error));
}

/* A name may have an address where nobody listens (::1 for localhost). That is known only
 * after a while, so each failure begins with the next address. */
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
	connect_begun(link, error);
}

static void lookup_check(struct redis_link *link)
{
	struct name_addresses addresses;
	int error = 0;

	if (name_lookup_ready(link->lookup, &error, &addresses)) {
		link->lookup = name_lookup_free(link->lookup);
		if (error)
			redis_link_reset(link, gai_strerror(error));
		else
			connect_to_one(link, &addresses);
	} else if (loop_now_ms(link->options.loop) >= link->lookup_end_ms) {
		redis_link_reset(link, "its name was not resolved in time");
	} else if (loop_timer_set(link->options.loop, &link->timer, LOOK_MS) < 0) {
		redis_link_reset(link, "no memory");
	}
}

static void lookup_begin(struct redis_link *link)
{
	struct name_lookup_question question = { .host = link->options.host.name,
		                                 .loop = link->options.loop,
		                                 .ask = link->options.look_up };
	int r = link->lookup ? 0 : name_lookup_start(&question, &link->lookup);

	link->state = LINK_LOOKING_UP;
	link->lookup_end_ms = loop_now_ms(link->options.loop) + REDIS_LINK_CONNECT_MS;
	if (r < 0)
		redis_link_reset(link, error_name(r));
	else
		lookup_check(link);
}

static void link_connect(struct redis_link *link)
{
	int error = 0;

	link->state = LINK_CONNECTING;
	if (connect_to_text(link, link->options.host.name, &error) != 0)
		lookup_begin(link);
	else
		connect_begun(link, error);
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
	else if (link->state == LINK_LOOKING_UP)
		lookup_check(link);
	else if (link->state != LINK_UP)
		redis_link_reset(link, "no answer in time");
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct redis_link *link = container_of(handler, struct redis_link, handler);

	if (link->state == LINK_CONNECTING && events & (LOOP_WRITE | LOOP_HANGUP))
		connected(link);
	else if (link->state == LINK_TLS_HANDSHAKE)
		tls_handshake(link);
	if (link->state != LINK_LOGGING_IN && link->state != LINK_UP)
		return;
	if (events & LOOP_WRITE)
		redis_link_flush(link);
	if (events & (LOOP_READ | LOOP_HANGUP) &&
	    (link->state == LINK_LOGGING_IN || link->state == LINK_UP))
		receive(link);
}
