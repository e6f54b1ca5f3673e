/*
 * recipe: how claims are computed from an event.
 *
 * A recipe is compiled once from its text (recipe_spec.h) and then run for each
 * event, in one pass over the raw bytes. Cases are tried in order; the first
 * whose conditions hold defines what the event is and which claims it takes.
 *
 * Which events are the same
 *   - Parts are compared by type and value: the number 1 is not the string "1",
 *     null is not missing, "\u0041" is "A". Numbers are compared by their exact
 *     decimal value: 1, 1.0 and 10e-1 are the same, 9007199254740993 is not
 *     9007199254740992. Objects and arrays are compared by their canonical form
 *     (codec/jcs.h), so the order of members and blanks do not count.
 *   - An empty string and null count as missing where a key is needed; for a part
 *     that may be missing ("name?") they are values of their own.
 *   - A list ("items[*].id") is its values in their order; an element without the
 *     value, or no element at all, makes the part missing.
 *   - A name that occurs twice on a path that the recipe uses is refused, and so
 *     is a header or parameter that the event's case uses.
 *   - In a batch, a claim none of whose parts is of the body has the item's place
 *     as one more part: else all items but the first would be duplicates.
 *
 * The content of an event, for `conflict`, is a keyed 64-bit digest of what the
 * case calls its content (without: the body), as written but for blanks between
 * tokens: retries are the same bytes, and a canonical form would cost more than
 * all else. A recipe that compares values pays that: its digest is one of the
 * canonical form, or of the text where there is none (a name that comes twice). It is XXH3 with a secret: good enough to tell whether a sender changed
 * what it sends under one key; claims rest on SipHash alone.
 *
 * Room:      gate. Threads: a recipe is read only; any thread may run it, with a
 *            scratch of its own. No I/O. No allocation once a scratch has grown.
 * Ownership: recipe_compile() gives it, recipe_free() takes it. Events point into
 *            the recipe, the input and (where an event was a string inside another)
 *            the scratch, whose bytes stay until its next run.
 * Failure:   ERR_INVALID or ERR_TOO_LARGE and a text for the sender that says what
 *            was expected; -ENOMEM.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "gate/claim.h"
#include "gate/digest.h"
#include "gate/event.h"
#include "gate/recipe/recipe_spec.h"

#define RECIPE_ITEMS_MAX 1000          /* of one request, by default */
#define RECIPE_SCRATCH_MAX (32u << 20) /* bytes of each part of a scratch */
#define RECIPE_INNER_MAX 3             /* events inside strings of events */

struct recipe;

/* What is wrong with a recipe's text. Indexes are -1 where they do not apply. */
struct recipe_problem {
	int case_index;
	int claim_index;
	const char *field; /* which text: "part", "condition", "except", "time", "id", … */
	int index;         /* which of several: parts, conditions, except, ranks */
	uint32_t column;   /* within that text, from 0 */
	struct error_text text;
};

/* `key` is the secret of the data folder. ERR_CONFIG with ret_problem, -ENOMEM. */
int recipe_compile(const struct recipe_spec *spec, const unsigned char key[static DIGEST_KEY_LEN],
                   struct recipe **ret_recipe, struct recipe_problem *ret_problem) must_check;
struct recipe *recipe_free(struct recipe *recipe); /* accepts NULL, returns NULL */

/* Memory that a thread's runs share. Zeroed is empty. */
struct recipe_scratch {
	struct buf canonical;
	struct buf sorting; /* an array of the canonical form's own */
	struct buf list;
	struct buf inner[RECIPE_INNER_MAX];
	struct recipe_run *runs[RECIPE_INNER_MAX + 1];
};

void recipe_scratch_free(struct recipe_scratch *scratch);

/* Bytes that arrived. Doors without HTTP give what they have. */
struct recipe_input {
	struct span body;
	const struct http1_header *headers;
	uint32_t header_count;
	struct span path;  /* of the request, without the query */
	struct span query; /* after the ?, as sent */
};

struct recipe_result {
	struct span payload; /* what is delivered, byte for byte: the body or an item of it */
	struct event event;
	uint32_t claim_count; /* 0 only for a replay that passes */
	struct claim claims[CLAIMS_MAX];
};

/* One event, whatever the body looks like. On failure ret_result means nothing;
 * ret_problem may be NULL. */
int recipe_run(const struct recipe *recipe, struct recipe_scratch *scratch,
               const struct recipe_input *input, struct recipe_result *ret_result,
               struct error_text *ret_problem) must_check;

/*
 * The events of one request: NDJSON lines, elements of a JSON array or of the
 * array that the case names (Records, entities), or the one that the body is.
 *
 *   recipe_items_begin(&items, recipe, scratch, input);
 *   while ((step = recipe_items_next(&items, &result, &problem)) != RECIPE_END)
 *           …
 *
 * Whether the rest of an array is sound is known at its end only: keep what was
 * found until RECIPE_END, and drop it all on RECIPE_BROKEN.
 */
enum recipe_step {
	RECIPE_END = 0, /* there are no more */
	RECIPE_EVENT,   /* ret_result */
	RECIPE_REFUSED, /* this item alone: ret_problem, items->error, ret_result->payload */
	RECIPE_BROKEN,  /* the whole request: ret_problem, items->error (-ENOMEM too);
			 * nothing comes after */
};

struct recipe_items {
	bool batch;         /* after the first step: the answer is a list */
	int error;          /* of REFUSED and BROKEN */
	uint32_t count;     /* steps that gave an item, so far */
	uint32_t items_max; /* more are BROKEN with ERR_TOO_LARGE; may be changed at first */
	/* the iterator's own */
	struct recipe_run *run; /* the scratch's; NULL: no memory */
	struct span lines;
	struct json_elements elements;
	int state;
};

void recipe_items_begin(struct recipe_items *ret_items, const struct recipe *recipe,
                        struct recipe_scratch *scratch, const struct recipe_input *input);
enum recipe_step recipe_items_next(struct recipe_items *items, struct recipe_result *ret_result,
                                   struct error_text *ret_problem) must_check;

/*
 * How a recipe sees one event, as a JSON object for people and programs: which
 * case, its fields, each claim with its parts (text, type, value), its digest or
 * why it is not taken, and for a refused event why each case did not hold.
 * Appends to `out`; what is wrong with the event is in the text, not an error.
 */
void recipe_explain(const struct recipe *recipe, struct recipe_scratch *scratch,
                    const struct recipe_input *input, struct buf *out);

/*
 * One of an event's claims in words: which rule, of which parts, with which values.
 * `index` is its place in recipe_result.claims; the event is `input`'s body alone
 * (of a batch: the item). False: there is no such claim, or no memory.
 */
struct recipe_words {
	struct span rule;
	struct span parts; /* "topicName, sessionId" */
	struct span key;   /* values, with TRACE_PART_END (gate/trace.h) between them */
};

bool recipe_words(const struct recipe *recipe, struct recipe_scratch *scratch,
                  const struct recipe_input *input, uint32_t index, struct buf *memory,
                  struct recipe_words *ret_words) must_check;

/*
 * For routes (gate/route.h), which take no claims: which of the recipe's cases hold, not only
 * the first. `cases` and ret_held have a bit for each
 * of the first 64. The scratch is this match's own until its next.
 * ERR_INVALID: a name that the recipe uses comes twice; -ENOMEM.
 */
int recipe_match(const struct recipe *recipe, struct recipe_scratch *scratch,
                 const struct recipe_input *input, uint64_t cases, uint64_t *ret_held,
                 struct error_text *ret_problem) must_check;
/* What the entity of a case is in the event that was matched last; EVENT_TEXT_NONE if it
 * is not there, or no single value. */
struct event_text recipe_match_entity(const struct recipe_scratch *scratch, uint32_t number);

/* The longest of all claims. */
uint32_t recipe_window_s(const struct recipe *recipe);
