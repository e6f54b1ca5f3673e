/* fuzz_json: the scanner and the model by recursive descent agree on every text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "codec/json.h"
#include "support/json_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct span names[] = { { "id", 2 }, { "source", 6 }, { "detail", 6 }, { "a", 1 } };

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_wanted wanted;
	struct json_doc doc;
	struct json_model model;
	struct span text = span_of(data, size);
	CHECK(json_wanted_init(&wanted, names, ARRAY_LEN(names)) == 0);
	bool valid = json_model_run(&model, text, &wanted);
	int error = json_scan(text, &wanted, &doc);
	CHECK((error == 0) == valid);
	if (!valid) {
		CHECK(doc.problem.offset <= size);
		CHECK(doc.problem.expected);
		return 0;
	}
	CHECK(doc.root == model.root);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		compare_value(&doc.values[i], &model.values[i]);
		decode_value(&doc.values[i]);
	}
	return 0;
}
