/* json_diff: see json_diff.h. */
#include "codec/json_diff.h"

#include "base/error.h"
#include "base/mem.h"
#include "codec/jcs.h"
#include "codec/json.h"

/* Bytes that may be looked at in search of members. */
#define SEARCH_MAX (64u << 20)

struct differ {
	void (*each)(void *user, struct span path, enum json_change change);
	void *user;
	uint32_t max;
	uint32_t count;
	uint64_t searched;
	struct buf path;
	struct buf values[2]; /* canonical */
	struct buf sorting;
};

/* A member of an object that json_scan() has accepted. */
struct member {
	struct span name; /* between its quotes, as written */
	struct span value;
};

static const char *skip_blanks(const char *p)
{
	while (json_is_blank(*p))
		p++;
	return p;
}

/* Behind the string whose opening quote stands at `p`. */
static const char *skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
		p += *p == '\\';
	return p + 1;
}

/* Behind the value at `p`. */
static const char *skip_value(const char *p)
{
	uint32_t depth = 0;
	do {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	} while (depth > 0);
	return p;
}

static bool ends_scalar(char c)
{
	return json_is_blank(c) || c == ',' || c == '}';
}

static const char *skip_member_value(const char *p)
{
	if (*p == '"' || *p == '{' || *p == '[')
		return skip_value(p);
	while (!ends_scalar(*p))
		p++;
	return p;
}

/* The member at *at, which stands behind a brace or a comma; false at the end. */
static bool next_member(const char **at, struct member *ret_member)
{
	const char *p = skip_blanks(*at);
	if (*p == '}')
		return false;
	const char *name_end = skip_string(p);
	ret_member->name = span_of(p + 1, (size_t)(name_end - p) - 2);
	p = skip_blanks(skip_blanks(name_end) + 1); /* the colon */
	const char *value_end = skip_member_value(p);
	ret_member->value = span_of(p, (size_t)(value_end - p));
	p = skip_blanks(value_end);
	*at = p + (*p == ',');
	return true;
}

/* Most have their members in the same order: so the search begins behind the member
 * that was found last. 1: it is there. */
static int find_member(struct differ *differ, struct span object, const char **hint,
                       struct span name, struct span *ret_value)
{
	struct member member;
	const char *at = *hint;
	for (int turn = 0; turn < 2; turn++, at = object.ptr + 1) {
		while (next_member(&at, &member)) {
			if (span_eq(member.name, name)) {
				*ret_value = member.value;
				*hint = at;
				return 1;
			}
			differ->searched += member.name.len + member.value.len + 1;
			if (differ->searched > SEARCH_MAX)
				return ERR_TOO_LARGE;
		}
	}
	return 0;
}

static int is_same(struct differ *differ, struct span first, struct span second, bool *ret_same)
{
	static const struct jcs_options exact = { .exact = true };
	struct span texts[2] = { first, second };
	struct json_problem problem;
	for (int i = 0; i < 2; i++) {
		buf_clear(&differ->values[i]);
		int r = jcs_write(texts[i], &exact, &differ->values[i], &differ->sorting, &problem);
		if (r == -ENOMEM)
			return r;
		if (r < 0) { /* a name twice: it has no canonical form */
			*ret_same = span_eq(first, second);
			return 0;
		}
	}
	*ret_same = span_eq(buf_span(&differ->values[0]), buf_span(&differ->values[1]));
	return 0;
}

static void tell(struct differ *differ, enum json_change change)
{
	if (differ->count++ < differ->max)
		differ->each(differ->user, buf_span(&differ->path), change);
}

/* Returns how long the path was. */
static size_t enter(struct differ *differ, struct span name)
{
	size_t before = differ->path.len;
	if (before > 0)
		buf_append_char(&differ->path, '.');
	size_t room = JSON_DIFF_PATH_MAX - differ->path.len, len = 0;
	if (json_decode(name, differ->path.ptr + differ->path.len, room, &len) == 0)
		differ->path.len += len;
	else
		buf_append(&differ->path, name.ptr, name.len < room ? name.len : room);
	return before;
}

static void leave(struct differ *differ, size_t before)
{
	differ->path.len = before;
	differ->path.failed = 0;
}

static int compare_objects(struct differ *differ, struct span first, struct span second,
                           uint32_t depth);

static int compare_values(struct differ *differ, struct span first, struct span second,
                          uint32_t depth)
{
	bool same = false;
	if (first.ptr[0] == '{' && second.ptr[0] == '{' && depth < JSON_DIFF_DEPTH_MAX)
		return compare_objects(differ, first, second, depth + 1);
	int r = is_same(differ, first, second, &same);
	if (r == 0 && !same)
		tell(differ, JSON_CHANGED);
	return r;
}

/* Two passes: what the first has, then what only the second has. */
static int compare_objects(struct differ *differ, struct span first, struct span second,
                           uint32_t depth)
{
	const char *at = first.ptr + 1, *hint = second.ptr + 1;
	struct member member;
	struct span other;
	int r = 0;
	while (r >= 0 && next_member(&at, &member)) {
		size_t before = enter(differ, member.name);
		r = find_member(differ, second, &hint, member.name, &other);
		if (r == 1)
			r = compare_values(differ, member.value, other, depth);
		else if (r == 0)
			tell(differ, JSON_MISSING);
		leave(differ, before);
	}
	at = second.ptr + 1;
	hint = first.ptr + 1;
	while (r >= 0 && next_member(&at, &member)) {
		size_t before = enter(differ, member.name);
		r = find_member(differ, first, &hint, member.name, &other);
		if (r == 0)
			tell(differ, JSON_ADDED);
		leave(differ, before);
	}
	return r < 0 ? r : 0;
}

static int accept(struct span *text)
{
	struct json_doc *doc = mem_alloc(sizeof(*doc));
	if (!doc)
		return -ENOMEM;
	int r = json_scan(*text, NULL, doc);
	if (r == 0 && doc->root != JSON_OBJECT)
		r = ERR_INVALID;
	mem_free(doc);
	while (r == 0 && json_is_blank(text->ptr[0]))
		*text = span_skip(*text, 1);
	return r;
}

int json_diff(struct span first, struct span second, uint32_t max,
              void (*each)(void *user, struct span path, enum json_change change), void *user)
{
	char path[JSON_DIFF_PATH_MAX];
	struct differ differ = {
		.each = each, .user = user, .max = max, .path = buf_on(path, sizeof(path))
	};
	int r = accept(&first);
	if (r == 0)
		r = accept(&second);
	if (r == 0)
		r = compare_objects(&differ, first, second, 0);
	buf_free(&differ.values[0]);
	buf_free(&differ.values[1]);
	buf_free(&differ.sorting);
	return r < 0 ? r : (int)differ.count;
}
