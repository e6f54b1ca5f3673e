/* config_check: checks across options and sections, and advice. See config_internal.h. */
#include "base/text.h"
#include "config/config_internal.h"
#include "config/preset_guide.h"
#include "gate/advice.h"
#include "gate/recipe/presets.h"
#include "gate/recipe/recipe.h"

/* Problems of a source are reported under its name. */
static size_t enter_source(struct config_reader *reader, const struct config_source *source)
{
	size_t mark = config_enter(reader, SPAN("sources"));
	config_enter(reader, source->name);
	return mark;
}

static struct config_place place_of(const struct config_reader *reader, struct span text,
                                    struct config_place otherwise)
{
	struct config_place place = config_mark_of(reader->config, text.ptr).place;
	return place.line > 0 ? place : otherwise;
}

/* ---- paths ---- */

/* Paths that stile serves itself. A source with a star at its end is at the path too. */
static bool is_reserved(struct span path)
{
	static const char *const own[] = { "/", "/healthz", "/readyz", "/metrics", "/v1" };
	if (path.len > 2 && path.ptr[path.len - 1] == '*')
		path.len -= 2;
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (span_eq(path, span_str(own[i])))
			return true;
	return path.len >= 4 && memcmp(path.ptr, "/v1/", 4) == 0;
}

static void check_path(struct config_reader *reader, const struct config_source *source)
{
	struct config_place place = place_of(reader, source->door.path, source->place);
	size_t mark = enter_source(reader, source);
	config_enter(reader, SPAN("path"));
	if (is_reserved(source->door.path))
		config_tell_at(reader, CONFIG_ERROR, place,
		               "found %s, which stile answers itself, expected another path",
		               source->door.path.ptr);
	for (const struct config_source *at = reader->config->sources; at != source; at++) {
		if (at->name.len == 0 || !span_eq(at->door.path, source->door.path))
			continue;
		config_tell_at(reader, CONFIG_ERROR, place,
		               "found %s, which is the path of the source %s too (line %u)",
		               source->door.path.ptr, at->name.ptr, at->place.line);
		break;
	}
	config_leave(reader, mark);
}

/* ---- recipes ---- */

static struct span pick(const struct span *texts, uint32_t count, int index)
{
	return index >= 0 && (uint32_t)index < count ? texts[index] : SPAN_EMPTY;
}

static struct span pick_condition(const struct recipe_condition *conditions, uint32_t count,
                                  int index)
{
	return index >= 0 && (uint32_t)index < count ? conditions[index].part : SPAN_EMPTY;
}

static bool is_field(const struct recipe_problem *problem, const char *name)
{
	return strcmp(problem->field, name) == 0;
}

static struct span claim_text(const struct recipe_claim_spec *claim,
                              const struct recipe_problem *problem)
{
	if (is_field(problem, "part"))
		return pick(claim->parts, claim->part_count, problem->index);
	if (is_field(problem, "except"))
		return pick(claim->except, claim->except_count, problem->index);
	if (is_field(problem, "condition"))
		return pick_condition(claim->conditions, claim->condition_count, problem->index);
	if (is_field(problem, "time"))
		return claim->time;
	if (is_field(problem, "rank"))
		return claim->rank;
	return is_field(problem, "name") ? claim->name : SPAN_EMPTY;
}

static struct span case_text(const struct recipe_case_spec *spec,
                             const struct recipe_problem *problem)
{
	const struct {
		const char *field;
		struct span text;
	} fields[] = {
		{ "id", spec->id },
		{ "type", spec->type },
		{ "entity", spec->entity },
		{ "time", spec->time },
		{ "correlation", spec->correlation },
		{ "content", spec->content },
	};
	if (is_field(problem, "condition"))
		return pick_condition(spec->conditions, spec->condition_count, problem->index);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (is_field(problem, fields[i].field))
			return fields[i].text;
	return SPAN_EMPTY;
}

/* Enters the option of the configuration that a field of the compiler stands for. */
static void enter_claim_field(struct config_reader *reader, const struct recipe_claim_spec *claim,
                              const struct recipe_problem *problem)
{
	static const char *const parts[] = {
		[CLAIM_ONCE] = "once",
		[CLAIM_CONTENT] = "content",
		[CLAIM_NEWEST] = "newest.entity",
	};
	static const struct {
		const char *field, *option;
	} names[] = {
		{ "except", "content.except" }, { "condition", "when" },  { "time", "newest.time" },
		{ "rank", "newest.rank" },      { "missing", "missing" }, { "name", "name" },
	};
	if (is_field(problem, "part"))
		config_enter(reader, span_str(parts[claim->kind]));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (is_field(problem, names[i].field))
			config_enter(reader, span_str(names[i].option));
	if (problem->index >= 0 && (is_field(problem, "part") || is_field(problem, "except")))
		config_enter_index(reader, (uint32_t)problem->index);
}

/* Enters the option that the compiler rejects, and returns its text; *ret_near is a text
 * nearby, for the place if the option has no text. */
static struct span enter_problem(struct config_reader *reader, const struct config_source *source,
                                 const struct recipe_problem *problem, struct span *ret_near)
{
	const struct recipe_spec *recipe = &source->recipe;
	*ret_near = SPAN_EMPTY;
	if (problem->case_index < 0 || (uint32_t)problem->case_index >= recipe->case_count)
		return SPAN_EMPTY;
	const struct recipe_case_spec *spec = &recipe->cases[problem->case_index];
	if (source->preset.len == 0 && recipe->case_count > 1) {
		config_enter(reader, SPAN("recipes"));
		config_enter_index(reader, (uint32_t)problem->case_index);
	}
	int index = problem->claim_index;
	if (index < 0 || (uint32_t)index >= spec->claim_count) {
		config_enter(reader,
		             span_str(is_field(problem, "condition") ? "when" : problem->field));
		*ret_near = spec->claim_count > 0 ? spec->claims[0].parts[0] : SPAN_EMPTY;
		return case_text(spec, problem);
	}
	const struct recipe_claim_spec *claim = &spec->claims[index];
	config_enter(reader, SPAN("claims"));
	/* The claims of a preset stand before those of the file. */
	const struct preset *preset = preset_find(source->preset);
	uint32_t before = preset ? preset->cases[problem->case_index].claim_count : 0;
	config_enter_index(reader, (uint32_t)index - before);
	enter_claim_field(reader, claim, problem);
	*ret_near = claim->part_count > 0 ? claim->parts[0] : claim->time;
	return claim_text(claim, problem);
}

/* A text that contains a variable is not shown. */
static void tell_recipe(struct config_reader *reader, const struct config_source *source,
                        const struct recipe_problem *problem)
{
	struct span near;
	size_t at = reader->option.len;
	struct span text = enter_problem(reader, source, problem, &near);
	struct config_mark mark = config_mark_of(reader->config, text.ptr);
	if (text.len == 0 || mark.place.line == 0)
		mark = (struct config_mark){ .place = place_of(reader, near, source->place) };
	if (mark.exact) {
		struct yaml_node node = { .kind = YAML_TEXT, .text = text };
		mark.place.column += problem->column;
		config_tell_at(reader, CONFIG_ERROR, mark.place, "found %s, %s",
		               config_found(&node).text, problem->text.text);
	} else {
		config_tell_at(reader, CONFIG_ERROR, mark.place, "%s", problem->text.text);
	}
	config_leave(reader, at);
}

static void check_recipe(struct config_reader *reader, const struct config_source *source)
{
	static const unsigned char key[DIGEST_KEY_LEN];
	struct recipe *recipe = NULL;
	struct recipe_problem problem = { .case_index = -1, .claim_index = -1, .index = -1 };
	int error = recipe_compile(&source->recipe, key, &recipe, &problem);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0)
		tell_recipe(reader, source, &problem);
	recipe_free(recipe);
}

/* ---- advice ---- */

static void advise_window(struct config_reader *reader, const struct config_source *source)
{
	const struct preset_guide *guide = preset_guide_find(source->preset);
	uint64_t window_ms = UINT64_C(1000) * source->recipe.window_s;
	uint64_t retries_ms = source->door.retries_ms;
	if (!guide || window_ms >= retries_ms)
		return;
	char window[TEXT_DURATION_MAX];
	char retries[TEXT_DURATION_MAX];
	text_duration(window, window_ms);
	text_duration(retries, retries_ms);
	config_tell_at(reader, CONFIG_WARNING, source->place,
	               "a window of %s is shorter than its sender's retries: %s; what comes later "
	               "is new again, so %s or more is advised",
	               window, guide->retries, retries);
}

static void advise_auth(struct config_reader *reader, const struct config_source *source)
{
	const char *listen = reader->config->serve.listen;
	if (source->auth.kind != AUTH_NONE || source->auth.network_count > 0 ||
	    option_is_loopback(listen))
		return;
	config_tell_at(reader, CONFIG_WARNING, source->place,
	               "anybody who reaches %s can send events here: auth is missing", listen);
}

/* The first recipe whose conditions hold is used; one without conditions always is. */
static void advise_order(struct config_reader *reader, const struct config_source *source)
{
	const struct recipe_spec *recipe = &source->recipe;
	uint32_t all = 0;
	while (all < recipe->case_count && recipe->cases[all].condition_count > 0)
		all++;
	if (source->preset.len > 0 || all + 1 >= recipe->case_count)
		return;
	const struct recipe_claim_spec *claim = &recipe->cases[all + 1].claims[0];
	struct span near = claim->part_count > 0 ? claim->parts[0] : SPAN_EMPTY;
	size_t mark = config_enter(reader, SPAN("recipes"));
	config_enter_index(reader, all + 1);
	config_tell_at(reader, CONFIG_WARNING, place_of(reader, near, source->place),
	               "is never used: recipes[%u] has no when, and takes every event before it",
	               all);
	config_leave(reader, mark);
}

static void check_source(struct config_reader *reader, struct config_source *source)
{
	struct serve_options *serve = &reader->config->serve;
	source->door.recipe = &source->recipe;
	source->door.auth = &source->auth;
	source->door.retries_ms = advice_retries_ms(source->preset);
	if (source->recipe.window_s == 0)
		source->recipe.window_s = (uint32_t)((serve->window_ms + 999) / 1000);
	check_path(reader, source);
	size_t mark = enter_source(reader, source);
	if (source->auth.kind == AUTH_CERTIFICATE && !serve->tls.client_ca_file)
		config_tell_at(reader, CONFIG_ERROR, source->place,
		               "client certificates are wanted, but tls.client_ca is missing");
	if (source->recipe.case_count > 0) {
		check_recipe(reader, source);
		advise_window(reader, source);
		advise_auth(reader, source);
		advise_order(reader, source);
	}
	config_leave(reader, mark);
}

/* Files of flags are checked at the start, where the message has their path. */
static void check_tls_files(struct config_reader *reader)
{
	const struct serve_options *serve = &reader->config->serve;
	const struct {
		const char *option, *path;
	} files[] = { { "cert", serve->tls.cert_file },
		      { "key", serve->tls.key_file },
		      { "client_ca", serve->tls.client_ca_file } };
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (config_mark_of(reader->config, files[i].path).place.line > 0)
			config_check_pem(reader, files[i].option, files[i].path);
}

static void check_tls(struct config_reader *reader)
{
	struct serve_options *serve = &reader->config->serve;
	const char *half = serve->tls.cert_file ? serve->tls.cert_file : serve->tls.key_file;
	size_t mark = config_enter(reader, SPAN("tls"));
	if ((serve->tls.cert_file == NULL) != (serve->tls.key_file == NULL))
		config_tell_at(
			reader, CONFIG_ERROR, config_mark_of(reader->config, half).place,
			"found %s alone, expected cert and key (--tls-cert and --tls-key) together",
			serve->tls.cert_file ? "cert" : "key");
	else if (serve->tls.client_ca_file && !serve->tls.cert_file)
		config_tell_at(
			reader, CONFIG_ERROR,
			config_mark_of(reader->config, serve->tls.client_ca_file).place,
			"found client_ca alone, expected cert and key too: without TLS nobody "
			"shows a certificate");
	else
		check_tls_files(reader);
	config_leave(reader, mark);
}

#define TOKEN_BYTES_MIN 16u

/* A client of it can read events and send them again. */
static void check_admin(struct config_reader *reader)
{
	const struct config *config = reader->config;
	const char *listen = config->serve.admin;
	size_t mark = config_enter(reader, SPAN("admin"));
	if (config->admin_token_count == 0 && strcmp(listen, "none") != 0 &&
	    !option_is_loopback(listen))
		config_tell_at(reader, CONFIG_ERROR, config_mark_of(config, listen).place,
		               "others than this machine can reach %s, expected admin.token too",
		               listen);
	config_enter(reader, SPAN("token"));
	for (uint32_t i = 0; i < config->admin_token_count; i++)
		if (config->admin_tokens[i].len < TOKEN_BYTES_MIN)
			config_tell_at(reader, CONFIG_ERROR,
			               config_mark_of(config, config->admin_tokens[i].ptr).place,
			               "found a token of %zu bytes, expected %u or more",
			               config->admin_tokens[i].len, TOKEN_BYTES_MIN);
	config_leave(reader, mark);
}

bool config_claims_guarded(const struct config_claims *claims, const char *listen)
{
	const struct auth_spec *auth = &claims->auth;
	return auth->kind != AUTH_NONE || auth->network_count > 0 || option_is_loopback(listen);
}

/* A client of it can take any claim. */
static void check_claims(struct config_reader *reader)
{
	struct config *config = reader->config;
	struct config_claims *claims = &config->claims;
	size_t mark = config_enter(reader, SPAN("claims"));
	claims->door.auth = &claims->auth;
	if (claims->door.window_s == 0)
		claims->door.window_s = (uint32_t)((config->serve.window_ms + 999) / 1000);
	if (claims->enabled == CONFIG_CLAIMS_ON &&
	    !config_claims_guarded(claims, config->serve.listen))
		config_tell_at(reader, CONFIG_ERROR, claims->place,
		               "others than this machine can reach %s, expected claims.auth too",
		               config->serve.listen);
	if (claims->auth.kind == AUTH_CERTIFICATE && !config->serve.tls.client_ca_file)
		config_tell_at(reader, CONFIG_ERROR, claims->place,
		               "client certificates are wanted, but tls.client_ca is missing");
	config_leave(reader, mark);
}

#define SCOPE_BYTES_MAX 64u

/* A client of it can mark any event as seen. */
static void check_resp(struct config_reader *reader)
{
	const struct config *config = reader->config;
	const char *listen = config->serve.resp, *scope = config->serve.resp_scope;
	size_t mark = config_enter(reader, SPAN("resp"));
	if (config->resp_password_count == 0 && strcmp(listen, "none") != 0 &&
	    !option_is_loopback(listen))
		config_tell_at(reader, CONFIG_ERROR, config_mark_of(config, listen).place,
		               "others than this machine can reach %s, expected resp.password too",
		               listen);
	if (scope[0] == 0 || strlen(scope) > SCOPE_BYTES_MAX)
		config_tell_at(reader, CONFIG_ERROR, config_mark_of(config, scope).place,
		               "found a scope of %zu bytes, expected 1 to %u", strlen(scope),
		               SCOPE_BYTES_MAX);
	config_leave(reader, mark);
}

void config_check_all(struct config_reader *reader)
{
	struct config *config = reader->config;
	check_tls(reader);
	check_admin(reader);
	config_check_store(reader);
	check_claims(reader);
	check_resp(reader);
	config_check_sinks(reader);
	config_check_routes(reader);
	for (uint32_t i = 0; i < config->source_count; i++)
		if (config->sources[i].name.len > 0)
			check_source(reader, &config->sources[i]);
}
