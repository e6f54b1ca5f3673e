/*
 * json_shape: a memory of how texts look that were scanned, by which the next one of
 * the same look is scanned faster.
 *
 * Events of one source differ in what their strings and numbers say, and hardly in
 * anything else. So a shape is a text without the contents of its values: steps, each
 * the bytes from the end of one value to the beginning of the next, names, colons,
 * brackets and blanks and all, and of which node that value is:
 *
 *   {"id":"   ","count":   ,"detail":{"type":"   "}}
 *
 * Where the bytes of all steps stand in a text, and between them strings, numbers and
 * words as RFC 8259 has them, that text is as sound as the one which the shape was
 * learnt from, and its values are of the same nodes; no name has to be looked for. Each
 * byte is judged still: those of the steps by comparing, those of the values as ever.
 * Any other text is scanned in the usual way, and all errors are found there.
 *
 * Shapes that begin alike share their steps: they are a tree. How much is tried and
 * learnt follows from how often it helps, so that texts which are always different
 * cost little more than without.
 *
 * Room:      codec. Threads: one owner.
 * Ownership: plain memory, zeroed is empty; nothing points into a text. Plans are known
 *            by their serial numbers, so they may go away.
 */
#pragma once

#include "codec/json.h"

#define JSON_SHAPE_STEPS 256  /* of all shapes; step 0 is none */
#define JSON_SHAPE_BYTES 64   /* of one step */
#define JSON_SHAPE_LENGTH 128 /* steps of one shape */
#define JSON_SHAPE_OTHERS 6   /* steps at one place */
#define JSON_SHAPE_ENDS 32
#define JSON_SHAPE_CONTAINERS 8 /* that are wanted, in one shape … */
#define JSON_SHAPE_NOTED 32     /* … and steps where they begin or end */
#define JSON_SHAPE_PLANS 8

enum json_shape_next {
	JSON_SHAPE_MORE = 0, /* no value: more bytes, in the next step */
	JSON_SHAPE_STRING,   /* its quote is the last byte of the step, and the first of the next */
	JSON_SHAPE_BARE,     /* a number or a word */
	JSON_SHAPE_END,      /* of the text */
};

struct json_shape_step {
	char bytes[JSON_SHAPE_BYTES]; /* zeros after the last */
	uint64_t mask;                /* a bit for each */
	uint8_t len;
	uint8_t marks; /* how many of the bytes have one (json_marks.h) */
	uint8_t kind;  /* enum json_shape_next */
	uint8_t node;  /* of the value, or 0 */
	uint8_t end;   /* JSON_SHAPE_END: its place in `ends` */
	bool noted;    /* its place is remembered, for a container */
	bool quick;    /* a string that is not noted; the next step is the one behind this */
	uint16_t next;
	uint16_t other; /* what may stand here instead, or 0 */
};

struct json_shape_place {
	uint8_t step; /* which of those that are noted */
	uint8_t offset;
};

struct json_shape_end {
	struct json_set seen;
	struct json_set there; /* unless they turn out to be null or empty */
	bool blanks;
	uint8_t container_count;
	struct json_shape_container {
		uint8_t node;
		uint8_t type; /* enum json_type */
		struct json_shape_place from;
		struct json_shape_place last; /* its closing bracket */
	} containers[JSON_SHAPE_CONTAINERS];
};

struct json_shapes {
	uint64_t serials[JSON_SHAPE_PLANS]; /* of the plans; 0: none */
	uint16_t firsts[JSON_SHAPE_PLANS];  /* steps at the beginning of a text */
	uint32_t plan_next;                 /* whose place is taken next */
	uint32_t step_count;
	uint32_t end_count;
	uint32_t debt;     /* see json_shape.c */
	uint32_t untried;  /* texts that were not compared with shapes … */
	uint32_t unlearnt; /* … and that did not become one, to save time */
	struct json_shape_step steps[JSON_SHAPE_STEPS];
	struct json_shape_end ends[JSON_SHAPE_ENDS];
};

/* For json.c alone. Scans the object at p by a shape that is known; where it ends, or
 * NULL: scan it in the usual way. */
struct json_scanner;
const char *json_shapes_scan(struct json_shapes *shapes, struct json_scanner *s, const char *p);

/* The object from p to `end` was scanned in the usual way. */
void json_shapes_learn(struct json_shapes *shapes, const struct json_scanner *s, const char *p,
                       const char *end);
