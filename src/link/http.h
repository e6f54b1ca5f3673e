/*
 * http: a client of HTTP servers, by libcurl. Sinks make many calls at once on a loop:
 * struct http_client, struct http_call. The commands ask one question and wait:
 * http_ask(). Nothing comes from the environment: no proxy, no .netrc, no cookies.
 * TLS is 1.2 or later.
 *
 * What is known of a call
 *   written   libcurl asks a callback right before it writes the request
 *             (CURLOPT_PREREQFUNCTION). Until then the server has got nothing of it.
 *   again     libcurl sends a request a second time by itself when a pooled connection
 *             ends without an answer, or an HTTP/2 stream is refused. The server may have
 *             read the first one, so the callback allows one write for each call: the
 *             second one ends it.
 *   unprocessed  a server that winds an HTTP/2 connection down (nginx does so after a
 *             thousand requests) sends GOAWAY with the number of the last stream that it
 *             processes; later ones are not processed (RFC 9113, 6.8). libcurl reports
 *             this in its debug texts alone. A text that is not understood changes
 *             nothing. Such a call may be written again.
 *   answered  the whole head of a final answer (not 1xx) was read.
 *
 * Room:      link, the only includer of libcurl.
 * Threads:   a client has one, that of its loop, with SIGPIPE blocked or ignored
 *            (sys/thread.h does that). http_ask() blocks the caller.
 * Ownership: a client is embedded by its owner, and calls too; both stay in place. What a
 *            call sends stays until its `done`.
 * Failure:   -ENOMEM, ERR_CONFIG; enum http_end says how a call ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "codec/ip.h"
#include "sys/clock.h"
#include "sys/loop.h"

#define HTTP_ANSWER_KEPT 2048u /* bytes of an answer that a call keeps */
#define HTTP_ERROR_MAX 256u
#define HTTP_HOST_MAX 256u

/* ---- URLs, as libcurl reads them ---- */

struct http_url {
	bool https;
	bool bare; /* there is nothing behind host and port but perhaps "/" */
	uint16_t port;
	char host[HTTP_HOST_MAX]; /* an IPv6 address in brackets; other names in ASCII */
};

/* ERR_INVALID: it is no http:// or https:// URL, has a user, or port 0. What is judged is
 * what is connected to: libcurl knows the many ways to write an address. */
int http_url_read(const char *url, struct http_url *ret_url) must_check;

/* Can libcurl use all of it? */
bool http_url_is_valid(const char *url);

/* Retry-After, in seconds or as a date; 0: neither, or in the past. At most a year. */
uint64_t http_retry_after(struct span value, uint64_t now_ms);

/* ---- calls on a loop ---- */

struct http_call;
struct http_watch;

enum http_end {
	HTTP_END_OK = 0,    /* the whole answer was read */
	HTTP_END_CONNECT,   /* there is no connection */
	HTTP_END_TIMEOUT,   /* connect_ms or timeout_ms are over */
	HTTP_END_NO_ANSWER, /* the connection was closed before an answer */
	HTTP_END_URL,       /* the URL cannot be used */
	HTTP_END_ABORTED,   /* http_client_abort() */
	HTTP_END_OTHER,     /* http_call.error says why */
};

struct http_client {
	/* Set by the owner before http_client_open(). */
	struct loop *loop;
	const struct clock *clock;
	/* Why an address must not be connected to; NULL: it may. */
	const char *(*refuse)(const struct http_client *client, const struct ip_address *address);
	/* A call has ended; it may be started again at once. */
	void (*done)(struct http_call *call, enum http_end end);

	/* Private. */
	void *multi;
	struct http_call *active;
	struct http_watch **watches; /* by descriptor */
	size_t watch_room;
	struct loop_timer timer;
	struct loop_hook hook;
	bool timer_owed; /* there was no memory for it */
	bool busy;       /* calls are being reported: no call of libcurl's may begin */
	bool added;      /* a call was started, meanwhile */
	bool started;    /* libcurl was initialised */
};

int http_client_open(struct http_client *client, struct error_text *ret_text) must_check;
/* Calls are closed before. Accepts a client that was not opened. */
void http_client_close(struct http_client *client);
/* Calls that were started begin. */
void http_client_run(struct http_client *client);
/* Ends all calls as HTTP_END_ABORTED, with this text as their error. */
void http_client_abort(struct http_client *client, const char *why);

/* A header line, "Name: value", in a list. Laid out as libcurl's own list. "Name;" is an
 * empty header, "Name:" leaves one out that libcurl would send. */
struct http_line {
	char *text;
	struct http_line *next;
};

/* A connection: one local port may have others elsewhere. */
struct http_way {
	char peer_ip[IP_TEXT_MAX], own_ip[IP_TEXT_MAX]; /* as libcurl writes them */
	int peer_port, own_port;
};

/* What is the same in all requests of a call. Files are PEM. */
struct http_call_options {
	bool https;
	bool http1;         /* no HTTP/2 */
	bool fresh;         /* each request on a connection of its own */
	bool whole;         /* keep the whole body of the answer, too */
	const char *method; /* "GET", "POST", "PUT" … */
	const char *url;    /* NULL: each request has its own */
	uint32_t connect_ms, timeout_ms;
	uint32_t idle_s;     /* how long an unused connection is kept; at least 1 */
	uint32_t answer_max; /* bytes: a connection with a longer answer is closed */
	const char *ca_file; /* NULL: the system's */
	const char *cert_file, *key_file;
};

struct http_call {
	struct http_client *client;
	void *easy;
	struct http_call *next, *before; /* among the active ones */
	bool whole_wanted, has_body;
	uint32_t answer_max;

	/* The next request. */
	const char *url; /* NULL: that of the options */
	struct http_line *lines;
	struct span body;      /* not with GET */
	struct http_line *pin; /* addresses for CURLOPT_RESOLVE, or NULL: those that are known */

	/* What is known of it; see above. */
	bool written, unprocessed, again, answered;
	struct http_way way; /* the connection that it was written to, … */
	uint32_t stream;     /* … and its number there, with HTTP/2 */
	const char *refusal; /* what `refuse` said */
	bool has_peer;       /* connected to, or tried: */
	struct ip_address peer;
	int connect_error;       /* errno of HTTP_END_CONNECT, or 0 */
	uint16_t status;         /* of the head that is being read, or was */
	uint64_t retry_after_ms; /* what the head says */
	uint64_t answer_bytes;   /* of the body */
	uint32_t kept;
	char answer[HTTP_ANSWER_KEPT];
	struct buf whole;
	char error[HTTP_ERROR_MAX]; /* what libcurl says, unless it ended well */
};

int http_call_open(struct http_call *call, struct http_client *client,
                   const struct http_call_options *options) must_check;
void http_call_close(struct http_call *call);
/* Forgets the last request and its answer. */
void http_call_reset(struct http_call *call);
/* Hands it to libcurl; http_client_run() begins it. -ENOMEM: `done` is not called. */
int http_call_start(struct http_call *call) must_check;
/* A debug text of libcurl on that call. */
void http_call_hear(struct http_call *call, struct span text);

/* ---- one question ---- */

struct http_ask {
	const char *method; /* GET, or POST without a body */
	const char *url;
	const char *unix_path; /* NULL: over the network */
	/* PEM, or NULL: whom the machine trusts. A certificate in the file is trusted under
	 * any name, see net/tls/tls_client.h. */
	const char *ca_file;
	struct http_line *lines;
	uint32_t limit_s;  /* to connect, and between two bytes of the answer */
	size_t answer_max; /* bytes */
};

/* Appends the answer's body to `out`. -ECONNREFUSED and other -errno: no connection;
 * -ETIMEDOUT, -EPROTO (TLS), ERR_TOO_LARGE, ERR_INVALID (what answers is no HTTP server),
 * ERR_DAMAGED (the answer is cut), -ENOMEM; each with a text. */
int http_ask(const struct http_ask *ask, uint16_t *ret_status, struct buf *out,
             struct error_text *ret_text) must_check;
