/* url: see url.h. */
#include "codec/url.h"

#include "base/error.h"
#include "base/hex.h"

static bool is_unreserved(char c)
{
	char low = span_lower(c);
	return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
	       c == '_' || c == '~';
}

void url_percent_encode(struct span text, struct buf *out)
{
	for (size_t i = 0; i < text.len; i++) {
		if (is_unreserved(text.ptr[i]))
			buf_append_char(out, text.ptr[i]);
		else
			url_percent_byte(text.ptr[i], out);
	}
}

/* One byte of the value at *at, and a step over it; -1 when malformed. */
static int next_byte(struct span text, size_t *at, char blank)
{
	char c = text.ptr[*at];
	(*at)++;
	if (c == blank)
		return ' ';
	if (c != '%')
		return (unsigned char)c;
	int high = text.len - *at >= 2 ? hex_value(text.ptr[*at]) : -1;
	int low = high >= 0 ? hex_value(text.ptr[*at + 1]) : -1;
	*at += 2;
	return low < 0 ? -1 : high * 16 + low;
}

/* `blank` is a byte that stands for a blank: + or the blank itself. */
static int decode(struct span text, char blank, struct span room, size_t *ret_len)
{
	char *bytes = (char *)(uintptr_t)room.ptr;
	size_t len = 0;
	for (size_t at = 0; at < text.len;) {
		int c = next_byte(text, &at, blank);
		if (c < 0)
			return ERR_INVALID;
		if (len == room.len)
			return ERR_TOO_LARGE;
		bytes[len++] = (char)c;
	}
	*ret_len = len;
	return 0;
}

int url_percent_decode(struct span text, char *bytes, size_t room, size_t *ret_len)
{
	return decode(text, ' ', span_of(bytes, room), ret_len);
}

int url_form_decode(struct span text, char *bytes, size_t room, size_t *ret_len)
{
	return decode(text, '+', span_of(bytes, room), ret_len);
}

bool url_param_is(struct span raw_name, struct span name)
{
	size_t len = 0;
	for (size_t at = 0; at < raw_name.len; len++) {
		int c = next_byte(raw_name, &at, '+');
		if (c < 0 || len == name.len || (char)c != name.ptr[len])
			return false;
	}
	return len == name.len;
}

bool url_param_next(struct span *params, struct span *ret_name, struct span *ret_value)
{
	while (params->len > 0) {
		struct span pair = span_cut_item(params, '&');
		if (pair.len == 0)
			continue;
		*ret_name = span_cut_item(&pair, '=');
		*ret_value = pair;
		return true;
	}
	return false;
}

uint32_t url_param_find(struct span params, struct span name, struct span *ret_value)
{
	uint32_t count = 0;
	struct span key, value;
	while (url_param_next(&params, &key, &value))
		if (url_param_is(key, name) && count++ == 0)
			*ret_value = value;
	return count;
}

/* ---- the parameters of an API request ---- */

#define NAME_SHOWN 40 /* bytes of an unknown name that the error shows */

int query_check(struct span query, const char *names, struct error_text *ret_text)
{
	struct span known = span_str(names), rest = query, raw_name, value;
	while (url_param_next(&rest, &raw_name, &value)) {
		bool found = false;
		for (struct span left = known; left.len > 0 && !found;)
			found = url_param_is(raw_name, span_cut_item(&left, ' '));
		if (!found) {
			char text[ERROR_TEXT_MAX];
			struct buf out = buf_on(text, sizeof(text));
			buf_append_span(&out, SPAN("unknown parameter "));
			buf_append(&out, raw_name.ptr,
			           raw_name.len < NAME_SHOWN ? raw_name.len : NAME_SHOWN);
			/* "; there are state, source and limit" */
			const char *before = "; there are ";
			if (known.len == 0)
				buf_append_span(&out, SPAN("; there are none here"));
			while (known.len > 0) {
				struct span name = span_cut_item(&known, ' ');
				buf_append_span(&out, span_str(before));
				buf_append_span(&out, name);
				before = memchr(known.ptr, ' ', known.len) ? ", " : " and ";
			}
			return error_fill(ret_text, ERR_INVALID, "%.*s", (int)out.len, out.ptr);
		}
	}
	while (known.len > 0) {
		struct span name = span_cut_item(&known, ' ');
		uint32_t count = url_param_find(query, name, &value);
		if (count > 1)
			return error_fill(ret_text, ERR_INVALID,
			                  "%.*s came %u times, expected once", (int)name.len,
			                  name.ptr, count);
	}
	return 0;
}
