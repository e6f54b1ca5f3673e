/* ask: see ask.h. */
#include "cli/ask.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "net/tls/tls_client.h"
#include "sys/file.h"

static int bad_url(const char *url, struct error_text *ret_text)
{
	return error_fill(ret_text, ERR_INVALID,
	                  "\"%.100s\" is not an address: expected http://HOST:PORT, https://… or "
	                  "unix:/PATH",
	                  url);
}

/* Splits "host:port" or "[host]:port"; the port may be missing. */
static int split(struct span text, struct ask_address *address)
{
	const char *bracket = text.len > 0 && text.ptr[0] == '[' ? memchr(text.ptr, ']', text.len)
	                                                         : NULL;
	size_t host_len = 0;
	if (bracket) {
		address->bracketed = true;
		text = span_skip(text, 1);
		host_len = (size_t)(bracket - text.ptr);
	} else {
		const char *colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
		host_len = colon ? (size_t)(colon - text.ptr) : text.len;
	}
	if (host_len == 0 || host_len >= sizeof(address->host))
		return ERR_INVALID;
	memcpy(address->host, text.ptr, host_len);
	address->host[host_len] = 0;
	struct span rest = span_skip(text, host_len + (bracket ? 1 : 0));
	struct span port = rest.len > 0 ? span_skip(rest, 1)
	                                : span_str(address->secure ? "443" : "80");
	uint64_t number = 0;
	if ((rest.len > 0 && rest.ptr[0] != ':') || text_parse_u64(port, &number) < 0 ||
	    number < 1 || number > 65535 || port.len >= sizeof(address->port))
		return ERR_INVALID;
	memcpy(address->port, port.ptr, port.len);
	address->port[port.len] = 0;
	return 0;
}

int ask_parse_url(const char *url, struct ask_address *ret_address, struct error_text *ret_text)
{
	struct span text = span_str(url);
	struct ask_address address = { .bracketed = false };
	if (option_is_unix(url)) {
		address.local = true;
		snprintf(address.host, sizeof(address.host), "%s", url + strlen("unix:"));
		*ret_address = address;
		return 0;
	}
	address.secure = span_cut_start(&text, SPAN("https://"));
	if ((!address.secure && !span_cut_start(&text, SPAN("http://"))) || text.len == 0)
		return bad_url(url, ret_text);
	if (text.ptr[text.len - 1] == '/')
		text.len--;
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] <= ' ' || text.ptr[i] == '/' || text.ptr[i] == '@')
			return bad_url(url, ret_text);
	if (split(text, &address) < 0)
		return bad_url(url, ret_text);
	*ret_address = address;
	return 0;
}

void ask_encode(struct buf *out, struct span text)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		             (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
		if (plain) {
			buf_append_char(out, c);
			continue;
		}
		unsigned char byte = (unsigned char)c;
		char code[3] = { '%', digits[byte >> 4], digits[byte & 15] };
		buf_append(out, code, sizeof(code));
	}
}

/* ---- the answer ---- */

/* The value of a header in the lines of a head, or empty. */
static struct span header_value(struct span head, struct span name)
{
	while (head.len > 0) {
		const char *end = memchr(head.ptr, '\n', head.len);
		size_t len = end ? (size_t)(end - head.ptr) : head.len;
		struct span line = span_of(head.ptr, len);
		head = span_skip(head, len + 1);
		if (line.len <= name.len || line.ptr[name.len] != ':' ||
		    !span_eq_nocase(span_of(line.ptr, name.len), name))
			continue;
		line = span_skip(line, name.len + 1);
		while (line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
			line = span_skip(line, 1);
		while (line.len > 0 &&
		       (line.ptr[line.len - 1] == '\r' || line.ptr[line.len - 1] == ' '))
			line.len--;
		return line;
	}
	return SPAN_EMPTY;
}

int ask_parse_answer(struct span answer, uint16_t *ret_status, struct span *ret_body)
{
	static const char first[] = "HTTP/1.1 ";
	const size_t first_len = sizeof(first) - 1;
	uint64_t status = 0;
	uint64_t length = 0;
	if (answer.len < first_len + 3 || memcmp(answer.ptr, first, first_len) != 0 ||
	    text_parse_u64(span_of(answer.ptr + first_len, 3), &status) < 0)
		return ERR_INVALID;
	const char *end = memmem(answer.ptr, answer.len, "\r\n\r\n", 4);
	if (!end)
		return ERR_INVALID;
	struct span head = span_of(answer.ptr, (size_t)(end - answer.ptr));
	struct span body = span_skip(answer, head.len + 4);
	if (text_parse_u64(header_value(head, SPAN("Content-Length")), &length) < 0 ||
	    body.len < length)
		return ERR_INVALID;
	*ret_status = (uint16_t)status;
	*ret_body = span_of(body.ptr, (size_t)length);
	return 0;
}

/* The "detail" of a problem, else the start of the body. */
static int refused(struct span body, uint16_t status, struct error_text *ret_text)
{
	struct json_problem problem = { .offset = 0 };
	struct json_path path;
	struct json_plan plan;
	struct json_doc doc;
	uint8_t node;
	char detail[256];
	size_t len = 0;
	json_plan_init(&plan);
	if (json_path_parse(SPAN("detail"), &path, &problem) < 0 ||
	    json_plan_add(&plan, &path, &node) < 0)
		return ERR_INVALID;
	json_plan_seal(&plan);
	if (json_scan(body, &plan, &doc) == 0 && json_get(&doc, node).type == JSON_STRING &&
	    json_decode(json_get(&doc, node).text, detail, sizeof(detail), &len) == 0)
		return error_fill(ret_text, ERR_INVALID, "the gateway says %u: %.*s", status,
		                  (int)len, detail);
	return error_fill(ret_text, ERR_INVALID, "the gateway says %u %s", status,
	                  http1_reason(status));
}

/* ---- the connection ---- */

static int set_limits(int fd)
{
	struct timeval limit = { .tv_sec = ASK_LIMIT_S };
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return -errno;
	return 0;
}

static int connect_one(const struct sockaddr *address, socklen_t len)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int r = set_limits(fd);
	if (r == 0 && connect(fd, address, len) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

static int connect_path(const struct ask_address *address, struct error_text *ret_text)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	CHECK(strlen(address->host) < sizeof(path.sun_path)); /* option_is_unix() */
	memcpy(path.sun_path, address->host, strlen(address->host));
	int r = connect_one((const struct sockaddr *)(const void *)&path, sizeof(path));
	return r >= 0 ? r
	              : error_fill(ret_text, r, "no gateway answers at %s: %s", address->host,
	                           error_name(r));
}

static int connect_to(const struct ask_address *address, struct error_text *ret_text)
{
	if (address->local)
		return connect_path(address, ret_text);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
	struct addrinfo *list = NULL;
	int r = getaddrinfo(address->host, address->port, &hints, &list);
	if (r != 0)
		return error_fill(ret_text, -EHOSTUNREACH, "%s: %s", address->host,
		                  gai_strerror(r));
	r = -EHOSTUNREACH;
	for (const struct addrinfo *info = list; info && r < 0; info = info->ai_next)
		r = connect_one(info->ai_addr, info->ai_addrlen);
	freeaddrinfo(list);
	if (r < 0)
		error_fill(ret_text, r, "no gateway answers at %s port %s: %s", address->host,
		           address->port, error_name(r));
	return r;
}

#define REQUEST_MAX (16u << 10)
#define TOKEN_MAX 4096u

struct question {
	struct ask_address address;
	const char *method;
	struct span target;
	const char *token_file; /* NULL: no token */
};

struct line {
	int fd;
	struct tls_client *tls; /* NULL: as it is */
};

static int send_all(const struct line *line, struct span bytes)
{
	if (line->tls)
		return tls_client_send(line->tls, bytes);
	while (bytes.len > 0) {
		ssize_t n = send(line->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes = span_skip(bytes, (size_t)n);
	}
	return 0;
}

static int receive(const struct line *line, char *out, size_t room, size_t *ret_len)
{
	ssize_t n;
	if (line->tls)
		return tls_client_receive(line->tls, out, room, ret_len);
	do {
		n = recv(line->fd, out, room, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*ret_len = (size_t)n;
	return 0;
}

/* Up to the end of the connection: the request asks for its close. */
static int receive_all(const struct line *line, struct buf *answer)
{
	size_t len = 0;
	do {
		int r = buf_reserve(answer, 64u << 10);
		if (r == 0)
			r = receive(line, answer->ptr + answer->len, answer->room - answer->len,
			            &len);
		if (r < 0)
			return r;
		answer->len += len;
	} while (len > 0);
	return 0;
}

/* "Authorization: …" of the file, which may end with a line break. */
static int add_token(const char *path, struct buf *request)
{
	char *bytes = NULL;
	size_t len = 0;
	if (!path)
		return 0;
	int r = file_read_whole(file_system_real(), path, TOKEN_MAX, &bytes, &len);
	if (r < 0)
		return r;
	while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
		len--;
	buf_append_span(request, SPAN("Authorization: Bearer "));
	buf_append(request, bytes, len);
	buf_append_span(request, SPAN("\r\n"));
	secret_wipe(bytes, len);
	mem_free(bytes);
	return 0;
}

static int exchange(const struct line *line, const struct question *question, struct buf *answer)
{
	const struct ask_address *address = &question->address;
	struct buf request = { .cap = REQUEST_MAX };
	int r = buf_reserve(&request, REQUEST_MAX); /* growing would leave copies of a token */
	if (r < 0)
		return r;
	buf_printf(&request, "%s %.*s HTTP/1.1\r\n", question->method, (int)question->target.len,
	           question->target.ptr);
	if (address->local)
		buf_append_span(&request, SPAN("Host: localhost\r\n"));
	else
		buf_printf(&request, "Host: %s%s%s:%s\r\n", address->bracketed ? "[" : "",
		           address->host, address->bracketed ? "]" : "", address->port);
	buf_append_span(&request, SPAN("Content-Length: 0\r\nConnection: close\r\n"));
	r = add_token(question->token_file, &request);
	buf_append_span(&request, SPAN("\r\n"));
	if (r == 0)
		r = request.failed ? -ENOMEM : send_all(line, buf_span(&request));
	secret_wipe(request.ptr, request.len);
	buf_free(&request);
	return r < 0 ? r : receive_all(line, answer);
}

static int take_answer(const struct buf *answer, struct buf *out, struct error_text *ret_text)
{
	uint16_t status = 0;
	struct span body;
	/* Nothing, or an alert of TLS. */
	if (answer->len == 0 || answer->ptr[0] == 0x15)
		return error_fill(ret_text, ERR_INVALID,
		                  "nothing answers there; if it listens with TLS, ask https://…, "
		                  "with its certificate as --ca");
	if (ask_parse_answer(buf_span(answer), &status, &body) < 0)
		return error_fill(ret_text, ERR_INVALID, "what answers there is no gateway");
	if (status / 100 != 2)
		return refused(body, status, ret_text);
	buf_append_span(out, body);
	return out->failed ? error_fill(ret_text, -ENOMEM, "no memory for the answer") : 0;
}

/* Asks on a line that is there. */
static int talk(const struct line *line, const struct question *question, struct buf *out,
                struct error_text *ret_text)
{
	struct buf answer = { .cap = ASK_ANSWER_MAX };
	int r = exchange(line, question, &answer);
	if (r < 0)
		error_fill(ret_text, r, "%s%s%s: %s", question->address.host,
		           question->address.local ? "" : " port ", question->address.port,
		           error_name(r));
	else
		r = take_answer(&answer, out, ret_text);
	buf_free(&answer);
	return r;
}

static int ask(const struct ask_options *options, const char *method, struct span target,
               struct buf *out, struct error_text *ret_text)
{
	struct question question = { .method = method,
		                     .target = target,
		                     .token_file = options->token_file };
	struct ask_address *address = &question.address;
	struct line line = { .tls = NULL };
	int r = ask_parse_url(options->url, address, ret_text);
	if (r == 0 && options->ca && !address->secure)
		r = error_fill(ret_text, ERR_INVALID, "--ca goes with an https:// address");
	if (r < 0)
		return r;
	line.fd = connect_to(address, ret_text);
	if (line.fd < 0)
		return line.fd;
	/* OpenSSL writes without MSG_NOSIGNAL. */
	void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	if (address->secure)
		r = tls_client_open(&(struct tls_client_options){ line.fd, address->host,
		                                                  options->ca },
		                    &line.tls, ret_text);
	if (r == 0)
		r = talk(&line, &question, out, ret_text);
	signal(SIGPIPE, on_pipe);
	tls_client_free(line.tls);
	close(line.fd);
	return r;
}

int ask_get(const struct ask_options *options, struct span target, struct buf *out,
            struct error_text *ret_text)
{
	return ask(options, "GET", target, out, ret_text);
}

int ask_post(const struct ask_options *options, struct span target, struct buf *out,
             struct error_text *ret_text)
{
	return ask(options, "POST", target, out, ret_text);
}
