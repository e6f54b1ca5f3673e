/*
 * recipe: how claims are computed from an event.
 *
 * A recipe is compiled once and then run for each event, in one pass over the
 * raw bytes. It is a list of shapes, tried in order, and a list of rules. A
 * shape is recognised by the members that are there, and names the rules that
 * hold for it; each rule gives one claim over its parts.
 *
 * The recipe `auto` knows, in this order:
 *
 *   shape                recognised by                               claim over
 *   CloudEvents, binary  header ce-specversion                       ce-source, ce-id
 *   EventBridge          strings id, source, detail-type and         source, id
 *                        object detail
 *   CloudEvents          strings specversion, source, id             source, id
 *   plain                string id                                   id
 *
 * A Content-Type of application/cloudevents… says that the event is in the body,
 * whatever the headers say. In binary mode the body may be anything; in all other
 * shapes it must be a JSON object. An empty string counts as missing.
 *
 * Room:      gate. Threads: a recipe is read only after its init; any thread may
 *            run it. No allocation, no I/O.
 * Ownership: the caller's struct; nothing to free. Events point into it.
 * Failure:   ERR_INVALID or ERR_TOO_LARGE, and a text for the sender that says
 *            what was expected.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "gate/claim.h"
#include "gate/digest.h"
#include "gate/event.h"

#define RECIPE_SHAPES_MAX 8
#define RECIPE_RULES_MAX 8
#define RECIPE_PARTS_MAX 4

/* Slots are those of recipe->wanted; masks have one bit a slot. */
struct recipe_shape {
	enum event_kind kind;
	bool headers;     /* its members are ce- headers, not members of the body */
	uint32_t strings; /* must be strings, not empty */
	uint32_t objects; /* must be objects */
	int8_t id;        /* slots of what the event carries, or -1 */
	int8_t type;
	int8_t origin;
	uint8_t rules; /* mask of the rules that hold: 1 … CLAIMS_MAX of them */
};

struct recipe_rule {
	struct digest_scope scope;
	uint32_t window_s;
	uint8_t part_count;
	uint8_t parts[RECIPE_PARTS_MAX]; /* slots */
};

struct recipe_auto {
	struct json_wanted wanted;
	uint32_t shape_count;
	uint32_t rule_count;
	struct recipe_shape shapes[RECIPE_SHAPES_MAX];
	struct recipe_rule rules[RECIPE_RULES_MAX];
	unsigned char key[DIGEST_KEY_LEN];
	uint32_t source_len;
	char source[DIGEST_SOURCE_MAX];
};

struct recipe_auto_options {
	struct span source;                /* 1 … DIGEST_SOURCE_MAX bytes; copied */
	uint32_t window_s;                 /* at least 1 */
	unsigned char key[DIGEST_KEY_LEN]; /* the secret of the data folder */
};

/* Bytes that arrived. Doors without HTTP fill headers likewise, or give none. */
struct recipe_auto_input {
	struct span body;
	const struct http1_header *headers;
	uint32_t header_count;
};

int recipe_init_auto(struct recipe_auto *ret_recipe, const struct recipe_auto_options *options,
                     struct error_text *ret_text) must_check;

/* Writes the event, 1 … CLAIMS_MAX claims and their count; on failure only
 * ret_problem (may be NULL). */
int recipe_auto_run(const struct recipe_auto *recipe, const struct recipe_auto_input *input,
                    struct event *ret_event, struct claim ret_claims[static CLAIMS_MAX],
                    uint32_t *ret_claim_count, struct error_text *ret_problem) must_check;
