/*
 * split: where one event ends and the next begins, in bytes that come in pieces; and
 * what is inside an envelope. Whether an event is JSON is for the recipe to say.
 *
 * Two forms, told apart by the first bytes:
 *
 *   lines   NDJSON: one event per line; blank lines do not count. The last line may
 *           lack its line break.
 *   texts   JSON texts one after another: the elements of an array are events, and
 *           so is every object that stands alone, over any number of lines.
 *           Arrays may follow each other (cat a.json b.json).
 *
 * A first byte [ means texts; an object that is not closed on the first line means
 * texts too, unless the second line begins with another; all else is lines. A byte
 * order mark at the start is skipped.
 *
 * An event of more than the limit is skipped, in either form. In lines a broken
 * event affects its line alone; in texts nobody can know where the next event begins,
 * and the split ends.
 *
 * Room:      cli. Threads: one owner. Pure.
 * Ownership: a split has no memory of its own; filter_envelope_free() takes that of an
 *            envelope. An input of filter_envelope_open() is valid until the next call,
 *            and as long as the text.
 * Failure:   of an envelope: ERR_INVALID and a text; -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "codec/json.h"
#include "gate/recipe/recipe.h"

#define FILTER_EVENT_MAX (4u << 20)

enum filter_form { FILTER_UNKNOWN = 0, FILTER_LINES, FILTER_TEXTS };

enum filter_step {
	FILTER_END = 0,  /* all is read */
	FILTER_MORE,     /* what is left is the beginning of something */
	FILTER_EVENT,    /* ret_piece */
	FILTER_TOO_LONG, /* ret_piece: its line and first bytes; the rest is skipped */
	FILTER_BROKEN,   /* ret_piece: the line; nothing comes after */
};

struct filter_piece {
	struct span event;    /* without blanks around it */
	struct span whole;    /* as it came: in lines the line with its break */
	uint64_t line;        /* where it begins, from 1 */
	const char *expected; /* BROKEN: what should have been there */
};

/* Zeroed except for event_max is ready. */
struct filter_split {
	size_t event_max;
	enum filter_form form;
	/* the split's own */
	uint64_t lines; /* that are used */
	size_t at;      /* bytes of the unfinished event that were looked at */
	uint32_t depth;
	uint8_t place; /* of texts */
	bool in_string;
	bool escaped;
	bool skipping; /* the rest of an event that is too long */
	bool marked;   /* the start was looked at for a byte order mark */
};

/*
 * The next event of `input`, which is moved on to what is not used yet; the caller
 * keeps those bytes, and puts more behind them after FILTER_MORE. `last`: no more
 * bytes will come.
 */
enum filter_step filter_split_next(struct filter_split *split, struct span *input, bool last,
                                   struct filter_piece *ret_piece) must_check;

/*
 * An event with the headers that it came with:
 *
 *   {"headers": {"X-GitHub-Delivery": "72d3162e-…"}, "body": {…}}
 *
 * `body` is the event, or a string that holds its text. `headers` may be missing. Headers
 * whose value is no string, or empty, and other members are ignored.
 */
struct filter_envelope {
	struct json_plan plan;
	uint8_t headers_node, body_node;
	struct http1_header headers[HTTP1_HEADERS_MAX];
	struct buf memory; /* decoded strings */
};

void filter_envelope_init(struct filter_envelope *ret_envelope);
void filter_envelope_free(struct filter_envelope *envelope);
int filter_envelope_open(struct filter_envelope *envelope, struct span text,
                         struct recipe_input *ret_input, struct error_text *ret_problem) must_check;
