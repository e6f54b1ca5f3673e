/*
 * command: `stile filter`: removes duplicates from files and pipes, with the rules of the
 * gateway. See docs/filter.md.
 *
 * Room:    cli. Threads: the main thread.
 * Failure: the exit code: 0 also with duplicates and bad events, 1 for input or
 *          output that failed, 2 for usage, 3 with --strict for bad events. When the
 *          reader of the output has closed it, the command ends quietly with 0.
 */
#pragma once

#include "cli/filter/filter.h"
#include "config/options.h"

extern const struct option_table filter_option_table;
int filter_command(int argc, char **argv);

/* The summary, as text or as one line of JSON. */
struct filter_summary {
	struct filter_stats stats;
	uint64_t ns;
};
void filter_write_text(const struct filter_summary *summary, struct buf *out);
void filter_write_json(const struct filter_summary *summary, struct buf *out);
/* One line for a terminal, without a line break. */
void filter_write_progress(const struct filter_summary *summary, struct buf *out);
