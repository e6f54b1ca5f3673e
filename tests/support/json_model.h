/*
 * json_model: JSON by recursive descent, a byte at a time: slow and obvious. The
 * scanner must agree with it on every text, in unit tests and under the fuzzer.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "codec/json.h"

#define MODEL_PATHS_MAX 16

/* Where the model stands: a name or an index. */
struct model_step {
	bool named;
	size_t len;
	char name[256];
	uint32_t index;
};

struct json_model {
	const unsigned char *p;
	const unsigned char *end;
	int depth;
	const struct json_path *paths;
	size_t path_count;
	enum json_type root;
	bool repeated; /* a name on a wanted path came twice */
	struct model_step steps[JSON_DEPTH_MAX + 1];
	struct json_value values[MODEL_PATHS_MAX];
};

static bool model_value(struct json_model *m, struct json_value *ret_value);

static inline int model_peek(const struct json_model *m)
{
	return m->p < m->end ? *m->p : -1;
}

static inline bool model_eat(struct json_model *m, int c)
{
	if (model_peek(m) != c)
		return false;
	m->p++;
	return true;
}

static inline void model_blank(struct json_model *m)
{
	while (model_peek(m) == ' ' || model_peek(m) == '\t' || model_peek(m) == '\n' ||
	       model_peek(m) == '\r')
		m->p++;
}

static inline bool model_word(struct json_model *m, const char *word)
{
	while (*word)
		if (!model_eat(m, *word++))
			return false;
	return true;
}

/* Appends a code point to `out` if there is room; `len` counts all bytes. */
static inline void model_put(char *out, size_t room, size_t *len, uint32_t c)
{
	unsigned char u[4];
	size_t n;
	if (c < 0x80) {
		n = 1;
		u[0] = (unsigned char)c;
	} else if (c < 0x800) {
		n = 2;
		u[0] = (unsigned char)(0xC0 + c / 64);
		u[1] = (unsigned char)(0x80 + c % 64);
	} else if (c < 0x10000) {
		n = 3;
		u[0] = (unsigned char)(0xE0 + c / 4096);
		u[1] = (unsigned char)(0x80 + c / 64 % 64);
		u[2] = (unsigned char)(0x80 + c % 64);
	} else {
		n = 4;
		u[0] = (unsigned char)(0xF0 + c / 262144);
		u[1] = (unsigned char)(0x80 + c / 4096 % 64);
		u[2] = (unsigned char)(0x80 + c / 64 % 64);
		u[3] = (unsigned char)(0x80 + c % 64);
	}
	for (size_t i = 0; i < n; i++, (*len)++)
		if (*len < room)
			out[*len] = (char)u[i];
}

static inline bool model_hex4(struct json_model *m, uint32_t *ret_unit)
{
	uint32_t unit = 0;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *at = model_peek(m) > 0 ? strchr(digits, model_peek(m)) : NULL;
		if (!at)
			return false;
		unit = unit * 16 + (uint32_t)((at - digits) % 16);
		m->p++;
	}
	*ret_unit = unit;
	return true;
}

static inline bool model_escape(struct json_model *m, uint32_t *ret_c)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *at = model_peek(m) > 0 ? strchr(from, model_peek(m)) : NULL;
	if (at) {
		*ret_c = (unsigned char)to[at - from];
		m->p++;
		return true;
	}
	uint32_t high;
	uint32_t low;
	if (!model_eat(m, 'u') || !model_hex4(m, &high) || high / 1024 == 0xDC00 / 1024)
		return false;
	*ret_c = high;
	if (high / 1024 != 0xD800 / 1024)
		return true;
	if (!model_eat(m, '\\') || !model_eat(m, 'u') || !model_hex4(m, &low) ||
	    low / 1024 != 0xDC00 / 1024)
		return false;
	*ret_c = 0x10000 + (high % 1024) * 1024 + low % 1024;
	return true;
}

/* Decodes whatever it is and judges the number, not the bytes. */
static inline bool model_utf8(struct json_model *m, uint32_t *ret_c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned lead = *m->p++;
	unsigned n = lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 0;
	if (n == 0)
		return false;
	uint32_t c = lead & (0x7Fu >> n);
	for (unsigned i = 1; i < n; i++) {
		if (model_peek(m) < 0x80 || model_peek(m) > 0xBF)
			return false;
		c = c * 64 + (*m->p++ & 63u);
	}
	*ret_c = c;
	return c >= least[n] && c <= 0x10FFFF && c / 2048 != 0xD800 / 2048;
}

/* A string in quotes; its value goes to out. */
static inline bool model_string(struct json_model *m, char *out, size_t room, size_t *ret_len)
{
	*ret_len = 0;
	if (!model_eat(m, '"'))
		return false;
	while (!model_eat(m, '"')) {
		uint32_t c = 0;
		int byte = model_peek(m);
		if (byte < 0x20)
			return false;
		if (byte >= 0x80) {
			if (!model_utf8(m, &c))
				return false;
		} else {
			c = *m->p++;
			if (c == '\\' && !model_escape(m, &c))
				return false;
		}
		model_put(out, room, ret_len, c);
	}
	return true;
}

static inline bool model_digits(struct json_model *m)
{
	const unsigned char *begin = m->p;
	while (model_peek(m) >= '0' && model_peek(m) <= '9')
		m->p++;
	return m->p > begin;
}

static inline bool model_number(struct json_model *m)
{
	model_eat(m, '-');
	if (!model_eat(m, '0') && !model_digits(m))
		return false;
	if (model_eat(m, '.') && !model_digits(m))
		return false;
	if (model_eat(m, 'e') || model_eat(m, 'E')) {
		if (!model_eat(m, '+'))
			model_eat(m, '-');
		return model_digits(m);
	}
	return true;
}

static inline bool model_is_step(const struct model_step *at, const struct json_step *step)
{
	if (at->named != (step->kind == JSON_STEP_NAME))
		return false;
	if (!at->named)
		return step->kind == JSON_STEP_INDEX && at->index == step->index;
	return at->len == step->len && memcmp(at->name, step->name, step->len) == 0;
}

/* Do the first `count` steps of the path lead to where the model stands? */
static inline bool model_leads(const struct json_model *m, const struct json_path *path,
                               uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!model_is_step(&m->steps[i], &path->steps[i]))
			return false;
	return true;
}

static inline void model_keep(struct json_model *m, const struct json_value *value)
{
	for (size_t i = 0; i < m->path_count; i++)
		if (m->paths[i].count == (uint32_t)m->depth &&
		    model_leads(m, &m->paths[i], m->paths[i].count))
			m->values[i] = *value;
}

/* `used` has a bit for each path whose next name was met in this object. */
static inline void model_note_name(struct json_model *m, uint32_t *used)
{
	for (size_t i = 0; i < m->path_count; i++) {
		if (m->paths[i].count < (uint32_t)m->depth ||
		    !model_leads(m, &m->paths[i], (uint32_t)m->depth))
			continue;
		m->repeated |= *used >> i & 1;
		*used |= 1u << i;
	}
}

static inline bool model_member(struct json_model *m, uint32_t *used)
{
	struct model_step *step = &m->steps[m->depth - 1];
	struct json_value value;
	model_blank(m);
	step->named = true;
	if (!model_string(m, step->name, sizeof(step->name), &step->len))
		return false;
	model_note_name(m, used);
	model_blank(m);
	return model_eat(m, ':') && model_value(m, &value);
}

static inline bool model_element(struct json_model *m, uint32_t index)
{
	struct json_value value;
	m->steps[m->depth - 1].named = false;
	m->steps[m->depth - 1].index = index;
	return model_value(m, &value);
}

static inline bool model_container(struct json_model *m, bool object)
{
	uint32_t used = 0;
	uint32_t index = 0;
	m->p++;
	if (++m->depth > JSON_DEPTH_MAX)
		return false;
	model_blank(m);
	bool ended = model_eat(m, object ? '}' : ']');
	while (!ended) {
		if (object ? !model_member(m, &used) : !model_element(m, index++))
			return false;
		model_blank(m);
		ended = model_eat(m, object ? '}' : ']');
		if (!ended && !model_eat(m, ','))
			return false;
	}
	m->depth--;
	return true;
}

static inline enum json_type model_type(int c)
{
	switch (c) {
	case '{': return JSON_OBJECT;
	case '[': return JSON_ARRAY;
	case '"': return JSON_STRING;
	case 't': return JSON_TRUE;
	case 'f': return JSON_FALSE;
	case 'n': return JSON_NULL;
	default: return JSON_NUMBER;
	}
}

static inline bool model_scan(struct json_model *m, enum json_type type)
{
	size_t len;
	switch (type) {
	case JSON_OBJECT: return model_container(m, true);
	case JSON_ARRAY: return model_container(m, false);
	case JSON_STRING: return model_string(m, NULL, 0, &len);
	case JSON_TRUE: return model_word(m, "true");
	case JSON_FALSE: return model_word(m, "false");
	case JSON_NULL: return model_word(m, "null");
	default: return model_number(m);
	}
}

static inline bool model_value(struct json_model *m, struct json_value *ret_value)
{
	model_blank(m);
	enum json_type type = model_type(model_peek(m));
	const unsigned char *begin = m->p;
	if (m->depth == 0)
		m->root = type;
	if (!model_scan(m, type))
		return false;
	bool quoted = type == JSON_STRING;
	size_t len = (size_t)(m->p - begin) - (quoted ? 2 : 0);
	*ret_value = (struct json_value){
		.type = type,
		.escaped = quoted && memchr(begin, '\\', len + 1),
		.text = span_of(begin + quoted, len),
	};
	model_keep(m, ret_value);
	return true;
}

/* True when the text is JSON and no name on a path repeats; then root and values
 * are set. */
static inline bool json_model_run(struct json_model *m, struct span text,
                                  const struct json_path *paths, size_t count)
{
	static const unsigned char nothing[1];
	struct json_value value;
	memset(m, 0, sizeof(*m));
	m->p = text.len ? (const unsigned char *)text.ptr : nothing;
	m->end = m->p + text.len;
	m->paths = paths;
	m->path_count = count;
	if (!model_value(m, &value))
		return false;
	model_blank(m);
	return m->p == m->end && !m->repeated;
}
