/* config: see config.h. */
#include "config/config.h"

#include "base/mem.h"
#include "config/config_reader.h"

#define OPTION_MAX 512 /* bytes of an option's full name; longer ones are cut */

static void read_tree(struct config_reader *reader, const struct yaml_node *root)
{
	if (!root || !config_is_map(reader, root))
		return;
	config_read_section(reader, "", root, reader->config);
	static const struct {
		const char *name;
		void (*read)(struct config_reader *reader, const struct yaml_node *node);
	} rest[] = {
		{ "claims", config_read_claims_api },
		{ "sources", config_read_sources },
		{ "sinks", config_read_sinks },
		{ "routes", config_read_routes },
	};
	for (size_t i = 0; i < ARRAY_LEN(rest); i++) {
		const struct yaml_node *node = yaml_map_find(root, span_str(rest[i].name));
		size_t at = config_enter(reader, span_str(rest[i].name));
		if (node)
			rest[i].read(reader, node);
		config_leave(reader, at);
	}
}

static bool has(const struct yaml_node *root, struct span name)
{
	return yaml_map_find(root, name) != NULL;
}

static void read_text(struct config_reader *reader, struct span text)
{
	struct yaml_doc *doc = NULL;
	struct yaml_problem problem = { 0 };
	int error = yaml_doc_parse(text, &doc, &problem);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0)
		config_tell_at(reader, CONFIG_ERROR,
		               (struct config_place){ problem.line, problem.column }, "%s",
		               problem.text.text);
	const struct yaml_node *root = doc ? yaml_doc_root(doc) : NULL;
	if (doc && !root && reader->input->again)
		config_tell(
			reader, CONFIG_ERROR, NULL,
			"the file is empty, and may be in the middle of being written; {} would "
			"be all defaults");
	read_tree(reader, root);
	if (doc && !has(root, SPAN("sources")))
		config_add_default_source(reader);
	if (doc && !has(root, SPAN("sinks")))
		config_add_default_sink(reader);
	yaml_doc_free(doc);
}

static void read_file(struct config_reader *reader)
{
	const struct config_input *input = reader->input;
	struct file_system *files = input->files ? input->files : file_system_real();
	char *bytes = NULL;
	size_t len = 0;
	int error = (input->again ? file_read_regular : file_read_whole)(files, input->path,
	                                                                 YAML_SIZE_MAX, &bytes,
	                                                                 &len);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0)
		config_tell(reader, CONFIG_ERROR, NULL, "the file cannot be read: %s",
		            error == ERR_TOO_LARGE ? "it has more than 1MiB" : error_name(error));
	/* Nothing is a configuration too, with a source that trusts everybody: from a
	 * pipe it rather means that what should have written there has failed. */
	else if (len == 0 && !input->files && file_is_pipe(input->path))
		config_tell(reader, CONFIG_ERROR, NULL, "nothing came through this pipe");
	if (error != 0)
		return;
	read_text(reader, span_of(bytes, len));
	explicit_bzero(bytes, len);
	mem_free(bytes);
}

static void read_flags(struct config_reader *reader)
{
	const struct config_input *input = reader->input;
	struct error_text text;
	int rest = 0;
	int error = options_apply(serve_option_table, input->flag_count, input->flags,
	                          &reader->config->serve, &rest, &text);
	if (error != 0)
		config_tell(reader, CONFIG_ERROR, NULL, "%s", text.text);
	else if (rest > 0)
		config_tell(reader, CONFIG_ERROR, NULL, "unexpected argument \"%s\"",
		            input->flags[0]);
}

static void read_all(struct config_reader *reader)
{
	options_set_defaults(serve_option_table, &reader->config->serve);
	reader->config->claims = (struct config_claims){ .lease_ms = 30000,
		                                         .outcome_bytes = 64u << 10 };
	if (reader->input->text)
		read_text(reader, *reader->input->text);
	else if (reader->input->path)
		read_file(reader);
	else
		read_text(reader, SPAN_EMPTY);
	read_flags(reader);
	config_check_all(reader);
}

int config_load(const struct config_input *input, struct config **ret_config,
                struct config_report *report)
{
	char memory[OPTION_MAX];
	*report = (struct config_report){ .file = input->path };
	struct config *config = mem_zalloc(1, sizeof(*config));
	if (!config)
		return -ENOMEM;
	config->arena.wipe = true;
	struct config_reader reader = {
		.input = input,
		.config = config,
		.report = report,
		.option = buf_on(memory, sizeof(memory)),
	};
	read_all(&reader);
	config_report_sort(report);
	if (reader.failed != 0 || report->errors > 0) {
		config_free(config);
		return reader.failed != 0 ? reader.failed : ERR_CONFIG;
	}
	*ret_config = config;
	return 0;
}

struct config *config_free(struct config *config)
{
	if (config)
		arena_free(&config->arena);
	return mem_free(config);
}

const struct config_sink *config_find_sink(const struct config *config, struct span name)
{
	for (uint32_t i = 0; i < config->sink_count; i++)
		if (span_eq(config->sinks[i].name, name))
			return &config->sinks[i];
	return NULL;
}

const struct config_source *config_find_source(const struct config *config, struct span name)
{
	for (uint32_t i = 0; i < config->source_count; i++)
		if (span_eq(config->sources[i].name, name))
			return &config->sources[i];
	return NULL;
}
