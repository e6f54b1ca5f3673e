/*
 * why_command: `stile why ID` and `stile advise`: ask a running gateway, or read the traces
 * of a data folder.
 */
#include "cli/commands.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/gateway.h"
#include "console/why/why.h"
#include "gate/gap.h"
#include "store/local/inspect.h"
#include "trace/trace_log.h"

static void put_printed(struct buf *out, const char *before, struct span text, const char *after)
{
	buf_append_span(out, span_str(before));
	answer_put(out, text);
	buf_append_span(out, span_str(after));
}

static uint64_t number_of(struct span text)
{
	uint64_t number = 0;
	return text_parse_u64(text, &number) == 0 ? number : 0;
}

static void put_line(struct buf *out, const char *name, struct span value)
{
	if (value.len == 0)
		return;
	buf_printf(out, "  %-8s ", name);
	put_printed(out, "", value, "\n");
}

static int put_key(void *user, struct span element, uint32_t index)
{
	(void)index;
	/* The quotes are part of it. */
	put_line(user, "key",
	         element.len > 1 ? span_of(element.ptr + 1, element.len - 2) : element);
	return 0;
}

static void put_state(struct buf *out, struct span state, struct span ticket)
{
	if (!span_eq(state, SPAN("held"))) {
		buf_append_span(out, SPAN("released or dropped\n"));
		return;
	}
	put_printed(out, "held: stile release ", ticket, " delivers it, ");
	put_printed(out, "stile release --drop ", ticket, " forgets it\n");
}

/* ---- the members in which two events of one key differ ---- */

static int put_path(void *user, struct span element, uint32_t index)
{
	static const char *const names[] = { "path", "change" };
	struct buf *out = user;
	struct answer_members one;
	int r = answer_read(element, names, ARRAY_LEN(names), &one);
	if (r < 0)
		return r;
	put_printed(out, index > 0 ? ", " : "", one.texts[0], "");
	if (!span_eq(one.texts[1], SPAN("changed")))
		put_printed(out, " (", one.texts[1], ")");
	return 0;
}

static int count_path(void *user, struct span element, uint32_t index)
{
	uint64_t *count = user;
	(void)element;
	*count = index + 1;
	return 0;
}

static int put_difference(struct buf *out, struct span count, struct span paths)
{
	uint64_t listed = 0;
	if (count.len == 0)
		return 0;
	if (number_of(count) == 0) {
		buf_append_span(out, SPAN("      they differ only in spelling\n"));
		return 0;
	}
	buf_append_span(out, SPAN("      they differ in "));
	int r = answer_each(paths, out, put_path);
	if (r == 0)
		r = answer_each(paths, &listed, count_path);
	if (number_of(count) > listed)
		buf_printf(out, " and %llu more", (unsigned long long)(number_of(count) - listed));
	buf_append_char(out, '\n');
	return r;
}

/* ---- stories ---- */

enum event_member {
	EVENT_TICKET,
	EVENT_TIME,
	EVENT_SEEN,
	EVENT_TRACED,
	EVENT_STATE,
	EVENT_SOURCE,
	EVENT_ID,
	EVENT_TYPE,
	EVENT_KEYS,
	EVENT_PEER,
	EVENT_REPEAT_OF,
	EVENT_REPLAY,
	EVENT_WHY,
	EVENT_DIFFERENCES,
	EVENT_DIFFERENCE,
	EVENT_FOUND,
	EVENT_REPEATS
};
/* Of an original and of a repeat. */
static const char *const event_members[] = {
	"ticket", "time",        "seen",       "traced",        "state",     "source",
	"id",     "type",        "keys",       "peer",          "repeat_of", "replay",
	"why",    "differences", "difference", "repeats_found", "repeats",
};

static int put_repeat(void *user, struct span element, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	int r = answer_read(element, event_members, ARRAY_LEN(event_members), &event);
	(void)index;
	if (r < 0)
		return r;
	const struct span *texts = event.texts;
	put_printed(out, "  ", texts[EVENT_TIME], "  ");
	answer_put(out, texts[EVENT_ID].len > 0 ? texts[EVENT_ID] : SPAN("(no id)"));
	put_printed(out, "\n      ", texts[EVENT_WHY], "\n");
	r = put_difference(out, texts[EVENT_DIFFERENCES], texts[EVENT_DIFFERENCE]);
	if (texts[EVENT_STATE].len > 0) {
		buf_append_span(out, SPAN("      "));
		put_state(out, texts[EVENT_STATE], texts[EVENT_TICKET]);
	}
	return r;
}

static int put_original(void *user, struct span element, uint32_t index)
{
	struct buf *out = user;
	struct answer_members event;
	uint64_t listed = 0;
	int r = answer_read(element, event_members, ARRAY_LEN(event_members), &event);
	if (r < 0)
		return r;
	const struct span *texts = event.texts;
	put_printed(out, index > 0 ? "\nticket " : "ticket ", texts[EVENT_TICKET], ", ");
	put_printed(out, "first seen ", texts[EVENT_SEEN], "\n");
	if (texts[EVENT_STATE].len > 0) {
		buf_append_span(out, SPAN("  state    "));
		put_state(out, texts[EVENT_STATE], texts[EVENT_TICKET]);
	}
	put_line(out, "source", texts[EVENT_SOURCE]);
	put_line(out, "id", texts[EVENT_ID]);
	put_line(out, "type", texts[EVENT_TYPE]);
	r = answer_each(texts[EVENT_KEYS], out, put_key);
	put_line(out, "from", texts[EVENT_PEER]);
	/* The reason of an ordinary new event says nothing. */
	if (texts[EVENT_REPEAT_OF].len > 0 || texts[EVENT_REPLAY].len > 0)
		put_line(out, "note", texts[EVENT_WHY]);
	if (r == 0)
		r = put_difference(out, texts[EVENT_DIFFERENCES], texts[EVENT_DIFFERENCE]);
	if (!span_eq(texts[EVENT_TRACED], SPAN("true")))
		buf_append_span(out, SPAN("  its own trace is gone, or was never kept\n"));
	uint64_t found = number_of(texts[EVENT_FOUND]);
	if (r == 0)
		r = answer_each(texts[EVENT_REPEATS], &listed, count_path);
	if (found == 0)
		buf_append_span(out, SPAN("  nothing like it came again\n"));
	else
		buf_printf(out, "  the same came again %llu time%s%s\n", (unsigned long long)found,
		           found == 1 ? "" : "s", listed < found ? ", the newest:" : ":");
	return r == 0 ? answer_each(texts[EVENT_REPEATS], out, put_repeat) : r;
}

/* ---- answers ---- */

static void put_nothing(struct buf *out, const struct answer_members *answer, struct span value)
{
	struct span records = answer->texts[4], oldest = answer->texts[5];
	uint64_t one_in = number_of(answer->texts[6]);
	put_printed(out, "no trace of \"", value, "\"");
	if (number_of(records) == 0) {
		buf_append_span(out, SPAN("; there are no traces at all\n"));
		return;
	}
	put_printed(out, " among ", records, "; ");
	put_printed(out, "the oldest is of ", oldest, "\n");
	if (one_in > 1)
		buf_printf(out, "of events that pass, one in %llu is traced now\n",
		           (unsigned long long)one_in);
}

int why_write_text(struct span json, struct buf *out)
{
	static const char *const names[] = { "question.held",
		                             "originals",
		                             "found",
		                             "next",
		                             "traces.records",
		                             "traces.oldest",
		                             "traces.one_in_new",
		                             "question.id",
		                             "question.ticket",
		                             "question.key",
		                             "question.any" };
	struct answer_members answer;
	int r = answer_read(json, names, ARRAY_LEN(names), &answer);
	if (r == 0)
		r = answer_each(answer.texts[1], out, put_original);
	if (r < 0)
		return r;
	bool held = answer.texts[0].len > 0;
	bool found = number_of(answer.texts[2]) > 0;
	struct span next = answer.texts[3];
	for (size_t i = 7; i < ARRAY_LEN(names) && !held && !found; i++)
		if (answer.texts[i].len > 0)
			put_nothing(out, &answer, answer.texts[i]);
	if (held && !found)
		buf_append_span(out, next.len == 0 ? SPAN("nothing is kept aside\n")
		                                   : SPAN("no events from this source so far\n"));
	if (next.len > 0)
		put_printed(out,
		            found ? "\nmore: stile why --held --before "
		                  : "more: stile why --held --before ",
		            next, "\n");
	return 0;
}

static int put_advice(void *user, struct span element, uint32_t index)
{
	static const char *const names[] = { "source",     "advice",           "trust",
		                             "duplicates", "after_the_window", "gap_ms.half",
		                             "gap_ms.most" };
	struct buf *out = user;
	struct answer_members advice;
	char half[GAP_DURATION_MAX];
	char most[GAP_DURATION_MAX];
	int r = answer_read(element, names, ARRAY_LEN(names), &advice);
	(void)index;
	if (r < 0)
		return r;
	put_printed(out, "", advice.texts[0], ": ");
	put_printed(out, "", advice.texts[1], "\n");
	if (span_eq(advice.texts[2], SPAN("none")))
		return 0;
	uint64_t duplicates = number_of(advice.texts[3]);
	buf_printf(out, "    %llu duplicate%s", (unsigned long long)duplicates,
	           duplicates == 1 ? "" : "s");
	if (duplicates > 1) {
		gap_duration_text(number_of(advice.texts[5]), half);
		gap_duration_text(number_of(advice.texts[6]), most);
		buf_printf(out, ", half of them within %s, 99 of 100 within %s", half, most);
	}
	if (number_of(advice.texts[4]) > 0)
		put_printed(out, "; about ", advice.texts[4],
		            " returned after the window and passed");
	buf_append_char(out, '\n');
	return 0;
}

int advise_write_text(struct span json, struct buf *out)
{
	static const char *const names[] = { "sources" };
	struct answer_members answer;
	int r = answer_read(json, names, ARRAY_LEN(names), &answer);
	size_t before = out->len;
	if (r == 0)
		r = answer_each(answer.texts[0], out, put_advice);
	if (r == 0 && out->len == before)
		buf_append_span(out, SPAN("no such source, or no event yet\n"));
	return r;
}

/* ---- the commands ---- */

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

#define WHY_OPTION(name, kind, field, value, help)                                             \
	{                                                                                      \
		name, kind, offsetof(struct why_options, field), value, NULL, 0, 0, NULL, help \
	}
#define OPTION_DATA                                  \
	WHY_OPTION("data", OPTION_TEXT, data, "DIR", \
	           "read this data folder instead, even while a gateway uses it")
#define OPTION_SOURCE WHY_OPTION("source", OPTION_TEXT, source, "NAME", "limit to this source")
#define OPTION_JSON WHY_OPTION("json", OPTION_FLAG, json, NULL, "print the answer as JSON")

static const struct option why_table[] = {
	GATEWAY_OPTIONS(struct why_options, gateway),
	OPTION_DATA,
	{ "by", OPTION_CHOICE, offsetof(struct why_options, by), "WHAT", "any", 0, 0,
	  "any|id|ticket|key", "what ID is: any, id, ticket or key" },
	{ "held", OPTION_FLAG, offsetof(struct why_options, held), NULL, NULL, 0, 0, NULL,
	  "list the held events instead, newest first" },
	{ "before", OPTION_TEXT, offsetof(struct why_options, before), "TICKET", NULL, 0, 0, NULL,
	  "with --held: continue the list after this ticket" },
	OPTION_SOURCE,
	{ "limit", OPTION_COUNT, offsetof(struct why_options, limit), "N", "20", 1, WHY_LIMIT_MAX,
	  NULL, "number of repeats, or of held events, to list" },
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

/* ---- read a data folder ---- */

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

static int read_folder(const char *command, answer_write_fn *write,
                       const struct why_options *options, const struct why_question *question)
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
		code = answer_print(command, buf_span(&answer), options->json, write);
	} else {
		buf_append_char(&answer, 0);
		failed(command, answer.failed ? "no memory" : answer.ptr);
	}
	buf_free(&answer);
	trace_log_free(context.log);
	return code;
}

static int look_up(const char *command, answer_write_fn *write, const struct why_options *options,
                   const char *id)
{
	struct why_question question = {
		.limit = (uint32_t)options->limit,
	};
	if (!options->data) {
		struct buf target = { .cap = 8192 };
		buf_printf(&target, "/v1/%s?format=json", command);
		if (id) {
			gateway_add_parameter(&target, by_names[options->by].name, id);
			buf_printf(&target, "&limit=%llu", (unsigned long long)options->limit);
		} else if (options->held) {
			buf_printf(&target, "&held=1&limit=%llu",
			           (unsigned long long)options->limit);
		}
		gateway_add_parameter(&target, "before", options->before);
		gateway_add_parameter(&target, "source", options->source);
		return gateway_print(command, &options->gateway, "GET", &target, options->json,
		                     write);
	}
	if (id)
		question.about = by_names[options->by].about;
	if (!set_value(&question.value, id) || !set_value(&question.source, options->source))
		return command_usage_error(command, "the request is too long");
	return read_folder(command, write, options, &question);
}

int why_command(int argc, char **argv)
{
	struct why_options options = { 0 };
	struct error_text text = { "" };
	int rest = 0;
	if (options_parse(why_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("why", text.text);
	if (options.held && options.data)
		return command_usage_error(
			"why",
			"--held asks a gateway: a data folder does not say what is held now");
	if (options.before && !options.held)
		return command_usage_error("why", "--before needs --held");
	if (rest != (options.held ? 0 : 1) || (rest == 1 && argv[0][0] == 0))
		return command_usage_error("why", "expected one id, ticket or key, or --held");
	return look_up("why", why_write_text, &options, options.held ? NULL : argv[0]);
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
		                           "--window needs --data: a gateway uses its own windows");
	return look_up("advise", advise_write_text, &options, NULL);
}
