/*
 * window: how long a claim is remembered, in 13 bits.
 *
 * A small float of seconds: 8 bits of mantissa, 5 of exponent. Up to 511 s it is
 * exact, beyond that rounded up by less than 1/256: late expiry costs memory, early
 * expiry would double an effect.
 *
 * Room: gate/local. The codes are stored in claims files (format.h) and never change.
 */
#pragma once

#include <stdint.h>

#define WINDOW_BITS 13

static inline uint32_t window_encode(uint32_t window_s)
{
	if (window_s < 256)
		return window_s;
	uint32_t shift = (uint32_t)(23 - __builtin_clz(window_s)); /* leaves 256 … 511 */
	uint32_t mantissa = window_s >> shift;
	if ((mantissa << shift) != window_s)
		mantissa++; /* 512 carries into the exponent, as it should */
	return ((shift + 1) << 8) + (mantissa - 256);
}

static inline uint64_t window_decode(uint32_t code)
{
	uint32_t exponent = code >> 8;
	uint64_t mantissa = code & 255;
	return exponent ? (mantissa | 256) << (exponent - 1) : mantissa;
}

/* As it is kept: rounded up. */
static inline uint32_t window_kept_s(uint32_t code)
{
	uint64_t window_s = window_decode(code);
	return window_s < UINT32_MAX ? (uint32_t)window_s : UINT32_MAX;
}
