/* filter_split: see filter_split.h. */
#include "cli/filter/filter_split.h"

#include "codec/json.h"

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

/* False: no line is complete. */
static bool cut_line(struct filter_split *split, struct span *input, bool last,
                     struct span *ret_line)
{
	const char *end = NULL;
	if (input->len > split->at)
		end = memchr(input->ptr + split->at, '\n', input->len - split->at);
	if (!end && !last) {
		split->at = input->len;
		return false;
	}
	size_t len = end ? (size_t)(end - input->ptr) + 1 : input->len;
	*ret_line = span_of(input->ptr, len);
	use(split, input, len);
	split->lines++;
	return true;
}

static enum filter_step too_long(struct filter_split *split, struct span *input,
                                 struct filter_piece *ret_piece)
{
	*ret_piece = (struct filter_piece){ .event = *input, .line = split->lines + 1 };
	split->skipping = true;
	return FILTER_TOO_LONG;
}

static enum filter_step next_line(struct filter_split *split, struct span *input, bool last,
                                  struct filter_piece *ret_piece)
{
	struct span line;
	while (input->len > 0) {
		if (!cut_line(split, input, last, &line)) {
			enum filter_step step = FILTER_MORE;
			if (!split->skipping && input->len > split->event_max)
				step = too_long(split, input, ret_piece);
			if (split->skipping)
				use(split, input, input->len);
			return step;
		}
		bool skipped = split->skipping;
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

/* Where the value that begins the text ends; 0: not here. Goes on where the last
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

static uint64_t count_lines(struct span text)
{
	uint64_t count = 0;
	const char *p = text.ptr;
	const char *end = p + text.len;
	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		count++;
		p++;
	}
	return count;
}

static enum filter_step next_value(struct filter_split *split, struct span *input, bool last,
                                   struct filter_piece *ret_piece)
{
	size_t end = find_end(split, *input, last);
	struct span event = span_of(input->ptr, end ? end : input->len);
	if (end == 0 && last)
		return broken(split, "the end of the event", ret_piece);
	if (end == 0 && event.len <= split->event_max && !split->skipping)
		return FILTER_MORE;
	bool skipped = split->skipping;
	enum filter_step step = FILTER_EVENT;
	*ret_piece = (struct filter_piece){ event, event, split->lines + 1, NULL };
	split->skipping = end == 0;
	split->lines += count_lines(event);
	if (end)
		split->place = split->place == PLACE_TOP ? PLACE_TOP : PLACE_AFTER;
	if (event.len > split->event_max || end == 0)
		step = FILTER_TOO_LONG;
	if (skipped)
		step = FILTER_MORE; /* it was told already */
	*input = span_skip(*input, event.len);
	split->at = 0;
	return step;
}

/* A byte between values. False: it does not belong there. */
static bool take_mark(struct filter_split *split, char c)
{
	bool in_array = split->place != PLACE_TOP;
	if (c == '\n')
		split->lines++;
	if (json_is_blank(c))
		return true;
	if (c == '[' && !in_array)
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

static bool is_closed(struct span line)
{
	struct filter_split split = { 0 };
	return find_end(&split, line, false) != 0;
}

/* UNKNOWN: it needs more bytes than these. */
static enum filter_form detect(struct span input, bool last, size_t event_max)
{
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
	if (!end || is_closed(span_of(input.ptr, len)))
		return FILTER_LINES;
	if (len + 1 == input.len)
		return last ? FILTER_LINES : FILTER_UNKNOWN;
	return end[1] == '{' ? FILTER_LINES : FILTER_TEXTS;
}

/* False: more bytes are needed. */
static bool begin(struct filter_split *split, struct span *input, bool last)
{
	static const struct span mark = { "\xEF\xBB\xBF", 3 };
	if (!split->marked) {
		if (input->len < mark.len && !last)
			return false;
		span_cut_start(input, mark);
		split->marked = true;
	}
	split->form = detect(*input, last, split->event_max);
	return split->form != FILTER_UNKNOWN;
}

enum filter_step filter_split_next(struct filter_split *split, struct span *input, bool last,
                                   struct filter_piece *ret_piece)
{
	CHECK(split->event_max > 0);
	if (split->form == FILTER_UNKNOWN && !begin(split, input, last))
		return FILTER_MORE;
	if (split->form == FILTER_LINES)
		return next_line(split, input, last, ret_piece);
	return next_text(split, input, last, ret_piece);
}
