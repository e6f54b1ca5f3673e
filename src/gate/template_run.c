/* template_run: the values of an event in the places of templates. See template.h. */
#include <string.h>

#include "base/text.h"
#include "codec/url.h"
#include "gate/template_internal.h"
#include "gate/ticket.h"

/* A value, before its template's form is applied. */
struct value {
	struct span text; /* strings: decoded, or as JSON has it if `escaped` */
	bool string;
	bool escaped;
	bool nested; /* an object or an array */
};

static int refuse(const struct template_piece *piece, struct error_text *ret_text, const char *what)
{
	int len = (int)(piece->text.len < 100 ? piece->text.len : 100);
	return error_fill(ret_text, ERR_INVALID, "{%.*s} %s", len, piece->text.ptr, what);
}

int template_begin(struct template_run *ret_run, const struct templates *templates,
                   const struct template_event *event, struct error_text *ret_text)
{
	CHECK(templates->sealed);
	ret_run->templates = templates;
	ret_run->event = event;
	if (!templates->wants_paths)
		return 0;
	if (!event->json)
		return error_fill(ret_text, ERR_INVALID,
		                  "a template wants a value of the payload, which is no JSON");
	if (json_scan(event->payload, &templates->plan, &ret_run->doc) == 0)
		return 0;
	const struct json_problem *problem = &ret_run->doc.problem;
	return error_fill(ret_text, ERR_INVALID, "payload at byte %zu: expected %s",
	                  problem->offset + 1, problem->expected);
}

static struct value path_value(const struct template_run *run, uint8_t node)
{
	struct json_value json = json_get(&run->doc, node);
	if (json.type == JSON_NONE)
		return (struct value){ .string = true };
	return (struct value){
		.text = json.text,
		.string = json.type == JSON_STRING,
		.escaped = json.escaped,
		.nested = json.type == JSON_OBJECT || json.type == JSON_ARRAY,
	};
}

/* Short texts that are made here are written to `memory`. */
static struct value value_of(const struct template_run *run, const struct template_piece *piece,
                             char memory[static TEXT_U64_MAX])
{
	const struct template_event *event = run->event;
	switch (piece->kind) {
	case TEMPLATE_TICKET:
		ticket_text(event->ticket, memory);
		return (struct value){ .text = span_of(memory, TICKET_TEXT_LEN), .string = true };
	case TEMPLATE_ATTEMPT:
		return (struct value){ .text = span_of(memory, text_u64(memory, event->attempt)) };
	case TEMPLATE_SOURCE: return (struct value){ .text = event->source, .string = true };
	case TEMPLATE_LETTER:
		return (struct value){ .text = event->letter->texts[piece->which], .string = true };
	case TEMPLATE_PAYLOAD:
		return (struct value){ .text = event->payload, .string = !event->json };
	case TEMPLATE_PATH: return path_value(run, piece->which);
	case TEMPLATE_FIXED: break;
	}
	return (struct value){ .text = piece->text, .string = true };
}

static void put_json_text(struct span text, bool quoted, struct buf *out)
{
	size_t start = out->len;
	buf_append_json(out, text);
	if (!quoted || out->failed)
		return;
	/* Between quotes already: without its own. */
	memmove(out->ptr + start, out->ptr + start + 1, out->len - start - 2);
	out->len -= 2;
}

static void put_json(const struct template_piece *piece, const struct value *value, struct buf *out)
{
	bool raw = piece->kind == TEMPLATE_PATH; /* as the payload has it: JSON already */
	if (!value->string || (raw && piece->quoted)) {
		buf_append_span(out, value->text);
	} else if (raw) {
		buf_append_char(out, '"');
		buf_append_span(out, value->text);
		buf_append_char(out, '"');
	} else {
		put_json_text(value->text, piece->quoted, out);
	}
}

static void put_header(struct span text, struct buf *out)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		if (c < ' ' || c >= 0x7f || c == '%')
			url_percent_byte(text.ptr[i], out);
		else
			buf_append_char(out, text.ptr[i]);
	}
}

static int put_flat(const struct template_piece *piece, enum template_form form,
                    const struct value *value, struct buf *out, struct error_text *ret_text)
{
	char decoded[TEMPLATE_VALUE_MAX];
	struct span text = value->text;
	if (value->escaped) {
		if (json_decode(text, decoded, sizeof(decoded), &text.len))
			return refuse(piece, ret_text, "is too long");
		text.ptr = decoded;
	}
	if (text.len > TEMPLATE_VALUE_MAX)
		return refuse(piece, ret_text, "is too long");
	if (form == TEMPLATE_URL)
		url_percent_encode(text, out);
	else
		put_header(text, out);
	return 0;
}

/* Where JSON stands by itself, null and an empty string are values too. */
static bool is_missing(const struct template_piece *piece, const struct value *value, bool bare)
{
	if (!value->string)
		return !bare && span_eq(value->text, SPAN("null"));
	bool there = piece->kind == TEMPLATE_PAYLOAD ||
	             (piece->kind == TEMPLATE_PATH && value->text.ptr);
	return value->text.len == 0 && !(bare && there);
}

static int put_value(const struct template_run *run, const struct template *it,
                     const struct template_piece *piece, struct buf *out,
                     struct error_text *ret_text)
{
	char memory[TEXT_U64_MAX];
	struct value value = value_of(run, piece, memory);
	bool bare = it->form == TEMPLATE_JSON && !piece->quoted;
	if (is_missing(piece, &value, bare))
		return refuse(piece, ret_text, "is missing");
	if (value.nested && !bare)
		return refuse(piece, ret_text, "is an object or an array");
	if (it->form != TEMPLATE_JSON)
		return put_flat(piece, it->form, &value, out, ret_text);
	put_json(piece, &value, out);
	return 0;
}

static const struct template_piece *find_place(const struct templates *templates, uint32_t number,
                                               uint32_t place)
{
	CHECK(number < templates->count);
	const struct template *it = &templates->list[number];
	const struct template_piece *piece = &templates->pieces[it->first];
	const struct template_piece *end = piece + it->count;
	for (; piece < end; piece++)
		if (piece->kind != TEMPLATE_FIXED && place-- == 0)
			break;
	CHECK(piece < end);
	return piece;
}

static int append_decoded(struct span text, struct buf *out)
{
	size_t len;
	int error = buf_reserve(out, text.len);
	if (error == 0)
		error = json_decode(text, out->ptr + out->len, text.len, &len);
	if (error == 0)
		out->len += len;
	return error;
}

int template_value(const struct template_run *run, uint32_t number, uint32_t place, struct buf *out,
                   bool *ret_there, struct error_text *ret_text)
{
	char memory[TEXT_U64_MAX];
	const struct template_piece *piece = find_place(run->templates, number, place);
	struct value value = value_of(run, piece, memory);
	size_t start = out->len;
	bool there = !is_missing(piece, &value, true) &&
	             (value.string || !span_eq(value.text, SPAN("null")));
	int error = 0;
	if (there && value.string && value.escaped)
		error = append_decoded(value.text, out);
	else if (there)
		buf_append_span(out, value.text);
	if (error || out->failed)
		return error ? error : out->failed;
	if (out->len > start && memchr(out->ptr + start, '\0', out->len - start))
		return refuse(piece, ret_text, "has a NUL, which no text of a database can have");
	*ret_there = there;
	return 0;
}

int template_put(const struct template_run *run, uint32_t number, struct buf *out,
                 struct error_text *ret_text)
{
	CHECK(number < run->templates->count);
	const struct template *it = &run->templates->list[number];
	for (uint32_t i = 0; i < it->count; i++) {
		const struct template_piece *piece = &run->templates->pieces[it->first + i];
		int error = 0;
		if (piece->kind == TEMPLATE_FIXED)
			buf_append_span(out, piece->text);
		else
			error = put_value(run, it, piece, out, ret_text);
		if (error)
			return error;
	}
	return out->failed ? -ENOMEM : 0;
}
