/* recipe_claim: what the parts of a recipe have in an event, and the claims of these. See
 * recipe.h. */
#include <stdio.h>

#include "base/text.h"
#include "codec/jcs.h"
#include "codec/json_number.h"
#include "codec/url.h"
#include "gate/recipe/recipe_internal.h"

/* ---- parts, tests and cases ---- */

#define DECODED_MAX 2048 /* bytes of a value that a pattern is held against */

static const struct recipe_value missing = { .type = DIGEST_MISSING };

void recipe_read_body(struct recipe_run *run)
{
	int error = json_scan(run->input.body, &run->recipe->plan, &run->doc);
	run->body = error == 0 ? BODY_JSON : BODY_OTHER;
	if (error == 0)
		return;
	run->doc.seen = (struct json_set){ { 0 } };
	run->doc.there = (struct json_set){ { 0 } };
}

void recipe_read_headers(struct recipe_run *run)
{
	run->headers_read = true;
	const struct recipe_headers *wanted = &run->recipe->headers;
	for (uint32_t i = 0; i < run->input.header_count; i++) {
		const struct http1_header *header = &run->input.headers[i];
		uint32_t at = 0;
		while (at < wanted->count && !span_eq_nocase(wanted->names[at], header->name))
			at++;
		if (at == wanted->count)
			continue;
		uint32_t bit = 1u << at;
		if (run->headers_there & bit)
			run->headers_repeated |= bit;
		else if (header->value.len > 0)
			run->headers[at] = header->value;
		run->headers_there |= header->value.len > 0 ? bit : 0;
	}
}

static struct recipe_value json_to_value(const struct json_value *json)
{
	static const enum digest_part types[] = {
		[JSON_NONE] = DIGEST_MISSING,  [JSON_NULL] = DIGEST_LITERAL,
		[JSON_FALSE] = DIGEST_LITERAL, [JSON_TRUE] = DIGEST_LITERAL,
		[JSON_NUMBER] = DIGEST_NUMBER, [JSON_STRING] = DIGEST_STRING,
		[JSON_OBJECT] = DIGEST_OBJECT, [JSON_ARRAY] = DIGEST_ARRAY,
	};
	enum event_coding coding = json->escaped ? EVENT_TEXT_JSON : EVENT_TEXT_PLAIN;
	if (json->type == JSON_NONE)
		return missing;
	return (struct recipe_value){ .type = types[json->type], .text = { json->text, coding } };
}

static struct recipe_value text_value(struct span raw, enum event_coding coding)
{
	return (struct recipe_value){ .type = DIGEST_STRING, .text = { raw, coding } };
}

static struct recipe_value param_value(struct span params, struct span name)
{
	struct span raw = SPAN_EMPTY;
	uint32_t count = url_param_find(params, name, &raw);
	if (count == 0)
		return missing;
	struct recipe_value value = text_value(raw, EVENT_TEXT_FORM);
	value.repeated = count > 1;
	return value;
}

static bool is_form(struct recipe_run *run)
{
	if (!run->headers_read)
		recipe_read_headers(run);
	return (run->headers_there & 1u << HEADER_CONTENT_TYPE) &&
	       http1_is_media_type(run->headers[HEADER_CONTENT_TYPE],
	                           SPAN("application/x-www-form-urlencoded"));
}

struct recipe_value recipe_part_value(struct recipe_run *run, uint16_t number)
{
	const struct recipe_part *part = &run->recipe->parts[number];
	struct recipe_value value;
	struct json_value json;
	CHECK(number < run->recipe->part_count);
	if (part->of_body && run->body == BODY_UNREAD)
		recipe_read_body(run);
	switch (part->kind) {
	case PART_JSON: json = json_get(&run->doc, part->node); return json_to_value(&json);
	case PART_LIST:
		json = json_get(&run->doc, part->node);
		if (json.type != JSON_ARRAY)
			return missing;
		return (struct recipe_value){ DIGEST_LIST, false, { json.text, EVENT_TEXT_PLAIN } };
	case PART_BODY:
		value = text_value(run->input.body, EVENT_TEXT_PLAIN);
		value.type = DIGEST_BODY;
		if (run->body == BODY_OTHER)
			return value.text.raw.len == 0 ? missing : value;
		/* The canonical form does not care about quotes and blanks around it. */
		value.type = run->doc.root == JSON_OBJECT ? DIGEST_OBJECT : DIGEST_ARRAY;
		return value;
	case PART_HEADER: {
		uint32_t bit = 1u << part->header;
		if (!run->headers_read)
			recipe_read_headers(run);
		if (!(run->headers_there & bit))
			return missing;
		value = text_value(run->headers[part->header], part->coding);
		value.repeated = run->headers_repeated & bit;
		return value;
	}
	case PART_QUERY: return param_value(run->input.query, part->name);
	case PART_FORM: return is_form(run) ? param_value(run->input.body, part->name) : missing;
	case PART_PATH: {
		struct span rest = run->input.path;
		for (uint32_t left = part->segment; rest.len > 0 && left > 0; left--) {
			rest = span_skip(rest, 1); /* its slash */
			const char *slash = rest.len && rest.ptr ? memchr(rest.ptr, '/', rest.len)
			                                         : NULL;
			size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
			if (left == 1 && len > 0)
				return text_value(span_of(rest.ptr, len), EVENT_TEXT_PERCENT);
			rest = span_skip(rest, len);
		}
		return missing;
	}
	case PART_CONST: return text_value(part->name, EVENT_TEXT_PLAIN);
	case PART_NONE: break;
	}
	return missing;
}

static bool is_null(const struct recipe_value *value)
{
	return value->type == DIGEST_LITERAL && value->text.raw.ptr[0] == 'n';
}

bool recipe_value_is_there(const struct recipe_value *value)
{
	if (value->type == DIGEST_STRING)
		return value->text.raw.len > 0;
	return value->type != DIGEST_MISSING && !is_null(value);
}

static bool value_matches(const struct recipe_test *test, const struct recipe_value *value)
{
	char bytes[DECODED_MAX];
	struct span text = value->text.raw;
	if (!recipe_value_is_scalar(value))
		return false;
	if (value->text.coding != EVENT_TEXT_PLAIN &&
	    event_text_value(value->text, bytes, sizeof(bytes), &text) < 0)
		return false;
	if (test->nocase) {
		size_t len = text.len < sizeof(bytes) ? text.len : sizeof(bytes);
		for (size_t i = 0; i < len; i++)
			bytes[i] = span_lower(text.ptr[i]);
		text = span_of(bytes, len);
	}
	return pattern_matches(&test->pattern, text);
}

bool recipe_test_holds(struct recipe_run *run, uint16_t number)
{
	uint64_t bit = UINT64_C(1) << (number % 64);
	uint32_t word = number / 64;
	if (run->judged[word] & bit)
		return run->held[word] & bit;
	const struct recipe_test *test = &run->recipe->tests[number];
	struct recipe_value value = recipe_part_value(run, test->part);
	bool holds = recipe_value_is_there(&value) && (test->any || value_matches(test, &value));
	holds ^= test->negate;
	run->judged[word] |= bit;
	run->held[word] |= holds ? bit : 0;
	return holds;
}

static inline bool lacks_nodes(const struct recipe_run *run, const struct recipe_needs *needs)
{
	uint64_t lacking = 0;
	for (int i = 0; i < JSON_SET_WORDS; i++)
		lacking |= needs->nodes.words[i] & ~run->doc.there.words[i];
	return lacking;
}

bool recipe_case_holds(struct recipe_run *run, const struct recipe_case *it)
{
	const struct recipe_needs *needs = &run->recipe->needs[it - run->recipe->cases];
	if (needs->headers && !run->headers_read)
		recipe_read_headers(run);
	if (needs->headers & ~run->headers_there)
		return false;
	if (it->body_tests && run->body == BODY_UNREAD)
		recipe_read_body(run);
	if (it->body_tests && lacks_nodes(run, needs))
		return false;
	for (uint32_t i = 0; i < it->test_count; i++)
		if (!recipe_test_holds(run, it->tests[i]))
			return false;
	return true;
}

const struct recipe_case *recipe_find_case(struct recipe_run *run)
{
	const struct recipe *recipe = run->recipe;
	for (uint32_t i = 0; i < recipe->case_count; i++)
		if (recipe_case_holds(run, &recipe->cases[i]))
			return &recipe->cases[i];
	if (run->body == BODY_UNREAD)
		recipe_read_body(run); /* for the text that says what was expected */
	return NULL;
}

void recipe_part_name(const struct recipe_part *part, char ret_name[static RECIPE_PART_NAME_MAX])
{
	static const char *const words[] = {
		[PART_NONE] = "part",         [PART_JSON] = "member",
		[PART_LIST] = "values",       [PART_BODY] = "",
		[PART_HEADER] = "header",     [PART_QUERY] = "query parameter",
		[PART_PATH] = "path segment", [PART_FORM] = "form field",
		[PART_CONST] = "text",
	};
	bool named = part->kind >= PART_HEADER;
	struct span text = named ? part->name : part->text;
	if (!named && part->optional && text.len > 0 && text.ptr[text.len - 1] == '?')
		text.len--;
	snprintf(ret_name, RECIPE_PART_NAME_MAX, "the %s%s%.*s", words[part->kind],
	         part->kind == PART_BODY ? "" : " ", text.len > 120 ? 120 : (int)text.len,
	         text.len ? text.ptr : "");
}

const char *recipe_value_name(const struct recipe_value *value)
{
	switch (value->type) {
	case DIGEST_STRING: return value->text.raw.len ? "a string" : "an empty string";
	case DIGEST_NUMBER: return "a number";
	case DIGEST_LITERAL: return is_null(value) ? "null" : "true or false";
	case DIGEST_OBJECT: return "an object";
	case DIGEST_ARRAY: return "an array";
	case DIGEST_LIST: return "a list";
	case DIGEST_BODY: return "bytes";
	default: return "nothing";
	}
}

/* ---- claims ---- */

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

static int add_hash(struct recipe_run *run, enum digest_part type, struct span bytes)
{
	struct digest_value hash = digest_of_bytes(run->recipe->key, bytes);
	return digest_add(&run->digest, type, span_of(hash.bytes, sizeof(hash.bytes)));
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
		if (list->inner ? value.type != JSON_ARRAY
		                : (value.type <= JSON_NULL ||
		                   (value.type == JSON_STRING && value.text.len == 0))) {
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

/* 0, PART_IS_MISSING or an error. */
static int add_value(struct recipe_run *run, const struct recipe_part *part,
                     const struct recipe_value *value, const struct json_plan *except,
                     struct error_text *ret_problem)
{
	struct span text = value->text.raw;
	int error = 0;
	switch (value->type) {
	case DIGEST_STRING:
		if (value->text.coding != EVENT_TEXT_PLAIN)
			error = event_text_value(value->text, digest_room(&run->digest),
			                         DIGEST_PART_MAX, &text);
		if (error == 0 && text.len == 0 && !part->optional)
			return PART_IS_MISSING; /* a header of two quotes */
		return error ? error : digest_add(&run->digest, DIGEST_STRING, text);
	case DIGEST_NUMBER:
		error = json_number_exact(text, digest_room(&run->digest), DIGEST_PART_MAX, &text);
		return error ? error : digest_add(&run->digest, DIGEST_NUMBER, text);
	case DIGEST_OBJECT:
	case DIGEST_ARRAY:
		error = canonicalise(run, text, except, ret_problem);
		if (error < 0)
			return error;
		return add_hash(run, value->type, buf_span(&run->scratch->canonical));
	case DIGEST_LIST:
		buf_clear(&run->scratch->list);
		error = append_list(run, part->list, text, part->optional, ret_problem);
		if (error != 0)
			return error;
		return add_hash(run, DIGEST_LIST, buf_span(&run->scratch->list));
	case DIGEST_BODY: return add_hash(run, DIGEST_BODY, text);
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
		/* Two parsers would see two events: no rule for missing parts applies. */
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

/* A malformed value is refused, whatever the claim's rule for missing parts. */
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
	if (error == PART_IS_MISSING && claim->missing == RECIPE_MISSING_DIGEST) {
		digest_begin(&run->digest, &claim->scope);
		return add_body(run, claim, ret_problem);
	}
	if (error != 0 || !run->in_batch || claim->of_body)
		return error;
	/* Parts that are the same for all items of a batch would make them one. */
	char digits[TEXT_U64_MAX];
	size_t len = text_u64(digits, run->place);
	return digest_add(&run->digest, DIGEST_PLACE, span_of(digits, len));
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

int recipe_run_claim(struct recipe_run *run, const struct recipe_claim *claim,
                     struct claim *ret_claim, struct error_text *ret_problem)
{
	uint64_t order = 0;
	CHECK(claim->window_s > 0);
	CHECK(claim->part_count <= RECIPE_SPEC_PARTS_MAX);
	for (uint32_t i = 0; i < claim->test_count; i++)
		if (!recipe_test_holds(run, claim->tests[i])) {
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
