/* lane_feed: what came of an attempt, for whoever listens. See lane_private.h. */
#include "base/text.h"
#include "deliver/lane_private.h"
#include "gate/ticket.h"
#include "sys/feed.h"

#define MESSAGE_MAX 2048u

static void put_ticket(struct buf *out, const char *name, uint64_t ticket)
{
	char text[TICKET_TEXT_LEN];
	ticket_text(ticket, text);
	buf_printf(out, ",\"%s\":\"%.*s\"", name, TICKET_TEXT_LEN, text);
}

void lane_tell(const struct lane_attempt *attempt, const char *outcome)
{
	const struct lane *lane = attempt->lane;
	char bytes[MESSAGE_MAX], time[TEXT_TIME_LEN];
	struct buf out = buf_on(bytes, sizeof(bytes));
	const struct outlet_result *result = &attempt->out.result;
	if (likely(!feed_heard(lane->feed)))
		return;
	text_time(time, lane_store_time(lane, lane->now_ms));
	buf_printf(&out, "event: delivery\ndata: {\"time\":\"%.*s\",\"sink\":", TEXT_TIME_LEN,
	           time);
	buf_append_json(&out, span_str(lane->name));
	put_ticket(&out, "ticket", attempt->out.ticket);
	put_ticket(&out, "event", attempt->out.event);
	buf_printf(&out, ",\"attempt\":%u,\"outcome\":\"%s\"", attempt->out.number, outcome);
	if (result->status > 0)
		buf_printf(&out, ",\"status\":%u", result->status);
	if (result->text_len > 0) {
		buf_append_span(&out, SPAN(",\"text\":"));
		buf_append_json(&out, span_of(result->text, result->text_len));
	}
	buf_append_span(&out, SPAN("}\n\n"));
	if (!out.failed)
		feed_say(lane->feed, buf_span(&out));
}
