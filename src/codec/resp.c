/* resp: see resp.h. */
#include "codec/resp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/mem.h"

#define LENGTH_DIGITS_MAX 10u

static enum resp_step broken(struct resp_parser *parser, enum resp_fault fault)
{
	parser->fault = (uint8_t)fault;
	return RESP_BROKEN;
}

static enum resp_step more(struct resp_parser *parser, size_t need)
{
	parser->need = (uint32_t)need;
	return RESP_MORE;
}

static enum resp_step whole(struct resp_parser *parser, enum resp_step step)
{
	parser->used = parser->at;
	parser->whole = true;
	return step;
}

static bool grow_args(struct resp_parser *parser)
{
	uint32_t room = parser->room * 2;
	struct resp_arg *many = mem_realloc(parser->many, room * sizeof(*many));
	if (!many)
		return false;
	if (!parser->many)
		memcpy(many, parser->few, sizeof(parser->few));
	parser->args = parser->many = many;
	parser->room = room;
	return true;
}

static inline bool has_room(struct resp_parser *parser)
{
	return likely(parser->count < parser->room) || grow_args(parser);
}

/* ---- lines of words ---- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_hex_pair(const char *at, const char *end)
{
	return end - at >= 4 && at[1] == 'x' && hex_value(at[2]) >= 0 && hex_value(at[3]) >= 0;
}

/* Reads a quoted part, from after its opening quote, and writes it to *out. NULL: the closing
 * quote is missing, or no blank follows it. */
static const char *read_quoted(const char *at, const char *end, char quote, char **out)
{
	for (; at < end && *at != quote; at++) {
		char c = *at;
		if (quote == '"' && c == '\\' && is_hex_pair(at, end)) {
			c = (char)(hex_value(at[2]) * 16 + hex_value(at[3]));
			at += 3;
		} else if (quote == '"' && c == '\\' && end - at > 1) {
			static const char letters[] = "nrtba";
			const char *letter = memchr(letters, *++at, 5);
			c = letter ? "\n\r\t\b\a"[letter - letters] : *at;
		} else if (quote == '\'' && c == '\\' && end - at > 1 && at[1] == '\'') {
			c = *++at;
		}
		*(*out)++ = c;
	}
	if (at == end || (end - at > 1 && !is_blank(at[1])))
		return NULL;
	return at + 1;
}

/* One word, which is written over itself. NULL: its quotes are not balanced. */
static const char *read_word(char *at, const char *end, struct span *ret_word)
{
	char *out = at;
	const char *from = at;
	while (from < end && !is_blank(*from)) {
		if (*from == '"' || *from == '\'') {
			from = read_quoted(from + 1, end, *from, &out);
			if (!from)
				return NULL;
			break;
		}
		*out++ = *from++;
	}
	*ret_word = span_of(at, (size_t)(out - at));
	return from;
}

static enum resp_step read_words(struct resp_parser *parser, char *bytes, size_t len,
                                 const struct resp_limits *limits)
{
	const char *end = bytes + len;
	char *at = bytes;
	for (;;) {
		struct span word;
		while (at < end && is_blank(*at))
			at++;
		if (at == end)
			break;
		const char *next = read_word(at, end, &word);
		if (!next)
			return broken(parser, RESP_FAULT_QUOTES);
		if (parser->count == limits->args)
			return broken(parser, RESP_FAULT_ARRAY_LENGTH);
		if (!has_room(parser))
			return RESP_NO_MEMORY;
		parser->args[parser->count++] = (struct resp_arg){ (uint32_t)(word.ptr - bytes),
			                                           (uint32_t)word.len };
		at = bytes + (next - bytes);
	}
	return whole(parser, parser->count > 0 ? RESP_COMMAND : RESP_NOTHING);
}

static enum resp_step read_line(struct resp_parser *parser, char *bytes, size_t len,
                                const struct resp_limits *limits)
{
	const char *end = memchr(bytes + parser->at, '\n', len - parser->at);
	size_t line_len = end ? (size_t)(end - bytes) : len;
	if (line_len > limits->line_bytes)
		return broken(parser, RESP_FAULT_LINE_LENGTH);
	if (!end) {
		parser->at = (uint32_t)len;
		return more(parser, len + 1);
	}
	parser->at = (uint32_t)line_len + 1;
	if (line_len > 0 && bytes[line_len - 1] == '\r')
		line_len--;
	return read_words(parser, bytes, line_len, limits);
}

/* ---- arrays ---- */

enum length { LENGTH_OK, LENGTH_MORE, LENGTH_BAD };

/* A decimal number and CR LF behind the byte at parser->at. One below 0 reads as 0 if
 * it may be. */
static inline enum length read_length(struct resp_parser *parser, const char *bytes, size_t len,
                                      bool negative, uint32_t *ret_value)
{
	size_t at = parser->at + 1;
	bool minus = negative && at < len && bytes[at] == '-';
	uint64_t value = 0;
	at += minus;
	size_t first = at;
	for (; at < len && bytes[at] >= '0' && bytes[at] <= '9'; at++) {
		if (at - first == LENGTH_DIGITS_MAX || (at > first && value == 0))
			return LENGTH_BAD;
		value = value * 10 + (uint64_t)(bytes[at] - '0');
	}
	if (at == len)
		return LENGTH_MORE;
	if (at == first || bytes[at] != '\r' || value > INT32_MAX)
		return LENGTH_BAD;
	if (at + 1 == len)
		return LENGTH_MORE;
	if (bytes[at + 1] != '\n')
		return LENGTH_BAD;
	*ret_value = minus ? 0 : (uint32_t)value;
	parser->at = (uint32_t)at + 2;
	return LENGTH_OK;
}

/* The length of the next argument; RESP_COMMAND: it is there. */
static inline enum resp_step read_bulk_head(struct resp_parser *parser, const char *bytes,
                                            size_t len, const struct resp_limits *limits)
{
	uint32_t bulk_len;
	if (parser->at == len)
		return more(parser, len + 1);
	if (unlikely(bytes[parser->at] != '$')) {
		parser->found = bytes[parser->at];
		return broken(parser, RESP_FAULT_BULK_START);
	}
	enum length result = read_length(parser, bytes, len, false, &bulk_len);
	if (unlikely(result == LENGTH_MORE))
		return more(parser, len + 1);
	if (unlikely(result == LENGTH_BAD))
		return broken(parser, RESP_FAULT_BULK_LENGTH);
	if (unlikely(bulk_len > limits->bulk_bytes))
		return broken(parser,
		              limits->stranger ? RESP_FAULT_STRANGER_BULK : RESP_FAULT_BULK_LENGTH);
	if (unlikely((uint64_t)parser->at + bulk_len + 2 > limits->command_bytes))
		return broken(parser, RESP_FAULT_TOO_LARGE);
	if (!has_room(parser))
		return RESP_NO_MEMORY;
	parser->args[parser->count] = (struct resp_arg){ parser->at, bulk_len };
	parser->in_bulk = true;
	return RESP_COMMAND;
}

static inline enum resp_step read_bulk(struct resp_parser *parser, const char *bytes, size_t len)
{
	size_t end = (size_t)parser->at + parser->args[parser->count].len;
	if (unlikely(len < end + 2))
		return more(parser, end + 2);
	if (unlikely(bytes[end] != '\r' || bytes[end + 1] != '\n'))
		return broken(parser, RESP_FAULT_BULK_END);
	parser->at = (uint32_t)end + 2;
	parser->count++;
	parser->in_bulk = false;
	return RESP_COMMAND;
}

static enum resp_step read_array(struct resp_parser *parser, const char *bytes, size_t len,
                                 const struct resp_limits *limits)
{
	enum resp_step step;
	if (parser->expected == 0) {
		enum length result = read_length(parser, bytes, len, true, &parser->expected);
		if (result == LENGTH_MORE)
			return more(parser, len + 1);
		if (result == LENGTH_BAD)
			return broken(parser, RESP_FAULT_ARRAY_LENGTH);
		if (parser->expected > limits->args)
			return broken(parser, limits->stranger ? RESP_FAULT_STRANGER_ARRAY
			                                       : RESP_FAULT_ARRAY_LENGTH);
		if (parser->expected == 0)
			return whole(parser, RESP_NOTHING);
	}
	while (parser->count < parser->expected) {
		step = parser->in_bulk ? RESP_COMMAND : read_bulk_head(parser, bytes, len, limits);
		if (likely(step == RESP_COMMAND))
			step = read_bulk(parser, bytes, len);
		if (unlikely(step != RESP_COMMAND))
			return step;
	}
	return whole(parser, RESP_COMMAND);
}

enum resp_step resp_parse(struct resp_parser *parser, char *bytes, size_t len,
                          const struct resp_limits *limits)
{
	CHECK(len <= INT32_MAX && limits->args > 0);
	if (unlikely(parser->fault))
		return RESP_BROKEN;
	if (parser->whole || !parser->args) {
		if (unlikely(parser->many))
			parser->many = mem_free(parser->many);
		parser->args = parser->few;
		parser->room = RESP_ARGS_FEW;
		parser->at = parser->count = parser->expected = 0;
		parser->in_bulk = parser->whole = false;
	}
	if (len == 0)
		return more(parser, 1);
	return bytes[0] == '*' ? read_array(parser, bytes, len, limits)
	                       : read_line(parser, bytes, len, limits);
}

void resp_parser_problem(const struct resp_parser *parser, char ret_text[static RESP_PROBLEM_MAX])
{
	static const char *const texts[] = {
		[RESP_FAULT_NONE] = "none",
		[RESP_FAULT_ARRAY_LENGTH] = "invalid multibulk length",
		[RESP_FAULT_STRANGER_ARRAY] = "unauthenticated multibulk length",
		[RESP_FAULT_BULK_START] = "expected '$', got '%c'",
		[RESP_FAULT_BULK_LENGTH] = "invalid bulk length",
		[RESP_FAULT_STRANGER_BULK] = "unauthenticated bulk length",
		[RESP_FAULT_BULK_END] = "expected CR LF behind a bulk string",
		[RESP_FAULT_TOO_LARGE] = "too big command",
		[RESP_FAULT_LINE_LENGTH] = "too big inline request",
		[RESP_FAULT_QUOTES] = "unbalanced quotes in request",
	};
	if (parser->fault == RESP_FAULT_BULK_START) {
		char found = parser->found == '\r' || parser->found == '\n' ? ' ' : parser->found;
		snprintf(ret_text, RESP_PROBLEM_MAX, "expected '$', got '%c'", found);
		return;
	}
	snprintf(ret_text, RESP_PROBLEM_MAX, "%s", texts[parser->fault]);
}

void resp_parser_free(struct resp_parser *parser)
{
	parser->many = mem_free(parser->many);
	parser->args = NULL;
	parser->room = 0;
}

/* ---- replies, written ---- */

const char *resp_error_word(enum resp_error error)
{
	static const char *const words[RESP_ERROR_COUNT] = { [RESP_ERR] = "ERR",
		                                             [RESP_NOAUTH] = "NOAUTH",
		                                             [RESP_WRONGPASS] = "WRONGPASS",
		                                             [RESP_NOPROTO] = "NOPROTO",
		                                             [RESP_EXECABORT] = "EXECABORT",
		                                             [RESP_OOM] = "OOM",
		                                             [RESP_MISCONF] = "MISCONF",
		                                             [RESP_LOADING] = "LOADING" };
	CHECK(error < RESP_ERROR_COUNT);
	return words[error];
}

void resp_write_error(struct buf *out, enum resp_error error, struct span text)
{
	buf_append_char(out, '-');
	buf_append_span(out, span_str(resp_error_word(error)));
	buf_append_char(out, ' ');
	for (size_t i = 0; i < text.len; i++) {
		bool breaks = text.ptr[i] == '\r' || text.ptr[i] == '\n';
		buf_append_char(out, breaks ? ' ' : text.ptr[i]);
	}
	buf_append(out, "\r\n", 2);
}

/* ---- replies, read ---- */

#define LINE_MAX_LEN 65536u /* of an error, or a simple text */

/* One value's first line, and the bytes behind it. */
struct head {
	char type;
	struct span line;
	int64_t number;
	size_t len; /* of the line with its end */
};

static int number_read(struct span text, int64_t *ret_number)
{
	uint64_t value = 0;
	bool minus = span_cut_start(&text, SPAN("-"));

	if (!minus)
		span_cut_start(&text, SPAN("+"));
	if (text_parse_u64(text, &value) < 0 || value > (uint64_t)INT64_MAX)
		return ERR_INVALID;
	*ret_number = minus ? -(int64_t)value : (int64_t)value;
	return 0;
}

static bool is_type(char type)
{
	return type != '\0' && strchr("+-:$*_,#(%~>|=!", type) != NULL;
}

static bool has_number(char type)
{
	return type != '\0' && strchr(":$*%~>|=!", type) != NULL;
}

static int head_read(struct span bytes, struct head *ret_head)
{
	if (bytes.len == 0 || !bytes.ptr)
		return -EAGAIN;
	size_t most = bytes.len < LINE_MAX_LEN ? bytes.len : LINE_MAX_LEN;
	const char *end = memchr(bytes.ptr, '\n', most);
	if (!end)
		return bytes.len < LINE_MAX_LEN ? -EAGAIN : ERR_TOO_LARGE;
	struct head head = { .type = bytes.ptr[0], .len = (size_t)(end - bytes.ptr) + 1 };
	if (head.len < 3 || end[-1] != '\r' || !is_type(head.type))
		return ERR_INVALID;
	head.line = span_of(bytes.ptr + 1, head.len - 3);
	if (has_number(head.type) && number_read(head.line, &head.number) < 0)
		return ERR_INVALID;
	*ret_head = head;
	return 0;
}

static bool is_bulk(char type)
{
	return type == '$' || type == '=' || type == '!';
}

static bool is_array(char type)
{
	return type == '*' || type == '~' || type == '>' || type == '%' || type == '|';
}

/* How many values follow it, within it. */
static uint64_t head_items(const struct head *head)
{
	bool pairs = head->type == '%' || head->type == '|';

	if (!is_array(head->type) || head->number <= 0)
		return 0;
	return (uint64_t)head->number * (pairs ? 2 : 1);
}

static int value_len(const struct head *head, struct span bytes, size_t *ret_len)
{
	*ret_len = head->len;
	if (head->number < -1 && (is_bulk(head->type) || is_array(head->type)))
		return ERR_INVALID;
	if (is_array(head->type))
		return head->number > (int64_t)RESP_REPLY_ITEMS_MAX ? ERR_TOO_LARGE : 0;
	if (!is_bulk(head->type) || head->number < 0)
		return 0;
	if (head->number > (int64_t)RESP_REPLY_BULK_MAX)
		return ERR_TOO_LARGE;
	*ret_len += (size_t)head->number + 2;
	if (bytes.len < *ret_len)
		return -EAGAIN;
	return memcmp(bytes.ptr + *ret_len - 2, "\r\n", 2) == 0 ? 0 : ERR_INVALID;
}

int resp_reply_scan(struct resp_reply_scan *scan, struct span bytes, size_t *ret_len)
{
	struct head head;
	size_t len;

	CHECK(scan->at <= bytes.len);
	do {
		struct span rest = span_skip(bytes, scan->at);
		int r = head_read(rest, &head);
		if (r == 0)
			r = value_len(&head, rest, &len);
		if (r < 0)
			return r;
		uint64_t items = head_items(&head);
		if (items > 0 && scan->depth == RESP_REPLY_DEPTH_MAX)
			return ERR_TOO_LARGE;
		scan->at += len;
		if (items > 0) /* an attribute does not stand for the value behind it */
			scan->left[scan->depth++] = items + (head.type == '|');
		else if (head.type != '|') {
			/* A value was read that has nothing within: those that it completes are complete. */
			while (scan->depth > 0 && --scan->left[scan->depth - 1] == 0)
				scan->depth--;
		} else if (scan->depth == 0)
			scan->left[scan->depth++] = 1;
	} while (scan->depth > 0);
	*ret_len = scan->at;
	return 0;
}

static enum resp_reply_kind kind_of(const struct head *head)
{
	switch (head->type) {
	case '-':
	case '!': return RESP_REPLY_ERROR;
	case ':':
	case '#': return RESP_REPLY_NUMBER;
	case '_': return RESP_REPLY_NULL;
	case '>': return RESP_REPLY_PUSH;
	case '|': return RESP_REPLY_ATTRIBUTE;
	default: break;
	}
	if (head->number < 0 && (is_bulk(head->type) || is_array(head->type)))
		return RESP_REPLY_NULL;
	return is_array(head->type) ? RESP_REPLY_ARRAY : RESP_REPLY_TEXT;
}

bool resp_reply_next(struct span reply, size_t *offset, struct resp_reply *ret_value)
{
	struct head head;
	struct span rest = span_skip(reply, *offset);
	size_t len;

	if (head_read(rest, &head) < 0 || value_len(&head, rest, &len) < 0)
		return false;
	struct resp_reply value = { .kind = kind_of(&head), .number = head.number };
	value.text = is_bulk(head.type) && head.number >= 0
	                     ? span_of(rest.ptr + head.len, (size_t)head.number)
	                     : head.line;
	if (head.type == '#')
		value.number = head.line.len > 0 && head.line.ptr[0] == 't';
	if (is_array(head.type))
		value.number = (int64_t)head_items(&head);
	*ret_value = value;
	*offset += len;
	return true;
}

void resp_reply_skip(struct span reply, size_t *offset)
{
	struct resp_reply_scan scan = { 0 };
	size_t len;

	if (resp_reply_scan(&scan, span_skip(reply, *offset), &len) == 0)
		*offset += len;
	else
		*offset = reply.len;
}

bool resp_reply_says(const struct resp_reply *value, struct span word)
{
	return value->kind == RESP_REPLY_ERROR && span_starts(value->text, word) &&
	       (value->text.len == word.len || value->text.ptr[word.len] == ' ');
}

static void add_line(struct buf *out, char type, uint64_t number)
{
	char line[TEXT_U64_MAX + 3] = { type };
	size_t len = 1 + text_u64(line + 1, number);

	line[len++] = '\r';
	line[len++] = '\n';
	buf_append(out, line, len);
}

void resp_request_begin(struct buf *out, uint64_t count)
{
	add_line(out, '*', count);
}

void resp_request_open(struct buf *out, size_t len)
{
	add_line(out, '$', len);
}

void resp_request_close(struct buf *out)
{
	buf_append(out, "\r\n", 2);
}

void resp_request_add_parts(struct buf *out, const struct span *parts, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += parts[i].len;
	resp_request_open(out, len);
	for (size_t i = 0; i < count; i++)
		buf_append_span(out, parts[i]);
	resp_request_close(out);
}

void resp_request_add(struct buf *out, struct span argument)
{
	resp_request_add_parts(out, &argument, 1);
}

void resp_request_add_u64(struct buf *out, uint64_t argument)
{
	char digits[TEXT_U64_MAX];

	resp_request_add(out, span_of(digits, text_u64(digits, argument)));
}
