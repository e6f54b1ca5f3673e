/*
 * filter_envelope: an event with the headers that it came with, as JSON:
 *
 *   {"headers": {"X-GitHub-Delivery": "72d3162e-…"}, "body": {…}}
 *
 * `body` is the event, or a string that holds its text. `headers` may be missing, and
 * values in it that are not strings are as if they were; other members do not count.
 *
 * Room:      cli. Threads: one owner.
 * Ownership: filter_envelope_free() takes its memory. An input lives until the next
 *            is opened, and as long as the text.
 * Failure:   ERR_INVALID and a text on the event; -ENOMEM.
 */
#pragma once

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "codec/json.h"
#include "gate/recipe/recipe.h"

struct filter_envelope {
	struct json_plan plan;
	uint8_t headers_node, body_node;
	struct http1_header headers[HTTP1_HEADERS_MAX];
	struct buf memory; /* what had to be decoded */
};

void filter_envelope_init(struct filter_envelope *ret_envelope);
void filter_envelope_free(struct filter_envelope *envelope);

int filter_envelope_open(struct filter_envelope *envelope, struct span text,
                         struct recipe_input *ret_input, struct error_text *ret_problem) must_check;
