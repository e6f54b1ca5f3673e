/* recipe: see recipe.h. */
#include "gate/recipe.h"

#include <string.h>

/* The slots of `auto`. */
enum {
	SLOT_ID = 0,
	SLOT_SOURCE,
	SLOT_TYPE,
	SLOT_SPECVERSION,
	SLOT_DETAIL_TYPE,
	SLOT_DETAIL,
	SLOT_COUNT,
};

#define BIT(n) (1u << (n))

static const struct span auto_names[SLOT_COUNT] = {
	[SLOT_ID] = { "id", 2 },
	[SLOT_SOURCE] = { "source", 6 },
	[SLOT_TYPE] = { "type", 4 },
	[SLOT_SPECVERSION] = { "specversion", 11 },
	[SLOT_DETAIL_TYPE] = { "detail-type", 11 },
	[SLOT_DETAIL] = { "detail", 6 },
};

enum {
	RULE_SOURCE_ID = 0,
	RULE_ID,
	RULE_COUNT,
};

static const struct recipe_shape auto_shapes[] = {
	{
		.kind = EVENT_CLOUDEVENTS_BINARY,
		.headers = true,
		.strings = BIT(SLOT_SPECVERSION) | BIT(SLOT_SOURCE) | BIT(SLOT_ID),
		.id = SLOT_ID,
		.type = SLOT_TYPE,
		.origin = SLOT_SOURCE,
		.rules = BIT(RULE_SOURCE_ID),
	},
	{
		.kind = EVENT_EVENTBRIDGE,
		.strings = BIT(SLOT_ID) | BIT(SLOT_SOURCE) | BIT(SLOT_DETAIL_TYPE),
		.objects = BIT(SLOT_DETAIL),
		.id = SLOT_ID,
		.type = SLOT_DETAIL_TYPE,
		.origin = SLOT_SOURCE,
		.rules = BIT(RULE_SOURCE_ID),
	},
	{
		.kind = EVENT_CLOUDEVENTS,
		.strings = BIT(SLOT_SPECVERSION) | BIT(SLOT_SOURCE) | BIT(SLOT_ID),
		.id = SLOT_ID,
		.type = SLOT_TYPE,
		.origin = SLOT_SOURCE,
		.rules = BIT(RULE_SOURCE_ID),
	},
	{
		.kind = EVENT_PLAIN,
		.strings = BIT(SLOT_ID),
		.id = SLOT_ID,
		.type = SLOT_TYPE,
		.origin = -1,
		.rules = BIT(RULE_ID),
	},
};

/* What was found of the wanted members, by slot. Only texts whose bit is set in
 * `strings` mean anything. */
struct fields {
	bool headers;
	uint32_t strings; /* not empty */
	uint32_t objects;
	struct event_text texts[JSON_WANTED_MAX];
};

static int init_rule(struct recipe_rule *rule, const struct recipe_options *options)
{
	rule->window_s = options->window_s;
	return digest_scope_init(&rule->scope, options->source, SPAN("transport"));
}

int recipe_init_auto(struct recipe *ret_recipe, const struct recipe_options *options,
                     struct error_text *ret_text)
{
	struct recipe recipe = {
		.shape_count = ARRAY_LEN(auto_shapes),
		.rule_count = RULE_COUNT,
		.rules = {
			[RULE_SOURCE_ID] = { .part_count = 2, .parts = { SLOT_SOURCE, SLOT_ID } },
			[RULE_ID] = { .part_count = 1, .parts = { SLOT_ID } },
		},
	};
	if (options->window_s == 0)
		return error_fill(ret_text, ERR_CONFIG, "a window must be at least one second");
	for (uint32_t i = 0; i < RULE_COUNT; i++)
		if (init_rule(&recipe.rules[i], options) < 0)
			return error_fill(ret_text, ERR_CONFIG,
			                  "a source's name must have 1 to %d bytes",
			                  DIGEST_SOURCE_MAX);
	memcpy(recipe.shapes, auto_shapes, sizeof(auto_shapes));
	memcpy(recipe.key, options->key, sizeof(recipe.key));
	memcpy(recipe.source, options->source.ptr, options->source.len);
	recipe.source_len = (uint32_t)options->source.len;
	int error = json_wanted_init(&recipe.wanted, auto_names, SLOT_COUNT);
	CHECK(error == 0);
	*ret_recipe = recipe;
	return 0;
}

static bool names_structured_mode(struct span content_type)
{
	struct span prefix = SPAN("application/cloudevents");
	if (content_type.len < prefix.len)
		return false;
	content_type.len = prefix.len;
	return span_eq_nocase(content_type, prefix);
}

/* The slot of a ce- header, or -1. */
static int header_slot(const struct recipe *recipe, struct span name)
{
	if (name.len < 4 || name.ptr[2] != '-' || span_lower(name.ptr[1]) != 'e')
		return -1;
	name = span_skip(name, 3);
	for (uint32_t i = 0; i < recipe->wanted.count; i++)
		if (span_eq_nocase(name, recipe->wanted.names[i]))
			return (int)i;
	return -1;
}

static inline void keep_text(struct fields *fields, int slot, struct span raw,
                             enum event_coding coding)
{
	fields->strings |= BIT(slot);
	fields->texts[slot] = (struct event_text){ raw, coding };
}

static bool is_structured(const struct recipe_input *input)
{
	for (uint32_t i = 0; i < input->header_count; i++)
		if (span_eq_nocase(input->headers[i].name, SPAN("content-type")) &&
		    names_structured_mode(input->headers[i].value))
			return true;
	return false;
}

/* Reads ce- headers and returns the slot of one that came twice, or -1;
 * fields->headers tells whether the event is in them. */
static int read_headers(const struct recipe *recipe, const struct recipe_input *input,
                        struct fields *fields)
{
	int repeated = -1;
	for (uint32_t i = 0; i < input->header_count; i++) {
		const struct http1_header *header = &input->headers[i];
		if (header->name.len == 0 || span_lower(header->name.ptr[0]) != 'c')
			continue; /* sorts out most, at the price of one byte */
		int slot = header_slot(recipe, header->name);
		if (slot < 0)
			continue;
		if (fields->strings & BIT(slot))
			repeated = slot;
		else if (header->value.len > 0)
			keep_text(fields, slot, header->value, EVENT_TEXT_HEADER);
	}
	fields->headers = (fields->strings & BIT(SLOT_SPECVERSION)) && !is_structured(input);
	return repeated;
}

static void take_body_fields(const struct recipe *recipe, const struct json_doc *doc,
                             struct fields *fields)
{
	fields->strings = 0;
	for (uint32_t i = 0; i < recipe->wanted.count; i++) {
		const struct json_value *value = &doc->values[i];
		if (value->type == JSON_OBJECT)
			fields->objects |= BIT(i);
		if (value->type != JSON_STRING || value->text.len == 0)
			continue;
		enum event_coding coding = value->escaped ? EVENT_TEXT_JSON : EVENT_TEXT_PLAIN;
		keep_text(fields, (int)i, value->text, coding);
	}
}

static const struct recipe_shape *recognise(const struct recipe *recipe,
                                            const struct fields *fields)
{
	for (uint32_t i = 0; i < recipe->shape_count; i++) {
		const struct recipe_shape *shape = &recipe->shapes[i];
		if (shape->headers == fields->headers && (shape->strings & ~fields->strings) == 0 &&
		    (shape->objects & ~fields->objects) == 0)
			return shape;
	}
	return NULL;
}

static int refuse_repeated(const struct recipe *recipe, int slot, struct error_text *ret_problem)
{
	struct span name = recipe->wanted.names[slot];
	return error_fill(ret_problem, ERR_INVALID, "expected the header ce-%.*s only once",
	                  (int)name.len, name.ptr);
}

static int refuse_headers(const struct fields *fields, struct error_text *ret_problem)
{
	static const char format[] =
		"expected a header ce-%s that is not empty, since there is ce-specversion";
	return error_fill(ret_problem, ERR_INVALID, format,
	                  fields->strings & BIT(SLOT_ID) ? "source" : "id");
}

static int refuse_body(const struct json_doc *doc, struct error_text *ret_problem)
{
	const struct json_value *id = &doc->values[SLOT_ID];
	const char *found = json_type_name(id->type);
	if (id->type == JSON_STRING)
		found = "an empty one";
	return error_fill(ret_problem, ERR_INVALID,
	                  "expected a string \"id\" in the JSON object, found %s", found);
}

static int read_body(const struct recipe *recipe, struct span body, struct fields *fields,
                     const struct recipe_shape **ret_shape, struct error_text *ret_problem)
{
	struct json_doc doc;
	if (json_scan(body, &recipe->wanted, &doc) < 0)
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected a JSON object; at byte %zu of the body: expected %s",
		                  doc.problem.offset, doc.problem.expected);
	if (doc.root != JSON_OBJECT)
		return error_fill(ret_problem, ERR_INVALID, "expected a JSON object, found %s",
		                  json_type_name(doc.root));
	take_body_fields(recipe, &doc, fields);
	*ret_shape = recognise(recipe, fields);
	return *ret_shape ? 0 : refuse_body(&doc, ret_problem);
}

static int refuse_part(const struct recipe *recipe, const struct fields *fields, uint8_t slot,
                       int error, struct error_text *ret_problem)
{
	struct span name = recipe->wanted.names[slot];
	const char *prefix = fields->headers ? "header ce-" : "member ";
	if (error == ERR_TOO_LARGE)
		return error_fill(ret_problem, error, "expected at most %d bytes in the %s%.*s",
		                  DIGEST_PART_MAX, prefix, (int)name.len, name.ptr);
	return error_fill(ret_problem, error, "expected percent-encoded UTF-8 in the %s%.*s",
	                  prefix, (int)name.len, name.ptr);
}

static int add_part(struct digest_input *digest_input, struct event_text text)
{
	char bytes[DIGEST_PART_MAX];
	struct span value;
	int error = event_text_value(text, bytes, sizeof(bytes), &value);
	if (error < 0)
		return error;
	if (value.len == 0)
		return ERR_INVALID; /* a header of two quotes */
	return digest_add(digest_input, DIGEST_STRING, value);
}

static int run_rule(const struct recipe *recipe, const struct recipe_rule *rule,
                    const struct fields *fields, struct claim *ret_claim,
                    struct error_text *ret_problem)
{
	struct digest_input input;
	CHECK(rule->part_count >= 1 && rule->part_count <= RECIPE_PARTS_MAX);
	CHECK(rule->window_s > 0);
	digest_begin(&input, &rule->scope);
	for (uint8_t i = 0; i < rule->part_count; i++) {
		uint8_t slot = rule->parts[i];
		int error = add_part(&input, fields->texts[slot]);
		if (error < 0)
			return refuse_part(recipe, fields, slot, error, ret_problem);
	}
	*ret_claim = (struct claim){ .digest = digest_end(&input, recipe->key),
	                             .window_s = rule->window_s };
	return 0;
}

static struct event_text field_text(const struct fields *fields, int8_t slot)
{
	if (slot < 0 || !(fields->strings & BIT(slot)))
		return (struct event_text){ .coding = EVENT_TEXT_NONE };
	return fields->texts[slot];
}

static struct event make_event(const struct recipe *recipe, const struct recipe_shape *shape,
                               const struct fields *fields)
{
	return (struct event){
		.kind = shape->kind,
		.json = !shape->headers,
		.source = span_of(recipe->source, recipe->source_len),
		.id = field_text(fields, shape->id),
		.type = field_text(fields, shape->type),
		.origin = field_text(fields, shape->origin),
	};
}

static int find_shape(const struct recipe *recipe, const struct recipe_input *input,
                      struct fields *fields, const struct recipe_shape **ret_shape,
                      struct error_text *ret_problem)
{
	int repeated = read_headers(recipe, input, fields);
	if (!fields->headers)
		return read_body(recipe, input->body, fields, ret_shape, ret_problem);
	if (repeated >= 0)
		return refuse_repeated(recipe, repeated, ret_problem);
	*ret_shape = recognise(recipe, fields);
	return *ret_shape ? 0 : refuse_headers(fields, ret_problem);
}

static bool is_json(struct span body)
{
	struct json_doc doc;
	return json_scan(body, NULL, &doc) == 0;
}

int recipe_run(const struct recipe *recipe, const struct recipe_input *input,
               struct event *ret_event, struct claim ret_claims[static CLAIMS_MAX],
               uint32_t *ret_claim_count, struct error_text *ret_problem)
{
	struct fields fields;
	const struct recipe_shape *shape = NULL;
	struct claim claims[CLAIMS_MAX];
	uint32_t count = 0;
	CHECK(recipe->shape_count > 0 && recipe->shape_count <= RECIPE_SHAPES_MAX);
	fields.headers = false;
	fields.strings = 0;
	fields.objects = 0;
	int error = find_shape(recipe, input, &fields, &shape, ret_problem);
	if (error != 0)
		return error;
	CHECK(shape && shape->rules);
	for (uint32_t i = 0; i < recipe->rule_count; i++) {
		if (!(shape->rules & BIT(i)))
			continue;
		CHECK(count < CLAIMS_MAX);
		error = run_rule(recipe, &recipe->rules[i], &fields, &claims[count], ret_problem);
		if (error < 0)
			return error;
		count++;
	}
	*ret_event = make_event(recipe, shape, &fields);
	if (shape->headers)
		ret_event->json = is_json(input->body);
	memcpy(ret_claims, claims, count * sizeof(claims[0]));
	*ret_claim_count = count;
	return 0;
}
