/*
 * tickets_filter: the options by which commands say which tickets they mean.
 *
 * Room: cli.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/gateway.h"
#include "config/options.h"

struct tickets_options {
	struct gateway_options gateway;
	const char *state, *source, *sink, *type, *entity, *id, *since, *until;
	const char *nonce;
	const char *to;
	uint64_t limit;
	uint64_t rate;
	bool payload;
	bool dry_run;
	bool drop;
	bool json;
};

#define TICKETS_OPTION(name, kind, field, value, standard, low, high, help)                      \
	{                                                                                        \
		name, kind, offsetof(struct tickets_options, field), value, standard, low, high, \
			NULL, help                                                               \
	}
#define TICKETS_TEXT(name, field, value, help) \
	TICKETS_OPTION(name, OPTION_TEXT, field, value, NULL, 0, 0, help)

#define TICKETS_FILTER(states)                                                                \
	TICKETS_TEXT("state", state, "STATE", states),                                        \
		TICKETS_TEXT("source", source, "NAME", "only of this source"),                \
		TICKETS_TEXT("sink", sink, "NAME", "only for this sink"),                     \
		TICKETS_TEXT("type", type, "PATTERN",                                         \
	                     "only events of this type; * stands for any characters"),        \
		TICKETS_TEXT("entity", entity, "TEXT", "only events of this entity"),         \
		TICKETS_TEXT("id", id, "TEXT", "only events with this id of the sender's"),   \
		TICKETS_TEXT("since", since, "TIME",                                          \
	                     "only first seen at this time (2026-01-02T03:04:05Z) or later; " \
	                     "2h: two hours ago"),                                            \
		TICKETS_TEXT("until", until, "TIME", "only first seen before this time")
#define TICKETS_JSON \
	TICKETS_OPTION("json", OPTION_FLAG, json, NULL, NULL, 0, 0, "print answers as JSON")

/* "&state=dead&since=2h", percent-encoded. */
void tickets_filter_write(const struct tickets_options *options, struct buf *target);
bool tickets_filter_given(const struct tickets_options *options);
