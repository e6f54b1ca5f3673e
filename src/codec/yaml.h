/*
 * yaml: a document as a tree, each node with the place where it was written.
 *
 * What libyaml reads (YAML 1.1), less what a configuration does not need and an attacker could
 * use: no anchors and aliases, no tags, one document, names are
 * texts. All scalars are texts; what they mean is up to the reader.
 *
 * One thing more than YAML: ${NAME} and ${NAME:-text} may stand without quotes
 * also between braces and brackets, as in { secret: ${KEY} }.
 *
 * Limits: see the defines; beyond them the document is refused.
 *
 * Room:      codec, the only includer of libyaml. Threads: pure.
 * Ownership: a yaml_doc owns its nodes and their texts, and wipes them when it
 *            is freed.
 * Failure:   ERR_INVALID and a problem with line and column; -ENOMEM.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

#define YAML_SIZE_MAX (1u << 20)
#define YAML_DEPTH_MAX 32u
#define YAML_NODES_MAX 20000u
#define YAML_MEMBERS_MAX 1000u /* of one map */

enum yaml_kind { YAML_TEXT, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_kind kind;
	bool quoted;                    /* a text that was not written plainly */
	uint32_t line, column;          /* from 1, in characters */
	struct span text;               /* of a text, with a NUL behind it and none in it */
	struct yaml_node *name;         /* of a member of a map */
	struct yaml_node *first, *last; /* of a list or map, in their order */
	struct yaml_node *next;
	uint32_t count;
};

struct yaml_problem {
	uint32_t line, column;
	struct error_text text;
};

struct yaml_doc;

int yaml_doc_parse(struct span text, struct yaml_doc **ret_doc,
                   struct yaml_problem *ret_problem) must_check;
struct yaml_doc *yaml_doc_free(struct yaml_doc *doc); /* accepts NULL, returns NULL */

/* NULL: the document is empty. */
const struct yaml_node *yaml_doc_root(const struct yaml_doc *doc);

/* The first member of a map with this name, or NULL; also for other nodes. */
const struct yaml_node *yaml_map_find(const struct yaml_node *map, struct span name);
