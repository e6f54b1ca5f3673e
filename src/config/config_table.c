/* config_table: see config_table.h. */
#include "config/config_table.h"

#include <string.h>

#include "config/config_rows.h"

static const struct config_rows *const parts[] = {
	&config_rows_gateway, &config_rows_claims, &config_rows_sources,
	&config_rows_sinks,   &config_rows_routes,
};

const struct config_option *config_table_row(size_t index)
{
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (index < parts[i]->count)
			return &parts[i]->rows[index];
		index -= parts[i]->count;
	}
	return NULL;
}

bool config_option_in(const struct config_option *option, const char *section,
                      struct span *ret_name)
{
	size_t len = strlen(section);
	const char *name = option->path;
	if (len > 0) {
		if (strncmp(name, section, len) != 0 || name[len] != '.')
			return false;
		name += len + 1;
	}
	if (strpbrk(name, ".["))
		return false;
	if (ret_name)
		*ret_name = span_str(name);
	return true;
}

const struct config_option *config_option_find(const char *section, struct span name)
{
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)); i++) {
		struct span own;
		if (config_option_in(row, section, &own) && span_eq(own, name))
			return row;
	}
	return NULL;
}

bool config_option_reloads(const struct config_option *option)
{
	struct span top = span_of(option->path, strcspn(option->path, ".["));
	return option->reload || config_option_find("", top)->reload;
}

const char *config_option_help(const struct config_option *option)
{
	return option->flag ? option->flag->help : option->help;
}

const char *config_option_standard(const struct config_option *option)
{
	return option->flag ? option->flag->standard : option->standard;
}

const char *config_option_value(const struct config_option *option)
{
	const char *choices = config_option_choices(option);
	if (choices)
		return choices;
	return option->flag ? option->flag->value : option->value;
}

const char *config_option_choices(const struct config_option *option)
{
	return option->flag ? option->flag->choices : option->choices;
}
