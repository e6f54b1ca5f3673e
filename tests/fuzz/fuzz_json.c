/* fuzz_json: the scanner and the model by recursive descent agree on every text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "codec/json.h"
#include "support/json_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = { "id",  "source", "detail", "a",  "detail.id",
	                             "a.b", "a[0]",   "a[1].b", "[0]" };
#define PATHS ARRAY_LEN(texts)

static void compare_value(const struct json_value *value, const struct json_value *expected)
{
	CHECK(value->type == expected->type);
	if (value->type == JSON_NONE)
		return;
	CHECK(value->text.ptr == expected->text.ptr);
	CHECK(value->text.len == expected->text.len);
	CHECK(value->escaped == expected->escaped);
}

/* A string that was accepted decodes, to at most as many bytes as were written. */
static void decode_value(const struct json_value *value)
{
	size_t len;
	if (value->type != JSON_STRING)
		return;
	char *bytes = malloc(value->text.len + 1);
	CHECK(bytes);
	CHECK(json_decode(value->text, bytes, value->text.len, &len) == 0);
	CHECK(value->escaped ? len < value->text.len : len == value->text.len);
	free(bytes);
}

/* The same text as an array of one: the iterator and the scanner agree. */
static void compare_elements(struct span text, const struct json_plan *plan, bool valid)
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	char *array = malloc(text.len + 2);
	CHECK(array);
	array[0] = '[';
	if (text.len)
		memcpy(array + 1, text.ptr, text.len);
	array[text.len + 1] = ']';
	CHECK(json_elements_begin(&elements, span_of(array, text.len + 2)) == 0);
	int more = json_elements_next(&elements, plan, &doc, &element);
	bool one = more == 1 && json_elements_next(&elements, plan, &doc, &element) == 0;
	CHECK(one || !valid);
	free(array);
}

/* Without its blanks a text is the same, and stays so. */
static void compare_compact(struct span text, const struct json_plan *plan)
{
	struct json_doc doc;
	char *bytes = malloc(text.len + 1);
	CHECK(bytes);
	size_t len = json_compact(text, bytes);
	CHECK(len <= text.len);
	CHECK(json_scan(span_of(bytes, len), plan, &doc) == 0);
	CHECK(json_compact(span_of(bytes, len), bytes) == len);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_plan plan;
	static struct json_path paths[PATHS];
	static uint8_t nodes[PATHS];
	struct json_problem problem;
	struct json_doc doc;
	struct json_model model;
	struct span text = span_of(data, size);
	json_plan_init(&plan);
	for (size_t i = 0; i < PATHS; i++) {
		CHECK(json_path_parse(span_str(texts[i]), &paths[i], &problem) == 0);
		CHECK(json_plan_add(&plan, &paths[i], &nodes[i]) == 0);
	}
	json_plan_seal(&plan);
	bool valid = json_model_run(&model, text, paths, PATHS);
	int error = json_scan(text, &plan, &doc);
	CHECK((error == 0) == valid);
	compare_elements(text, &plan, valid);
	if (!valid) {
		CHECK(doc.problem.offset <= size);
		CHECK(doc.problem.expected);
		return 0;
	}
	CHECK(doc.root == model.root);
	compare_compact(text, &plan);
	for (size_t i = 0; i < PATHS; i++) {
		struct json_value value = json_get(&doc, nodes[i]);
		compare_value(&value, &model.values[i]);
		decode_value(&value);
	}
	return 0;
}
