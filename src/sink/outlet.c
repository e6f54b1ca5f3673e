/* outlet: see outlet.h. */
#include "sink/outlet.h"

#include <string.h>

#include "base/utf8.h"
#include "gate/ticket.h"

void outlet_result_text(struct outlet_result *result, struct span text)
{
	size_t len = utf8_cut(text.ptr, text.len, OUTLET_TEXT_MAX);

	if (len > 0)
		memcpy(result->text, text.ptr, len);
	result->text_len = (uint16_t)len;
}

struct outlet_attempt *outlet_finish(struct outlet_attempt *attempt, enum outlet_answer answer,
                                     struct span text)
{
	struct outlet_attempt *next = attempt->next;
	struct outlet_result *result = &attempt->result;
	result->answer = answer;
	result->status = 0;
	result->permanent = false;
	result->retry_after_ms = 0;
	result->latency_us = 0;
	outlet_result_text(result, text);
	attempt->done(attempt);
	return next;
}

struct template_event outlet_template_event(const struct outlet_attempt *attempt)
{
	return (struct template_event){
		.ticket = attempt->event,
		.attempt = attempt->number,
		.json = attempt->json,
		.source = attempt->source,
		.payload = attempt->payload,
		.metadata = &attempt->metadata,
	};
}

size_t outlet_clean(char *text, size_t len)
{
	size_t to = 0;
	for (size_t at = 0; at < len;) {
		size_t size = utf8_sequence(text + at, len - at);
		bool control = size > 0 && utf8_steers(text + at, size);
		if (size > 0 && !control) {
			memmove(text + to, text + at, size);
			to += size;
		} else if (!control) {
			text[to++] = '?';
		} else if (to > 0 && text[to - 1] != ' ') {
			text[to++] = ' ';
		}
		at += size ? size : 1;
	}
	while (to > 0 && text[to - 1] == ' ')
		to--;
	return to;
}

/* ---- lines of JSON ---- */

void outlet_one_line(struct buf *out, size_t start)
{
	if (out->failed || start >= out->len)
		return;
	for (const char *from = "\n\r"; *from; from++) {
		char *at = out->ptr + start, *end = out->ptr + out->len;
		while (at < end && (at = memchr(at, *from, (size_t)(end - at))) != NULL)
			*at++ = ' ';
	}
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

void outlet_append_event(struct buf *out, const struct outlet_attempt *attempt, bool envelope)
{
	if (envelope) {
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
