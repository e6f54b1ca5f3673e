/* outlet_line: see outlet_line.h. */
#include "sink/outlet_line.h"

#include <string.h>

#include "gate/ticket.h"

static void replace(char *at, char *end, char from)
{
	while (at < end && (at = memchr(at, from, (size_t)(end - at))) != NULL)
		*at++ = ' ';
}

void outlet_one_line(struct buf *out, size_t start)
{
	if (out->failed || start >= out->len)
		return;
	replace(out->ptr + start, out->ptr + out->len, '\n');
	replace(out->ptr + start, out->ptr + out->len, '\r');
}

void outlet_append_line(struct buf *out, const struct outlet_attempt *attempt)
{
	size_t start = out->len;
	if (!attempt->json) {
		buf_append_json(out, attempt->payload);
		return;
	}
	buf_append_span(out, attempt->payload);
	if (!attempt->line)
		outlet_one_line(out, start);
}

static void append_head(struct buf *out, const struct outlet_attempt *attempt)
{
	char ticket[TICKET_TEXT_LEN];
	ticket_text(attempt->ticket, ticket);
	buf_append_span(out, SPAN("{\"ticket\":\""));
	buf_append(out, ticket, sizeof(ticket));
	buf_append_span(out, SPAN("\",\"source\":"));
	buf_append_json(out, attempt->source);
	buf_append_span(out, SPAN(",\"attempt\":"));
	buf_append_u64(out, attempt->number);
	buf_append_span(out, attempt->json ? SPAN(",\"event\":") : SPAN(",\"text\":"));
}

void outlet_append_event(struct buf *out, const struct outlet_attempt *attempt, bool envelope)
{
	if (envelope)
		append_head(out, attempt);
	outlet_append_line(out, attempt);
	buf_append_span(out, envelope ? SPAN("}\n") : SPAN("\n"));
}

struct outlet_attempt *outlet_append_events(struct buf *out, struct outlet_attempt *first,
                                            bool envelope, size_t enough)
{
	struct outlet_attempt *attempt = first;
	while (attempt && out->len < enough) {
		size_t before = out->len;
		outlet_append_event(out, attempt, envelope);
		if (out->failed) {
			out->len = before;
			break;
		}
		attempt->own = out->len;
		attempt = attempt->next;
	}
	return attempt;
}
