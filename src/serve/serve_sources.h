/*
 * serve_sources: the sources of a configuration, ready for the doors.
 *
 * Room:      serve. Threads: the main one.
 * Ownership: the set is the caller's (one hold); it needs the configuration no more.
 * Failure:   ERR_CONFIG or -ENOMEM with a text.
 */
#pragma once

#include "config/config.h"
#include "door/source.h"

/* `listen`: the address that there is, whatever the configuration says. */
int serve_sources_new(const struct config *config, const char *listen, const unsigned char *key,
                      struct source_counts *counts, struct source_set **ret_set,
                      struct error_text *ret_text) must_check;

/* The same word in the store's language. */
enum store_conflict serve_conflict_of(enum config_conflict conflict);
