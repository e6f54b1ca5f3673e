/*
 * route: see route.h.
 *
 * What routes ask of requests and payloads is compiled as the cases of one recipe,
 * case i for route i: so there is one notation, one pass over the payload for all
 * routes, and none if no route asks for anything there. A case's entity is what its
 * route orders by. Conditions on what the event itself has (type, id, …) are tested here.
 */
#include "gate/recipe/route.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"
#include "gate/digest.h"
#include "gate/pattern.h"

#define VALUE_MAX 2048 /* bytes of a value that is compared */

enum word { WORD_NONE = 0, WORD_TYPE, WORD_ID, WORD_ENTITY, WORD_SOURCE };

/* A condition on what the event itself has. */
struct test {
	enum word word;
	bool negate;
	bool any;
	struct pattern pattern;
};

struct route {
	bool looks; /* into the request or the payload */
	bool orders_by_part;
	enum word order_by;
	uint32_t test_count;
	uint32_t from_count;
	struct span *from;
	uint64_t sinks; /* bits: places in the set's sinks */
	struct test tests[RECIPE_SPEC_CONDITIONS_MAX + 1];
};

struct route_set {
	struct arena arena;
	uint32_t route_count;
	uint32_t sink_count;
	uint64_t all; /* sinks, if there is no route */
	struct route *routes;
	uint32_t *sinks;       /* their ids */
	struct recipe *recipe; /* NULL: no route needs it */
	unsigned char key[DIGEST_KEY_LEN];
};

uint32_t sink_id(struct span name)
{
	uint64_t hash = hash_checksum64(name.ptr, name.len, 0);
	uint32_t id = (uint32_t)(hash ^ hash >> 32);

	return id ? id : 1;
}

static enum word word_of(struct span text)
{
	static const struct {
		const char *name;
		enum word word;
	} words[] = { { "type", WORD_TYPE },
		      { "id", WORD_ID },
		      { "entity", WORD_ENTITY },
		      { "source", WORD_SOURCE } };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (span_eq(text, span_str(words[i].name)))
			return words[i].word;
	return WORD_NONE;
}

/* ---- compiling ---- */

struct compiler {
	const struct route_set_options *options;
	struct route_set *set;
	struct route_problem *problem;
	struct recipe_case_spec *cases; /* one for each route */
	bool looks;
};

static int refuse(struct compiler *c, const char *field, int index, const char *text)
{
	c->problem->field = field;
	c->problem->index = index;
	c->problem->column = 0;
	return error_fill(&c->problem->text, ERR_CONFIG, "%s", text);
}

static int add_test(struct compiler *c, struct route *route, const struct recipe_condition *from)
{
	struct span copy = arena_copy(&c->set->arena, from->pattern);
	struct test *test = &route->tests[route->test_count];
	if (!copy.ptr)
		return -ENOMEM;
	*test = (struct test){ .word = word_of(from->part),
		               .negate = from->negate,
		               .any = copy.len == 0 };
	if (pattern_split(copy, &test->pattern) < 0)
		return ERR_TOO_LARGE;
	route->test_count++;
	return 0;
}

#define MANY_STARS "expected at most 15 stars in a pattern"

static int add_conditions(struct compiler *c, uint32_t number, struct route *route)
{
	const struct route_spec *spec = &c->options->routes[number];
	struct recipe_case_spec *looks = &c->cases[number];
	struct recipe_condition type = { .part = SPAN("type"), .pattern = spec->type };
	int error = spec->type.len > 0 ? add_test(c, route, &type) : 0;
	if (error != 0)
		return error == -ENOMEM ? error : refuse(c, "type", -1, MANY_STARS);
	if (spec->condition_count > RECIPE_SPEC_CONDITIONS_MAX)
		return refuse(c, "when", -1, "expected at most 4 conditions");
	for (uint32_t i = 0; i < spec->condition_count; i++) {
		const struct recipe_condition *condition = &spec->conditions[i];
		if (word_of(condition->part) == WORD_NONE) {
			looks->conditions[looks->condition_count++] = *condition;
			continue;
		}
		error = add_test(c, route, condition);
		if (error != 0)
			return error == -ENOMEM ? error : refuse(c, "when", (int)i, MANY_STARS);
	}
	return 0;
}

static int add_sinks(struct compiler *c, const struct route_spec *spec, struct route *route)
{
	if (spec->nowhere == (spec->to_count > 0))
		return refuse(c, "to", -1, "expected a sink, or none");
	for (uint32_t i = 0; i < spec->to_count; i++) {
		uint32_t at = 0;
		while (at < c->options->sink_count &&
		       !span_eq(c->options->sinks[at].name, spec->to[i]))
			at++;
		if (at == c->options->sink_count)
			return refuse(c, "to", (int)i, "there is no sink of that name");
		route->sinks |= UINT64_C(1) << at;
	}
	return 0;
}

static int add_from(struct compiler *c, const struct route_spec *spec, struct route *route)
{
	if (spec->from_count == 0)
		return 0;
	route->from = arena_alloc(&c->set->arena, spec->from_count * sizeof(*route->from));
	if (!route->from)
		return -ENOMEM;
	for (uint32_t i = 0; i < spec->from_count; i++) {
		route->from[i] = arena_copy(&c->set->arena, spec->from[i]);
		if (!route->from[i].ptr)
			return -ENOMEM;
	}
	route->from_count = spec->from_count;
	return 0;
}

static int compile_route(struct compiler *c, uint32_t number)
{
	const struct route_spec *spec = &c->options->routes[number];
	struct route *route = &c->set->routes[number];
	struct recipe_case_spec *looks = &c->cases[number];
	c->problem->route = (int)number;
	int error = add_from(c, spec, route);
	if (error == 0)
		error = add_sinks(c, spec, route);
	if (error == 0)
		error = add_conditions(c, number, route);
	if (error != 0)
		return error;
	route->order_by = word_of(spec->order_by);
	route->orders_by_part = spec->order_by.len > 0 && route->order_by == WORD_NONE;
	if (route->orders_by_part)
		looks->entity = spec->order_by;
	/* A case needs a claim; this one is never run. */
	looks->claims[0].kind = CLAIM_CONTENT;
	looks->claim_count = 1;
	route->looks = looks->condition_count > 0 || route->orders_by_part;
	c->looks |= route->looks;
	return 0;
}

static int compile_routes(struct compiler *c)
{
	const struct route_set_options *options = c->options;
	struct route_set *set = c->set;
	int error = 0;
	for (uint32_t i = 0; i < options->sink_count; i++)
		set->sinks[i] = options->sinks[i].id;
	set->sink_count = options->sink_count;
	set->all = options->sink_count == 64 ? UINT64_MAX
	                                     : (UINT64_C(1) << options->sink_count) - 1;
	for (uint32_t i = 0; i < options->route_count && error == 0; i++)
		error = compile_route(c, i);
	set->route_count = options->route_count;
	if (error != 0 || !c->looks)
		return error;
	struct recipe_problem problem = { .case_index = -1, .claim_index = -1, .index = -1 };
	struct recipe_spec spec = {
		.source = SPAN("routes"),
		.window_s = 1,
		.case_count = c->options->route_count,
		.cases = c->cases,
	};
	error = recipe_compile(&spec, c->options->key, &c->set->recipe, &problem);
	if (error != ERR_CONFIG)
		return error;
	bool condition = problem.field && strcmp(problem.field, "condition") == 0;
	c->problem->route = problem.case_index;
	c->problem->field = condition ? "when" : "order_by";
	c->problem->index = -1;
	if (condition && problem.case_index >= 0) {
		/* Conditions about the event's own words are not in the recipe's cases. */
		const struct route_spec *route = &options->routes[problem.case_index];
		for (uint32_t i = 0; i < route->condition_count && c->problem->index < 0; i++)
			if (word_of(route->conditions[i].part) == WORD_NONE && problem.index-- == 0)
				c->problem->index = (int)i;
	}
	c->problem->column = problem.column;
	c->problem->text = problem.text;
	return error;
}

int route_set_new(const struct route_set_options *options, struct route_set **ret_set,
                  struct route_problem *ret_problem)
{
	struct route_set *set = mem_zalloc(1, sizeof(*set));
	CHECK(options->route_count <= ROUTES_MAX);
	CHECK(options->sink_count > 0 && options->sink_count <= ROUTE_SINKS_MAX);
	*ret_problem = (struct route_problem){ .route = -1, .field = "", .index = -1 };
	struct compiler c = { .options = options, .set = set, .problem = ret_problem };
	uint32_t count = options->route_count ? options->route_count : 1;
	c.cases = mem_zalloc(count, sizeof(*c.cases));
	int error = set && c.cases ? 0 : -ENOMEM;
	if (error == 0) {
		memcpy(set->key, options->key, sizeof(set->key));
		set->routes = arena_alloc(&set->arena, count * sizeof(*set->routes));
		set->sinks = arena_alloc(&set->arena, options->sink_count * sizeof(*set->sinks));
		error = set->routes && set->sinks ? compile_routes(&c) : -ENOMEM;
	}
	mem_free(c.cases);
	if (error != 0)
		route_set_free(set);
	else
		*ret_set = set;
	return error;
}

struct route_set *route_set_free(struct route_set *set)
{
	if (set) {
		recipe_free(set->recipe);
		arena_free(&set->arena);
	}
	return mem_free(set);
}

/* ---- asking ---- */

uint64_t route_set_from(const struct route_set *set, struct span source)
{
	uint64_t routes = 0;
	for (uint32_t i = 0; i < set->route_count; i++) {
		const struct route *route = &set->routes[i];
		bool from = route->from_count == 0;
		for (uint32_t j = 0; j < route->from_count; j++)
			from |= span_eq(route->from[j], source);
		if (from)
			routes |= UINT64_C(1) << i;
	}
	return routes;
}

uint32_t route_set_reach(const struct route_set *set, uint64_t routes)
{
	uint64_t sinks = set->route_count == 0 ? set->all : 0;
	for (uint32_t i = 0; i < set->route_count; i++)
		if (routes >> i & 1)
			sinks |= set->routes[i].sinks;
	return (uint32_t)__builtin_popcountll(sinks);
}

static struct event_text text_of(const struct event *event, enum word word)
{
	switch (word) {
	case WORD_TYPE: return event->type;
	case WORD_ID: return event->id;
	case WORD_ENTITY: return event->entity;
	case WORD_SOURCE: return (struct event_text){ event->source, EVENT_TEXT_PLAIN };
	case WORD_NONE: break;
	}
	return (struct event_text){ .coding = EVENT_TEXT_NONE };
}

/* False: there is none, or none that can be read. */
static bool value_of(struct event_text text, char bytes[static VALUE_MAX], struct span *ret_value)
{
	if (text.coding == EVENT_TEXT_NONE || text.raw.len == 0)
		return false;
	*ret_value = text.raw;
	return text.coding == EVENT_TEXT_PLAIN ||
	       event_text_value(text, bytes, VALUE_MAX, ret_value) == 0;
}

static bool tests_hold(const struct route *route, const struct event *event)
{
	char bytes[VALUE_MAX];
	struct span value;
	for (uint32_t i = 0; i < route->test_count; i++) {
		const struct test *test = &route->tests[i];
		bool holds = value_of(text_of(event, test->word), bytes, &value) &&
		             (test->any || pattern_matches(&test->pattern, value));
		if (holds == test->negate)
			return false;
	}
	return true;
}

static uint64_t order_of(const struct route_set *set, const struct recipe_scratch *scratch,
                         uint32_t number, const struct event *event)
{
	const struct route *route = &set->routes[number];
	char bytes[VALUE_MAX];
	struct span value;
	uint64_t words[2];
	struct event_text text = route->orders_by_part ? recipe_match_entity(scratch, number)
	                                               : text_of(event, route->order_by);
	if (!value_of(text, bytes, &value))
		return 0;
	hash_keyed128(set->key, value.ptr, value.len, words);
	return words[0] ? words[0] : 1;
}

int route_set_match(const struct route_set *set, struct recipe_scratch *scratch,
                    const struct route_question *question, struct route_match *ret_match,
                    struct error_text *ret_problem)
{
	uint64_t orders[ROUTE_SINKS_MAX];
	uint64_t sinks = set->route_count == 0 ? set->all : 0;
	uint32_t count = 0;
	/* Which routes are for it, of those that are for its source. */
	uint64_t routes = question->routes;
	uint64_t looking = 0;
	for (uint32_t i = 0; i < set->route_count; i++) {
		uint64_t bit = UINT64_C(1) << i;
		if (routes & bit && !tests_hold(&set->routes[i], question->event))
			routes &= ~bit;
		if (routes & bit && set->routes[i].looks)
			looking |= bit;
	}
	if (looking) {
		uint64_t held = 0;
		int error = recipe_match(set->recipe, scratch, question->input, looking, &held,
		                         ret_problem);
		if (error != 0)
			return error;
		routes &= ~looking | held;
	}
	memset(orders, 0, sizeof(orders[0]) * set->sink_count);
	for (uint32_t i = 0; routes >> i; i++) {
		uint64_t more = routes >> i & 1 ? set->routes[i].sinks & ~sinks : 0;
		uint64_t order = more ? order_of(set, scratch, i, question->event) : 0;
		sinks |= more;
		for (; more; more &= more - 1)
			orders[__builtin_ctzll(more)] = order;
		if (i == 63)
			break;
	}
	for (; sinks; sinks &= sinks - 1) {
		int at = __builtin_ctzll(sinks);
		CHECK(count < ROUTE_LEGS_MAX);
		ret_match->legs[count++] = (struct route_leg){ set->sinks[at], orders[at] };
	}
	ret_match->count = count;
	ret_match->found = routes != 0 || count > 0;
	return 0;
}
