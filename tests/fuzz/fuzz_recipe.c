/*
 * fuzz_recipe: recipes over any headers and body: as one event, as a batch, and as
 * an explanation.
 *
 * The input is lines of "name:value", an empty line, and the body; without an
 * empty line all of it is the body.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"

#define HEADERS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[DIGEST_KEY_LEN] = { 1 };
static struct recipe_scratch scratch;

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

static const struct recipe *compile_auto(void)
{
	const struct preset *preset = preset_find(SPAN("auto"));
	struct recipe_spec spec = {
		.source = SPAN("fuzz"),
		.window_s = 1,
		.cases = preset->cases,
		.case_count = preset->case_count,
	};
	struct recipe *recipe = NULL;
	CHECK(recipe_compile(&spec, key, &recipe, NULL) == 0);
	return recipe;
}

/* All kinds of claims and parts, none of which need be there. */
static const struct recipe *compile_all_kinds(void)
{
	const struct recipe_case_spec it = {
		.name = "any",
		.content = SPAN("a"),
		.claim_count = 4,
		.claims = {
			{ .missing = RECIPE_MISSING_DIGEST, .part_count = 3,
			  .parts = { SPAN("a.b"), SPAN("items[*].id"), SPAN("x[1][*][*]?") } },
			{ .kind = CLAIM_CONTENT, .except_count = 2,
			  .except = { SPAN("id"), SPAN("items[*].t") } },
			{ .kind = CLAIM_NEWEST, .missing = RECIPE_MISSING_SKIP, .part_count = 1,
			  .parts = { SPAN("id") }, .time = SPAN("time"), .rank = SPAN("state"),
			  .rank_count = 1, .ranks = { SPAN("x") } },
			{ .missing = RECIPE_MISSING_SKIP, .part_count = 4,
			  .parts = { SPAN("header:x-id"), SPAN("query:q?"), SPAN("form:f?"),
			             SPAN("body") } },
		},
	};
	struct recipe_spec spec = {
		.source = SPAN("fuzz"), .window_s = 1, .cases = &it, .case_count = 1
	};
	struct recipe *recipe = NULL;
	CHECK(recipe_compile(&spec, key, &recipe, NULL) == 0);
	return recipe;
}

static void check_text(struct event_text text)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;
	int error = event_text_value(text, bytes, sizeof(bytes), &value);
	CHECK(error != 0 || value.len <= sizeof(bytes));
}

static void check_result(const struct recipe_result *result)
{
	CHECK(result->claim_count >= 1 && result->claim_count <= CLAIMS_MAX);
	CHECK(result->event.name && result->event.source.len == 4);
	for (uint32_t i = 0; i < result->claim_count; i++)
		CHECK(result->claims[i].window_s == 1 && result->claims[i].kind <= CLAIM_NEWEST);
	check_text(result->event.id);
	check_text(result->event.type);
	check_text(result->event.entity);
	check_text(result->event.time);
}

static void run_one(const struct recipe *recipe, const struct recipe_input *input)
{
	struct recipe_result result;
	struct recipe_result again;
	struct error_text problem = { "" };
	int error = recipe_run(recipe, &scratch, input, &result, &problem);
	if (error != 0) {
		CHECK(error == ERR_INVALID || error == ERR_TOO_LARGE);
		CHECK(problem.text[0]);
		return;
	}
	check_result(&result);
	CHECK(recipe_run(recipe, &scratch, input, &again, &problem) == 0);
	CHECK(result.claim_count == again.claim_count);
	for (uint32_t i = 0; i < result.claim_count; i++)
		CHECK(memcmp(&result.claims[i].digest, &again.claims[i].digest,
		             sizeof(struct digest)) == 0 &&
		      result.claims[i].order == again.claims[i].order);
	CHECK(result.event.content == again.event.content);
}

static void run_items(const struct recipe *recipe, const struct recipe_input *input)
{
	struct recipe_items items;
	struct recipe_result result;
	struct error_text problem = { "" };
	enum recipe_step step;
	recipe_items_begin(&items, recipe, &scratch, input);
	items.items_max = 100;
	while ((step = recipe_items_next(&items, &result, &problem)) != RECIPE_END) {
		CHECK(items.count <= 100);
		if (step == RECIPE_BROKEN)
			break;
		CHECK(result.payload.ptr >= input->body.ptr);
		CHECK(result.payload.ptr + result.payload.len <= input->body.ptr + input->body.len);
		if (step == RECIPE_EVENT)
			check_result(&result);
	}
	CHECK(recipe_items_next(&items, &result, &problem) == RECIPE_END);
}

static void run_explain(const struct recipe *recipe, const struct recipe_input *input)
{
	static struct json_doc doc;
	struct buf out = { .cap = 64u << 20 };
	recipe_explain(recipe, &scratch, input, &out);
	CHECK(out.failed || json_scan(buf_span(&out), NULL, &doc) == 0);
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct recipe *recipes[2];
	struct http1_header headers[HEADERS_MAX];
	struct recipe_input input = { .headers = headers };
	struct span rest = span_of(data, size);
	if (!recipes[0]) {
		recipes[0] = compile_auto();
		recipes[1] = compile_all_kinds();
	}
	if (size && memmem(data, size, "\n\n", 2)) {
		while (input.header_count < HEADERS_MAX && rest.len &&
		       take_header(&rest, &headers[input.header_count]))
			input.header_count++;
		if (rest.len && *rest.ptr == '\n')
			rest = span_skip(rest, 1);
	}
	input.body = rest;
	input.query = rest;
	for (size_t i = 0; i < ARRAY_LEN(recipes); i++) {
		run_one(recipes[i], &input);
		run_items(recipes[i], &input);
		run_explain(recipes[i], &input);
	}
	return 0;
}
