/*
 * json: a validating scanner over raw bytes. It builds nothing: one pass tells
 * whether a text is JSON, and where the wanted members of its top-level object
 * stand.
 *
 * Grammar: RFC 8259, strictly. UTF-8 without BOM, shortest form, no surrogates;
 * no lone \uD800 … \uDFFF; no control characters in strings; numbers are judged
 * but kept as text; nothing after the value. Containers nest at most
 * JSON_DEPTH_MAX deep and are scanned without recursion.
 *
 * Names are compared by value: "\u0069d" is the name id. A wanted name that
 * occurs twice is refused, since two readers would see two different events;
 * other names may repeat.
 *
 * Room:      codec. Threads: pure; a json_wanted is read only after its init.
 * Ownership: values point into the caller's text.
 * Failure:   ERR_INVALID, and the doc's problem says where and what was expected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

#define JSON_DEPTH_MAX 64
#define JSON_WANTED_MAX 16
#define JSON_NAME_MAX 63 /* bytes of a wanted name */

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

/* Wanted names, compiled once. The slot of a name is its place in the list. */
struct json_wanted {
	uint32_t count;
	struct span names[JSON_WANTED_MAX];
	uint8_t first[JSON_NAME_MAX + 1]; /* by length: 1 + slot of the first such name, or 0 */
	uint8_t next[JSON_WANTED_MAX];    /* 1 + slot of the next name as long as this */
};

struct json_problem {
	size_t offset;        /* bytes before the place */
	const char *expected; /* static: what should have been there */
};

struct json_doc {
	enum json_type root;
	struct json_value values[JSON_WANTED_MAX]; /* by slot; those past the count are not set */
	struct json_problem problem;               /* set on failure only */
};

/* The names must outlive `ret_wanted`. ERR_TOO_LARGE: too many or too long;
 * ERR_INVALID: a name twice. */
int json_wanted_init(struct json_wanted *ret_wanted, const struct span *names,
                     size_t count) must_check;

/* Judges `text` and finds the members of the top-level object that are wanted
 * (NULL: none). On failure nothing but doc->problem means anything. */
int json_scan(struct span text, const struct json_wanted *wanted, struct json_doc *doc) must_check;

/* The value of a string that json_scan() accepted, as UTF-8 (it may hold NUL).
 * ERR_TOO_LARGE: more than `room` bytes. */
int json_decode(struct span text, char *bytes, size_t room, size_t *ret_len) must_check;

const char *json_type_name(enum json_type type); /* "a string", "null", … for messages */
