/* webhook_feed: what was decided, for whoever listens. See webhook_request.h. */
#include "base/text.h"
#include "door/webhook/webhook_request.h"
#include "gate/digest.h"
#include "gate/ticket.h"
#include "sys/feed.h"

#define MESSAGE_MAX (16u << 10) /* a message of every event fits: texts are DIGEST_PART_MAX */

static void put_text(struct buf *out, const char *name, struct event_text text)
{
	char bytes[DIGEST_PART_MAX];
	struct span value = text.raw;
	if (text.coding == EVENT_TEXT_NONE ||
	    (text.coding != EVENT_TEXT_PLAIN &&
	     event_text_value(text, bytes, sizeof(bytes), &value) < 0))
		return;
	buf_printf(out, ",\"%s\":", name);
	buf_append_json(out, value);
}

static void tell_item(const struct webhook_request *it, const struct webhook_item *item)
{
	const struct store_admit *admit = &item->admit;
	char bytes[MESSAGE_MAX], time[TEXT_TIME_LEN], ticket[TICKET_TEXT_LEN];
	struct buf out = buf_on(bytes, sizeof(bytes));
	text_time(time, admit->decided_ms);
	buf_printf(&out, "event: decision\ndata: {\"time\":\"%.*s\",\"source\":", TEXT_TIME_LEN,
	           time);
	buf_append_json(&out, it->source->name);
	buf_printf(&out, ",\"verdict\":\"%s\"", verdict_name(admit->verdict));
	if (admit->ticket != 0) {
		ticket_text(admit->ticket, ticket);
		buf_printf(&out, ",\"ticket\":\"%.*s\"", TICKET_TEXT_LEN, ticket);
	}
	put_text(&out, "id", item->event.id);
	put_text(&out, "type", item->event.type);
	buf_append_span(&out, SPAN("}\n\n"));
	if (!out.failed)
		feed_say(it->webhook->options.feed, buf_span(&out));
}

void webhook_tell(const struct webhook_request *it)
{
	for (uint32_t i = 0; i < it->count; i++)
		if (it->items[i].status == 0 && it->items[i].admit.op.error == 0)
			tell_item(it, &it->items[i]);
}
