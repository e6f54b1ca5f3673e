/*
 * structured_field: see structured_field.h. Functions are named after the
 * productions of RFC 8941 section 3; each takes what it reads off the text.
 */
#include "codec/structured_field.h"

#include "base/error.h"
#include "codec/http1.h"

#define INTEGER_DIGITS_MAX 15
#define DECIMAL_DIGITS_MAX 12 /* before the dot */
#define FRACTION_DIGITS_MAX 3

/* Output of the value; without `bytes` it is only checked. */
struct out {
	char *bytes;
	size_t len, room;
};

static int put(struct out *out, char c)
{
	if (!out->bytes)
		return 0;
	if (out->len == out->room)
		return ERR_TOO_LARGE;
	out->bytes[out->len++] = c;
	return 0;
}

/* 0 at the end, which no grammar here has a use for. */
static char peek(struct span text)
{
	return text.len > 0 ? text.ptr[0] : '\0';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
	c = span_lower(c);
	return c >= 'a' && c <= 'z';
}

static void skip_blanks(struct span *text)
{
	while (peek(*text) == ' ')
		*text = span_skip(*text, 1);
}

static int sf_string(struct span *text, struct out *out)
{
	for (*text = span_skip(*text, 1); text->len > 0; *text = span_skip(*text, 1)) {
		char c = text->ptr[0];
		if (c == '"') {
			*text = span_skip(*text, 1);
			return 0;
		}
		if (c == '\\') {
			*text = span_skip(*text, 1);
			c = peek(*text);
			if (c != '"' && c != '\\')
				return ERR_INVALID;
		}
		int error = c >= ' ' && c <= '~' ? put(out, c) : ERR_INVALID;
		if (error)
			return error;
	}
	return ERR_INVALID;
}

static int sf_token(struct span *text, struct out *out)
{
	for (; text->len > 0; *text = span_skip(*text, 1)) {
		char c = text->ptr[0];
		if (!http1_is_token_char(c) && c != ':' && c != '/')
			return 0;
		int error = put(out, c);
		if (error)
			return error;
	}
	return 0;
}

static size_t skip_digits(struct span *text)
{
	size_t count = 0;
	for (; is_digit(peek(*text)); count++)
		*text = span_skip(*text, 1);
	return count;
}

static int sf_number(struct span *text)
{
	if (peek(*text) == '-')
		*text = span_skip(*text, 1);
	size_t digits = skip_digits(text);
	if (digits == 0 || digits > INTEGER_DIGITS_MAX)
		return ERR_INVALID;
	if (peek(*text) != '.')
		return 0;
	*text = span_skip(*text, 1);
	size_t fraction = skip_digits(text);
	bool fits = digits <= DECIMAL_DIGITS_MAX && fraction <= FRACTION_DIGITS_MAX;
	return fits && fraction > 0 ? 0 : ERR_INVALID;
}

static int sf_boolean(struct span *text)
{
	*text = span_skip(*text, 1);
	char c = peek(*text);
	*text = span_skip(*text, 1);
	return c == '0' || c == '1' ? 0 : ERR_INVALID;
}

static bool is_binary_char(char c)
{
	return is_alpha(c) || is_digit(c) || c == '+' || c == '/' || c == '=';
}

/* Between colons; the alphabet is checked, the value is not used. */
static int sf_binary(struct span *text)
{
	*text = span_skip(*text, 1);
	while (is_binary_char(peek(*text)))
		*text = span_skip(*text, 1);
	return span_cut_start(text, SPAN(":")) ? 0 : ERR_INVALID;
}

static int sf_key(struct span *text)
{
	char c = peek(*text);
	if (c != '*' && !(c >= 'a' && c <= 'z'))
		return ERR_INVALID;
	while ((c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-' || c == '.' ||
	       c == '*') {
		*text = span_skip(*text, 1);
		c = peek(*text);
	}
	return 0;
}

/* The value of a parameter: any type. */
static int bare_item(struct span *text)
{
	struct out nowhere = { 0 };
	char c = peek(*text);
	if (c == '"')
		return sf_string(text, &nowhere);
	if (is_alpha(c) || c == '*')
		return sf_token(text, &nowhere);
	if (c == '?')
		return sf_boolean(text);
	if (c == ':')
		return sf_binary(text);
	return sf_number(text);
}

static int parameters(struct span *text)
{
	int error = 0;
	while (!error && span_cut_start(text, SPAN(";"))) {
		skip_blanks(text);
		error = sf_key(text);
		if (!error && span_cut_start(text, SPAN("=")))
			error = bare_item(text);
	}
	return error;
}

int structured_item_parse(struct span text, char *bytes, size_t room,
                          struct structured_item *ret_item)
{
	struct out out = { .bytes = bytes, .room = room };
	skip_blanks(&text);
	char c = peek(text);
	enum structured_type type = c == '"' ? STRUCTURED_STRING : STRUCTURED_TOKEN;
	int error = ERR_INVALID;
	if (c == '"')
		error = sf_string(&text, &out);
	else if (is_alpha(c) || c == '*')
		error = sf_token(&text, &out);
	if (!error)
		error = parameters(&text);
	skip_blanks(&text);
	if (!error && text.len > 0)
		error = ERR_INVALID;
	if (!error)
		*ret_item = (struct structured_item){ type, out.len };
	return error;
}
