/* http1: heads of requests, the chunked transfer coding, heads of answers. See http1.h. */
#include "codec/http1.h"

#include <time.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/hex.h"

static inline enum http1_status refuse(struct http1_refusal *ret_refusal, uint16_t status,
                                       const char *reason)
{
	*ret_refusal = (struct http1_refusal){ status, reason };
	return HTTP1_BAD;
}

/* ---- heads of requests ---- */

#define TOKEN 1 /* tchar */
#define HOST 2  /* what we let into a Host value */

#define T TOKEN
#define H HOST
#define B (TOKEN | HOST)
/* clang-format off */
static const uint8_t classes[256] = {
	['!'] = B, ['#'] = T, ['$'] = B, ['%'] = B, ['&'] = B, ['\''] = B, ['*'] = B, ['+'] = B,
	['-'] = B, ['.'] = B, ['^'] = T, ['_'] = B, ['`'] = T, ['|'] = T, ['~'] = B,
	[':'] = H, ['['] = H, [']'] = H, ['('] = H, [')'] = H, [';'] = H, ['='] = H,
	['0'] = B, B, B, B, B, B, B, B, B, B,
	['A'] = B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
	['a'] = B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
};
/* clang-format on */
#undef T
#undef H
#undef B

static inline bool is_class(char c, uint8_t class)
{
	return classes[(unsigned char)c] & class;
}

bool http1_is_token_char(char c)
{
	return is_class(c, TOKEN);
}

bool http1_is_token(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!http1_is_token_char(text.ptr[i]))
			return false;
	return text.len > 0;
}

bool http1_is_media_type(struct span content_type, struct span type)
{
	if (content_type.len < type.len)
		return false;
	char after = content_type.len > type.len ? content_type.ptr[type.len] : ';';
	return span_eq_nocase(span_of(content_type.ptr, type.len), type) &&
	       (after == ';' || after == ' ' || after == '\t');
}

bool http1_is_value_char(char c)
{
	unsigned char u = (unsigned char)c;
	return u == '\t' || (u >= 0x20 && u != 0x7f);
}

/* There is a line feed at `at`: DONE if it ends the head, MORE if it ends a line. */
static inline enum http1_status end_line(struct http1_scan *scan, const char *ptr, uint32_t at,
                                         struct http1_refusal *ret_refusal)
{
	if (unlikely(at == scan->line || ptr[at - 1] != '\r'))
		return refuse(ret_refusal, 400, "a line must end with CR LF");
	if (at - scan->line == 1) {
		if (scan->line > scan->start)
			return HTTP1_DONE;
		if (scan->start > 0)
			return refuse(ret_refusal, 400,
			              "more than one empty line before the request");
		scan->start = at + 1;
	}
	scan->line = at + 1;
	return HTTP1_MORE;
}

/* Scans the bytes from scan->at to `end`; on DONE scan->at is after the head. */
static enum http1_status scan_lines(struct http1_scan *scan, const char *ptr, uint32_t end,
                                    struct http1_refusal *ret_refusal)
{
	uint32_t at = scan->at;
#ifdef __SSE2__
	const __m128i feeds = _mm_set1_epi8('\n');
	for (; end - at >= 16; at += 16) {
		__m128i block = _mm_loadu_si128((const __m128i *)(const void *)(ptr + at));
		unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, feeds));
		for (; mask; mask &= mask - 1) {
			uint32_t found = at + (uint32_t)__builtin_ctz(mask);
			enum http1_status status = end_line(scan, ptr, found, ret_refusal);
			if (status != HTTP1_MORE) {
				scan->at = found + 1;
				return status;
			}
		}
	}
#endif
	for (; at < end; at++) {
		if (ptr[at] != '\n')
			continue;
		enum http1_status status = end_line(scan, ptr, at, ret_refusal);
		if (status != HTTP1_MORE) {
			scan->at = at + 1;
			return status;
		}
	}
	scan->at = at;
	return HTTP1_MORE;
}

enum http1_status http1_scan_head(struct http1_scan *scan, struct span input,
                                  const struct http1_limits *limits, size_t *ret_len,
                                  struct http1_refusal *ret_refusal)
{
	bool over = input.len >= limits->head_bytes;
	uint32_t end = over ? limits->head_bytes : (uint32_t)input.len;
	CHECK(scan->at <= end);
	/* Refuse a TLS hello or other noise at once. */
	if (scan->at == 0 && end > 0 && input.ptr[0] != '\r' && !is_class(input.ptr[0], TOKEN))
		return refuse(ret_refusal, 400, "this is not an HTTP request");
	enum http1_status status = scan_lines(scan, input.ptr, end, ret_refusal);
	if (status == HTTP1_DONE)
		*ret_len = scan->at;
	if (status != HTTP1_MORE || !over)
		return status;
	if (scan->line == scan->start)
		return refuse(ret_refusal, 414, "the request line is too long");
	return refuse(ret_refusal, 431, "the header section is too large");
}

/* The first byte from `at` that is not allowed in a value; the CR that ends
 * the line is one, so the search ends before `end`. */
static inline const char *value_end(const char *at, const char *end)
{
#ifdef __SSE2__
	const __m128i tab = _mm_set1_epi8('\t');
	const __m128i top = _mm_set1_epi8(0x1f);
	const __m128i del = _mm_set1_epi8(0x7f);
	for (; end - at >= 16; at += 16) {
		__m128i block = _mm_loadu_si128((const __m128i *)(const void *)at);
		__m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, top), block);
		__m128i bad = _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(block, tab), low),
		                           _mm_cmpeq_epi8(block, del));
		unsigned mask = (unsigned)_mm_movemask_epi8(bad);
		if (mask)
			return at + __builtin_ctz(mask);
	}
#endif
	while (at < end && http1_is_value_char(*at))
		at++;
	return at;
}

/* `lower` has only letters and '-'. For token bytes, setting bit 5 makes no
 * other byte look like one of those. */
static inline bool name_is(struct span name, const char *lower)
{
	for (size_t i = 0; i < name.len; i++)
		if ((name.ptr[i] | 0x20) != lower[i])
			return false;
	return true;
}

static enum http1_method method_of(struct span text)
{
	static const struct span names[] = {
		[HTTP1_GET] = { "GET", 3 },       [HTTP1_HEAD] = { "HEAD", 4 },
		[HTTP1_POST] = { "POST", 4 },     [HTTP1_PUT] = { "PUT", 3 },
		[HTTP1_DELETE] = { "DELETE", 6 }, [HTTP1_OPTIONS] = { "OPTIONS", 7 },
		[HTTP1_PATCH] = { "PATCH", 5 },
	};
	if (likely(span_eq(text, names[HTTP1_POST])))
		return HTTP1_POST;
	for (unsigned i = HTTP1_GET; i < ARRAY_LEN(names); i++)
		if (span_eq(text, names[i]))
			return (enum http1_method)i;
	return HTTP1_OTHER;
}

/* What is left of the request line, without CR LF. */
static enum http1_status parse_version(struct span text, struct http1_head *ret_head,
                                       struct http1_refusal *ret_refusal)
{
	if (text.len != 8 || memcmp(text.ptr, "HTTP/", 5) != 0 || text.ptr[6] != '.' ||
	    text.ptr[5] < '0' || text.ptr[5] > '9' || text.ptr[7] < '0' || text.ptr[7] > '9')
		return refuse(ret_refusal, 400,
		              "the request line does not end with an HTTP version");
	if (text.ptr[5] != '1' || text.ptr[7] > '1')
		return refuse(ret_refusal, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	ret_head->minor = (uint8_t)(text.ptr[7] - '0');
	ret_head->keep_alive = ret_head->minor == 1;
	return HTTP1_DONE;
}

/* Facts that are checked when the whole head is parsed. */
struct seen {
	struct span authority; /* of a target in absolute form */
	struct span host;
	bool closing;
};

/* RFC 9112 3.2.2: as a proxy sends it. The target becomes what it would be in
 * origin form. An empty path is "/", and the scheme has one to point at. */
static enum http1_status take_absolute(struct http1_head *head, struct seen *seen,
                                       struct http1_refusal *ret_refusal)
{
	struct span target = head->target;
	size_t start = 0;
	for (size_t len = 7; start == 0 && len <= 8; len++)
		if (target.len > len &&
		    span_eq_nocase(span_of(target.ptr, len),
		                   len == 7 ? SPAN("http://") : SPAN("https://")))
			start = len;
	size_t end = start;
	if (start == 0)
		return refuse(ret_refusal, 400,
		              "the request target is neither a path nor an http URL");
	while (end < target.len && is_class(target.ptr[end], HOST))
		end++;
	if (end == start)
		return refuse(ret_refusal, 400, "the request target has no host");
	if (end < target.len && target.ptr[end] != '/')
		return refuse(ret_refusal, 400,
		              "the request target's host has a forbidden byte, or no path follows");
	seen->authority = span_of(target.ptr + start, end - start);
	head->target = end < target.len ? span_skip(target, end)
	                                : span_of(target.ptr + start - 1, 1);
	return HTTP1_DONE;
}

static enum http1_status parse_request_line(const char **at, struct http1_head *ret_head,
                                            struct seen *seen, struct http1_refusal *ret_refusal)
{
	const char *p = *at, *start = p;
	while (is_class(*p, TOKEN))
		p++;
	if (p == start || *p != ' ')
		return refuse(ret_refusal, 400, "the method is not a token followed by one space");
	ret_head->method_text = span_of(start, (size_t)(p - start));
	ret_head->method = method_of(ret_head->method_text);
	start = ++p;
	while (*p > 0x20 && *p < 0x7f)
		p++;
	if (*p != ' ')
		return refuse(ret_refusal, 400, "the request target has a forbidden byte");
	ret_head->target = span_of(start, (size_t)(p - start));
	start = ++p;
	while (*p > 0x20 && *p < 0x7f)
		p++;
	if (p[0] != '\r' || p[1] != '\n')
		return refuse(ret_refusal, 400, "the request line has a forbidden byte");
	*at = p + 2;
	if (parse_version(span_of(start, (size_t)(p - start)), ret_head, ret_refusal))
		return HTTP1_BAD;
	if (ret_head->target.len > HTTP1_TARGET_MAX)
		return refuse(ret_refusal, 414, "the request target is too long");
	if (unlikely(ret_head->target.len == 0))
		return refuse(ret_refusal, 400, "the request target is empty");
	bool star = ret_head->target.len == 1 && ret_head->target.ptr[0] == '*' &&
	            ret_head->method == HTTP1_OPTIONS;
	if (unlikely(ret_head->target.ptr[0] != '/' && !star) &&
	    take_absolute(ret_head, seen, ret_refusal))
		return HTTP1_BAD;
	struct span target = ret_head->target;
	if (memchr(target.ptr, '#', target.len))
		return refuse(ret_refusal, 400, "the request target has a fragment");
	const char *mark = memchr(target.ptr, '?', target.len);
	size_t path_len = mark ? (size_t)(mark - target.ptr) : target.len;
	ret_head->path = span_of(target.ptr, path_len);
	ret_head->query = mark ? span_of(mark + 1, target.len - path_len - 1) : SPAN_EMPTY;
	return HTTP1_DONE;
}

static enum http1_status read_length(struct span value, struct http1_head *head,
                                     struct http1_refusal *ret_refusal)
{
	uint64_t length = 0;
	if (head->has_length)
		return refuse(ret_refusal, 400, "more than one Content-Length");
	if (value.len == 0)
		return refuse(ret_refusal, 400, "Content-Length is empty");
	for (size_t i = 0; i < value.len; i++) {
		unsigned digit = (unsigned)(unsigned char)value.ptr[i] - '0';
		if (digit > 9)
			return refuse(ret_refusal, 400, "Content-Length has more than digits");
		if (length > ((uint64_t)INT64_MAX - digit) / 10)
			return refuse(ret_refusal, 400, "Content-Length is beyond all measure");
		length = length * 10 + digit;
	}
	head->has_length = true;
	head->content_length = length;
	return HTTP1_DONE;
}

static bool contains_nocase(struct span text, struct span part)
{
	for (size_t i = 0; i + part.len <= text.len; i++)
		if (span_eq_nocase(span_of(text.ptr + i, part.len), part))
			return true;
	return false;
}

static enum http1_status read_coding(struct span value, struct http1_head *head,
                                     struct http1_refusal *ret_refusal)
{
	if (head->chunked)
		return refuse(ret_refusal, 400, "more than one Transfer-Encoding");
	if (head->minor == 0)
		return refuse(ret_refusal, 400, "Transfer-Encoding in HTTP/1.0");
	/* A near miss is an attempt at request smuggling (400); any other coding is only
	 * unsupported (501). */
	if (!span_eq(value, SPAN("chunked")))
		return value.len == 0 || contains_nocase(value, SPAN("chunked"))
		               ? refuse(ret_refusal, 400,
		                        "Transfer-Encoding is not exactly chunked")
		               : refuse(ret_refusal, 501,
		                        "this Transfer-Encoding is not spoken here");
	head->chunked = true;
	return HTTP1_DONE;
}

/* The words of a Connection header; `closing` remembers that close wins. */
static enum http1_status read_connection(struct span value, struct http1_head *head, bool *closing,
                                         struct http1_refusal *ret_refusal)
{
	const char *p = value.ptr, *end = value.ptr + value.len;
	while (p < end) {
		const char *start = p;
		while (p < end && is_class(*p, TOKEN))
			p++;
		struct span word = span_of(start, (size_t)(p - start));
		if (span_eq_nocase(word, SPAN("close")))
			*closing = true;
		else if (span_eq_nocase(word, SPAN("keep-alive")))
			head->keep_alive = true;
		if (p < end && *p != ',' && *p != ' ' && *p != '\t')
			return refuse(ret_refusal, 400, "Connection is not a list of tokens");
		while (p < end && (*p == ',' || *p == ' ' || *p == '\t'))
			p++;
	}
	return HTTP1_DONE;
}

static enum http1_status read_host(struct span value, struct seen *seen,
                                   struct http1_refusal *ret_refusal)
{
	if (seen->host.len)
		return refuse(ret_refusal, 400, "more than one Host");
	if (value.len == 0)
		return refuse(ret_refusal, 400, "Host is empty");
	for (size_t i = 0; i < value.len; i++)
		if (!is_class(value.ptr[i], HOST))
			return refuse(ret_refusal, 400, "Host has a forbidden byte");
	seen->host = value;
	return HTTP1_DONE;
}

static enum http1_status read_expect(struct span value, struct http1_head *head,
                                     struct http1_refusal *ret_refusal)
{
	if (head->minor == 0)
		return HTTP1_DONE; /* RFC 9110 10.1.1: ignored */
	if (!span_eq_nocase(value, SPAN("100-continue")))
		return refuse(ret_refusal, 417, "only 100-continue can be expected");
	head->expect_continue = true;
	return HTTP1_DONE;
}

/* The length rules out most headers. */
static inline enum http1_status note_header(const struct http1_header *header,
                                            struct http1_head *head, struct seen *seen,
                                            struct http1_refusal *ret_refusal)
{
	switch (header->name.len) {
	case 4:
		if (name_is(header->name, "host"))
			return read_host(header->value, seen, ret_refusal);
		break;
	case 6:
		if (name_is(header->name, "expect"))
			return read_expect(header->value, head, ret_refusal);
		break;
	case 10:
		if (name_is(header->name, "connection"))
			return read_connection(header->value, head, &seen->closing, ret_refusal);
		break;
	case 14:
		if (name_is(header->name, "content-length"))
			return read_length(header->value, head, ret_refusal);
		break;
	case 16:
		if (name_is(header->name, "content-encoding") &&
		    !span_eq_nocase(header->value, SPAN("identity")))
			head->encoded = true;
		break;
	case 17:
		if (name_is(header->name, "transfer-encoding"))
			return read_coding(header->value, head, ret_refusal);
		break;
	default: break;
	}
	return HTTP1_DONE;
}

/* Parses one line at *at and moves *at after it. `end` is the end of the head. */
static inline enum http1_status parse_header(const char **at, const char *end,
                                             struct http1_header *ret_header,
                                             struct http1_refusal *ret_refusal)
{
	const char *p = *at, *start = p;
	while (is_class(*p, TOKEN))
		p++;
	if (unlikely(p == start && (*p == ' ' || *p == '\t')))
		return refuse(ret_refusal, 400, "a header line is folded");
	if (unlikely(p == start || *p != ':'))
		return refuse(ret_refusal, 400, "a header name is not a token followed by a colon");
	ret_header->name = span_of(start, (size_t)(p - start));
	p++;
	while (*p == ' ' || *p == '\t')
		p++;
	start = p;
	p = value_end(p, end);
	if (unlikely(p[0] != '\r' || p[1] != '\n'))
		return refuse(ret_refusal, 400, "a header value has a forbidden byte");
	*at = p + 2;
	while (p > start && (p[-1] == ' ' || p[-1] == '\t'))
		p--;
	ret_header->value = span_of(start, (size_t)(p - start));
	return HTTP1_DONE;
}

/* No loop below needs to look at `end`: the scan has shown that every line ends
 * with CR LF and that an empty one comes last, and CR ends every run. */
enum http1_status http1_parse_head(struct span head, const struct http1_limits *limits,
                                   struct http1_head *ret_head, struct http1_refusal *ret_refusal)
{
	const char *at = head.ptr, *end = head.ptr + head.len;
	struct seen seen = { 0 };
	CHECK(head.len >= 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0);

	memset(ret_head, 0, offsetof(struct http1_head, headers));
	if (parse_request_line(&at, ret_head, &seen, ret_refusal))
		return HTTP1_BAD;
	uint32_t most = limits->headers < HTTP1_HEADERS_MAX ? limits->headers : HTTP1_HEADERS_MAX;
	while (at < end - 2) {
		struct http1_header *header = &ret_head->headers[ret_head->header_count];
		if (unlikely(ret_head->header_count == most))
			return refuse(ret_refusal, 431, "too many headers");
		if (unlikely(parse_header(&at, end, header, ret_refusal)))
			return HTTP1_BAD;
		if (unlikely(note_header(header, ret_head, &seen, ret_refusal)))
			return HTTP1_BAD;
		ret_head->header_count++;
	}
	if (ret_head->chunked && ret_head->has_length)
		return refuse(ret_refusal, 400, "both Content-Length and Transfer-Encoding");
	if (ret_head->minor == 1 && !seen.host.len)
		return refuse(ret_refusal, 400, "Host is missing");
	/* The RFC ignores Host then. Two different hosts in one request fool caches and
	 * filters, and no proxy sends them. */
	if (unlikely(seen.authority.len) && seen.host.len &&
	    !span_eq_nocase(seen.authority, seen.host))
		return refuse(ret_refusal, 400, "the request target and Host do not agree");
	if (seen.closing)
		ret_head->keep_alive = false;
	return HTTP1_DONE;
}

const struct span *http1_header_find(const struct http1_head *head, struct span name)
{
	for (uint32_t i = 0; i < head->header_count; i++)
		if (span_eq_nocase(head->headers[i].name, name))
			return &head->headers[i].value;
	return NULL;
}

static void rebase(struct span *span, const char *from, const char *to)
{
	if (span->ptr)
		span->ptr = to + (span->ptr - from);
}

void http1_head_rebase(struct http1_head *head, const char *from, const char *to)
{
	rebase(&head->method_text, from, to);
	rebase(&head->target, from, to);
	rebase(&head->path, from, to);
	rebase(&head->query, from, to);
	for (uint32_t i = 0; i < head->header_count; i++) {
		rebase(&head->headers[i].name, from, to);
		rebase(&head->headers[i].value, from, to);
	}
}

/* ---- the chunked transfer coding, one byte of framing at a time ---- */

enum state {
	SIZE = 0,  /* hex digits */
	EXTENSION, /* after ';' */
	SIZE_LF,   /* after the CR of a size line */
	DATA,      /* `left` bytes to come */
	DATA_CR,   /* after the data */
	DATA_LF,
	TRAILER, /* at the start of a line behind the last chunk */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF, /* after the CR of a trailer */
	END_LF,     /* after the CR of the empty line */
	END,
};

/* Takes one byte that is not data. */
static enum http1_status take_framing(struct http1_chunked *chunked, char c,
                                      struct http1_refusal *ret_refusal)
{
	switch (chunked->state) {
	case SIZE: {
		int digit = hex_value(c);
		if (digit >= 0) {
			if (chunked->digits++ == 15) /* 60 bits: cannot overflow */
				return refuse(ret_refusal, 400, "a chunk size has too many digits");
			chunked->left = chunked->left * 16 + (uint64_t)digit;
			return HTTP1_MORE;
		}
		if (chunked->digits == 0 || (c != ';' && c != '\r'))
			return refuse(ret_refusal, 400, "a chunk size is not a hexadecimal number");
		if (chunked->left > chunked->limit - chunked->decoded)
			return refuse(ret_refusal, 413, "the body is too large");
		chunked->digits = 0;
		chunked->extension = 0;
		chunked->state = c == ';' ? EXTENSION : SIZE_LF;
		return HTTP1_MORE;
	}
	case EXTENSION:
		if (c == '\r') {
			chunked->state = SIZE_LF;
			return HTTP1_MORE;
		}
		if (!http1_is_value_char(c))
			return refuse(ret_refusal, 400, "a chunk extension has a forbidden byte");
		if (chunked->extension++ == HTTP1_CHUNK_EXTENSION_MAX ||
		    chunked->extensions++ == HTTP1_CHUNK_EXTENSIONS_MAX)
			return refuse(ret_refusal, 400, "chunk extensions are too long");
		return HTTP1_MORE;
	case TRAILER:
	case TRAILER_NAME:
	case TRAILER_VALUE:
		if (chunked->trailers++ == HTTP1_TRAILERS_MAX)
			return refuse(ret_refusal, 431, "the trailer section is too large");
		if (chunked->state == TRAILER && c == '\r') {
			chunked->state = END_LF;
		} else if (chunked->state == TRAILER_VALUE) {
			if (c == '\r')
				chunked->state = TRAILER_LF;
			else if (!http1_is_value_char(c))
				return refuse(ret_refusal, 400, "a trailer has a forbidden byte");
		} else if (chunked->state == TRAILER_NAME && c == ':') {
			chunked->state = TRAILER_VALUE;
		} else if (http1_is_token_char(c)) {
			chunked->state = TRAILER_NAME;
		} else {
			return refuse(ret_refusal, 400,
			              "a trailer name is not a token followed by a colon");
		}
		return HTTP1_MORE;
	default: /* the end of a line: CR or LF */
		if (c != (chunked->state == DATA_CR ? '\r' : '\n'))
			return refuse(ret_refusal, 400, "a chunk does not end with CR LF");
		switch (chunked->state) {
		case SIZE_LF: chunked->state = chunked->left > 0 ? DATA : TRAILER; break;
		case DATA_CR: chunked->state = DATA_LF; break;
		case DATA_LF: chunked->state = SIZE; break;
		case TRAILER_LF: chunked->state = TRAILER; break;
		default: chunked->state = END; return HTTP1_DONE;
		}
		return HTTP1_MORE;
	}
}

enum http1_status http1_chunked_decode(struct http1_chunked *chunked, struct span input, char *out,
                                       size_t *ret_taken, size_t *ret_given,
                                       struct http1_refusal *ret_refusal)
{
	enum http1_status status = HTTP1_MORE;
	size_t taken = 0, given = 0;
	CHECK(chunked->state != END);
	CHECK(chunked->decoded <= chunked->limit);
	while (taken < input.len && status == HTTP1_MORE) {
		if (chunked->state == DATA) {
			size_t rest = input.len - taken;
			size_t n = rest < chunked->left ? rest : (size_t)chunked->left;
			if (n > 0 && out + given != input.ptr + taken)
				memmove(out + given, input.ptr + taken, n);
			chunked->left -= n;
			chunked->decoded += n;
			if (chunked->left == 0)
				chunked->state = DATA_CR;
			taken += n;
			given += n;
		} else {
			status = take_framing(chunked, input.ptr[taken++], ret_refusal);
		}
	}
	*ret_taken = taken;
	*ret_given = given;
	return status;
}

/* ---- heads of answers ---- */

const char *http1_reason(uint16_t status)
{
	static const struct {
		uint16_t status;
		const char *reason;
	} known[] = { { 200, "OK" },
		      { 201, "Created" },
		      { 202, "Accepted" },
		      { 204, "No Content" },
		      { 304, "Not Modified" },
		      { 400, "Bad Request" },
		      { 401, "Unauthorized" },
		      { 403, "Forbidden" },
		      { 404, "Not Found" },
		      { 405, "Method Not Allowed" },
		      { 408, "Request Timeout" },
		      { 409, "Conflict" },
		      { 411, "Length Required" },
		      { 413, "Content Too Large" },
		      { 414, "URI Too Long" },
		      { 415, "Unsupported Media Type" },
		      { 417, "Expectation Failed" },
		      { 422, "Unprocessable Content" },
		      { 429, "Too Many Requests" },
		      { 431, "Request Header Fields Too Large" },
		      { 500, "Internal Server Error" },
		      { 501, "Not Implemented" },
		      { 502, "Bad Gateway" },
		      { 503, "Service Unavailable" },
		      { 504, "Gateway Timeout" },
		      { 505, "HTTP Version Not Supported" } };
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return "Unknown";
}

static inline char *put(char *out, const void *ptr, size_t len)
{
	memcpy(out, ptr, len);
	return out + len;
}

#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

static char *put_number(char *out, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	return put(out, digits + at, sizeof(digits) - at);
}

size_t http1_write_head(const struct http1_answer *answer, char *out)
{
	char *start = out;
	if (likely(answer->status == 200)) {
		out = PUT(out, "HTTP/1.1 200 OK\r\nDate: ");
	} else {
		const char *reason = http1_reason(answer->status);
		out = PUT(out, "HTTP/1.1 ");
		out = put_number(out, answer->status);
		*out++ = ' ';
		out = put(out, reason, strlen(reason));
		out = PUT(out, "\r\nDate: ");
	}
	out = put(out, answer->date, HTTP1_DATE_LEN);
	out = PUT(out, "\r\n");
	if (answer->content_type.len > 0) {
		out = PUT(out, "Content-Type: ");
		out = put(out, answer->content_type.ptr, answer->content_type.len);
		out = PUT(out, "\r\n");
	}
	if (answer->status != 204 && answer->status != 304 && !answer->endless) {
		out = PUT(out, "Content-Length: ");
		out = put_number(out, answer->content_length);
		out = PUT(out, "\r\n");
	}
	if (answer->close)
		out = PUT(out, "Connection: close\r\n");
	else if (answer->say_keep_alive)
		out = PUT(out, "Connection: keep-alive\r\n");
	if (answer->headers.len > 0)
		out = put(out, answer->headers.ptr, answer->headers.len);
	if (answer->fixed.len > 0)
		out = put(out, answer->fixed.ptr, answer->fixed.len);
	out = PUT(out, "\r\n");
	return (size_t)(out - start);
}

static char *put_two(char *out, int value)
{
	*out++ = (char)('0' + value / 10 % 10);
	*out++ = (char)('0' + value % 10);
	return out;
}

void http1_format_date(uint64_t unix_s, char out[HTTP1_DATE_LEN])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t when = (time_t)(unix_s % 253402300800u); /* the year has four digits */
	struct tm tm = { 0 };
	gmtime_r(&when, &tm);
	out = put(out, days + 3 * (tm.tm_wday % 7), 3);
	out = PUT(out, ", ");
	out = put_two(out, tm.tm_mday);
	*out++ = ' ';
	out = put(out, months + 3 * (tm.tm_mon % 12), 3);
	*out++ = ' ';
	out = put_two(out, (tm.tm_year + 1900) / 100);
	out = put_two(out, (tm.tm_year + 1900) % 100);
	*out++ = ' ';
	out = put_two(out, tm.tm_hour);
	*out++ = ':';
	out = put_two(out, tm.tm_min);
	*out++ = ':';
	out = put_two(out, tm.tm_sec);
	PUT(out, " GMT");
}
