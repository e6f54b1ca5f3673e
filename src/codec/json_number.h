/*
 * json_number: numbers of JSON texts by their value.
 *
 * The exact form is for keys: two numbers have the same exact form if and only if
 * they are the same decimal number, however many digits they have. Whole numbers
 * of up to JSON_NUMBER_PLAIN_MAX characters are written plainly, all else as
 * significant digits and a power of ten:
 *
 *   1, 1.0, 10e-1, 0.1E1   1            -0, 0.000, 0e7   0
 *   1.50                   15e-1        1e60             1e60
 *
 * The ECMAScript form is what JSON.stringify() prints for the nearest double:
 * RFC 8785 section 3.2.2.3.
 *
 * Room: codec. Threads: pure. The texts must be numbers that json_scan() accepted.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

#define JSON_NUMBER_PLAIN_MAX 40
#define JSON_NUMBER_ES_MAX 32 /* bytes of any ECMAScript form, with a NUL */

/* Is this its exact form already? */
bool json_number_is_plain(struct span text);

/* Written to `bytes`, where it begins, or `text` itself where that is the exact form already.
 * ERR_TOO_LARGE: more than `room` bytes, or an exponent beyond a thousand million. */
int json_number_exact(struct span text, char *bytes, size_t room,
                      struct span *ret_value) must_check;

/* `text` must have a byte behind it that is no part of a number, such as a NUL.
 * ERR_TOO_LARGE: beyond what a double can hold. */
int json_number_es(struct span text, char ret_bytes[static JSON_NUMBER_ES_MAX],
                   size_t *ret_len) must_check;
