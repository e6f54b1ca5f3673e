/* serve_sources: see serve_sources.h. */
#include "app/serve_sources.h"

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

int serve_sources_new(const struct config *config, const unsigned char *key,
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
			.busy_if_open = source->ack_delivered,
			.retries_ms = advice_retries_ms(source->preset),
		};
	}
	int r = source_set_new(&(struct source_set_options){ .sources = sources,
	                                                     .count = config->source_count,
	                                                     .key = key,
	                                                     .counts = counts,
	                                                     .warn = warn },
	                       ret_set, ret_text);
	mem_free(sources);
	return r;
}
