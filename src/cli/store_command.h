/*
 * store_command: `stile store check|init|migrate`: is a shared store fit, and what it
 * needs before it is used.
 *
 * Exit codes: 0 it is fit (there may be warnings), or it was done; 1 it is not, or it
 * cannot be reached; 2 usage.
 *
 * Room: cli. Threads: the main one.
 */
#pragma once

#include "config/options.h"

extern const struct option_table store_option_table;

int store_command(int argc, char **argv);
