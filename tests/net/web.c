/* A server and its peers on one loop. See web.h. */
#include "net/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool web_batches;

static void answer(struct http_request *request, struct span body, bool close)
{
	http_respond(request, &(struct http_response){
				      .status = 200,
				      .content_type = SPAN("text/plain"),
				      .headers = SPAN("X-Web: yes\r\n"),
				      .body = body,
				      .close = close,
			      });
}

void web_release(struct web *web)
{
	while (web->held_count > 0) {
		struct http_request *request = web->held[--web->held_count];
		answer(request, request->body, false);
	}
}

/* Head and body must be in one place, however often the input was moved. */
static void check_spans(const struct http_request *request)
{
	const struct span *some = http1_header_find(&request->head, SPAN("X-Some"));
	assert_true(!some || span_eq(*some, SPAN("thing")));
	if (request->body.len > 0) {
		assert_true(request->body.ptr > request->head.target.ptr);
		assert_true(request->body.ptr - request->head.target.ptr <= 16384);
	}
}

/* "ADDRESS:PORT", then " tls", " certified" and names where there are any. */
static void answer_who(struct http_request *request)
{
	const struct http_peer *peer = request->peer;
	char bytes[4096], address[IP_TEXT_MAX];
	struct buf text = buf_on(bytes, sizeof(bytes));
	ip_format(&peer->address, address);
	buf_printf(&text, "%s:%u%s%s", address, (unsigned)peer->port, peer->tls ? " tls" : "",
	           peer->certified ? " certified" : "");
	for (uint32_t i = 0; i < peer->name_count; i++)
		buf_printf(&text, " %s=%.*s", peer->names[i].dns ? "dns" : "cn",
		           (int)peer->names[i].text.len, peer->names[i].text.ptr);
	assert_false(text.failed);
	answer(request, buf_span(&text), false);
}

static void handle(struct http_request *request)
{
	static char large[WEB_LARGE];
	struct web *web = request->user;
	struct span path = request->head.path;
	web->handled++;
	check_spans(request);
	memset(request->scratch, 0x55, web->options.scratch_size);
	assert_true((uintptr_t)request->scratch % 16 == 0);
	if (span_eq(path, SPAN("/hold"))) {
		assert_true(web->held_count < WEB_HELD_MAX);
		web->held[web->held_count++] = request;
		return;
	}
	if (span_eq(path, SPAN("/none"))) {
		http_respond(request, &(struct http_response){ .status = 204 });
		return;
	}
	if (span_eq(path, SPAN("/who"))) {
		answer_who(request);
		return;
	}
	if (span_eq(path, SPAN("/release")))
		web_release(web);
	if (span_eq(path, SPAN("/large")))
		answer(request, span_of(large, sizeof(large)), false);
	else
		answer(request, request->body, span_eq(path, SPAN("/close")));
}

static bool wants_body(const struct http_request *request)
{
	return !span_eq(request->head.path, SPAN("/unwanted"));
}

static void check_condition(struct loop_hook *hook)
{
	struct web *web = container_of(hook, struct web, hook);
	if (web->condition && web->condition(web->user)) {
		web->met = true;
		loop_stop(web->loop);
	}
}

static void too_late(struct loop_timer *timer)
{
	struct web *web = container_of(timer, struct web, guard);
	web->late = true;
	loop_stop(web->loop);
}

bool web_try(struct web *web, bool (*condition)(void *user), void *user)
{
	web->met = web->late = false;
	if (condition(user))
		return true;
	web->condition = condition;
	web->user = user;
	/* May be out of memory on purpose: then there is no guard but the suite's. */
	if (loop_timer_set(web->loop, &web->guard, WEB_PATIENCE_MS))
		web->guard.slot = 0;
	loop_run(web->loop);
	loop_timer_clear(web->loop, &web->guard);
	web->condition = NULL;
	return web->met;
}

void web_until(struct web *web, bool (*condition)(void *user), void *user)
{
	if (!web_try(web, condition, user))
		fail_msg("what was waited for did not happen");
}

/* Where it cannot be had, for want of memory or of io_uring, the server is as it was. */
static void batch(struct http_server *server)
{
	int error = http_server_batch(server);
	if (error != -ENOMEM && error != -ENOSYS && error != -EPERM)
		assert_int_equal(error, 0);
}

static int open_all(struct web *web, const struct http_limits *limits, struct tls *tls,
                    const struct web_handler *handler)
{
	struct error_text text;
	memset(web, 0, sizeof(*web));
	web->hook.round = check_condition;
	web->guard.due = too_late;
	int error = loop_new(&web->loop);
	if (!error)
		error = gauge_new(&web->gauge);
	if (!error) {
		web->options = (struct http_server_options){
			.loop = web->loop,
			.address = "127.0.0.1:0",
			.limits = limits ? *limits : http_limits_default,
			.gauge = web->gauge,
			.tls = tls,
			.scratch_size = handler ? handler->scratch_size : 100,
			.handle = handler ? handler->handle : handle,
			.wants_body = handler ? handler->wants_body : wants_body,
			.user = handler ? handler->user : web,
		};
		error = http_server_new(&web->options, &web->server, &text);
	}
	if (!error && web_batches)
		batch(web->server);
	if (error)
		web_close(web);
	else
		loop_hook_add(web->loop, &web->hook);
	return error;
}

int web_open(struct web *web, const struct http_limits *limits, struct tls *tls)
{
	return open_all(web, limits, tls, NULL);
}

int web_open_with(struct web *web, const struct http_limits *limits,
                  const struct web_handler *handler)
{
	return open_all(web, limits, NULL, handler);
}

void web_close(struct web *web)
{
	http_server_free(web->server);
	gauge_free(web->gauge);
	loop_free(web->loop);
}

static void keep(struct web_peer *peer, const char *ptr, size_t len)
{
	if (peer->room - peer->len < len + 1) {
		peer->room = (peer->len + len + 1) * 2;
		peer->in = realloc(peer->in, peer->room);
		assert_non_null(peer->in);
	}
	memcpy(peer->in + peer->len, ptr, len);
	peer->len += len;
	peer->in[peer->len] = '\0';
}

static ssize_t ssl_result(struct web_peer *peer, int n)
{
	int error = SSL_get_error(peer->ssl, n);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		errno = EAGAIN;
		return -1;
	}
	if (error == SSL_ERROR_ZERO_RETURN)
		return 0;
	errno = EPROTO;
	return -1;
}

static ssize_t peer_recv(struct web_peer *peer, char *out, size_t room)
{
	if (!peer->ssl)
		return recv(peer->handler.fd, out, room, 0);
	int n = SSL_read(peer->ssl, out, (int)room);
	return n > 0 ? n : ssl_result(peer, n);
}

static ssize_t peer_write(struct web_peer *peer, const char *ptr, size_t len)
{
	if (!peer->ssl)
		return send(peer->handler.fd, ptr, len, MSG_NOSIGNAL);
	int n = SSL_write(peer->ssl, ptr, len > 16384 ? 16384 : (int)len);
	return n > 0 ? n : ssl_result(peer, n);
}

static void pump_out(struct web_peer *peer)
{
	while (peer->out_at < peer->out_len && !peer->error) {
		ssize_t n = peer_write(peer, peer->out + peer->out_at,
		                       peer->out_len - peer->out_at);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			peer->error = errno;
		else
			peer->out_at += (size_t)n;
	}
	if (peer->shut && !peer->error)
		shutdown(peer->handler.fd, SHUT_WR);
}

static void pump_in(struct web_peer *peer)
{
	char bytes[65536];
	while (!peer->deaf && !peer->eof) {
		ssize_t n = peer_recv(peer, bytes, sizeof(bytes));
		if (n > 0) {
			keep(peer, bytes, (size_t)n);
			continue;
		}
		if (n < 0 && errno == EAGAIN)
			return;
		peer->eof = true;
		if (n < 0)
			peer->error = errno;
	}
}

static void peer_ready(struct loop_handler *handler, uint32_t events)
{
	struct web_peer *peer = container_of(handler, struct web_peer, handler);
	(void)events;
	if (peer->ssl && !SSL_is_init_finished(peer->ssl)) {
		int n = SSL_do_handshake(peer->ssl);
		if (n <= 0 && ssl_result(peer, n) <= 0 && errno != EAGAIN) {
			peer->eof = true;
			peer->error = EPROTO;
		}
		if (n <= 0)
			return;
	}
	pump_out(peer);
	pump_in(peer);
}

void peer_open(struct web *web, struct web_peer *peer, SSL_CTX *tls)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(http_server_port(web->server)),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memset(peer, 0, sizeof(*peer));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	peer->web = web;
	peer->handler = (struct loop_handler){ .ready = peer_ready, .fd = fd };
	if (tls) {
		peer->ssl = SSL_new(tls);
		assert_non_null(peer->ssl);
		SSL_set_fd(peer->ssl, fd);
		SSL_set_connect_state(peer->ssl);
	}
	assert_int_equal(loop_add(web->loop, &peer->handler, LOOP_READ | LOOP_WRITE | LOOP_EDGE),
	                 0);
}

uint16_t peer_port(const struct web_peer *peer)
{
	struct sockaddr_in address = { 0 };
	socklen_t len = sizeof(address);
	assert_int_equal(getsockname(peer->handler.fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.sin_port);
}

void peer_close(struct web_peer *peer)
{
	if (peer->web) {
		loop_remove(peer->web->loop, &peer->handler);
		/* Else OpenSSL would not let its session be used again. */
		if (peer->ssl)
			SSL_set_shutdown(peer->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_free(peer->ssl);
		close(peer->handler.fd);
	}
	free(peer->in);
	free(peer->out);
	memset(peer, 0, sizeof(*peer));
}

void peer_send(struct web_peer *peer, struct span bytes)
{
	size_t left = peer->out_len - peer->out_at;
	char *out = malloc(left + bytes.len + 1);
	assert_non_null(out);
	if (left > 0)
		memcpy(out, peer->out + peer->out_at, left);
	memcpy(out + left, bytes.ptr, bytes.len);
	free(peer->out);
	peer->out = out;
	peer->out_at = 0;
	peer->out_len = left + bytes.len;
	if (!peer->ssl || SSL_is_init_finished(peer->ssl))
		pump_out(peer);
}

void peer_say(struct web_peer *peer, const char *text)
{
	peer_send(peer, span_str(text));
}

void peer_shut(struct web_peer *peer)
{
	peer->shut = true;
	if (peer->out_at == peer->out_len)
		pump_out(peer);
}

void peer_listen(struct web_peer *peer)
{
	peer->deaf = false;
	pump_in(peer);
}

/* One answer from `at`; false when it is not whole. */
static bool cut_answer(struct span *at, bool head_only, struct web_answer *ret_answer)
{
	const char *end = at->len ? memmem(at->ptr, at->len, "\r\n\r\n", 4) : NULL;
	if (!end || at->len < 12 || memcmp(at->ptr, "HTTP/1.1 ", 9) != 0)
		return false;
	size_t head_len = (size_t)(end - at->ptr) + 4, body_len = 0;
	ret_answer->status = (int)strtol(at->ptr + 9, NULL, 10);
	ret_answer->head = span_of(at->ptr, head_len);
	const char *length = memmem(at->ptr, head_len, "Content-Length: ", 16);
	if (length && !head_only)
		body_len = (size_t)strtoul(length + 16, NULL, 10);
	if (at->len - head_len < body_len)
		return false;
	ret_answer->body = span_of(at->ptr + head_len, body_len);
	*at = span_skip(*at, head_len + body_len);
	return true;
}

bool peer_answer(const struct web_peer *peer, size_t n, bool head_only,
                 struct web_answer *ret_answer)
{
	struct span at = span_of(peer->in, peer->len);
	for (size_t i = 0; i <= n; i++)
		if (!cut_answer(&at, head_only, ret_answer))
			return false;
	return true;
}

struct wanted {
	struct web_peer *peer;
	size_t count;
};

static bool has_answers(void *user)
{
	struct wanted *wanted = user;
	struct web_answer unused;
	return wanted->count == 0 || peer_answer(wanted->peer, wanted->count - 1, false, &unused);
}

void peer_until_answers(struct web_peer *peer, size_t count)
{
	struct wanted wanted = { peer, count };
	web_until(peer->web, has_answers, &wanted);
}

static bool at_eof(void *user)
{
	return ((struct web_peer *)user)->eof;
}

void peer_until_eof(struct web_peer *peer)
{
	web_until(peer->web, at_eof, peer);
}

void peer_until_status(struct web_peer *peer, size_t n, int status)
{
	struct web_answer found;
	peer_until_answers(peer, n + 1);
	assert_true(peer_answer(peer, n, false, &found));
	assert_int_equal(found.status, status);
}

bool answer_has(const struct web_answer *found, const char *text)
{
	return memmem(found->head.ptr, found->head.len + found->body.len, text, strlen(text));
}
