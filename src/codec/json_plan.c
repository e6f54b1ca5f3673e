/* json_plan: see json_plan.h. */
#include "codec/json_plan.h"

#include "base/error.h"
#include "base/utf8.h"
#include "codec/json.h"

#define INDEX_MAX 1000000u
#define FACTORS_TRIED 4000

struct reader {
	const char *begin;
	struct span rest;
	struct json_problem *problem;
};

static int fail(const struct reader *reader, int error, const char *expected)
{
	size_t offset = reader->rest.ptr ? (size_t)(reader->rest.ptr - reader->begin) : 0;
	*reader->problem = (struct json_problem){ .offset = offset, .expected = expected };
	return error;
}

static int peek(const struct reader *reader)
{
	return reader->rest.len ? (unsigned char)reader->rest.ptr[0] : -1;
}

static bool eat(struct reader *reader, char c)
{
	if (peek(reader) != c)
		return false;
	reader->rest = span_skip(reader->rest, 1);
	return true;
}

static bool in_name(int c)
{
	return c > ' ' && c != 0x7F && c != '.' && c != '[' && c != ']' && c != '"' && c != '*';
}

static int read_name(struct reader *reader, struct json_step *step)
{
	size_t len = 0;
	while (len < reader->rest.len && in_name((unsigned char)reader->rest.ptr[len])) {
		size_t n = utf8_sequence(reader->rest.ptr + len, reader->rest.len - len);
		if (n == 0)
			return fail(reader, ERR_INVALID, "a name in UTF-8");
		len += n;
	}
	if (len == 0)
		return fail(reader, ERR_INVALID, "a name");
	if (len > JSON_NAME_MAX)
		return fail(reader, ERR_TOO_LARGE, "a name of at most 63 bytes");
	step->kind = JSON_STEP_NAME;
	step->len = (uint32_t)len;
	memcpy(step->name, reader->rest.ptr, len);
	reader->rest = span_skip(reader->rest, len);
	return 0;
}

/* "name" with its quotes, as JSON writes a string. */
static int read_quoted(struct reader *reader, struct json_step *step)
{
	size_t len = 1;
	while (len < reader->rest.len && reader->rest.ptr[len] != '"')
		len += reader->rest.ptr[len] == '\\' ? 2 : 1;
	if (len >= reader->rest.len)
		return fail(reader, ERR_INVALID, "a name in quotes");
	struct span quoted = span_of(reader->rest.ptr, len + 1);
	struct json_doc doc;
	size_t value_len;
	if (json_scan(quoted, NULL, &doc) < 0)
		return fail(reader, ERR_INVALID, "a name in quotes, as JSON writes strings");
	if (json_decode(span_of(quoted.ptr + 1, len - 1), step->name, JSON_NAME_MAX, &value_len) !=
	    0)
		return fail(reader, ERR_TOO_LARGE, "a name of at most 63 bytes");
	step->kind = JSON_STEP_NAME;
	step->len = (uint32_t)value_len;
	reader->rest = span_skip(reader->rest, len + 1);
	return 0;
}

static int read_index(struct reader *reader, struct json_step *step)
{
	uint32_t index = 0;
	size_t digits = 0;
	for (int c; (c = peek(reader)) >= '0' && c <= '9'; digits++) {
		index = index * 10 + (uint32_t)(c - '0');
		if (index > INDEX_MAX)
			return fail(reader, ERR_TOO_LARGE, "an index of at most 1000000");
		eat(reader, (char)c);
	}
	if (digits == 0)
		return fail(reader, ERR_INVALID, "an index, * or a name in quotes");
	step->kind = JSON_STEP_INDEX;
	step->index = index;
	return 0;
}

int json_path_parse(struct span text, struct json_path *ret_path, struct json_problem *ret_problem)
{
	struct reader reader = { text.ptr, text, ret_problem };
	struct json_path path = { .count = 0 };
	do {
		if (path.count == JSON_STEPS_MAX)
			return fail(&reader, ERR_TOO_LARGE, "at most 16 steps in a path");
		struct json_step *step = &path.steps[path.count];
		bool bracket = eat(&reader, '[');
		if (!bracket && path.count > 0 && !eat(&reader, '.'))
			return fail(&reader, ERR_INVALID, "a dot or [ after a name");
		int error = 0;
		if (!bracket)
			error = read_name(&reader, step);
		else if (eat(&reader, '*'))
			step->kind = JSON_STEP_EACH;
		else if (peek(&reader) == '"')
			error = read_quoted(&reader, step);
		else
			error = read_index(&reader, step);
		if (error == 0 && bracket && !eat(&reader, ']'))
			error = fail(&reader, ERR_INVALID, "]");
		if (error < 0)
			return error;
		path.count++;
	} while (reader.rest.len > 0);
	*ret_path = path;
	return 0;
}

void json_plan_init(struct json_plan *ret_plan)
{
	memset(ret_plan, 0, sizeof(*ret_plan));
	ret_plan->node_count = JSON_ROOT + 1;
	ret_plan->nodes[0].len = UINT8_MAX;
	ret_plan->nodes[JSON_ROOT].len = UINT8_MAX;
}

static uint32_t index_of(const struct json_step *step)
{
	return step->kind == JSON_STEP_EACH ? JSON_EACH : step->index;
}

/* Plans are small and built once: a search through all nodes will do. */
static uint32_t find_child(const struct json_plan *plan, uint32_t parent,
                           const struct json_step *step)
{
	for (uint32_t i = JSON_ROOT + 1; i < plan->node_count; i++) {
		const struct json_node *node = &plan->nodes[i];
		bool same = step->kind == JSON_STEP_NAME
		                    ? node->len == step->len &&
		                              memcmp(node->name, step->name, step->len) == 0
		                    : node->len == UINT8_MAX && node->index == index_of(step);
		if (same && node->parent == parent)
			return i;
	}
	return 0;
}

static int add_child(struct json_plan *plan, uint32_t parent, const struct json_step *step,
                     uint32_t *ret_node)
{
	struct json_node *above = &plan->nodes[parent];
	bool name = step->kind == JSON_STEP_NAME;
	if (plan->node_count == JSON_NODES_MAX)
		return ERR_TOO_LARGE;
	if (name && above->members == 0) {
		if (plan->table_count == JSON_TABLES_MAX)
			return ERR_TOO_LARGE;
		above->members = (uint8_t)++plan->table_count;
	}
	uint32_t number = plan->node_count++;
	struct json_node *node = &plan->nodes[number];
	node->parent = (uint8_t)parent;
	if (name) {
		node->len = (uint8_t)step->len;
		memcpy(node->name, step->name, step->len);
	} else {
		node->len = UINT8_MAX;
		node->index = index_of(step);
		node->sibling = above->elements;
		above->elements = (uint8_t)number;
	}
	*ret_node = number;
	return 0;
}

int json_plan_add(struct json_plan *plan, const struct json_path *path, uint8_t *ret_node)
{
	uint32_t at = JSON_ROOT;
	for (uint32_t i = 0; i < path->count; i++) {
		uint32_t next = find_child(plan, at, &path->steps[i]);
		int error = next ? 0 : add_child(plan, at, &path->steps[i], &next);
		if (error < 0)
			return error;
		at = next;
	}
	plan->nodes[at].wanted = true;
	*ret_node = (uint8_t)at;
	return 0;
}

/* Fills the table; how many names share a slot with an earlier one. */
static uint32_t fill_table(struct json_plan *plan, uint32_t number)
{
	struct json_table *table = &plan->tables[number];
	uint32_t collisions = 0;
	memset(table->slots, 0, sizeof(table->slots));
	for (uint32_t i = JSON_ROOT + 1; i < plan->node_count; i++) {
		struct json_node *node = &plan->nodes[i];
		if (node->len == UINT8_MAX || plan->nodes[node->parent].members != number + 1)
			continue;
		struct json_name_key key = json_name_key(node->name, node->len,
		                                         node->name + sizeof(node->name));
		/* An empty name is as the scanner meets it: between quotes. */
		const char *name = node->len ? node->name : &"\"\""[1];
		uint8_t *slot = &table->slots[json_name_slot(table, name, node->len)];
		collisions += *slot != 0;
		node->head = key.head;
		node->tail = key.tail;
		node->next = *slot;
		*slot = (uint8_t)i;
	}
	return collisions;
}

void json_plan_seal(struct json_plan *plan)
{
	for (uint32_t number = 0; number < plan->table_count; number++) {
		uint32_t factor = 0x9e3779b1;
		uint32_t best = factor;
		uint32_t fewest = UINT32_MAX;
		for (int tried = 0; tried < FACTORS_TRIED && fewest > 0; tried++) {
			plan->tables[number].factor = factor | 1;
			uint32_t collisions = fill_table(plan, number);
			if (collisions < fewest) {
				fewest = collisions;
				best = factor | 1;
			}
			factor = factor * 747796405u + 2891336453u;
		}
		plan->tables[number].factor = best;
		fill_table(plan, number);
	}
}
