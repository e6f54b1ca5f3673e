/*
 * serve: the gateway itself: wires store, doors, console and sink together and
 * runs until told to stop.
 *
 * Room:    serve. Threads: called on the main thread, which becomes io thread 0.
 * Failure: the exit code; what went wrong was logged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct serve_options;

/* How log lines look from here on. */
void serve_setup_log(const struct serve_options *options);

struct config;
struct config_input;

/* Takes the configuration. SIGHUP loads `input` again. */
int serve_run(struct config *config, const struct config_input *input);
