/* outlet: see outlet.h. */
#include "sink/outlet.h"

#include <string.h>

#include "base/utf8.h"

void outlet_result_text(struct outlet_result *result, struct span text)
{
	size_t len = utf8_cut(text.ptr, text.len, OUTLET_TEXT_MAX);

	if (len > 0)
		memcpy(result->text, text.ptr, len);
	result->text_len = (uint16_t)len;
}

struct outlet_attempt *outlet_tell(struct outlet_attempt *attempt, enum outlet_answer answer,
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
		.letter = &attempt->letter,
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
