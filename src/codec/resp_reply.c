/* resp_reply: see resp_reply.h. */
#include "codec/resp_reply.h"

#include <errno.h>

#include "base/error.h"
#include "base/text.h"

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
