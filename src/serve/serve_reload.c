/* A new configuration while the gateway runs. See serve_private.h. */
#include "serve/serve_private.h"

#include <string.h>

#include "base/log.h"
#include "sys/file.h"

#define LATER_MS 200
#define CHANGE_RETRY_MS 5000

/* What changed, and whether it needs a restart. */
static void log_changes(const struct config_diff *diff)
{
	for (uint32_t i = 0; i < diff->count; i++) {
		const struct config_change *change = &diff->changes[i];
		if (change->reloads)
			log_info("configuration option changed and in effect",
			         log_str("option", change->option), log_str("text", change->text));
		else
			log_warn("configuration option not changed: it needs a restart",
			         log_str("option", change->option), log_str("text", change->text));
	}
}

bool serve_reload_is_changing(struct serve *serve)
{
	if (serve_sinks_changing(serve->change))
		return true;
	if (serve->change) {
		serve_sinks_failed(serve->change, &serve->failed);
		serve->retry_at_ms = loop_now_ms(serve->ios[0].loop) + CHANGE_RETRY_MS;
	}
	serve->change = serve_sinks_change_free(serve->change);
	if (serve->before != serve->config)
		config_free(serve->before);
	serve->before = NULL;
	return false;
}

/* Gives all io threads the sources of the new configuration. Their routes may lead to new
 * sinks, so the lanes of these are added first. */
static int take_over(struct serve *serve, struct config *config, struct error_text *ret_text)
{
	struct source_set *set = NULL;
	int error = serve_sources_new(config, serve->options->listen, serve->store.key,
	                              &serve->counts, &set, ret_text);
	if (error == 0)
		error = serve_sinks_change(serve->deliver,
		                           &(struct sinks_step){ serve->loaded, config,
		                                                 &serve->failed },
		                           &serve->change, ret_text);
	if (error != 0) {
		source_set_release(set);
		return error;
	}
	for (uint32_t i = 0; i < serve->io_count; i++)
		webhook_offer(&serve->ios[i].webhook, set);
	serve_admin_offer(serve->admin, set);
	source_set_release(serve->sources);
	serve->sources = set;
	memset(serve->alarms, 0, sizeof(serve->alarms));
	return 0;
}

/* A bad file changes nothing. Options that need a restart keep the values of the start. */
void serve_reload(struct serve *serve)
{
	struct config *config = NULL;
	struct config_report report;
	struct config_diff diff = { 0 };
	struct error_text text = { "" };
	struct config_input input = *serve->input;
	input.again = true;
	if (!input.path) {
		log_warn("SIGHUP ignored: no configuration file is in use");
		return;
	}
	if (file_is_pipe(input.path)) {
		log_warn("SIGHUP ignored: the configuration was read from a pipe");
		return;
	}
	if (serve_reload_is_changing(serve)) {
		serve->reload_again = true; /* see serve_reload_later() */
		return;
	}
	int error = config_load(&input, &config, &report);
	config_log_report(&report);
	if (error == 0)
		error = config_diff(&(struct config_states){ serve->config, serve->loaded, config },
		                    &diff);
	if (error == 0)
		error = take_over(serve, config, &text);
	if (error == 0) {
		log_changes(&diff);
		if (serve->store.shared && !serve->store.spools && config_spools(config))
			log_warn(
				"store_away: spool takes effect after a restart; no spool is open until then");
		log_info("configuration loaded", log_str("file", serve->input->path),
		         log_u64("sources", config->source_count));
		serve->before = serve->loaded; /* until the sinks are changed */
		serve->loaded = config;
		config = NULL;
	} else {
		log_error("configuration rejected; keeping the current one",
		          log_str("file", serve->input->path),
		          log_str("error", text.text[0] ? text.text : error_name(error)));
	}
	config_diff_free(&diff);
	config_report_free(&report);
	config_free(config);
}

/* Tries again the sinks whose outlet could not be made at the reload. */
static void retry_change(struct serve *serve)
{
	struct error_text text = { "" };
	struct sinks_step step = { serve->loaded, serve->loaded, &serve->failed };
	if (serve->failed.count == 0 || loop_now_ms(serve->ios[0].loop) < serve->retry_at_ms)
		return;
	serve->retry_at_ms = loop_now_ms(serve->ios[0].loop) + CHANGE_RETRY_MS;
	int error = serve_sinks_change(serve->deliver, &step, &serve->change, &text);
	if (error != 0)
		log_error("sinks cannot be changed now; trying again", log_code(error));
}

/* A sink that changes ends its requests under way first; a SIGHUP during that time waits. */
void serve_reload_later(struct loop_timer *timer)
{
	struct serve *serve = container_of(timer, struct serve, later);
	if (!serve_reload_is_changing(serve) && serve->reload_again &&
	    serve->phase == PHASE_SERVE) {
		serve->reload_again = false;
		serve_reload(serve);
	} else if (!serve->change && serve->phase == PHASE_SERVE) {
		retry_change(serve);
	}
	if (loop_timer_set(serve->ios[0].loop, timer, LATER_MS) != 0)
		log_error("reload timer cannot be set");
}
