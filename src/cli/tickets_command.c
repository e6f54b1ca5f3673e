/*
 * tickets_command: `stile tickets`, `stile release`, `stile drop` and `stile replay`. All
 * of them ask a running gateway.
 */
#include "cli/commands.h"

#include <stdio.h>
#include <time.h>

#include "base/exit_code.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/gateway.h"
#include "gate/ticket.h"

#define TARGET_MAX 8192u
#define PAGE_MAX 1000u
#define POLL_MS 100

/* ---- options ---- */

struct tickets_options {
	struct gateway_options gateway;
	const char *state, *source, *sink, *type, *entity, *id, *since, *until;
	const char *nonce;
	const char *to;
	uint64_t limit;
	uint64_t rate;
	bool payload;
	bool dry_run;
	bool drop;
	bool json;
};

#define TICKETS_OPTION(name, kind, field, value, standard, low, high, help)                      \
	{                                                                                        \
		name, kind, offsetof(struct tickets_options, field), value, standard, low, high, \
			NULL, help                                                               \
	}
#define TICKETS_TEXT(name, field, value, help) \
	TICKETS_OPTION(name, OPTION_TEXT, field, value, NULL, 0, 0, help)

#define TICKETS_FILTER(states)                                                                  \
	TICKETS_TEXT("state", state, "STATE", states),                                          \
		TICKETS_TEXT("source", source, "NAME", "only events of this source"),           \
		TICKETS_TEXT("sink", sink, "NAME", "only tickets for this sink"),               \
		TICKETS_TEXT("type", type, "PATTERN",                                           \
	                     "only events of this type; * stands for any characters"),          \
		TICKETS_TEXT("entity", entity, "TEXT", "only events of this entity"),           \
		TICKETS_TEXT("id", id, "TEXT", "only events with this id"),                     \
		TICKETS_TEXT(                                                                   \
			"since", since, "TIME",                                                 \
			"only events first seen at this time (2026-01-02T03:04:05Z) or later; " \
			"2h: two hours ago"),                                                   \
		TICKETS_TEXT("until", until, "TIME", "only events first seen before this time")
#define TICKETS_JSON \
	TICKETS_OPTION("json", OPTION_FLAG, json, NULL, NULL, 0, 0, "print answers as JSON")

static const struct option list_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER(
		"only in these states, with commas: due, leased, held, parked, dead, closed; open (the default) is all but closed, all is all"),
	TICKETS_OPTION("limit", OPTION_COUNT, limit, "N", "100", 1, 1000000,
	               "largest number of tickets to list"),
	TICKETS_OPTION("payload", OPTION_FLAG, payload, NULL, NULL, 0, 0,
	               "with show: also print the event"),
	TICKETS_JSON,
};
const struct option_table tickets_option_table = { list_table, ARRAY_LEN(list_table) };

#define WAITING_STATES                                                                   \
	"only in these states, with commas: held, parked, dead, which are the default, " \
	"due, leased, or open (all of them)"
#define DRY_RUN \
	TICKETS_OPTION("dry-run", OPTION_FLAG, dry_run, NULL, NULL, 0, 0, "only count the tickets")

static const struct option release_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER(WAITING_STATES),
	DRY_RUN,
	TICKETS_OPTION("drop", OPTION_FLAG, drop, NULL, NULL, 0, 0,
	               "drop the tickets instead, same as stile drop"),
	TICKETS_JSON,
};
static const struct option drop_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER(WAITING_STATES),
	DRY_RUN,
	TICKETS_JSON,
};
static const struct option replay_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER("only in these states, with commas: closed, parked, dead"),
	DRY_RUN,
	TICKETS_TEXT(
		"nonce", nonce, "TEXT",
		"name of this replay: under one name, stile sends each ticket only once; without it, stile makes a name and prints it"),
	TICKETS_TEXT("to", to, "SINK", "send to this sink instead of the original one"),
	TICKETS_OPTION("rate", OPTION_COUNT, rate, "N", "50", 1, 100000,
	               "largest number of tickets a second"),
	TICKETS_JSON,
};
const struct option_table release_option_table = { release_table, ARRAY_LEN(release_table) };
const struct option_table drop_option_table = { drop_table, ARRAY_LEN(drop_table) };
const struct option_table replay_option_table = { replay_table, ARRAY_LEN(replay_table) };

/* "&state=dead&since=2h", percent-encoded. */
static void add_filter(const struct tickets_options *options, struct buf *target)
{
	gateway_add_parameter(target, "state", options->state);
	gateway_add_parameter(target, "source", options->source);
	gateway_add_parameter(target, "sink", options->sink);
	gateway_add_parameter(target, "type", options->type);
	gateway_add_parameter(target, "entity", options->entity);
	gateway_add_parameter(target, "id", options->id);
	gateway_add_parameter(target, "since", options->since);
	gateway_add_parameter(target, "until", options->until);
}

static bool filter_given(const struct tickets_options *options)
{
	return options->state || options->source || options->sink || options->type ||
	       options->entity || options->id || options->since || options->until;
}

/* `ticket`: the one that failed; NULL: none in particular. */
static int failed(const char *command, const char *ticket, const char *text)
{
	fprintf(stderr, "stile %s: %s%s%s\n", command, ticket ? ticket : "", ticket ? ": " : "",
	        text);
	return EXIT_CODE_FAILED;
}

/* ---- list ---- */

static const struct answer_column list_columns[] = {
	{ "TICKET", "ticket" },     { "STATE", "state" },
	{ "SINK", "sink" },         { "SOURCE", "source" },
	{ "RECEIVED", "received" }, { "TYPE", "type" },
	{ "ENTITY", "entity" },     { "ID", "id" },
	{ "TRIES", "attempt" },     { "LAST", "last" },
	{ "STATUS", "status" },
};

static int print_page(const struct tickets_options *options, struct span answer, bool first,
                      struct span *ret_next)
{
	struct answer_columns columns = { list_columns, ARRAY_LEN(list_columns) };
	struct span list = SPAN_EMPTY;
	int r = answer_value(answer, "tickets", &list);
	if (r == 0)
		r = answer_value(answer, "next", ret_next);
	if (r < 0)
		return r;
	struct buf out = { 0 };
	r = options->json ? answer_put_lines(&out, list)
	                  : answer_put_table(&out, list, columns, first);
	if (out.len > 0)
		fwrite(out.ptr, 1, out.len, stdout);
	r = out.failed ? out.failed : r;
	buf_free(&out);
	return r;
}

/* Page by page; a page may be empty although more follow. */
static int list(const struct tickets_options *options)
{
	struct buf target = { .cap = TARGET_MAX };
	struct buf answer = { .cap = GATEWAY_ANSWER_MAX };
	struct error_text text = { "" };
	struct span next = SPAN_EMPTY;
	uint64_t left = options->limit;
	bool first = true;
	int r = 0;
	do {
		buf_clear(&target);
		buf_printf(&target, "/v1/tickets?limit=%llu",
		           (unsigned long long)(left < PAGE_MAX ? left : PAGE_MAX));
		add_filter(options, &target);
		if (next.len > 0)
			buf_printf(&target, "&cursor=%.*s", (int)next.len, next.ptr);
		buf_clear(&answer);
		r = target.failed
		            ? error_fill(&text, ERR_TOO_LARGE, "the request is too long")
		            : gateway_get(&options->gateway, buf_span(&target), &answer, &text);
		if (r == 0)
			r = print_page(options, buf_span(&answer), first, &next);
		first = first && r <= 0;
		left -= r > 0 ? (uint64_t)r : 0;
	} while (r >= 0 && next.len > 0 && left > 0);
	if (r >= 0 && next.len > 0 && !options->json)
		fprintf(stderr, "there are more; a larger --limit shows them\n");
	buf_free(&target);
	buf_free(&answer);
	if (r < 0)
		return failed("tickets", NULL,
		              text.text[0] ? text.text : "the gateway's answer cannot be read");
	return fflush(stdout) == 0 ? EXIT_CODE_OK
	                           : failed("tickets", NULL, "the answer cannot be printed");
}

/* ---- show ---- */

static const struct answer_column leg_columns[] = {
	{ "TICKET", "ticket" }, { "STATE", "state" }, { "SINK", "sink" },
	{ "TRIES", "attempt" }, { "DUE", "due" },     { "SINCE", "since" },
};
static const struct answer_column note_columns[] = {
	{ "TIME", "time" },     { "TRY", "attempt" }, { "MARK", "mark" },
	{ "STATUS", "status" }, { "NEXT", "next" },   { "TEXT", "text" },
};

static int put_legs(struct span answer, struct buf *out)
{
	struct span legs = SPAN_EMPTY;
	int r = answer_value(answer, "legs", &legs);
	if (r == 0)
		r = answer_put_table(out, legs,
		                     (struct answer_columns){ leg_columns, ARRAY_LEN(leg_columns) },
		                     true);
	for (int i = 0, count = r; i < count && r >= 0; i++) {
		char path[32];
		struct span notes = SPAN_EMPTY, ticket = SPAN_EMPTY;
		snprintf(path, sizeof(path), "legs[%d].ticket", i);
		r = answer_value(answer, path, &ticket);
		snprintf(path, sizeof(path), "legs[%d].history", i);
		if (r == 0)
			r = answer_value(answer, path, &notes);
		if (r < 0 || notes.len <= 2)
			continue;
		buf_printf(out, "\n%.*s, the newest first:\n", (int)ticket.len, ticket.ptr);
		r = answer_put_table(out, notes,
		                     (struct answer_columns){ note_columns,
		                                              ARRAY_LEN(note_columns) },
		                     true);
	}
	return r;
}

static int write_event(struct span answer, struct buf *out)
{
	static const struct answer_column fields[] = {
		{ "event", "event" },
		{ "source", "legs[0].source" },
		{ "id", "legs[0].id" },
		{ "type", "legs[0].type" },
		{ "entity", "legs[0].entity" },
		{ "received", "legs[0].received" },
		{ "replay of", "legs[0].replay_of" },
		{ "payload", "payload" },
		{ "base64", "payload_base64" },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		struct span value = SPAN_EMPTY;
		if (answer_value(answer, fields[i].path, &value) == 0 && value.len > 0)
			buf_printf(out, "%-10s%.*s\n", fields[i].title, (int)value.len, value.ptr);
	}
	buf_append_char(out, '\n');
	return put_legs(answer, out);
}

int tickets_command(int argc, char **argv)
{
	struct tickets_options options = { 0 };
	struct error_text text = { "" };
	uint64_t ticket;
	int rest = 0;
	if (options_parse(tickets_option_table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error("tickets", text.text);
	if (rest == 0)
		return list(&options);
	if (rest != 2 || strcmp(argv[0], "show") != 0 || !ticket_parse(span_str(argv[1]), &ticket))
		return command_usage_error("tickets",
		                           "expected options only, or show TICKET (11 letters and "
		                           "digits)");
	struct buf target = { .cap = TARGET_MAX };
	buf_printf(&target, "/v1/tickets/%.11s?payload=%d", argv[1], options.payload);
	return gateway_print("tickets", &options.gateway, "GET", &target, options.json,
	                     write_event);
}

/* ---- release, drop, replay ---- */

/* What a command does. */
struct deed {
	const char *command; /* as typed */
	const char *name;    /* of the API */
	const char *done;    /* the count in a job */
};

static const struct deed deed_release = { "release", "release", "released" };
static const struct deed deed_forget = { "release", "drop", "dropped" };
static const struct deed deed_drop = { "drop", "drop", "dropped" };
static const struct deed deed_replay = { "replay", "replay", "replayed" };

static uint64_t number_of(struct span answer, const char *path)
{
	struct span value = SPAN_EMPTY;
	uint64_t number = 0;
	if (answer_value(answer, path, &value) < 0 || text_parse_u64(value, &number) < 0)
		return 0;
	return number;
}

static bool is_state(struct span answer, const char *state)
{
	struct span value = SPAN_EMPTY;
	return answer_value(answer, "state", &value) == 0 && span_eq(value, span_str(state));
}

/* Asks until the job has ended. `answer` has the job, first as it began, then as it ended. */
static int wait_for_job(const struct tickets_options *options, struct buf *answer,
                        struct error_text *ret_text)
{
	char target[64];
	uint64_t job = number_of(buf_span(answer), "job");
	int r = 0;
	snprintf(target, sizeof(target), "/v1/jobs/%llu", (unsigned long long)job);
	while (r == 0 && is_state(buf_span(answer), "running")) {
		nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
		buf_clear(answer);
		r = gateway_get(&options->gateway, span_str(target), answer, ret_text);
	}
	return r;
}

static int print_job(const struct tickets_options *options, const struct deed *deed,
                     struct span job)
{
	struct span nonce = SPAN_EMPTY;
	uint64_t failures = number_of(job, "failed");
	if (options->json) {
		fwrite(job.ptr, 1, job.len, stdout);
	} else if (options->dry_run) {
		printf("%llu would be %s\n", (unsigned long long)number_of(job, "matched"),
		       deed->done);
	} else {
		printf("%s %llu of %llu; %llu skipped, %llu failed", deed->done,
		       (unsigned long long)number_of(job, deed->done),
		       (unsigned long long)number_of(job, "matched"),
		       (unsigned long long)number_of(job, "skipped"), (unsigned long long)failures);
		if (answer_value(job, "nonce", &nonce) == 0 && nonce.len > 0)
			printf("; nonce %.*s", (int)nonce.len, nonce.ptr);
		putchar('\n');
	}
	return failures > 0 ? EXIT_CODE_FAILED : EXIT_CODE_OK;
}

static void add_replay(const struct tickets_options *options, const struct deed *deed,
                       struct buf *target)
{
	if (deed != &deed_replay)
		return;
	gateway_add_parameter(target, "nonce", options->nonce);
	gateway_add_parameter(target, "to", options->to);
	buf_printf(target, "&rate=%llu", (unsigned long long)options->rate);
}

static int run_job(const struct tickets_options *options, const struct deed *deed,
                   const char *ticket, const struct buf *target)
{
	struct buf answer = { .cap = GATEWAY_ANSWER_MAX };
	struct error_text text = { "" };
	int r = target->failed ? error_fill(&text, ERR_TOO_LARGE, "the request is too long")
	                       : gateway_post(&options->gateway, buf_span(target), &answer, &text);
	if (r == 0)
		r = wait_for_job(options, &answer, &text);
	int code = r < 0 ? failed(deed->command, ticket, text.text)
	                 : print_job(options, deed, buf_span(&answer));
	if (r == 0 && !is_state(buf_span(&answer), "done")) {
		struct span why = SPAN_EMPTY;
		if (answer_value(buf_span(&answer), "error", &why) < 0)
			why = SPAN_EMPTY;
		error_fill(&text, ERR_INVALID, "the job did not finish%s%.*s",
		           why.len > 0 ? ": " : "", (int)why.len, why.ptr ? why.ptr : "");
		code = failed(deed->command, ticket, text.text);
	}
	buf_free(&answer);
	return code;
}

static int act_on_ticket(const struct tickets_options *options, const struct deed *deed,
                         const char *ticket)
{
	struct buf target = { .cap = TARGET_MAX };
	struct buf answer = { .cap = GATEWAY_ANSWER_MAX };
	struct error_text text = { "" };
	int code = EXIT_CODE_OK;
	buf_printf(&target, "/v1/tickets/%s/%s", ticket, deed->name);
	if (deed == &deed_replay) {
		buf_printf(&target, "?dry_run=%d", options->dry_run);
		add_replay(options, deed, &target);
		code = run_job(options, deed, ticket, &target);
	} else if (gateway_post(&options->gateway, buf_span(&target), &answer, &text) < 0) {
		code = failed(deed->command, ticket, text.text);
	} else if (options->json) {
		fwrite(answer.ptr, 1, answer.len, stdout);
	} else {
		printf("%s %s\n", ticket, deed->done);
	}
	buf_free(&target);
	buf_free(&answer);
	return code;
}

static int run(struct option_table table, const struct deed *deed, int argc, char **argv)
{
	struct tickets_options options = { 0 };
	struct error_text text = { "" };
	uint64_t ticket;
	int rest = 0;
	int code = EXIT_CODE_OK;
	if (options_parse(table, argc, argv, &options, &rest, &text) != 0)
		return command_usage_error(deed->command, text.text);
	if (options.drop)
		deed = &deed_forget;
	for (int i = 0; i < rest; i++)
		if (!ticket_parse(span_str(argv[i]), &ticket))
			return command_usage_error(deed->command,
			                           "expected tickets, 11 letters and digits each");
	if ((rest > 0) == filter_given(&options))
		return command_usage_error(deed->command,
		                           "expected tickets, or options that select them");
	if (rest > 0 && options.dry_run && deed != &deed_replay)
		return command_usage_error(deed->command, "--dry-run needs a filter");
	if (rest == 0) {
		struct buf target = { .cap = TARGET_MAX };
		buf_printf(&target, "/v1/%s?dry_run=%d", deed->name, options.dry_run);
		add_filter(&options, &target);
		add_replay(&options, deed, &target);
		code = run_job(&options, deed, NULL, &target);
		buf_free(&target);
	}
	for (int i = 0; i < rest; i++)
		if (act_on_ticket(&options, deed, argv[i]) != EXIT_CODE_OK)
			code = EXIT_CODE_FAILED;
	return fflush(stdout) == 0 ? code : EXIT_CODE_FAILED;
}

int release_command(int argc, char **argv)
{
	return run(release_option_table, &deed_release, argc, argv);
}

int drop_command(int argc, char **argv)
{
	return run(drop_option_table, &deed_drop, argc, argv);
}

int replay_command(int argc, char **argv)
{
	return run(replay_option_table, &deed_replay, argc, argv);
}
