/* fuzz_structured_field: what is accepted is accepted again when it is written anew. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "codec/structured_field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t write_string(const char *value, size_t len, char *text)
{
	size_t at = 0;
	text[at++] = '"';
	for (size_t i = 0; i < len; i++) {
		if (value[i] == '"' || value[i] == '\\')
			text[at++] = '\\';
		text[at++] = value[i];
	}
	text[at++] = '"';
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct structured_item item, again;
	char *value = malloc(size + 1), *other = malloc(size + 1), *text = malloc(2 * size + 2);
	CHECK(value && other && text);
	if (structured_item_parse(span_of(data, size), value, size, &item) == 0) {
		CHECK(item.len <= size);
		size_t len = write_string(value, item.len, text);
		CHECK(structured_item_parse(span_of(text, len), other, size, &again) == 0);
		CHECK(again.type == STRUCTURED_STRING);
		CHECK(span_eq(span_of(value, item.len), span_of(other, again.len)));
	}
	free(value);
	free(other);
	free(text);
	return 0;
}
