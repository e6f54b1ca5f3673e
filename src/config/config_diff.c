/*
 * config_diff: what changes between two configurations, and whether it can be
 * changed while stile runs. See config.h.
 *
 * Sources are compared as they were understood, not as they were written: each
 * is put into one row of bytes, texts with their lengths. Those bytes hold
 * secrets, so they are wiped; only names of options come out.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_table.h"

#define CHANGES_MAX (2 * (CONFIG_SOURCES_MAX + CONFIG_SINKS_MAX) + SERVE_ROWS + 6)

/* ---- a source as bytes ---- */

static void put_number(struct buf *out, uint64_t value)
{
	buf_append(out, &value, sizeof(value));
}

static void put_text(struct buf *out, struct span text)
{
	put_number(out, text.len);
	buf_append_span(out, text);
}

static void put_texts(struct buf *out, const struct span *texts, uint32_t count)
{
	put_number(out, count);
	for (uint32_t i = 0; i < count; i++)
		put_text(out, texts[i]);
}

static void put_conditions(struct buf *out, const struct recipe_condition *conditions,
                           uint32_t count)
{
	put_number(out, count);
	for (uint32_t i = 0; i < count; i++) {
		put_text(out, conditions[i].part);
		put_text(out, conditions[i].pattern);
		put_number(out, conditions[i].negate);
	}
}

static void put_claim(struct buf *out, const struct recipe_claim_spec *claim)
{
	put_text(out, claim->name);
	put_number(out, claim->kind);
	put_number(out, claim->window_s);
	put_number(out, claim->missing);
	put_number(out, claim->shadow);
	put_conditions(out, claim->conditions, claim->condition_count);
	put_texts(out, claim->parts, claim->part_count);
	put_texts(out, claim->except, claim->except_count);
	put_text(out, claim->time);
	put_number(out, claim->equal_drops);
	put_text(out, claim->rank);
	put_texts(out, claim->ranks, claim->rank_count);
}

static void put_case(struct buf *out, const struct recipe_case_spec *spec)
{
	const struct span fields[] = { spec->id,          spec->type,   spec->entity, spec->time,
		                       spec->correlation, spec->origin, spec->replay, spec->content,
		                       spec->inner,       spec->items };
	put_text(out, span_str(spec->name));
	put_texts(out, fields, ARRAY_LEN(fields));
	put_conditions(out, spec->conditions, spec->condition_count);
	put_number(out, spec->claim_count);
	for (uint32_t i = 0; i < spec->claim_count; i++)
		put_claim(out, &spec->claims[i]);
}

static void put_recipe(struct buf *out, const struct recipe_spec *recipe)
{
	put_text(out, recipe->scope);
	put_number(out, recipe->window_s);
	put_number(out, recipe->batch);
	put_number(out, recipe->shadow);
	put_number(out, recipe->replay_passes);
	put_number(out, recipe->compare_values);
	put_number(out, recipe->case_count);
	for (uint32_t i = 0; i < recipe->case_count; i++)
		put_case(out, &recipe->cases[i]);
}

static void put_auth(struct buf *out, const struct auth_spec *auth)
{
	put_number(out, auth->kind);
	put_text(out, auth->header);
	put_text(out, auth->user);
	put_texts(out, auth->secrets, auth->secret_count);
	put_number(out, auth->algorithm);
	put_number(out, auth->encoding);
	put_text(out, auth->prefix);
	put_texts(out, auth->signed_parts, auth->signed_count);
	put_text(out, auth->timestamp);
	put_number(out, auth->tolerance_s);
	put_text(out, auth->public_url);
	put_texts(out, auth->names, auth->name_count);
	put_texts(out, auth->networks, auth->network_count);
}

static void put_rest(struct buf *out, const struct config_source *source)
{
	put_text(out, source->path);
	put_number(out, source->on_conflict);
	put_number(out, source->spool);
	put_number(out, source->ack_delivered ? source->wait_ms : 0);
}

/* ---- changes ---- */

static int add(struct config_diff *diff, const char *option, bool reloads, const char *text)
{
	struct span name = arena_copy(&diff->arena, span_str(option));
	struct span copy = arena_copy(&diff->arena, span_str(text));
	if (!name.ptr || !copy.ptr)
		return -ENOMEM;
	CHECK(diff->count < CHANGES_MAX);
	diff->changes[diff->count++] = (struct config_change){ name.ptr, reloads, copy.ptr };
	diff->restarts += !reloads;
	return 0;
}

/* What was written of an old and of a new one: secrets are among it. */
struct versions {
	struct buf old;
	struct buf new;
};

/* 1 if they differ, 0 if not, or -ENOMEM; they are wiped and freed. */
static int versions_differ(struct versions *versions)
{
	bool failed = versions->old.failed || versions->new.failed;
	bool equal = span_eq(buf_span(&versions->old), buf_span(&versions->new));
	if (versions->old.room > 0)
		explicit_bzero(versions->old.ptr, versions->old.room);
	if (versions->new.room > 0)
		explicit_bzero(versions->new.ptr, versions->new.room);
	buf_free(&versions->old);
	buf_free(&versions->new);
	return failed ? -ENOMEM : !equal;
}

/* The member of a section that has a name of its own. */
static int add_named(struct config_diff *diff, const char *section, struct span name,
                     const char *text)
{
	char option[16 + 64];
	snprintf(option, sizeof(option), "%s.%.*s", section, (int)name.len, name.ptr);
	return add(diff, option, true, text);
}

/* ---- sources ---- */

static int compare_source(struct config_diff *diff, const struct config_source *old,
                          const struct config_source *new)
{
	struct versions recipes = { 0 };
	struct versions auths = { 0 };
	struct versions rests = { 0 };
	put_recipe(&recipes.old, &old->recipe);
	put_recipe(&recipes.new, &new->recipe);
	put_auth(&auths.old, &old->auth);
	put_auth(&auths.new, &new->auth);
	put_rest(&rests.old, old);
	put_rest(&rests.new, new);
	int recipe = versions_differ(&recipes);
	int auth = versions_differ(&auths);
	int rest = versions_differ(&rests);
	if (recipe < 0 || auth < 0 || rest < 0)
		return -ENOMEM;
	if (!recipe && !auth && !rest)
		return 0;
	char text[64];
	snprintf(text, sizeof(text), "changed:%s%s%s", recipe ? " recipe" : "", auth ? " auth" : "",
	         rest ? " path or policy" : "");
	return add_named(diff, "sources", new->name, text);
}

static int add_sources(struct config_diff *diff, const struct config *from,
                       const struct config *other, const char *text)
{
	int error = 0;
	for (uint32_t i = 0; i < from->source_count && error == 0; i++) {
		const struct config_source *source = &from->sources[i];
		if (!config_find_source(other, source->name))
			error = add_named(diff, "sources", source->name, text);
	}
	return error;
}

static int compare_sources(struct config_diff *diff, const struct config *old,
                           const struct config *new)
{
	int error = add_sources(diff, old, new, "removed");
	if (error == 0)
		error = add_sources(diff, new, old, "added");
	for (uint32_t i = 0; error == 0 && i < new->source_count; i++) {
		const struct config_source *was = config_find_source(old, new->sources[i].name);
		if (was)
			error = compare_source(diff, was, &new->sources[i]);
	}
	return error;
}

/* As one would write it. */
static void write_value(const struct option *option, const struct serve_options *serve,
                        char *ret_text, size_t size)
{
	const void *field = (const char *)serve + option->offset;
	char duration[TEXT_DURATION_MAX];
	uint64_t number;
	switch (option->kind) {
	case OPTION_TEXT:
	case OPTION_LISTEN:
	case OPTION_UNIX:
	case OPTION_ADDRESS: {
		const char *text = *(const char *const *)field;
		snprintf(ret_text, size, "%s", text ? text : "nothing");
		return;
	}
	case OPTION_FLAG: snprintf(ret_text, size, "%d", *(const bool *)field); return;
	default: number = *(const uint64_t *)field; break;
	}
	if (option->kind == OPTION_DURATION) {
		text_duration(duration, number);
		snprintf(ret_text, size, "%s", duration);
	} else if (option->kind == OPTION_CHOICE) {
		const char *word = option->choices;
		for (uint64_t i = 0; i < number; i++)
			word += strcspn(word, "|") + 1;
		snprintf(ret_text, size, "%.*s", (int)strcspn(word, "|"), word);
	} else {
		snprintf(ret_text, size, "%" PRIu64, number);
	}
}

/* What was taken over is that of the last file, where it can be; else that of the
 * start, however many files have come since. */
static int compare_serve(struct config_diff *diff, const struct config_states *states)
{
	const struct config *new = states->next;
	int error = 0;
	const struct config_option *row;
	for (size_t i = 0; error == 0 && (row = config_table_row(i)); i++) {
		char was[256];
		char is[256];
		char text[600];
		if (!row->flag)
			continue;
		const struct config *old = row->reload ? states->last : states->start;
		write_value(row->flag, &old->serve, was, sizeof(was));
		write_value(row->flag, &new->serve, is, sizeof(is));
		snprintf(text, sizeof(text), "%s becomes %s", was, is);
		if (strcmp(was, is) != 0)
			error = add(diff, row->path, row->reload, text);
	}
	return error;
}

static bool same_secrets(const struct span *old, uint32_t old_count, const struct span *new,
                         uint32_t new_count)
{
	bool same = old_count == new_count;
	for (uint32_t i = 0; i < new_count && same; i++)
		same = span_eq(old[i], new[i]);
	return same;
}

/* Their number and place may tell nothing: only that they are others. */
static int compare_tokens(struct config_diff *diff, const struct config *old,
                          const struct config *new)
{
	int error = 0;
	if (!same_secrets(old->admin_tokens, old->admin_token_count, new->admin_tokens,
	                  new->admin_token_count))
		error = add(diff, "admin.token", false, "changed");
	if (error == 0 && !same_secrets(old->resp_passwords, old->resp_password_count,
	                                new->resp_passwords, new->resp_password_count))
		error = add(diff, "resp.password", false, "changed");
	return error;
}

static int compare_store(struct config_diff *diff, const struct config *old,
                         const struct config *new)
{
	int error = 0;
	if (!span_eq(old->store.url, new->store.url))
		error = add(diff, "store.url", false, "changed");
	if (error == 0 && old->store.lease_ms != new->store.lease_ms)
		error = add(diff, "store.lease", false, "changed");
	return error;
}

/* ---- sinks and routes ---- */

static void put_policy(struct buf *out, const struct config_sink *sink)
{
	const struct deliver_policy *policy = &sink->policy;
	const struct retry_policy *retries[] = { &policy->retry, &policy->stuck };
	const struct breaker_policy *breaker = &policy->breaker;
	const struct limiter_policy *limiter = &policy->limiter;
	for (size_t i = 0; i < ARRAY_LEN(retries); i++) {
		put_number(out, retries[i]->first_ms);
		put_number(out, retries[i]->max_ms);
		put_number(out, retries[i]->for_ms);
		put_number(out, retries[i]->attempts);
	}
	const uint64_t numbers[] = {
		breaker->failures,   breaker->per_cent,
		breaker->calls,      breaker->window_ms,
		breaker->first_ms,   breaker->max_ms,
		breaker->probes,     breaker->successes,
		limiter->rate,       limiter->per_ms,
		limiter->burst,      limiter->most,
		limiter->fixed,      policy->on_unknown,
		policy->forget_dead, policy->retry_after_max_ms,
	};
	buf_append(out, numbers, sizeof(numbers));
	put_texts(out, sink->rules, sink->rule_count);
	put_text(out, sink->dead_letter);
	put_number(out, policy->dead_sink);
}

static void put_file(struct buf *out, const char *path)
{
	put_text(out, path ? span_str(path) : SPAN_EMPTY);
}

static void put_http(struct buf *out, const struct config_http *http)
{
	const struct span texts[] = { http->url, http->probe, http->body, http->correlation_header,
		                      http->server_name };
	const uint64_t numbers[] = {
		http->method,       http->body_is_form, http->batch,
		http->batch_events, http->batch_bytes,  http->connect_ms,
		http->timeout_ms,   http->idle_ms,      http->http1,
	};
	put_texts(out, texts, ARRAY_LEN(texts));
	buf_append(out, numbers, sizeof(numbers));
	put_number(out, http->headers.count);
	for (uint32_t i = 0; i < http->headers.count; i++) {
		put_text(out, http->headers.list[i].name);
		put_text(out, http->headers.list[i].value);
		put_number(out, http->headers.list[i].secret);
	}
	put_file(out, http->ca_file);
	put_file(out, http->cert_file);
	put_file(out, http->key_file);
	put_texts(out, http->sign, http->sign_count);
	put_texts(out, http->allow, http->allow_count);
}

static void put_file_sink(struct buf *out, const struct config_file *file)
{
	const uint64_t numbers[] = { file->no_sync, file->rotate_bytes, file->rotate_ms,
		                     file->keep };
	put_text(out, file->path);
	buf_append(out, numbers, sizeof(numbers));
}

static void put_postgres(struct buf *out, const struct config_sink *sink)
{
	const struct config_postgres *postgres = &sink->postgres;
	const struct span texts[] = { postgres->conninfo, postgres->table, postgres->statement,
		                      postgres->key };
	put_texts(out, texts, ARRAY_LEN(texts));
	put_texts(out, postgres->password, postgres->password_count);
	put_number(out, postgres->no_create);
	put_number(out, sink->http.connect_ms);
	put_number(out, sink->http.timeout_ms);
}

static void put_sink(struct buf *out, const struct config_sink *sink)
{
	put_text(out, sink->name); /* standard output may have another, and is the same */
	put_number(out, sink->kind);
	put_number(out, sink->id);
	put_number(out, sink->print);
	put_policy(out, sink);
	if (sink->kind == CONFIG_SINK_HTTP || sink->kind == CONFIG_SINK_STILE)
		put_http(out, &sink->http);
	if (sink->kind == CONFIG_SINK_FILE)
		put_file_sink(out, &sink->file);
	if (sink->kind == CONFIG_SINK_POSTGRES)
		put_postgres(out, sink);
}

static void put_routes(struct buf *out, const struct config *config)
{
	for (uint32_t i = 0; i < config->route_count; i++) {
		const struct config_route *route = &config->routes[i];
		put_texts(out, route->from, route->from_count);
		put_texts(out, route->to, route->to_count);
		put_text(out, route->type);
		put_text(out, route->order_by);
		put_conditions(out, route->conditions, route->condition_count);
	}
}

int config_sink_changed(const struct config_sink *old, const struct config_sink *new)
{
	struct versions sinks = { 0 };
	put_sink(&sinks.old, old);
	put_sink(&sinks.new, new);
	return versions_differ(&sinks);
}

static int add_sinks(struct config_diff *diff, const struct config *from,
                     const struct config *other, const char *text)
{
	int error = 0;
	for (uint32_t i = 0; i < from->sink_count && error == 0; i++) {
		const struct config_sink *sink = &from->sinks[i];
		if (!config_find_sink(other, sink->name))
			error = add_named(diff, "sinks", sink->name, text);
	}
	return error;
}

static int compare_sinks(struct config_diff *diff, const struct config *old,
                         const struct config *new)
{
	int error = add_sinks(diff, old, new, "removed");
	if (error == 0)
		error = add_sinks(diff, new, old, "added");
	for (uint32_t i = 0; error == 0 && i < new->sink_count; i++) {
		const struct config_sink *sink = &new->sinks[i];
		const struct config_sink *was = config_find_sink(old, sink->name);
		int changed = was ? config_sink_changed(was, sink) : 0;
		error = changed > 0 ? add_named(diff, "sinks", sink->name, "changed") : changed;
	}
	return error;
}

static int compare_routes(struct config_diff *diff, const struct config *old,
                          const struct config *new)
{
	struct versions routes = { 0 };
	put_routes(&routes.old, old);
	put_routes(&routes.new, new);
	int changed = versions_differ(&routes);
	return changed > 0 ? add(diff, "routes", true, "changed") : changed;
}

static void put_claims_api(struct buf *out, const struct config_claims *claims)
{
	put_number(out, claims->enabled);
	put_number(out, claims->window_s);
	put_number(out, claims->lease_ms);
	put_number(out, claims->outcome_bytes);
	put_auth(out, &claims->auth);
}

static int compare_claims_api(struct config_diff *diff, const struct config *old,
                              const struct config *new)
{
	struct versions claims = { 0 };
	put_claims_api(&claims.old, &old->claims);
	put_claims_api(&claims.new, &new->claims);
	int changed = versions_differ(&claims);
	return changed > 0 ? add(diff, "claims", true, "changed") : changed;
}

int config_diff(const struct config_states *states, struct config_diff *ret_diff)
{
	struct config_diff diff = { 0 };
	diff.changes = arena_alloc(&diff.arena, CHANGES_MAX * sizeof(*diff.changes));
	int error = diff.changes ? compare_serve(&diff, states) : -ENOMEM;
	if (error == 0)
		error = compare_tokens(&diff, states->start, states->next);
	if (error == 0)
		error = compare_store(&diff, states->start, states->next);
	if (error == 0)
		error = compare_claims_api(&diff, states->last, states->next);
	if (error == 0)
		error = compare_sources(&diff, states->last, states->next);
	if (error == 0)
		error = compare_sinks(&diff, states->last, states->next);
	if (error == 0)
		error = compare_routes(&diff, states->last, states->next);
	if (error != 0) {
		config_diff_free(&diff);
		return error;
	}
	*ret_diff = diff;
	return 0;
}

void config_diff_free(struct config_diff *diff)
{
	arena_free(&diff->arena);
	*diff = (struct config_diff){ 0 };
}
