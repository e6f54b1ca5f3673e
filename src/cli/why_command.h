/*
 * why_command: `stile why ID` and `stile advise`: ask a running gateway, or read
 * the traces of a data folder.
 *
 * Room: cli. Return the exit code: 0 answered, 1 nobody answers or the folder
 * cannot be read, 2 usage.
 */
#pragma once

#include "base/buf.h"
#include "config/options.h"

extern const struct option_table why_option_table;
extern const struct option_table advise_option_table;

int why_command(int argc, char **argv);
int advise_command(int argc, char **argv);

/* The answers of why_answer() and why_advise(), for people. ERR_INVALID: they did not
 * write this. */
int why_write_text(struct span json, struct buf *out) must_check;
int advise_write_text(struct span json, struct buf *out) must_check;
