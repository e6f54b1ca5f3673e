/* why_command: see why_command.h. */
#include "cli/why_command.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/gateway.h"
#include "console/why/why.h"
#include "store/local/inspect.h"
#include "trace/trace_log.h"

#define ANSWER_MAX (16u << 20)
#define DAY_MS UINT64_C(86400000)

struct why_options {
	struct gateway_options gateway;
	const char *data;
	const char *source;
	uint64_t by; /* which of by_names */
	uint64_t limit;
	uint64_t window_ms;
	const char *before;
	bool held;
	bool json;
};

/* In the order of the choices of --by. */
static const struct {
	const char *name;
	enum why_about about;
} by_names[] = {
	{ "any", WHY_ABOUT_ANY },
	{ "id", WHY_ABOUT_ID },
	{ "ticket", WHY_ABOUT_TICKET },
	{ "key", WHY_ABOUT_KEY },
};

#define OPTION_DATA                                                                               \
	{                                                                                         \
		"data", OPTION_TEXT, offsetof(struct why_options, data), "DIR", NULL, 0, 0, NULL, \
			"read this data folder instead, whether or not a gateway has it"          \
	}
#define OPTION_SOURCE                                                                            \
	{                                                                                        \
		"source", OPTION_TEXT, offsetof(struct why_options, source), "NAME", NULL, 0, 0, \
			NULL, "only this source"                                                 \
	}
#define OPTION_JSON                                                                              \
	{                                                                                        \
		"json", OPTION_FLAG, offsetof(struct why_options, json), NULL, NULL, 0, 0, NULL, \
			"print the answer as JSON"                                               \
	}

static const struct option why_table[] = {
	GATEWAY_OPTIONS(struct why_options, gateway),
	OPTION_DATA,
	{ "by", OPTION_CHOICE, offsetof(struct why_options, by), "WHAT", "any", 0, 0,
	  "any|id|ticket|key", "what ID is: an id, a ticket, a key or one of its parts" },
	{ "held", OPTION_FLAG, offsetof(struct why_options, held), NULL, NULL, 0, 0, NULL,
	  "list the events that are kept aside, the newest first, instead of asking for one" },
	{ "before", OPTION_TEXT, offsetof(struct why_options, before), "TICKET", NULL, 0, 0, NULL,
	  "with --held: go on behind this ticket" },
	OPTION_SOURCE,
	{ "limit", OPTION_COUNT, offsetof(struct why_options, limit), "N", "20", 1, WHY_LIMIT_MAX,
	  NULL, "how many repeats of an event are listed, or events that are kept aside" },
	OPTION_JSON,
};

static const struct option advise_table[] = {
	GATEWAY_OPTIONS(struct why_options, gateway),
	OPTION_DATA,
	{ "window", OPTION_DURATION, offsetof(struct why_options, window_ms), "TIME", NULL, 1000,
	  3650 * DAY_MS, NULL, "with --data: the window to judge" },
	OPTION_SOURCE,
	OPTION_JSON,
};

const struct option_table why_option_table = { why_table, ARRAY_LEN(why_table) };
const struct option_table advise_option_table = { advise_table, ARRAY_LEN(advise_table) };

static int failed(const char *command, const char *text)
{
	fprintf(stderr, "stile %s: %s\n", command, text);
	return EXIT_CODE_FAILED;
}

static answer_write_fn *writer_of(const char *command)
{
	return strcmp(command, "advise") == 0 ? advise_write_text : why_write_text;
}

/* ---- over HTTP ---- */

static int ask(const char *command, const struct why_options *options, const char *id)
{
	struct buf target = { .cap = 8192 };
	buf_printf(&target, "/v1/%s?format=json", command);
	if (id) {
		gateway_add_parameter(&target, by_names[options->by].name, id);
		buf_printf(&target, "&limit=%llu", (unsigned long long)options->limit);
	} else if (options->held) {
		buf_printf(&target, "&held=1&limit=%llu", (unsigned long long)options->limit);
	}
	gateway_add_parameter(&target, "before", options->before);
	gateway_add_parameter(&target, "source", options->source);
	return gateway_print(command, &options->gateway, "GET", &target, options->json,
	                     writer_of(command));
}

/* ---- from a folder ---- */

static bool set_value(struct why_value *value, const char *text)
{
	struct span span = span_str(text);
	if (span.len > sizeof(value->bytes))
		return false;
	if (span.len > 0)
		memcpy(value->bytes, span.ptr, span.len);
	value->len = (uint32_t)span.len;
	return true;
}

static int read_event(void *user, uint64_t ticket, struct buf *ret_payload)
{
	return journal_find_event(&(struct journal_inspect_options){ .path = user }, ticket,
	                          ret_payload);
}

static int read_folder(const char *command, const struct why_options *options,
                       const struct why_question *question)
{
	struct trace_log_options log_options = {
		.path = options->data,
		.read_only = true,
	};
	struct why_context context = { .window_ms = options->window_ms,
		                       .read = read_event,
		                       .read_user = (void *)(uintptr_t)options->data };
	struct buf answer = { .cap = ANSWER_MAX };
	struct error_text text = { "" };
	/* Of damaged files. */
	log_setup(&(struct log_options){ .level = LOG_LEVEL_WARN, .fd = STDERR_FILENO });
	if (trace_log_open(&log_options, &context.log, &text) < 0)
		return failed(command, text.text);
	bool advises = question->about == WHY_ABOUT_NOTHING;
	uint16_t status = (advises ? why_advise : why_answer)(&context, question, &answer);
	int code = EXIT_CODE_FAILED;
	if (status == 200) {
		code = answer_print(command, buf_span(&answer), options->json, writer_of(command));
	} else {
		buf_append_char(&answer, 0);
		failed(command, answer.failed ? "no memory" : answer.ptr);
	}
	buf_free(&answer);
	trace_log_free(context.log);
	return code;
}

static int look_up(const char *command, const struct why_options *options, const char *id)
{
	struct why_question question = {
		.limit = (uint32_t)options->limit,
	};
	if (!options->data)
		return ask(command, options, id);
	if (id)
		question.about = by_names[options->by].about;
	if (!set_value(&question.value, id) || !set_value(&question.source, options->source))
		return command_usage_error(command, "what is asked for is too long");
	return read_folder(command, options, &question);
}

int why_command(int argc, char **argv)
{
	struct why_options options = { 0 };
	struct error_text text = { "" };
	int rest = 0;
	if (options_parse(why_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("why", text.text);
	if (options.held && options.data)
		return command_usage_error("why",
		                           "--held asks a gateway: a folder does not tell what is "
		                           "held now");
	if (options.before && !options.held)
		return command_usage_error("why", "--before goes with --held");
	if (rest != (options.held ? 0 : 1) || (rest == 1 && argv[0][0] == 0))
		return command_usage_error("why", "expected one id, ticket or key, or --held");
	return look_up("why", &options, options.held ? NULL : argv[0]);
}

int advise_command(int argc, char **argv)
{
	struct why_options options = { 0 };
	struct error_text text = { "" };
	int rest = 0;
	if (options_parse(advise_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("advise", text.text);
	if (rest > 0)
		return command_usage_error("advise", "expected options only");
	if (options.window_ms > 0 && !options.data)
		return command_usage_error("advise",
		                           "--window goes with --data: a gateway knows its own");
	return look_up("advise", &options, NULL);
}
