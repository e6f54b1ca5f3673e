/* config_read: a configuration as a whole: read, checked, freed; and sections by the table. See
 * config.h and config_internal.h. */
#include "base/mem.h"
#include "config/config_internal.h"

/* ---- sections ---- */

bool config_is_map(struct config_reader *reader, const struct yaml_node *node)
{
	if (node->kind == YAML_MAP)
		return true;
	config_tell(reader, CONFIG_ERROR, node, "found %s, expected a map of options",
	            config_found_kind(node));
	return false;
}

bool config_is_repeated(struct config_reader *reader, const struct yaml_node *map,
                        const struct yaml_node *member)
{
	const struct yaml_node *first = yaml_map_find(map, member->name->text);
	if (first == member)
		return false;
	config_tell(reader, CONFIG_ERROR, member->name, "given twice, first in line %u",
	            first->name->line);
	return true;
}

/* - and _ are the same: people write the names of flags. */
static bool is_same_name(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (a.ptr[i] != b.ptr[i] && (a.ptr[i] != '-' || b.ptr[i] != '_') &&
		    (a.ptr[i] != '_' || b.ptr[i] != '-'))
			return false;
	return true;
}

/* Is this its name, in the file or as a flag? */
static bool is_named(const struct config_option *option, struct span name)
{
	const char *dot = strrchr(option->path, '.');
	return (option->flag && is_same_name(span_str(option->flag), name)) ||
	       is_same_name(span_str(dot ? dot + 1 : option->path), name);
}

/* An option of this section, or else the only option of that name anywhere. */
static const struct config_option *find_meant(const char *section, struct span name)
{
	const struct config_option *found = NULL;
	const struct config_option *option;
	uint32_t places = 0;
	for (size_t i = 0; (option = config_table_row(i)); i++) {
		if (config_option_in(option, section, NULL) &&
		    (is_named(option, name) ||
		     (option->also && option_choice(option->also, name) >= 0)))
			return option;
		if (!is_named(option, name))
			continue;
		found = option;
		places++;
	}
	/* Below a name that the user chooses there would be too many candidates. */
	return places == 1 && !strchr(found->path, '*') ? found : NULL;
}

bool config_has_unknown(const char *section, const struct yaml_node *map)
{
	for (const struct yaml_node *member = map->first; member; member = member->next)
		if (!config_option_find(section, member->name->text))
			return true;
	return false;
}

/* One that an earlier release had: its successor's row, or NULL if it sets nothing now. */
static const struct config_option *find_old(struct config_reader *reader, const char *section,
                                            const struct option_old *old,
                                            const struct yaml_node *member)
{
	config_tell(reader, CONFIG_WARNING, member->name, "old option: %s", old->advice);
	return old->successor ? config_option_find(section, span_str(old->successor)) : NULL;
}

static void tell_unknown(struct config_reader *reader, const char *section,
                         const struct yaml_node *member)
{
	struct span name = member->name->text;
	struct suggest suggest = suggest_begin(name);
	const struct config_option *option;
	for (size_t i = 0; (option = config_table_row(i)); i++) {
		struct span known;
		if (config_option_in(option, section, &known))
			suggest_offer(&suggest, known);
	}
	const struct config_option *meant = find_meant(section, name);
	struct span own;
	if (suggest.best.len > 0 && suggest.distance <= 1)
		meant = NULL;
	if (meant && config_option_in(meant, section, &own))
		config_tell(reader, CONFIG_ERROR, member->name,
		            "unknown option; did you mean \"%.*s\"?", (int)own.len, own.ptr);
	else if (meant)
		config_tell(reader, CONFIG_ERROR, member->name, "unknown option; did you mean %s?",
		            meant->path);
	else if (suggest.best.len > 0)
		config_tell(reader, CONFIG_ERROR, member->name,
		            "unknown option; did you mean \"%.*s\"?", (int)suggest.best.len,
		            suggest.best.ptr);
	else
		config_tell(reader, CONFIG_ERROR, member->name, "unknown option");
}

/* Lists, and options that depend on others, are read by the file of their section. */
static void read_option(struct config_reader *reader, const struct config_option *option,
                        const struct yaml_node *node, void *base)
{
	const struct config_option *bare = option->bare && node->kind == YAML_TEXT
	                                           ? config_option_find(option->path,
	                                                                span_str(option->bare))
	                                           : NULL;
	switch (option->kind) {
	case CONFIG_SECTION:
		if (bare)
			config_read_value(reader, bare, node, base);
		else if (config_is_map(reader, node))
			config_read_section(reader, option->path, node,
			                    (char *)base + option->offset);
		break;
	case CONFIG_NAMED:
	case CONFIG_LIST:
	case CONFIG_CONTENT: break;
	default: config_read_value(reader, option, node, base); break;
	}
}

void config_read_section(struct config_reader *reader, const char *section,
                         const struct yaml_node *map, void *base)
{
	CHECK(map->kind == YAML_MAP);
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		struct span name = member->name->text;
		const struct config_option *option = config_option_find(section, name);
		size_t at = config_enter(reader, name);
		const struct option_old *old = option ? NULL
		                                      : option_old_path(buf_span(&reader->option));
		if (old)
			option = find_old(reader, section, old, member);
		if (config_is_repeated(reader, map, member) || (old && !option))
			;
		else if (!option)
			tell_unknown(reader, section, member);
		else
			read_option(reader, option, member, base);
		config_leave(reader, at);
	}
}

/* ---- the file ---- */

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
	/* An empty file is valid, with a source that trusts everybody. An empty pipe more likely
	 * means that its writer failed. */
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
	config_set_defaults("", reader->config);
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
