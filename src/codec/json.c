/* json: see json.h. */
#include "codec/json.h"

#include <assert.h>
#include <endian.h>

#include "base/error.h"
#include "base/utf8.h"
#include "codec/json_escape.h"

#define force_inline static inline __attribute__((always_inline))
#define cold_path __attribute__((cold, noinline))

static_assert(JSON_DEPTH_MAX == 64, "the stack of open containers is one 64-bit word");

/* An open container inside which wanted values may be. */
struct frame {
	const char *at; /* where it began */
	uint32_t node;
	uint32_t index; /* arrays: of the present element */
};

struct scanner {
	const char *start;
	const char *end;
	struct json_marks *marks;
	const char *escape_at; /* the last backslash met in a string, or start */
	const struct json_plan *plan;
	struct json_doc *doc;
	bool valued; /* see scan_members() */
	struct frame frames[JSON_STEPS_MAX + 1];
};

/*
 * Where the scan stands among containers. Apart from the scanner, since only
 * inlined code sees it: so it lives in registers.
 *
 * A scan that is not careful leaves out the checks for the end of the text. It
 * may: the text then ends with a bracket, and while a container is open, none
 * but close_container() steps over a bracket outside of a string; that and the
 * strings do check. So the byte at p can always be read.
 */
struct nest {
	const bool careful;
	uint64_t objects;    /* bit 0 is the innermost: 1 object, 0 array */
	uint32_t depth;      /* open containers */
	uint32_t live;       /* of these, how many have a frame: the outermost ones */
	uint32_t node;       /* of the value that comes next, or 0 */
	uint32_t open_node;  /* of the open container that is wanted but has no frame, or 0 */
	const char *open_at; /* and where it began */
	bool valued;         /* the place is after a value, not before one */
	const struct json_table *table; /* names of the innermost frame, if it is an object */
};

/* Returns NULL, so that a scanner can say `return fail(…)`. */
cold_path static const char *fail(const struct scanner *s, const char *at, const char *expected)
{
	s->doc->problem.offset = (size_t)(at - s->start);
	s->doc->problem.expected = expected;
	return NULL;
}

static inline bool is_digit(const char *p, const char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

/* None is left in the chunk: the first mark of the rest that is at p or after it, or
 * the end. It is the one before marks->next. */
__attribute__((noinline)) static const char *find_mark(const struct scanner *s, const char *p)
{
	struct json_marks *marks = s->marks;
	for (;;) {
		while (marks->next < marks->count) {
			const char *at = marks->base + marks->places[marks->next++];
			if (at >= p)
				return at;
		}
		json_marks_fill(marks, p > marks->until ? p : marks->until, s->end);
	}
}

/* The first byte from p on that is a quote, a backslash, a control character or
 * not ASCII; or the end. Those before p are done with. */
force_inline const char *skip_plain(const struct scanner *s, const char *p)
{
	struct json_marks *marks = s->marks;
	const char *at;
	do {
		if (unlikely(marks->next == marks->count))
			return find_mark(s, p);
		at = marks->base + marks->places[marks->next++];
	} while (unlikely(at < p));
	return at;
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && json_is_blank(*p))
		p++;
	return p;
}

__attribute__((noinline)) static const char *skip_blank_run(const char *p, const char *end)
{
	return skip_blanks(p, end);
}

force_inline bool at_end(const struct scanner *s, const struct nest *nest, const char *p)
{
	return nest->careful && p == s->end;
}

force_inline const char *skip_blank(const struct scanner *s, const struct nest *nest, const char *p)
{
	if (at_end(s, nest, p) || likely(*p > ' '))
		return p;
	s->doc->blanks = true;
	p += json_is_blank(*p); /* often the only one */
	if (at_end(s, nest, p) || likely(*p > ' '))
		return p;
	return skip_blank_run(p, s->end);
}

static const char *skip_unicode_escape(const struct scanner *s, const char *p)
{
	int32_t unit = json_escaped_unit(p, s->end);
	if (unit < 0)
		return fail(s, p, "four hexadecimal digits after \\u");
	if (json_is_low(unit))
		return fail(s, p, "a high surrogate before this low one");
	p += JSON_ESCAPE_MAX;
	if (!json_is_high(unit))
		return p;
	if (!json_is_low(json_escaped_unit(p, s->end)))
		return fail(s, p, "a low surrogate after the high one");
	return p + JSON_ESCAPE_MAX;
}

static const char *skip_escape(struct scanner *s, const char *p)
{
	s->escape_at = p;
	if (s->end - p < 2)
		return fail(s, s->end, "the rest of an escape");
	switch (p[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't': return p + 2;
	case 'u': return skip_unicode_escape(s, p);
	default: return fail(s, p + 1, "one of \" \\ / b f n r t u after a backslash");
	}
}

/* Out of line: in most strings the first byte that is not plain is the closing quote. */
__attribute__((noinline)) static const char *finish_string(struct scanner *s, const char *p)
{
	for (;;) {
		if (p == s->end)
			return fail(s, p, "the closing quote of a string");
		unsigned char c = (unsigned char)*p;
		if (c == '"')
			return p;
		if (c == '\\') {
			p = skip_escape(s, p);
			if (!p)
				return NULL;
		} else if (c < 0x20) {
			return fail(s, p, "no bare control character in a string");
		} else {
			size_t len = utf8_sequence(p, (size_t)(s->end - p));
			if (len == 0)
				return fail(s, p, "valid UTF-8");
			p += len;
			if (p < s->end && (signed char)*p < 0)
				continue; /* text beyond ASCII comes in runs */
		}
		p = skip_plain(s, p);
	}
}

/* p is after the opening quote; returns the place of the closing one. */
force_inline const char *scan_string(struct scanner *s, const char *p)
{
	p = skip_plain(s, p);
	if (likely(p != s->end && *p == '"'))
		return p;
	return finish_string(s, p);
}

static inline const char *skip_digits(const char *p, const char *end)
{
	while (is_digit(p, end))
		p++;
	return p;
}

static const char *scan_exponent(const struct scanner *s, const char *p)
{
	p++;
	if (p < s->end && (*p == '+' || *p == '-'))
		p++;
	if (!is_digit(p, s->end))
		return fail(s, p, "a digit in the exponent");
	return skip_digits(p, s->end);
}

static const char *scan_number(const struct scanner *s, const char *p)
{
	const char *end = s->end;
	if (*p == '-')
		p++;
	if (!is_digit(p, end))
		return fail(s, p, "a digit after the minus sign");
	p = *p == '0' ? p + 1 : skip_digits(p, end);
	if (p < end && *p == '.') {
		p++;
		if (!is_digit(p, end))
			return fail(s, p, "a digit after the decimal point");
		p = skip_digits(p, end);
	}
	if (p < end && (*p == 'e' || *p == 'E'))
		p = scan_exponent(s, p);
	return p;
}

static const char *scan_literal(const struct scanner *s, const char *p, enum json_type *ret_type)
{
	size_t left = (size_t)(s->end - p);
	if (left >= 4 && memcmp(p, "true", 4) == 0) {
		*ret_type = JSON_TRUE;
		return p + 4;
	}
	if (left >= 4 && memcmp(p, "null", 4) == 0) {
		*ret_type = JSON_NULL;
		return p + 4;
	}
	if (left >= 5 && memcmp(p, "false", 5) == 0) {
		*ret_type = JSON_FALSE;
		return p + 5;
	}
	return fail(s, p, "a value: object, array, string, number, true, false or null");
}

/* The end of the number or word at p, which is before the end of the text; NULL: it is
 * none. */
static const char *scan_bare(const struct scanner *s, const char *p, enum json_type *ret_type)
{
	if (*p != '-' && !is_digit(p, s->end))
		return scan_literal(s, p, ret_type);
	*ret_type = JSON_NUMBER;
	return scan_number(s, p);
}

force_inline void keep(const struct scanner *s, uint32_t node, enum json_type type,
                       const char *begin, const char *end)
{
	if (!s->plan->nodes[node].wanted)
		return;
	s->doc->values[node] = (struct json_value){
		.type = type,
		.escaped = type == JSON_STRING && s->escape_at >= begin,
		.text = { begin, (size_t)(end - begin) },
	};
	json_set_put(&s->doc->seen, node);
	if (type > JSON_NULL && (type != JSON_STRING || end > begin))
		json_set_put(&s->doc->there, node);
}

force_inline const char *scan_scalar(struct scanner *s, struct nest *nest, const char *p)
{
	enum json_type type = JSON_STRING;
	bool quoted = *p == '"';
	const char *begin = p + quoted;
	p = quoted ? scan_string(s, begin) : scan_bare(s, p, &type);
	if (unlikely(!p))
		return NULL;
	if (nest->node) {
		keep(s, nest->node, type, begin, p);
		nest->node = 0;
	}
	return p + quoted;
}

cold_path static uint32_t find_escaped_name(const struct scanner *s, const struct json_table *table,
                                            struct span name)
{
	char quoted[1 + JSON_NAME_MAX + 8] = "\"";
	char *bytes = quoted + 1;
	size_t len;
	if (json_decode(name, bytes, JSON_NAME_MAX, &len) != 0)
		return 0;
	bytes[len] = '"';
	return json_plan_find(s->plan, table, bytes, len, quoted + sizeof(quoted));
}

/* The node of a name in the innermost frame, or 0. */
force_inline uint32_t find_name(const struct scanner *s, const struct json_table *table,
                                const char *begin, size_t len)
{
	if (unlikely(s->escape_at >= begin))
		return find_escaped_name(s, table, span_of(begin, len));
	return json_plan_find(s->plan, table, begin, len, s->end);
}

cold_path static const char *fail_repeated(const struct scanner *s, const char *at)
{
	s->doc->problem.repeated = true;
	return fail(s, at, "this name only once");
}

/* Notes which node the name's value is for; false when it came before. */
force_inline bool enter_name(const struct scanner *s, struct nest *nest, const char *begin,
                             const char *end)
{
	if (nest->depth != nest->live)
		return true;
	nest->node = find_name(s, nest->table, begin, (size_t)(end - begin));
	if (nest->node == 0)
		return true;
	if (unlikely(json_set_has(&s->doc->seen, nest->node)))
		return false;
	json_set_put(&s->doc->seen, nest->node);
	return true;
}

static inline uint32_t load32(const char *p)
{
	uint32_t word;
	memcpy(&word, p, sizeof(word));
	return le32toh(word);
}

#define BYTES(a, b, c, d) \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* How many of the eight bytes at p are digits, up to the first that is none. */
force_inline size_t count_digits(const char *p)
{
	uint64_t word = json_load64(p);
	uint64_t others = ((word + UINT64_C(0x4646464646464646)) |
	                   (word - UINT64_C(0x3030303030303030))) &
	                  UINT64_C(0x8080808080808080);
	return others ? (size_t)__builtin_ctzll(others) / 8 : 8;
}

/* The end of the number at p, which begins with a digit, if it is short: at most 15
 * digits, then at most 7 after a point, and no exponent. */
force_inline const char *scan_digits(const char *p)
{
	size_t len = *p == '0' ? 1 : count_digits(p);
	if (len == 8)
		len += count_digits(p + 8);
	if (unlikely(len == 16))
		return NULL;
	if (p[len] == '.') {
		size_t more = count_digits(p + len + 1);
		if (unlikely(more == 0 || more == 8))
			return NULL;
		len += 1 + more;
	}
	return (p[len] | 0x20) == 'e' ? NULL : p + len;
}

/* A short number, a word or an empty array; where it ends, or NULL: it is something else.
 * JSON_MARKS_BEHIND bytes can be read. */
force_inline const char *scan_short(const char *p, enum json_type *ret_type)
{
	if (*p >= '0' && *p <= '9') {
		*ret_type = JSON_NUMBER;
		return scan_digits(p);
	}
	uint32_t word = load32(p);
	if (word == BYTES('t', 'r', 'u', 'e')) {
		*ret_type = JSON_TRUE;
		return p + 4;
	}
	if (word == BYTES('n', 'u', 'l', 'l')) {
		*ret_type = JSON_NULL;
		return p + 4;
	}
	if ((word & 0xFFFF) == BYTES('[', ']', 0, 0)) {
		*ret_type = JSON_ARRAY;
		return p + 2;
	}
	*ret_type = JSON_FALSE;
	return word == BYTES('f', 'a', 'l', 's') && p[4] == 'e' ? p + 5 : NULL;
}

/* Is there nothing but spaces from p to q? Of at most 16; as many can be read. */
force_inline bool are_spaces(const char *p, const char *q)
{
	const uint64_t spaces = UINT64_C(0x2020202020202020);
	size_t len = (size_t)(q - p);
	uint64_t others = json_load64(p) ^ spaces;
	if (len == 0)
		return true;
	if (len < 8)
		return others << (64 - 8 * len) == 0;
	return len <= 16 && (others | (json_load64(q - 8) ^ spaces)) == 0;
}

struct member {
	const char *name; /* its quote */
	const char *name_end;
	const char *value;
	const char *end;
	enum json_type type;
};

/* False: its name came before. */
force_inline bool take_member(const struct scanner *s, const struct json_table *table,
                              struct member m)
{
	uint32_t node = find_name(s, table, m.name + 1, (size_t)(m.name_end - m.name - 1));
	if (node == 0)
		return true;
	if (unlikely(json_set_has(&s->doc->seen, node)))
		return false;
	json_set_put(&s->doc->seen, node);
	keep(s, node, m.type, m.value, m.end);
	return true;
}

/* From the end of a value to the quote of the next name, if that follows at once or
 * on a line of its own; else NULL. `at` is the first mark after the value. */
force_inline const char *next_name(const struct scanner *s, const char *base, const uint16_t **at,
                                   const char *p)
{
	uint32_t after = load32(p) & 0xFFFF;
	if (likely(after == BYTES(',', '"', 0, 0)))
		return p + 1;
	if (after != BYTES(',', '\n', 0, 0))
		return NULL;
	const char *name = base + (*at)[1];
	if (*name != '"' || !are_spaces(p + 2, name))
		return NULL;
	s->doc->blanks = true;
	++*at;
	return name;
}

/*
 * Members "name":"value" of plain strings, or with a short number or a word, one
 * after another: as most are. Between them are no blanks, or those that most have
 * which are there for people: a space after the colon, a line for each. Where the
 * quotes are is known, so that nothing is searched; and what decides about the next
 * step is always a branch, so that no step waits for the one before.
 *
 * p is where a name should begin; `table` is that of the names which are looked for,
 * or NULL. Returns where the next name should begin, or where the last value ends:
 * s->valued tells; or NULL: a name came twice.
 */
__attribute__((noinline)) static const char *scan_members(struct scanner *s,
                                                          const struct json_table *table,
                                                          const char *p)
{
	const char *base = s->marks->base;
	const uint16_t *at = s->marks->places + s->marks->next;
	const uint16_t *safe = s->marks->places + s->marks->safe;
	s->valued = false;
	while (at < safe && base + *at < p)
		at++;
	if (unlikely(*p != '"'))
		return p;
	while (at < safe) {
		struct member m = { .name = p, .name_end = base + at[1], .type = JSON_STRING };
		uint32_t between = load32(m.name_end);
		if (likely((between & 0xFFFFFF) == BYTES('"', ':', '"', 0))) {
			m.value = m.name_end + 3;
			m.end = base + at[3];
		} else if (between == BYTES('"', ':', ' ', '"')) {
			m.value = m.name_end + 4;
			m.end = base + at[3];
			s->doc->blanks = true;
		} else if ((between & 0xFFFF) == BYTES('"', ':', 0, 0)) {
			bool blank = m.name_end[2] == ' ';
			m.value = m.name_end + 2 + blank;
			m.end = scan_short(m.value, &m.type);
			s->doc->blanks |= blank;
			if (!m.end)
				break;
		} else {
			break;
		}
		if (unlikely(m.type == JSON_STRING && *m.end != '"'))
			break;
		if (table && unlikely(!take_member(s, table, m)))
			return fail_repeated(s, p);
		if (m.type == JSON_STRING) {
			at += 4;
			p = m.end + 1;
		} else {
			at += 2;
			p = m.end;
		}
		const char *name = next_name(s, base, &at, p);
		s->valued = !name;
		if (!name)
			break;
		p = name;
	}
	s->marks->next = (uint32_t)(at - s->marks->places);
	return p;
}

/* A name and its colon; p is where the name should begin. nest->valued tells that
 * its value, and perhaps more of them, were taken too. */
force_inline const char *scan_name(struct scanner *s, struct nest *nest, const char *p)
{
	if (!nest->careful) {
		p = scan_members(s, nest->depth == nest->live ? nest->table : NULL, p);
		nest->valued = s->valued;
		if (!p || nest->valued)
			return p;
	}
	if (unlikely(at_end(s, nest, p) || *p != '"'))
		return fail(s, p, "a name in quotes");
	const char *begin = p + 1;
	p = scan_string(s, begin);
	if (unlikely(!p))
		return NULL;
	if (unlikely(!enter_name(s, nest, begin, p)))
		return fail_repeated(s, begin - 1);
	p = skip_blank(s, nest, p + 1);
	if (unlikely(at_end(s, nest, p) || *p != ':'))
		return fail(s, p, "a colon after a name");
	return p + 1;
}

/* The node of the innermost frame's present element, if one comes. */
force_inline void enter_element(const struct scanner *s, struct nest *nest)
{
	const struct frame *frame = &s->frames[nest->live];
	nest->node = json_plan_element(s->plan, frame->node, frame->index);
}

force_inline void set_table(const struct scanner *s, struct nest *nest)
{
	uint32_t members = s->plan->nodes[s->frames[nest->live].node].members;
	if (members)
		nest->table = &s->plan->tables[members - 1];
}

/* Gives the container at p, whose node is known, a frame if it needs one. */
force_inline void open_node(struct scanner *s, struct nest *nest, const char *p)
{
	const struct json_node *node = &s->plan->nodes[nest->node];
	bool object = *p == '{';
	if (object ? node->members : node->elements) {
		s->frames[++nest->live] = (struct frame){ .at = p, .node = nest->node };
		nest->node = 0;
		if (object)
			set_table(s, nest);
		else
			enter_element(s, nest);
		return;
	}
	nest->open_node = nest->node;
	nest->open_at = p;
	nest->node = 0;
}

/* Enters the container at p. */
force_inline const char *open_container(struct scanner *s, struct nest *nest, const char *p)
{
	if (unlikely(nest->depth == JSON_DEPTH_MAX))
		return fail(s, p, "at most 64 containers inside each other");
	nest->objects = nest->objects << 1 | (*p == '{');
	nest->depth++;
	if (nest->node)
		open_node(s, nest, p);
	return skip_blank(s, nest, p + 1);
}

force_inline bool in_object(const struct nest *nest)
{
	return nest->objects & 1;
}

force_inline bool closes(const struct nest *nest, char c)
{
	return c == (in_object(nest) ? '}' : ']');
}

cold_path static const char *fail_close(const struct scanner *s, const char *p, bool object)
{
	return fail(s, p, object ? "a comma or }" : "a comma or ]");
}

/* Ends the frame of the container that ends before p. */
force_inline void close_frame(const struct scanner *s, struct nest *nest, enum json_type type,
                              const char *p)
{
	const struct frame *frame = &s->frames[nest->live];
	keep(s, frame->node, type, frame->at, p);
	nest->live--;
	nest->node = 0; /* an element that did not come */
	if (nest->live)
		set_table(s, nest);
}

/* Leaves the container whose closing bracket is at p. */
force_inline const char *close_container(const struct scanner *s, struct nest *nest, const char *p)
{
	enum json_type type = in_object(nest) ? JSON_OBJECT : JSON_ARRAY;
	p++;
	if (nest->depth == nest->live) {
		close_frame(s, nest, type, p);
	} else if (nest->open_node && nest->depth == nest->live + 1) {
		keep(s, nest->open_node, type, nest->open_at, p);
		nest->open_node = 0;
	}
	nest->objects >>= 1;
	nest->depth--;
	if (unlikely(p == s->end && nest->depth > 0))
		return fail_close(s, p, in_object(nest));
	return p;
}

/* After the comma of an array. */
force_inline void next_element(struct scanner *s, struct nest *nest)
{
	if (nest->depth == nest->live) {
		s->frames[nest->live].index++;
		enter_element(s, nest);
	}
}

/* After a value: over closing brackets, and over a comma with the name that
 * must follow it in an object. Depth 0 means that the text's value has ended. */
force_inline const char *scan_after(struct scanner *s, struct nest *nest, const char *p)
{
	while (p && nest->depth > 0) {
		p = skip_blank(s, nest, p);
		if (likely(!at_end(s, nest, p) && *p == ',')) {
			if (in_object(nest))
				return scan_name(s, nest, skip_blank(s, nest, p + 1));
			next_element(s, nest);
			return p + 1;
		}
		if (unlikely(at_end(s, nest, p) || !closes(nest, *p)))
			return fail_close(s, p, in_object(nest));
		p = close_container(s, nest, p);
	}
	return p;
}

/* The value at p, or of a container its bracket and what comes up to the first
 * value in it. */
force_inline const char *scan_value(struct scanner *s, struct nest *nest, const char *p)
{
	p = skip_blank(s, nest, p);
	if (unlikely(at_end(s, nest, p)))
		return fail(s, p, "a value");
	nest->valued = true;
	if (*p != '{' && *p != '[')
		return scan_scalar(s, nest, p);
	p = open_container(s, nest, p);
	if (unlikely(!p) || (!at_end(s, nest, p) && closes(nest, *p)))
		return p;
	nest->valued = false;
	return in_object(nest) ? scan_name(s, nest, p) : p;
}

/* The whole text, from its first byte; returns where it ends. */
force_inline const char *scan_text(struct scanner *s, const char *p, bool careful)
{
	struct nest nest = { .careful = careful, .node = s->plan ? JSON_ROOT : 0 };
	do {
		if (!nest.valued)
			p = scan_value(s, &nest, p);
		if (nest.valued) {
			nest.valued = false;
			p = scan_after(s, &nest, p);
		}
	} while (p && nest.depth > 0);
	return p;
}

/* For texts that are not a container or do not end as one, which are rare or
 * wrong. */
cold_path static const char *scan_careful(struct scanner *s, const char *p)
{
	return scan_text(s, p, true);
}

static enum json_type type_at(const char *p)
{
	switch (*p) {
	case '{': return JSON_OBJECT;
	case '[': return JSON_ARRAY;
	case '"': return JSON_STRING;
	case 't': return JSON_TRUE;
	case 'f': return JSON_FALSE;
	case 'n': return JSON_NULL;
	default: return JSON_NUMBER;
	}
}

static inline bool is_container(char first, char last)
{
	return (first == '{' || first == '[') && (last == '}' || last == ']');
}

/* Scans the value at `begin`; returns where it ends. No blank is at the end of `text`. */
static const char *scan_from(struct span text, const char *begin, struct json_marks *marks,
                             const struct json_plan *plan, struct json_doc *doc)
{
	struct scanner s; /* its frames are set when containers are opened */
	s.start = text.ptr;
	s.end = text.ptr + text.len;
	s.marks = marks;
	s.escape_at = text.ptr;
	s.plan = plan;
	s.doc = doc;
	doc->problem.repeated = false;
	doc->blanks = false;
	doc->seen = (struct json_set){ { 0 } };
	doc->there = (struct json_set){ { 0 } };
	bool sure = s.end - begin >= 2 && is_container(*begin, s.end[-1]);
	const char *p = likely(sure) ? scan_text(&s, begin, false) : scan_careful(&s, begin);
	if (p)
		doc->root = type_at(begin);
	return p;
}

static const char *trim_end(const char *start, const char *end)
{
	while (end > start && json_is_blank(end[-1]))
		end--;
	return end;
}

static int refuse(struct json_doc *doc, size_t offset, const char *expected)
{
	doc->problem = (struct json_problem){ .offset = offset, .expected = expected };
	return ERR_INVALID;
}

int json_scan(struct span text, const struct json_plan *plan, struct json_doc *doc)
{
	static const char nothing[1];
	const char *start = text.len ? text.ptr : nothing;
	const char *end = trim_end(start, start + text.len);
	const char *begin = skip_blanks(start, end);
	struct json_marks marks;
	json_marks_fill(&marks, begin, end);
	const char *p = scan_from(span_of(start, (size_t)(end - start)), begin, &marks, plan, doc);
	if (!p)
		return ERR_INVALID;
	if (p != end)
		return refuse(doc, (size_t)(skip_blanks(p, end) - start),
		              "nothing after the value");
	return 0;
}

int json_elements_begin(struct json_elements *ret_elements, struct span text)
{
	const char *end = text.ptr + text.len;
	const char *at = text.len ? skip_blanks(text.ptr, end) : end;
	if (at == end || *at != '[')
		return ERR_INVALID;
	ret_elements->start = text.ptr;
	ret_elements->at = at + 1;
	ret_elements->end = trim_end(at, end);
	ret_elements->begun = false;
	json_marks_fill(&ret_elements->marks, ret_elements->at, ret_elements->end);
	return 0;
}

int json_elements_next(struct json_elements *elements, const struct json_plan *plan,
                       struct json_doc *doc, struct span *ret_element)
{
	const char *end = elements->end;
	const char *p = skip_blanks(elements->at, end);
	if (p < end && *p == ']') {
		if (p + 1 != end)
			return refuse(doc, (size_t)(p + 1 - elements->start),
			              "nothing after the value");
		elements->at = p;
		return 0;
	}
	if (elements->begun) {
		if (p == end || *p != ',')
			return refuse(doc, (size_t)(p - elements->start), "a comma or ]");
		p = skip_blanks(p + 1, end);
	}
	/* Asked again for the same element, it goes back. */
	if (unlikely(json_marks_are_beyond(&elements->marks, p)))
		json_marks_fill(&elements->marks, p, end);
	struct span text = span_of(elements->start, (size_t)(end - elements->start));
	const char *after = scan_from(text, p, &elements->marks, plan, doc);
	if (!after)
		return ERR_INVALID;
	elements->begun = true;
	elements->at = after;
	*ret_element = span_of(p, (size_t)(after - p));
	return 1;
}
