/* line_parts: see line_parts.h. */
#include "sink/line_parts.h"

#include "base/check.h"
#include "sink/outlet_line.h"

/* Less is copied, as the kernel has work with each part, too. Where the limit should be was
 * not measured. */
#define PLACE_BYTES 256u
/* Of one event: what comes before it, itself, and what comes after. */
#define EVENT_PARTS 3u

void line_parts_free(struct line_parts *parts)
{
	buf_free(&parts->own);
}

/* The bytes of `own` from `start` on. Where they are is filled in by place_own(), since
 * they move when there are more. */
static void add_own(struct line_parts *parts, size_t start)
{
	size_t len = parts->own.len - start;
	struct iovec *last = parts->count > 0 ? &parts->parts[parts->count - 1] : NULL;
	if (last && !last->iov_base)
		last->iov_len += len;
	else if (len > 0)
		parts->parts[parts->count++] = (struct iovec){ .iov_len = len };
	parts->len += len;
}

static void add_place(struct line_parts *parts, struct span bytes)
{
	parts->parts[parts->count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)bytes.ptr,
		                                       .iov_len = bytes.len };
	parts->len += bytes.len;
}

static void place_own(struct line_parts *parts)
{
	size_t at = 0;
	for (uint32_t i = 0; i < parts->count; i++) {
		struct iovec *part = &parts->parts[i];
		if (part->iov_base)
			continue;
		part->iov_base = parts->own.ptr + at;
		at += part->iov_len;
	}
	CHECK(at == parts->own.len);
}

static bool stays(const struct outlet_attempt *event, const struct line_form *form)
{
	return !form->together && event->payload.len >= PLACE_BYTES && outlet_is_line(event);
}

/* False: no memory, and nothing was added. */
static bool add_event(struct line_parts *parts, const struct outlet_attempt *event,
                      const struct line_form *form)
{
	struct buf *own = &parts->own;
	size_t start = own->len;
	bool place = stays(event, form);
	if (!place)
		outlet_append_event(own, event, form->envelope);
	else if (form->envelope)
		outlet_append_head(own, event);
	size_t after = own->len;
	if (place)
		outlet_append_tail(own, form->envelope);
	if (own->failed) {
		own->len = start;
		return false;
	}
	size_t end = own->len;
	own->len = after;
	add_own(parts, start);
	if (place)
		add_place(parts, event->payload);
	own->len = end;
	add_own(parts, after);
	return true;
}

struct outlet_attempt *line_parts_fill(struct line_parts *parts, struct outlet_attempt *first,
                                       const struct line_form *form)
{
	struct outlet_attempt *event = first;
	buf_clear(&parts->own);
	parts->len = parts->count = parts->first = 0;
	if (form->torn)
		buf_append_char(&parts->own, '\n');
	add_own(parts, 0);
	while (event && parts->len < form->enough && parts->count + EVENT_PARTS <= LINE_PARTS_MAX &&
	       add_event(parts, event, form)) {
		event->own = parts->len;
		event = event->next;
	}
	place_own(parts);
	parts->left = parts->len;
	return event;
}

const struct iovec *line_parts_left(const struct line_parts *parts, uint32_t max, int *ret_count)
{
	uint32_t count = parts->count - parts->first;
	*ret_count = (int)(count < max ? count : max);
	return &parts->parts[parts->first];
}

void line_parts_written(struct line_parts *parts, size_t len)
{
	CHECK(len <= parts->left);
	parts->left -= len;
	while (len > 0) {
		struct iovec *part = &parts->parts[parts->first];
		if (len < part->iov_len) {
			part->iov_base = (char *)part->iov_base + len;
			part->iov_len -= len;
			return;
		}
		len -= part->iov_len;
		parts->first++;
	}
}
