/*
 * config_outlet: the outlet of a configured sink: checked when the file is read,
 * opened when delivery begins.
 *
 * Room:      config. Threads: the main one checks; a lane's thread opens.
 * Ownership: an outlet needs the configuration no more.
 * Failure:   ERR_CONFIG with a text, -ENOMEM.
 */
#pragma once

#include "config/config.h"
#include "sink/outlet.h"

struct loop;

/* Would its outlet accept these options? Opens no file. */
int config_outlet_check(const struct config_sink *sink, struct error_text *ret_text) must_check;
int config_outlet_open(const struct config_sink *sink, struct loop *loop,
                       struct outlet **ret_outlet, struct error_text *ret_text) must_check;
