/*
 * fuzz_json_path: any text is a path or refused at a place inside of it; a path that
 * is written anew, with all names in quotes, is the same path; and recipes take any
 * text as a part, condition or exception.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "gate/recipe/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_path(const struct json_path *path, struct buf *out)
{
	for (uint32_t i = 0; i < path->count; i++) {
		const struct json_step *step = &path->steps[i];
		buf_append_char(out, '[');
		if (step->kind == JSON_STEP_NAME)
			buf_append_json(out, span_of(step->name, step->len));
		else if (step->kind == JSON_STEP_INDEX)
			buf_append_u64(out, step->index);
		else
			buf_append_char(out, '*');
		buf_append_char(out, ']');
	}
}

static bool same_steps(const struct json_path *a, const struct json_path *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct json_step *x = &a->steps[i];
		const struct json_step *y = &b->steps[i];
		if (x->kind != y->kind || x->index != y->index || x->len != y->len ||
		    memcmp(x->name, y->name, x->len) != 0)
			return false;
	}
	return true;
}

static void compile_with(struct span text)
{
	static const unsigned char key[DIGEST_KEY_LEN] = { 1 };
	struct recipe_case_spec it = {
		.condition_count = 1,
		.conditions = { { .part = text, .pattern = text } },
		.id = text,
		.claim_count = 2,
		.claims = { { .part_count = 2, .parts = { SPAN("id"), text } },
		            { .kind = CLAIM_CONTENT, .except_count = 1, .except = { text } } },
	};
	struct recipe_spec spec = {
		.source = SPAN("s"), .window_s = 1, .cases = &it, .case_count = 1
	};
	struct recipe *recipe = NULL;
	struct recipe_problem problem;
	int error = recipe_compile(&spec, key, &recipe, &problem);
	CHECK((error == 0) == (recipe != NULL));
	CHECK(error == 0 || error == ERR_CONFIG);
	CHECK(error == 0 || (problem.field && problem.text.text[0] && problem.column <= text.len));
	recipe_free(recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = span_of(data, size);
	struct json_path path;
	struct json_path again;
	struct json_problem problem = { 0 };
	int error = json_path_parse(text, &path, &problem);
	if (error != 0) {
		CHECK(problem.expected && problem.offset <= size);
	} else {
		struct buf out = { .cap = 0 };
		CHECK(path.count >= 1 && path.count <= JSON_STEPS_MAX);
		write_path(&path, &out);
		CHECK(!out.failed);
		CHECK(json_path_parse(buf_span(&out), &again, &problem) == 0);
		CHECK(same_steps(&path, &again));
		buf_free(&out);
	}
	compile_with(text);
	return 0;
}
