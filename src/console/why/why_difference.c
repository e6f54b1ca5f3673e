/* why_difference: what two events of one key differ in. See why.h. */
#include "codec/json_diff.h"
#include "console/why/why.h"

struct listing {
	struct buf *out;
	enum why_form form;
	uint32_t count;
};

static const char *change_name(enum json_change change)
{
	static const char *const names[] = {
		[JSON_CHANGED] = "changed",
		[JSON_ADDED] = "added",
		[JSON_MISSING] = "missing",
	};
	return names[change];
}

static void list_json(struct listing *listing, struct span path, enum json_change change)
{
	buf_append_span(listing->out, listing->count++ > 0 ? SPAN(",") : SPAN_EMPTY);
	buf_append_span(listing->out, SPAN("{\"path\":"));
	buf_append_json(listing->out, path);
	buf_printf(listing->out, ",\"change\":\"%s\"}", change_name(change));
}

static void list_text(struct listing *listing, struct span path, enum json_change change)
{
	buf_append_span(listing->out, listing->count++ > 0 ? SPAN(", ") : SPAN_EMPTY);
	why_plain(listing->out, path);
	if (change != JSON_CHANGED)
		buf_printf(listing->out, " (%s)", change_name(change));
}

static void list(void *user, struct span path, enum json_change change)
{
	struct listing *listing = user;
	(listing->form == WHY_TEXT ? list_text : list_json)(listing, path, change);
}

/* How many members differ, and those that fit in `out`; negative: that cannot be told. */
static int compare(const struct why_context *context, const struct trace *trace,
                   struct listing *listing)
{
	struct buf first = { 0 }, second = { 0 };
	int r = context->read(context->read_user, trace->original, &first);
	if (r == 0)
		r = context->read(context->read_user, trace->ticket, &second);
	if (r == 0)
		r = json_diff(buf_span(&first), buf_span(&second), WHY_PATHS_MAX, list, listing);
	buf_free(&first);
	buf_free(&second);
	return r;
}

void why_difference(const struct why_context *context, const struct trace *trace,
                    enum why_form form, struct buf *out)
{
	struct buf paths = { .cap = out->cap };
	struct listing listing = { .out = &paths, .form = form };
	if (!context->read || trace->verdict != VERDICT_CONFLICT || trace->ticket == 0)
		return;
	int count = compare(context, trace, &listing);
	if (count < 0 || paths.failed) {
		buf_free(&paths);
		return;
	}
	if (form == WHY_JSON) {
		buf_printf(out, ",\"differences\":%d,\"difference\":[", count);
		buf_append_span(out, buf_span(&paths));
		buf_append_char(out, ']');
	} else if (count == 0) {
		buf_append_span(out, SPAN("they differ in how they are written only"));
	} else {
		buf_append_span(out, SPAN("they differ in "));
		buf_append_span(out, buf_span(&paths));
		if ((uint32_t)count > WHY_PATHS_MAX)
			buf_printf(out, " and %d more", count - (int)WHY_PATHS_MAX);
	}
	buf_free(&paths);
}
