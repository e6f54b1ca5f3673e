/* outlet: see outlet.h. */
#include "sink/outlet.h"

#include <string.h>

void outlet_result_text(struct outlet_result *result, struct span text)
{
	size_t len = text.len < OUTLET_TEXT_MAX ? text.len : OUTLET_TEXT_MAX;

	while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
		len--;
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
