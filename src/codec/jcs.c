/*
 * jcs: see jcs.h.
 *
 * Members are written to `out` in the order in which they come. When an object
 * ends and its names are not in order, its members are sorted and copied, behind
 * what is written and back. So nothing recurses, and each byte is moved at most
 * once for each container around it.
 */
#include "codec/jcs.h"

#include "base/error.h"
#include "codec/json_escape.h"
#include "codec/json_number.h"

#define TEXT_MAX (256u << 20) /* places are 32 bits */

struct member {
	uint32_t at;       /* of its name's quote, in `out` */
	uint32_t end;      /* after its value */
	uint32_t name_len; /* between the quotes, as written there */
	uint32_t offset;   /* of its name in the text */
};

struct level {
	bool object;
	bool dropped;     /* what is being written is left out */
	uint32_t node;    /* of the plan, or 0 */
	uint32_t begin;   /* in `out`, after the bracket */
	uint32_t count;   /* members or elements so far */
	uint32_t members; /* where its members begin in the list of all */
	uint32_t index;   /* elements met, also those left out */
	uint32_t from;    /* where the present member or element begins, with its comma */
};

struct writer {
	const char *start;
	const char *p;
	const char *end;
	const struct jcs_options *options;
	struct buf *out;
	struct buf *sorting;
	struct json_problem *problem;
	uint32_t depth;
	struct level levels[JSON_DEPTH_MAX + 1];
};

static int fail_at(const struct writer *w, size_t offset, const char *expected)
{
	*w->problem = (struct json_problem){ .offset = offset, .expected = expected };
	return ERR_INVALID;
}

static int fail(const struct writer *w, const char *expected)
{
	return fail_at(w, (size_t)(w->p - w->start), expected);
}

static void skip_blanks(struct writer *w)
{
	while (w->p < w->end && (*w->p == ' ' || *w->p == '\n' || *w->p == '\r' || *w->p == '\t'))
		w->p++;
}

static uint32_t place(const struct writer *w)
{
	return (uint32_t)w->out->len;
}

static void put_escaped(struct buf *out, char c)
{
	static const char from[] = "\"\\\b\f\n\r\t";
	static const char to[] = "\"\\bfnrt";
	const char *at = memchr(from, c, sizeof(from) - 1);
	if (at)
		buf_append(out, (char[]){ '\\', to[at - from] }, 2);
	else if ((unsigned char)c < 0x20)
		buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
	else
		buf_append_char(out, c);
}

/* From the quote at p to after the closing one. */
static int write_string(struct writer *w)
{
	const char *begin = w->p++;
	while (w->p < w->end && *w->p != '"' && *w->p != '\\')
		w->p++;
	buf_append(w->out, begin, (size_t)(w->p - begin));
	while (w->p < w->end && *w->p != '"') {
		char bytes[4] = { *w->p };
		size_t len = 1;
		if (*w->p == '\\')
			len = json_decode_escape(&w->p, w->end, bytes);
		else
			w->p++;
		if (len == 0)
			return fail(w, "an escape");
		if (len == 1)
			put_escaped(w->out, bytes[0]);
		else
			buf_append(w->out, bytes, len);
	}
	if (w->p == w->end)
		return fail(w, "a closing quote");
	w->p++;
	buf_append_char(w->out, '"');
	return 0;
}

static bool keeps_value(struct span text, struct span printed)
{
	char a[2 * JSON_NUMBER_PLAIN_MAX];
	char b[2 * JSON_NUMBER_PLAIN_MAX];
	struct span x;
	struct span y;
	return json_number_exact(text, a, sizeof(a), &x) == 0 &&
	       json_number_exact(printed, b, sizeof(b), &y) == 0 && span_eq(x, y);
}

static int write_number(struct writer *w)
{
	const char *begin = w->p;
	while (w->p < w->end && *w->p && strchr("+-.0123456789eE", *w->p))
		w->p++;
	struct span text = span_of(begin, (size_t)(w->p - begin));
	char bytes[JSON_NUMBER_ES_MAX];
	size_t len;
	uint32_t at = place(w);
	/* strtod() needs an end, which the last number of a text does not have. */
	buf_append_span(w->out, text);
	buf_append_char(w->out, '\0');
	if (w->out->failed)
		return w->out->failed;
	int error = json_number_es(span_of(w->out->ptr + at, text.len), bytes, &len);
	w->out->len = at;
	if (w->options->exact && (error < 0 || !keeps_value(text, span_of(bytes, len)))) {
		struct span value;
		size_t room = text.len + 2 * JSON_NUMBER_PLAIN_MAX;
		error = buf_reserve(w->out, room);
		if (error < 0)
			return error;
		error = json_number_exact(text, w->out->ptr + w->out->len, room, &value);
		if (error < 0)
			return fail(w, "a number with a smaller exponent");
		memmove(w->out->ptr + w->out->len, value.ptr, value.len);
		w->out->len += value.len;
		return 0;
	}
	if (error < 0)
		return fail_at(w, (size_t)(begin - w->start), "a number that a double can hold");
	buf_append(w->out, bytes, len);
	return 0;
}

static int write_scalar(struct writer *w)
{
	if (*w->p == '"')
		return write_string(w);
	if (*w->p == '-' || (*w->p >= '0' && *w->p <= '9'))
		return write_number(w);
	const char *begin = w->p;
	while (w->p < w->end && *w->p >= 'a' && *w->p <= 'z')
		w->p++;
	if (w->p == begin)
		return fail(w, "a value");
	buf_append(w->out, begin, (size_t)(w->p - begin));
	return 0;
}

/* The next byte of a name for sorting, and a step over it. The bytes of UTF-8 sort
 * as UTF-16 does, but for U+E000 … U+FFFF, which come after the surrogates that
 * stand for what is beyond. */
static int sort_byte(const char **p)
{
	char bytes[4] = { **p };
	if (**p == '\\')
		json_decode_escape(p, *p + JSON_ESCAPE_MAX, bytes);
	else
		(*p)++;
	int byte = (unsigned char)bytes[0];
	return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
}

static int compare_names(const struct writer *w, const struct member *a, const struct member *b)
{
	const char *p = w->out->ptr + a->at + 1;
	const char *q = w->out->ptr + b->at + 1;
	const char *p_end = p + a->name_len;
	const char *q_end = q + b->name_len;
	while (p < p_end && q < q_end) {
		int difference = sort_byte(&p) - sort_byte(&q);
		if (difference)
			return difference;
	}
	return (p < p_end) - (q < q_end);
}

static void sift(const struct writer *w, struct member *list, uint32_t at, uint32_t count)
{
	struct member moved = list[at];
	for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && compare_names(w, &list[child], &list[child + 1]) < 0)
			child++;
		if (compare_names(w, &moved, &list[child]) >= 0)
			break;
		list[at] = list[child];
	}
	list[at] = moved;
}

/* Heapsort: no memory, and no order of names that makes it slow. */
static void sort_members(const struct writer *w, struct member *list, uint32_t count)
{
	for (uint32_t i = count / 2; i > 0; i--)
		sift(w, list, i - 1, count);
	for (uint32_t left = count; left > 1; left--) {
		struct member greatest = list[0];
		list[0] = list[left - 1];
		list[left - 1] = greatest;
		sift(w, list, 0, left - 1);
	}
}

/* 0 when in order, 1 when not; ERR_INVALID when a name is there twice. */
static int judge_order(const struct writer *w, const struct member *list, uint32_t count)
{
	int unsorted = 0;
	for (uint32_t i = 1; i < count; i++) {
		int order = compare_names(w, &list[i - 1], &list[i]);
		if (order == 0) {
			uint32_t a = list[i - 1].offset;
			uint32_t b = list[i].offset;
			int error = fail_at(w, a > b ? a : b, "this name only once");
			w->problem->repeated = true;
			return error;
		}
		unsorted |= order > 0;
	}
	return unsorted;
}

static int order_members(struct writer *w, const struct level *level)
{
	if (w->out->failed || w->sorting->failed || level->count < 2)
		return 0;
	struct member *list = (struct member *)(void *)w->sorting->ptr + level->members;
	int order = judge_order(w, list, level->count);
	if (order <= 0)
		return order;
	sort_members(w, list, level->count);
	order = judge_order(w, list, level->count);
	if (order < 0)
		return order;
	/* Puts the sorted members in the place of the unsorted ones. */
	uint32_t size = place(w) - level->begin;
	int error = buf_reserve(w->out, size + 1);
	if (error < 0)
		return error;
	uint32_t behind = place(w);
	for (uint32_t i = 0; i < level->count; i++) {
		if (i > 0)
			buf_append_char(w->out, ',');
		buf_append(w->out, w->out->ptr + list[i].at, list[i].end - list[i].at);
	}
	CHECK(place(w) - behind == size);
	memcpy(w->out->ptr + level->begin, w->out->ptr + behind, size);
	w->out->len = behind;
	return 0;
}

static uint32_t find_member(const struct writer *w, uint32_t node, const struct member *member)
{
	const struct json_plan *plan = w->options->except;
	char quoted[1 + JSON_NAME_MAX + 8] = "\"";
	char *name = quoted + 1;
	size_t len;
	if (node == 0 || plan->nodes[node].members == 0 || w->out->failed)
		return 0;
	struct span written = span_of(w->out->ptr + member->at + 1, member->name_len);
	if (json_decode(written, name, JSON_NAME_MAX, &len) < 0)
		return 0;
	name[len] = '"';
	return json_plan_find(plan, &plan->tables[plan->nodes[node].members - 1], name, len,
	                      quoted + sizeof(quoted));
}

/* Ends a member or element: counts it, or takes it back. */
static void end_item(struct writer *w, struct level *level)
{
	if (level->dropped) {
		w->out->len = level->from < w->out->len ? level->from : w->out->len;
		if (level->object && !w->sorting->failed)
			w->sorting->len -= sizeof(struct member);
		level->dropped = false;
		return;
	}
	if (level->object && !w->sorting->failed) {
		struct member *list = (struct member *)(void *)w->sorting->ptr;
		list[level->members + level->count].end = place(w);
	}
	level->count++;
}

/* A name with its colon. */
static int begin_member(struct writer *w, struct level *level, uint32_t *ret_node)
{
	struct member member = { .at = place(w), .offset = (uint32_t)(w->p - w->start) };
	if (w->p == w->end || *w->p != '"')
		return fail(w, "a name in quotes");
	int error = write_string(w);
	if (error < 0)
		return error;
	member.name_len = place(w) - member.at - 2;
	skip_blanks(w);
	if (w->p == w->end || *w->p++ != ':')
		return fail(w, "a colon after a name");
	buf_append_char(w->out, ':');
	buf_append(w->sorting, &member, sizeof(member));
	*ret_node = find_member(w, level->node, &member);
	return 0;
}

/* Up to the value of the next member or element; 0 when there is none. */
static int begin_item(struct writer *w, uint32_t *ret_node)
{
	struct level *level = &w->levels[w->depth];
	skip_blanks(w);
	if (w->p < w->end && *w->p == ',') {
		w->p++;
		skip_blanks(w);
	}
	if (w->p == w->end)
		return fail(w, "a closing bracket");
	if (*w->p == (level->object ? '}' : ']'))
		return 0;
	level->from = place(w);
	if (level->count > 0)
		buf_append_char(w->out, ',');
	const struct json_plan *except = w->options->except;
	int error = 0;
	*ret_node = 0;
	if (level->object)
		error = begin_member(w, level, ret_node);
	else if (level->node)
		*ret_node = json_plan_element(except, level->node, level->index++);
	if (!level->object && level->node && *ret_node == 0)
		*ret_node = json_plan_element(except, level->node, JSON_EACH);
	if (error < 0)
		return error;
	level->dropped = *ret_node && w->options->except->nodes[*ret_node].wanted;
	return 1;
}

/* The value at p whose node is given: a scalar is written, a container opened. */
static int begin_value(struct writer *w, uint32_t node)
{
	skip_blanks(w);
	if (w->p == w->end)
		return fail(w, "a value");
	if (*w->p == '{' || *w->p == '[') {
		if (w->depth == JSON_DEPTH_MAX)
			return fail(w, "at most 64 containers inside each other");
		struct level *level = &w->levels[++w->depth];
		char bracket = *w->p++;
		buf_append_char(w->out, bracket);
		*level = (struct level){
			.object = bracket == '{',
			.node = node,
			.begin = place(w),
			.members = (uint32_t)(w->sorting->len / sizeof(struct member)),
		};
		return 0;
	}
	int error = write_scalar(w);
	if (error == 0 && w->depth > 0)
		end_item(w, &w->levels[w->depth]);
	return error;
}

static int write_text(struct writer *w)
{
	uint32_t node = w->options->except ? JSON_ROOT : 0;
	int error = begin_value(w, node);
	while (error == 0 && w->depth > 0) {
		int more = begin_item(w, &node);
		if (more < 0)
			return more;
		if (more) {
			error = begin_value(w, node);
			continue;
		}
		struct level *level = &w->levels[w->depth];
		error = level->object ? order_members(w, level) : 0;
		if (error < 0)
			return error;
		if (!w->sorting->failed)
			w->sorting->len = level->members * sizeof(struct member);
		buf_append_char(w->out, *w->p++);
		w->depth--;
		if (w->depth > 0)
			end_item(w, &w->levels[w->depth]);
	}
	return error;
}

int jcs_write(struct span text, const struct jcs_options *options, struct buf *out,
              struct buf *sorting, struct json_problem *ret_problem)
{
	struct writer w;
	w.start = text.len ? text.ptr : "";
	w.p = w.start;
	w.end = w.start + text.len;
	w.options = options;
	w.out = out;
	w.sorting = sorting;
	w.problem = ret_problem;
	w.depth = 0;
	size_t before = out->len;
	if (text.len > TEXT_MAX || before > TEXT_MAX)
		return ERR_TOO_LARGE;
	buf_clear(sorting);
	int error = write_text(&w);
	if (error == 0)
		error = out->failed ? out->failed : sorting->failed;
	if (error < 0 && !out->failed)
		out->len = before;
	return error;
}
