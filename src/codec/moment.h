/*
 * moment: points in time as senders write them.
 *
 * Text is ISO 8601 as RFC 3339 and its relatives have it: 2026-01-02,
 * 2026-01-02T03:04:05, with a blank or t for the T, a fraction of any length
 * after . or a comma, and Z, +01:00, +0100, +01 or nothing (UTC) at the end. A
 * leap second is the last moment of its minute. What is finer than a millisecond
 * is cut off.
 *
 * Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, recognised by
 * their size: below 1e11 (the year 5138) seconds, below 1e14 milliseconds, and
 * so on. A fraction counts: Slack's 1712345678.000200 is a time.
 *
 * Room: codec. Threads: pure.
 * Failure: ERR_INVALID: not a time, before 1970 or after 9999.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

int moment_parse_iso(struct span text, uint64_t *ret_unix_ms) must_check;

/* Digits (and a fraction) are a number, all else is ISO 8601. */
int moment_parse(struct span text, uint64_t *ret_unix_ms) must_check;
