/*
 * resp_write: answers of the Redis protocol, values to bytes. Versions 2 and 3 differ
 * in what they have words for: where 2 has none, what Redis writes instead.
 *
 * Room: codec. Threads: pure. Failure: the buf's own (base/buf.h).
 */
#pragma once

#include "base/buf.h"
#include "base/text.h"

enum resp_version { RESP_2 = 2, RESP_3 = 3 };

/* The first word of an error, which clients look at. */
enum resp_error {
	RESP_ERR = 0,
	RESP_NOAUTH,
	RESP_WRONGPASS,
	RESP_NOPROTO,
	RESP_EXECABORT,
	RESP_OOM,
	RESP_MISCONF,
	RESP_LOADING,
	RESP_ERROR_COUNT
};

const char *resp_error_word(enum resp_error error);

/* `-WORD text`; line breaks in the text become blanks. */
void resp_write_error(struct buf *out, enum resp_error error, struct span text);

static inline void resp_write_line(struct buf *out, char kind, struct span text)
{
	buf_append_char(out, kind);
	buf_append_span(out, text);
	buf_append(out, "\r\n", 2);
}

/* Without CR and LF in it. */
static inline void resp_write_simple(struct buf *out, struct span text)
{
	resp_write_line(out, '+', text);
}

/* A kind and a number: integers, and the lengths of all else. */
static inline void resp_write_number(struct buf *out, char kind, uint64_t value)
{
	char digits[TEXT_U64_MAX];
	resp_write_line(out, kind, span_of(digits, text_u64(digits, value)));
}

static inline void resp_write_integer(struct buf *out, int64_t value)
{
	if (value >= 0)
		resp_write_number(out, ':', (uint64_t)value);
	else
		buf_printf(out, ":%lld\r\n", (long long)value);
}

static inline void resp_write_bulk(struct buf *out, struct span bytes)
{
	resp_write_number(out, '$', bytes.len);
	buf_append_span(out, bytes);
	buf_append(out, "\r\n", 2);
}

/* In the place of a bulk string. */
static inline void resp_write_null(struct buf *out, enum resp_version version)
{
	buf_append_span(out, version == RESP_3 ? SPAN("_\r\n") : SPAN("$-1\r\n"));
}

static inline void resp_write_array(struct buf *out, uint64_t count)
{
	resp_write_number(out, '*', count);
}

/* Pairs follow: key, value. */
static inline void resp_write_map(struct buf *out, uint64_t pairs, enum resp_version version)
{
	if (version == RESP_3)
		resp_write_number(out, '%', pairs);
	else
		resp_write_number(out, '*', 2 * pairs);
}

static inline void resp_write_set(struct buf *out, uint64_t count, enum resp_version version)
{
	resp_write_number(out, version == RESP_3 ? '~' : '*', count);
}

/* Text to be shown as it is (INFO, CLIENT INFO). */
static inline void resp_write_verbatim(struct buf *out, struct span text, enum resp_version version)
{
	if (version == RESP_2) {
		resp_write_bulk(out, text);
		return;
	}
	resp_write_number(out, '=', text.len + 4);
	buf_append_span(out, SPAN("txt:"));
	buf_append_span(out, text);
	buf_append(out, "\r\n", 2);
}
