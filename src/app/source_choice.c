/* source_choice: see source_choice.h. */
#include "app/source_choice.h"

#include <stdio.h>

#include "app/command.h"
#include "app/exit_code.h"
#include "app/serve_sources.h"
#include "app/suggest.h"
#include "gate/presets.h"

#define WINDOW_S (4u * 86400)

/* "there is no … "name"; did you mean …?" */
static int unknown(const char *command, const char *what, const char *name,
                   const struct suggest *suggest)
{
	struct error_text text;
	error_fill(&text, 0, "there is no %s \"%s\"%s%.*s%s", what, name,
	           suggest->best.len ? "; did you mean " : "", (int)suggest->best.len,
	           suggest->best.len ? suggest->best.ptr : "", suggest->best.len ? "?" : "");
	return command_usage_error(command, text.text);
}

static int unknown_preset(const char *command, const char *name)
{
	struct suggest suggest = suggest_begin(span_str(name));
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	for (uint32_t i = 0; i < count; i++)
		suggest_offer(&suggest, span_str(presets[i].name));
	return unknown(command, "preset", name, &suggest);
}

static int unknown_source(const char *command, const struct config *config, const char *name)
{
	struct suggest suggest = suggest_begin(span_str(name));
	CHECK(config && config->sources); /* there is always one */
	for (uint32_t i = 0; i < config->source_count; i++)
		suggest_offer(&suggest, config->sources[i].name);
	return unknown(command, "source", name, &suggest);
}

static int compile(const char *command, const struct recipe_spec *spec,
                   const unsigned char key[static DIGEST_KEY_LEN], struct source_choice *choice)
{
	struct recipe_problem problem;
	int error = recipe_compile(spec, key, &choice->recipe, &problem);
	if (error == 0) {
		choice->window_s = recipe_window_s(choice->recipe);
		return EXIT_CODE_OK;
	}
	fprintf(stderr, "stile %s: %s\n", command,
	        error == ERR_CONFIG ? problem.text.text : error_name(error));
	return EXIT_CODE_FAILED;
}

static int choose_preset(const char *command, const struct source_choice_options *options,
                         const unsigned char key[static DIGEST_KEY_LEN],
                         struct source_choice *choice)
{
	struct span name = span_str(options->preset ? options->preset : "auto");
	const struct preset *preset = preset_find(name);
	if (!preset)
		return unknown_preset(command, options->preset);
	struct recipe_spec spec = {
		.source = name,
		.window_s = options->window_ms ? (uint32_t)(options->window_ms / 1000) : WINDOW_S,
		.case_count = preset->case_count,
		.cases = preset->cases,
	};
	return compile(command, &spec, key, choice);
}

static int choose_source(const char *command, const struct source_choice_options *options,
                         const unsigned char key[static DIGEST_KEY_LEN],
                         struct source_choice *choice)
{
	const struct config *config = choice->config;
	const struct config_source *source = &config->sources[0];
	if (options->source)
		source = config_find_source(config, span_str(options->source));
	else if (config->source_count > 1)
		return command_usage_error(command, "the configuration has several sources: which "
		                                    "--source is meant?");
	if (!source)
		return unknown_source(command, config, options->source);
	struct recipe_spec spec = source->recipe;
	if (options->window_ms)
		spec.window_s = (uint32_t)(options->window_ms / 1000);
	choice->on_conflict = serve_conflict_of(source->on_conflict);
	return compile(command, &spec, key, choice);
}

static int load(const char *command, const char *path, struct config **ret_config)
{
	struct config_input input = { .path = path };
	struct config_report report;
	int error = config_load(&input, ret_config, &report);
	config_report_print(&report, stderr);
	if (error != 0 && error != ERR_CONFIG)
		fprintf(stderr, "stile %s: %s\n", command, error_name(error));
	config_report_free(&report);
	if (error == 0)
		return EXIT_CODE_OK;
	return error == ERR_CONFIG ? EXIT_CODE_USAGE : EXIT_CODE_FAILED;
}

int source_choice_make(const char *command, const struct source_choice_options *options,
                       const unsigned char key[static DIGEST_KEY_LEN],
                       struct source_choice *ret_choice)
{
	struct source_choice choice = { 0 };
	int code = EXIT_CODE_OK;
	if (options->config && options->preset)
		return command_usage_error(command, "--preset or --config, not both");
	if (options->source && !options->config)
		return command_usage_error(command, "--source goes with --config");
	if (options->config)
		code = load(command, options->config, &choice.config);
	if (code == EXIT_CODE_OK)
		code = choice.config ? choose_source(command, options, key, &choice)
		                     : choose_preset(command, options, key, &choice);
	if (code == EXIT_CODE_OK)
		*ret_choice = choice;
	else
		source_choice_free(&choice);
	return code;
}

void source_choice_free(struct source_choice *choice)
{
	choice->recipe = recipe_free(choice->recipe);
	choice->config = config_free(choice->config);
}
