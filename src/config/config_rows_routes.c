/* config_rows_routes: the options of `routes`: which events go where. */
#include "config/config_rows.h"

#define ROUTE "routes[]"

static const struct config_option rows[] = {
	{ .path = "routes",
	  .kind = CONFIG_LIST,
	  POINTED(config, routes, route_count),
	  .reload = true,
	  .value = "[{…}, …]",
	  .standard = "everything goes to every sink",
	  .help = "which events go where; an event goes to the sinks of every route that is for it, to each once" },
	{ .path = ROUTE ".from",
	  .kind = CONFIG_TEXTS,
	  COUNTED(config_route, from, from_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SOURCE | [SOURCE…]",
	  .standard = "all",
	  .also = "source|sources",
	  .help = "the sources whose events it is for" },
	{ .path = ROUTE ".type",
	  .kind = CONFIG_TEXT,
	  FIELD(config_route, type),
	  .max = 256,
	  .value = "PATTERN",
	  .standard = "any",
	  .help = "the type of its events, with `*` for any run of characters, upper and lower case as written" },
	{ .path = ROUTE ".when",
	  .kind = CONFIG_WHEN,
	  COUNTED(config_route, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}",
	  .also = "if|match|filter",
	  .help = "all of this must be so; as in recipes, and `type`, `id`, `entity` and `source` are what the source read" },
	{ .path = ROUTE ".to",
	  .kind = CONFIG_TEXTS,
	  COUNTED(config_route, to, to_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SINK | [SINK…] | none",
	  .also = "sink|sinks|target",
	  .help = "where they go; `none`: they are decided, and that is all" },
	{ .path = ROUTE ".order_by",
	  .kind = CONFIG_PART,
	  FIELD(config_route, order_by),
	  .value = "entity | id | type | PART",
	  .also = "order|key|group_by",
	  .help = "events with one value of this are delivered one after the other, in the order in which they came; others in parallel" },
};

const struct config_rows config_rows_routes = { rows, ARRAY_LEN(rows) };
