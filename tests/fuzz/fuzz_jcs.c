/*
 * fuzz_jcs: the canonical form of any text is JSON, is its own canonical form, and
 * holds the same values; so does the form with exact numbers.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "codec/jcs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct buf first;
static struct buf second;
static struct buf sorting;

static void check(struct span text, const struct jcs_options *options)
{
	static struct json_doc doc;
	struct json_problem problem = { 0 };
	buf_clear(&first);
	buf_clear(&second);
	int error = jcs_write(text, options, &first, &sorting, &problem);
	if (error != 0) {
		CHECK(error == ERR_INVALID || error == ERR_TOO_LARGE);
		CHECK(error != ERR_INVALID || (problem.expected && problem.offset <= text.len));
		return;
	}
	CHECK(json_scan(buf_span(&first), NULL, &doc) == 0);
	CHECK(jcs_write(buf_span(&first), options, &second, &sorting, &problem) == 0);
	CHECK(span_eq(buf_span(&first), buf_span(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_doc doc;
	static struct json_plan except;
	struct span text = span_of(data, size);
	first.cap = second.cap = sorting.cap = 1u << 24;
	if (except.node_count == 0) {
		struct json_path path;
		struct json_problem problem;
		uint8_t node;
		json_plan_init(&except);
		CHECK(json_path_parse(SPAN("a.b"), &path, &problem) == 0);
		CHECK(json_plan_add(&except, &path, &node) == 0);
		CHECK(json_path_parse(SPAN("c[*].d"), &path, &problem) == 0);
		CHECK(json_plan_add(&except, &path, &node) == 0);
		json_plan_seal(&except);
	}
	if (json_scan(text, NULL, &doc) == 0) {
		check(text, &(struct jcs_options){ .exact = false });
		check(text, &(struct jcs_options){ .exact = true });
		check(text, &(struct jcs_options){ .exact = true, .except = &except });
	} else {
		/* Not for such texts, but it must stay inside of them. */
		struct json_problem problem;
		buf_clear(&first);
		int error = jcs_write(text, &(struct jcs_options){ .exact = true }, &first,
		                      &sorting, &problem);
		CHECK(error <= 0);
	}
	return 0;
}
