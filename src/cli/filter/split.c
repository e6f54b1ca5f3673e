/* split: see split.h. */
#include "cli/filter/split.h"

/* What may come next in texts. */
enum place {
	PLACE_TOP = 0, /* an object or an array */
	PLACE_FIRST,   /* an element or the end of the array */
	PLACE_ELEMENT, /* an element */
	PLACE_AFTER,   /* a comma or the end of the array */
};

/* Moves on by `len` bytes, and past the event that was looked at. */
static void use(struct filter_split *split, struct span *input, size_t len)
{
	*input = span_skip(*input, len);
	split->at = 0;
}

/* ---- lines ---- */

static enum filter_step next_line(struct filter_split *split, struct span *input, bool last,
                                  struct filter_piece *ret_piece)
{
	while (input->len > 0) {
		const char *end = memchr(input->ptr + split->at, '\n', input->len - split->at);
		bool skipped = split->skipping;
		if (!end && !last) {
			*ret_piece = (struct filter_piece){ .event = *input,
				                            .line = split->lines + 1 };
			split->skipping |= input->len > split->event_max;
			split->at = input->len;
			if (split->skipping)
				use(split, input, input->len);
			return split->skipping && !skipped ? FILTER_TOO_LONG : FILTER_MORE;
		}
		struct span line = *input;
		line.len = end ? (size_t)(end - line.ptr) + 1 : line.len;
		use(split, input, line.len);
		split->lines++;
		split->skipping = false;
		struct span event = json_trim(line);
		if (skipped || event.len == 0)
			continue;
		*ret_piece = (struct filter_piece){ event, line, split->lines, NULL };
		return event.len > split->event_max ? FILTER_TOO_LONG : FILTER_EVENT;
	}
	return last ? FILTER_END : FILTER_MORE;
}

/* ---- texts ---- */

static enum filter_step broken(const struct filter_split *split, const char *expected,
                               struct filter_piece *ret_piece)
{
	*ret_piece = (struct filter_piece){ .line = split->lines + 1, .expected = expected };
	return FILTER_BROKEN;
}

/* Where the value that begins the text ends; 0: not here. Continues where the last
 * call stopped. */
static size_t find_end(struct filter_split *split, struct span text, bool last)
{
	uint32_t depth = split->depth;
	bool in_string = split->in_string;
	bool escaped = split->escaped;
	size_t end = 0;
	size_t i = split->at;
	for (; i < text.len && end == 0; i++) {
		char c = text.ptr[i];
		if (in_string) {
			if (escaped)
				escaped = false;
			else if (c == '\\')
				escaped = true;
			else if (c == '"') {
				in_string = false;
				end = depth == 0 ? i + 1 : 0;
			}
			continue;
		}
		switch (c) {
		case '"': in_string = true; break;
		case '{':
		case '[': depth++; break;
		case '}':
		case ']':
			if (depth == 0)
				end = i; /* of the array around a number or word */
			else if (--depth == 0)
				end = i + 1;
			break;
		case '\n':
		case '\r':
		case '\t':
		case ' ':
		case ',': end = depth == 0 ? i : 0; break;
		default: break;
		}
	}
	if (end == 0 && last && depth == 0 && !in_string)
		end = text.len;
	split->depth = end ? 0 : depth;
	split->in_string = end ? false : in_string;
	split->escaped = end ? false : escaped;
	split->at = end ? 0 : i;
	return end;
}

static enum filter_step next_value(struct filter_split *split, struct span *input, bool last,
                                   struct filter_piece *ret_piece)
{
	size_t end = find_end(split, *input, last);
	struct span event = span_of(input->ptr, end ? end : input->len);
	bool skipped = split->skipping;
	if (end == 0 && last)
		return broken(split, "the end of the event", ret_piece);
	if (end == 0 && event.len <= split->event_max && !skipped)
		return FILTER_MORE;
	*ret_piece = (struct filter_piece){ event, event, split->lines + 1, NULL };
	split->skipping = end == 0;
	for (size_t i = 0; i < event.len; i++)
		split->lines += event.ptr[i] == '\n';
	if (end)
		split->place = split->place == PLACE_TOP ? PLACE_TOP : PLACE_AFTER;
	use(split, input, event.len);
	if (skipped)
		return FILTER_MORE; /* the caller knows of it */
	return event.len > split->event_max ? FILTER_TOO_LONG : FILTER_EVENT;
}

/* A byte between values. False: it does not belong there. */
static bool take_mark(struct filter_split *split, char c)
{
	if (c == '\n')
		split->lines++;
	if (json_is_blank(c))
		return true;
	if (c == '[' && split->place == PLACE_TOP)
		split->place = PLACE_FIRST;
	else if (c == ']' && (split->place == PLACE_FIRST || split->place == PLACE_AFTER))
		split->place = PLACE_TOP;
	else if (c == ',' && split->place == PLACE_AFTER)
		split->place = PLACE_ELEMENT;
	else
		return false;
	return true;
}

static enum filter_step next_text(struct filter_split *split, struct span *input, bool last,
                                  struct filter_piece *ret_piece)
{
	static const char *const expected[] = {
		[PLACE_TOP] = "an object or an array",
		[PLACE_FIRST] = "an event or ]",
		[PLACE_ELEMENT] = "an event",
		[PLACE_AFTER] = "a comma or ]",
	};
	while (input->len > 0) {
		char c = input->ptr[0];
		bool inside = split->at > 0 || split->skipping;
		if (!inside && take_mark(split, c)) {
			*input = span_skip(*input, 1);
			continue;
		}
		bool wrong = split->place == PLACE_AFTER || c == ',' || c == ']' || c == '}' ||
		             (split->place == PLACE_TOP && c != '{');
		if (!inside && wrong)
			return broken(split, expected[split->place], ret_piece);
		bool skipping = split->skipping;
		enum filter_step step = next_value(split, input, last, ret_piece);
		if (step != FILTER_MORE || !skipping || split->skipping)
			return step;
	}
	if (last && (split->place != PLACE_TOP || split->skipping))
		return broken(split, "the end of the array", ret_piece);
	return last ? FILTER_END : FILTER_MORE;
}

/* ---- which of them ---- */

/* UNKNOWN: it needs more bytes than these. */
static enum filter_form detect(struct span input, bool last, size_t event_max)
{
	struct filter_split split = { 0 };
	while (input.len > 0 && json_is_blank(input.ptr[0]))
		input = span_skip(input, 1);
	if (input.len == 0)
		return last ? FILTER_LINES : FILTER_UNKNOWN;
	if (input.ptr[0] != '{')
		return input.ptr[0] == '[' ? FILTER_TEXTS : FILTER_LINES;
	const char *end = memchr(input.ptr, '\n', input.len);
	if (!end && !last)
		return input.len > event_max ? FILTER_LINES : FILTER_UNKNOWN;
	size_t len = end ? (size_t)(end - input.ptr) : input.len;
	if (!end || find_end(&split, span_of(input.ptr, len), false) != 0)
		return FILTER_LINES;
	if (len + 1 == input.len)
		return last ? FILTER_LINES : FILTER_UNKNOWN;
	return end[1] == '{' ? FILTER_LINES : FILTER_TEXTS;
}

enum filter_step filter_split_next(struct filter_split *split, struct span *input, bool last,
                                   struct filter_piece *ret_piece)
{
	static const struct span mark = { "\xEF\xBB\xBF", 3 };
	CHECK(split->event_max > 0);
	if (!split->marked) {
		if (input->len < mark.len && !last)
			return FILTER_MORE;
		span_cut_start(input, mark);
		split->marked = true;
	}
	if (split->form == FILTER_UNKNOWN)
		split->form = detect(*input, last, split->event_max);
	if (split->form == FILTER_UNKNOWN)
		return FILTER_MORE;
	if (split->form == FILTER_LINES)
		return next_line(split, input, last, ret_piece);
	return next_text(split, input, last, ret_piece);
}

/* ---- envelopes ---- */

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

/* The value of a string that the scanner has accepted. The memory has room for the
 * whole envelope. */
static struct span decode(struct buf *memory, struct span text)
{
	char *bytes = memory->ptr + memory->len;
	size_t len = 0;
	if (text.len == 0 || !memchr(text.ptr, '\\', text.len))
		return text;
	int error = json_decode(text, bytes, memory->room - memory->len, &len);
	CHECK(error == 0);
	memory->len += len;
	return span_of(bytes, len);
}

int filter_envelope_open(struct filter_envelope *envelope, struct span text,
                         struct recipe_input *ret_input, struct error_text *ret_problem)
{
	struct json_doc doc;
	struct span name, value;
	uint32_t count = 0;
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
		return error_fill(ret_problem, -ENOMEM, "not enough memory for an envelope");
	struct span rest = headers.type == JSON_OBJECT ? headers.text : SPAN("{}");
	while (count < HTTP1_HEADERS_MAX && json_member_next(&rest, &name, &value)) {
		if (name.len == 0 || value.len <= 2 || value.ptr[0] != '"')
			continue;
		envelope->headers[count++] = (struct http1_header){
			decode(&envelope->memory, name),
			decode(&envelope->memory, span_of(value.ptr + 1, value.len - 2)),
		};
	}
	*ret_input = (struct recipe_input){
		.headers = envelope->headers,
		.header_count = count,
		.body = body.type == JSON_STRING ? decode(&envelope->memory, body.text) : body.text,
	};
	return 0;
}
