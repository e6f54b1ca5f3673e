/* filter_command: see filter_command.h. */
#include "cli/filter/filter_command.h"

#include <string.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/hash.h"
#include "config/options.h"
#include "serve/source_choice.h"
#include "sys/file.h"
#include "sys/stream.h"

#define DAY_MS UINT64_C(86400000)
#define COMPLAINTS_MAX 5u
#define PROGRESS_NS UINT64_C(250000000)

struct filter_command_options {
	struct source_choice_options choice;
	const char *rejected;
	uint64_t time; /* 0: event, 1: arrival */
	bool envelope;
	bool strict;
	bool json;
	bool quiet;
};

#define AT(member) offsetof(struct filter_command_options, member)

static const struct option options[] = {
	{ "preset", OPTION_TEXT, AT(choice.preset), "NAME", NULL, 0, 0, NULL,
	  "whose events these are; stile help init lists them (default: auto)" },
	{ "config", OPTION_TEXT, AT(choice.config), "FILE", NULL, 0, 0, NULL,
	  "judge by a source of this configuration instead" },
	{ "source", OPTION_TEXT, AT(choice.source), "NAME", NULL, 0, 0, NULL,
	  "with --config: which source, if it has several" },
	{ "window", OPTION_DURATION, AT(choice.window_ms), "TIME", NULL, 1000, 3650 * DAY_MS, NULL,
	  "how long a claim is remembered (default: as configured, or 4d)" },
	{ "time", OPTION_CHOICE, AT(time), "WHICH", "event", 0, 0, "event|arrival",
	  "windows by the time that events carry, or by the clock as they are read" },
	{ "envelope", OPTION_FLAG, AT(envelope), NULL, NULL, 0, 0, NULL,
	  "events come with their headers: {\"headers\":{…},\"body\":…}" },
	{ "rejected", OPTION_TEXT, AT(rejected), "FILE", NULL, 0, 0, NULL,
	  "write what does not pass here, with the reasons, as JSON lines" },
	{ "strict", OPTION_FLAG, AT(strict), NULL, NULL, 0, 0, NULL,
	  "exit code 3 if there were events that cannot be understood" },
	{ "json", OPTION_FLAG, AT(json), NULL, NULL, 0, 0, NULL, "the summary as JSON" },
	{ "quiet", OPTION_FLAG, AT(quiet), NULL, NULL, 0, 0, NULL,
	  "no summary and no progress, errors only" },
};

const struct option_table filter_option_table = { options, ARRAY_LEN(options) };

struct watch {
	const struct filter_command_options *options;
	uint64_t began_ns;
	uint64_t shown_ns;
	bool terminal; /* progress is wanted */
	bool shown;
	uint64_t complaints;
};

/* ---- while it runs ---- */

static void end_progress(struct watch *watch)
{
	if (watch->shown)
		fputs("\r\033[K", stderr);
	watch->shown = false;
}

static void show_progress(void *user, const struct filter_stats *stats)
{
	struct watch *watch = user;
	char memory[256];
	struct buf line = buf_on(memory, sizeof(memory));
	if (!watch->terminal)
		return;
	uint64_t now = clock_monotonic_ns();
	if (now - watch->shown_ns < PROGRESS_NS)
		return;
	watch->shown_ns = now;
	watch->shown = true;
	filter_write_progress(&(struct filter_summary){ *stats, now - watch->began_ns }, &line);
	fprintf(stderr, "\r\033[K%.*s", (int)line.len, line.ptr);
}

/* The first few; all of them are in --rejected. */
static void complain(void *user, const char *text)
{
	struct watch *watch = user;
	if (watch->options->quiet || ++watch->complaints > COMPLAINTS_MAX)
		return;
	end_progress(watch);
	fprintf(stderr, "stile filter: %s\n", text);
	if (watch->complaints == COMPLAINTS_MAX)
		fputs("stile filter: further bad events are only counted\n", stderr);
}

static void print_summary(struct watch *watch, const struct filter *filter)
{
	struct buf out = { 0 };
	struct filter_summary summary = {
		.stats = filter_get_stats(filter),
		.ns = clock_monotonic_ns() - watch->began_ns,
	};
	end_progress(watch);
	if (watch->options->quiet)
		return;
	(watch->options->json ? filter_write_json : filter_write_text)(&summary, &out);
	fwrite(out.len ? out.ptr : "", 1, out.len, stderr);
	buf_free(&out);
}

/* ---- the inputs ---- */

static int fail(struct watch *watch, const char *name, const char *text)
{
	end_progress(watch);
	fprintf(stderr, "stile filter: %s%s%s\n", name ? name : "", name ? ": " : "", text);
	return EXIT_CODE_FAILED;
}

static int run_input(struct watch *watch, struct filter *filter, const char *name, bool *ret_left)
{
	struct file_system *fs = file_system_real();
	struct filter_input input = { .fd = STDIN_FILENO };
	struct error_text text;
	if (name && strcmp(name, "-") != 0) {
		input.name = name;
		int error = fs->methods->open(fs, name, FILE_READ, &input.fd);
		if (error != 0)
			return fail(watch, name, error_name(error));
	}
	int error = filter_run(filter, &input, &text);
	if (input.name)
		fs->methods->close(fs, input.fd);
	*ret_left = error == -EPIPE;
	if (error != 0 && error != -EPIPE)
		return fail(watch, input.name, text.text);
	return EXIT_CODE_OK;
}

/* All files, or standard input. */
static int run_inputs(struct watch *watch, struct filter *filter, int count, char **names)
{
	int code = EXIT_CODE_OK;
	bool left = false;
	for (int i = 0; i < count && code == EXIT_CODE_OK && !left; i++)
		code = run_input(watch, filter, names[i], &left);
	if (count == 0)
		code = run_input(watch, filter, NULL, &left);
	/* Whoever read the output has seen enough: that is no failure, and no
	 * moment for figures about a part of the input. */
	if (left) {
		end_progress(watch);
		return EXIT_CODE_OK;
	}
	print_summary(watch, filter);
	if (code == EXIT_CODE_OK && watch->options->strict && filter_get_stats(filter).bad > 0)
		code = EXIT_CODE_DAMAGED;
	return code;
}

/* ---- the outputs ---- */

/* What is read and would be written over: its name, or NULL. */
static const char *find_read(int out_fd, const struct filter_command_options *values, int count,
                             char **names)
{
	bool standard = count == 0;
	for (int i = 0; i < count; i++) {
		standard |= strcmp(names[i], "-") == 0;
		if (file_is_at(out_fd, names[i]))
			return names[i];
	}
	if (standard && file_is_same(out_fd, STDIN_FILENO))
		return "standard input";
	return values->choice.config && file_is_at(out_fd, values->choice.config)
	               ? values->choice.config
	               : NULL;
}

/* Before anything is written: what is lost then stays lost. */
static int refuse_same(const struct filter_command_options *values, int rejected_fd, int count,
                       char **names)
{
	struct error_text text;
	const char *read = find_read(STDOUT_FILENO, values, count, names);
	if (read) {
		error_fill(&text, 0, "standard output would go into %s, which is read", read);
		return command_usage_error("filter", text.text);
	}
	read = rejected_fd >= 0 ? find_read(rejected_fd, values, count, names) : NULL;
	if (!read && rejected_fd >= 0 && file_is_same(rejected_fd, STDOUT_FILENO))
		read = "standard output";
	if (!read)
		return EXIT_CODE_OK;
	error_fill(&text, 0, "--rejected %s would overwrite %s, expected another file",
	           values->rejected, read);
	return command_usage_error("filter", text.text);
}

static int open_rejected(const char *path, int *ret_fd)
{
	struct file_system *fs = file_system_real();
	return fs->methods->open(fs, path, FILE_WRITE | FILE_CREATE, ret_fd);
}

static int empty_rejected(int fd)
{
	struct file_system *fs = file_system_real();
	int error = fs->methods->truncate(fs, fd, 0);
	/* Pipes and devices have no length. */
	return error == -EINVAL ? 0 : error;
}

static int run(const struct filter_command_options *values, const struct source_choice *choice,
               int count, char **names)
{
	struct watch watch = {
		.options = values,
		.began_ns = clock_monotonic_ns(),
		.terminal = !values->quiet && stream_is_terminal(STDERR_FILENO) &&
		            !stream_is_terminal(STDOUT_FILENO),
	};
	struct filter_options filter_options = {
		.recipe = choice->recipe,
		.out_fd = STDOUT_FILENO,
		.rejected_fd = -1,
		.arrival = values->time == 1,
		.envelope = values->envelope,
		.on_conflict = choice->on_conflict,
		.clock = clock_system(),
		.progress = show_progress,
		.complain = complain,
		.user = &watch,
	};
	struct filter *filter = NULL;
	int error = 0;
	if (values->rejected)
		error = open_rejected(values->rejected, &filter_options.rejected_fd);
	int refused = error == 0 ? refuse_same(values, filter_options.rejected_fd, count, names)
	                         : EXIT_CODE_OK;
	if (refused != EXIT_CODE_OK)
		return refused;
	if (error == 0 && filter_options.rejected_fd >= 0)
		error = empty_rejected(filter_options.rejected_fd);
	if (error != 0)
		return fail(&watch, values->rejected, error_name(error));
	if (filter_new(&filter_options, &filter) != 0)
		return fail(&watch, NULL, "there is not enough memory");
	int code = run_inputs(&watch, filter, count, names);
	filter_free(filter);
	if (filter_options.rejected_fd >= 0 && close(filter_options.rejected_fd) != 0)
		code = fail(&watch, values->rejected, error_name(-errno));
	return code;
}

/* Nothing would be understood: better said at once than of each event. */
static int refuse_without_headers(struct span header)
{
	struct error_text text;
	error_fill(&text, 0,
	           "these events are known by their header %.*s, which a file does not have: give "
	           "{\"headers\":{…},\"body\":…}, with --envelope",
	           (int)header.len, header.ptr);
	return command_usage_error("filter", text.text);
}

int filter_command(int argc, char **argv)
{
	struct filter_command_options values = { 0 };
	struct source_choice choice;
	struct error_text text;
	unsigned char key[DIGEST_KEY_LEN];
	int rest = 0;
	if (options_parse(filter_option_table, argc, argv, &values, &rest, &text) != 0)
		return command_usage_error("filter", text.text);
	/* Nothing outlives the process, so neither does the key. */
	if (hash_random(key, sizeof(key)) != 0) {
		fputs("stile filter: there are no random bytes\n", stderr);
		return EXIT_CODE_FAILED;
	}
	stream_ignore_broken_pipes();
	int code = source_choice_make("filter", &values.choice, key, &choice);
	if (code != EXIT_CODE_OK)
		return code;
	if (choice.header.len > 0 && !values.envelope)
		code = refuse_without_headers(choice.header);
	else
		code = run(&values, &choice, rest, argv);
	source_choice_free(&choice);
	return code;
}
