/*
 * buf: bytes that grow, up to a cap.
 *
 * Room:      base. Threads: one owner.
 * Ownership: buf_free() takes the bytes; a zeroed struct is an empty buf
 *            without a cap. A buf may also use the caller's memory (buf_on()): then it never
 *            grows and must not be freed.
 * Failure:   a failed append changes nothing but sets `failed` to why, which
 *            sticks until buf_clear(); so a run of appends needs one check at
 *            its end.
 *            Appends after a failed one do nothing: the bytes are a prefix of
 *            what was wanted, never a text with a hole.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

struct buf {
	char *ptr;
	size_t len;
	size_t room; /* bytes allocated */
	size_t cap;  /* most bytes allowed; 0 is no cap */
	int failed;  /* 0, or the first error: -ENOMEM, ERR_TOO_LARGE */
};

/* Reserves room for `more` bytes at the end; 0, -ENOMEM or ERR_TOO_LARGE.
 * Does not set `failed`. */
int buf_reserve(struct buf *buf, size_t more);

/* Sets `failed`, unless it is; an error of 0 changes nothing. */
static inline void buf_fail(struct buf *buf, int error)
{
	if (!buf->failed)
		buf->failed = error;
}

void buf_append_slow(struct buf *buf, const void *ptr, size_t len);
void buf_append_u64(struct buf *buf, uint64_t value); /* decimal */
void buf_printf(struct buf *buf, const char *format, ...) printf_like(2, 3);
/* Quoted and escaped; bad UTF-8 becomes U+FFFD. Control characters, also the
 * ones beyond ASCII, and those that change the direction of a line are written as \u
 * escapes (utf8_steers()): safe on a terminal. */
void buf_append_json(struct buf *buf, struct span text);
void buf_clear(struct buf *buf); /* keeps the memory */
void buf_free(struct buf *buf);  /* leaves an empty buf with the same cap */

static inline struct buf buf_on(char *memory, size_t size)
{
	return (struct buf){ .ptr = memory, .room = size, .cap = size };
}

static inline void buf_append(struct buf *buf, const void *ptr, size_t len)
{
	if (likely(len <= buf->room - buf->len && !buf->failed && len > 0)) {
		memcpy(buf->ptr + buf->len, ptr, len);
		buf->len += len;
	} else {
		buf_append_slow(buf, ptr, len);
	}
}

static inline void buf_append_span(struct buf *buf, struct span span)
{
	buf_append(buf, span.ptr, span.len);
}

static inline void buf_append_char(struct buf *buf, char c)
{
	buf_append(buf, &c, 1);
}

static inline struct span buf_span(const struct buf *buf)
{
	return (struct span){ buf->ptr, buf->len };
}
