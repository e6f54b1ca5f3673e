/*
 * sink: a way out. The contract between deliver/ and every destination.
 *
 * Room:    sink; deliver/ sees only this header, app/ names concrete sinks.
 * Threads: the deliver thread that owns it. deliver() may block: that thread
 *          has nothing else to do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "gate/verdict.h"

struct sink_event {
	uint64_t ticket;
	uint32_t attempt;
	bool json;            /* the payload is valid JSON */
	enum outcome outcome; /* out */
	size_t end;           /* the sink's own, for the batch at hand */
	struct span source;
	struct span payload;
};

struct sink;

struct sink_methods {
	/* Delivers the events in order and sets each one's outcome. */
	void (*deliver)(struct sink *sink, struct sink_event *events, uint32_t count);
	/* Asks a blocked deliver() to give up soon; from any thread. What was
	 * not delivered gets OUTCOME_RELEASED. */
	void (*interrupt)(struct sink *sink);
	void (*free)(struct sink *sink);
};

struct sink {
	const struct sink_methods *methods;
};
