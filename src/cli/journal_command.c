/*
 * journal_command: `stile journal verify DIR` and `stile journal dump DIR`. Exit codes: 0
 * sound, 1 unreadable or in use, 2 usage, 3 damaged.
 */
#include "cli/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/exit_code.h"
#include "base/text.h"
#include "store/local/inspect.h"

static void print_damage(void *user, const char *text)
{
	(void)user;
	printf("damage         %s\n", text);
}

static void print_warning(void *user, const char *text)
{
	(void)user;
	printf("warning        %s\n", text);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_time(const char *name, uint64_t unix_ms)
{
	char time[TEXT_TIME_LEN];
	if (unix_ms == 0)
		return;
	text_time(time, unix_ms);
	printf("%-14s %.*s\n", name, TEXT_TIME_LEN, time);
}

static void print_report(const struct journal_report *report)
{
	printf("format         %" PRIu32 "\n", report->version);
	printf("folder         %s\n", report->folder_id);
	printf("closed         %s\n", report->clean ? "cleanly" : "by a crash or kill");
	printf("segments       %" PRIu64 " (%" PRIu64 " to %" PRIu64 ")\n", report->segments,
	       report->oldest, report->last);
	printf("claims files   %" PRIu64 "\n", report->claims_files);
	printf("bytes          %" PRIu64 "\n", report->bytes);
	printf("frames         %" PRIu64 "\n", report->frames);
	printf("events         %" PRIu64 "\n", report->events);
	printf("payload bytes  %" PRIu64 "\n", report->payload_bytes);
	printf("outcomes       %" PRIu64 "\n", report->settles);
	printf("seen again     %" PRIu64 "\n", report->seen_records);
	printf("entities       %" PRIu64 "\n", report->newest_records);
	printf("notes          %" PRIu64 "\n", report->notes);
	printf("cells          %" PRIu64 "\n", report->cell_records);
	printf("live cells     %" PRIu64 "\n", report->live_cells);
	printf("live claims    %" PRIu64 "\n", report->live_claims);
	printf("expired claims %" PRIu64 "\n", report->expired_claims);
	printf("open tickets   %" PRIu64 "\n", report->open_tickets);
	printf("held tickets   %" PRIu64 "\n", report->held_tickets);
	printf("parked         %" PRIu64 "\n", report->parked_tickets);
	printf("dead letters   %" PRIu64 "\n", report->dead_tickets);
	print_time("first event", report->first_event_ms);
	print_time("last event", report->last_event_ms);
	if (report->torn_tail)
		printf("torn tail      segment %" PRIu64 ", offset %" PRIu64
		       ": an incomplete write that was never acknowledged\n",
		       report->torn_segment, report->torn_offset);
}

static int verify(const struct journal_inspect_options *options, struct error_text *ret_text)
{
	struct journal_report report = { 0 };
	struct journal_verify_sink sink = { .damage = print_damage, .warning = print_warning };
	int error = journal_verify(options, &sink, &report, ret_text);
	if (error != 0 && report.damages == 0)
		return error;
	print_report(&report);
	if (report.damages > 0)
		printf("damaged        in %" PRIu64 " place%s\n", report.damages,
		       plural(report.damages));
	else if (report.warnings > 0)
		printf("sound          with %" PRIu64 " warning%s\n", report.warnings,
		       plural(report.warnings));
	else
		printf("sound\n");
	return error;
}

static int print_line(void *user, struct span json)
{
	(void)user;
	fwrite(json.ptr, 1, json.len, stdout);
	putchar('\n');
	return ferror(stdout) ? -EPIPE : 0;
}

int journal_command(int argc, char **argv)
{
	bool verifies = argc == 2 && strcmp(argv[0], "verify") == 0;
	bool dumps = argc == 2 && strcmp(argv[0], "dump") == 0;
	if (!verifies && !dumps) {
		fprintf(stderr, "stile journal: expected verify DIR or dump DIR\n"
		                "try: stile help journal\n");
		return EXIT_CODE_USAGE;
	}
	struct journal_inspect_options options = { .path = argv[1] };
	struct error_text text = { "" };
	int error = verifies ? verify(&options, &text)
	                     : journal_dump(&options,
	                                    &(struct journal_dump_sink){ .line = print_line },
	                                    &text);
	if (fflush(stdout) != 0 && error == 0)
		error = -errno;
	if (error != 0)
		fprintf(stderr, "stile journal: %s\n",
		        text.text[0] ? text.text : error_name(error));
	return error == 0             ? EXIT_CODE_OK
	       : error == ERR_DAMAGED ? EXIT_CODE_DAMAGED
	                              : EXIT_CODE_FAILED;
}
