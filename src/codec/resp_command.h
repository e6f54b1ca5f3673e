/*
 * resp_command: what clients of the Redis protocol send, bytes to commands.
 *
 * A command is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or a line
 * of words (`GET k\r\n`, words may be quoted as in redis-cli). Nothing else is taken:
 * lengths are plain decimal numbers, lines end with CR LF, a bulk string is followed by
 * CR LF. A line of words may end with LF alone, as Redis has it.
 *
 * The bytes of a command may come in any pieces; what was looked at is not looked at
 * again. Arguments are places in the caller's bytes. Words with quotes are unquoted
 * where they stand, when their line is whole: so the bytes are not const.
 *
 * Room:      codec. Threads: one owner.
 * Ownership: bytes are the caller's, who may move them between calls as long as they
 *            start with the command. A zeroed parser is ready; resp_parser_free() gives
 *            back what commands with many arguments took.
 * Failure:   RESP_BROKEN: the stream has no more commands; resp_parser_problem() says
 *            why, in Redis' words where Redis has some. RESP_NO_MEMORY is as final.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define RESP_ARGS_FEW 8u
#define RESP_PROBLEM_MAX 80u

struct resp_limits {
	uint32_t args;          /* of a command */
	uint32_t bulk_bytes;    /* of an argument; less than 2 GiB, as is … */
	uint32_t command_bytes; /* … a whole command */
	uint32_t line_bytes;    /* of a line of words */
	bool stranger;          /* the limits are those of who has not said a password yet */
};

struct resp_arg {
	uint32_t at, len; /* from the command's first byte */
};

enum resp_step {
	RESP_MORE = 0, /* at least `need` bytes from the command's start on */
	RESP_COMMAND,  /* `used` bytes are a command of `count` arguments, at least one */
	RESP_NOTHING,  /* `used` bytes say nothing: an empty line or array */
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
	RESP_FAULT_QUOTES,
};

struct resp_parser {
	uint32_t used;
	uint32_t need;
	uint32_t count;
	struct resp_arg *args; /* of the last command, until the next call */

	/* the parser's */
	uint32_t at;       /* looked at so far */
	uint32_t expected; /* arguments of the array; 0: its length has not come */
	uint32_t room;
	bool in_bulk; /* args[count] has its place and length */
	bool whole;   /* the last call gave a command, or nothing */
	char found;   /* of RESP_FAULT_BULK_START */
	uint8_t fault;
	struct resp_arg few[RESP_ARGS_FEW];
	struct resp_arg *many; /* NULL: few are enough */
};

/* Looks at the `len` bytes that there are, from the command's first on. */
enum resp_step resp_parse(struct resp_parser *parser, char *bytes, size_t len,
                          const struct resp_limits *limits);
void resp_parser_problem(const struct resp_parser *parser, char ret_text[static RESP_PROBLEM_MAX]);
void resp_parser_free(struct resp_parser *parser);
