/*
 * recipe_spec: a recipe as people write it, before it is compiled.
 *
 * Configuration, presets and the command line all end here; recipe_compile()
 * alone gives it meaning. Everything is text in one notation, so that a preset
 * is a table one can read and `stile explain` can show it again.
 *
 * A part names one value of an event:
 *
 *   customerId                    a member of the body
 *   detail.eventBody.id           a member of a member
 *   items[0].id, items[*].id      an element; all elements, in their order
 *   detail["odd.name"]            a name with dots, brackets or blanks
 *   header:X-Request-Id           a header, by name without case
 *   query:page                    a parameter of the query, decoded
 *   path:2                        a segment of the request's path, from 1, decoded
 *   form:MessageSid               a parameter of a form body, decoded
 *   const:sms                     the text itself
 *   body                          the whole body
 *   detail.wrapupCode?            may be missing, which is a value like another
 *
 * The value of a ce- header is decoded as CloudEvents wants it (quotes, percents).
 * A member whose name is a word with a colon is written ["header:x"], and one
 * named body or with a question mark at its end likewise: ["body"].
 *
 * A case is a set of rules for events of one kind. Cases are tried in order;
 * the first whose conditions all hold is used. An event for which none holds is
 * refused with a text that says what was looked for.
 *
 * Room:      gate. Threads: values.
 * Ownership: all spans belong to the creator of the spec (static for presets);
 *            recipe_compile() copies what it keeps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "gate/claim.h"

#define RECIPE_SPEC_PARTS_MAX 8      /* of one claim */
#define RECIPE_SPEC_CONDITIONS_MAX 4 /* of one case or claim */
#define RECIPE_SPEC_RANKS_MAX 16

/* What to do when a part of a claim is not there (or null where a key is needed). */
enum recipe_missing {
	RECIPE_MISSING_REJECT = 0, /* 400 that names the part */
	RECIPE_MISSING_SKIP,       /* the event is accepted without this claim */
	RECIPE_MISSING_DIGEST,     /* a digest of the body stands in for the claim's parts */
};

/* `part` (or the words type, id, entity: as the case reads them) has a value
 * that matches. The pattern is text with `*` for any run of characters. An
 * empty pattern: the part is there, neither null nor an empty string; negated:
 * it is not. A part that is not there matches no pattern, so a negated pattern
 * holds for it. Containers match no pattern but the empty one. */
struct recipe_condition {
	struct span part;
	struct span pattern;
	bool negate; /* written as "!pattern" */
};

struct recipe_claim_spec {
	/* Part of the digest. Empty: the claim's own text, so that a claim keeps
	 * its memory when others are put before it. */
	struct span name;
	enum claim_kind kind;
	uint32_t window_s; /* 0: that of the recipe */
	enum recipe_missing missing;
	bool shadow;              /* count what it would drop, drop nothing */
	uint32_t condition_count; /* the claim holds only where all of these do */
	struct recipe_condition conditions[RECIPE_SPEC_CONDITIONS_MAX];

	/* once: the key. content: the chosen parts; none: the canonical body. */
	uint32_t part_count;
	struct span parts[RECIPE_SPEC_PARTS_MAX];
	/* content: members that are left out of the canonical body (or of `parts`,
	 * when those are objects). */
	uint32_t except_count;
	struct span except[RECIPE_SPEC_PARTS_MAX];

	/* newest: `parts` is the entity. */
	struct span time; /* ISO 8601 text or a number of s, ms (by its size) */
	bool equal_drops; /* an equal time is stale; else it passes */
	struct span rank; /* breaks ties of equal time: this part … */
	uint32_t rank_count;
	struct span ranks[RECIPE_SPEC_RANKS_MAX]; /* … by its place in this list, low first */
};

struct recipe_case_spec {
	const char *name; /* for people: "genesys audit"; static or owned as the rest */
	uint32_t condition_count;
	struct recipe_condition conditions[RECIPE_SPEC_CONDITIONS_MAX];
	/* What the event is, as parts; empty: unknown. */
	struct span id, type, entity, time, correlation, origin;
	struct span replay; /* present: the event is a requested replay */
	/* What must not change under one key (`conflict`); empty or missing: the body. */
	struct span content;
	/* A string that may hold an event itself, as JSON: if the recipe recognises
	 * that one, it is the event, else this case's own claims hold. */
	struct span inner;
	/* The body is a batch: an array of events. Such a case has no claims. */
	struct span items;
	uint32_t claim_count; /* 1 … CLAIMS_MAX; 0 with `items` */
	struct recipe_claim_spec claims[CLAIMS_MAX];
};

/* How one request becomes several events. */
enum recipe_batch {
	RECIPE_BATCH_AUTO = 0, /* by content type and shape: NDJSON, JSON array, Records, … */
	RECIPE_BATCH_NEVER,    /* one request is one event */
};

struct recipe_spec {
	struct span source; /* name of the way in, 1 … DIGEST_SOURCE_MAX bytes */
	struct span scope;  /* part of the digests; empty: the source's name */
	uint32_t window_s;  /* at least 1 */
	enum recipe_batch batch;
	bool shadow;         /* all claims */
	bool replay_passes;  /* on_replay: pass (no claims are taken); else gate */
	bool compare_values; /* content is compared by its JSON value; else as written */
	uint32_t case_count;
	const struct recipe_case_spec *cases;
};
