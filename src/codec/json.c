/* json: see json.h. */
#include "codec/json.h"

#include <assert.h>
#include <endian.h>

#if defined(__SSE2__) && !defined(JSON_PORTABLE)
#include <immintrin.h>
#define JSON_SSE2 1
#else
#define JSON_SSE2 0
#endif
#if JSON_SSE2 && defined(__x86_64__)
#define JSON_AVX2 1
#else
#define JSON_AVX2 0
#endif

#include "base/error.h"
#include "base/utf8.h"
#include "codec/json_escape.h"

#define hot_inline static inline __attribute__((always_inline))
#define cold_path __attribute__((cold, noinline))

static_assert(JSON_DEPTH_MAX == 64, "the stack of open containers is one 64-bit word");

/* An open container inside which wanted values may be. */
struct frame {
	const char *at; /* where it began */
	uint32_t node;
	uint32_t index; /* arrays: of the present element */
};

struct scan {
	const char *start;
	const char *end;
	struct json_windows *windows;
	const char *escape_at; /* the last backslash met in a string, or start */
	const struct json_plan *plan;
	struct json_doc *doc;
	struct frame frames[JSON_STEPS_MAX + 1];
};

/*
 * Where the scan stands among containers. Apart from struct scan, since only
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
cold_path static const char *fail(const struct scan *s, const char *at, const char *expected)
{
	s->doc->problem.offset = (size_t)(at - s->start);
	s->doc->problem.expected = expected;
	return NULL;
}

static inline bool is_digit(const char *p, const char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

#if JSON_SSE2

/* Has a bit for each byte that is a quote, a backslash, a control character or
 * not ASCII. A signed compare finds the last two at once: bytes below 0x20 are
 * less than it, and so are those from 0x80 on, which are negative. */
static inline uint64_t special_bits(const char *p)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i odd = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
	__m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
	__m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
	return (uint32_t)_mm_movemask_epi8(_mm_or_si128(odd, _mm_or_si128(quote, slash)));
}
#define BITS 16u

#else

/* The high bit of each byte that is 0, exactly. */
static inline uint64_t zero_bytes(uint64_t word)
{
	const uint64_t lows = UINT64_C(0x7F7F7F7F7F7F7F7F);
	return ~(((word & lows) + lows) | word | lows);
}

static inline uint64_t special_bits(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word = json_load64(p);
	uint64_t found = zero_bytes(word ^ ones * '"') | zero_bytes(word ^ ones * '\\') |
	                 zero_bytes(word & ones * 0xE0) | (word & ones * 0x80);
	/* From eight high bits to eight bits side by side. */
	return (found >> 7) * UINT64_C(0x0102040810204080) >> 56;
}
#define BITS 8u

#endif

/* A bit for each special byte of `count` windows. */
static void mark_windows(const char *p, size_t count, uint64_t *ret_masks)
{
	for (size_t n = 0; n < count; n++, p += JSON_WINDOW) {
		uint64_t mask = 0;
		for (unsigned i = 0; i < JSON_WINDOW; i += BITS)
			mask |= special_bits(p + i) << i;
		ret_masks[n] = mask;
	}
}

#if JSON_AVX2

__attribute__((target("avx2"))) static inline uint64_t special_bits_wide(const char *p)
{
	__m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
	__m256i odd = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), bytes);
	__m256i quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
	__m256i slash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\'));
	__m256i special = _mm256_or_si256(odd, _mm256_or_si256(quote, slash));
	return (uint32_t)_mm256_movemask_epi8(special);
}

__attribute__((target("avx2"))) static void mark_windows_wide(const char *p, size_t count,
                                                              uint64_t *ret_masks)
{
	for (size_t n = 0; n < count; n++, p += JSON_WINDOW)
		ret_masks[n] = special_bits_wide(p) | special_bits_wide(p + 32) << 32;
}

#endif

static inline void mark(const char *p, size_t count, uint64_t *ret_masks)
{
#if JSON_AVX2
	if (likely(__builtin_cpu_supports("avx2"))) {
		mark_windows_wide(p, count, ret_masks);
		return;
	}
#endif
	mark_windows(p, count, ret_masks);
}

/* The windows from p on; what is past the end of the text counts as special. */
__attribute__((noinline)) static void fill_windows(struct json_windows *windows, const char *p,
                                                   const char *end)
{
	size_t whole = (size_t)(end - p) / JSON_WINDOW;
	if (whole > JSON_WINDOWS_MAX)
		whole = JSON_WINDOWS_MAX;
	mark(p, whole, windows->masks);
	size_t left = (size_t)(end - p) - whole * JSON_WINDOW;
	if (whole < JSON_WINDOWS_MAX) {
		char bytes[JSON_WINDOW] = { 0 };
		memcpy(bytes, p + whole * JSON_WINDOW, left);
		mark(bytes, 1, &windows->masks[whole++]);
	}
	windows->at = p;
	windows->mask = windows->masks[0];
	windows->next = 1;
	windows->count = (uint32_t)whole;
}

/* From a window that has nothing special at or after p. */
__attribute__((noinline)) static const char *skip_windows(const struct scan *s, const char *p)
{
	struct json_windows *windows = s->windows;
	uint64_t mask;
	do {
		const char *at = windows->at + JSON_WINDOW;
		if (windows->next < windows->count) {
			windows->at = at;
			windows->mask = windows->masks[windows->next++];
		} else {
			fill_windows(windows, p > at ? p : at, s->end);
		}
		if (p < windows->at)
			p = windows->at;
		size_t offset = (size_t)(p - windows->at);
		mask = offset < JSON_WINDOW ? windows->mask >> offset : 0;
	} while (mask == 0);
	return p + __builtin_ctzll(mask);
}

/*
 * The first byte from p on that is a quote, a backslash, a control character or
 * not ASCII; or the end.
 *
 * Strings are short, and where one ends decides where the next begins: a search
 * from p on would make everything wait for load, compare and count, again and
 * again. So special bytes are found ahead of need, 64 at once, and only a shift and
 * a count depend on p (1 KB in 230 ns instead of 350).
 */
hot_inline const char *skip_plain(const struct scan *s, const char *p)
{
	struct json_windows *windows = s->windows;
	size_t offset = (size_t)(p - windows->at);
	uint64_t mask = likely(offset < JSON_WINDOW) ? windows->mask >> offset : 0;
	if (likely(mask))
		return p + __builtin_ctzll(mask);
	/* Once into the next window: any further is rare. */
	if (likely(windows->next < windows->count)) {
		const char *at = windows->at + JSON_WINDOW;
		mask = windows->masks[windows->next++];
		windows->at = at;
		windows->mask = mask;
		offset = p > at ? (size_t)(p - at) : 0;
		mask = likely(offset < JSON_WINDOW) ? mask >> offset : 0;
		if (likely(mask))
			return at + offset + __builtin_ctzll(mask);
	}
	return skip_windows(s, p);
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && is_blank(*p))
		p++;
	return p;
}

__attribute__((noinline)) static const char *skip_blank_run(const char *p, const char *end)
{
	return skip_blanks(p, end);
}

hot_inline bool at_end(const struct scan *s, const struct nest *nest, const char *p)
{
	return nest->careful && p == s->end;
}

hot_inline const char *skip_blank(const struct scan *s, const struct nest *nest, const char *p)
{
	if (at_end(s, nest, p) || likely(*p > ' '))
		return p;
	s->doc->blanks = true;
	p += is_blank(*p); /* often the only one */
	if (at_end(s, nest, p) || likely(*p > ' '))
		return p;
	return skip_blank_run(p, s->end);
}

static const char *skip_unicode_escape(const struct scan *s, const char *p)
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

static const char *skip_escape(struct scan *s, const char *p)
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

/* From a byte that is not plain to the closing quote. Out of line: in most
 * strings the first such byte is that quote. */
__attribute__((noinline)) static const char *finish_string(struct scan *s, const char *p)
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
hot_inline const char *scan_string(struct scan *s, const char *p)
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

static const char *scan_exponent(const struct scan *s, const char *p)
{
	p++;
	if (p < s->end && (*p == '+' || *p == '-'))
		p++;
	if (!is_digit(p, s->end))
		return fail(s, p, "a digit in the exponent");
	return skip_digits(p, s->end);
}

static const char *scan_number(const struct scan *s, const char *p)
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

static const char *scan_literal(const struct scan *s, const char *p, enum json_type *ret_type)
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

hot_inline void keep(const struct scan *s, uint32_t node, enum json_type type, const char *begin,
                     const char *end)
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

hot_inline const char *scan_scalar(struct scan *s, struct nest *nest, const char *p)
{
	enum json_type type = JSON_STRING;
	bool quoted = *p == '"';
	const char *begin = p + quoted;
	if (quoted) {
		p = scan_string(s, begin);
	} else if (*p == '-' || is_digit(p, s->end)) {
		type = JSON_NUMBER;
		p = scan_number(s, p);
	} else {
		p = scan_literal(s, p, &type);
	}
	if (unlikely(!p))
		return NULL;
	if (nest->node) {
		keep(s, nest->node, type, begin, p);
		nest->node = 0;
	}
	return p + quoted;
}

cold_path static uint32_t find_escaped_name(const struct scan *s, const struct json_table *table,
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
hot_inline uint32_t find_name(const struct scan *s, const struct json_table *table,
                              const char *begin, size_t len)
{
	if (unlikely(s->escape_at >= begin))
		return find_escaped_name(s, table, span_of(begin, len));
	return json_plan_find(s->plan, table, begin, len, s->end);
}

cold_path static const char *fail_repeated(const struct scan *s, const char *at)
{
	s->doc->problem.repeated = true;
	return fail(s, at, "this name only once");
}

/* Notes which node the name's value is for; false when it came before. */
hot_inline bool enter_name(const struct scan *s, struct nest *nest, const char *begin,
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

/* Are these the three bytes at p, and is there one more? */
hot_inline bool comes(const struct scan *s, const char *p, const char bytes[static 4])
{
	uint32_t found;
	uint32_t wanted;
	if (unlikely(s->end - p < 4))
		return false;
	memcpy(&found, p, sizeof(found));
	memcpy(&wanted, bytes, sizeof(wanted));
	return ((found ^ wanted) & htole32(0x00FFFFFF)) == 0;
}

/*
 * A name and its colon; p is where the name should begin.
 *
 * Most members are "name":"value", without a blank: those are taken here, one
 * after another, for a comparison of three bytes in the place of all the
 * questions that the grammar has. nest->valued tells that p is after a value.
 */
hot_inline const char *scan_name(struct scan *s, struct nest *nest, const char *p)
{
	for (;;) {
		if (unlikely(at_end(s, nest, p) || *p != '"'))
			return fail(s, p, "a name in quotes");
		const char *begin = p + 1;
		p = scan_string(s, begin);
		if (unlikely(!p))
			return NULL;
		if (unlikely(!enter_name(s, nest, begin, p)))
			return fail_repeated(s, begin - 1);
		if (!comes(s, p, "\":\""))
			break;
		begin = p + 3;
		p = scan_string(s, begin);
		if (unlikely(!p))
			return NULL;
		if (nest->node) {
			keep(s, nest->node, JSON_STRING, begin, p);
			nest->node = 0;
		}
		if (!comes(s, p, "\",\"")) {
			nest->valued = true;
			return p + 1;
		}
		p += 2;
	}
	p = skip_blank(s, nest, p + 1);
	if (unlikely(at_end(s, nest, p) || *p != ':'))
		return fail(s, p, "a colon after a name");
	return p + 1;
}

/* The node of the innermost frame's present element, if one comes. */
hot_inline void enter_element(const struct scan *s, struct nest *nest)
{
	const struct frame *frame = &s->frames[nest->live];
	nest->node = json_plan_element(s->plan, frame->node, frame->index);
}

hot_inline void set_table(const struct scan *s, struct nest *nest)
{
	uint32_t members = s->plan->nodes[s->frames[nest->live].node].members;
	if (members)
		nest->table = &s->plan->tables[members - 1];
}

/* Gives the container at p, whose node is known, a frame if it needs one. */
hot_inline void open_node(struct scan *s, struct nest *nest, const char *p)
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
hot_inline const char *open_container(struct scan *s, struct nest *nest, const char *p)
{
	if (unlikely(nest->depth == JSON_DEPTH_MAX))
		return fail(s, p, "at most 64 containers inside each other");
	nest->objects = nest->objects << 1 | (*p == '{');
	nest->depth++;
	if (nest->node)
		open_node(s, nest, p);
	return skip_blank(s, nest, p + 1);
}

hot_inline bool in_object(const struct nest *nest)
{
	return nest->objects & 1;
}

hot_inline bool closes(const struct nest *nest, char c)
{
	return c == (in_object(nest) ? '}' : ']');
}

cold_path static const char *fail_close(const struct scan *s, const char *p, bool object)
{
	return fail(s, p, object ? "a comma or }" : "a comma or ]");
}

/* Ends the frame of the container that ends before p. */
hot_inline void close_frame(const struct scan *s, struct nest *nest, enum json_type type,
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
hot_inline const char *close_container(const struct scan *s, struct nest *nest, const char *p)
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
hot_inline void next_element(struct scan *s, struct nest *nest)
{
	if (nest->depth == nest->live) {
		s->frames[nest->live].index++;
		enter_element(s, nest);
	}
}

/* After a value: over closing brackets, and over a comma with the name that
 * must follow it in an object. Depth 0 means that the text's value has ended. */
hot_inline const char *scan_after(struct scan *s, struct nest *nest, const char *p)
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
hot_inline const char *scan_value(struct scan *s, struct nest *nest, const char *p)
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
hot_inline const char *scan_text(struct scan *s, const char *p, bool careful)
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
cold_path static const char *scan_careful(struct scan *s, const char *p)
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

/* Scans the value at `begin`; returns where it ends. `end` has no blank before it. */
static const char *scan_from(const char *start, const char *begin, const char *end,
                             struct json_windows *windows, const struct json_plan *plan,
                             struct json_doc *doc)
{
	struct scan s;
	s.start = start;
	s.end = end;
	s.windows = windows;
	s.escape_at = start;
	s.plan = plan;
	s.doc = doc;
	doc->blanks = false;
	doc->seen = (struct json_set){ { 0 } };
	doc->there = (struct json_set){ { 0 } };
	doc->problem.repeated = false;
	bool sure = end - begin >= 2 && is_container(*begin, end[-1]);
	const char *p = likely(sure) ? scan_text(&s, begin, false) : scan_careful(&s, begin);
	if (p)
		doc->root = type_at(begin);
	return p;
}

static const char *trim_end(const char *start, const char *end)
{
	while (end > start && is_blank(end[-1]))
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
	struct json_windows windows;
	fill_windows(&windows, begin, end);
	const char *p = scan_from(start, begin, end, &windows, plan, doc);
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
	fill_windows(&ret_elements->windows, ret_elements->at, ret_elements->end);
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
	if (unlikely(p < elements->windows.at))
		fill_windows(&elements->windows, p, end);
	const char *after = scan_from(elements->start, p, end, &elements->windows, plan, doc);
	if (!after)
		return ERR_INVALID;
	elements->begun = true;
	elements->at = after;
	*ret_element = span_of(p, (size_t)(after - p));
	return 1;
}
