/* admin_json: a ticket as JSON. See admin.h. */
#include <inttypes.h>

#include "base/base64.h"
#include "base/text.h"
#include "console/admin/admin.h"
#include "gate/letter.h"
#include "gate/ticket.h"

void admin_put_text(struct buf *out, const char *name, struct span text)
{
	buf_printf(out, "\"%s\":", name);
	buf_append_json(out, text);
	buf_append_char(out, ',');
}

void admin_put_time(struct buf *out, const char *name, uint64_t unix_ms)
{
	char text[TEXT_TIME_LEN];
	text_time(text, unix_ms);
	buf_printf(out, "\"%s\":\"%.*s\",", name, TEXT_TIME_LEN, text);
}

void admin_put_ticket(struct buf *out, const char *name, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];
	ticket_text(ticket, text);
	buf_printf(out, "\"%s\":\"%.*s\",", name, TICKET_TEXT_LEN, text);
}

/* Takes the last comma back. */
void admin_close_object(struct buf *out)
{
	if (!out->failed && out->len > 0 && out->ptr[out->len - 1] == ',')
		out->len--;
	buf_append_char(out, '}');
}

void admin_put_sink(const struct admin *admin, struct buf *out, uint32_t sink)
{
	struct lane_view view;
	if (sink == STORE_SINK_CALLER) {
		admin_put_text(out, "sink", SPAN("caller"));
		return;
	}
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		if (view.sink == sink) {
			admin_put_text(out, "sink", span_str(view.name));
			return;
		}
	}
	buf_printf(out, "\"sink\":\"unknown-%08" PRIx32 "\",", sink);
}

const char *admin_mark_name(enum store_mark mark)
{
	static const char *const names[] = {
		[STORE_MARK_NONE] = "none",         [STORE_MARK_STARTED] = "started",
		[STORE_MARK_FAILED] = "failed",     [STORE_MARK_UNKNOWN] = "unknown",
		[STORE_MARK_DEAD] = "dead",         [STORE_MARK_PARKED] = "parked",
		[STORE_MARK_RELEASED] = "released",
	};
	return (size_t)mark < ARRAY_LEN(names) ? names[mark] : "other";
}

static void put_letter(struct buf *out, struct span bytes)
{
	struct letter letter = { 0 };
	if (letter_read(bytes, &letter) < 0)
		return;
	for (int field = 0; field < LETTER_FIELD_COUNT; field++) {
		struct span text = letter.texts[field];
		if (text.len == 0 || field == LETTER_TRACEPARENT || field == LETTER_TRACESTATE ||
		    field == LETTER_CONTENT_TYPE)
			continue;
		admin_put_text(out,
		               field == LETTER_REPLAY_OF
		                       ? "replay_of"
		                       : letter_field_name((enum letter_field)field),
		               text);
	}
}

/* Leaves the object open, behind a comma. */
void admin_put_item(const struct admin *admin, struct buf *out, const struct store_item *item,
                    const struct store_parts *parts)
{
	buf_append_char(out, '{');
	admin_put_ticket(out, "ticket", item->ticket);
	admin_put_ticket(out, "event", item->event);
	admin_put_text(out, "state", span_str(admin_state_name((enum store_state)item->state)));
	admin_put_sink(admin, out, item->sink);
	admin_put_text(out, "source", parts->source);
	admin_put_time(out, "received", ticket_time_ms(item->ticket));
	put_letter(out, parts->letter);
	if (item->state == STORE_STATE_CLOSED)
		return;
	buf_printf(out, "\"attempt\":%" PRIu32 ",", item->attempt);
	if (item->due_ms > 0)
		admin_put_time(out,
		               store_state_pending((enum store_state)item->state) ? "due" : "since",
		               item->due_ms);
	if (item->last == STORE_MARK_NONE)
		return;
	admin_put_text(out, "last", span_str(admin_mark_name((enum store_mark)item->last)));
	if (item->status > 0)
		buf_printf(out, "\"status\":%u,", item->status);
}

void admin_put_payload(struct buf *out, const struct store_item *item, struct span payload)
{
	if (item->flags & STORE_EVENT_JSON) {
		buf_append_span(out, SPAN("\"payload\":"));
		buf_append_span(out, payload);
	} else {
		buf_append_span(out, SPAN("\"payload_base64\":\""));
		base64_append(out, payload);
		buf_append_char(out, '"');
	}
	buf_append_char(out, ',');
}
