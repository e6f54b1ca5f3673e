/*
 * http_outlet: events as HTTP requests, by libcurl's multi interface on the
 * thread's loop.
 *
 * Every attempt carries Idempotency-Key and webhook-id (the event's ticket, the same
 * each time), Stile-Attempt, Stile-Source, Content-Type, traceparent, tracestate and
 * the correlation id as they came, the sink's own headers, and the same body: the
 * payload byte for byte, unless a template makes another. Standard Webhooks'
 * webhook-timestamp and webhook-signature are there when there are secrets.
 *
 * A batch is one request for up to `batch_events` attempts; its result is the result
 * of each. Its key is its ticket when it has one event, else a digest of all its
 * tickets, which are listed in Stile-Tickets: a sink that must know an event again
 * has to look there, since a retry may come in other company.
 *
 * With `verdicts` the peer is another stile, and each event of a batch has a result of its
 * own: new, duplicate, stale and spooled are DONE, since it has them on disk, as is a conflict that
 * it let through; unless it waits for outcomes and has a bad one (REFUSED, 502 or 504). Any
 * other conflict is REFUSED for good, busy is REFUSED with 503, and what it cannot read is
 * REFUSED with its status. A 2xx without verdicts is UNKNOWN: to send again is safe. An event
 * that is no JSON goes alone, as it came.
 *
 * What is known of an attempt (see link/http.h)
 *   NOT_SENT  until libcurl begins to write the request: no address, refused, TLS, a
 *             time-out before that. Also what a server of HTTP/2 says it did not process.
 *             permanent: a template's value is missing or unfit.
 *   UNKNOWN   from then on, until the whole head of a final answer (not 1xx) is here.
 *   DONE      the head says 2xx. REFUSED: it says anything else; redirects are not
 *             followed. How the answer's body ends changes nothing.
 * A connection that the peer is known to have closed is not taken from the pool; one that
 * closes just when the request leaves cannot be told from one that closed after reading it:
 * UNKNOWN. `idle_ms` should be below the peer's own limit. A stream of HTTP/2 that is refused
 * on its own (REFUSED_STREAM) libcurl does not tell from a lost one.
 *
 * Where it may connect to (SSRF)
 *   Scheme, host and port are fixed; places are for path and query, and what fills
 *   them cannot be more than one piece of a path. A name is resolved here, on a thread
 *   of its own; if one of its addresses is not public (ip_special()) and not in
 *   `allow`, nothing is sent. libcurl gets the addresses that were judged, and
 *   each is judged once more at the moment of connecting. A name is resolved anew
 *   after HTTP_NAME_MS, and when a connection was refused; if that cannot be done just
 *   then, its last addresses are used on. No proxies, no .netrc, no cookies, no user names in URLs.
 *
 * TLS 1.2 and later, names verified; HTTP/2 where ALPN agrees on it.
 *
 * Texts of results hold no secrets: values of secret headers and their secret parts, of the
 * URL's query and long names of its path are blotted out of what a server says.
 *
 * Room:      sink.
 * Threads:   one, that of the loop, with SIGPIPE blocked or ignored (sys/thread.h does
 *            that): OpenSSL writes without asking. interrupt() any. Names are resolved on short-lived
 *            threads, which an ending outlet does not wait for.
 * Ownership: options are copied but for loop and clock, which stay longer than it.
 * Failure:   ERR_CONFIG and a text: what is wrong with which option; -ENOMEM.
 */
#pragma once

#include "base/error.h"
#include "codec/ip.h"
#include "gate/template.h"
#include "link/name_lookup.h"
#include "sink/outlet.h"
#include "sys/clock.h"
#include "sys/loop.h"

#define HTTP_HEADERS_MAX 32u
#define HTTP_SECRETS_MAX 5u
#define HTTP_ALLOW_MAX 32u
#define HTTP_BATCH_MAX 256u
#define HTTP_NAME_MS 30000u

enum http_method { HTTP_POST = 0, HTTP_PUT, HTTP_PATCH };
enum http_batch { HTTP_BATCH_NONE = 0, HTTP_BATCH_NDJSON, HTTP_BATCH_ARRAY };

struct http_header_option {
	struct span name;
	struct span value; /* a template */
	bool secret;       /* as are all that are named like one: authorization, …key, …token */
	bool hidden;       /* a template with a secret in it */
	const struct span *parts; /* of the value: secrets by themselves, too */
	uint32_t part_count;
};

struct http_headers {
	uint32_t count;
	const struct http_header_option *list;
};

/* What is 0 or empty is by default. */
struct http_outlet_options {
	struct loop *loop;         /* not for http_outlet_check() */
	const struct clock *clock; /* default: the machine's */
	struct span url;           /* a template, with places behind the host only */
	struct span probe;         /* likewise, of a GET with the same headers; empty: none */
	struct http_headers headers;
	enum http_method method;
	struct span body;  /* a template; empty: the payload */
	bool body_is_form; /* else it is JSON */
	enum http_batch batch;
	bool verdicts;         /* batches are NDJSON then, and the body is the event */
	uint32_t batch_events; /* 100; at most HTTP_BATCH_MAX */
	uint32_t batch_bytes;  /* 1 MiB; a single event may be larger */
	uint32_t connect_ms;   /* 10 s: name, connection and TLS */
	uint32_t timeout_ms;   /* 30 s: all of it */
	uint32_t name_ms;      /* HTTP_NAME_MS */
	uint32_t idle_ms;      /* 4 s: how long an unused connection is kept, whole seconds */
	bool fresh;            /* each request on a connection of its own */
	bool http1;            /* no HTTP/2 */
	struct span correlation_header; /* X-Correlation-Id */
	uint32_t answer_max;            /* 1 MiB: a connection with a longer answer is closed */
	const char *ca_file;            /* PEM; default: the system's */
	const char *cert_file;          /* PEM: ours, with its chain, … */
	const char *key_file;           /* … and its key */
	struct span server_name;        /* for TLS, in the place of the URL's host */
	uint32_t sign_count;
	struct span sign[HTTP_SECRETS_MAX]; /* "whsec_…"; the first is the newest */
	uint32_t allow_count;
	struct span allow[HTTP_ALLOW_MAX]; /* CIDR: reached though they are not public */
	name_lookup_fn *lookup;            /* for tests; default: the system's resolver */
};

int http_outlet_new(const struct http_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text) must_check;

/* Would http_outlet_new() accept them? Files are not opened. */
int http_outlet_check(const struct http_outlet_options *options,
                      struct error_text *ret_text) must_check;
