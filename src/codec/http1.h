/*
 * http1: HTTP/1.1 requests, parsed strictly. Pure: bytes in, spans out.
 *
 * Grammar: RFC 9112, without what request smuggling uses. CRLF only; no obs-fold, NUL
 * or bare CR; no empty name, no space before the colon; one Host; digits-only
 * Content-Length, once; Transfer-Encoding exactly "chunked", once, and never
 * with Content-Length; HTTP/1.1 and 1.0 only; the target in origin form ("/…",
 * or "*" for OPTIONS), or in absolute form ("http://host/…") with a host that is
 * Host's. Each refusal says why. One empty line before the request line is
 * skipped, as RFC 9112 2.2 asks.
 *
 * Use:     http1_scan_head() with all bytes so far until it is not MORE (no byte is scanned
 *          twice), then http1_parse_head() once, then for a
 *          chunked body http1_chunked_decode() with each new piece. Where the
 *          input is cut into pieces never changes the outcome.
 * Room:    codec. Threads: pure. Ownership: spans point into the caller's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define HTTP1_HEADERS_MAX 100
#define HTTP1_TARGET_MAX 8192           /* beyond is 414 */
#define HTTP1_CHUNK_EXTENSION_MAX 256   /* bytes in one chunk's line; beyond is 400 */
#define HTTP1_CHUNK_EXTENSIONS_MAX 4096 /* bytes in all lines of a body; beyond is 400 */
#define HTTP1_TRAILERS_MAX 4096         /* bytes of all trailers; beyond is 431 */
#define HTTP1_DATE_LEN 29               /* "Sun, 06 Nov 1994 08:49:37 GMT" */

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
	struct span name;  /* as sent; compare with span_eq_nocase() */
	struct span value; /* outer blanks removed */
};

struct http1_head {
	enum http1_method method;
	struct span method_text;
	struct span target; /* in origin form: starts with '/' (or is "*") */
	struct span path;   /* target up to '?' */
	struct span query;  /* after '?', may be empty */
	uint8_t minor;      /* HTTP/1.minor */
	bool keep_alive;    /* what version and Connection say */
	bool chunked;
	bool has_length;
	bool expect_continue;
	bool encoded; /* a Content-Encoding other than identity */
	uint64_t content_length;
	uint32_t header_count;
	struct http1_header
		headers[HTTP1_HEADERS_MAX]; /* only the first header_count are written */
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

/* Progress of the search for the end of a head. Zeroed before each request. */
struct http1_scan {
	uint32_t at;    /* bytes looked at */
	uint32_t line;  /* where the current line starts */
	uint32_t start; /* where the request line starts */
};

/* `input` starts at the request and holds all bytes so far. DONE: the head is
 * the first *ret_len bytes, its request line starts at scan->start. */
enum http1_status http1_scan_head(struct http1_scan *scan, struct span input,
                                  const struct http1_limits *limits, size_t *ret_len,
                                  struct http1_refusal *ret_refusal) must_check;

/* `head` is what http1_scan_head() found, from scan->start to *ret_len. DONE or
 * BAD; after BAD the bytes of ret_head mean nothing. */
enum http1_status http1_parse_head(struct span head, const struct http1_limits *limits,
                                   struct http1_head *ret_head,
                                   struct http1_refusal *ret_refusal) must_check;

/* The value of the first header with this name, or NULL. */
const struct span *http1_header_find(const struct http1_head *head, struct span name);

/* Moves all spans of a head along when its bytes were copied from one place to
 * another; both must still be valid. */
void http1_head_rebase(struct http1_head *head, const char *from, const char *to);

/* A chunked body on its way. Zeroed before each body but for `limit`. */
struct http1_chunked {
	uint64_t limit;     /* most bytes of the decoded body; beyond is 413 */
	uint64_t decoded;   /* bytes so far */
	uint64_t left;      /* of the current chunk */
	uint32_t digits;    /* of the chunk size */
	uint32_t extension; /* bytes of the current extension */
	uint32_t extensions;
	uint32_t trailers; /* bytes of all trailer lines */
	uint8_t state;     /* enum state in http1.c */
};

/* Decodes `input` to `out`, which may be input.ptr itself or lie before it.
 * Writes how many bytes it took and gave, whatever it returns. MORE takes all. */
enum http1_status http1_chunked_decode(struct http1_chunked *chunked, struct span input, char *out,
                                       size_t *ret_taken, size_t *ret_given,
                                       struct http1_refusal *ret_refusal) must_check;

/* An answer to write. */
struct http1_answer {
	uint16_t status;
	bool close;               /* Connection: close */
	bool say_keep_alive;      /* Connection: keep-alive, for HTTP/1.0 */
	const char *date;         /* HTTP1_DATE_LEN bytes */
	struct span content_type; /* empty: none */
	struct span headers;      /* whole lines, each ended by CRLF … */
	struct span fixed;        /* … and more of them */
	size_t content_length;
	bool endless; /* no Content-Length: the body ends with the connection */
};

/* Room that http1_write_head() needs at most. */
static inline size_t http1_head_room(const struct http1_answer *answer)
{
	return 256 + answer->content_type.len + answer->headers.len + answer->fixed.len;
}

/* Writes the head with its empty line and returns its length. 204 and 304 get
 * no Content-Length. */
size_t http1_write_head(const struct http1_answer *answer, char *out);

const char *http1_reason(uint16_t status); /* "Not Found"; "Unknown" beyond */
bool http1_is_token_char(char c);          /* tchar of RFC 9110 */
bool http1_is_token(struct span text);     /* not empty, only tchars: a header's name */
bool http1_is_value_char(char c);          /* VCHAR, obs-text, SP, TAB */
/* Is it this media type, whatever its parameters? */
bool http1_is_media_type(struct span content_type, struct span type);
void http1_format_date(uint64_t unix_s, char out[HTTP1_DATE_LEN]);
