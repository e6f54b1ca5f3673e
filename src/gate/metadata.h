/*
 * metadata: the metadata of an event that goes with its bytes to a sink. Stored formats
 * and the tables of PostgreSQL call it the letter: those names stay.
 *
 * The door writes it once, when the event is admitted; the store keeps it unread;
 * sinks, listings and replays read it. Texts are decoded values, not the bytes of the
 * request.
 *
 * Form: for each text that is there, its field (1 byte), its length (2 bytes,
 * little-endian), its bytes; fields in rising order. A reader skips the fields
 * that it does not know.
 *
 * Room:      gate. Threads: values.
 * Ownership: metadata owns nothing; metadata_read()'s texts point into its bytes.
 * Failure:   ERR_DAMAGED: malformed.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/span.h"

#define METADATA_BYTES_MAX 4096u
#define METADATA_TEXT_MAX 512u /* longer texts are cut on a character */

enum metadata_field {
	METADATA_ID = 0,       /* as the sender knows it */
	METADATA_TYPE,         /* what kind of thing happened */
	METADATA_ENTITY,       /* to whom or what */
	METADATA_TIME,         /* when, as the sender wrote it */
	METADATA_CONTENT_TYPE, /* of the payload; none: application/json */
	METADATA_TRACEPARENT,  /* the W3C header that came with it */
	METADATA_TRACESTATE,
	METADATA_CORRELATION, /* the sender's own trace id */
	METADATA_REPLAY_OF,   /* text of the ticket that it repeats */
	METADATA_FIELD_COUNT,
};

struct metadata {
	struct span texts[METADATA_FIELD_COUNT]; /* empty: not there */
};

void metadata_write(const struct metadata *metadata, struct buf *out);
int metadata_read(struct span bytes, struct metadata *ret_metadata) must_check;

/* Reads a name of a field as people write it: "type", "entity", "content-type"; -1
 * if there is none. */
int metadata_field_parse(struct span name);
const char *metadata_field_name(enum metadata_field field);
