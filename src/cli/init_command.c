/* init_command: `stile init --preset NAME`: a commented configuration to start from. */
#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/exit_code.h"
#include "sys/file.h"

struct init_options {
	const char *preset;
	const char *out;
};

static const struct option options[] = {
	{ "preset", OPTION_TEXT, offsetof(struct init_options, preset), "NAME", "auto", 0, 0, NULL,
	  "the preset for the expected events; stile help init lists them" },
	{ "out", OPTION_TEXT, offsetof(struct init_options, out), "FILE", NULL, 0, 0, NULL,
	  "the file to write; it must not exist (default: standard output)" },
};

const struct option_table init_option_table = { options, ARRAY_LEN(options) };

static void write_lines(const char *prefix, const char *const *lines, struct buf *out)
{
	for (; *lines; lines++)
		buf_printf(out, "%s%s\n", prefix, *lines);
}

void init_write(const struct preset *preset, const struct preset_guide *guide, struct buf *out)
{
	buf_printf(
		out,
		"# A configuration of stile for the preset %s:\n"
		"# %s\n"
		"#\n"
		"# stile check FILE checks it for errors and shows what it means,\n"
		"# stile serve --config FILE runs it.\n"
		"#\n"
		"# All options are in docs/configuration.md and in stile.yaml(5). To use an\n"
		"# option that is commented out, remove its #, also on the lines below it that\n"
		"# are indented further.\n"
		"\n"
		"# Only this machine can send to 127.0.0.1. For others: 0.0.0.0:8443, TLS and auth.\n"
		"listen: 127.0.0.1:8080\n"
		"#tls:\n"
		"#  cert: /etc/stile/chain.pem\n"
		"#  key: /etc/stile/key.pem\n"
		"\n"
		"store:\n"
		"  local:\n"
		"    # /var/lib/stile for a service; a local disk in any case.\n"
		"    path: stile-data\n"
		"    # How long the events themselves are kept; claims are kept for their window.\n"
		"    retain: 7d\n"
		"\n",
		preset->name, preset->about);
	buf_printf(out, "sources:\n  %s:\n", guide->source);
	write_lines("    # ", guide->setup, out);
	buf_printf(
		out,
		"    path: /in/%s\n"
		"    preset: %s\n"
		"    # How long a claim is remembered: %s.\n"
		"    window: %s\n"
		"\n"
		"    # Who may send. Keep the secret in the environment, or in a file (file:PATH).\n"
		"    #auth:\n",
		guide->source, preset->name, guide->retries, guide->window);
	write_lines("    #  ", guide->auth, out);
	buf_printf(
		out,
		"\n"
		"    # Try it on live traffic first: everything passes, and what would have been\n"
		"    # dropped is counted and visible.\n"
		"    #mode: shadow\n"
		"\n"
		"    # The same key with other content: keep first, let through or reject.\n"
		"    #on_conflict: keep first\n"
		"\n"
		"    # A claim of your own beside those of the preset: what may happen only once?\n"
		"    #claims:\n"
		"    #  - once: [customerId, orderId]\n"
		"    #    window: 7d\n"
		"    #    missing: skip\n");
	buf_append_span(
		out,
		SPAN("\n"
	             "# New events are printed on standard output, one per line.\n"
	             "sinks:\n"
	             "  out: stdout\n"
	             "\n"
	             "  # Or they are sent as HTTP requests. Every attempt for an event has the same\n"
	             "  # key. See docs/delivery.md.\n"
	             "  #crm:\n"
	             "  #  http: https://crm.example.com/events\n"
	             "  #  headers: { Authorization: \"Bearer ${CRM_TOKEN}\" }\n"
	             "  #  timeout: 30s\n"
	             "  #  retry: { first: 1s, max: 10m, for: 3d }\n"
	             "  #  # When a request was sent and no answer arrived: retry, probe or park.\n"
	             "  #  on_unknown: retry\n"
	             "  #  rate: 50/s\n"
	             "\n"
	             "# Which events go where; without routes every sink gets everything.\n"
	             "#routes:\n"
	             "#  - { type: \"*\", to: [out, crm], order_by: entity }\n"));
}

static int unknown_preset(const char *name)
{
	struct error_text text;
	struct suggest suggest = suggest_begin(span_str(name));
	uint32_t count = 0;
	const struct preset *presets = preset_list(&count);
	for (uint32_t i = 0; i < count; i++)
		suggest_offer(&suggest, span_str(presets[i].name));
	error_fill(&text, 0, "there is no preset \"%s\"%s%.*s%s", name,
	           suggest.best.len ? "; did you mean " : "", (int)suggest.best.len,
	           suggest.best.len ? suggest.best.ptr : "", suggest.best.len ? "?" : "");
	return command_usage_error("init", text.text);
}

static int put(const char *path, struct span text)
{
	if (!path) {
		fwrite(text.ptr, 1, text.len, stdout);
		return fflush(stdout) == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
	}
	struct file_system *fs = file_system_real();
	int fd = -1;
	int error = fs->methods->open(fs, path, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &fd);
	if (error == 0) {
		error = fs->methods->write(fs, fd, text.ptr, text.len, 0);
		int closed = fs->methods->close(fs, fd);
		error = error != 0 ? error : closed;
	}
	if (error != 0) {
		fprintf(stderr, "stile init: %s: %s\n", path, error_name(error));
		return EXIT_CODE_FAILED;
	}
	fprintf(stderr, "%s is written; try: stile check %s\n", path, path);
	return EXIT_CODE_OK;
}

int init_command(int argc, char **argv)
{
	struct init_options values = { 0 };
	struct error_text text;
	struct buf out = { 0 };
	int rest = 0;
	if (options_parse(init_option_table, argc, argv, &values, &rest, &text) != 0)
		return command_usage_error("init", text.text);
	if (rest > 0)
		return command_usage_error("init",
		                           "expected options only, such as --preset genesys");
	const struct preset *preset = preset_find(span_str(values.preset));
	const struct preset_guide *guide = preset_guide_find(span_str(values.preset));
	if (!preset || !guide)
		return unknown_preset(values.preset);
	init_write(preset, guide, &out);
	int code = out.failed ? EXIT_CODE_FAILED : put(values.out, buf_span(&out));
	buf_free(&out);
	return code;
}
