/*
 * event: what was read from the bytes that arrived.
 *
 * Room:      gate. Threads: values.
 * Ownership: an event owns nothing. Its texts point into the request (body and
 *            headers), its source into the recipe; both must outlive it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "base/span.h"

/* How a text is encoded. */
enum event_coding {
	EVENT_TEXT_NONE = 0, /* there is no such text */
	EVENT_TEXT_PLAIN,    /* as they are */
	EVENT_TEXT_JSON,     /* the inside of a JSON string with escapes */
	EVENT_TEXT_HEADER,   /* a CloudEvents header: perhaps quoted, percent-encoded */
	EVENT_TEXT_PERCENT,  /* percent-encoded: a segment of a path */
	EVENT_TEXT_FORM,     /* percent-encoded, + is a blank: queries and forms */
};

struct event_text {
	struct span raw;
	enum event_coding coding;
};

struct event {
	const char *name;              /* of the recipe's case: "genesys conversation" */
	bool json;                     /* the payload is one JSON text, */
	bool line;                     /* and known to be without line breaks */
	bool replay;                   /* the sender was asked to send it again */
	struct span source;            /* the name of the way in */
	struct event_text id;          /* as the sender knows it */
	struct event_text type;        /* what kind of thing happened, if it says so */
	struct event_text entity;      /* to whom or what */
	struct event_text time;        /* when, by the sender's clock: event_time_ms() */
	struct event_text correlation; /* a trace id */
	struct event_text origin;      /* the source that the event itself names */
	uint64_t content;              /* digest of its content, see recipe.h */
};

/* The text's value, as UTF-8: `raw` itself where it is plain, else decoded into
 * `bytes`. ERR_TOO_LARGE: more than `room`; ERR_INVALID: broken percent-encoding,
 * quotes or UTF-8 in a header. */
int event_text_value(struct event_text text, char *bytes, size_t room,
                     struct span *ret_value) must_check;

/* Milliseconds since 1970 of an ISO 8601 text (date, time, fraction, offset) or
 * of a number of seconds, milliseconds, microseconds or nanoseconds, by its size. ERR_INVALID: it is neither, or before 1970 or after 9999. */
int event_time_ms(struct event_text text, uint64_t *ret_ms) must_check;
