/* filter_envelope: see filter_envelope.h. */
#include "cli/filter/filter_envelope.h"

static uint8_t add_path(struct json_plan *plan, const char *text)
{
	struct json_problem problem;
	struct json_path path;
	uint8_t node = 0;
	int error = json_path_parse(span_str(text), &path, &problem);
	CHECK(error == 0);
	error = json_plan_add(plan, &path, &node);
	CHECK(error == 0);
	return node;
}

void filter_envelope_init(struct filter_envelope *ret_envelope)
{
	ret_envelope->memory = (struct buf){ 0 };
	json_plan_init(&ret_envelope->plan);
	ret_envelope->headers_node = add_path(&ret_envelope->plan, "headers");
	ret_envelope->body_node = add_path(&ret_envelope->plan, "body");
	json_plan_seal(&ret_envelope->plan);
}

void filter_envelope_free(struct filter_envelope *envelope)
{
	buf_free(&envelope->memory);
}

/* ---- members of an object that the scanner has accepted ---- */

static void skip_blanks(struct span *text)
{
	while (text->len > 0 && (unsigned char)text->ptr[0] <= ' ')
		*text = span_skip(*text, 1);
}

/* The string at the start, without its quotes. */
static struct span cut_string(struct span *text)
{
	size_t len = 1;
	while (len < text->len && text->ptr[len] != '"')
		len += text->ptr[len] == '\\' ? 2 : 1;
	struct span inside = span_of(text->ptr + 1, len - 1);
	*text = span_skip(*text, len + 1);
	return inside;
}

/* A value that is no string: up to the comma behind it, or the end. */
static void skip_value(struct span *text)
{
	int depth = 0;
	while (text->len > 0) {
		char c = text->ptr[0];
		if (c == '"') {
			cut_string(text);
			continue;
		}
		if (depth == 0 && (c == ',' || c == '}'))
			return;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		*text = span_skip(*text, 1);
	}
}

/* False: there are no more. A value that is no string is empty. */
static bool cut_member(struct span *text, struct span *ret_name, struct span *ret_value)
{
	*ret_value = SPAN_EMPTY;
	skip_blanks(text);
	if (text->len == 0 || text->ptr[0] != '"')
		return false;
	*ret_name = cut_string(text);
	skip_blanks(text);
	*text = span_skip(*text, 1); /* the colon */
	skip_blanks(text);
	if (text->len > 0 && text->ptr[0] == '"')
		*ret_value = cut_string(text);
	else
		skip_value(text);
	skip_blanks(text);
	*text = span_skip(*text, 1); /* the comma, or the brace */
	return true;
}

/* There is room: nothing grows when it is decoded. */
static struct span decode(struct buf *memory, struct span text)
{
	char *bytes = memory->ptr + memory->len;
	size_t len = 0;
	if (text.len == 0 || !memchr(text.ptr, '\\', text.len))
		return text;
	int error = json_decode(text, bytes, memory->room - memory->len, &len);
	CHECK(error == 0); /* the scanner has accepted it */
	memory->len += len;
	return span_of(bytes, len);
}

static uint32_t read_headers(struct filter_envelope *envelope, struct span object)
{
	CHECK(object.ptr && object.len >= 2); /* its braces */
	struct span rest = span_skip(object, 1), name, value;
	uint32_t count = 0;
	while (count < HTTP1_HEADERS_MAX && cut_member(&rest, &name, &value)) {
		name = decode(&envelope->memory, name);
		value = decode(&envelope->memory, value);
		if (name.len > 0 && value.len > 0)
			envelope->headers[count++] = (struct http1_header){ name, value };
	}
	return count;
}

int filter_envelope_open(struct filter_envelope *envelope, struct span text,
                         struct recipe_input *ret_input, struct error_text *ret_problem)
{
	struct json_doc doc;
	if (json_scan(text, &envelope->plan, &doc) < 0)
		return error_fill(ret_problem, ERR_INVALID,
		                  "an envelope is JSON: at byte %zu expected %s",
		                  doc.problem.offset, doc.problem.expected);
	struct json_value headers = json_get(&doc, envelope->headers_node);
	struct json_value body = json_get(&doc, envelope->body_node);
	if (body.type == JSON_NONE || (headers.type != JSON_NONE && headers.type != JSON_OBJECT))
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected an envelope, {\"headers\":{…},\"body\":…}");
	buf_clear(&envelope->memory);
	if (buf_reserve(&envelope->memory, text.len) < 0)
		return error_fill(ret_problem, -ENOMEM, "no memory for an envelope");
	*ret_input = (struct recipe_input){ .headers = envelope->headers };
	if (headers.type == JSON_OBJECT)
		ret_input->header_count = read_headers(envelope, headers.text);
	ret_input->body = body.type == JSON_STRING ? decode(&envelope->memory, body.text)
	                                           : body.text;
	return 0;
}
