/*
 * serve_sinks: the sinks of a configuration, ready for delivery.
 *
 * Room:      app. Threads: the main one.
 * Ownership: what is made needs the configuration no more.
 * Failure:   ERR_CONFIG with a text, -ENOMEM.
 */
#pragma once

#include "app/config.h"
#include "deliver/deliver.h"

/* Would its outlet accept what it is told? Opens no file. */
int serve_sink_check(const struct config_sink *sink, struct error_text *ret_text) must_check;

/* A lane for every sink. */
int serve_sinks_start(const struct config *config, struct store_host *host,
                      struct deliver **ret_deliver, struct error_text *ret_text) must_check;
