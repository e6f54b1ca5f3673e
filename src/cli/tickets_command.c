/* tickets_command: `stile tickets`. See tickets_command.h; tickets_act.c has the rest. */
#include "cli/tickets_command.h"

#include <stdio.h>

#include "base/exit_code.h"
#include "cli/answer.h"
#include "cli/tickets_filter.h"
#include "config/options.h"
#include "gate/ticket.h"

#define TARGET_MAX 8192u
#define PAGE_MAX 1000u

static const struct option list_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER("only in these states, with commas: due, leased, held, parked, dead, "
	               "closed; open (those but closed) is the default, all is all"),
	TICKETS_OPTION("limit", OPTION_COUNT, limit, "N", "100", 1, 1000000, "at most so many"),
	TICKETS_OPTION("payload", OPTION_FLAG, payload, NULL, NULL, 0, 0,
	               "with show: also the event's bytes"),
	TICKETS_JSON,
};
const struct option_table tickets_option_table = { list_table, ARRAY_LEN(list_table) };

static int failed(const char *text)
{
	fprintf(stderr, "stile tickets: %s\n", text);
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

static void write_target(const struct tickets_options *options, uint64_t left, struct span cursor,
                         struct buf *target)
{
	buf_clear(target);
	buf_printf(target, "/v1/tickets?limit=%llu",
	           (unsigned long long)(left < PAGE_MAX ? left : PAGE_MAX));
	tickets_filter_write(options, target);
	if (cursor.len > 0)
		buf_printf(target, "&cursor=%.*s", (int)cursor.len, cursor.ptr);
}

/* Page by page; a page may be empty though there are more. */
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
		write_target(options, left, next, &target);
		buf_clear(&answer);
		r = target.failed
		            ? error_fill(&text, ERR_TOO_LARGE, "the question is too long")
		            : gateway_get(&options->gateway, buf_span(&target), &answer, &text);
		if (r == 0)
			r = print_page(options, buf_span(&answer), first, &next);
		first = first && r <= 0;
		left -= r > 0 ? (uint64_t)r : 0;
	} while (r >= 0 && next.len > 0 && left > 0);
	if (r >= 0 && next.len > 0 && !options->json)
		fprintf(stderr, "there are more; --limit shows them\n");
	buf_free(&target);
	buf_free(&answer);
	if (r < 0)
		return failed(text.text[0] ? text.text : "the answer is not understood");
	return fflush(stdout) == 0 ? EXIT_CODE_OK : failed("the answer cannot be printed");
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

static void put_field(struct buf *out, struct span answer, const char *title, const char *path)
{
	struct span value = SPAN_EMPTY;
	if (answer_value(answer, path, &value) == 0 && value.len > 0)
		buf_printf(out, "%-10s%.*s\n", title, (int)value.len, value.ptr);
}

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
	put_field(out, answer, "event", "event");
	put_field(out, answer, "source", "legs[0].source");
	put_field(out, answer, "id", "legs[0].id");
	put_field(out, answer, "type", "legs[0].type");
	put_field(out, answer, "entity", "legs[0].entity");
	put_field(out, answer, "received", "legs[0].received");
	put_field(out, answer, "replay of", "legs[0].replay_of");
	put_field(out, answer, "payload", "payload");
	put_field(out, answer, "base64", "payload_base64");
	buf_append_char(out, '\n');
	return put_legs(answer, out);
}

static int show(const struct tickets_options *options, const char *ticket)
{
	struct buf target = { .cap = TARGET_MAX };
	buf_printf(&target, "/v1/tickets/%.11s?payload=%d", ticket, options->payload);
	return gateway_print("tickets", &options->gateway, "GET", &target, options->json,
	                     write_event);
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
	return show(&options, argv[1]);
}
