/*
 * explain_command: `stile explain`: how a recipe sees an event: what it was
 * recognised as, each claim with its parts, and why others are not taken. See
 * docs/filter.md.
 *
 * Room:    cli. Threads: the main thread.
 * Failure: the exit code: 0 also for an event that would be refused, 1 for a file
 *          that cannot be read, 2 for usage.
 */
#pragma once

#include "base/buf.h"
#include "config/options.h"

extern const struct option_table explain_option_table;
int explain_command(int argc, char **argv);

/* What recipe_explain() wrote, for people. ERR_INVALID: it did not write this. */
int explain_write_text(struct span json, struct buf *out) must_check;
