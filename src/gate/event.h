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

enum event_kind {
	EVENT_PLAIN = 0,          /* a JSON object with an id */
	EVENT_EVENTBRIDGE,        /* an EventBridge envelope */
	EVENT_CLOUDEVENTS,        /* CloudEvents, structured mode */
	EVENT_CLOUDEVENTS_BINARY, /* CloudEvents in headers; the body may be anything */
};

/* How the bytes of a text stand for its value. */
enum event_coding {
	EVENT_TEXT_NONE = 0, /* there is no such text */
	EVENT_TEXT_PLAIN,    /* as they are */
	EVENT_TEXT_JSON,     /* the inside of a JSON string with escapes */
	EVENT_TEXT_HEADER,   /* a CloudEvents header: perhaps quoted, percent-encoded */
};

struct event_text {
	struct span raw;
	enum event_coding coding;
};

struct event {
	enum event_kind kind;
	bool json;                /* the body is one JSON text (always, but in binary mode) */
	struct span source;       /* the name of the way in */
	struct event_text id;     /* at most DIGEST_PART_MAX bytes of value */
	struct event_text type;   /* what kind of thing happened, if it says so */
	struct event_text origin; /* the source that the event itself names */
};

/* The text's value, as UTF-8: `raw` itself where it is plain, else decoded into
 * `bytes`. ERR_TOO_LARGE: more than `room`; ERR_INVALID: broken percent-encoding,
 * quotes or UTF-8 in a header. */
int event_text_value(struct event_text text, char *bytes, size_t room,
                     struct span *ret_value) must_check;
