/* recipe_run: from a request to its events, and from an event to its claims. See recipe.h. */
#include "gate/recipe/recipe.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "codec/jcs.h"
#include "gate/recipe/recipe_internal.h"

struct recipe_run *recipe_run_at(struct recipe_scratch *scratch, uint32_t level)
{
	CHECK(level <= RECIPE_INNER_MAX);
	if (!scratch->runs[level]) {
		struct buf *bufs[] = { &scratch->canonical, &scratch->sorting, &scratch->list };
		for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
			bufs[i]->cap = RECIPE_SCRATCH_MAX;
		for (size_t i = 0; i < RECIPE_INNER_MAX; i++)
			scratch->inner[i].cap = RECIPE_SCRATCH_MAX;
		scratch->runs[level] = mem_zalloc(1, sizeof(struct recipe_run));
	}
	return scratch->runs[level];
}

void recipe_scratch_free(struct recipe_scratch *scratch)
{
	buf_free(&scratch->canonical);
	buf_free(&scratch->sorting);
	buf_free(&scratch->list);
	for (size_t i = 0; i < RECIPE_INNER_MAX; i++)
		buf_free(&scratch->inner[i]);
	for (size_t i = 0; i <= RECIPE_INNER_MAX; i++)
		scratch->runs[i] = mem_free(scratch->runs[i]);
}

void recipe_run_begin(struct recipe_run *run, const struct recipe *recipe,
                      struct recipe_scratch *scratch, const struct recipe_input *input)
{
	run->recipe = recipe;
	run->scratch = scratch;
	run->input = *input;
	run->level = 0;
	run->in_batch = false;
	run->place = 0;
	run->headers_read = input->header_count == 0;
	run->headers_there = 0;
	run->headers_repeated = 0;
	recipe_run_next(run, input->body, BODY_UNREAD);
}

void recipe_run_next(struct recipe_run *run, struct span bytes, enum recipe_body body)
{
	run->input.body = bytes;
	run->body = body;
	memset(run->judged, 0, sizeof(run->judged));
	memset(run->held, 0, sizeof(run->held));
}

/* As written but for blanks between tokens, if there are any; or the canonical form. */
static int digest_content(struct recipe_run *run, struct span text, bool json, uint64_t *ret_digest)
{
	struct buf *compact = &run->scratch->canonical;
	int error = ERR_INVALID;
	if (json && run->recipe->compare_values) {
		static const struct jcs_options exact = { .exact = true };
		struct json_problem problem;
		buf_clear(compact);
		error = jcs_write(text, &exact, compact, &run->scratch->sorting, &problem);
		if (error == 0)
			text = buf_span(compact);
	}
	if (error == -ENOMEM)
		return error;
	if (error != 0 && json && run->doc.blanks) {
		buf_clear(compact);
		error = buf_reserve(compact, text.len);
		if (error < 0)
			return error;
		text = span_of(compact->ptr, json_compact(text, compact->ptr));
	}
	*ret_digest = hash_secret64(&run->recipe->content_secret, text.ptr, text.len);
	return 0;
}

static int read_content(struct recipe_run *run, const struct recipe_case *it, uint64_t *ret_digest)
{
	uint16_t part = it->fields[FIELD_CONTENT];
	struct recipe_value value = { .type = DIGEST_MISSING };
	if (part)
		value = recipe_part_value(run, part);
	if (!recipe_value_is_there(&value))
		return digest_content(run, run->input.body, run->body == BODY_JSON, ret_digest);
	bool nested = value.type == DIGEST_OBJECT || value.type == DIGEST_ARRAY ||
	              value.type == DIGEST_LIST;
	if (run->recipe->compare_values && value.type == DIGEST_STRING) {
		/* A string with escapes, of which there are several for one value. */
		struct buf *out = &run->scratch->canonical;
		buf_clear(out);
		int error = buf_reserve(out, value.text.raw.len + 1);
		/* What cannot be decoded is compared as it is. */
		if (error == 0 &&
		    event_text_value(value.text, out->ptr, out->room, &value.text.raw) == 0)
			value.text.coding = EVENT_TEXT_PLAIN;
		if (error < 0)
			return error;
	}
	bool number = run->recipe->compare_values && value.type == DIGEST_NUMBER;
	return digest_content(run, value.text.raw, nested || number, ret_digest);
}

/* A field's text; containers have none. */
static int read_field(struct recipe_run *run, uint16_t part, struct event_text *ret_text,
                      struct error_text *ret_problem)
{
	struct recipe_value value = recipe_part_value(run, part);
	if (value.repeated)
		return recipe_refuse_repeated(&run->recipe->parts[part], ret_problem);
	*ret_text = (struct event_text){ .coding = EVENT_TEXT_NONE };
	if (recipe_value_is_scalar(&value) && recipe_value_is_there(&value))
		*ret_text = value.text;
	return 0;
}

static int read_fields(struct recipe_run *run, const struct recipe_case *it, struct event *event,
                       struct error_text *ret_problem)
{
	const uint16_t *fields = it->fields;
	event->name = it->name;
	event->source = run->recipe->source;
	event->replay = false;
	int error = read_field(run, fields[FIELD_ID], &event->id, ret_problem);
	error |= read_field(run, fields[FIELD_TYPE], &event->type, ret_problem);
	error |= read_field(run, fields[FIELD_ENTITY], &event->entity, ret_problem);
	error |= read_field(run, fields[FIELD_TIME], &event->time, ret_problem);
	error |= read_field(run, fields[FIELD_CORRELATION], &event->correlation, ret_problem);
	error |= read_field(run, fields[FIELD_ORIGIN], &event->origin, ret_problem);
	if (fields[FIELD_REPLAY]) {
		struct recipe_value value = recipe_part_value(run, fields[FIELD_REPLAY]);
		event->replay = recipe_value_is_there(&value);
	}
	return error ? ERR_INVALID : 0; /* the only one there is */
}

static int read_claims(struct recipe_run *run, const struct recipe_case *it,
                       struct recipe_result *result, struct error_text *ret_problem)
{
	for (uint32_t i = 0; i < it->claim_count; i++) {
		uint32_t n = result->claim_count;
		int fate = recipe_run_claim(run, &it->claims[i], &result->claims[n], ret_problem);
		if (fate < 0)
			return fate;
		result->claim_count += fate == CLAIM_TAKEN;
	}
	/* ret_problem has the words of the last that was left out. */
	return result->claim_count ? 0 : ERR_INVALID;
}

/* A text that a name twice on a used path spoilt for the recipe is JSON still. */
static bool is_json(const struct recipe_run *run)
{
	struct json_doc doc;
	if (run->body == BODY_JSON || !run->doc.problem.repeated)
		return run->body == BODY_JSON;
	return json_scan(run->input.body, NULL, &doc) == 0;
}

/* Known to be one line: so writers of lines need not scan it. (A JSON string has no line
 * breaks.) */
static bool is_line(const struct recipe_run *run)
{
	struct span body = run->input.body;
	return run->body == BODY_JSON && !run->doc.blanks && !json_is_blank(body.ptr[0]) &&
	       !json_is_blank(body.ptr[body.len - 1]);
}

int recipe_run_case(struct recipe_run *run, const struct recipe_case *it,
                    struct recipe_result *ret_result, struct error_text *ret_problem)
{
	ret_result->payload = run->input.body;
	ret_result->claim_count = 0;
	if (it->fields[FIELD_ITEMS])
		return error_fill(ret_problem, ERR_INVALID,
		                  "expected one event, found a batch of them (%s)", it->name);
	int error = read_fields(run, it, &ret_result->event, ret_problem);
	if (error == 0 && !(ret_result->event.replay && run->recipe->replay_passes))
		error = read_claims(run, it, ret_result, ret_problem);
	if (error < 0)
		return error;
	/* In an event that is known by its headers the body may be anything: repeated names in
	 * it do not matter. */
	if (run->body == BODY_UNREAD && run->recipe->parts[it->fields[FIELD_CONTENT]].of_body)
		recipe_read_body(run);
	if (run->body == BODY_UNREAD)
		run->body = json_scan(run->input.body, NULL, &run->doc) == 0 ? BODY_JSON
		                                                             : BODY_OTHER;
	ret_result->event.json = is_json(run);
	ret_result->event.line = is_line(run);
	error = read_content(run, it, &ret_result->event.content);
	if (error == ERR_TOO_LARGE)
		error_fill(ret_problem, error, "the content is too large to be compared");
	if (error < 0)
		return error;
	/* Claims of kind `once` carry a check, to detect changed content; 0 is unknown. */
	uint64_t content = ret_result->event.content;
	uint32_t check = (uint32_t)(content ^ content >> 32);
	check |= content != 0 && check == 0;
	for (uint32_t i = 0; i < ret_result->claim_count; i++) {
		struct claim *claim = &ret_result->claims[i];
		claim->digest = digest_with_check(claim->digest,
		                                  claim->kind == CLAIM_ONCE ? check : 0);
	}
	return 0;
}

static int run_event(struct recipe_run *run, const struct recipe_case *it,
                     struct recipe_result *ret_result, struct error_text *ret_problem);

int recipe_run_inner(struct recipe_run *run, const struct recipe_case *it,
                     struct recipe_run **ret_inner, struct recipe_result *ret_result)
{
	struct error_text unused;
	struct span bytes;
	/* The bytes of the event inside, decoded where they have to be. */
	struct recipe_value value = recipe_part_value(run, it->fields[FIELD_INNER]);
	struct span raw = value.text.raw;
	if (value.type != DIGEST_STRING || run->level == RECIPE_INNER_MAX)
		return ERR_INVALID;
	if (value.text.coding == EVENT_TEXT_JSON) {
		struct buf *decoded = &run->scratch->inner[run->level];
		buf_clear(decoded);
		int error = buf_reserve(decoded, raw.len);
		if (error == 0)
			error = json_decode(raw, decoded->ptr, raw.len, &decoded->len);
		if (error < 0)
			return error;
		raw = buf_span(decoded);
	}
	bytes = raw;
	struct recipe_run *inner = recipe_run_at(run->scratch, run->level + 1);
	if (!inner)
		return -ENOMEM;
	/* It was in a string: the headers describe the event around it. */
	recipe_run_begin(inner, run->recipe, run->scratch, &(struct recipe_input){ .body = bytes });
	inner->level = run->level + 1;
	*ret_inner = inner;
	return run_event(inner, recipe_find_case(inner), ret_result, &unused);
}

int recipe_refuse(struct recipe_run *run, struct error_text *ret_problem)
{
	const struct recipe *recipe = run->recipe;
	const struct recipe_case *last = &recipe->cases[recipe->case_count - 1];
	char name[RECIPE_PART_NAME_MAX];
	if (run->body == BODY_OTHER)
		return recipe_refuse_body(run, ret_problem);
	if (run->doc.root != JSON_OBJECT)
		return error_fill(ret_problem, ERR_INVALID, "expected a JSON object, found %s",
		                  json_type_name(run->doc.root));
	for (uint32_t i = 0; i < last->test_count; i++) {
		const struct recipe_test *test = &recipe->tests[last->tests[i]];
		if (recipe_test_holds(run, last->tests[i]))
			continue;
		struct recipe_value value = recipe_part_value(run, test->part);
		recipe_part_name(&recipe->parts[test->part], name);
		return error_fill(ret_problem, ERR_INVALID,
		                  "not recognised as an event; the recipe %s expected %s%s%.*s, "
		                  "found %s",
		                  last->name, name,
		                  test->any      ? ""
		                  : test->negate ? " not "
		                                 : " ",
		                  (int)test->text.len, test->text.ptr, recipe_value_name(&value));
	}
	return error_fill(ret_problem, ERR_INVALID,
	                  "not recognised as an event: no recipe matches");
}

/* `it` is the case that was found, or NULL. Its own claims, or those of the event that is
 * a string of this one. */
static int run_event(struct recipe_run *run, const struct recipe_case *it,
                     struct recipe_result *ret_result, struct error_text *ret_problem)
{
	struct recipe_run *inner;
	if (!it)
		return recipe_refuse(run, ret_problem);
	int error = it->fields[FIELD_INNER] ? recipe_run_inner(run, it, &inner, ret_result)
	                                    : ERR_INVALID;
	if (error == 0) {
		ret_result->payload = run->input.body;
		ret_result->event.json = true;
		ret_result->event.line = is_line(run);
	} else if (error != -ENOMEM) {
		error = recipe_run_case(run, it, ret_result, ret_problem);
	}
	if (unlikely(error == -ENOMEM))
		error_fill(ret_problem, error, "there is no memory for the recipe");
	return error;
}

int recipe_run(const struct recipe *recipe, struct recipe_scratch *scratch,
               const struct recipe_input *input, struct recipe_result *ret_result,
               struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);
	if (!run)
		return error_fill(ret_problem, -ENOMEM, "there is no memory for the recipe");
	recipe_run_begin(run, recipe, scratch, input);
	return run_event(run, recipe_find_case(run), ret_result, ret_problem);
}

/* ---- the events of one request ---- */

enum {
	ITEMS_FIRST = 0, /* nothing was looked at */
	ITEMS_LINES,
	ITEMS_ELEMENTS,
	ITEMS_ENDED,
};

void recipe_items_begin(struct recipe_items *ret_items, const struct recipe *recipe,
                        struct recipe_scratch *scratch, const struct recipe_input *input)
{
	/* One by one: to clear all of it would take longer than a small event does. */
	ret_items->batch = false;
	ret_items->error = 0;
	ret_items->count = 0;
	ret_items->items_max = RECIPE_ITEMS_MAX;
	ret_items->run = recipe_run_at(scratch, 0);
	ret_items->lines = SPAN_EMPTY;
	ret_items->state = ITEMS_FIRST;
	if (ret_items->run)
		recipe_run_begin(ret_items->run, recipe, scratch, input);
}

static bool is_ndjson(struct recipe_run *run)
{
	static const struct span types[] = {
		{ "application/x-ndjson", 20 },
		{ "application/ndjson", 18 },
		{ "application/jsonl", 17 },
		{ "application/x-jsonlines", 23 },
	};
	if (!run->headers_read)
		recipe_read_headers(run);
	if (!(run->headers_there & 1u << HEADER_CONTENT_TYPE))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (http1_is_media_type(run->headers[HEADER_CONTENT_TYPE], types[i]))
			return true;
	return false;
}

static enum recipe_step broken(struct recipe_items *items, int error)
{
	items->state = ITEMS_ENDED;
	items->error = error;
	return RECIPE_BROKEN;
}

static enum recipe_step too_many(struct recipe_items *items, struct error_text *ret_problem)
{
	return broken(items,
	              error_fill(ret_problem, ERR_TOO_LARGE,
	                         "expected at most %u events in one request", items->items_max));
}

/* False: there are too many. */
static bool count_item(struct recipe_items *items)
{
	if (items->count == items->items_max)
		return false;
	items->run->in_batch = true;
	items->run->place = items->count++;
	return true;
}

/* `it` is its case, or NULL. */
static enum recipe_step run_found(struct recipe_items *items, const struct recipe_case *it,
                                  struct recipe_result *ret_result, struct error_text *ret_problem)
{
	items->error = run_event(items->run, it, ret_result, ret_problem);
	if (items->error == 0)
		return RECIPE_EVENT;
	if (items->error == -ENOMEM)
		return broken(items, -ENOMEM); /* not the item's fault: all is to be sent again */
	ret_result->payload = items->run->input.body;
	return RECIPE_REFUSED;
}

static enum recipe_step run_item(struct recipe_items *items, struct span bytes,
                                 enum recipe_body body, struct recipe_result *ret_result,
                                 struct error_text *ret_problem)
{
	if (!count_item(items))
		return too_many(items, ret_problem);
	recipe_run_next(items->run, bytes, body);
	return run_found(items, recipe_find_case(items->run), ret_result, ret_problem);
}

static enum recipe_step next_line(struct recipe_items *items, struct recipe_result *ret_result,
                                  struct error_text *ret_problem)
{
	struct span line = SPAN_EMPTY;
	while (line.len == 0 && items->lines.len > 0) {
		struct span rest = items->lines;
		const char *eol = memchr(rest.ptr, '\n', rest.len);
		size_t len = eol ? (size_t)(eol - rest.ptr) : rest.len;
		line = json_trim(span_of(rest.ptr, len));
		items->lines = span_skip(rest, len + 1);
	}
	if (line.len == 0) {
		items->state = ITEMS_ENDED;
		return RECIPE_END;
	}
	return run_item(items, line, BODY_UNREAD, ret_result, ret_problem);
}

static enum recipe_step next_element(struct recipe_items *items, struct recipe_result *ret_result,
                                     struct error_text *ret_problem)
{
	struct recipe_run *run = items->run;
	struct span element;
	int more = json_elements_next(&items->elements, &run->recipe->plan, &run->doc, &element);
	if (more < 0) {
		/* A name twice spoils its own event alone: the scan continues without the plan. */
		struct json_problem problem = run->doc.problem;
		if (!problem.repeated ||
		    json_elements_next(&items->elements, NULL, &run->doc, &element) != 1)
			return broken(items, error_fill(ret_problem, ERR_INVALID,
			                                "expected a JSON array of events; at byte "
			                                "%zu of it: expected %s",
			                                run->doc.problem.offset,
			                                run->doc.problem.expected));
		if (!count_item(items))
			return too_many(items, ret_problem);
		ret_result->payload = element;
		items->error =
			error_fill(ret_problem, ERR_INVALID, "at byte %zu of it: expected %s",
		                   problem.offset - (size_t)(element.ptr - items->elements.start),
		                   problem.expected);
		return RECIPE_REFUSED;
	}
	if (more == 0) {
		items->state = ITEMS_ENDED;
		return RECIPE_END;
	}
	return run_item(items, element, BODY_JSON, ret_result, ret_problem);
}

static enum recipe_step begin_array(struct recipe_items *items, struct span array,
                                    struct recipe_result *ret_result,
                                    struct error_text *ret_problem)
{
	int error = json_elements_begin(&items->elements, array);
	CHECK(error == 0);
	items->batch = true;
	items->state = ITEMS_ELEMENTS;
	return next_element(items, ret_result, ret_problem);
}

static enum recipe_step first_item(struct recipe_items *items, struct recipe_result *ret_result,
                                   struct error_text *ret_problem)
{
	struct recipe_run *run = items->run;
	if (!run)
		return broken(items, error_fill(ret_problem, -ENOMEM,
		                                "there is no memory for the recipe"));
	struct span body = run->input.body;
	while (body.len > 0 && json_is_blank(body.ptr[0]))
		body = span_skip(body, 1);
	bool array = body.len > 0 && body.ptr[0] == '[';
	bool lines = is_ndjson(run);
	const struct recipe *recipe = run->recipe;
	bool whole = recipe->batch == RECIPE_BATCH_NEVER || (!array && !lines);
	/* The body of an event that is known by its headers alone is no batch. */
	for (uint32_t i = 0; !whole && i < recipe->case_count; i++)
		whole = recipe->cases[i].whole && recipe_case_holds(run, &recipe->cases[i]);
	if (whole) {
		/* One event, or an object with a batch inside. */
		const struct recipe_case *it = recipe_find_case(run);
		if (it && it->fields[FIELD_ITEMS] && run->recipe->batch == RECIPE_BATCH_AUTO) {
			struct recipe_value value = recipe_part_value(run, it->fields[FIELD_ITEMS]);
			if (value.type == DIGEST_ARRAY)
				return begin_array(items, value.text.raw, ret_result, ret_problem);
		}
		items->state = ITEMS_ENDED;
		items->count = 1;
		return run_found(items, it, ret_result, ret_problem);
	}
	if (!lines)
		return begin_array(items, body, ret_result, ret_problem);
	items->batch = true;
	items->lines = body;
	items->state = ITEMS_LINES;
	return next_line(items, ret_result, ret_problem);
}

enum recipe_step recipe_items_next(struct recipe_items *items, struct recipe_result *ret_result,
                                   struct error_text *ret_problem)
{
	switch (items->state) {
	case ITEMS_FIRST: return first_item(items, ret_result, ret_problem);
	case ITEMS_LINES: return next_line(items, ret_result, ret_problem);
	case ITEMS_ELEMENTS: return next_element(items, ret_result, ret_problem);
	default: return RECIPE_END;
	}
}

/* ---- cases, for routes ---- */

int recipe_match(const struct recipe *recipe, struct recipe_scratch *scratch,
                 const struct recipe_input *input, uint64_t cases, uint64_t *ret_held,
                 struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);
	uint64_t held = 0;
	if (!run)
		return -ENOMEM;
	recipe_run_begin(run, recipe, scratch, input);
	for (uint32_t i = 0; i < recipe->case_count && i < 64; i++)
		if (cases >> i & 1 && recipe_case_holds(run, &recipe->cases[i]))
			held |= UINT64_C(1) << i;
	if (run->body == BODY_OTHER && run->doc.problem.repeated)
		return recipe_refuse_body(run, ret_problem);
	*ret_held = held;
	return 0;
}

struct event_text recipe_match_entity(const struct recipe_scratch *scratch, uint32_t number)
{
	struct recipe_run *run = scratch->runs[0];
	CHECK(run && number < run->recipe->case_count);
	struct event_text entity;
	if (read_field(run, run->recipe->cases[number].fields[FIELD_ENTITY], &entity, NULL) < 0)
		return (struct event_text){ .coding = EVENT_TEXT_NONE };
	return entity;
}
