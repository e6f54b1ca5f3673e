/*
 * hex: hexadecimal digits, either case.
 *
 * Room: base. Threads: pure.
 */
#pragma once

#include "base/span.h"

/* The value of a digit, or -1. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = span_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
