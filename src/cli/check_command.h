/*
 * check_command: `stile check FILE`: is this configuration right, and what does
 * it mean? `stile init`: a configuration to start from.
 *
 * Room:    cli. Threads: the main thread.
 * Failure: the exit code: 2 for a configuration with errors.
 */
#pragma once

#include "config/config.h"
#include "config/options.h"

extern const struct option_table check_option_table;
int check_command(int argc, char **argv);

/* What `stile check --json` prints: one JSON object. `config` is NULL when there
 * are errors. No secret is in it. */
void check_write_json(const struct config *config, const struct config_report *report,
                      struct buf *out);
/* The sources as a table for people. */
void check_write_table(const struct config *config, struct buf *out);
/* The sinks, and which sources lead there. */
void check_write_sinks(const struct config *config, struct buf *out);
