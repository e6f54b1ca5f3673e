/* command: see command.h. */
#include "cli/filter/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "base/hash.h"
#include "codec/json_write.h"
#include "config/options.h"
#include "config/source_choice.h"
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
	  "the preset to use; stile help init lists them (default: auto)" },
	{ "config", OPTION_TEXT, AT(choice.config), "FILE", NULL, 0, 0, NULL,
	  "use a source of this configuration instead of a preset" },
	{ "source", OPTION_TEXT, AT(choice.source), "NAME", NULL, 0, 0, NULL,
	  "with --config: which source, if it has several" },
	{ "window", OPTION_DURATION, AT(choice.window_ms), "TIME", NULL, 1000, 3650 * DAY_MS, NULL,
	  "how long a claim without its own window is remembered (default: as configured, or 4d)" },
	{ "time", OPTION_CHOICE, AT(time), "WHICH", "event", 0, 0, "event|arrival",
	  "measure windows by the time in the events, or by the clock when they are read" },
	{ "envelope", OPTION_FLAG, AT(envelope), NULL, NULL, 0, 0, NULL,
	  "events come with their headers: {\"headers\":{…},\"body\":…}" },
	{ "rejected", OPTION_TEXT, AT(rejected), "FILE", NULL, 0, 0, NULL,
	  "write the dropped events here, with reasons, as JSON lines" },
	{ "strict", OPTION_FLAG, AT(strict), NULL, NULL, 0, 0, NULL,
	  "exit with 3 if there were bad events" },
	{ "json", OPTION_FLAG, AT(json), NULL, NULL, 0, 0, NULL,
	  "print the summary as one JSON object" },
	{ "quiet", OPTION_FLAG, AT(quiet), NULL, NULL, 0, 0, NULL,
	  "print no summary and no progress, only errors" },
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

/* ---- the summary ---- */

static double seconds_of(const struct filter_summary *summary)
{
	double seconds = (double)summary->ns / 1e9;
	return seconds > 1e-6 ? seconds : 1e-6;
}

/* "5.24 GB", "17 B" */
static void put_bytes(struct buf *out, double bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	size_t unit = 0;
	for (; bytes >= 1000 && unit + 1 < ARRAY_LEN(units); unit++)
		bytes /= 1000;
	buf_printf(out, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

/* "12,345,678" */
static void put_count(struct buf *out, uint64_t value)
{
	char text[32];
	size_t at = sizeof(text);
	for (unsigned digits = 0; digits == 0 || value > 0; digits++, value /= 10) {
		if (digits > 0 && digits % 3 == 0)
			text[--at] = ',';
		text[--at] = (char)('0' + value % 10);
	}
	buf_append(out, text + at, sizeof(text) - at);
}

static void put_row(struct buf *out, const char *name, uint64_t count, uint64_t of)
{
	char memory[32];
	struct buf text = buf_on(memory, sizeof(memory));
	put_count(&text, count);
	buf_printf(out, "%-10s %15.*s", name, (int)text.len, text.ptr);
	if (count > 0 && of > 0)
		buf_printf(out, "  %5.1f %%", 100.0 * (double)count / (double)of);
	buf_append_char(out, '\n');
}

void filter_write_text(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	put_row(out, "read", stats->read, 0);
	for (int i = VERDICT_NEW; i <= VERDICT_CONFLICT; i++)
		put_row(out, verdict_name((enum verdict)i), stats->verdicts[i], stats->read);
	put_row(out, "bad", stats->bad, stats->read);
	if (stats->would > 0)
		put_row(out, "shadow", stats->would, stats->read);
	put_bytes(out, (double)stats->bytes);
	buf_printf(out, " in %.1f s, ", seconds_of(summary));
	put_bytes(out, (double)stats->bytes / seconds_of(summary));
	buf_append_span(out, SPAN("/s; "));
	put_count(out, stats->claims);
	buf_append_span(out, SPAN(" claims in "));
	put_bytes(out, (double)stats->claims_bytes);
	buf_append_span(out, SPAN(" of memory\n"));
	if (stats->undated > 0) {
		put_count(out, stats->undated);
		buf_append_span(out, SPAN(" events have no time of their own\n"));
	}
}

void filter_write_json(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	json_object_begin(out, NULL);
	json_add_u64(out, "read", stats->read);
	json_add_u64(out, "passed", stats->passed);
	for (int i = VERDICT_NEW; i <= VERDICT_CONFLICT; i++)
		json_add_u64(out, verdict_name((enum verdict)i), stats->verdicts[i]);
	json_add_u64(out, "bad", stats->bad);
	json_add_u64(out, "shadow", stats->would);
	json_add_u64(out, "undated", stats->undated);
	json_add_u64(out, "bytes", stats->bytes);
	json_add_u64(out, "milliseconds", summary->ns / 1000000);
	json_add_u64(out, "claims", stats->claims);
	json_add_u64(out, "claims_forgotten", stats->claims_forgotten);
	json_add_u64(out, "claims_bytes", stats->claims_bytes);
	json_object_end(out);
	buf_append_char(out, '\n');
}

void filter_write_progress(const struct filter_summary *summary, struct buf *out)
{
	const struct filter_stats *stats = &summary->stats;
	put_bytes(out, (double)stats->bytes);
	buf_append_span(out, SPAN("  "));
	put_count(out, (uint64_t)((double)stats->read / seconds_of(summary)));
	buf_append_span(out, SPAN(" events/s  new "));
	put_count(out, stats->verdicts[VERDICT_NEW]);
	buf_append_span(out, SPAN("  duplicate "));
	put_count(out, stats->verdicts[VERDICT_DUPLICATE]);
	if (stats->bad > 0) {
		buf_append_span(out, SPAN("  bad "));
		put_count(out, stats->bad);
	}
}

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
	uint64_t now = clock_monotonic_ns();
	if (!watch->terminal || now - watch->shown_ns < PROGRESS_NS)
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

static int fail(struct watch *watch, const char *name, const char *text)
{
	end_progress(watch);
	fprintf(stderr, "stile filter: %s%s%s\n", name ? name : "", name ? ": " : "", text);
	return EXIT_CODE_FAILED;
}

/* ---- the inputs ---- */

static int run_input(struct watch *watch, struct filter *filter, const char *name, bool *ret_closed)
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
	*ret_closed = error == -EPIPE;
	if (error != 0 && error != -EPIPE)
		return fail(watch, input.name, text.text);
	return EXIT_CODE_OK;
}

/* All files, or standard input. */
static int run_inputs(struct watch *watch, struct filter *filter, int count, char **names)
{
	int code = EXIT_CODE_OK;
	bool closed = false;
	for (int i = 0; i < count && code == EXIT_CODE_OK && !closed; i++)
		code = run_input(watch, filter, names[i], &closed);
	if (count == 0)
		code = run_input(watch, filter, NULL, &closed);
	/* The reader of the output has seen enough: no failure, and no figures about a
	 * part of the input. */
	if (closed) {
		end_progress(watch);
		return EXIT_CODE_OK;
	}
	print_summary(watch, filter);
	if (code == EXIT_CODE_OK && watch->options->strict && filter_get_stats(filter).bad > 0)
		code = EXIT_CODE_DAMAGED;
	return code;
}

/* ---- the outputs ---- */

/* The name of an input that a write to `out_fd` would overwrite, or NULL. */
static const char *find_input(int out_fd, const struct filter_command_options *values, int count,
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

/* Before anything is written: what would be lost then stays lost. */
static int refuse_same(const struct filter_command_options *values, int rejected_fd, int count,
                       char **names)
{
	struct error_text text;
	const char *read = find_input(STDOUT_FILENO, values, count, names);
	if (read) {
		error_fill(&text, 0, "standard output would go into %s, which is read", read);
		return command_usage_error("filter", text.text);
	}
	if (rejected_fd < 0)
		return EXIT_CODE_OK;
	read = find_input(rejected_fd, values, count, names);
	if (!read && file_is_same(rejected_fd, STDOUT_FILENO))
		read = "standard output";
	if (!read)
		return EXIT_CODE_OK;
	error_fill(&text, 0, "--rejected %s would overwrite %s, expected another file",
	           values->rejected, read);
	return command_usage_error("filter", text.text);
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
	struct file_system *fs = file_system_real();
	struct filter *filter = NULL;
	int *rejected_fd = &filter_options.rejected_fd;
	int error = 0;
	if (values->rejected)
		error = fs->methods->open(fs, values->rejected, FILE_WRITE | FILE_CREATE,
		                          rejected_fd);
	if (error == 0) {
		int code = refuse_same(values, *rejected_fd, count, names);
		if (code != EXIT_CODE_OK)
			return code;
	}
	if (error == 0 && values->rejected) {
		error = fs->methods->truncate(fs, *rejected_fd, 0);
		if (error == -EINVAL) /* pipes and devices have no length */
			error = 0;
	}
	if (error != 0)
		return fail(&watch, values->rejected, error_name(error));
	if (filter_new(&filter_options, &filter) != 0)
		return fail(&watch, NULL, "not enough memory");
	int code = run_inputs(&watch, filter, count, names);
	filter_free(filter);
	if (values->rejected && close(*rejected_fd) != 0)
		code = fail(&watch, values->rejected, error_name(-errno));
	return code;
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
		fputs("stile filter: cannot get random bytes from the kernel\n", stderr);
		return EXIT_CODE_FAILED;
	}
	stream_ignore_broken_pipes();
	int code = source_choice_make("filter", &values.choice, key, &choice);
	if (code != EXIT_CODE_OK)
		return code;
	if (choice.header.len > 0 && !values.envelope) {
		/* Every event would be bad: better reported once. */
		error_fill(
			&text, 0,
			"these events are recognised by their header %.*s, which a file does not have: use --envelope and {\"headers\":{…},\"body\":…}",
			(int)choice.header.len, choice.header.ptr);
		code = command_usage_error("filter", text.text);
	} else {
		code = run(&values, &choice, rest, argv);
	}
	source_choice_free(&choice);
	return code;
}
