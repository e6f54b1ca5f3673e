/* config_read: walks the tree by the table. See config_reader.h. */
#include "config/config_reader.h"
#include "config/suggest.h"

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

/* - and _ are one to whoever knows the flags. */
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

static struct span last_name(const struct config_option *option)
{
	const char *dot = strrchr(option->path, '.');
	return span_str(dot ? dot + 1 : option->path);
}

/* Is this its name, in the file or as a flag? */
static bool is_named(const struct config_option *option, struct span name)
{
	return (option->flag && is_same_name(span_str(option->flag->name), name)) ||
	       is_same_name(last_name(option), name);
}

/* Or what people write for it, where it could stand? */
static bool is_meant(const struct config_option *option, struct span name)
{
	return (option->also && option_choice(option->also, name) >= 0) || is_named(option, name);
}

/* In its own section, or else the one place that has the very name. */
static const struct config_option *find_meant(const char *section, struct span name)
{
	const struct config_option *found = NULL;
	const struct config_option *option;
	uint32_t places = 0;
	for (size_t i = 0; (option = config_table_row(i)); i++) {
		if (config_option_in(option, section, NULL) && is_meant(option, name))
			return option;
		if (!is_named(option, name))
			continue;
		found = option;
		places++;
	}
	/* Below a name that one chooses there would be too many to mean. */
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

/* Lists, and what depends on other options, are read by the file of their section. */
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
