/* config_route: routes, and checks of sources and sinks against them. See config_internal.h. */
#include "config/config_internal.h"

#define SECTION "routes[]"
#define NOWHERE SPAN("none") /* of `to`: events are decided, but not delivered */

static void read_route(struct config_reader *reader, const struct yaml_node *map,
                       struct config_route *ret_route)
{
	if (!config_is_map(reader, map))
		return;
	ret_route->place = (struct config_place){ map->line, map->column };
	config_read_section(reader, SECTION, map, ret_route);
	if (!yaml_map_find(map, SPAN("to")) && !config_has_unknown(SECTION, map))
		config_tell(reader, CONFIG_ERROR, map,
		            "to is missing: the sink, or a list of them");
}

void config_read_routes(struct config_reader *reader, const struct yaml_node *list)
{
	struct config *config = reader->config;
	if (list->kind != YAML_LIST || list->count == 0 || list->count > CONFIG_ROUTES_MAX) {
		config_tell(reader, CONFIG_ERROR, list,
		            "found %s of %u, expected a list of 1 to %u routes, such as "
		            "- { from: orders, to: crm }",
		            config_found_kind(list), list->count, CONFIG_ROUTES_MAX);
		return;
	}
	config->routes = config_alloc(reader, list->count, sizeof(*config->routes));
	for (const struct yaml_node *item = list->first; item && config->routes;
	     item = item->next) {
		size_t at = config_enter_index(reader, config->route_count);
		read_route(reader, item, &config->routes[config->route_count++]);
		config_leave(reader, at);
	}
}

static bool leads_nowhere(const struct config_route *route)
{
	return route->to_count == 1 && span_eq(route->to[0], NOWHERE);
}

int config_routes_new(const struct config *config, const unsigned char *key,
                      struct route_set **ret_set, struct route_problem *ret_problem)
{
	struct route_spec specs[CONFIG_ROUTES_MAX];
	struct route_sink sinks[CONFIG_SINKS_MAX];
	for (uint32_t i = 0; i < config->route_count; i++) {
		const struct config_route *route = &config->routes[i];
		bool nowhere = leads_nowhere(route);
		specs[i] = (struct route_spec){
			.from = route->from,
			.from_count = route->from_count,
			.to = route->to,
			.to_count = nowhere ? 0 : route->to_count,
			.nowhere = nowhere,
			.type = route->type,
			.order_by = route->order_by,
			.condition_count = route->condition_count,
		};
		memcpy(specs[i].conditions, route->conditions, sizeof(route->conditions));
	}
	for (uint32_t i = 0; i < config->sink_count; i++)
		sinks[i] = (struct route_sink){ config->sinks[i].name, config->sinks[i].id };
	struct route_set_options options = { specs, config->route_count, sinks, config->sink_count,
		                             key };
	return route_set_new(&options, ret_set, ret_problem);
}

/* ---- checks ---- */

static size_t enter_route(struct config_reader *reader, uint32_t index)
{
	size_t mark = config_enter(reader, SPAN("routes"));
	config_enter_index(reader, index);
	return mark;
}

/* An unknown name, with a suggestion. */
static void tell_name(struct config_reader *reader, struct span name, const char *what,
                      struct span meant)
{
	struct config_mark mark = config_mark_of(reader->config, name.ptr);
	struct yaml_node node = { .kind = YAML_TEXT, .text = name };
	config_tell_at(reader, CONFIG_ERROR, mark.place,
	               "found %s, expected the name of a %s%s%.*s%s",
	               mark.exact ? config_found(&node).text : "a name that is not there", what,
	               meant.len ? "; did you mean \"" : "", (int)meant.len,
	               meant.len ? meant.ptr : "", meant.len ? "\"?" : "");
}

static bool check_from(struct config_reader *reader, struct span name)
{
	const struct config *config = reader->config;
	struct suggest suggest = suggest_begin(name);
	if (config_find_source(config, name))
		return true;
	for (uint32_t i = 0; i < config->source_count; i++)
		suggest_offer(&suggest, config->sources[i].name);
	tell_name(reader, name, "source", suggest.best);
	return false;
}

static bool check_to(struct config_reader *reader, struct span name)
{
	const struct config *config = reader->config;
	struct suggest suggest = suggest_begin(name);
	if (span_eq(name, NOWHERE)) {
		config_tell_at(
			reader, CONFIG_ERROR, config_mark_of(config, name.ptr).place,
			"found none beside sinks, expected sinks, or none alone: the events are decided and not delivered");
		return false;
	}
	if (config_find_sink(config, name))
		return true;
	for (uint32_t i = 0; i < config->sink_count; i++)
		suggest_offer(&suggest, config->sinks[i].name);
	tell_name(reader, name, "sink", suggest.best);
	return false;
}

/* Events that are not delivered have no order of delivery. */
static bool check_nowhere(struct config_reader *reader, const struct config_route *route)
{
	if (route->order_by.len == 0)
		return true;
	size_t at = config_enter(reader, SPAN("order_by"));
	config_tell_at(reader, CONFIG_ERROR,
	               config_mark_of(reader->config, route->order_by.ptr).place,
	               "has no effect with to: none, which delivers nothing");
	config_leave(reader, at);
	return false;
}

static bool check_names(struct config_reader *reader, const struct config_route *route)
{
	bool fine = route->to_count > 0, nowhere = leads_nowhere(route);
	size_t at = config_enter(reader, SPAN("from"));
	for (uint32_t i = 0; i < route->from_count; i++)
		fine = check_from(reader, route->from[i]) && fine;
	config_leave(reader, at);
	at = config_enter(reader, SPAN("to"));
	for (uint32_t i = 0; i < route->to_count && !nowhere; i++)
		fine = check_to(reader, route->to[i]) && fine;
	config_leave(reader, at);
	return fine && (!nowhere || check_nowhere(reader, route));
}

static void tell_problem(struct config_reader *reader, const struct route_problem *problem)
{
	const struct config_route *route = &reader->config->routes[problem->route];
	size_t at = enter_route(reader, (uint32_t)problem->route);
	struct span text = route->order_by;
	if (strcmp(problem->field, "type") == 0)
		text = route->type;
	else if (strcmp(problem->field, "when") == 0 && problem->index >= 0)
		text = route->conditions[problem->index].part;
	struct config_mark mark = config_mark_of(reader->config, text.ptr);
	config_enter(reader, span_str(problem->field));
	if (mark.place.line == 0)
		mark.place = route->place;
	else if (mark.exact)
		mark.place.column += problem->column;
	config_tell_at(reader, CONFIG_ERROR, mark.place, "%s", problem->text.text);
	config_leave(reader, at);
}

static void check_source(struct config_reader *reader, const struct route_set *set,
                         const struct config_source *source)
{
	uint64_t routes = route_set_from(set, source->name);
	uint32_t reach = route_set_reach(set, routes);
	size_t at = config_enter(reader, SPAN("sources"));
	config_enter(reader, source->name);
	if (reader->config->route_count > 0 && routes == 0)
		config_tell_at(
			reader, CONFIG_WARNING, source->place,
			"no route matches its events: they are decided and not delivered (to: none, if this is intended)");
	if (reach > ROUTE_LEGS_MAX)
		config_tell_at(reader, CONFIG_ERROR, source->place,
		               "its events may go to %u sinks at once, expected at most %u", reach,
		               ROUTE_LEGS_MAX);
	config_leave(reader, at);
}

static void check_sink(struct config_reader *reader, const struct config_sink *sink)
{
	const struct config *config = reader->config;
	if (sink->place.line == 0)
		return; /* the default sink */
	for (uint32_t i = 0; i < config->route_count; i++)
		for (uint32_t j = 0; j < config->routes[i].to_count; j++)
			if (span_eq(config->routes[i].to[j], sink->name))
				return;
	for (uint32_t i = 0; i < config->sink_count; i++)
		if (span_eq(config->sinks[i].dead_letter, sink->name))
			return;
	size_t at = config_enter(reader, SPAN("sinks"));
	config_enter(reader, sink->name);
	config_tell_at(reader, CONFIG_WARNING, sink->place,
	               "no route names it: it gets no new events");
	config_leave(reader, at);
}

void config_check_routes(struct config_reader *reader)
{
	static const unsigned char key[DIGEST_KEY_LEN];
	const struct config *config = reader->config;
	struct route_set *set = NULL;
	struct route_problem problem;
	bool fine = config->sink_count > 0;
	for (uint32_t i = 0; i < config->sink_count; i++)
		fine = fine && config->sinks[i].name.len > 0;
	for (uint32_t i = 0; i < config->route_count; i++) {
		size_t at = enter_route(reader, i);
		fine = check_names(reader, &config->routes[i]) && fine;
		config_leave(reader, at);
	}
	if (!fine)
		return;
	int error = config_routes_new(config, key, &set, &problem);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0 && problem.route >= 0)
		tell_problem(reader, &problem);
	for (uint32_t i = 0; i < config->source_count && set; i++)
		if (config->sources[i].name.len > 0)
			check_source(reader, set, &config->sources[i]);
	for (uint32_t i = 0; i < config->sink_count && set && config->route_count > 0; i++)
		check_sink(reader, &config->sinks[i]);
	route_set_free(set);
}
