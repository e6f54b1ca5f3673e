/*
 * json: a validating scanner over raw bytes. It builds no tree: one pass checks that a text is
 * JSON and finds the values of the wanted paths.
 *
 * Grammar: RFC 8259, strictly. UTF-8 without BOM, shortest form, no surrogates;
 * no lone \uD800 … \uDFFF; no control characters in strings; numbers are checked but kept as
 * text; nothing after the value. Containers nest at most
 * JSON_DEPTH_MAX deep and are scanned without recursion.
 *
 * Names are compared by value: "\u0069d" is the name id. A name on a wanted path
 * that occurs twice is refused, since two parsers could see two different events;
 * other names may repeat.
 *
 * Room:      codec. Threads: pure; a plan is read only.
 * Ownership: values point into the caller's text.
 * Failure:   ERR_INVALID, and the doc's problem says where and what was expected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "codec/json_marks.h"
#include "codec/json_plan.h"

#define JSON_DEPTH_MAX 64

static inline bool json_is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Without the blanks around it. */
static inline struct span json_trim(struct span text)
{
	for (; text.len > 0 && json_is_blank(text.ptr[0]); text.len--)
		text.ptr++;
	while (text.len > 0 && json_is_blank(text.ptr[text.len - 1]))
		text.len--;
	return text;
}

enum json_type {
	JSON_NONE = 0, /* not there */
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_OBJECT,
	JSON_ARRAY,
};

struct json_value {
	enum json_type type;
	bool escaped;     /* strings: has a backslash, so json_decode() before comparing */
	struct span text; /* strings: between the quotes, as written; others: all of it */
};

#define JSON_SET_WORDS (JSON_NODES_MAX / 64)

/* One bit a node. */
struct json_set {
	uint64_t words[JSON_SET_WORDS];
};

struct json_doc {
	enum json_type root;
	bool blanks;           /* there may be blanks between its tokens */
	struct json_set seen;  /* nodes that are there at all */
	struct json_set there; /* wanted ones that are neither null nor an empty string */
	struct json_value values[JSON_NODES_MAX]; /* of wanted nodes that were seen */
	struct json_problem problem;              /* set on failure only */
};

static inline bool json_set_has(const struct json_set *set, uint32_t node)
{
	return set->words[node / 64] >> (node % 64) & 1;
}

static inline void json_set_put(struct json_set *set, uint32_t node)
{
	set->words[node / 64] |= UINT64_C(1) << (node % 64);
}

/* The value of a wanted node; its type is JSON_NONE when it is not there. */
static inline struct json_value json_get(const struct json_doc *doc, uint32_t node)
{
	if (!json_set_has(&doc->seen, node))
		return (struct json_value){ .type = JSON_NONE };
	return doc->values[node];
}

/* Validates `text` and finds the values of the plan's paths (NULL: none). On failure
 * nothing but doc->problem means anything. */
int json_scan(struct span text, const struct json_plan *plan, struct json_doc *doc) must_check;

/* The elements of an array, each scanned as a text of its own. */
struct json_elements {
	const char *start;
	const char *at;
	const char *end;
	bool begun;
	struct json_marks marks;
};

/* ERR_INVALID: the text does not begin with a bracket. */
int json_elements_begin(struct json_elements *ret_elements, struct span text) must_check;

/* 1: an element; 0: the array has ended, and nothing comes after it; ERR_INVALID.
 * After a repeated name it may be called again for the same element, with another plan or none. Offsets of problems are those of the whole text. */
int json_elements_next(struct json_elements *elements, const struct json_plan *plan,
                       struct json_doc *doc, struct span *ret_element) must_check;

/* The value of a string that json_scan() accepted, as UTF-8 (it may hold NUL).
 * ERR_TOO_LARGE: more than `room` bytes. */
int json_decode(struct span text, char *bytes, size_t room, size_t *ret_len) must_check;

/* Copies a text that json_scan() accepted without the blanks between its tokens;
 * at most text.len bytes. Returns how many. */
size_t json_compact(struct span text, char *bytes);

/* The members of an object that json_scan() accepted, one each call: `rest` is its text at
 * first. The name is as written, between the quotes. False: there are no more. */
bool json_member_next(struct span *rest, struct span *ret_name, struct span *ret_value);

const char *json_type_name(enum json_type type); /* "a string", "null", … for messages */
