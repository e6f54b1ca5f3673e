/* source_choice: see source_choice.h. */
#include "config/source_choice.h"

#include <stdio.h>

#include "base/exit_code.h"
#include "config/options.h"
#include "gate/recipe/presets.h"

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

/* The name of a header, if the part is one that must be there. */
static struct span header_name(struct span part)
{
	bool header = span_cut_start(&part, SPAN("header:"));
	return header && part.len > 0 && part.ptr[part.len - 1] != '?' ? part : SPAN_EMPTY;
}

/* A header without which no event is of this case, or none is accepted. */
static struct span needed_header(const struct recipe_case_spec *spec)
{
	struct span name = SPAN_EMPTY;
	for (uint32_t i = 0; i < spec->condition_count && name.len == 0; i++)
		if (!spec->conditions[i].negate)
			name = header_name(spec->conditions[i].part);
	for (uint32_t i = 0; i < spec->claim_count; i++) {
		const struct recipe_claim_spec *claim = &spec->claims[i];
		bool always = claim->missing == RECIPE_MISSING_REJECT &&
		              claim->condition_count == 0;
		for (uint32_t k = 0; k < claim->part_count && always && name.len == 0; k++)
			name = header_name(claim->parts[k]);
	}
	return name;
}

/* Of all cases, or none. */
static struct span header_of_all(const struct recipe_spec *spec)
{
	struct span first = SPAN_EMPTY;
	for (uint32_t i = 0; i < spec->case_count; i++) {
		struct span name = needed_header(&spec->cases[i]);
		if (name.len == 0)
			return SPAN_EMPTY;
		first = i == 0 ? name : first;
	}
	return first;
}

static int compile(const char *command, const struct recipe_spec *spec,
                   const unsigned char key[static DIGEST_KEY_LEN], struct source_choice *choice)
{
	struct recipe_problem problem;
	int error = recipe_compile(spec, key, &choice->recipe, &problem);
	if (error == 0) {
		choice->window_s = recipe_window_s(choice->recipe);
		choice->header = header_of_all(spec);
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
	CHECK(config && config->source_count > 0);
	const struct config_source *source = &config->sources[0];
	if (options->source)
		source = config_find_source(config, span_str(options->source));
	else if (config->source_count > 1)
		return command_usage_error(
			command, "the configuration has several sources: name one with --source");
	if (!source)
		return unknown_source(command, config, options->source);
	struct recipe_spec spec = source->recipe;
	if (options->window_ms)
		spec.window_s = (uint32_t)(options->window_ms / 1000);
	choice->on_conflict = source->door.on_conflict;
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
		return command_usage_error(command, "--source needs --config");
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
