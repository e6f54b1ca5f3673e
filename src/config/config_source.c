/* config_source: a source: its name, path, recipe, claims and auth; and the section
 * of the claims API. See config_internal.h. */
#include "codec/http1.h"
#include "config/config_internal.h"
#include "door/auth/auth.h"
#include "gate/digest.h"
#include "gate/recipe/presets.h"

#define SOURCE_SECTION "sources.*"
#define RECIPE_SECTION "sources.*.recipes[]"
#define CLAIM_SECTION "sources.*.claims[]"
#define AUTH_SECTION "sources.*.auth"

/* ---- claims and conditions ---- */

static void read_condition(struct config_reader *reader, const struct yaml_node *member,
                           struct recipe_condition *ret_condition)
{
	struct span pattern = SPAN_EMPTY;
	struct span part;
	if (!config_read_part(reader, member->name, &part))
		return;
	if (member->kind != YAML_TEXT) {
		config_tell(reader, CONFIG_ERROR, member,
		            "found %s, expected a pattern, such as "
		            "\"order.*\" or \"!test\"",
		            config_found_kind(member));
		return;
	}
	/* An empty pattern: the part must exist, with any value. */
	if (member->text.len > 0 && !config_read_text(reader, member, &pattern))
		return;
	bool negate = pattern.len > 0 && pattern.ptr[0] == '!';
	*ret_condition = (struct recipe_condition){
		.part = part,
		.pattern = span_skip(pattern, negate),
		.negate = negate,
	};
}

void config_read_when(struct config_reader *reader, const struct yaml_node *map,
                      struct recipe_condition *ret_conditions, uint32_t *ret_count)
{
	uint32_t count = 0;
	if (!config_is_map(reader, map))
		return;
	if (map->count == 0 || map->count > RECIPE_SPEC_CONDITIONS_MAX) {
		config_tell(reader, CONFIG_ERROR, map, "found %u conditions, expected 1 to %d",
		            map->count, RECIPE_SPEC_CONDITIONS_MAX);
		return;
	}
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		size_t at = config_enter(reader, member->name->text);
		if (!config_is_repeated(reader, map, member))
			read_condition(reader, member, &ret_conditions[count++]);
		config_leave(reader, at);
	}
	*ret_count = count;
}

static void read_except(struct config_reader *reader, const struct yaml_node *map,
                        struct recipe_claim_spec *claim)
{
	static const struct config_option except = { .kind = CONFIG_PARTS,
		                                     .max = RECIPE_SPEC_PARTS_MAX };
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		bool parts = span_eq(member->name->text, SPAN("parts"));
		size_t at = config_enter(reader, member->name->text);
		if (config_is_repeated(reader, map, member))
			;
		else if (parts)
			(void)config_read_texts(reader, &except, member, claim->parts,
			                        &claim->part_count);
		else if (span_eq(member->name->text, SPAN("except")))
			(void)config_read_texts(reader, &except, member, claim->except,
			                        &claim->except_count);
		else
			config_tell(reader, CONFIG_ERROR, member->name,
			            "unknown option, expected except or parts");
		config_leave(reader, at);
	}
	if (map->count == 0)
		config_tell(reader, CONFIG_ERROR, map, "found an empty map, expected except");
}

/* body | [PART…] | {except: [PART…]} */
static void read_content(struct config_reader *reader, const struct yaml_node *node,
                         struct recipe_claim_spec *claim)
{
	static const struct config_option parts = { .kind = CONFIG_PARTS,
		                                    .max = RECIPE_SPEC_PARTS_MAX };
	if (node->kind == YAML_MAP)
		read_except(reader, node, claim);
	else if (node->kind == YAML_LIST || !span_eq(node->text, SPAN("body")))
		(void)config_read_texts(reader, &parts, node, claim->parts, &claim->part_count);
}

static void read_newest(struct config_reader *reader, const struct yaml_node *node)
{
	static const char *const needed[] = { "entity", "time" };
	if (node->kind != YAML_MAP)
		return; /* reported when it was read */
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!yaml_map_find(node, span_str(needed[i])))
			config_tell(reader, CONFIG_ERROR, node, "%s is missing", needed[i]);
	const struct yaml_node *rank = yaml_map_find(node, SPAN("rank"));
	if (rank && rank->kind == YAML_MAP &&
	    (!yaml_map_find(rank, SPAN("part")) || !yaml_map_find(rank, SPAN("order"))))
		config_tell(reader, CONFIG_ERROR, rank, "a rank needs both part and order");
}

/* Exactly one of the three kinds; what it is and where. */
static const struct yaml_node *find_claim_kind(struct config_reader *reader,
                                               const struct yaml_node *map,
                                               enum claim_kind *ret_kind)
{
	static const struct {
		const char *name;
		enum claim_kind kind;
	} kinds[] = {
		{ "once", CLAIM_ONCE },
		{ "content", CLAIM_CONTENT },
		{ "newest", CLAIM_NEWEST },
	};
	const struct yaml_node *found = NULL;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct yaml_node *node = yaml_map_find(map, span_str(kinds[i].name));
		if (node && found) {
			config_tell(reader, CONFIG_ERROR, node->name,
			            "found %s and %.*s in one claim, expected one of them; "
			            "begin another with \"- \"",
			            kinds[i].name, (int)found->name->text.len,
			            found->name->text.ptr);
			return NULL;
		}
		if (node) {
			found = node;
			*ret_kind = kinds[i].kind;
		}
	}
	if (!found && !config_has_unknown(CLAIM_SECTION, map))
		config_tell(reader, CONFIG_ERROR, map,
		            "found no claim, expected one of once, content, newest");
	return found;
}

static void read_claim(struct config_reader *reader, const struct yaml_node *map,
                       struct recipe_claim_spec *claim)
{
	if (!config_is_map(reader, map))
		return;
	config_read_section(reader, CLAIM_SECTION, map, claim);
	const struct yaml_node *node = find_claim_kind(reader, map, &claim->kind);
	if (!node)
		return;
	size_t at = config_enter(reader, node->name->text);
	if (claim->kind == CLAIM_CONTENT)
		read_content(reader, node, claim);
	else if (claim->kind == CLAIM_NEWEST)
		read_newest(reader, node);
	config_leave(reader, at);
}

void config_read_claims(struct config_reader *reader, const struct yaml_node *list,
                        struct recipe_case_spec *spec)
{
	if (list->kind != YAML_LIST) {
		config_tell(reader, CONFIG_ERROR, list,
		            "found %s, expected a list of claims, such as - once: [id]",
		            config_found_kind(list));
		return;
	}
	if (list->count == 0 || list->count > CLAIMS_MAX) {
		config_tell(reader, CONFIG_ERROR, list, "found %u claims, expected 1 to %u",
		            list->count, CLAIMS_MAX);
		return;
	}
	uint32_t index = 0;
	for (const struct yaml_node *item = list->first; item; item = item->next) {
		size_t at = config_enter_index(reader, index++);
		read_claim(reader, item, &spec->claims[spec->claim_count++]);
		config_leave(reader, at);
	}
}

/* ---- auth ---- */

const char *config_auth_word(enum auth_kind kind)
{
	static const char *const words[] = {
		[AUTH_NONE] = "none",
		[AUTH_HEADER] = "header",
		[AUTH_BASIC] = "basic",
		[AUTH_BEARER] = "bearer",
		[AUTH_STANDARD_WEBHOOKS] = "standard-webhooks",
		[AUTH_HMAC] = "hmac",
		[AUTH_GENESYS] = "genesys",
		[AUTH_GITHUB] = "github",
		[AUTH_STRIPE] = "stripe",
		[AUTH_SHOPIFY] = "shopify",
		[AUTH_TWILIO] = "twilio",
		[AUTH_CERTIFICATE] = "certificate",
	};
	CHECK((size_t)kind < ARRAY_LEN(words));
	return words[kind];
}

/* The options that a kind needs and takes besides `kind` and `networks`. */
static const struct {
	const char *needs;
	const char *takes;
} auth_rules[] = {
	[AUTH_NONE] = { "", "" },
	[AUTH_HEADER] = { "header|secret", "" },
	[AUTH_BASIC] = { "user|secret", "" },
	[AUTH_BEARER] = { "secret", "" },
	[AUTH_STANDARD_WEBHOOKS] = { "secret", "tolerance" },
	[AUTH_HMAC] = { "header|secret",
	                "algorithm|encoding|prefix|signed|timestamp|tolerance|public_url" },
	[AUTH_GENESYS] = { "secret", "" },
	[AUTH_GITHUB] = { "secret", "" },
	[AUTH_STRIPE] = { "secret", "tolerance" },
	[AUTH_SHOPIFY] = { "secret", "" },
	[AUTH_TWILIO] = { "secret", "public_url" },
	[AUTH_CERTIFICATE] = { "", "names" },
};

static void check_needs(struct config_reader *reader, const struct yaml_node *map,
                        enum auth_kind kind)
{
	for (const char *word = auth_rules[kind].needs; *word;) {
		size_t len = strcspn(word, "|");
		if (!yaml_map_find(map, span_of(word, len)))
			config_tell(reader, CONFIG_ERROR, map, "auth of kind %s needs %.*s",
			            config_auth_word(kind), (int)len, word);
		word += len + (word[len] == '|');
	}
}

static void check_takes(struct config_reader *reader, const struct yaml_node *map,
                        enum auth_kind kind)
{
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		struct span name = member->name->text;
		if (span_eq(name, SPAN("kind")) || span_eq(name, SPAN("networks")) ||
		    option_choice(auth_rules[kind].needs, name) >= 0 ||
		    option_choice(auth_rules[kind].takes, name) >= 0)
			continue;
		size_t at = config_enter(reader, name);
		config_tell(reader, CONFIG_ERROR, member->name, "auth of kind %s does not use it",
		            config_auth_word(kind));
		config_leave(reader, at);
	}
}

/* A header's name is a token of RFC 9110. */
static void check_signed(struct config_reader *reader, const struct auth_spec *auth)
{
	static const char words[] = "body|path|method|url";
	for (uint32_t i = 0; i < auth->signed_count; i++) {
		struct span part = auth->signed_parts[i];
		bool header = part.len > 7 && memcmp(part.ptr, "header:", 7) == 0 &&
		              http1_is_token(span_skip(part, 7));
		bool text = part.len > 6 && memcmp(part.ptr, "const:", 6) == 0;
		if (part.len == 0 || header || text || option_choice(words, part) >= 0)
			continue;
		size_t at = config_enter(reader, SPAN("signed"));
		config_enter_index(reader, i);
		config_tell_at(reader, CONFIG_ERROR, config_mark_of(reader->config, part.ptr).place,
		               "found a part that is not known, expected body, header:NAME, path, "
		               "method, url or const:TEXT");
		config_leave(reader, at);
	}
}

static void check_header(struct config_reader *reader, const struct yaml_node *map,
                         const struct auth_spec *auth)
{
	const struct yaml_node *node = yaml_map_find(map, SPAN("header"));
	if (auth->header.len == 0 || http1_is_token(auth->header))
		return;
	size_t at = config_enter(reader, SPAN("header"));
	config_tell(reader, CONFIG_ERROR, node,
	            "found %s, expected a header's name, without a colon", config_found(node).text);
	config_leave(reader, at);
}

/* False: it has no valid kind, which was reported. */
static bool find_auth_kind(struct config_reader *reader, const struct yaml_node *map,
                           struct auth_spec *auth)
{
	const struct yaml_node *kind = yaml_map_find(map, SPAN("kind"));
	if (kind)
		return auth->kind != AUTH_NONE || span_eq(kind->text, SPAN("none"));
	if (yaml_map_find(map, SPAN("header")))
		auth->kind = AUTH_HEADER;
	else
		auth->kind = yaml_map_find(map, SPAN("user")) ? AUTH_BASIC : AUTH_NONE;
	bool networks = map->count == 1 && yaml_map_find(map, SPAN("networks"));
	if (auth->kind != AUTH_NONE || networks)
		return true;
	config_tell(reader, CONFIG_ERROR, map,
	            "found no kind, expected one, such as kind: bearer, or the name of a header");
	return false;
}

/* The door checks the rest, above all secrets. Its text has no secret, but it may have a
 * URL, which is not shown if it contains a variable. */
static void try_auth(struct config_reader *reader, const struct yaml_node *map,
                     const struct auth_spec *spec)
{
	struct error_text text = { "" };
	struct auth *auth = NULL;
	int error = auth_new(spec, &auth, &text);
	struct config_mark url = config_mark_of(reader->config, spec->public_url.ptr);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0 && spec->public_url.len > 0 && !url.exact &&
	         memmem(text.text, strlen(text.text), spec->public_url.ptr, spec->public_url.len))
		config_tell_at(reader, CONFIG_ERROR, url.place,
		               "public_url is not of the form https://HOST[:PORT][/PREFIX]");
	else if (error != 0)
		config_tell(reader, CONFIG_ERROR, map, "%s", text.text);
	else if (auth_warning(auth))
		config_tell(reader, CONFIG_WARNING, map, "%s", auth_warning(auth));
	auth_free(auth);
}

void config_check_auth(struct config_reader *reader, const struct yaml_node *map,
                       struct auth_spec *auth, uint32_t errors_before)
{
	if (config_has_unknown(AUTH_SECTION, map) || !find_auth_kind(reader, map, auth))
		return;
	uint32_t told = reader->report->errors;
	check_needs(reader, map, auth->kind);
	check_takes(reader, map, auth->kind);
	check_header(reader, map, auth);
	check_signed(reader, auth);
	if (told == errors_before && told == reader->report->errors && reader->failed == 0)
		try_auth(reader, map, auth);
}

/* ---- names ---- */

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
		              recipes ? "belongs in each of the recipes"
		                      : "the preset defines it; remove one of the two");
	if (recipes) {
		refuse_beside(reader, map, "preset", "expected either preset or recipes, not both");
		refuse_beside(reader, map, "claims", "belong in each of the recipes");
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
	source->door.path = copy;
}

static void read_source(struct config_reader *reader, const struct yaml_node *map,
                        struct config_source *source)
{
	uint32_t errors = reader->report->errors;
	if (!config_check_name(reader, map->name) || !config_is_map(reader, map) ||
	    !config_read_text(reader, map->name, &source->name))
		return;
	source->place = (struct config_place){ map->name->line, map->name->column };
	config_set_defaults(SOURCE_SECTION, source);
	config_read_section(reader, SOURCE_SECTION, map, source);
	if (!source->ack_delivered) {
		refuse_beside(reader, map, "wait", "has no effect without ack: delivered");
		source->door.wait_ms = 0;
	}
	const struct yaml_node *auth = yaml_map_find(map, SPAN("auth"));
	if (auth && auth->kind == YAML_MAP) {
		size_t at = config_enter(reader, SPAN("auth"));
		config_check_auth(reader, auth, &source->auth, errors);
		config_leave(reader, at);
	}
	read_rules(reader, map, source);
	if (source->door.path.len == 0)
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
		.door.path = SPAN("/in/events"),
		.preset = SPAN("auto"),
		.recipe = { .source = SPAN("events"),
		            .case_count = preset->case_count,
		            .cases = preset->cases },
	};
}
