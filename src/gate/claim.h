/*
 * claim: a digest that may be taken once within its window.
 *
 * Room: gate (pure values; `now` is always a parameter).
 */
#pragma once

#include <stdint.h>

#define CLAIMS_MAX 4

/* 128-bit keyed digest (SipHash-2-4-128) over scope, rule and typed parts. */
struct digest {
	uint64_t word[2];
};

struct claim {
	struct digest digest;
	uint32_t window_s; /* at least 1 */
};
