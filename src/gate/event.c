/* event: see event.h. */
#include "gate/event.h"

#include "base/error.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/moment.h"
#include "codec/url.h"

/* The longest header text that can matter: every byte of the longest value as
 * %XX, each of those escaped by a backslash, in quotes. */
#define HEADER_TEXT_MAX 6146
#define TIME_TEXT_MAX 64

/* The inside of a quoted-string (RFC 9110 section 5.6.4) without its backslashes. */
static int unquote(struct span text, char *bytes, size_t room, struct span *ret_inside)
{
	size_t len = 0;
	if (text.len < 2 || text.ptr[text.len - 1] != '"')
		return ERR_INVALID;
	for (size_t at = 1; at < text.len - 1; at++) {
		if (text.ptr[at] == '"')
			return ERR_INVALID;
		if (text.ptr[at] == '\\' && ++at == text.len - 1)
			return ERR_INVALID; /* the last quote is escaped: nothing closes */
		if (len == room)
			return ERR_TOO_LARGE;
		bytes[len++] = text.ptr[at];
	}
	*ret_inside = span_of(bytes, len);
	return 0;
}

/* Percents give bytes; only UTF-8 is a text. */
static int decode_url(int (*decode)(struct span, char *, size_t, size_t *), struct span raw,
                      struct span room, struct span *ret_value)
{
	size_t len;
	int error = decode(raw, (char *)(uintptr_t)room.ptr, room.len, &len);
	if (error != 0)
		return error;
	struct span value = span_of(room.ptr, len);
	for (size_t at = 0; at < value.len;) {
		size_t step = utf8_sequence(value.ptr + at, value.len - at);
		if (step == 0)
			return ERR_INVALID;
		at += step;
	}
	*ret_value = value;
	return 0;
}

/* CloudEvents HTTP binding, section 3.1.3.2: quotes first, then percents, once. */
static int decode_header(struct span raw, char *bytes, size_t room, struct span *ret_value)
{
	char inside[HEADER_TEXT_MAX];
	int error = 0;
	if (raw.len > 0 && raw.ptr[0] == '"')
		error = unquote(raw, inside, sizeof(inside), &raw);
	return error ? error : decode_url(url_percent_decode, raw, span_of(bytes, room), ret_value);
}

int event_text_value(struct event_text text, char *bytes, size_t room, struct span *ret_value)
{
	size_t len;
	int error;
	CHECK((unsigned)text.coding <= EVENT_TEXT_FORM);
	switch (text.coding) {
	case EVENT_TEXT_NONE:
	case EVENT_TEXT_PLAIN:
		if (text.raw.len > room)
			return ERR_TOO_LARGE;
		*ret_value = text.raw;
		return 0;
	case EVENT_TEXT_JSON:
		error = json_decode(text.raw, bytes, room, &len);
		if (error == 0)
			*ret_value = span_of(bytes, len);
		return error;
	case EVENT_TEXT_HEADER: return decode_header(text.raw, bytes, room, ret_value);
	case EVENT_TEXT_PERCENT:
		return decode_url(url_percent_decode, text.raw, span_of(bytes, room), ret_value);
	case EVENT_TEXT_FORM:
		return decode_url(url_form_decode, text.raw, span_of(bytes, room), ret_value);
	}
	return ERR_INVALID;
}

int event_time_ms(struct event_text text, uint64_t *ret_ms)
{
	char bytes[TIME_TEXT_MAX];
	struct span value;
	int error = event_text_value(text, bytes, sizeof(bytes), &value);
	return error ? ERR_INVALID : moment_parse(value, ret_ms);
}
