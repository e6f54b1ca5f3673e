/*
 * check_command: `stile check FILE`: is this configuration right, and what does it mean?
 * Exit code 2 for a configuration with errors.
 */
#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/exit_code.h"
#include "base/text.h"
#include "codec/json_write.h"

struct check_options {
	bool json;
};

static const struct option options[] = {
	{ "json", OPTION_FLAG, offsetof(struct check_options, json), NULL, NULL, 0, 0, NULL,
	  "print one JSON object on standard output" },
};

const struct option_table check_option_table = { options, ARRAY_LEN(options) };

#define CELL_MAX 128

enum column {
	COLUMN_SOURCE,
	COLUMN_PATH,
	COLUMN_RECIPE,
	COLUMN_WINDOW,
	COLUMN_AUTH,
	COLUMN_MODE,
	COLUMNS
};

static const char *const titles[COLUMNS] = { "SOURCE", "PATH", "RECIPE", "WINDOW", "AUTH", "MODE" };

struct row {
	char cells[COLUMNS][CELL_MAX];
};

/* "genesys", "genesys + 1 claim", "2 claims", "3 recipes" */
static void write_recipe(const struct config_source *source, char *ret_text)
{
	const struct recipe_spec *recipe = &source->recipe;
	const struct preset *preset = preset_find(source->preset);
	const struct recipe_case_spec *last = &recipe->cases[recipe->case_count - 1];
	uint32_t claims = last->claim_count;
	if (preset)
		claims -= preset->cases[preset->case_count - 1].claim_count;
	if (preset && claims == 0)
		snprintf(ret_text, CELL_MAX, "%s", preset->name);
	else if (preset)
		snprintf(ret_text, CELL_MAX, "%s + %" PRIu32 " claim%s", preset->name, claims,
		         claims == 1 ? "" : "s");
	else if (recipe->case_count > 1)
		snprintf(ret_text, CELL_MAX, "%" PRIu32 " recipes", recipe->case_count);
	else
		snprintf(ret_text, CELL_MAX, "%" PRIu32 " claim%s", claims, claims == 1 ? "" : "s");
}

static struct row row_of(const struct config_source *source)
{
	struct row row = { 0 };
	snprintf(row.cells[COLUMN_SOURCE], CELL_MAX, "%s", source->name.ptr);
	snprintf(row.cells[COLUMN_PATH], CELL_MAX, "%s", source->door.path.ptr);
	write_recipe(source, row.cells[COLUMN_RECIPE]);
	text_duration(row.cells[COLUMN_WINDOW], UINT64_C(1000) * source->recipe.window_s);
	bool networks = source->auth.network_count > 0;
	if (source->auth.kind == AUTH_NONE && networks)
		snprintf(row.cells[COLUMN_AUTH], CELL_MAX, "networks");
	else
		snprintf(row.cells[COLUMN_AUTH], CELL_MAX, "%s%s",
		         config_auth_word(source->auth.kind), networks ? ", networks" : "");
	snprintf(row.cells[COLUMN_MODE], CELL_MAX, "%s", source->recipe.shadow ? "shadow" : "gate");
	return row;
}

static void write_row(const struct row *row, const size_t widths[static COLUMNS], struct buf *out)
{
	for (size_t c = 0; c < COLUMNS; c++) {
		bool last = c + 1 == COLUMNS;
		buf_printf(out, "%-*s%s", last ? 0 : (int)widths[c], row->cells[c],
		           last ? "\n" : "  ");
	}
}

void check_write_table(const struct config *config, struct buf *out)
{
	size_t widths[COLUMNS];
	struct row head = { 0 };
	for (size_t c = 0; c < COLUMNS; c++) {
		snprintf(head.cells[c], CELL_MAX, "%s", titles[c]);
		widths[c] = strlen(titles[c]);
	}
	for (uint32_t i = 0; i < config->source_count; i++) {
		struct row row = row_of(&config->sources[i]);
		for (size_t c = 0; c < COLUMNS; c++)
			if (strlen(row.cells[c]) > widths[c])
				widths[c] = strlen(row.cells[c]);
	}
	write_row(&head, widths, out);
	for (uint32_t i = 0; i < config->source_count; i++) {
		struct row row = row_of(&config->sources[i]);
		write_row(&row, widths, out);
	}
}

/* ---- sinks ---- */

/* Only the host: paths and queries may be secrets. */
static struct span where_of(const struct config_sink *sink)
{
	struct span url = sink->http.url;
	const char *host = url.len > 0 ? memmem(url.ptr, url.len, "://", 3) : NULL;
	if (sink->kind == CONFIG_SINK_FILE)
		return sink->file.path;
	bool requests = sink->kind == CONFIG_SINK_HTTP || sink->kind == CONFIG_SINK_STILE;
	if (!requests || !host)
		return SPAN("-");
	size_t len = (size_t)(host - url.ptr) + 3;
	while (len < url.len && !memchr("/?#", url.ptr[len], 3))
		len++;
	return span_of(url.ptr, len);
}

static bool leads_to(const struct config_route *route, const struct config_sink *sink)
{
	for (uint32_t i = 0; i < route->to_count; i++)
		if (span_eq(route->to[i], sink->name))
			return true;
	return false;
}

/* Which sources may send there: "orders, genesys", "all", "nobody". */
static void write_from(const struct config *config, const struct config_sink *sink, struct buf *out)
{
	size_t before = out->len;
	bool all = config->route_count == 0;
	for (uint32_t i = 0; i < config->route_count; i++)
		all |= leads_to(&config->routes[i], sink) && config->routes[i].from_count == 0;
	for (uint32_t i = 0; i < config->source_count && !all; i++) {
		struct span name = config->sources[i].name;
		bool sends = false;
		for (uint32_t r = 0; r < config->route_count; r++)
			for (uint32_t f = 0; f < config->routes[r].from_count; f++)
				sends |= leads_to(&config->routes[r], sink) &&
				         span_eq(config->routes[r].from[f], name);
		if (sends)
			buf_printf(out, "%s%s", out->len > before ? ", " : "", name.ptr);
	}
	if (out->len == before)
		buf_append_span(out, all ? SPAN("all") : SPAN("nobody"));
}

void check_write_sinks(const struct config *config, struct buf *out)
{
	int width = 4;
	int where = 5;
	for (uint32_t i = 0; i < config->sink_count; i++) {
		const struct config_sink *sink = &config->sinks[i];
		width = (int)sink->name.len > width ? (int)sink->name.len : width;
		where = (int)where_of(sink).len > where ? (int)where_of(sink).len : where;
	}
	buf_printf(out, "%-*s  KIND      %-*s  FROM\n", width, "SINK", where, "WHERE");
	for (uint32_t i = 0; i < config->sink_count; i++) {
		const struct config_sink *sink = &config->sinks[i];
		struct span place = where_of(sink);
		buf_printf(out, "%-*s  %-8s  %.*s%*s  ", width, sink->name.ptr,
		           config_sink_word(sink->kind), (int)place.len, place.ptr,
		           where - (int)place.len, "");
		write_from(config, sink, out);
		buf_append_char(out, '\n');
	}
}

static void write_json_sinks(const struct config *config, struct buf *out)
{
	json_array_begin(out, "sinks");
	for (uint32_t i = 0; config && i < config->sink_count; i++) {
		const struct config_sink *sink = &config->sinks[i];
		struct buf from = { 0 };
		write_from(config, sink, &from);
		json_object_begin(out, NULL);
		json_add_text(out, "name", sink->name);
		json_add_string(out, "kind", config_sink_word(sink->kind));
		json_add_text(out, "where", where_of(sink));
		json_add_text(out, "from", buf_span(&from));
		json_object_end(out);
		buf_free(&from);
	}
	json_array_end(out);
}

/* ---- JSON ---- */

static void write_problems(const struct config_report *report, enum config_level level,
                           const char *name, struct buf *out)
{
	json_array_begin(out, name);
	for (uint32_t i = 0; i < report->count; i++) {
		const struct config_problem *problem = &report->problems[i];
		if (problem->level != level)
			continue;
		json_object_begin(out, NULL);
		json_add_u64(out, "line", problem->place.line);
		json_add_u64(out, "column", problem->place.column);
		json_add_string(out, "option", problem->option);
		json_add_string(out, "text", problem->text);
		json_object_end(out);
	}
	json_array_end(out);
}

static void write_sources(const struct config *config, struct buf *out)
{
	static const char *const names[COLUMNS] = { "name",   "path", "recipe",
		                                    "window", "auth", "mode" };
	json_array_begin(out, "sources");
	for (uint32_t i = 0; config && i < config->source_count; i++) {
		struct row row = row_of(&config->sources[i]);
		json_object_begin(out, NULL);
		for (size_t c = 0; c < COLUMNS; c++)
			json_add_string(out, names[c], row.cells[c]);
		json_object_end(out);
	}
	json_array_end(out);
}

void check_write_json(const struct config *config, const struct config_report *report,
                      struct buf *out)
{
	json_object_begin(out, NULL);
	json_add_string(out, "file", report->file ? report->file : "");
	json_add_bool(out, "ok", report->errors == 0);
	write_problems(report, CONFIG_ERROR, "errors", out);
	write_problems(report, CONFIG_WARNING, "warnings", out);
	write_sources(config, out);
	write_json_sinks(config, out);
	json_object_end(out);
	buf_append_char(out, '\n');
}

/* ---- the command ---- */

static void print_text(const struct config *config, const struct config_report *report)
{
	struct buf out = { 0 };
	config_report_print(report, stderr);
	if (!config) {
		fprintf(stderr, "%s: %" PRIu32 " error%s\n", report->file, report->errors,
		        report->errors == 1 ? "" : "s");
		return;
	}
	check_write_table(config, &out);
	if (config->sink_count > 1 || config->sinks[0].kind != CONFIG_SINK_STDOUT) {
		buf_append_char(&out, '\n');
		check_write_sinks(config, &out);
	}
	printf("%s: ok\n\n%.*s", report->file, (int)out.len, out.len ? out.ptr : "");
	buf_free(&out);
}

int check_command(int argc, char **argv)
{
	struct check_options values = { 0 };
	struct error_text text;
	int rest = 0;
	if (options_parse(check_option_table, argc, argv, &values, &rest, &text) != 0)
		return command_usage_error("check", text.text);
	if (rest != 1)
		return command_usage_error("check", "expected one FILE");
	struct config_input input = { .path = argv[0] };
	struct config *config = NULL;
	struct config_report report;
	struct buf out = { 0 };
	int error = config_load(&input, &config, &report);
	if (error != 0 && error != ERR_CONFIG) {
		fprintf(stderr, "stile check: %s\n", error_name(error));
	} else if (values.json) {
		check_write_json(config, &report, &out);
		fwrite(out.len ? out.ptr : "", 1, out.len, stdout);
	} else {
		print_text(config, &report);
	}
	buf_free(&out);
	config_report_free(&report);
	config_free(config);
	return error == 0 ? EXIT_CODE_OK : error == ERR_CONFIG ? EXIT_CODE_USAGE : EXIT_CODE_FAILED;
}
