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
 * number. Names are found by a multiplicative hash of their length and of their
 * first and last eight bytes; json_plan_seal() looks for a factor without
 * collisions, so that a lookup is one load and one comparison.
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
	uint64_t factor;
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

/* For a name of `len` bytes at p; bytes up to `end` may be read. */
static inline struct json_name_key json_name_key(const char *p, size_t len, const char *end)
{
	uint64_t word = 0;
	if (likely(len >= 8))
		return (struct json_name_key){ json_load64(p), json_load64(p + len - 8) };
	if (likely(end - p >= 8))
		word = len ? json_load64(p) << (64 - 8 * len) : 0;
	else
		for (size_t i = len; i > 0; i--)
			word = word >> 8 | (uint64_t)(unsigned char)p[len - i] << 56;
	return (struct json_name_key){ word, word };
}

static inline uint32_t json_name_slot(const struct json_table *table, struct json_name_key key,
                                      size_t len)
{
	uint64_t mixed = (key.head + (key.tail << 3) + len) * table->factor;
	return (uint32_t)(mixed >> (64 - JSON_TABLE_BITS));
}

/* The node with this name, or 0. */
static inline uint32_t json_plan_find(const struct json_plan *plan, const struct json_table *table,
                                      const char *p, size_t len, const char *end)
{
	struct json_name_key key = json_name_key(p, len, end);
	uint32_t i = table->slots[json_name_slot(table, key, len)];
	for (; i; i = plan->nodes[i].next) {
		const struct json_node *node = &plan->nodes[i];
		if (likely(node->head == key.head && node->tail == key.tail && node->len == len) &&
		    (len <= 16 || memcmp(node->name, p, len) == 0))
			return i;
	}
	return 0;
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
