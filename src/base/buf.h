/*
 * buf: bytes that grow, up to a cap.
 *
 * Room:      base. Threads: one owner.
 * Ownership: buf_free() takes the bytes; a zeroed struct is an empty buf
 *            without a cap.
 * Failure:   a failed append changes nothing but sets `failed`, which sticks
 *            until buf_clear(); so a run of appends needs one check at its end.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

struct buf {
	char *ptr;
	size_t len;
	size_t room; /* bytes allocated */
	size_t cap;  /* most bytes allowed; 0 is no cap */
	bool failed;
};

int buf_reserve(struct buf *buf, size_t more); /* 0, -ENOMEM or ERR_TOO_LARGE */
void buf_append(struct buf *buf, const void *ptr, size_t len);
void buf_append_span(struct buf *buf, struct span span);
void buf_append_char(struct buf *buf, char c);
void buf_append_u64(struct buf *buf, uint64_t value); /* decimal */
void buf_printf(struct buf *buf, const char *format, ...) printf_like(2, 3);
void buf_append_json(struct buf *buf, struct span text); /* quoted and escaped; bad UTF-8 becomes U+FFFD */
void buf_consume(struct buf *buf, size_t n);  /* drops n bytes from the front */
void buf_clear(struct buf *buf);              /* keeps the memory */
void buf_free(struct buf *buf);               /* leaves an empty buf with the same cap */

static inline struct span buf_span(const struct buf *buf)
{
	return (struct span){ buf->ptr, buf->len };
}
