/* serve_sources: see serve_sources.h. */
#include "serve/serve_sources.h"

#include "base/log.h"
#include "base/mem.h"
#include "gate/advice.h"

enum store_conflict serve_conflict_of(enum config_conflict conflict)
{
	switch (conflict) {
	case CONFIG_CONFLICT_KEEP_FIRST: return STORE_CONFLICT_ASIDE;
	case CONFIG_CONFLICT_LET_THROUGH: return STORE_CONFLICT_PASS;
	case CONFIG_CONFLICT_REJECT: return STORE_CONFLICT_REJECT;
	}
	return STORE_CONFLICT_ASIDE;
}

static void warn(struct span source, const char *text)
{
	log_warn("authentication", log_span("source", source), log_str("text", text));
}

/* NULL for a gateway whose only sink is standard output: nothing is to be decided. */
static int new_routes(const struct config *config, const unsigned char *key,
                      struct route_set **ret_set, struct error_text *ret_text)
{
	struct route_problem problem;
	*ret_set = NULL;
	if (config->route_count == 0 && config->sink_count == 1 && config->sinks[0].id == 0)
		return 0;
	int error = config_routes_new(config, key, ret_set, &problem);
	if (error != 0)
		error_fill(ret_text, error, "routes: %s",
		           error == ERR_CONFIG ? problem.text.text : error_name(error));
	return error;
}

static struct source_claims_options claims_options(const struct config *config, const char *listen)
{
	const struct config_claims *claims = &config->claims;
	enum source_claims_mode mode = config_claims_guarded(claims, listen)
	                                       ? SOURCE_CLAIMS_ON
	                                       : SOURCE_CLAIMS_UNGUARDED;
	return (struct source_claims_options){
		.mode = claims->enabled == CONFIG_CLAIMS_OFF ? SOURCE_CLAIMS_OFF : mode,
		.auth = &claims->auth,
		.window_s = claims->window_s,
		.lease_ms = claims->lease_ms,
		.outcome_bytes = claims->outcome_bytes,
	};
}

int serve_sources_new(const struct config *config, const char *listen, const unsigned char *key,
                      struct source_counts *counts, struct source_set **ret_set,
                      struct error_text *ret_text)
{
	struct source_options *sources = mem_zalloc(config->source_count, sizeof(*sources));

	if (!sources)
		return error_fill(ret_text, -ENOMEM, "%s", error_name(-ENOMEM));
	for (uint32_t i = 0; i < config->source_count; i++) {
		const struct config_source *source = &config->sources[i];
		sources[i] = (struct source_options){
			.path = source->path,
			.recipe = &source->recipe,
			.auth = &source->auth,
			.on_conflict = serve_conflict_of(source->on_conflict),
			.spool = source->spool,
			.wait_ms = source->ack_delivered ? source->wait_ms : 0,
			.retries_ms = advice_retries_ms(source->preset),
		};
	}
	struct route_set *routes = NULL;
	int error = new_routes(config, key, &routes, ret_text);
	if (error == 0)
		error = source_set_new(
			&(struct source_set_options){ .sources = sources,
		                                      .count = config->source_count,
		                                      .claims = claims_options(config, listen),
		                                      .key = key,
		                                      .counts = counts,
		                                      .routes = routes,
		                                      .warn = warn },
			ret_set, ret_text);
	if (error != 0)
		route_set_free(routes);
	mem_free(sources);
	return error;
}
