/*
 * init_command: `stile init --preset NAME`: a commented configuration to start
 * from. What it writes passes `stile check` as it is, and with the lines that
 * are commented out taken in.
 *
 * Room:    cli. Threads: the main thread.
 * Failure: the exit code.
 */
#pragma once

#include "base/buf.h"
#include "config/options.h"
#include "config/preset_guide.h"
#include "gate/recipe/presets.h"

extern const struct option_table init_option_table;
int init_command(int argc, char **argv);

void init_write(const struct preset *preset, const struct preset_guide *guide, struct buf *out);
