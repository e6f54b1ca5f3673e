/*
 * command: a command of stile, as help and the manual tell of it.
 *
 * Room: config. Threads: constant.
 */
#pragma once

#include "config/options.h"

struct command {
	const char *name;
	const char *usage;
	const char *summary;
	const char *more; /* under the options; may be NULL */
	const struct option_table *options;
	int (*run)(int argc, char **argv);
};

struct command_list {
	const struct command *commands;
	size_t count;
};

/* Says what is wrong and where to read on; the exit code. */
int command_usage_error(const char *command, const char *text);
