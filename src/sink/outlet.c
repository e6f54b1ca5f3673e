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
