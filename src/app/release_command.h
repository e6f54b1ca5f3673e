/*
 * release_command: `stile release TICKET`: an event that was kept aside for a
 * conflict is delivered after all, or dropped, by a running gateway.
 *
 * Room: app. Returns the exit code: 0 done, 1 nobody answers or there is no such
 * event, 2 usage.
 */
#pragma once

#include "app/options.h"

extern const struct option_table release_option_table;

int release_command(int argc, char **argv);
