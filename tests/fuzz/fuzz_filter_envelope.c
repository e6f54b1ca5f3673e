/* Envelopes: whatever they hold, names and values stay inside of the text or of the
 * memory they were decoded to, and the same text gives the same. */
#include <stdlib.h>

#include "cli/filter/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(struct span span, struct span of)
{
	return span.len == 0 || (span.ptr >= of.ptr && span.ptr + span.len <= of.ptr + of.len);
}

static void check(const struct filter_envelope *envelope, struct span text,
                  const struct recipe_input *input)
{
	struct span memory = buf_span(&envelope->memory);
	CHECK(input->header_count <= HTTP1_HEADERS_MAX);
	CHECK(is_inside(input->body, text) || is_inside(input->body, memory));
	for (uint32_t i = 0; i < input->header_count; i++) {
		struct http1_header header = input->headers[i];
		CHECK(header.name.len > 0 && header.value.len > 0);
		CHECK(is_inside(header.name, text) || is_inside(header.name, memory));
		CHECK(is_inside(header.value, text) || is_inside(header.value, memory));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct filter_envelope envelope;
	struct recipe_input input, again;
	struct error_text problem = { "" };
	char *copy = malloc(size ? size : 1); /* so that one byte beyond is found */
	CHECK(copy);
	if (size > 0)
		memcpy(copy, data, size);
	struct span text = span_of(copy, size);
	filter_envelope_init(&envelope);
	int r = filter_envelope_open(&envelope, text, &input, &problem);
	CHECK((r == 0) == (problem.text[0] == '\0'));
	if (r == 0) {
		check(&envelope, text, &input);
		uint32_t count = input.header_count;
		r = filter_envelope_open(&envelope, text, &again, NULL);
		CHECK(r == 0 && again.header_count == count && again.body.len == input.body.len);
	}
	filter_envelope_free(&envelope);
	free(copy);
	return 0;
}
