/* admin_json: a ticket as JSON. See admin.h. */
#include <inttypes.h>
#include <stdio.h>

#include "codec/json_write.h"
#include "console/admin/admin.h"
#include "gate/letter.h"
#include "gate/ticket.h"

void admin_put_sink(const struct admin *admin, struct buf *out, uint32_t sink)
{
	struct lane_view view;
	if (sink == STORE_SINK_CALLER) {
		json_add_text(out, "sink", SPAN("caller"));
		return;
	}
	for (uint32_t i = 0; i < deliver_lane_count(admin->options.console->deliver); i++) {
		deliver_view(admin->options.console->deliver, i, &view);
		if (view.sink == sink) {
			json_add_string(out, "sink", view.name);
			return;
		}
	}
	char name[32];
	snprintf(name, sizeof(name), "unknown-%08" PRIx32, sink);
	json_add_string(out, "sink", name);
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
		json_add_text(out,
		              field == LETTER_REPLAY_OF
		                      ? "replay_of"
		                      : letter_field_name((enum letter_field)field),
		              text);
	}
}

/* Leaves the object open. */
void admin_put_item(const struct admin *admin, struct buf *out, const struct store_item *item,
                    const struct store_parts *parts)
{
	json_object_begin(out, NULL);
	ticket_add(out, "ticket", item->ticket);
	ticket_add(out, "event", item->event);
	json_add_string(out, "state", admin_state_name((enum store_state)item->state));
	admin_put_sink(admin, out, item->sink);
	json_add_text(out, "source", parts->source);
	json_add_time(out, "received", ticket_time_ms(item->ticket));
	put_letter(out, parts->letter);
	if (item->state == STORE_STATE_CLOSED)
		return;
	json_add_u64(out, "attempt", item->attempt);
	if (item->due_ms > 0)
		json_add_time(out,
		              store_state_pending((enum store_state)item->state) ? "due" : "since",
		              item->due_ms);
	if (item->last == STORE_MARK_NONE)
		return;
	json_add_string(out, "last", admin_mark_name((enum store_mark)item->last));
	if (item->status > 0)
		json_add_u64(out, "status", item->status);
}

void admin_put_payload(struct buf *out, const struct store_item *item, struct span payload)
{
	if (item->flags & STORE_EVENT_JSON)
		json_add_raw(out, "payload", payload);
	else
		json_add_base64(out, "payload_base64", payload);
}
