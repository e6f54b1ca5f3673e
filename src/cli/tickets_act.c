/* tickets_act: `stile release`, `stile drop`, `stile replay`. See tickets_command.h. */
#include <stdio.h>
#include <time.h>

#include "base/exit_code.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/tickets_command.h"
#include "cli/tickets_filter.h"
#include "config/options.h"
#include "gate/ticket.h"

#define TARGET_MAX 8192u
#define POLL_MS 100

#define WAITING_STATES                                                                   \
	"only in these states, with commas: held, parked, dead, which are the default, " \
	"due, leased, or open (all of them)"
#define DRY_RUN                                                           \
	TICKETS_OPTION("dry-run", OPTION_FLAG, dry_run, NULL, NULL, 0, 0, \
	               "only count what is meant")

static const struct option release_table[] = {
	GATEWAY_OPTIONS(struct tickets_options, gateway),
	TICKETS_FILTER(WAITING_STATES),
	DRY_RUN,
	TICKETS_OPTION("drop", OPTION_FLAG, drop, NULL, NULL, 0, 0,
	               "forget the events instead, as stile drop does"),
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
	TICKETS_TEXT("nonce", nonce, "TEXT",
	             "the name of this replay: under one name an event is sent once; without it "
	             "one is made and printed"),
	TICKETS_TEXT("to", to, "SINK", "send it to this sink instead of its own"),
	TICKETS_OPTION("rate", OPTION_COUNT, rate, "N", "50", 1, 100000,
	               "at most so many a second"),
	TICKETS_JSON,
};
const struct option_table release_option_table = { release_table, ARRAY_LEN(release_table) };
const struct option_table drop_option_table = { drop_table, ARRAY_LEN(drop_table) };
const struct option_table replay_option_table = { replay_table, ARRAY_LEN(replay_table) };

/* What a command does: "replay", and its word for what is done. */
struct deed {
	const char *command; /* as typed */
	const char *name;    /* of the API */
	const char *done;    /* the count in a job */
};

static const struct deed deed_release = { "release", "release", "released" };
static const struct deed deed_forget = { "release", "drop", "dropped" };
static const struct deed deed_drop = { "drop", "drop", "dropped" };
static const struct deed deed_replay = { "replay", "replay", "replayed" };

/* `ticket`: the one that was named; NULL: they are meant by a filter. */
static int failed(const struct deed *deed, const char *ticket, const char *text)
{
	fprintf(stderr, "stile %s: %s%s%s\n", deed->command, ticket ? ticket : "",
	        ticket ? ": " : "", text);
	return EXIT_CODE_FAILED;
}

/* ---- jobs ---- */

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

/* Asks until it has ended; `answer` has the job, and then how it ended. */
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

/* One that did not come to its end, and why, if it says so. */
static int failed_job(const struct deed *deed, const char *ticket, struct span job)
{
	struct error_text text = { "" };
	struct span error = SPAN_EMPTY;
	if (answer_value(job, "error", &error) < 0)
		error = SPAN_EMPTY;
	error_fill(&text, ERR_INVALID, "the job did not come to its end%s%.*s",
	           error.len > 0 ? ": " : "", (int)error.len, error.ptr ? error.ptr : "");
	return failed(deed, ticket, text.text);
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
	int r = target->failed ? error_fill(&text, ERR_TOO_LARGE, "the question is too long")
	                       : gateway_post(&options->gateway, buf_span(target), &answer, &text);
	if (r == 0)
		r = wait_for_job(options, &answer, &text);
	int code = r < 0 ? failed(deed, ticket, text.text)
	                 : print_job(options, deed, buf_span(&answer));
	if (r == 0 && !is_state(buf_span(&answer), "done"))
		code = failed_job(deed, ticket, buf_span(&answer));
	buf_free(&answer);
	return code;
}

static int act_on_filter(const struct tickets_options *options, const struct deed *deed)
{
	struct buf target = { .cap = TARGET_MAX };
	buf_printf(&target, "/v1/%s?dry_run=%d", deed->name, options->dry_run);
	tickets_filter_write(options, &target);
	add_replay(options, deed, &target);
	int code = run_job(options, deed, NULL, &target);
	buf_free(&target);
	return code;
}

/* ---- single tickets ---- */

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
		code = failed(deed, ticket, text.text);
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
	if ((rest > 0) == tickets_filter_given(&options))
		return command_usage_error(deed->command,
		                           "expected tickets, or options that say which are meant");
	if (rest > 0 && options.dry_run && deed != &deed_replay)
		return command_usage_error(deed->command, "--dry-run goes with a filter");
	if (rest == 0)
		code = act_on_filter(&options, deed);
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
