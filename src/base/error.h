/*
 * error: one int, 0 or negative. -1 … -4095 is -errno, our own codes beyond.
 *
 * What an operator must read also fills a struct error_text; library code
 * fills it, the edge (serve/, cli/) prints it.
 *
 * Room: base. Threads: error_name() is pure; an error_text has one owner.
 */
#pragma once

#include <errno.h>

#include "base/check.h"

enum {
	ERR_DAMAGED = -5001,  /* stored bytes are not what was written */
	ERR_POISONED = -5002, /* a sync failed; only free is allowed */
	ERR_FULL = -5003,     /* no room now: try again later */
	ERR_BUSY = -5004,     /* someone else holds it */
	ERR_INVALID = -5005,  /* input does not follow its grammar */
	ERR_TOO_LARGE = -5006,
	ERR_VERSION = -5007, /* a format that this binary does not know */
	ERR_FENCED = -5008,  /* a late writer: the attempt is no longer its own */
	ERR_CLOSING = -5009, /* shutting down */
	ERR_CONFIG = -5010,  /* options make no sense together */
	ERR_AWAY = -5011,    /* the other side is unreachable: try again later */
	ERR_KIND = -5012,    /* not a regular file */
};

#define ERROR_TEXT_MAX 512

struct error_text {
	char text[ERROR_TEXT_MAX];
};

/* Short text for a code, in static or thread-local storage. */
const char *error_name(int error);

/* Writes the text (cut at ERROR_TEXT_MAX) and returns `error`. Accepts NULL. */
int error_fill(struct error_text *text, int error, const char *format, ...) printf_like(3, 4);
