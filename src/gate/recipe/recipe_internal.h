/*
 * recipe_internal: a compiled recipe and the state of a run. For recipe*.c alone.
 *
 * Everything is referred to by number, 0 is none: parts (what a text names), tests
 * (a part and a pattern; equal ones are one, so that a run judges them once),
 * cases, claims. A recipe and all of it live in one arena.
 */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "gate/digest.h"
#include "gate/pattern.h"
#include "gate/recipe/recipe.h"

#define RECIPE_PARTS_MAX 512
#define RECIPE_TESTS_MAX 192 /* a multiple of 64 */
#define RECIPE_HEADERS_MAX 32
#define RECIPE_HEADER_NAME_MAX 63
#define RECIPE_LISTS_MAX 4 /* [*] in one path */

enum recipe_part_kind {
	PART_NONE = 0,
	PART_JSON,
	PART_LIST,
	PART_BODY,
	PART_HEADER,
	PART_QUERY,
	PART_PATH,
	PART_FORM,
	PART_CONST
};

/* The rest of a path after a [*]. */
struct recipe_list {
	struct json_plan plan; /* of one element */
	uint8_t node;          /* of its value; 0: the element itself */
	struct recipe_list *inner;
};

struct recipe_part {
	enum recipe_part_kind kind;
	bool optional;
	bool of_body;
	uint8_t node;             /* JSON, LIST */
	uint8_t header;           /* HEADER: its place */
	enum event_coding coding; /* HEADER */
	uint32_t segment;         /* PATH */
	struct span text;         /* as written */
	struct span name;         /* HEADER, QUERY, FORM, CONST */
	struct recipe_list *list;
};

struct recipe_test {
	uint16_t part;
	bool negate;
	bool any;    /* it is enough that the part is there */
	bool nocase; /* media types; the pattern is in lower case */
	struct pattern pattern;
	struct span text; /* the pattern as it was written */
};

struct recipe_claim {
	struct span name; /* for people; nearly that of the digest */
	enum claim_kind kind;
	uint32_t window_s;
	enum recipe_missing missing;
	bool shadow;
	bool equal_drops;
	bool of_body; /* some part is */
	uint8_t test_count;
	uint8_t part_count;
	uint8_t rank_count;
	uint16_t tests[RECIPE_SPEC_CONDITIONS_MAX];
	uint16_t parts[RECIPE_SPEC_PARTS_MAX];
	uint16_t time;
	uint16_t rank;
	struct span ranks[RECIPE_SPEC_RANKS_MAX];
	struct json_plan *except;
	struct digest_scope scope;
};

/* Fields of an event, in the order of recipe_case.fields. */
enum recipe_field {
	FIELD_ID = 0,
	FIELD_TYPE,
	FIELD_ENTITY,
	FIELD_TIME,
	FIELD_CORRELATION,
	FIELD_ORIGIN,
	FIELD_REPLAY,
	FIELD_CONTENT,
	FIELD_INNER,
	FIELD_ITEMS
};
#define FIELD_COUNT 10

/* What must be there for a case to hold, if nothing else: of all cases side by side, so
 * that most of them are excluded without a test. */
struct recipe_needs {
	struct json_set nodes;
	uint32_t headers; /* bits */
};

struct recipe_case {
	const char *name;
	bool body_tests; /* some condition is about the body */
	bool whole;      /* known by headers alone: never a batch */
	uint8_t test_count;
	uint8_t claim_count;
	uint16_t tests[RECIPE_SPEC_CONDITIONS_MAX];
	uint16_t fields[FIELD_COUNT];
	struct recipe_claim *claims;
};

/* Wanted headers; a name's place is its bit. */
struct recipe_headers {
	uint32_t count;
	struct span names[RECIPE_HEADERS_MAX];
};

#define HEADER_CONTENT_TYPE 0

struct recipe {
	struct arena arena;
	struct json_plan plan;
	struct recipe_headers headers;
	uint32_t part_count;
	uint32_t test_count;
	uint32_t case_count;
	struct recipe_part *parts;
	struct recipe_test *tests;
	struct recipe_case *cases;
	struct recipe_needs *needs; /* of each case */
	struct span source;
	struct span scope;
	uint32_t window_s;
	uint32_t window_max_s;
	enum recipe_batch batch;
	bool replay_passes;
	bool compare_values;
	struct hash_secret content_secret;
	unsigned char key[DIGEST_KEY_LEN];
};

enum recipe_body { BODY_UNREAD = 0, BODY_JSON, BODY_OTHER };

/* One event on its way through a recipe. */
struct recipe_run {
	const struct recipe *recipe;
	struct recipe_scratch *scratch;
	struct recipe_input input;
	uint32_t level; /* how many events this one is inside of */
	bool in_batch;
	uint32_t place; /* in the batch */
	enum recipe_body body;
	bool headers_read;
	uint32_t headers_there; /* bits, not empty */
	uint32_t headers_repeated;
	struct span headers[RECIPE_HEADERS_MAX];
	uint64_t judged[RECIPE_TESTS_MAX / 64]; /* tests that were made … */
	uint64_t held[RECIPE_TESTS_MAX / 64];   /* … and hold */
	struct json_doc doc;
	struct digest_input digest; /* of the claim that is being computed */
};

/* What a part has in this event. */
struct recipe_value {
	enum digest_part type;
	bool repeated; /* a header or parameter that is there more than once */
	struct event_text text;
};

/* The result of a claim, if it is no error. */
enum recipe_claim_fate {
	CLAIM_TAKEN = 0,
	CLAIM_SKIPPED,   /* a part is missing */
	CLAIM_NOT_MEANT, /* its conditions do not hold */
};

/* A level's run, made at its first use; NULL: no memory. */
struct recipe_run *recipe_run_at(struct recipe_scratch *scratch, uint32_t level);
void recipe_run_begin(struct recipe_run *run, const struct recipe *recipe,
                      struct recipe_scratch *scratch, const struct recipe_input *input);
/* The same request, another body; BODY_JSON: run->doc has it already. */
void recipe_run_next(struct recipe_run *run, struct span bytes, enum recipe_body body);

/* Body and headers become known at the first question about them. */
void recipe_read_body(struct recipe_run *run);
void recipe_read_headers(struct recipe_run *run);
struct recipe_value recipe_part_value(struct recipe_run *run, uint16_t part);
bool recipe_value_is_there(const struct recipe_value *value);

static inline bool recipe_value_is_scalar(const struct recipe_value *value)
{
	return value->type == DIGEST_STRING || value->type == DIGEST_NUMBER ||
	       value->type == DIGEST_LITERAL;
}

bool recipe_test_holds(struct recipe_run *run, uint16_t test);
bool recipe_case_holds(struct recipe_run *run, const struct recipe_case *it);
const struct recipe_case *recipe_find_case(struct recipe_run *run);

/* Applies the case to the event: 0, or an error and a text for the sender. */
int recipe_run_case(struct recipe_run *run, const struct recipe_case *it,
                    struct recipe_result *ret_result, struct error_text *ret_problem) must_check;
/* enum recipe_claim_fate, or an error; ret_problem also says why one is skipped. The
 * digest has no check of the content yet. */
int recipe_run_claim(struct recipe_run *run, const struct recipe_claim *claim,
                     struct claim *ret_claim, struct error_text *ret_problem) must_check;
int recipe_refuse_repeated(const struct recipe_part *part, struct error_text *ret_problem);
int recipe_refuse_body(const struct recipe_run *run, struct error_text *ret_problem);
/* The event inside a string of this one, and what is claimed for it: its run, and 0
 * with ret_result. ERR_INVALID or ERR_TOO_LARGE: there is none that the recipe knows,
 * so the event is the one around it. -ENOMEM: unknown. */
int recipe_run_inner(struct recipe_run *run, const struct recipe_case *it,
                     struct recipe_run **ret_inner, struct recipe_result *ret_result) must_check;
int recipe_refuse(struct recipe_run *run, struct error_text *ret_problem);

/* "the member detail.id", for messages; cut to fit. */
#define RECIPE_PART_NAME_MAX 160
void recipe_part_name(const struct recipe_part *part, char ret_name[static RECIPE_PART_NAME_MAX]);
const char *recipe_value_name(const struct recipe_value *value); /* "a string", "nothing" */
