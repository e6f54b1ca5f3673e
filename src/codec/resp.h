/*
 * resp: the protocol of Redis, both sides, versions 2 and 3.
 *
 * Three parts:
 *   resp_parse()     a server reads commands
 *   resp_write_…()   a server writes replies
 *   resp_reply_…(), resp_request_…()
 *                    a client reads replies and writes commands; streamed values of
 *                    version 3 are not supported
 *
 * Room:      codec. Threads: a parser has one owner; all else is pure.
 * Ownership: bytes are the caller's; spans and resp_arg point into them. Only
 *            resp_parse() (commands with many arguments) and appends to a buf allocate.
 * Failure:   see each part; appends set the buf's `failed`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"
#include "base/text.h"

/* ---- commands, as a server reads them ----
 *
 * A command is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or a line of
 * words (`GET k\r\n`, quoted as in redis-cli). Nothing else is accepted: lengths are plain
 * decimal numbers, lines end with CR LF, and CR LF follows a bulk string. A line of words
 * may end with LF alone, as in Redis.
 *
 * The bytes of a command may arrive in any pieces; no byte is scanned twice. Arguments are
 * offsets into the caller's bytes, which may move between calls as long as they start with
 * the command. A complete line of quoted words is unquoted in place: so the bytes are not
 * const. A zeroed parser is ready to use; resp_parser_free() frees its memory.
 *
 * RESP_BROKEN: no more commands can be read from the stream. resp_parser_problem() says why,
 * in the words of Redis if it has any. RESP_NO_MEMORY is final too.
 */

#define RESP_ARGS_FEW 8u
#define RESP_PROBLEM_MAX 80u

struct resp_limits {
	uint32_t args;          /* of a command */
	uint32_t bulk_bytes;    /* of an argument; less than 2 GiB, as is … */
	uint32_t command_bytes; /* … a whole command */
	uint32_t line_bytes;    /* of a line of words */
	bool stranger;          /* limits of a client that has not authenticated */
};

struct resp_arg {
	uint32_t at, len; /* from the command's first byte */
};

enum resp_step {
	RESP_MORE = 0, /* incomplete: needs at least `need` bytes, counted from the start */
	RESP_COMMAND,  /* `used` bytes are a command of `count` arguments, at least one */
	RESP_NOTHING,  /* `used` bytes are an empty line or array */
	RESP_BROKEN,
	RESP_NO_MEMORY,
};

enum resp_fault {
	RESP_FAULT_NONE = 0,
	RESP_FAULT_ARRAY_LENGTH,
	RESP_FAULT_STRANGER_ARRAY,
	RESP_FAULT_BULK_START,
	RESP_FAULT_BULK_LENGTH,
	RESP_FAULT_STRANGER_BULK,
	RESP_FAULT_BULK_END,
	RESP_FAULT_TOO_LARGE,
	RESP_FAULT_LINE_LENGTH,
	RESP_FAULT_QUOTES
};

struct resp_parser {
	uint32_t used;
	uint32_t need;
	uint32_t count;
	struct resp_arg *args; /* of the last command, until the next call */

	/* private */
	uint32_t at;       /* bytes scanned so far */
	uint32_t expected; /* arguments of the array; 0: its length is not read yet */
	uint32_t room;
	bool in_bulk; /* the position and length of args[count] are known */
	bool whole;   /* the last call returned RESP_COMMAND or RESP_NOTHING */
	char found;   /* of RESP_FAULT_BULK_START */
	uint8_t fault;
	struct resp_arg few[RESP_ARGS_FEW];
	struct resp_arg *many; /* NULL: few are enough */
};

/* `bytes`: all `len` bytes received so far, from the start of the command. */
enum resp_step resp_parse(struct resp_parser *parser, char *bytes, size_t len,
                          const struct resp_limits *limits);
void resp_parser_problem(const struct resp_parser *parser, char ret_text[static RESP_PROBLEM_MAX]);
void resp_parser_free(struct resp_parser *parser);

/* ---- replies, as a server writes them: where version 2 has no type, what Redis writes ---- */

enum resp_version { RESP_2 = 2, RESP_3 = 3 };

/* The first word of an error; clients compare it. */
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

/* The text must not contain CR or LF. */
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

/* Instead of a bulk string. */
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

/* Text for people (INFO, CLIENT INFO). */
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

/* ---- replies and requests, as a client reads and writes them ---- */

#define RESP_REPLY_DEPTH_MAX 8u
#define RESP_REPLY_BULK_MAX (512u << 20) /* the limit of Redis */
#define RESP_REPLY_ITEMS_MAX (16u << 20)

enum resp_reply_kind {
	RESP_REPLY_NULL = 0,
	RESP_REPLY_TEXT,      /* simple, bulk, verbatim (with its format), double, big number */
	RESP_REPLY_NUMBER,    /* also true and false */
	RESP_REPLY_ERROR,     /* the text begins with a word in capitals */
	RESP_REPLY_ARRAY,     /* also a set; a map as keys and values in turn */
	RESP_REPLY_PUSH,      /* not the answer to a request */
	RESP_REPLY_ATTRIBUTE, /* precedes the value that it belongs to */
};

struct resp_reply {
	enum resp_reply_kind kind;
	struct span text;
	int64_t number; /* of an array: how many elements follow */
};

/* Progress of the search for the end of a reply. Zeroed before each reply. */
struct resp_reply_scan {
	size_t at;
	uint32_t depth;
	uint64_t left[RESP_REPLY_DEPTH_MAX]; /* values still missing at each depth */
};

/* 0: the reply is complete and has *ret_len bytes. -EAGAIN: incomplete; call again with the
 * same bytes and more. ERR_INVALID, ERR_TOO_LARGE: not a reply. */
int resp_reply_scan(struct resp_reply_scan *scan, struct span bytes, size_t *ret_len) must_check;

/* Reads the value at *offset of a complete reply and moves *offset behind it; an array
 * comes before its elements. False at the end. */
bool resp_reply_next(struct span reply, size_t *offset, struct resp_reply *ret_value);

/* Skips a value and everything in it. */
void resp_reply_skip(struct span reply, size_t *offset);

/* Is it an error that begins with this word? */
bool resp_reply_says(const struct resp_reply *value, struct span word);

/* A request: the number of its arguments, then each of them. */
void resp_request_begin(struct buf *out, uint64_t count);
void resp_request_add(struct buf *out, struct span argument);
void resp_request_add_parts(struct buf *out, const struct span *parts,
                            size_t count); /* one argument */
void resp_request_add_u64(struct buf *out, uint64_t argument);

/* One argument of `len` bytes, which the caller appends between the two calls. */
void resp_request_open(struct buf *out, size_t len);
void resp_request_close(struct buf *out);
