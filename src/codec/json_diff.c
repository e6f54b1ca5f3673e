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

/* The value of the member with this name. Most objects have their members in the same
 * order, so the search begins behind the member that was found last: at `hint`. 1: it is
 * there. */
static int find_member(struct differ *differ, struct span object, struct span *hint,
                       struct span name, struct span *ret_value)
{
	struct span rest = *hint, found;
	for (int turn = 0; turn < 2; turn++, rest = object) {
		while (json_member_next(&rest, &found, ret_value)) {
			if (span_eq(found, name)) {
				*hint = rest;
				return 1;
			}
			differ->searched += found.len + ret_value->len + 1;
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

/* Two passes: what the first has, then what only the second has. */
static int compare_objects(struct differ *differ, struct span first, struct span second,
                           uint32_t depth)
{
	struct span rest = first, hint = second, name, value, other;
	int r = 0;
	while (r >= 0 && json_member_next(&rest, &name, &value)) {
		size_t before = enter(differ, name);
		r = find_member(differ, second, &hint, name, &other);
		bool nested = r == 1 && value.ptr[0] == '{' && other.ptr[0] == '{' &&
		              depth < JSON_DIFF_DEPTH_MAX;
		bool same = false;
		if (r == 0) {
			tell(differ, JSON_MISSING);
		} else if (nested) {
			r = compare_objects(differ, value, other, depth + 1);
		} else if (r == 1) {
			r = is_same(differ, value, other, &same);
			if (r == 0 && !same)
				tell(differ, JSON_CHANGED);
		}
		leave(differ, before);
	}
	rest = second;
	hint = first;
	while (r >= 0 && json_member_next(&rest, &name, &value)) {
		size_t before = enter(differ, name);
		r = find_member(differ, first, &hint, name, &other);
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
