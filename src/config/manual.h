/*
 * manual: the pages that are made from the tables, so that they cannot be wrong
 * about a name, a default or a range.
 *
 *   stile.1        the command line, roff
 *   stile.yaml.5   the configuration file, roff
 *   options        the options of the file, Markdown: a part of docs/configuration.md
 *
 * tools/write-manual puts them in their places; a test keeps them there.
 *
 * Room: config. Threads: the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "config/options.h"

/* False: there is no such page, and nothing was printed. */
bool manual_print(const char *page, struct command_list commands, FILE *out);
