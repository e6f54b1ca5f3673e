/* recipe_claim: from the parts of an event to a claim. See recipe.h. */
#include <stdio.h>

#include "base/text.h"
#include "codec/jcs.h"
#include "codec/json_number.h"
#include "gate/recipe/recipe_internal.h"

/* Beside 0 and errors: the part turned out to be missing. */
#define PART_IS_MISSING 1

/* The canonical form of a container, in scratch->canonical. */
static int canonicalise(struct recipe_run *run, struct span text, const struct json_plan *except,
                        struct error_text *ret_problem)
{
	struct jcs_options options = { .exact = true, .except = except };
	struct json_problem problem;
	struct recipe_scratch *scratch = run->scratch;
	buf_clear(&scratch->canonical);
	int error = jcs_write(text, &options, &scratch->canonical, &scratch->sorting, &problem);
	if (error != ERR_INVALID)
		return error;
	return error_fill(ret_problem, error, "at byte %zu of the body: expected %s",
	                  problem.offset + (size_t)(text.ptr - run->input.body.ptr),
	                  problem.expected);
}

static int add_container(struct recipe_run *run, const struct recipe_value *value,
                         const struct json_plan *except, struct error_text *ret_problem)
{
	int error = canonicalise(run, value->text.raw, except, ret_problem);
	if (error < 0)
		return error;
	struct digest_value hash = digest_of_bytes(run->recipe->key,
	                                           buf_span(&run->scratch->canonical));
	return digest_add(&run->digest, value->type, span_of(hash.bytes, sizeof(hash.bytes)));
}

static void append_u32(struct buf *out, uint32_t value)
{
	unsigned char bytes[4];
	for (unsigned i = 0; i < 4; i++)
		bytes[i] = (unsigned char)(value >> 8 * i);
	buf_append(out, bytes, sizeof(bytes));
}

/* One element, as digest.h writes a part. */
static int append_element(struct recipe_run *run, const struct json_value *json,
                          struct error_text *ret_problem)
{
	char bytes[DIGEST_PART_MAX];
	struct buf *out = &run->scratch->list;
	struct span value = json->text;
	struct digest_value hash;
	enum digest_part type = DIGEST_LITERAL;
	int error = 0;
	if (json->type == JSON_STRING) {
		size_t len = 0;
		type = DIGEST_STRING;
		error = json_decode(json->text, bytes, sizeof(bytes), &len);
		value = span_of(bytes, len);
	} else if (json->type == JSON_NUMBER) {
		type = DIGEST_NUMBER;
		error = json_number_exact(json->text, bytes, sizeof(bytes), &value);
	} else if (json->type == JSON_OBJECT || json->type == JSON_ARRAY) {
		type = json->type == JSON_OBJECT ? DIGEST_OBJECT : DIGEST_ARRAY;
		error = canonicalise(run, json->text, NULL, ret_problem);
		hash = digest_of_bytes(run->recipe->key, buf_span(&run->scratch->canonical));
		value = span_of(hash.bytes, sizeof(hash.bytes));
	}
	if (error < 0)
		return error;
	buf_append_char(out, (char)type);
	append_u32(out, (uint32_t)value.len);
	buf_append_span(out, value);
	return 0;
}

static struct json_value element_value(const struct recipe_list *list, const struct json_doc *doc,
                                       struct span element)
{
	if (list->node)
		return json_get(doc, list->node);
	struct json_value value = { .type = doc->root, .text = element };
	if (value.type == JSON_STRING)
		value.text = span_of(element.ptr + 1, element.len - 2);
	return value;
}

static bool is_missing(const struct json_value *value)
{
	return value->type <= JSON_NULL || (value->type == JSON_STRING && value->text.len == 0);
}

/* How many elements, then each. A list inside of an element is a part of type *. */
static int append_list(struct recipe_run *run, const struct recipe_list *list, struct span array,
                       bool optional, struct error_text *ret_problem)
{
	struct json_elements elements;
	struct json_doc doc;
	struct span element;
	uint32_t count = 0;
	struct buf *out = &run->scratch->list;
	size_t head = out->len;
	doc.problem = (struct json_problem){ .expected = "an array" };
	int more = json_elements_begin(&elements, array);
	append_u32(out, 0);
	while (more == 0 &&
	       (more = json_elements_next(&elements, &list->plan, &doc, &element)) == 1) {
		struct json_value value = element_value(list, &doc, element);
		if (list->inner ? value.type != JSON_ARRAY : is_missing(&value)) {
			if (!optional)
				return PART_IS_MISSING;
			value = (struct json_value){ .type = JSON_NONE };
		}
		count++;
		if (value.type == JSON_NONE) {
			buf_append_char(out, DIGEST_MISSING);
			more = 0;
		} else if (list->inner) {
			buf_append_char(out, DIGEST_LIST);
			more = append_list(run, list->inner, value.text, optional, ret_problem);
		} else {
			more = append_element(run, &value, ret_problem);
		}
		if (more != 0)
			return more;
	}
	if (more < 0)
		return error_fill(ret_problem, ERR_INVALID, "at byte %zu of the body: expected %s",
		                  doc.problem.offset + (size_t)(array.ptr - run->input.body.ptr),
		                  doc.problem.expected);
	if (out->failed)
		return out->failed;
	for (unsigned i = 0; i < 4; i++)
		out->ptr[head + i] = (char)(count >> 8 * i & 0xFF);
	return count == 0 && !optional ? PART_IS_MISSING : 0;
}

static int add_list(struct recipe_run *run, const struct recipe_part *part, struct span array,
                    struct error_text *ret_problem)
{
	buf_clear(&run->scratch->list);
	int error = append_list(run, part->list, array, part->optional, ret_problem);
	if (error != 0)
		return error;
	struct digest_value hash = digest_of_bytes(run->recipe->key, buf_span(&run->scratch->list));
	return digest_add(&run->digest, DIGEST_LIST, span_of(hash.bytes, sizeof(hash.bytes)));
}

static int add_string(struct recipe_run *run, struct event_text text, bool optional)
{
	struct span value = text.raw;
	int error = 0;
	if (text.coding != EVENT_TEXT_PLAIN)
		error = event_text_value(text, digest_room(&run->digest), DIGEST_PART_MAX, &value);
	if (error == 0 && value.len == 0 && !optional)
		return PART_IS_MISSING; /* a header of two quotes */
	return error ? error : digest_add(&run->digest, DIGEST_STRING, value);
}

/* 0, PART_IS_MISSING or an error. */
static int add_value(struct recipe_run *run, const struct recipe_part *part,
                     const struct recipe_value *value, const struct json_plan *except,
                     struct error_text *ret_problem)
{
	struct span text = value->text.raw;
	struct digest_value hash;
	int error;
	switch (value->type) {
	case DIGEST_STRING: return add_string(run, value->text, part->optional);
	case DIGEST_NUMBER:
		error = json_number_exact(text, digest_room(&run->digest), DIGEST_PART_MAX, &text);
		return error ? error : digest_add(&run->digest, DIGEST_NUMBER, text);
	case DIGEST_OBJECT:
	case DIGEST_ARRAY: return add_container(run, value, except, ret_problem);
	case DIGEST_LIST: return add_list(run, part, text, ret_problem);
	case DIGEST_BODY:
		hash = digest_of_bytes(run->recipe->key, text);
		text = span_of(hash.bytes, sizeof(hash.bytes));
		return digest_add(&run->digest, DIGEST_BODY, text);
	case DIGEST_MISSING: return digest_add(&run->digest, DIGEST_MISSING, SPAN_EMPTY);
	default: return digest_add(&run->digest, value->type, text);
	}
}

int recipe_refuse_repeated(const struct recipe_part *part, struct error_text *ret_problem)
{
	char name[RECIPE_PART_NAME_MAX];
	recipe_part_name(part, name);
	return error_fill(ret_problem, ERR_INVALID, "expected %s only once", name);
}

int recipe_refuse_body(const struct recipe_run *run, struct error_text *ret_problem)
{
	const struct json_problem *problem = &run->doc.problem;
	return error_fill(ret_problem, ERR_INVALID,
	                  "expected a JSON object; at byte %zu of the body: expected %s",
	                  problem->offset, problem->expected);
}

static int refuse_missing(const struct recipe_run *run, const struct recipe_part *part,
                          const struct recipe_value *value, struct error_text *ret_problem)
{
	char name[RECIPE_PART_NAME_MAX];
	recipe_part_name(part, name);
	if (run->body == BODY_OTHER && (part->kind == PART_JSON || part->kind == PART_LIST)) {
		recipe_refuse_body(run, ret_problem);
		/* Two readers would see two events: no rule for what is missing mends that. */
		return run->doc.problem.repeated ? ERR_INVALID : PART_IS_MISSING;
	}
	const char *found = recipe_value_name(value);
	if (value->type == DIGEST_LIST)
		found = "an element without it, or none";
	if (value->type == DIGEST_STRING)
		found = "an empty string"; /* a header of two quotes is one */
	error_fill(ret_problem, ERR_INVALID, "expected %s, found %s", name, found);
	return PART_IS_MISSING;
}

/* What is not well written is refused, whatever the claim says of what is missing. */
static int refuse_value(const struct recipe_part *part, const struct recipe_value *value, int error,
                        struct error_text *ret_problem)
{
	char name[RECIPE_PART_NAME_MAX];
	recipe_part_name(part, name);
	bool container = value->type == DIGEST_OBJECT || value->type == DIGEST_ARRAY ||
	                 value->type == DIGEST_LIST;
	if (error == ERR_TOO_LARGE && container)
		return error_fill(ret_problem, error, "%s is too large to be canonical", name);
	if (error == ERR_TOO_LARGE)
		return error_fill(ret_problem, error, "expected at most %d bytes in %s",
		                  DIGEST_PART_MAX, name);
	if (error == ERR_INVALID && !container)
		return error_fill(ret_problem, error, "expected percent-encoded UTF-8 in %s", name);
	return error;
}

static int add_part(struct recipe_run *run, const struct recipe_claim *claim, uint16_t number,
                    struct error_text *ret_problem)
{
	const struct recipe_part *part = &run->recipe->parts[number];
	struct recipe_value value = recipe_part_value(run, number);
	if (value.repeated)
		return recipe_refuse_repeated(part, ret_problem);
	if (!part->optional && !recipe_value_is_there(&value))
		return refuse_missing(run, part, &value, ret_problem);
	int error = add_value(run, part, &value, claim->except, ret_problem);
	if (error == PART_IS_MISSING)
		return refuse_missing(run, part, &value, ret_problem);
	return error < 0 ? refuse_value(part, &value, error, ret_problem) : error;
}

static int add_body(struct recipe_run *run, const struct recipe_claim *claim,
                    struct error_text *ret_problem)
{
	static const struct recipe_part part = { .kind = PART_BODY,
		                                 .optional = true,
		                                 .text = { "body", 4 } };
	if (run->body == BODY_UNREAD)
		recipe_read_body(run);
	struct span body = run->input.body;
	struct recipe_value value = { .text = { body, EVENT_TEXT_PLAIN }, .type = DIGEST_BODY };
	if (run->body == BODY_JSON)
		value.type = run->doc.root == JSON_OBJECT ? DIGEST_OBJECT : DIGEST_ARRAY;
	int error = add_value(run, &part, &value, claim->except, ret_problem);
	return error < 0 ? refuse_value(&part, &value, error, ret_problem) : error;
}

/* Parts that are the same for all items of a batch would make them one. */
static int add_place(struct recipe_run *run, const struct recipe_claim *claim)
{
	char digits[TEXT_U64_MAX];
	if (!run->in_batch || claim->of_body)
		return 0;
	size_t len = text_u64(digits, run->place);
	return digest_add(&run->digest, DIGEST_PLACE, span_of(digits, len));
}

static int add_parts(struct recipe_run *run, const struct recipe_claim *claim,
                     struct error_text *ret_problem)
{
	int error = 0;
	digest_begin(&run->digest, &claim->scope);
	if (claim->kind == CLAIM_NEWEST)
		error = digest_add(&run->digest, DIGEST_FORWARDS, SPAN_EMPTY);
	if (claim->part_count == 0)
		error = add_body(run, claim, ret_problem);
	for (uint32_t i = 0; error == 0 && i < claim->part_count; i++)
		error = add_part(run, claim, claim->parts[i], ret_problem);
	if (error != PART_IS_MISSING || claim->missing != RECIPE_MISSING_DIGEST)
		return error ? error : add_place(run, claim);
	digest_begin(&run->digest, &claim->scope);
	return add_body(run, claim, ret_problem);
}

static uint64_t rank_of(struct recipe_run *run, const struct recipe_claim *claim)
{
	char bytes[DIGEST_PART_MAX];
	struct span text;
	struct recipe_value value = recipe_part_value(run, claim->rank);
	if (event_text_value(value.text, bytes, sizeof(bytes), &text) < 0)
		return 0;
	for (uint32_t i = 0; i < claim->rank_count; i++)
		if (span_eq(text, claim->ranks[i]))
			return i + 1;
	return 0;
}

/* Milliseconds << 8 | rank. */
static int read_order(struct recipe_run *run, const struct recipe_claim *claim, uint64_t *ret_order,
                      struct error_text *ret_problem)
{
	const struct recipe_part *part = &run->recipe->parts[claim->time];
	struct recipe_value value = recipe_part_value(run, claim->time);
	uint64_t ms;
	if (value.repeated)
		return recipe_refuse_repeated(part, ret_problem);
	if (!recipe_value_is_there(&value))
		return refuse_missing(run, part, &value, ret_problem);
	if (event_time_ms(value.text, &ms) < 0) {
		char name[RECIPE_PART_NAME_MAX];
		recipe_part_name(part, name);
		error_fill(ret_problem, ERR_INVALID,
		           "expected a time in %s: ISO 8601, or seconds or milliseconds since 1970",
		           name);
		return PART_IS_MISSING;
	}
	*ret_order = ms << 8 | (claim->rank ? rank_of(run, claim) : 0);
	return 0;
}

static bool all_hold(struct recipe_run *run, const uint16_t *tests, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!recipe_test_holds(run, tests[i]))
			return false;
	return true;
}

int recipe_run_claim(struct recipe_run *run, const struct recipe_claim *claim,
                     struct claim *ret_claim, struct error_text *ret_problem)
{
	uint64_t order = 0;
	CHECK(claim->window_s > 0);
	CHECK(claim->part_count <= RECIPE_SPEC_PARTS_MAX);
	if (!all_hold(run, claim->tests, claim->test_count)) {
		error_fill(ret_problem, ERR_INVALID, "its conditions do not hold");
		return CLAIM_NOT_MEANT;
	}
	int error = add_parts(run, claim, ret_problem);
	if (error == 0 && claim->kind == CLAIM_NEWEST)
		error = read_order(run, claim, &order, ret_problem);
	if (error == PART_IS_MISSING)
		return claim->missing == RECIPE_MISSING_SKIP ? (int)CLAIM_SKIPPED : ERR_INVALID;
	if (error < 0)
		return error;
	*ret_claim = (struct claim){
		.digest = digest_end(&run->digest, run->recipe->key),
		.window_s = claim->window_s,
		.kind = (uint8_t)claim->kind,
		.shadow = claim->shadow,
		.equal_drops = claim->equal_drops,
		.order = order,
	};
	return CLAIM_TAKEN;
}
