/*
 * claim: a digest that may be taken once within its window.
 *
 * Room: gate (pure values; `now` is always a parameter).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLAIMS_MAX 4

/* 128-bit keyed digest (SipHash-2-4-128) over scope, rule and typed parts. */
struct digest {
	uint64_t word[2];
};

enum claim_kind {
	CLAIM_ONCE = 0,    /* this very thing: a key of parts */
	CLAIM_CONTENT = 1, /* the same content under whatever id; decided as `once` */
	CLAIM_NEWEST = 2,  /* this entity, only forwards in time */
};

struct claim {
	struct digest digest;
	uint32_t window_s; /* at least 1 */
	uint8_t kind;      /* enum claim_kind */
	bool shadow;       /* never drops the event; what it would have said is told */
	bool equal_drops;  /* newest: an equal order is stale; else it passes */
	/* newest: what goes forwards: milliseconds << 8 | rank of a tie. */
	uint64_t order;
};
