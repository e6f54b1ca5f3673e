/* config_auth: what each kind of auth needs. See config_reader.h. */
#include "codec/http1.h"
#include "config/config_reader.h"
#include "door/auth/auth.h"

#define SECTION "sources.*.auth"

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

/* What it must and may have besides kind and networks. */
static const struct {
	const char *needs;
	const char *takes;
} rules[] = {
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

static enum auth_kind guess_kind(const struct yaml_node *map)
{
	if (yaml_map_find(map, SPAN("header")))
		return AUTH_HEADER;
	return yaml_map_find(map, SPAN("user")) ? AUTH_BASIC : AUTH_NONE;
}

static void check_needs(struct config_reader *reader, const struct yaml_node *map,
                        enum auth_kind kind)
{
	for (const char *word = rules[kind].needs; *word;) {
		size_t len = strcspn(word, "|");
		if (!yaml_map_find(map, span_of(word, len)))
			config_tell(reader, CONFIG_ERROR, map, "auth of kind %s needs %.*s",
			            config_auth_word(kind), (int)len, word);
		word += len + (word[len] == '|');
	}
}

static bool is_taken(enum auth_kind kind, struct span name)
{
	return span_eq(name, SPAN("kind")) || span_eq(name, SPAN("networks")) ||
	       option_choice(rules[kind].needs, name) >= 0 ||
	       option_choice(rules[kind].takes, name) >= 0;
}

static void check_takes(struct config_reader *reader, const struct yaml_node *map,
                        enum auth_kind kind)
{
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		struct span name = member->name->text;
		if (is_taken(kind, name))
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

/* False: what it was meant to be nobody knows, and that was told. */
static bool find_kind(struct config_reader *reader, const struct yaml_node *map,
                      struct auth_spec *auth)
{
	const struct yaml_node *kind = yaml_map_find(map, SPAN("kind"));
	if (kind)
		return auth->kind != AUTH_NONE || span_eq(kind->text, SPAN("none"));
	auth->kind = guess_kind(map);
	bool networks = map->count == 1 && yaml_map_find(map, SPAN("networks"));
	if (auth->kind != AUTH_NONE || networks)
		return true;
	config_tell(reader, CONFIG_ERROR, map,
	            "found no kind, expected one, such as kind: bearer, or the name of a header");
	return false;
}

/* The door judges the rest: secrets above all. What it says holds no secret, but
 * it may hold a URL, which is not told when a variable is part of it. */
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
	if (config_has_unknown(SECTION, map) || !find_kind(reader, map, auth))
		return;
	uint32_t told = reader->report->errors;
	check_needs(reader, map, auth->kind);
	check_takes(reader, map, auth->kind);
	check_header(reader, map, auth);
	check_signed(reader, auth);
	if (told == errors_before && told == reader->report->errors && reader->failed == 0)
		try_auth(reader, map, auth);
}
