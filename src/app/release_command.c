/* release_command: see release_command.h. */
#include "app/release_command.h"

#include <stdio.h>

#include "app/ask.h"
#include "app/command.h"
#include "app/exit_code.h"
#include "base/buf.h"
#include "gate/ticket.h"

#define ANSWER_MAX (64u << 10)

struct release_options {
	struct ask_options ask;
	bool drop;
};

static const struct option options[] = {
	ASK_OPTIONS(struct release_options, ask),
	{ "drop", OPTION_FLAG, offsetof(struct release_options, drop), NULL, NULL, 0, 0, NULL,
	  "forget the event instead of delivering it" },
};

const struct option_table release_option_table = { options, ARRAY_LEN(options) };

int release_command(int argc, char **argv)
{
	struct release_options given = { .drop = false };
	struct error_text text;
	uint64_t ticket;
	int rest = 0;
	if (options_parse(release_option_table, argc, argv, &given, &rest, &text) != 0)
		return command_usage_error("release", text.text);
	if (rest != 1 || !ticket_parse(span_str(argv[0]), &ticket))
		return command_usage_error("release", "expected one ticket, 11 letters and digits");
	char target[64];
	snprintf(target, sizeof(target), "/v1/tickets/%s/%s", argv[0],
	         given.drop ? "drop" : "release");
	struct buf answer = { .cap = ANSWER_MAX };
	int r = ask_post(&given.ask, span_str(target), &answer, &text);
	if (r == 0)
		fwrite(answer.ptr, 1, answer.len, stdout);
	else
		fprintf(stderr, "stile release: %s\n", text.text);
	buf_free(&answer);
	return r == 0 && fflush(stdout) == 0 ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
