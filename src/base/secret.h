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

/* Where a text repeats the secret, as it is or with some of its bytes written as \/, \u002f or
 * %2F, it becomes ***. `cut`: the text ends where somebody cut it, so the beginning of the
 * secret at its end goes too. Returns the new length. */
size_t secret_blot(char *text, size_t len, struct span secret, bool cut);

/* Overwrites, also where a compiler would think that nobody looks any more. */
void secret_wipe(void *ptr, size_t len);
