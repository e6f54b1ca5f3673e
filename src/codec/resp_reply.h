/*
 * resp_reply: the client's half of RESP, the protocol of Redis: replies are read,
 * requests are written. Both versions, 2 and 3, but for streamed values.
 *
 * A reply is first found whole (resp_reply_scan(), over any cut of the bytes), then
 * walked (resp_reply_next()): its values in the order in which they stand, an array before
 * its elements.
 *
 * Room: codec. Threads: pure. Ownership: the caller's bytes. Nothing allocates but
 * what appends to a buf.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

#define RESP_REPLY_DEPTH_MAX 8u
#define RESP_REPLY_BULK_MAX (512u << 20) /* as Redis has it */
#define RESP_REPLY_ITEMS_MAX (16u << 20)

enum resp_reply_kind {
	RESP_REPLY_NULL = 0,
	RESP_REPLY_TEXT,      /* simple, bulk, verbatim (with its format), double, big number */
	RESP_REPLY_NUMBER,    /* also true and false */
	RESP_REPLY_ERROR,     /* the text begins with a word in capitals */
	RESP_REPLY_ARRAY,     /* also a set; of a map keys and values by turns */
	RESP_REPLY_PUSH,      /* nobody asked for it */
	RESP_REPLY_ATTRIBUTE, /* stands before the value that it belongs to */
};

struct resp_reply {
	enum resp_reply_kind kind;
	struct span text;
	int64_t number; /* of an array: how many elements follow */
};

/* Where the search for the end of a reply is; zero: at its beginning. */
struct resp_reply_scan {
	size_t at;
	uint32_t depth;
	uint64_t left[RESP_REPLY_DEPTH_MAX]; /* values that are missing at each depth */
};

/* 0: a whole reply is there, of *ret_len bytes; zero the scan for the next. -EAGAIN: not
 * yet; come again with the same bytes and more. ERR_INVALID, ERR_TOO_LARGE: no reply. */
int resp_reply_scan(struct resp_reply_scan *scan, struct span bytes, size_t *ret_len) must_check;

/* Reads the value at *offset of a whole reply and steps on; false at the end. */
bool resp_reply_next(struct span reply, size_t *offset, struct resp_reply *ret_value);

/* Steps over a value with all that is in it. */
void resp_reply_skip(struct span reply, size_t *offset);

/* Is it an error that begins with this word? */
bool resp_reply_says(const struct resp_reply *value, struct span word);

/* A request is its number of arguments, then those. */
void resp_request_begin(struct buf *out, uint64_t count);
void resp_request_add(struct buf *out, struct span argument);
void resp_request_add_parts(struct buf *out, const struct span *parts, size_t count); /* one */
void resp_request_add_u64(struct buf *out, uint64_t argument);

/* One argument of `len` bytes, which the caller appends between. */
void resp_request_open(struct buf *out, size_t len);
void resp_request_close(struct buf *out);
