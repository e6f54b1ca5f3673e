/*
 * secret: bytes that nobody may learn, neither from our time nor from our memory.
 *
 * Room: base (libsodium). Threads: pure.
 */
#pragma once

#include "base/check.h"
#include "base/span.h"

/* Are they equal? Lengths are compared first and are no secret; the time for
 * equal lengths tells nothing of the bytes. Two empty spans are not equal: what
 * is empty proves nothing. */
bool secret_equal(struct span a, struct span b) must_check;

/* What is shorter is too common in any text to be blotted out of it. */
#define SECRET_BLOT_MIN 4u

/* Whatever a text repeats of the secret becomes ***. Returns the new length. */
size_t secret_blot(char *text, size_t len, struct span secret);

/* Overwrites, also where a compiler would think that nobody looks any more. */
void secret_wipe(void *ptr, size_t len);
