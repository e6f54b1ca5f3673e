/*
 * letter: what goes with an event's bytes to a sink, as the journal keeps it.
 *
 * The door writes it once, when the event is admitted; the store keeps it without
 * a look; sinks, listings and replays read it. Texts are values (decoded), not
 * what stood in the request.
 *
 * Form: for each text that is there, its field (1 byte), its length (2 bytes,
 * little-endian), its bytes; fields in rising order. A reader skips the fields
 * that it does not know.
 *
 * Room:      gate. Threads: values.
 * Ownership: a letter owns nothing; letter_read()'s texts point into its bytes.
 * Failure:   ERR_DAMAGED: not such a form.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

#define LETTER_BYTES_MAX 4096u
#define LETTER_TEXT_MAX 512u /* longer texts are cut on a character */

enum letter_field {
	LETTER_ID = 0,       /* as the sender knows it */
	LETTER_TYPE,         /* what kind of thing happened */
	LETTER_ENTITY,       /* to whom or what */
	LETTER_TIME,         /* when, as the sender wrote it */
	LETTER_CONTENT_TYPE, /* of the payload; none: application/json */
	LETTER_TRACEPARENT,  /* the W3C header that came with it */
	LETTER_TRACESTATE,
	LETTER_CORRELATION, /* the sender's own trace id */
	LETTER_REPLAY_OF,   /* text of the ticket that it repeats */
	LETTER_FIELD_COUNT,
};

struct letter {
	struct span texts[LETTER_FIELD_COUNT]; /* empty: not there */
};

void letter_write(const struct letter *letter, struct buf *out);
int letter_read(struct span bytes, struct letter *ret_letter) must_check;

/* Reads a name of a field as people write it: "type", "entity", "content-type"; -1
 * if there is none. */
int letter_field_parse(struct span name);
const char *letter_field_name(enum letter_field field);
