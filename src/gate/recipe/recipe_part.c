/* recipe_part: what the parts of a recipe have in an event. See recipe.h. */
#include <stdio.h>

#include "codec/url.h"
#include "gate/recipe/recipe_internal.h"

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

static void read_header(struct recipe_run *run, const struct http1_header *header)
{
	const struct recipe_headers *headers = &run->recipe->headers;
	for (uint32_t i = 0; i < headers->count; i++) {
		if (!span_eq_nocase(headers->names[i], header->name))
			continue;
		uint32_t bit = 1u << i;
		if (run->headers_there & bit)
			run->headers_repeated |= bit;
		else if (header->value.len > 0)
			run->headers[i] = header->value;
		run->headers_there |= header->value.len > 0 ? bit : 0;
		return;
	}
}

void recipe_read_headers(struct recipe_run *run)
{
	const struct recipe_headers *headers = &run->recipe->headers;
	run->headers_read = true;
	for (uint32_t i = 0; i < run->input.header_count; i++) {
		const struct http1_header *header = &run->input.headers[i];
		size_t len = header->name.len;
		/* Length and first letter sort out most, at the price of one load. */
		if (len > 0 && len <= RECIPE_HEADER_NAME_MAX &&
		    headers->letters[len] >> (header->name.ptr[0] & 31) & 1)
			read_header(run, header);
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

static struct recipe_value header_value(struct recipe_run *run, const struct recipe_part *part)
{
	uint32_t bit = 1u << part->header;
	if (!run->headers_read)
		recipe_read_headers(run);
	if (!(run->headers_there & bit))
		return missing;
	struct recipe_value value = text_value(run->headers[part->header], part->coding);
	value.repeated = run->headers_repeated & bit;
	return value;
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

static struct recipe_value segment_value(const struct recipe_run *run, uint32_t number)
{
	struct span rest = run->input.path;
	for (; rest.len > 0 && number > 0; number--) {
		rest = span_skip(rest, 1); /* its slash */
		const char *slash = rest.len && rest.ptr ? memchr(rest.ptr, '/', rest.len) : NULL;
		size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
		if (number == 1 && len > 0)
			return text_value(span_of(rest.ptr, len), EVENT_TEXT_PERCENT);
		rest = span_skip(rest, len);
	}
	return missing;
}

static struct recipe_value body_value(struct recipe_run *run)
{
	struct span body = run->input.body;
	if (run->body == BODY_OTHER)
		return body.len == 0 ? missing
		                     : (struct recipe_value){
					       .type = DIGEST_BODY,
					       .text = { body, EVENT_TEXT_PLAIN },
				       };
	struct json_value json = { .type = run->doc.root, .text = body };
	struct recipe_value value = json_to_value(&json);
	/* The canonical form does not care about quotes and blanks around it. */
	value.type = json.type == JSON_OBJECT ? DIGEST_OBJECT : DIGEST_ARRAY;
	return value;
}

struct recipe_value recipe_part_value(struct recipe_run *run, uint16_t number)
{
	const struct recipe_part *part = &run->recipe->parts[number];
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
	case PART_BODY: return body_value(run);
	case PART_HEADER: return header_value(run, part);
	case PART_QUERY: return param_value(run->input.query, part->name);
	case PART_FORM: return is_form(run) ? param_value(run->input.body, part->name) : missing;
	case PART_PATH: return segment_value(run, part->segment);
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
	bool scalar = value->type == DIGEST_STRING || value->type == DIGEST_NUMBER ||
	              value->type == DIGEST_LITERAL;
	if (!scalar)
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

static bool is_matched(struct recipe_run *run, const struct recipe_test *test)
{
	struct recipe_value value = recipe_part_value(run, test->part);
	return recipe_value_is_there(&value) && (test->any || value_matches(test, &value));
}

bool recipe_test_holds(struct recipe_run *run, uint16_t number)
{
	uint64_t bit = UINT64_C(1) << (number % 64);
	uint32_t word = number / 64;
	if (run->judged[word] & bit)
		return run->held[word] & bit;
	const struct recipe_test *test = &run->recipe->tests[number];
	bool holds = is_matched(run, test);
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

bool recipe_find_whole(struct recipe_run *run)
{
	const struct recipe *recipe = run->recipe;
	for (uint32_t i = 0; i < recipe->case_count; i++)
		if (recipe->cases[i].whole && recipe_case_holds(run, &recipe->cases[i]))
			return true;
	return false;
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
