/*
 * text: numbers, durations, sizes and times, to and from text.
 *
 * Room: base. Threads: pure. Ownership: everything is the caller's.
 * Failure: parsers return ERR_INVALID or ERR_TOO_LARGE, say in ret_text (may be
 * NULL) what was expected, and do not write the result.
 */
#pragma once

#include "base/error.h"
#include "base/span.h"

#define TEXT_U64_MAX 20 /* digits of the greatest u64 */
#define TEXT_TIME_LEN 24
#define TEXT_DURATION_MAX 32

/* Writes decimal digits, no NUL; returns how many. */
size_t text_u64(char ret_digits[static TEXT_U64_MAX], uint64_t value);

/* RFC 3339 in UTC with milliseconds, "2024-01-01T00:00:00.000Z", no NUL. For
 * years up to 9999; later times are written as the last moment of that year. */
void text_time(char ret_text[static TEXT_TIME_LEN], uint64_t unix_ms);

/* "4d", "90s", "1500ms": the greatest unit that is exact. NUL-terminated. */
void text_duration(char ret_text[static TEXT_DURATION_MAX], uint64_t ms);

/* Digits only, no sign or blanks. */
int text_parse_u64(struct span text, uint64_t *ret_value) must_check;

/* "500ms", "10s", "5m", "24h", "4d", "2w": a whole number and a unit. */
int text_parse_duration(struct span text, uint64_t *ret_ms, struct error_text *ret_text) must_check;

/* "512B", "64KiB", "1MiB", "8GiB", "2TiB" (1024) and "1kB", "1MB", "1GB", "1TB"
 * (1000): a whole number and a unit. */
int text_parse_size(struct span text, uint64_t *ret_bytes, struct error_text *ret_text) must_check;
