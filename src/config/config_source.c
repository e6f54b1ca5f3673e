/* config_source: a source as a whole. See config_reader.h. */
#include "config/config_reader.h"
#include "gate/digest.h"
#include "gate/recipe/presets.h"

#define SOURCE_SECTION "sources.*"
#define RECIPE_SECTION "sources.*.recipes[]"
#define WAIT_MS 10000 /* the table's default */

bool config_check_name(struct config_reader *reader, const struct yaml_node *node)
{
	struct span name = node->text;
	bool fine = name.len > 0 && name.len <= DIGEST_SOURCE_MAX;
	for (size_t i = 0; i < name.len && fine; i++) {
		char c = span_lower(name.ptr[i]);
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		fine = word || (i > 0 && (c == '-' || c == '_' || c == '.'));
	}
	if (!fine)
		config_tell(
			reader, CONFIG_ERROR, node,
			"found %s, expected a name of 1 to %d letters, digits, '.', '-' and '_'",
			config_found(node).text, DIGEST_SOURCE_MAX);
	return fine;
}

/* ---- recipes ---- */

static void read_recipe(struct config_reader *reader, const struct yaml_node *map,
                        struct recipe_case_spec *spec)
{
	if (!config_is_map(reader, map))
		return;
	config_read_section(reader, RECIPE_SECTION, map, spec);
	const struct yaml_node *claims = yaml_map_find(map, SPAN("claims"));
	if (!claims) {
		config_tell(reader, CONFIG_ERROR, map, "claims are missing");
		return;
	}
	size_t at = config_enter(reader, SPAN("claims"));
	config_read_claims(reader, claims, spec);
	config_leave(reader, at);
}

static void read_recipes(struct config_reader *reader, const struct yaml_node *list,
                         struct recipe_spec *recipe)
{
	size_t at = config_enter(reader, SPAN("recipes"));
	if (list->kind != YAML_LIST || list->count == 0 || list->count > CONFIG_CASES_MAX) {
		config_tell(reader, CONFIG_ERROR, list,
		            "found %s of %u, expected a list of 1 to %u recipes",
		            config_found_kind(list), list->count, CONFIG_CASES_MAX);
		config_leave(reader, at);
		return;
	}
	struct recipe_case_spec *cases = config_alloc(reader, list->count, sizeof(*cases));
	uint32_t count = 0;
	for (const struct yaml_node *item = list->first; item && cases; item = item->next) {
		size_t inner = config_enter_index(reader, count);
		read_recipe(reader, item, &cases[count++]);
		config_leave(reader, inner);
	}
	recipe->cases = cases;
	recipe->case_count = cases ? list->count : 0;
	config_leave(reader, at);
}

static void read_plain(struct config_reader *reader, const struct yaml_node *claims,
                       struct config_source *source)
{
	source->plain.name = source->name.ptr;
	size_t at = config_enter(reader, SPAN("claims"));
	config_read_claims(reader, claims, &source->plain);
	config_leave(reader, at);
	source->recipe.cases = &source->plain;
	source->recipe.case_count = 1;
}

/* The claims of the file follow those of the preset, in each of its cases. */
static bool add_claims(struct config_reader *reader, const struct yaml_node *claims,
                       const struct recipe_case_spec *extra, struct recipe_case_spec *spec)
{
	if (spec->claim_count == 0)
		return true; /* it only takes a batch apart */
	if (spec->claim_count + extra->claim_count > CLAIMS_MAX) {
		config_tell(
			reader, CONFIG_ERROR, claims,
			"found %u claims, expected at most %u: the preset has %u of its own%s%s",
			extra->claim_count, CLAIMS_MAX - spec->claim_count, spec->claim_count,
			spec->name ? " for " : "", spec->name ? spec->name : "");
		return false;
	}
	memcpy(spec->claims + spec->claim_count, extra->claims,
	       extra->claim_count * sizeof(*extra->claims));
	spec->claim_count += extra->claim_count;
	return true;
}

static void read_preset(struct config_reader *reader, const struct yaml_node *claims,
                        struct config_source *source)
{
	const struct preset *preset = preset_find(source->preset);
	if (!preset)
		return; /* told when it was read */
	source->recipe.cases = preset->cases;
	source->recipe.case_count = preset->case_count;
	struct recipe_case_spec *cases = claims ? config_alloc(reader, preset->case_count,
	                                                       sizeof(*cases))
	                                        : NULL;
	if (!cases)
		return;
	memcpy(cases, preset->cases, preset->case_count * sizeof(*cases));
	source->recipe.cases = cases;
	size_t at = config_enter(reader, SPAN("claims"));
	config_read_claims(reader, claims, &source->plain);
	for (uint32_t i = 0; i < preset->case_count; i++)
		if (!add_claims(reader, claims, &source->plain, &cases[i]))
			break;
	config_leave(reader, at);
}

/* ---- a source ---- */

static void refuse_beside(struct config_reader *reader, const struct yaml_node *map,
                          const char *name, const char *text)
{
	const struct yaml_node *node = yaml_map_find(map, span_str(name));
	if (!node)
		return;
	size_t at = config_enter(reader, span_str(name));
	config_tell(reader, CONFIG_ERROR, node->name, "%s", text);
	config_leave(reader, at);
}

static void read_rules(struct config_reader *reader, const struct yaml_node *map,
                       struct config_source *source)
{
	static const char *const fields[] = { "id",   "type",    "entity",
		                              "time", "content", "correlation" };
	const struct yaml_node *preset = yaml_map_find(map, SPAN("preset"));
	const struct yaml_node *claims = yaml_map_find(map, SPAN("claims"));
	const struct yaml_node *recipes = yaml_map_find(map, SPAN("recipes"));
	for (size_t i = 0; i < ARRAY_LEN(fields) && (preset || recipes); i++)
		refuse_beside(reader, map, fields[i],
		              recipes ? "belongs into each of the recipes"
		                      : "the preset says it; leave out one of the two");
	if (recipes) {
		refuse_beside(reader, map, "preset", "expected either preset or recipes, not both");
		refuse_beside(reader, map, "claims", "belong into each of the recipes");
		read_recipes(reader, recipes, &source->recipe);
	} else if (preset) {
		read_preset(reader, claims, source);
	} else if (claims) {
		read_plain(reader, claims, source);
	} else if (!config_has_unknown(SOURCE_SECTION, map)) {
		config_tell(reader, CONFIG_ERROR, map->name,
		            "the source says nothing about what makes two events the same, "
		            "expected preset, claims or recipes");
	}
}

static void set_default_path(struct config_reader *reader, struct config_source *source)
{
	char path[8 + DIGEST_SOURCE_MAX];
	int len = snprintf(path, sizeof(path), "/in/%.*s", (int)source->name.len, source->name.ptr);
	struct span copy = arena_copy(&reader->config->arena, span_of(path, (size_t)len));
	if (!copy.ptr)
		reader->failed = -ENOMEM;
	source->path = copy;
}

static void read_source(struct config_reader *reader, const struct yaml_node *map,
                        struct config_source *source)
{
	uint32_t errors = reader->report->errors;
	if (!config_check_name(reader, map->name) || !config_is_map(reader, map) ||
	    !config_read_text(reader, map->name, &source->name))
		return;
	source->place = (struct config_place){ map->name->line, map->name->column };
	source->wait_ms = WAIT_MS;
	config_read_section(reader, SOURCE_SECTION, map, source);
	if (!source->ack_delivered)
		refuse_beside(reader, map, "wait", "is of no use without ack: delivered");
	const struct yaml_node *auth = yaml_map_find(map, SPAN("auth"));
	if (auth && auth->kind == YAML_MAP) {
		size_t at = config_enter(reader, SPAN("auth"));
		config_check_auth(reader, auth, &source->auth, errors);
		config_leave(reader, at);
	}
	read_rules(reader, map, source);
	if (source->path.len == 0)
		set_default_path(reader, source);
	source->recipe.source = source->name;
	/* What has an error is not looked at again: one mistake, one message. */
	if (errors != reader->report->errors)
		source->recipe.case_count = 0;
}

void config_read_claims_api(struct config_reader *reader, const struct yaml_node *map)
{
	struct config_claims *claims = &reader->config->claims;
	if (map->kind != YAML_MAP)
		return; /* told */
	claims->place = (struct config_place){ map->name->line, map->name->column };
	const struct yaml_node *auth = yaml_map_find(map, SPAN("auth"));
	if (!auth || auth->kind != YAML_MAP)
		return;
	size_t at = config_enter(reader, SPAN("auth"));
	config_check_auth(reader, auth, &claims->auth, reader->report->errors);
	config_leave(reader, at);
}

void config_read_sources(struct config_reader *reader, const struct yaml_node *map)
{
	struct config *config = reader->config;
	if (!config_is_map(reader, map))
		return;
	if (map->count == 0 || map->count > CONFIG_SOURCES_MAX) {
		config_tell(reader, CONFIG_ERROR, map, "found %u sources, expected 1 to %u",
		            map->count, CONFIG_SOURCES_MAX);
		return;
	}
	config->sources = config_alloc(reader, map->count, sizeof(*config->sources));
	for (const struct yaml_node *member = map->first; member && config->sources;
	     member = member->next) {
		size_t at = config_enter(reader, member->name->text);
		if (!config_is_repeated(reader, map, member))
			read_source(reader, member, &config->sources[config->source_count++]);
		config_leave(reader, at);
	}
}

void config_add_default_source(struct config_reader *reader)
{
	struct config *config = reader->config;
	const struct preset *preset = preset_find(SPAN("auto"));
	CHECK(preset);
	config->sources = config_alloc(reader, 1, sizeof(*config->sources));
	if (!config->sources)
		return;
	config->source_count = 1;
	*config->sources = (struct config_source){
		.name = SPAN("events"),
		.path = SPAN("/in/events"),
		.preset = SPAN("auto"),
		.recipe = { .source = SPAN("events"),
		            .case_count = preset->case_count,
		            .cases = preset->cases },
	};
}
