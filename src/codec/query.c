/* query: see query.h. */
#include "codec/query.h"

#include "base/buf.h"
#include "codec/url.h"

#define NAME_SHOWN 40 /* bytes of an unknown name that are told */

static bool is_known(struct span raw_name, struct span names)
{
	while (names.len > 0)
		if (url_param_is(raw_name, span_cut_item(&names, ' ')))
			return true;
	return false;
}

/* "; there are state, source and limit" */
static void list_names(struct span names, struct buf *out)
{
	const char *before = "; there are ";
	if (names.len == 0)
		buf_append_span(out, SPAN("; there are none here"));
	while (names.len > 0) {
		struct span name = span_cut_item(&names, ' ');
		buf_append_span(out, span_str(before));
		buf_append_span(out, name);
		before = memchr(names.ptr, ' ', names.len) ? ", " : " and ";
	}
}

int query_check(struct span query, const char *names, struct error_text *ret_text)
{
	struct span known = span_str(names), rest = query, raw_name, value;
	while (url_param_next(&rest, &raw_name, &value))
		if (!is_known(raw_name, known)) {
			char text[ERROR_TEXT_MAX];
			struct buf out = buf_on(text, sizeof(text));
			buf_append_span(&out, SPAN("unknown parameter "));
			buf_append(&out, raw_name.ptr,
			           raw_name.len < NAME_SHOWN ? raw_name.len : NAME_SHOWN);
			list_names(known, &out);
			return error_fill(ret_text, ERR_INVALID, "%.*s", (int)out.len, out.ptr);
		}
	while (known.len > 0) {
		struct span name = span_cut_item(&known, ' ');
		uint32_t count = url_param_find(query, name, &value);
		if (count > 1)
			return error_fill(ret_text, ERR_INVALID,
			                  "%.*s came %u times, expected once", (int)name.len,
			                  name.ptr, count);
	}
	return 0;
}
