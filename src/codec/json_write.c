/* json_write: see json_write.h. */
#include "codec/json_write.h"

#include "base/base64.h"
#include "base/text.h"
#include "codec/json.h"

/* The comma, if one is due, and the name. */
static void begin(struct buf *out, const char *name)
{
	char last = out->len > 0 ? out->ptr[out->len - 1] : '\n';
	if (last != '{' && last != '[' && last != ':' && last != ' ' && last != '\n')
		buf_append_char(out, ',');
	if (!name)
		return;
	buf_append_char(out, '"');
	buf_append_span(out, span_str(name));
	buf_append_span(out, SPAN("\":"));
}

void json_object_begin(struct buf *out, const char *name)
{
	begin(out, name);
	buf_append_char(out, '{');
}

void json_object_end(struct buf *out)
{
	buf_append_char(out, '}');
}

void json_array_begin(struct buf *out, const char *name)
{
	begin(out, name);
	buf_append_char(out, '[');
}

void json_array_end(struct buf *out)
{
	buf_append_char(out, ']');
}

void json_add_text(struct buf *out, const char *name, struct span text)
{
	begin(out, name);
	buf_append_json(out, text);
}

void json_add_string(struct buf *out, const char *name, const char *text)
{
	if (text)
		json_add_text(out, name, span_str(text));
	else
		json_add_null(out, name);
}

void json_add_text_if(struct buf *out, const char *name, struct span text)
{
	if (text.len > 0)
		json_add_text(out, name, text);
}

void json_add_u64(struct buf *out, const char *name, uint64_t value)
{
	begin(out, name);
	buf_append_u64(out, value);
}

void json_add_bool(struct buf *out, const char *name, bool value)
{
	json_add_raw(out, name, value ? SPAN("true") : SPAN("false"));
}

void json_add_null(struct buf *out, const char *name)
{
	json_add_raw(out, name, SPAN("null"));
}

void json_add_time(struct buf *out, const char *name, uint64_t unix_ms)
{
	char text[TEXT_TIME_LEN];
	text_time(text, unix_ms);
	begin(out, name);
	buf_append_char(out, '"');
	buf_append(out, text, sizeof(text));
	buf_append_char(out, '"');
}

void json_add_base64(struct buf *out, const char *name, struct span bytes)
{
	begin(out, name);
	buf_append_char(out, '"');
	base64_append(out, bytes);
	buf_append_char(out, '"');
}

void json_add_raw(struct buf *out, const char *name, struct span json)
{
	json = json_trim(json); /* a line end would hide that a comma is due */
	if (json.len == 0)
		return;
	begin(out, name);
	buf_append_span(out, json);
}
