/* recipe_items: the events of one request. See recipe.h. */
#include "gate/recipe/recipe_internal.h"

enum {
	ITEMS_FIRST = 0, /* nothing was looked at */
	ITEMS_OBJECT,    /* the run has one object */
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
	ret_items->recipe = recipe;
	ret_items->scratch = scratch;
	ret_items->input = input;
	ret_items->lines = SPAN_EMPTY;
	ret_items->state = ITEMS_FIRST;
}

bool recipe_items_begin_line(struct recipe_items *ret_items, const struct recipe *recipe,
                             struct recipe_scratch *scratch, struct recipe_input *input,
                             struct json_lines *lines, const char *at)
{
	struct recipe_run *run = recipe_run_at(scratch, 0);
	if (!run)
		return false;
	if (!json_lines_scan(lines, at, &recipe->plan, &run->doc, &input->body))
		return false;
	recipe_items_begin(ret_items, recipe, scratch, input);
	recipe_run_begin(run, recipe, scratch, input);
	run->body = BODY_JSON;
	ret_items->state = ITEMS_OBJECT;
	return true;
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

/* The run of the item that comes next; NULL when there are too many. */
static struct recipe_run *next_run(struct recipe_items *items)
{
	struct recipe_run *run = recipe_run_at(items->scratch, 0);
	CHECK(run);
	if (items->count == items->items_max)
		return NULL;
	run->in_batch = true;
	run->place = items->count++;
	return run;
}

/* `it` is its case, or NULL. */
static enum recipe_step run_found(struct recipe_items *items, struct recipe_run *run,
                                  const struct recipe_case *it, struct recipe_result *ret_result,
                                  struct error_text *ret_problem)
{
	items->error = recipe_run_found(run, it, ret_result, ret_problem);
	if (items->error == 0)
		return RECIPE_EVENT;
	if (items->error == -ENOMEM)
		return broken(items, -ENOMEM); /* not the item's fault: all is to be sent again */
	ret_result->payload = run->input.body;
	return RECIPE_REFUSED;
}

static enum recipe_step run_item(struct recipe_items *items, struct recipe_run *run,
                                 struct recipe_result *ret_result, struct error_text *ret_problem)
{
	return run_found(items, run, recipe_find_case(run), ret_result, ret_problem);
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
	struct recipe_run *run = next_run(items);
	if (!run)
		return too_many(items, ret_problem);
	recipe_run_next(run, line, BODY_UNREAD);
	return run_item(items, run, ret_result, ret_problem);
}

static int refuse_array(const struct recipe_run *run, struct error_text *ret_problem)
{
	const struct json_problem *problem = &run->doc.problem;
	return error_fill(ret_problem, ERR_INVALID,
	                  "expected a JSON array of events; at byte %zu of it: expected %s",
	                  problem->offset, problem->expected);
}

/* A name twice spoils its own event alone: the scan goes on without the plan. */
static enum recipe_step refuse_element(struct recipe_items *items, struct recipe_run *run,
                                       struct recipe_result *ret_result,
                                       struct error_text *ret_problem)
{
	struct json_problem problem = run->doc.problem;
	struct span element;
	if (!problem.repeated ||
	    json_elements_next(&items->elements, NULL, &run->doc, &element) != 1)
		return broken(items, refuse_array(run, ret_problem));
	if (!next_run(items))
		return too_many(items, ret_problem);
	ret_result->payload = element;
	items->error = error_fill(ret_problem, ERR_INVALID, "at byte %zu of it: expected %s",
	                          problem.offset - (size_t)(element.ptr - items->elements.start),
	                          problem.expected);
	return RECIPE_REFUSED;
}

static enum recipe_step next_element(struct recipe_items *items, struct recipe_result *ret_result,
                                     struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(items->scratch, 0);
	struct span element;
	CHECK(run);
	int more = json_elements_next(&items->elements, &items->recipe->plan, &run->doc, &element);
	if (more < 0)
		return refuse_element(items, run, ret_result, ret_problem);
	if (more == 0) {
		items->state = ITEMS_ENDED;
		return RECIPE_END;
	}
	if (!next_run(items))
		return too_many(items, ret_problem);
	recipe_run_next(run, element, BODY_JSON);
	return run_item(items, run, ret_result, ret_problem);
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

/* One event, or an object with a batch inside. */
static enum recipe_step run_object(struct recipe_items *items, struct recipe_run *run,
                                   struct recipe_result *ret_result, struct error_text *ret_problem)
{
	const struct recipe_case *it = recipe_find_case(run);
	if (it && it->fields[FIELD_ITEMS] && items->recipe->batch == RECIPE_BATCH_AUTO) {
		struct recipe_value value = recipe_part_value(run, it->fields[FIELD_ITEMS]);
		if (value.type == DIGEST_ARRAY)
			return begin_array(items, value.text.raw, ret_result, ret_problem);
	}
	items->state = ITEMS_ENDED;
	items->count = 1;
	return run_found(items, run, it, ret_result, ret_problem);
}

static enum recipe_step scanned_item(struct recipe_items *items, struct recipe_result *ret_result,
                                     struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(items->scratch, 0);
	CHECK(run && run->body == BODY_JSON);
	return run_object(items, run, ret_result, ret_problem);
}

static enum recipe_step first_item(struct recipe_items *items, struct recipe_result *ret_result,
                                   struct error_text *ret_problem)
{
	struct recipe_run *run = recipe_run_at(items->scratch, 0);
	if (!run)
		return broken(items, error_fill(ret_problem, -ENOMEM,
		                                "there is no memory for the recipe"));
	recipe_run_begin(run, items->recipe, items->scratch, items->input);
	struct span body = items->input->body;
	while (body.len > 0 && json_is_blank(body.ptr[0]))
		body = span_skip(body, 1);
	bool array = body.len > 0 && body.ptr[0] == '[';
	bool lines = is_ndjson(run);
	if (items->recipe->batch == RECIPE_BATCH_NEVER || (!array && !lines) ||
	    recipe_find_whole(run))
		return run_object(items, run, ret_result, ret_problem);
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
	case ITEMS_OBJECT: return scanned_item(items, ret_result, ret_problem);
	case ITEMS_LINES: return next_line(items, ret_result, ret_problem);
	case ITEMS_ELEMENTS: return next_element(items, ret_result, ret_problem);
	default: return RECIPE_END;
	}
}
