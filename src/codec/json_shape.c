/* json_shape: see json_shape.h. */
#include "codec/json_shape.h"

#include <assert.h>

#if defined(__x86_64__) && !defined(JSON_PORTABLE)
#include <immintrin.h>
#define JSON_SHAPE_WIDE 1
#else
#define JSON_SHAPE_WIDE 0
#endif

#include "codec/json_internal.h"

/* How much was spent in vain. Up to DEBT_FOR_ALL every text is tried, then one in
 * TRIED_MAX; above DEBT_FOR_LESSONS only one in LESSONS_MAX is learnt. */
#define DEBT_MAX 72
#define DEBT_FOR_ALL 64
#define DEBT_FOR_LESSONS 48
#define LESSON_COSTS 16
#define MISS_COSTS 1
#define HIT_GAINS 2
#define TRIED_MAX 16
#define LESSONS_MAX 256

static_assert(JSON_SHAPE_STEPS <= UINT16_MAX, "a step's number has 16 bits");
static_assert(JSON_SHAPE_LENGTH <= UINT8_MAX && JSON_SHAPE_ENDS <= UINT8_MAX, "8 bits");

/* ---- scanning ---- */

/* Are these the bytes at p? */
static inline bool match_words(const struct json_shape_step *step, const char *p, const char *end)
{
	size_t left = (size_t)(end - p);
	size_t len = step->len;
	if (unlikely(left < JSON_SHAPE_BYTES))
		return left >= len && memcmp(p, step->bytes, len) == 0;
	uint64_t differs = 0;
	size_t i = 0;
	for (; i + 8 <= len; i += 8)
		differs |= json_load64(p + i) ^ json_load64(step->bytes + i);
	if (i < len)
		differs |= (json_load64(p + i) ^ json_load64(step->bytes + i)) &
		           json_name_masks[len - i];
	return differs == 0;
}

/* Member by member: a whole one would be put together in memory and read back from there
 * before that has come to rest. */
json_inline void put_value(struct json_value *value, enum json_type type, const char *from,
                           const char *to)
{
	value->type = type;
	value->escaped = false;
	value->text.ptr = from;
	value->text.len = (size_t)(to - from);
}

/* Marks from the first one that was not passed on. As a local variable whose address
 * inlined code alone sees, it lives in registers. */
struct cursor {
	const char *base;
	const uint16_t *at;
	const uint16_t *last;
};

json_inline struct cursor cursor_at(const struct json_marks *marks)
{
	return (struct cursor){
		.base = marks->base,
		.at = marks->places + marks->next,
		.last = marks->places + marks->count,
	};
}

/* Steps may have gone on into the next chunk. */
json_inline void leave_cursor(const struct cursor *cursor, struct json_marks *marks)
{
	bool within = cursor->at < cursor->last;
	marks->next = within ? (uint32_t)(cursor->at - marks->places) : marks->count;
}

/* One text on its way along the steps. */
struct walk {
	struct json_scanner *s;
	struct json_set lacking;
	uint32_t count;
	const char *places[JSON_SHAPE_NOTED];
};

/* The first mark from p on, when the chunk has no more. */
__attribute__((noinline)) static const char *find_mark(const struct json_scanner *s, const char *p)
{
	const char *found = json_find_mark(s, p);
	s->marks->next--;
	return found;
}

/* There is more than plain bytes in the string from `begin` on, which seemed to end at p:
 * its real end, or NULL. */
__attribute__((noinline)) static const char *finish_value(struct walk *walk, uint32_t node,
                                                          const char *begin, const char *p)
{
	struct json_scanner *s = walk->s;
	s->marks->next++;
	p = json_finish_string(s, p);
	if (!p)
		return NULL;
	s->marks->next--;
	if (node) {
		struct json_value *value = &s->doc->values[node];
		put_value(value, JSON_STRING, begin, p);
		value->escaped = s->escape_at >= begin;
		walk->lacking.words[node / 64] &= ~(UINT64_C(1) << node % 64);
	}
	return p;
}

/* The string at p, up to the first byte that is not plain: its closing quote, most often,
 * which the next step begins with. */
json_inline const char *take_string(struct walk *walk, const struct json_shape_step *step,
                                    const char *p, const char *end)
{
	if (step->node) {
		put_value(&walk->s->doc->values[step->node], JSON_STRING, p, end);
		if (unlikely(p == end))
			json_set_put(&walk->lacking, step->node);
	}
	return end;
}

/* The number or word at p, or NULL. */
json_inline const char *find_bare_end(const struct json_scanner *s, const char *p,
                                      enum json_type *ret_type)
{
	const char *end = NULL;
	if (s->end - p >= (ptrdiff_t)JSON_MARKS_BEHIND)
		end = json_scan_short(p, ret_type);
	if (!end && p < s->end)
		end = json_scan_bare(s, p, ret_type);
	return unlikely(end && *ret_type == JSON_ARRAY) ? NULL : end;
}

json_inline const char *take_bare(struct walk *walk, const struct json_shape_step *step,
                                  const char *p)
{
	enum json_type type = JSON_NONE;
	const char *end = find_bare_end(walk->s, p, &type);
	if (end && step->node) {
		put_value(&walk->s->doc->values[step->node], type, p, end);
		if (type == JSON_NULL)
			json_set_put(&walk->lacking, step->node);
	}
	return end;
}

/* What comes after the step at p, up to the next one. NULL: something else does. */
json_inline const char *take_value(struct walk *walk, struct cursor *cursor,
                                   const struct json_shape_step *step, const char *p)
{
	const char *value = p + step->len;
	const char *end = value;
	if (step->kind == JSON_SHAPE_BARE) {
		end = take_bare(walk, step, value);
		if (unlikely(!end))
			return NULL;
	}
	cursor->at += step->marks;
	if (step->noted) {
		CHECK(walk->count < JSON_SHAPE_NOTED);
		walk->places[walk->count++] = p;
	}
	if (step->kind != JSON_SHAPE_STRING)
		return end;
	if (likely(cursor->at < cursor->last))
		return take_string(walk, step, value, cursor->base + *cursor->at);
	walk->s->marks->next = walk->s->marks->count;
	end = find_mark(walk->s, value);
	*cursor = cursor_at(walk->s->marks);
	return take_string(walk, step, value, end);
}

static const char *place_of(const struct walk *walk, struct json_shape_place place)
{
	return walk->places[place.step] + place.offset;
}

/* All values but the containers were put. */
static void end_walk(const struct walk *walk, const struct json_shape_end *end)
{
	struct json_doc *doc = walk->s->doc;
	doc->blanks = end->blanks;
	for (int i = 0; i < JSON_SET_WORDS; i++) {
		doc->seen.words[i] = end->seen.words[i];
		doc->there.words[i] = end->there.words[i] & ~walk->lacking.words[i];
	}
	for (uint32_t i = 0; i < end->container_count; i++) {
		const struct json_shape_container *it = &end->containers[i];
		put_value(&doc->values[it->node], (enum json_type)it->type,
		          place_of(walk, it->from), place_of(walk, it->last) + 1);
	}
}

typedef bool match_step(const struct json_shape_step *step, const char *p, const char *end);

/* The values of a text, from one step to the next. What decides about the way is always
 * a branch, and the marks say where strings end: so no step waits for the one before. */
json_inline const char *walk_steps(const struct json_shapes *shapes, uint32_t first,
                                   struct json_scanner *s, const char *p, match_step *matches)
{
	struct walk walk;
	struct cursor cursor = cursor_at(s->marks);
	const struct json_shape_step *none = shapes->steps;
	const struct json_shape_step *before = none; /* if a string came after it … */
	const char *begin = p;                       /* … that began here */
	const struct json_shape_step *step = &shapes->steps[first];
	walk.s = s;
	walk.lacking = (struct json_set){ { 0 } };
	walk.count = 0;
	while (cursor.at < cursor.last && cursor.base + *cursor.at < p)
		cursor.at++;
	while (step != none) {
		if (likely(matches(step, p, s->end))) {
			if (likely(step->quick && cursor.at + step->marks < cursor.last)) {
				begin = p + step->len;
				cursor.at += step->marks;
				p = take_string(&walk, step, begin, cursor.base + *cursor.at);
				before = step++;
				continue;
			}
			const char *after = take_value(&walk, &cursor, step, p);
			if (unlikely(!after)) {
				step = &shapes->steps[step->other];
				continue;
			}
			begin = p + step->len;
			p = after;
			if (step->kind == JSON_SHAPE_END) {
				leave_cursor(&cursor, s->marks);
				end_walk(&walk, &shapes->ends[step->end]);
				return p;
			}
			before = step->kind == JSON_SHAPE_STRING ? step : none;
			step = &shapes->steps[step->next];
		} else if (before != none && p < s->end && *p != '"') {
			leave_cursor(&cursor, s->marks);
			p = finish_value(&walk, before->node, begin, p);
			if (!p)
				return NULL;
			cursor = cursor_at(s->marks);
			before = none;
		} else {
			step = &shapes->steps[step->other];
		}
	}
	return NULL;
}

__attribute__((noinline)) static const char *walk_base(const struct json_shapes *shapes,
                                                       uint32_t first, struct json_scanner *s,
                                                       const char *p)
{
	return walk_steps(shapes, first, s, p, match_words);
}

#if JSON_SHAPE_WIDE

#define AVX512 __attribute__((target("avx2,bmi,popcnt,avx512f,avx512bw")))

/* No byte is read but those that are compared. */
AVX512 static inline bool match_wide(const struct json_shape_step *step, const char *p,
                                     const char *end)
{
	if (unlikely(end - p < JSON_SHAPE_BYTES))
		return end - p >= step->len && memcmp(p, step->bytes, step->len) == 0;
	__m512i bytes = _mm512_loadu_si512(p);
	return (_mm512_cmpneq_epi8_mask(bytes, _mm512_loadu_si512(step->bytes)) & step->mask) == 0;
}

__attribute__((noinline)) AVX512 static const char *walk_wide(const struct json_shapes *shapes,
                                                              uint32_t first,
                                                              struct json_scanner *s, const char *p)
{
	return walk_steps(shapes, first, s, p, match_wide);
}

#endif

static const char *walk(const struct json_shapes *shapes, uint32_t first, struct json_scanner *s,
                        const char *p)
{
#if JSON_SHAPE_WIDE
	if (json_level() == JSON_LEVEL_AVX512)
		return walk_wide(shapes, first, s, p);
#endif
	return walk_base(shapes, first, s, p);
}

/* The plan's first step; its place, or NULL. */
static uint16_t *find_plan(struct json_shapes *shapes, const struct json_plan *plan)
{
	for (uint32_t i = 0; i < JSON_SHAPE_PLANS; i++)
		if (shapes->serials[i] == plan->serial)
			return &shapes->firsts[i];
	return NULL;
}

static void spend(struct json_shapes *shapes, uint32_t cost)
{
	shapes->debt = shapes->debt + cost > DEBT_MAX ? DEBT_MAX : shapes->debt + cost;
}

/* Is it worth a try? */
static inline bool is_tried(struct json_shapes *shapes)
{
	return likely(shapes->debt <= DEBT_FOR_ALL) || ++shapes->untried % TRIED_MAX == 0;
}

const char *json_shapes_scan(struct json_shapes *shapes, struct json_scanner *s, const char *p)
{
	const uint16_t *first = s->plan ? find_plan(shapes, s->plan) : NULL;
	if (!first || *first == 0 || !is_tried(shapes))
		return NULL;
	const char *base = s->marks->base;
	uint32_t next = s->marks->next;
	const char *after = walk(shapes, *first, s, p);
	if (likely(after)) {
		shapes->debt -= shapes->debt < HIT_GAINS ? shapes->debt : HIT_GAINS;
		return after;
	}
	spend(shapes, MISS_COSTS);
	/* As it was, for who scans it now. */
	s->escape_at = s->start;
	if (s->marks->base == base)
		s->marks->next = next;
	else
		json_marks_fill(s->marks, p, s->end);
	return NULL;
}

/* ---- learning ---- */

/* A text that becomes a shape. */
struct lesson {
	struct json_shapes *shapes;
	const struct json_scanner *s;
	uint32_t last;        /* the last step, or 0 */
	uint16_t *link;       /* what leads to the next one */
	const char *from;     /* where that begins */
	uint32_t count;       /* steps so far … */
	uint32_t noted_count; /* … and those that are noted */
	bool noted;           /* the next one will be */
	bool failed;
	bool full; /* … since there was no room */
	struct json_shape_end end;
};

static bool is_marked(char c)
{
	return (signed char)c < 0x20 || c == '"' || c == '\\';
}

static bool is_same(const struct json_shape_step *a, const struct json_shape_step *b)
{
	return a->len == b->len && a->kind == b->kind && a->node == b->node &&
	       a->noted == b->noted && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Goes to the step, which is made if it is not there. */
static void add_step(struct lesson *lesson, const struct json_shape_step *step)
{
	struct json_shapes *shapes = lesson->shapes;
	uint32_t others = 0;
	while (*lesson->link && !is_same(&shapes->steps[*lesson->link], step)) {
		lesson->link = &shapes->steps[*lesson->link].other;
		others++;
	}
	if (*lesson->link == 0) {
		lesson->full = shapes->step_count == JSON_SHAPE_STEPS - 1;
		lesson->failed = lesson->full || others >= JSON_SHAPE_OTHERS;
		if (lesson->failed)
			return;
		uint32_t number = ++shapes->step_count;
		shapes->steps[number] = *step;
		*lesson->link = (uint16_t)number;
		struct json_shape_step *last = &shapes->steps[lesson->last];
		last->quick |= last->kind == JSON_SHAPE_STRING && !last->noted &&
		               last->next == lesson->last + 1;
	}
	lesson->count++;
	lesson->last = *lesson->link;
	lesson->link = &shapes->steps[lesson->last].next;
}

static void add_bytes(struct lesson *lesson, size_t len, enum json_shape_next kind, uint32_t node)
{
	struct json_shape_step step = {
		.mask = ~UINT64_C(0) >> (JSON_SHAPE_BYTES - len),
		.len = (uint8_t)len,
		.kind = (uint8_t)kind,
		.node = (uint8_t)node,
		.noted = lesson->noted,
	};
	memcpy(step.bytes, lesson->from, len);
	for (size_t i = 0; i < len; i++)
		step.marks = (uint8_t)(step.marks + is_marked(step.bytes[i]));
	lesson->noted_count += lesson->noted;
	if (lesson->count == JSON_SHAPE_LENGTH || lesson->noted_count > JSON_SHAPE_NOTED)
		lesson->failed = true;
	if (kind == JSON_SHAPE_END)
		step.end = (uint8_t)lesson->shapes->end_count;
	if (!lesson->failed)
		add_step(lesson, &step);
	lesson->from += len;
}

/* All up to `to`, in as many steps as it takes. */
static void add_steps(struct lesson *lesson, const char *to, enum json_shape_next kind,
                      uint32_t node)
{
	while (to - lesson->from > JSON_SHAPE_BYTES && !lesson->failed)
		add_bytes(lesson, JSON_SHAPE_BYTES, JSON_SHAPE_MORE, 0);
	if (!lesson->failed)
		add_bytes(lesson, (size_t)(to - lesson->from), kind, node);
	lesson->noted = false;
}

/* The wanted node whose value begins at p, or 0. */
static uint32_t node_at(const struct lesson *lesson, const char *p)
{
	const struct json_scanner *s = lesson->s;
	for (uint32_t i = JSON_ROOT; i < s->plan->node_count; i++)
		if (s->plan->nodes[i].wanted && json_set_has(&s->doc->seen, i) &&
		    s->doc->values[i].text.ptr == p)
			return i;
	return 0;
}

/* Of a byte that belongs to the next step. Long ones are cut, and all of them noted. */
static struct json_shape_place note_place(struct lesson *lesson, const char *p)
{
	size_t offset = (size_t)(p - lesson->from);
	lesson->noted = true;
	return (struct json_shape_place){
		.step = (uint8_t)(lesson->noted_count + offset / JSON_SHAPE_BYTES),
		.offset = (uint8_t)(offset % JSON_SHAPE_BYTES),
	};
}

static void begin_container(struct lesson *lesson, const char *p)
{
	struct json_shape_end *end = &lesson->end;
	uint32_t node = node_at(lesson, p);
	if (node == 0)
		return;
	if (end->container_count == JSON_SHAPE_CONTAINERS) {
		lesson->failed = true;
		return;
	}
	end->containers[end->container_count++] = (struct json_shape_container){
		.node = (uint8_t)node,
		.type = *p == '{' ? JSON_OBJECT : JSON_ARRAY,
		.from = note_place(lesson, p),
	};
}

static void end_container(struct lesson *lesson, const char *p)
{
	struct json_shape_end *end = &lesson->end;
	for (uint32_t i = 0; i < end->container_count; i++) {
		struct json_shape_container *it = &end->containers[i];
		struct span text = lesson->s->doc->values[it->node].text;
		if (text.ptr + text.len == p + 1)
			it->last = note_place(lesson, p);
	}
}

/* The closing quote of the string that begins at p. */
static const char *closing_quote(const char *p)
{
	while (*p != '"')
		p += *p == '\\' ? 2 : 1;
	return p;
}

/* The string whose quote is at p: a name belongs to the step, a value ends it. */
static const char *learn_string(struct lesson *lesson, const char *p)
{
	const char *quote = closing_quote(p + 1);
	const char *after = quote + 1;
	while (json_is_blank(*after))
		after++;
	if (*after == ':')
		return quote + 1;
	add_steps(lesson, p + 1, JSON_SHAPE_STRING, node_at(lesson, p + 1));
	lesson->from = quote;
	return quote + 1;
}

static bool ends_bare(char c)
{
	return c == ',' || c == ']' || c == '}' || json_is_blank(c);
}

static const char *learn_bare(struct lesson *lesson, const char *p)
{
	add_steps(lesson, p, JSON_SHAPE_BARE, node_at(lesson, p));
	while (!ends_bare(*p))
		p++;
	lesson->from = p;
	return p;
}

/* One token of a text that is known to be sound. */
static const char *learn_token(struct lesson *lesson, const char *p)
{
	switch (*p) {
	case '"': return learn_string(lesson, p);
	case '{':
	case '[': begin_container(lesson, p); return p + 1;
	case '}':
	case ']': end_container(lesson, p); return p + 1;
	case ':':
	case ',':
	case ' ':
	case '\n':
	case '\r':
	case '\t': return p + 1;
	default: return learn_bare(lesson, p);
	}
}

static void forget_all(struct json_shapes *shapes)
{
	memset(shapes->serials, 0, sizeof(shapes->serials));
	memset(shapes->firsts, 0, sizeof(shapes->firsts));
	shapes->step_count = 0;
	shapes->end_count = 0;
}

static void end_lesson(struct lesson *lesson, const char *end)
{
	struct json_shapes *shapes = lesson->shapes;
	const struct json_doc *doc = lesson->s->doc;
	lesson->full |= shapes->end_count == JSON_SHAPE_ENDS;
	if (!lesson->failed && !lesson->full)
		add_steps(lesson, end, JSON_SHAPE_END, 0);
	if (lesson->full)
		forget_all(shapes);
	if (lesson->failed || lesson->full)
		return;
	lesson->end.blanks = doc->blanks;
	lesson->end.seen = doc->seen;
	for (uint32_t i = JSON_ROOT; i < lesson->s->plan->node_count; i++)
		if (lesson->s->plan->nodes[i].wanted && json_set_has(&doc->seen, i))
			json_set_put(&lesson->end.there, i);
	shapes->ends[shapes->end_count++] = lesson->end;
}

static uint16_t *add_plan(struct json_shapes *shapes, const struct json_plan *plan)
{
	uint32_t place = shapes->plan_next++ % JSON_SHAPE_PLANS;
	shapes->serials[place] = plan->serial;
	shapes->firsts[place] = 0;
	return &shapes->firsts[place];
}

void json_shapes_learn(struct json_shapes *shapes, const struct json_scanner *s, const char *p,
                       const char *end)
{
	if (!s->plan || s->plan->serial == 0 || *p != '{')
		return;
	if (shapes->debt > DEBT_FOR_LESSONS && ++shapes->unlearnt % LESSONS_MAX != 0)
		return;
	spend(shapes, LESSON_COSTS);
	uint16_t *first = find_plan(shapes, s->plan);
	struct lesson lesson = {
		.shapes = shapes,
		.s = s,
		.link = first ? first : add_plan(shapes, s->plan),
		.from = p,
	};
	while (p < end && !lesson.failed)
		p = learn_token(&lesson, p);
	end_lesson(&lesson, end);
}
