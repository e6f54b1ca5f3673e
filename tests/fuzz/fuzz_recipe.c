/*
 * fuzz_recipe: the recipe auto over any headers and body.
 *
 * The input is lines of "name:value", an empty line, and the body; without an
 * empty line all of it is the body.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "gate/recipe.h"

#define HEADERS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes one header line off the front; false at the empty line or a bad one. */
static bool take_header(struct span *rest, struct http1_header *ret_header)
{
	const char *eol = memchr(rest->ptr, '\n', rest->len);
	size_t len = eol ? (size_t)(eol - rest->ptr) : 0;
	const char *colon = len ? memchr(rest->ptr, ':', len) : NULL;
	if (!colon)
		return false;
	ret_header->name = span_of(rest->ptr, (size_t)(colon - rest->ptr));
	ret_header->value = span_of(colon + 1, (size_t)(eol - colon - 1));
	*rest = span_skip(*rest, len + 1);
	return true;
}

static void check_text(struct event_text text, bool must_decode)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;
	int error = event_text_value(text, bytes, sizeof(bytes), &value);
	CHECK(error == 0 || !must_decode);
	CHECK(error != 0 || value.len <= sizeof(bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe_options options = { .source = SPAN("fuzz"), .window_s = 1 };
	struct http1_header headers[HEADERS_MAX];
	struct recipe_input input = { .headers = headers };
	struct recipe recipe;
	struct event event;
	struct claim claims[CLAIMS_MAX];
	struct error_text problem = { "" };
	struct span rest = span_of(data, size);
	uint32_t count = 0;
	CHECK(recipe_init_auto(&recipe, &options, &problem) == 0);
	if (size && memmem(data, size, "\n\n", 2)) {
		while (input.header_count < HEADERS_MAX && rest.len &&
		       take_header(&rest, &headers[input.header_count]))
			input.header_count++;
		if (rest.len && *rest.ptr == '\n')
			rest = span_skip(rest, 1);
	}
	input.body = rest;
	int error = recipe_run(&recipe, &input, &event, claims, &count, &problem);
	if (error != 0) {
		CHECK(error == ERR_INVALID || error == ERR_TOO_LARGE);
		CHECK(problem.text[0] && count == 0);
		return 0;
	}
	CHECK(count == 1 && claims[0].window_s == 1);
	check_text(event.id, true);
	check_text(event.type, false);
	check_text(event.origin, true);
	return 0;
}
