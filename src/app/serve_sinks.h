/*
 * serve_sinks: the sinks of a configuration, ready for delivery.
 *
 * Room:      app. Threads: the main one.
 * Ownership: loops and outlets are the caller's until deliver_start() takes them; they
 *            need the configuration no more.
 * Failure:   ERR_CONFIG with a text, -ENOMEM.
 */
#pragma once

#include "app/config.h"
#include "deliver/deliver.h"

/* Would its outlet accept what it is told? Opens no file. */
int serve_sink_check(const struct config_sink *sink, struct error_text *ret_text) must_check;

/* Loop, outlet and policy of a sink. */
int serve_sink_open(const struct config_sink *sink, struct deliver_sink *ret_sink,
                    struct error_text *ret_text) must_check;
/* Of one that deliver_start() did not take. */
void serve_sink_close(struct deliver_sink *sink);
