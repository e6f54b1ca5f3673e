/* recipe_bench: compiles and runs recipes for tests of the gate. */
#pragma once

#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"

#define BENCH_WINDOW_S 3600
#define BENCH_HEADERS_MAX 12

struct bench_run {
	int error;
	struct recipe_result result;
	struct error_text problem;
};

static struct recipe_scratch bench_scratch;
static const unsigned char bench_key[DIGEST_KEY_LEN] = { 3, 1, 4, 1, 5, 9 };

static inline struct recipe *bench_compile(struct recipe_spec spec)
{
	struct recipe *recipe = NULL;
	struct recipe_problem problem;
	if (spec.source.len == 0)
		spec.source = SPAN("test");
	if (spec.window_s == 0)
		spec.window_s = BENCH_WINDOW_S;
	if (recipe_compile(&spec, bench_key, &recipe, &problem) != 0)
		fail_msg("case %d claim %d %s %d at %u: %s", problem.case_index,
		         problem.claim_index, problem.field, problem.index, problem.column,
		         problem.text.text);
	return recipe;
}

static inline struct recipe *bench_preset(const char *name)
{
	const struct preset *preset = preset_find(span_str(name));
	if (!preset)
		fail_msg("no preset %s", name);
	return bench_compile(
		(struct recipe_spec){ .cases = preset->cases, .case_count = preset->case_count });
}

/* A recipe of one case with one claim. */
static inline struct recipe *bench_claim(struct recipe_claim_spec claim)
{
	struct recipe_case_spec it = { .name = "event", .claim_count = 1, .claims = { claim } };
	return bench_compile((struct recipe_spec){ .cases = &it, .case_count = 1 });
}

/* … whose key is these parts, divided by blanks. */
static inline struct recipe *bench_once(const char *parts, enum recipe_missing missing)
{
	struct recipe_claim_spec claim = { .name = SPAN("rule"), .missing = missing };
	for (const char *p = parts; *p;) {
		size_t len = strcspn(p, " ");
		assert_true(claim.part_count < RECIPE_SPEC_PARTS_MAX);
		claim.parts[claim.part_count++] = span_of(p, len);
		p += len + (p[len] == ' ');
	}
	return bench_claim(claim);
}

/* A request: headers are "name: value" lines, the last NULL. */
struct bench_request {
	struct span body;
	const char *const *headers;
	const char *path;
	const char *query;
};

static inline struct recipe_input bench_input(const struct bench_request *request,
                                              struct http1_header *headers)
{
	struct recipe_input input = {
		.body = request->body,
		.headers = headers,
		.path = span_str(request->path),
		.query = span_str(request->query),
	};
	for (; request->headers && request->headers[input.header_count]; input.header_count++) {
		const char *line = request->headers[input.header_count];
		const char *colon = strstr(line, ": ");
		assert_non_null(colon);
		assert_true(input.header_count < BENCH_HEADERS_MAX);
		headers[input.header_count].name = span_of(line, (size_t)(colon - line));
		headers[input.header_count].value = span_str(colon + 2);
	}
	return input;
}

static inline struct bench_run bench_request(const struct recipe *recipe,
                                             struct bench_request request)
{
	struct http1_header headers[BENCH_HEADERS_MAX];
	struct recipe_input input = bench_input(&request, headers);
	struct bench_run run = { .problem = { "" } };
	run.error = recipe_run(recipe, &bench_scratch, &input, &run.result, &run.problem);
	return run;
}

/* In memory of exactly its size: one byte too far is seen by ASan. The event's texts
 * are of no use afterwards. */
static inline struct bench_run bench_body(const struct recipe *recipe, const char *body)
{
	size_t len = strlen(body);
	char *copy = mem_alloc(len);
	assert_non_null(copy);
	memcpy(copy, body, len);
	struct bench_run run = bench_request(recipe,
	                                     (struct bench_request){ .body = span_of(copy, len) });
	mem_free(copy);
	return run;
}

static inline struct claim bench_first(const struct recipe *recipe, const char *body)
{
	struct bench_run run = bench_body(recipe, body);
	if (run.error != 0)
		fail_msg("%s: refused: %s", body, run.problem.text);
	assert_true(run.result.claim_count >= 1);
	return run.result.claims[0];
}

static inline void assert_same_claim(const struct recipe *recipe, const char *a, const char *b)
{
	struct claim x = bench_first(recipe, a);
	struct claim y = bench_first(recipe, b);
	if (!digest_same_key(&x.digest, &y.digest))
		fail_msg("not the same: %s and %s", a, b);
}

static inline void assert_other_claim(const struct recipe *recipe, const char *a, const char *b)
{
	struct claim x = bench_first(recipe, a);
	struct claim y = bench_first(recipe, b);
	if (digest_same_key(&x.digest, &y.digest))
		fail_msg("the same: %s and %s", a, b);
}

static inline void assert_refused_with(const struct recipe *recipe, const char *body,
                                       const char *text)
{
	struct bench_run run = bench_body(recipe, body);
	if (run.error >= 0 || strcmp(run.problem.text, text) != 0)
		fail_msg("%s: %d: %s", body, run.error, run.problem.text);
}

static inline int bench_tear_down(void **state)
{
	(void)state;
	recipe_scratch_free(&bench_scratch);
	return 0;
}
