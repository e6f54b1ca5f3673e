/*
 * http1: HTTP/1.1 requests, as strict as a gateway must be. Pure: bytes in,
 * spans out.
 *
 * Grammar: RFC 9112, less what smuggling lives on. CRLF only; no obs-fold, NUL
 * or bare CR; no empty name, no space before the colon; one Host; digits-only
 * Content-Length, once; Transfer-Encoding exactly "chunked", once, and never
 * with Content-Length; HTTP/1.1 and 1.0 only. Each refusal says why.
 *
 * Room: codec. Threads: pure. Ownership: spans point into the caller's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define HTTP1_HEADERS_MAX 100

enum http1_method {
	HTTP1_OTHER = 0, /* a valid token that we do not know: see method_text */
	HTTP1_GET,
	HTTP1_HEAD,
	HTTP1_POST,
	HTTP1_PUT,
	HTTP1_DELETE,
	HTTP1_OPTIONS,
	HTTP1_PATCH,
};

struct http1_header {
	struct span name; /* as sent; compare with span_eq_nocase() */
	struct span value; /* outer blanks removed */
};

struct http1_head {
	enum http1_method method;
	struct span method_text;
	struct span target; /* as sent, origin form: starts with '/' */
	struct span path;   /* target up to '?' */
	struct span query;  /* after '?', may be empty */
	uint8_t minor;      /* HTTP/1.minor */
	bool keep_alive;    /* what version and Connection say */
	bool chunked;
	bool has_length;
	bool expect_continue;
	uint64_t content_length;
	uint32_t header_count;
	struct http1_header headers[HTTP1_HEADERS_MAX];
};

enum http1_status {
	HTTP1_DONE = 0,
	HTTP1_MORE = 1, /* valid so far, not whole */
	HTTP1_BAD = 2,  /* see ret_refusal */
};

struct http1_refusal {
	uint16_t status;    /* 400, 413, 414, 417, 431, 501, 505 */
	const char *reason; /* static, for people */
};

struct http1_limits {
	uint32_t head_bytes;
	uint32_t headers; /* at most HTTP1_HEADERS_MAX */
};
