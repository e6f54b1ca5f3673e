/* sinks_command: `stile sinks` and `stile stats`, which ask a running gateway. */
#include "cli/commands.h"

#include <stdio.h>

#include "base/exit_code.h"
#include "cli/answer.h"
#include "cli/gateway.h"
#include "codec/url.h"

struct sinks_options {
	struct gateway_options gateway;
	bool json;
};

static const struct option table[] = {
	GATEWAY_OPTIONS(struct sinks_options, gateway),
	{ "json", OPTION_FLAG, offsetof(struct sinks_options, json), NULL, NULL, 0, 0, NULL,
	  "print the answer as JSON" },
};
const struct option_table sinks_option_table = { table, ARRAY_LEN(table) };
const struct option_table stats_option_table = { table, ARRAY_LEN(table) };

static const struct answer_column columns[] = {
	{ "SINK", "sink" },
	{ "STATE", "state" },
	{ "WAITING", "waiting" },
	{ "IN FLIGHT", "in_flight" },
	{ "LIMIT", "limit" },
	{ "BREAKER", "breaker" },
	{ "DONE", "outcomes.done" },
	{ "DEAD", "outcomes.dead" },
	{ "UNKNOWN", "outcomes.unknown" },
	{ "OLDEST", "oldest" },
	{ "LAST ERROR", "last_error.text" },
};

static int write_sinks(struct span answer, struct buf *out)
{
	struct span list = SPAN_EMPTY;
	int r = answer_value(answer, "sinks", &list);
	return r < 0 ? r
	             : answer_put_table(out, list,
	                                (struct answer_columns){ columns, ARRAY_LEN(columns) },
	                                true);
}

static int write_sink(struct span answer, struct buf *out)
{
	struct span name = SPAN_EMPTY, state = SPAN_EMPTY;
	int r = answer_value(answer, "sink", &name);
	if (r == 0)
		r = answer_value(answer, "state", &state);
	if (r == 0)
		buf_printf(out, "%.*s %.*s\n", (int)name.len, name.ptr, (int)state.len, state.ptr);
	return r;
}

static int write_stats(struct span answer, struct buf *out)
{
	static const char *const paths[] = {
		"version",        "started",       "tickets.open", "tickets.due",   "tickets.held",
		"tickets.parked", "tickets.dead",  "claims",       "entities",      "waits",
		"commits",        "journal_bytes", "segments",     "clock_held_ms", "io_errors",
		"spooled",        "away",          "writable",
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct span value = SPAN_EMPTY;
		int r = answer_value(answer, paths[i], &value);
		if (r < 0)
			return r;
		buf_printf(out, "%-16s%.*s\n", paths[i], (int)value.len, value.ptr);
	}
	return 0;
}

int sinks_command(int argc, char **argv)
{
	struct sinks_options options = { 0 };
	struct error_text text = { "" };
	struct buf target = { .cap = 4096 };
	int rest = 0;
	if (options_parse(sinks_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("sinks", text.text);
	bool acts = rest == 2 && (strcmp(argv[0], "pause") == 0 || strcmp(argv[0], "resume") == 0);
	if (rest != 0 && (!acts || argv[1][0] == 0))
		return command_usage_error("sinks", "expected nothing, pause NAME or resume NAME");
	buf_append_span(&target, SPAN("/v1/sinks"));
	if (acts) {
		buf_append_char(&target, '/');
		url_percent_encode(span_str(argv[1]), &target);
		buf_printf(&target, "/%s", argv[0]);
	}
	return gateway_print("sinks", &options.gateway, acts ? "POST" : "GET", &target,
	                     options.json, acts ? write_sink : write_sinks);
}

int stats_command(int argc, char **argv)
{
	struct sinks_options options = { 0 };
	struct error_text text = { "" };
	struct buf target = { .cap = 64 };
	int rest = 0;
	if (options_parse(stats_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("stats", text.text);
	if (rest > 0)
		return command_usage_error("stats", "expected options only");
	buf_append_span(&target, SPAN("/v1/stats"));
	return gateway_print("stats", &options.gateway, "GET", &target, options.json, write_stats);
}
