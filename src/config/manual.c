/* manual: see manual.h. */
#include "config/manual.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "config/config_internal.h"
#include "gate/recipe/presets.h"

/* ---- Markdown ---- */

/* A bar would end the cell. */
static void print_cell(const char *text, FILE *out)
{
	for (; text && *text; text++) {
		if (*text == '|')
			fputs("\\|", out);
		else
			fputc(*text, out);
	}
}

static const char *reload_word(const struct config_option *option)
{
	return config_option_reloads(option) ? "reload" : "restart";
}

static bool is_section(const struct config_option *option)
{
	return option->kind == CONFIG_SECTION;
}

static void print_markdown_row(const struct config_option *option, FILE *out)
{
	const char *value = config_option_value(option);
	const char *standard = config_option_standard(option);
	fprintf(out, "| `%s` | ", option->path);
	if (value) {
		fputc('`', out);
		print_cell(value, out);
		fputc('`', out);
	}
	fputs(" | ", out);
	print_cell(standard, out);
	fprintf(out, " | %s | ", is_section(option) ? "" : reload_word(option));
	print_cell(config_option_help(option), out);
	if (option->flag)
		fprintf(out, " (`--%s`)", option->flag);
	fputs(" |\n", out);
}

static void print_markdown(FILE *out)
{
	fputs("| option | value | default | change | meaning |\n|---|---|---|---|---|\n", out);
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)); i++)
		print_markdown_row(row, out);
}

/* ---- roff ---- */

/* Text with `words` in bold. A dot or quote at the begin of a line would be a
 * request, a minus a hyphen. */
static void print_roff(const char *text, FILE *out)
{
	bool bold = false;
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		switch (*text) {
		case '`':
			fputs(bold ? "\\fR" : "\\fB", out);
			bold = !bold;
			break;
		case '\\': fputs("\\e", out); break;
		case '-': fputs("\\-", out); break;
		case '\n': fputs("\n.br\n", out); break;
		default: fputc(*text, out); break;
		}
	}
}

static void print_roff_line(const char *text, FILE *out)
{
	print_roff(text, out);
	fputc('\n', out);
}

static void print_head(const char *name, int section, const char *what, FILE *out)
{
	fprintf(out,
	        ".\\\" Made by tools/write-manual from the tables of the program.\n"
	        ".TH %s %d \"\" \"stile\" \"stile\"\n.SH NAME\n",
	        name, section);
	print_roff(name, out);
	fputs(" \\- ", out);
	print_roff_line(what, out);
}

static void print_flag(const struct option *option, FILE *out)
{
	fputs(".TP\n\\fB\\-\\-", out);
	print_roff(option->name, out);
	fputs("\\fR", out);
	if (option->value) {
		fputs(" \\fI", out);
		print_roff(option->value, out);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	print_roff(option->help, out);
	if (option->choices) {
		fputs(" (", out);
		print_roff(option->choices, out);
		fputc(')', out);
	}
	fputs(".\n", out);
	if (option->standard) {
		fputs("Default: ", out);
		print_roff(option->standard, out);
		fputs(".\n", out);
	}
}

static void print_command(const struct command *command, FILE *out)
{
	fputs(".SS ", out);
	print_roff_line(command->usage, out);
	print_roff(command->summary, out);
	fputs(".\n", out);
	for (size_t i = 0; command->options && i < command->options->count; i++)
		print_flag(&command->options->options[i], out);
	if (command->more) {
		fputs(".PP\n.nf\n", out);
		for (const char *at = command->more; *at;) {
			size_t len = strcspn(at, "\n");
			fprintf(out, "%.*s\n", (int)len, at);
			at += len + (at[len] == '\n');
		}
		fputs(".fi\n", out);
	}
}

static void print_stile_1(struct command_list list, FILE *out)
{
	print_head("stile", 1, "makes at-least-once systems act once", out);
	fputs(".SH SYNOPSIS\n\\fBstile\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR…]\n"
	      ".SH DESCRIPTION\n"
	      "stile receives events over HTTP, decides durably whether it has seen each one\n"
	      "before, and passes on only the new ones.\n"
	      "Write an option as \\fB\\-\\-name VALUE\\fR or \\fB\\-\\-name=VALUE\\fR.\n"
	      "Durations need a unit (500ms, 10s, 5m, 24h, 4d, 2w), and so do sizes (64KiB, 1MiB).\n"
	      ".SH COMMANDS\n",
	      out);
	for (size_t i = 0; i < list.count; i++)
		print_command(&list.commands[i], out);
	fputs(".SH EXIT STATUS\n"
	      ".TP\n\\fB0\\fR\ndone\n"
	      ".TP\n\\fB1\\fR\nfailed; the message says why\n"
	      ".TP\n\\fB2\\fR\nusage: unknown command or option, bad value, bad configuration\n"
	      ".TP\n\\fB3\\fR\nstored data is damaged\n"
	      ".SH SEE ALSO\n\\fBstile.yaml\\fR(5)\n",
	      out);
}

static void print_option(const struct config_option *option, FILE *out)
{
	const char *value = config_option_value(option);
	const char *standard = config_option_standard(option);
	fputs(".TP\n\\fB", out);
	print_roff(option->path, out);
	fputs("\\fR", out);
	if (value) {
		fputs(": \\fI", out);
		print_roff(value, out);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	print_roff(config_option_help(option), out);
	fputs(".\n", out);
	if (standard) {
		fputs("Default: ", out);
		print_roff(standard, out);
		fputs(".\n", out);
	}
	if (option->flag) {
		fputs("Same as \\fB\\-\\-", out);
		print_roff(option->flag, out);
		fputs("\\fR of \\fBstile serve\\fR, which takes precedence.\n", out);
	}
	if (!is_section(option) && !config_option_reloads(option))
		fputs("A change needs a restart.\n", out);
}

static void print_presets(FILE *out)
{
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	fputs(".SH PRESETS\n", out);
	for (uint32_t i = 0; i < count; i++) {
		fprintf(out, ".TP\n\\fB");
		print_roff(presets[i].name, out);
		fputs("\\fR\n", out);
		print_roff_line(presets[i].about, out);
	}
}

static void print_yaml_5(FILE *out)
{
	print_head("stile.yaml", 5, "the configuration file of stile", out);
	fputs(".SH DESCRIPTION\n"
	      "YAML without anchors, aliases and tags.\n"
	      "Durations need a unit (500ms, 10s, 5m, 24h, 4d, 2w), and so do sizes (64KiB, 1MiB).\n"
	      "\\fB${NAME}\\fR in a text is replaced by the environment variable,\n"
	      "\\fB${NAME:\\-text}\\fR by the text if it is not set; \\fB$$\\fR is a dollar sign.\n"
	      "A secret may also be \\fBfile:PATH\\fR.\n"
	      "\\fBstile check\\fR reports all errors at once, \\fBstile init\\fR writes a file to\n"
	      "start from.\n"
	      ".SH OPTIONS\n"
	      "In the names below, * stands for a name that you choose, [] for each entry of a list.\n",
	      out);
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)); i++)
		print_option(row, out);
	print_presets(out);
	fputs(".SH PARTS\n"
	      "A part names one value of an event.\n"
	      ".TP\n"
	      "\\fBcustomerId, detail.id, items[0].id, items[*].id, detail[\"odd.name\"]\\fR\n"
	      "members of the body; [*]: all elements of a list, in order\n"
	      ".TP\n\\fBheader:NAME, query:NAME, form:NAME, path:2, const:TEXT, body\\fR\n"
	      "a header, a parameter of the query or of a form, a segment of the path (counted from 1),\n"
	      "the text itself, the whole body\n"
	      ".PP\n"
	      "A part with a question mark at the end (\\fBdetail.code?\\fR) is optional: missing is a value like any other.\n"
	      ".SH SEE ALSO\n\\fBstile\\fR(1)\n",
	      out);
}

bool manual_print(const char *page, struct command_list commands, FILE *out)
{
	if (strcmp(page, "options") == 0)
		print_markdown(out);
	else if (strcmp(page, "stile.1") == 0)
		print_stile_1(commands, out);
	else if (strcmp(page, "stile.yaml.5") == 0)
		print_yaml_5(out);
	else
		return false;
	return true;
}
