/*
 * json_plan: places in a JSON text, written as paths and compiled to a trie that
 * the scanner walks.
 *
 *   detail.eventBody.id      a member of a member of a member
 *   items[0].id              an element, from 0
 *   items[*].id              all elements (only where the caller says so)
 *   detail["odd.name"]       a name with dots, brackets, blanks; with JSON's escapes
 *   [0].id, ["a"].b          a path may begin with either
 *
 * Each path has one node; json_doc (json.h) has the value of each node by its
 * number. Names are found by a multiplicative hash of their length, first and last
 * byte; json_plan_seal() looks for a factor without collisions, so that most names
 * which are not wanted cost one multiplication and one load.
 *
 * Room:      codec. Threads: read only after json_plan_seal().
 * Ownership: a plan is plain memory, it copies the names.
 * Failure:   ERR_INVALID, ERR_TOO_LARGE and a problem: where and what was expected.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define JSON_NAME_MAX 63 /* bytes of a name in a path */
#define JSON_STEPS_MAX 16
#define JSON_NODES_MAX 128
#define JSON_TABLES_MAX 32 /* nodes that have members */
#define JSON_TABLE_BITS 7

struct json_problem {
	size_t offset;        /* bytes before the place */
	const char *expected; /* static: what should have been there */
	bool repeated;        /* a name on a wanted path came twice; the rest may be sound */
};

enum json_step_kind { JSON_STEP_NAME = 0, JSON_STEP_INDEX, JSON_STEP_EACH };

struct json_step {
	enum json_step_kind kind;
	uint32_t index;
	uint32_t len;
	char name[JSON_NAME_MAX];
};

struct json_path {
	uint32_t count;
	struct json_step steps[JSON_STEPS_MAX];
};

struct json_node {
	uint64_t head; /* the first and last eight bytes of its name, see json_name_key() */
	uint64_t tail;
	uint8_t len;      /* of its name */
	uint8_t next;     /* the next node with the same hash, or 0 */
	uint8_t members;  /* 1 + table of its members' names, or 0 */
	uint8_t elements; /* its first child by index, or 0 … */
	uint8_t sibling;  /* … and the next of those */
	bool wanted;      /* its value is kept */
	uint8_t parent;
	uint32_t index;
	char name[JSON_NAME_MAX];
};

struct json_table {
	uint32_t factor;
	uint8_t slots[1 << JSON_TABLE_BITS]; /* nodes, or 0 */
};

/* Node 0 is none, node 1 the text's own value. */
struct json_plan {
	uint32_t node_count;
	uint32_t table_count;
	struct json_node nodes[JSON_NODES_MAX];
	struct json_table tables[JSON_TABLES_MAX];
};

#define JSON_ROOT 1
#define JSON_EACH UINT32_MAX

int json_path_parse(struct span text, struct json_path *ret_path,
                    struct json_problem *ret_problem) must_check;

void json_plan_init(struct json_plan *ret_plan);

/* The node of a path; the same path gives the same node. A step [*] is an element
 * with the index JSON_EACH: the scanner never meets it, other walkers may. */
int json_plan_add(struct json_plan *plan, const struct json_path *path,
                  uint8_t *ret_node) must_check;

/* Once, after the last path. */
void json_plan_seal(struct json_plan *plan);

struct json_name_key {
	uint64_t head;
	uint64_t tail;
};

static inline uint64_t json_load64(const char *p)
{
	uint64_t word;
	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

/* Masks of the first 0 … 8 bytes of a word. */
static const uint64_t json_name_masks[9] = { 0,
	                                     UINT64_C(0xFF),
	                                     UINT64_C(0xFFFF),
	                                     UINT64_C(0xFFFFFF),
	                                     UINT64_C(0xFFFFFFFF),
	                                     UINT64_C(0xFFFFFFFFFF),
	                                     UINT64_C(0xFFFFFFFFFFFF),
	                                     UINT64_C(0xFFFFFFFFFFFFFF),
	                                     UINT64_MAX };

static inline struct json_name_key json_name_key_slow(const char *p, size_t len)
{
	char bytes[8] = { 0 };
	memcpy(bytes, p, len < 8 ? len : 8);
	uint64_t head = json_load64(bytes);
	return (struct json_name_key){ head, len > 8 ? json_load64(p + len - 8) : head };
}

/* For a name of `len` bytes at p; bytes up to `end` may be read. The lengths of names cannot be
 * predicted: so there is no branch on them. */
static inline struct json_name_key json_name_key(const char *p, size_t len, const char *end)
{
	if (unlikely(end - p < 8))
		return json_name_key_slow(p, len);
	uint64_t mask = json_name_masks[len < 8 ? len : 8];
	size_t behind = len > 8 ? len - 8 : 0;
	return (struct json_name_key){ json_load64(p) & mask, json_load64(p + behind) & mask };
}

/* By length, first and last byte; the byte before an empty name must be readable. */
static inline uint32_t json_name_slot(const struct json_table *table, const char *p, size_t len)
{
	uint32_t ends = (uint32_t)(unsigned char)p[0] | (uint32_t)(unsigned char)(p + len)[-1] << 8;
	uint32_t mixed = (ends | (uint32_t)len << 16) * table->factor;
	return mixed >> (32 - JSON_TABLE_BITS);
}

static inline bool json_node_is(const struct json_node *node, const char *p, size_t len,
                                const char *end)
{
	if (node->len != len)
		return false;
	struct json_name_key key = json_name_key(p, len, end);
	uint64_t differs = (node->head ^ key.head) | (node->tail ^ key.tail);
	return differs == 0 && (len <= 16 || memcmp(node->name, p, len) == 0);
}

/* The node with this name, or 0; bytes up to `end` and one before p may be read. */
static inline uint32_t json_plan_find(const struct json_plan *plan, const struct json_table *table,
                                      const char *p, size_t len, const char *end)
{
	uint32_t i = table->slots[json_name_slot(table, p, len)];
	while (i && !json_node_is(&plan->nodes[i], p, len, end))
		i = plan->nodes[i].next;
	return i;
}

/* The child for an element, or 0. */
static inline uint32_t json_plan_element(const struct json_plan *plan, uint32_t parent,
                                         uint32_t index)
{
	uint32_t i = plan->nodes[parent].elements;
	while (i && plan->nodes[i].index != index)
		i = plan->nodes[i].sibling;
	return i;
}
