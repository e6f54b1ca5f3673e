/* why_difference: what two events of one key differ in. See why.h. */
#include "codec/json_diff.h"
#include "codec/json_write.h"
#include "console/why/why.h"

static void list(void *user, struct span path, enum json_change change)
{
	static const char *const names[] = {
		[JSON_CHANGED] = "changed",
		[JSON_ADDED] = "added",
		[JSON_MISSING] = "missing",
	};
	struct buf *paths = user;
	json_object_begin(paths, NULL);
	json_add_text(paths, "path", path);
	json_add_string(paths, "change", names[change]);
	json_object_end(paths);
}

/* How many members differ, and those that fit in `paths`; negative: that cannot be told. */
static int compare(const struct why_context *context, const struct trace *trace, struct buf *paths)
{
	struct buf first = { 0 }, second = { 0 };
	int r = context->read(context->read_user, trace->original, &first);
	if (r == 0)
		r = context->read(context->read_user, trace->ticket, &second);
	if (r == 0)
		r = json_diff(buf_span(&first), buf_span(&second), WHY_PATHS_MAX, list, paths);
	buf_free(&first);
	buf_free(&second);
	return r;
}

void why_difference(const struct why_context *context, const struct trace *trace, struct buf *out)
{
	struct buf paths = { .cap = out->cap };
	if (!context->read || trace->verdict != VERDICT_CONFLICT || trace->ticket == 0)
		return;
	int count = compare(context, trace, &paths);
	if (count >= 0 && !paths.failed) {
		json_add_u64(out, "differences", (uint64_t)count);
		json_array_begin(out, "difference");
		json_add_raw(out, NULL, buf_span(&paths));
		json_array_end(out);
	}
	buf_free(&paths);
}
