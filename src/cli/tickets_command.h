/*
 * tickets_command: `stile tickets`, and what is done to tickets: `stile release`,
 * `stile drop` and `stile replay`. All of them ask a running gateway.
 *
 * Room: cli. Failure: the exit code; what went wrong was printed.
 */
#pragma once

#include "config/options.h"

extern const struct option_table tickets_option_table;
extern const struct option_table release_option_table;
extern const struct option_table drop_option_table;
extern const struct option_table replay_option_table;

int tickets_command(int argc, char **argv);
int release_command(int argc, char **argv);
int drop_command(int argc, char **argv);
int replay_command(int argc, char **argv);
