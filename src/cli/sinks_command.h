/*
 * sinks_command: `stile sinks` and `stile stats`, which ask a running gateway.
 *
 * Room: cli. Failure: the exit code; what went wrong was printed.
 */
#pragma once

#include "config/options.h"

extern const struct option_table sinks_option_table;
extern const struct option_table stats_option_table;

int sinks_command(int argc, char **argv);
int stats_command(int argc, char **argv);
