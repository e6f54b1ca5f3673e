/* sinks_command: see sinks_command.h. */
#include "cli/sinks_command.h"

#include <stdio.h>

#include "base/exit_code.h"
#include "cli/answer.h"
#include "cli/gateway.h"
#include "codec/url.h"
#include "config/options.h"

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
	{ "UNDER WAY", "in_flight" },
	{ "LIMIT", "limit" },
	{ "BREAKER", "breaker" },
	{ "DONE", "outcomes.done" },
	{ "DEAD", "outcomes.dead" },
	{ "UNKNOWN", "outcomes.unknown" },
	{ "OLDEST", "oldest" },
	{ "LAST ERROR", "last_error.text" },
};

static int print_sinks(struct span answer)
{
	struct span list = SPAN_EMPTY;
	int r = answer_value(answer, "sinks", &list);
	return r < 0 ? r
	             : answer_print_table(list,
	                                  (struct answer_columns){ columns, ARRAY_LEN(columns) },
	                                  true, stdout);
}

static int print_sink(struct span answer)
{
	struct span name = SPAN_EMPTY, state = SPAN_EMPTY;
	int r = answer_value(answer, "sink", &name);
	if (r == 0)
		r = answer_value(answer, "state", &state);
	if (r == 0)
		printf("%.*s %.*s\n", (int)name.len, name.ptr, (int)state.len, state.ptr);
	return r;
}

static int print_stats(struct span answer)
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
		printf("%-16s%.*s\n", paths[i], (int)value.len, value.ptr);
	}
	return 0;
}

static int ask_and_print(const char *command, const struct sinks_options *options,
                         const char *method, const struct buf *target,
                         int (*print)(struct span answer))
{
	struct buf answer = { .cap = GATEWAY_ANSWER_MAX };
	struct error_text text = { "the answer is not understood" };
	int r = (strcmp(method, "GET") == 0 ? gateway_get : gateway_post)(&options->gateway,
	                                                                  buf_span(target), &answer,
	                                                                  &text);
	if (r == 0 && options->json)
		fwrite(answer.ptr, 1, answer.len, stdout);
	else if (r == 0)
		r = print(buf_span(&answer));
	if (r < 0)
		fprintf(stderr, "stile %s: %s\n", command, text.text);
	buf_free(&answer);
	return r >= 0 && fflush(stdout) == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
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
	int code = ask_and_print("sinks", &options, acts ? "POST" : "GET", &target,
	                         acts ? print_sink : print_sinks);
	buf_free(&target);
	return code;
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
	int code = ask_and_print("stats", &options, "GET", &target, print_stats);
	buf_free(&target);
	return code;
}
