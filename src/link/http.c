/*
 * http: see http.h.
 *
 * libcurl stops waiting for a connection that goes back to its pool, and waits anew
 * when the next request takes it. The loop does not learn of that: it continues to wait
 * for something to read, and the socket is only taken out when something comes that no
 * call wants (the peer closes an idle connection). That saves two system calls a request.
 */
#include "link/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "codec/ip.h"
#include "net/tls/tls_client.h"

#define RETRY_AFTER_MAX_MS (UINT64_C(365) * 86400 * 1000)

_Static_assert(sizeof(struct http_line) == sizeof(struct curl_slist) &&
                       offsetof(struct http_line, text) == offsetof(struct curl_slist, data) &&
                       offsetof(struct http_line, next) == offsetof(struct curl_slist, next),
               "a list of lines is handed to libcurl as it is");
_Static_assert(HTTP_ERROR_MAX >= CURL_ERROR_SIZE, "libcurl writes its texts there");

/* A socket of libcurl's on the loop. */
struct http_watch {
	struct loop_handler handler;
	struct http_client *client;
	uint32_t wanted; /* LOOP_… that libcurl waits for */
	uint32_t added;  /* LOOP_… that the loop waits for; 0: it does not know it */
	bool ours;       /* made by open_socket(): close_socket() reports its end */
};

/* ---- URLs and headers ---- */

static bool copy_part(CURLU *url, CURLUPart part, unsigned flags, char *out, size_t room)
{
	char *text = NULL;
	if (curl_url_get(url, part, &text, flags))
		return false;
	bool fits = strlen(text) < room;
	if (fits)
		memcpy(out, text, strlen(text) + 1);
	curl_free(text);
	return fits;
}

int http_url_read(const char *text, struct http_url *ret_url)
{
	struct http_url url = { .https = false };
	char scheme[8], port[8], path[2];
	uint64_t number = 0;
	CURLU *parts = curl_url();
	if (!parts)
		return -ENOMEM;
	bool good = !curl_url_set(parts, CURLUPART_URL, text, CURLU_DISALLOW_USER) &&
	            copy_part(parts, CURLUPART_SCHEME, 0, scheme, sizeof(scheme)) &&
	            copy_part(parts, CURLUPART_HOST, CURLU_PUNYCODE, url.host, HTTP_HOST_MAX) &&
	            copy_part(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof(port));
	if (good) {
		bool short_path = copy_part(parts, CURLUPART_PATH, 0, path, sizeof(path));
		url.bare = short_path && strcmp(path, "/") == 0 && !strpbrk(text, "?#");
	}
	curl_url_cleanup(parts);
	url.https = good && strcmp(scheme, "https") == 0;
	if (!good || (!url.https && strcmp(scheme, "http") != 0) ||
	    text_parse_u64(span_str(port), &number) || number == 0 || number > UINT16_MAX)
		return ERR_INVALID;
	url.port = (uint16_t)number;
	*ret_url = url;
	return 0;
}

bool http_url_is_valid(const char *text)
{
	CURLU *url = curl_url();
	bool valid = url && !curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS);
	curl_url_cleanup(url);
	return valid;
}

uint64_t http_retry_after(struct span value, uint64_t now_ms)
{
	uint64_t seconds;
	char copy[64];
	int error = text_parse_u64(value, &seconds);
	if (error == ERR_TOO_LARGE)
		return RETRY_AFTER_MAX_MS;
	if (error == 0)
		return seconds < RETRY_AFTER_MAX_MS / 1000 ? seconds * 1000 : RETRY_AFTER_MAX_MS;
	if (value.len >= sizeof(copy) || (value.len > 0 && memchr(value.ptr, '\0', value.len)))
		return 0;
	memcpy(copy, value.ptr, value.len);
	copy[value.len] = '\0';
	time_t at = curl_getdate(copy, NULL);
	uint64_t at_ms = at > 0 ? (uint64_t)at * 1000 : 0;
	if (at_ms <= now_ms)
		return 0;
	return at_ms - now_ms < RETRY_AFTER_MAX_MS ? at_ms - now_ms : RETRY_AFTER_MAX_MS;
}

static struct curl_slist *list_of(struct http_line *lines)
{
	return (struct curl_slist *)(void *)lines;
}

/* ---- the client: sockets and time on the loop ---- */

static enum http_end end_of(CURLcode code)
{
	switch (code) {
	case CURLE_OK: return HTTP_END_OK;
	case CURLE_COULDNT_CONNECT: return HTTP_END_CONNECT;
	case CURLE_OPERATION_TIMEDOUT: return HTTP_END_TIMEOUT;
	case CURLE_GOT_NOTHING: return HTTP_END_NO_ANSWER;
	case CURLE_URL_MALFORMAT: return HTTP_END_URL;
	default: return HTTP_END_OTHER;
	}
}

/* It may be started again by its owner at once. */
static void finish(struct http_call *call, CURLcode code, enum http_end end)
{
	struct http_client *client = call->client;
	long error = 0;
	if (call->next)
		call->next->before = call->before;
	if (call->before)
		call->before->next = call->next;
	else
		client->active = call->next;
	if (end == HTTP_END_CONNECT)
		curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &error);
	call->connect_error = (int)error;
	if (end != HTTP_END_OK && !call->error[0])
		snprintf(call->error, sizeof(call->error), "%s", curl_easy_strerror(code));
	curl_multi_remove_handle(client->multi, call->easy);
	client->done(call, end);
}

static void report_results(struct http_client *client)
{
	CURLMsg *message;
	int left;
	client->busy = true;
	while ((message = curl_multi_info_read(client->multi, &left))) {
		struct http_call *call = NULL;
		if (message->msg != CURLMSG_DONE)
			continue;
		CURLcode code = message->data.result;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
		finish(call, code, end_of(code));
	}
	client->busy = false;
}

/* Twice at most: results may have led to new calls, and so on for ever. What is left
 * begins with libcurl's timer. */
void http_client_run(struct http_client *client)
{
	for (int i = 0; i < 2 && client->added && !client->busy; i++) {
		int running;
		client->added = false;
		curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
		report_results(client);
	}
}

void http_client_abort(struct http_client *client, const char *why)
{
	client->busy = true;
	while (client->active) {
		struct http_call *call = client->active;
		snprintf(call->error, sizeof(call->error), "%s", why);
		finish(call, CURLE_ABORTED_BY_CALLBACK, HTTP_END_ABORTED);
	}
	client->busy = false;
}

static void ready(struct loop_handler *handler, uint32_t events)
{
	struct http_watch *watch = container_of(handler, struct http_watch, handler);
	struct http_client *client = watch->client;
	int action = 0;
	int running;
	if (watch->wanted == 0) {
		loop_remove(client->loop, handler);
		watch->added = 0;
		return;
	}
	if (events & LOOP_READ)
		action |= CURL_CSELECT_IN;
	if (events & LOOP_WRITE)
		action |= CURL_CSELECT_OUT;
	curl_multi_socket_action(client->multi, handler->fd, action, &running);
	report_results(client);
	http_client_run(client);
}

/* The watch of a descriptor; NULL: no memory. */
static struct http_watch *find_watch(struct http_client *client, int fd)
{
	size_t at = (size_t)fd;
	if (at >= client->watch_room) {
		size_t room = at + 64;
		struct http_watch **watches = mem_realloc(client->watches,
		                                          room * sizeof(struct http_watch *));
		if (!watches)
			return NULL;
		for (size_t i = client->watch_room; i < room; i++)
			watches[i] = NULL;
		client->watches = watches;
		client->watch_room = room;
	}
	if (!client->watches[at]) {
		struct http_watch *watch = mem_zalloc(1, sizeof(*watch));
		if (!watch)
			return NULL;
		watch->client = client;
		watch->handler = (struct loop_handler){ .ready = ready, .fd = fd };
		client->watches[at] = watch;
	}
	return client->watches[at];
}

static int wait_for(struct http_watch *watch, uint32_t wanted)
{
	struct loop *loop = watch->client->loop;
	watch->wanted = wanted;
	bool idle = wanted == 0 && watch->ours && watch->added == LOOP_READ;
	if (idle || wanted == watch->added)
		return 0;
	if (watch->added)
		loop_remove(loop, &watch->handler);
	watch->added = wanted;
	int error = wanted ? loop_add(loop, &watch->handler, wanted) : 0;
	if (error)
		watch->added = 0;
	return error;
}

/* Returning -1 ends all transfers of the multi handle: what has been asked for cannot
 * be waited for. */
static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *user, void *unused)
{
	(void)easy;
	(void)unused;
	uint32_t wanted = 0;
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		wanted |= LOOP_READ;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		wanted |= LOOP_WRITE;
	struct http_watch *watch = find_watch(user, fd);
	return watch && wait_for(watch, wanted) == 0 ? 0 : -1;
}

static void set_timer(struct http_client *client, uint64_t after_ms)
{
	/* Never early: libcurl would find nothing due, and not ask again. */
	uint64_t behind_ns = clock_monotonic_ns() - loop_now_ns(client->loop);
	uint64_t more_ms = after_ms ? behind_ns / 1000000 + 1 : 0;
	client->timer_owed = loop_timer_set(client->loop, &client->timer, after_ms + more_ms) != 0;
	if (client->timer_owed)
		loop_again(client->loop);
}

static int timer_changed(CURLM *multi, long after_ms, void *user)
{
	struct http_client *client = user;
	(void)multi;
	if (after_ms < 0)
		loop_timer_clear(client->loop, &client->timer);
	else
		set_timer(client, (uint64_t)after_ms);
	return 0;
}

static void timer_due(struct loop_timer *timer)
{
	struct http_client *client = container_of(timer, struct http_client, timer);
	long after_ms = -1;
	client->added = true;
	http_client_run(client);
	if (timer->slot == 0 && curl_multi_timeout(client->multi, &after_ms) == CURLM_OK &&
	    after_ms >= 0)
		set_timer(client, (uint64_t)after_ms);
}

static void each_round(struct loop_hook *hook)
{
	struct http_client *client = container_of(hook, struct http_client, hook);
	if (unlikely(client->timer_owed)) {
		client->timer_owed = false;
		timer_due(&client->timer);
	}
}

/* curl_global_init() is counted by libcurl. libcurl's memory is its own: version 7.88
 * divides by zero when the table of a socket's transfers cannot grow (singlesocket()), so a
 * test that makes each allocation fail would end there. */
int http_client_open(struct http_client *client, struct error_text *ret_text)
{
	CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
	if (code)
		return error_fill(ret_text, ERR_CONFIG, "libcurl does not start: %s",
		                  curl_easy_strerror(code));
	client->started = true;
	client->timer.due = timer_due;
	client->hook.round = each_round;
	client->multi = curl_multi_init();
	if (!client->multi)
		return -ENOMEM;
	loop_hook_add(client->loop, &client->hook);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, 1024L);
	return 0;
}

void http_client_close(struct http_client *client)
{
	if (client->multi) {
		CHECK(!client->active);
		loop_hook_remove(client->loop, &client->hook);
		curl_multi_cleanup(client->multi);
		loop_timer_clear(client->loop, &client->timer);
	}
	client->multi = NULL;
	for (size_t i = 0; i < client->watch_room; i++) {
		struct http_watch *watch = client->watches[i];
		if (watch && watch->added)
			loop_remove(client->loop, &watch->handler);
		mem_free(watch);
	}
	client->watches = mem_free(client->watches);
	client->watch_room = 0;
	if (client->started)
		curl_global_cleanup();
	client->started = false;
}

/* ---- a call: what libcurl asks and reports ---- */

/* The last check of where a connection goes. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_call *call = user;
	struct http_client *client = call->client;
	(void)purpose;
	call->peer = socket_address_ip(&address->addr); /* other families: refused as :: is */
	call->has_peer = true;
	const char *refusal = client->refuse ? client->refuse(client, &call->peer) : NULL;
	if (refusal) {
		call->refusal = refusal;
		return CURL_SOCKET_BAD;
	}
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	struct http_watch *watch = find_watch(client, fd);
	if (!watch) {
		close(fd);
		return CURL_SOCKET_BAD;
	}
	watch->wanted = watch->added = 0;
	watch->ours = true;
	return fd;
}

static int close_socket(void *user, curl_socket_t fd)
{
	struct http_client *client = user;
	struct http_watch *watch = (size_t)fd < client->watch_room ? client->watches[fd] : NULL;
	if (watch) {
		loop_forget(client->loop, &watch->handler);
		watch->wanted = watch->added = 0;
		watch->ours = false;
	}
	return close(fd);
}

/* libcurl is about to write the request. It may, once: or again, if the server has said
 * that it did nothing with the first. */
static int may_write(void *user, char *peer_ip, char *own_ip, int peer_port, int own_port)
{
	struct http_call *call = user;
	if (call->written && !call->unprocessed) {
		call->again = true;
		return CURL_PREREQFUNC_ABORT;
	}
	call->written = true;
	call->unprocessed = false;
	call->way = (struct http_way){ .peer_port = peer_port, .own_port = own_port };
	snprintf(call->way.peer_ip, sizeof(call->way.peer_ip), "%s", peer_ip);
	snprintf(call->way.own_ip, sizeof(call->way.own_ip), "%s", own_ip);
	call->stream = 0;
	return CURL_PREREQFUNC_OK;
}

/* "HTTP/1.1 200 OK", "HTTP/2 200": 0 if it is something else. */
static uint16_t status_of(struct span line)
{
	uint64_t status;
	if (!span_cut_start(&line, SPAN("HTTP/")))
		return 0;
	(void)span_cut_item(&line, ' ');
	struct span digits = span_of(line.ptr, line.len < 3 ? line.len : 3);
	return text_parse_u64(digits, &status) || status < 100 ? 0 : (uint16_t)status;
}

static struct span trimmed(struct span text)
{
	while (text.len > 0 && text.ptr[text.len - 1] <= ' ' && text.ptr[text.len - 1] >= 0)
		text.len--;
	while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
		text = span_skip(text, 1);
	return text;
}

static size_t take_header(char *ptr, size_t unit, size_t count, void *user)
{
	struct http_call *call = user;
	struct span line = trimmed(span_of(ptr, unit * count));
	if (call->answered) /* a trailer */
		return unit * count;
	uint16_t status = status_of(line);
	if (status) {
		call->status = status;
		call->retry_after_ms = 0;
	} else if (line.len == 0) {
		call->answered = call->status >= 200;
	} else if (span_eq_nocase(span_cut_item(&line, ':'), SPAN("Retry-After"))) {
		uint64_t now_ms = clock_read(call->client->clock).wall_ms;
		call->retry_after_ms = http_retry_after(trimmed(line), now_ms);
	}
	return unit * count;
}

static size_t take_body(char *ptr, size_t unit, size_t count, void *user)
{
	struct http_call *call = user;
	size_t len = unit * count;
	size_t room = HTTP_ANSWER_KEPT - call->kept;
	size_t kept = len < room ? len : room;
	if (kept > 0) /* libcurl calls it with nothing, too */
		memcpy(call->answer + call->kept, ptr, kept);
	call->kept += (uint32_t)kept;
	call->answer_bytes += len;
	if (call->whole_wanted)
		buf_append(&call->whole, ptr, len);
	return call->answer_bytes > call->answer_max ? len + 1 : len;
}

/* The number that begins the text; false if there is none. */
static bool take_number(struct span text, uint64_t *ret_value)
{
	size_t len = 0;
	while (len < text.len && text.ptr[len] >= '0' && text.ptr[len] <= '9')
		len++;
	return len > 0 && text_parse_u64(span_of(text.ptr, len), ret_value) == 0;
}

static bool is_same_way(const struct http_way *a, const struct http_way *b)
{
	return a->own_port == b->own_port && a->peer_port == b->peer_port &&
	       strcmp(a->peer_ip, b->peer_ip) == 0 && strcmp(a->own_ip, b->own_ip) == 0;
}

void http_call_hear(struct http_call *call, struct span text)
{
	uint64_t number;
	if (span_cut_start(&text, SPAN("Using Stream ID: "))) {
		if (take_number(text, &number) && number <= UINT32_MAX)
			call->stream = (uint32_t)number;
		return;
	}
	/* "recveived GOAWAY, error=0, last_stream=1999", so spelt in 7.88. */
	if (!span_cut_start(&text, SPAN("recveived GOAWAY, error=")) &&
	    !span_cut_start(&text, SPAN("received GOAWAY, error=")))
		return;
	(void)span_cut_item(&text, ',');
	if (!span_cut_start(&text, SPAN(" last_stream=")) || !take_number(text, &number) ||
	    !call->written)
		return;
	/* All calls on the same connection, behind the last stream. */
	for (struct http_call *at = call->client->active; at; at = at->next)
		if (at->written && is_same_way(&at->way, &call->way) && at->stream > number &&
		    !at->answered)
			at->unprocessed = true;
}

static int hear(CURL *easy, curl_infotype type, char *ptr, size_t len, void *user)
{
	(void)easy;
	if (type == CURLINFO_TEXT)
		http_call_hear(user, span_of(ptr, len));
	return 0;
}

/* ---- a call: from its begin to its end ---- */

/* What calls and questions have in common. */
static CURLcode set_basics(CURL *easy, bool https)
{
	CURLcode code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, https ? "https" : "http");
	code |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
	code |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	code |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	return code;
}

static CURLcode set_trust(CURL *easy, const char *ca_file)
{
	if (!ca_file)
		return CURLE_OK;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
	return code | curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

static CURLcode set_callbacks(struct http_call *call, bool http2)
{
	CURL *easy = call->easy;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	code |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	code |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
	code |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	code |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, call->client);
	code |= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, may_write);
	code |= curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
	code |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	code |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	if (http2) {
		code |= curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, hear);
		code |= curl_easy_setopt(easy, CURLOPT_DEBUGDATA, call);
		code |= curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
	}
	return code;
}

static CURLcode set_options(CURL *easy, const struct http_call_options *options, bool http2)
{
	long version = http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
	CURLcode code = set_basics(easy, options->https);
	code |= set_trust(easy, options->ca_file);
	code |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	code |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version);
	code |= curl_easy_setopt(easy, CURLOPT_PIPEWAIT, http2 ? 1L : 0L);
	code |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
	code |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
	code |= curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN,
	                         options->idle_s ? (long)options->idle_s : 1L);
	code |= curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, options->fresh ? 1L : 0L);
	code |= curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, options->fresh ? 1L : 0L);
	/* Taken and given back with each request: no larger than they need be. */
	code |= curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 8192L);
	code |= curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
	if (options->cert_file) {
		code |= curl_easy_setopt(easy, CURLOPT_SSLCERT, options->cert_file);
		code |= curl_easy_setopt(easy, CURLOPT_SSLKEY, options->key_file);
	}
	if (strcmp(options->method, "GET") == 0)
		code |= curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	else
		code |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
	if (strcmp(options->method, "GET") != 0 && strcmp(options->method, "POST") != 0)
		code |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, options->method);
	if (options->url)
		code |= curl_easy_setopt(easy, CURLOPT_URL, options->url);
	return code;
}

int http_call_open(struct http_call *call, struct http_client *client,
                   const struct http_call_options *options)
{
	bool http2 = options->https && !options->http1;
	*call = (struct http_call){ .client = client,
		                    .whole_wanted = options->whole,
		                    .has_body = strcmp(options->method, "GET") != 0,
		                    .answer_max = options->answer_max };
	call->easy = curl_easy_init();
	CURLcode code = call->easy ? CURLE_OK : CURLE_OUT_OF_MEMORY;
	if (!code)
		code = set_callbacks(call, http2);
	if (!code)
		code = set_options(call->easy, options, http2);
	if (!code)
		return 0;
	http_call_close(call);
	return -ENOMEM;
}

void http_call_close(struct http_call *call)
{
	curl_easy_cleanup(call->easy);
	call->easy = NULL;
	buf_free(&call->whole);
}

void http_call_reset(struct http_call *call)
{
	call->written = call->unprocessed = call->again = call->answered = false;
	call->refusal = NULL;
	call->has_peer = false;
	call->connect_error = 0;
	call->status = 0;
	call->retry_after_ms = 0;
	call->answer_bytes = 0;
	call->kept = 0;
	buf_clear(&call->whole);
	call->error[0] = '\0';
	call->url = NULL;
	call->lines = call->pin = NULL;
	call->body = SPAN_EMPTY;
}

int http_call_start(struct http_call *call)
{
	struct http_client *client = call->client;
	CURL *easy = call->easy;
	CURLcode code = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list_of(call->lines));
	if (call->url)
		code |= curl_easy_setopt(easy, CURLOPT_URL, call->url);
	if (call->has_body) {
		code |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
		                         (curl_off_t)call->body.len);
		code |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
		                         call->body.len ? call->body.ptr : "");
	}
	if (call->pin)
		code |= curl_easy_setopt(easy, CURLOPT_RESOLVE, list_of(call->pin));
	if (code || curl_multi_add_handle(client->multi, easy) != CURLM_OK)
		return -ENOMEM;
	client->added = true;
	call->before = NULL;
	call->next = client->active;
	if (client->active)
		client->active->before = call;
	client->active = call;
	return 0;
}

/* ---- one question ---- */

struct asking {
	const struct http_ask *ask;
	struct http_url url;
	struct buf *out;
	size_t start; /* of the body in `out` */
	int error;    /* of taking the body */
};

static size_t take_answer(char *ptr, size_t unit, size_t count, void *user)
{
	struct asking *asking = user;
	size_t len = unit * count;
	if (asking->out->len - asking->start + len > asking->ask->answer_max)
		asking->error = ERR_TOO_LARGE;
	else if (len > 0)
		buf_append(asking->out, ptr, len);
	if (asking->out->failed)
		asking->error = asking->out->failed;
	return asking->error ? len + 1 : len;
}

/* libcurl's own check of the name is off: ours also trusts a certificate of the file. */
static CURLcode set_up_tls(CURL *easy, void *context, void *user)
{
	struct asking *asking = user;
	char host[HTTP_HOST_MAX];
	size_t len = strlen(asking->url.host);
	bool bracketed = asking->url.host[0] == '[';
	(void)easy;
	snprintf(host, sizeof(host), "%.*s", (int)(bracketed ? len - 2 : len),
	         asking->url.host + bracketed);
	return tls_client_trust(context, host) ? CURLE_OUT_OF_MEMORY : CURLE_OK;
}

static CURLcode set_question(CURL *easy, struct asking *asking, char *error)
{
	const struct http_ask *ask = asking->ask;
	long limit_s = (long)ask->limit_s;
	CURLcode code = set_basics(easy, asking->url.https);
	code |= set_trust(easy, ask->ca_file);
	code |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	code |= curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, set_up_tls);
	code |= curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, asking);
	code |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
	code |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	code |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, limit_s);
	code |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	code |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, limit_s);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
	code |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, asking);
	code |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list_of(ask->lines));
	code |= curl_easy_setopt(easy, CURLOPT_URL, ask->url);
	if (ask->unix_path)
		code |= curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, ask->unix_path);
	if (strcmp(ask->method, "POST") == 0) {
		code |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
		code |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, 0L);
		code |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
	}
	return code;
}

/* What libcurl's code means. */
static int explain(CURL *easy, const struct asking *asking, CURLcode code, const char *text,
                   struct error_text *ret_text)
{
	const struct http_ask *ask = asking->ask;
	long number = 0;
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
		number = number ? number : EHOSTUNREACH;
		return error_fill(ret_text, -(int)number, "%s", error_name(-(int)number));
	case CURLE_COULDNT_RESOLVE_HOST:
		return error_fill(ret_text, -EHOSTUNREACH, "its name has no address");
	case CURLE_OPERATION_TIMEDOUT:
		return error_fill(ret_text, -ETIMEDOUT, "no answer within %u s", ask->limit_s);
	case CURLE_WRITE_ERROR:
		if (asking->error == ERR_TOO_LARGE)
			return error_fill(ret_text, ERR_TOO_LARGE,
			                  "the answer is longer than %zu bytes", ask->answer_max);
		return error_fill(ret_text, -ENOMEM, "not enough memory for the answer");
	case CURLE_OUT_OF_MEMORY:
		return error_fill(ret_text, -ENOMEM, "not enough memory for the request");
	case CURLE_SSL_CACERT_BADFILE:
		return error_fill(ret_text, -EPROTO,
		                  "%s cannot be read, or contains no certificate (PEM)",
		                  ask->ca_file ? ask->ca_file : "the file of the machine's CAs");
	case CURLE_PEER_FAILED_VERIFICATION:
		curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &number);
		return tls_client_distrust(number, asking->url.host, ret_text);
	case CURLE_SSL_CONNECT_ERROR:
		return error_fill(ret_text, -EPROTO, "no TLS connection: %s", text);
	case CURLE_PARTIAL_FILE:
		return error_fill(ret_text, ERR_DAMAGED, "the answer ended before its end");
	case CURLE_GOT_NOTHING:
	case CURLE_UNSUPPORTED_PROTOCOL: /* also HTTP/0.9: bytes that are no HTTP */
	case CURLE_WEIRD_SERVER_REPLY:
		return error_fill(ret_text, ERR_INVALID, "it does not speak HTTP");
	default: return error_fill(ret_text, -EPROTO, "%s", text);
	}
}

int http_ask(const struct http_ask *ask, uint16_t *ret_status, struct buf *out,
             struct error_text *ret_text)
{
	struct asking asking = { .ask = ask, .out = out, .start = out->len };
	char error[CURL_ERROR_SIZE] = "";
	long status = 0;
	int r = http_url_read(ask->url, &asking.url);
	if (r < 0)
		return error_fill(ret_text, r, "the URL cannot be read");
	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return error_fill(ret_text, -ENOMEM, "libcurl does not start");
	CURL *easy = curl_easy_init();
	CURLcode code = easy ? set_question(easy, &asking, error) : CURLE_OUT_OF_MEMORY;
	if (!code)
		code = curl_easy_perform(easy);
	if (!code) {
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		*ret_status = (uint16_t)status;
	} else {
		r = explain(easy, &asking, code, error[0] ? error : curl_easy_strerror(code),
		            ret_text);
		out->len = asking.start;
	}
	curl_easy_cleanup(easy);
	curl_global_cleanup();
	return r;
}
